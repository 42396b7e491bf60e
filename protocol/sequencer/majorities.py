"""Which streams have no majority, and which voters are missing since when: told, so that every wait has a reason.

A sequencer looks at its streams once a second and tells the brokers, since whoever asks may reach no sequencer. One
that stands by is asked by brokers without a leader, and tells them whom it has no link to. Nothing here changes
anything: what is done about a queue that can never recover is in `lost_queues.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from ..log.quorum import majority
from ..machine import is_broker
from ..outbox import Outbox
from ..status.machines import WaitingStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER
from ..wire.majority_frames import LOST, RESET, WAITS, Waiting, Waits
from .election import STANDBY, Election
from .order import Order
from .stream import Stream

TOLD = 100
"""At most this many streams are named in one frame."""


class Roll(NamedTuple):
    """Which of a stream's voters are here.

    Attributes:
        voters: whose logs count, as far as is known.
        logs: those here whose logs count. votes: those of them that are counted now; others are too far behind.
        blank: those here without their logs -> up to where they have one again, without a vote.
        certain: of `blank` those of whom no sequencer, however much it knows, can say that they vote.
        adopted: the sequencer has the stream's log, so what it says of the voters is so.
        others: members of the cluster, of whom some may vote in it as well.
        durable: its logs are on disk: what is gone may be put back, so only an operator gives it up.
    """

    voters: list[str]
    logs: set[str]
    votes: set[str]
    blank: dict[str, int]
    certain: set[str]
    adopted: bool
    others: list[str] = []
    durable: bool = False

    def missing(self) -> list[str]:
        return [v for v in dict.fromkeys([*self.voters, *self.others]) if v not in self.logs and v not in self.blank]

    def short(self) -> bool:
        """Whether it has no majority now."""
        return sum(voter in self.votes for voter in self.voters) < majority(self.voters)

    def hopeless(self) -> bool:
        """Whether it can never have one again: of a majority it is certain that they have lost their logs. So fewer
        logs are left than any sequencer must know to adopt it, whoever may come back (S12)."""
        if not self.adopted and self.missing():
            return False  # one of them may know of other voters, or that one of these votes
        return sum(voter in self.certain for voter in self.voters) >= majority(self.voters)

    def nothing(self) -> bool:
        """Whether no voter that is here has anything of it, to browse at least."""
        return not self.logs and not any(self.blank.values())

    def left(self) -> list[str]:
        """Those here that have something of it."""
        return sorted(self.logs.union(voter for voter, have in self.blank.items() if have))


def roll(order: Order, election: Election, stream: Stream) -> Roll:
    """Which of a stream's voters are here, by the reports this sequencer has."""
    if stream.ready:
        voters = stream.voters or order.members
        keepers = stream.keepers
        votes = {v for v, keeper in keepers.items() if keeper.voting}
        logs = votes | {v for v, (_, frame) in stream.reports.items() if not frame.blank}
        blank = {v: keeper.match for v, keeper in keepers.items() if not keeper.voting and v not in logs}
        # One may have been given its vote back by an earlier sequencer, and not be counted yet for being far behind.
        returned = {v: stream.returned.get(v, (-1, 0)) for v in blank}
        certain = {v for v, (inc, index) in returned.items() if inc != keepers[v].log_inc or index > stream.start}
        return Roll(list(voters), logs, votes, blank, certain, True, durable=stream.stored)
    cluster = order.streams.get(CLUSTER)
    floor = election.floor(cluster) if cluster is not None else {}
    _, quorums, known = election.standing(stream, floor, order.members)
    voters = list(dict.fromkeys(voter for group, _ in quorums for voter in group))
    reports = {v: frame for v, (_, frame) in stream.reports.items() if v not in known}
    blank = {v: frame.have for v, frame in reports.items()}
    if stream.name == CLUSTER:
        blank |= {v: 0 for v, promise in election.promises.items() if promise.blank and v not in known | blank}
    return Roll(voters, set(known), set(known), blank, set(blank), False, list(order.members), stream.stored)


class MajorityWatch:
    """The looks of one sequencer, and what its brokers have been told.

    Args:
        linked: peers there is a link to.

    Attributes:
        streams: what waits, as of the last look; the cluster's own first.
        rolls: stream that has no majority -> who of its voters is here.
    """

    def __init__(
        self,
        order: Order,
        outbox: Outbox,
        election: Election,
        linked: dict[str, None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._order = order
        self._outbox = outbox
        self._election = election
        self._linked = linked
        self.streams: list[Waiting] = []
        self.rolls: dict[str, Roll] = {}
        self.due_ms = 0
        self._short_ms: dict[str, int] = {}  # stream -> since when it has no majority
        self._missing_ms: dict[tuple[str, str], int] = {}  # (stream without one, voter) -> since when it is missing
        self._parted_ms: dict[str, int] = {}  # broker -> since when there is no link to it
        self._told: set[str] = set()  # brokers that know of something which waits

    def up(self, peer: str) -> None:
        self._parted_ms.pop(peer, None)
        self._told.discard(peer)

    def down(self, peer: str) -> None:
        self._told.discard(peer)
        if is_broker(peer):
            self._parted_ms[peer] = self._outbox.now_ms

    # ---- looking

    def look(self) -> bool:
        """Once a second: which streams have no majority. Whether it was time."""
        order, now_ms = self._order, self._outbox.now_ms
        if now_ms < self.due_ms or self._election.role == STANDBY:
            return False
        self.due_ms = now_ms + self._timing.majority_look_ms
        streams = list(order.streams.values())
        if CLUSTER not in order.streams:  # no broker has promised anything yet
            streams.append(Stream(CLUSTER, order.members))
        self.rolls = {s.name: found for s in streams if (found := self._short(s)) is not None}
        self._short_ms = {name: self._short_ms.get(name, now_ms) for name in self.rolls}
        self._missing_ms = {
            (name, voter): self._missing_ms.get((name, voter), self._parted_ms.get(voter, now_ms))
            for name, found in self.rolls.items()
            for voter in found.missing()
        }
        names = sorted(self.rolls, key=lambda name: (name != CLUSTER, name))
        noted_ms = self._timing.majority_noted_ms
        self.streams = [self._described(n) for n in names if now_ms - self._short_ms[n] >= noted_ms]
        return True

    def _short(self, stream: Stream) -> Roll | None:
        if stream.gone:
            return None  # it is being deleted
        if stream.ready and not stream.voters:
            return None  # of the first term, and no keeper has reported yet
        found = roll(self._order, self._election, stream)
        return found if found.short() else None

    def missing_ms(self, name: str) -> dict[str, int]:
        """Voters that are missing in a stream without a majority -> for how long."""
        return {v: self._outbox.now_ms - self._missing_ms[name, v] for v in self.rolls[name].missing()}

    def short_ms(self, name: str) -> int:
        return self._outbox.now_ms - self._short_ms[name]

    def fate(self, name: str) -> str:
        """The fate of a stream that has no majority."""
        found = self.rolls[name]
        if not found.hopeless():
            return WAITS
        if name == CLUSTER or found.durable or not found.nothing():
            return RESET
        return LOST if all(ms >= self._timing.lost_ms for ms in self.missing_ms(name).values()) else RESET

    def _described(self, name: str) -> Waiting:
        found = self.rolls[name]
        return Waiting(
            name,
            found.voters,
            majority(found.voters),
            sorted(found.logs),
            sorted(found.blank),
            self.missing_ms(name),
            self.short_ms(name),
            self.fate(name),
        )

    # ---- saying it

    def tell(self) -> None:
        """The brokers that can be reached, once a second, while anything waits."""
        if not self.look():
            return
        peers = [peer for peer in self._linked if is_broker(peer)] if self.streams else sorted(self._told)
        for peer in peers:
            self._outbox.send(peer, self._frame(self.streams))
        self._told = set(peers) if self.streams else set()

    def suspected(self, peer: str, members: list[str]) -> None:
        """A broker has no leader, and this sequencer stands by: whom there is no link to, if that is why."""
        now_ms = self._outbox.now_ms
        if self._election.role != STANDBY:
            return
        linked = [member for member in members if member in self._linked]
        if len(linked) >= majority(members):
            return
        for member in members:
            if member not in self._linked:
                self._parted_ms.setdefault(member, now_ms)
        missing = {m: now_ms - self._parted_ms[m] for m in members if m not in self._linked}
        waits = Waiting(CLUSTER, list(members), majority(members), linked, [], missing, max(missing.values()))
        self._outbox.send(peer, self._frame([waits]))

    def _frame(self, streams: list[Waiting]) -> Waits:
        return Waits(self._order.ballot, self._election.role, streams[:TOLD], max(0, len(streams) - TOLD))

    def report(self) -> list[WaitingStatus]:
        return [] if self._election.role == STANDBY else [WaitingStatus.of(waiting) for waiting in self.streams]
