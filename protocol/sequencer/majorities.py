"""Which streams have no majority, who is missing and since when: said, so that nobody waits without knowing for what.

A sequencer looks at its streams once a second and tells the brokers, since whoever asks may reach no sequencer. One
that stands by is asked by brokers without a leader, and tells them whom it has no link to. Nothing here changes
anything: what is done about a queue that can never recover is in `lost_queues.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..log.quorum import majority
from ..machine import is_broker
from ..wire.events import CLUSTER
from ..wire.majority_frames import LOST, RESET, WAITS, Waiting, Waits
from .election import LEADING, PREPARING, STANDBY
from .streams import Stream

if TYPE_CHECKING:
    from .machine import SequencerMachine

LOOK_MS = 1000
NOTED_MS = 1000
"""A stream without its majority for less is no news: a takeover takes some of that."""
TOLD = 100
"""So many streams are named in one frame."""
LOST_MS = 10_000
"""Who is missing for so long is not waited for, when nobody else has anything of a queue."""
KEPT_MS = 5000
"""How long a broker holds on to what it has been told by somebody who says no more."""


class Roll(NamedTuple):
    """Who of a stream's voters is here.

    Attributes:
        voters: whose logs count, as far as is known.
        logs: those here whose logs count. votes: those of them that are counted now; others are too far behind.
        blank: those here without their logs -> up to where they have one again, without a vote.
        certain: of `blank` those of whom no sequencer, however much it knows, can say that they vote.
        adopted: the sequencer has the stream's log, so what it says of the voters is so.
        others: members of the cluster, of whom some may vote in it as well.
    """

    voters: list[str]
    logs: set[str]
    votes: set[str]
    blank: dict[str, int]
    certain: set[str]
    adopted: bool
    others: list[str] = []

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
        """Whether nobody who is here has anything of it, to browse at least."""
        return not self.logs and not any(self.blank.values())


def roll(machine: SequencerMachine, stream: Stream) -> Roll:
    """Who of a stream's voters is here, by what this sequencer has been told."""
    if stream.ready:
        voters = stream.voters or machine.members
        keepers = stream.keepers
        votes = {v for v, keeper in keepers.items() if keeper.voting}
        logs = votes | {v for v, (_, frame) in stream.reports.items() if not frame.blank}
        blank = {v: keeper.match for v, keeper in keepers.items() if not keeper.voting and v not in logs}
        # One may have been given its vote back by an earlier sequencer, and not be counted yet for being far behind.
        returned = {v: stream.returned.get(v, (-1, 0)) for v in blank}
        certain = {v for v, (inc, index) in returned.items() if inc != keepers[v].inc or index > stream.start}
        return Roll(list(voters), logs, votes, blank, certain, True)
    cluster = machine.streams.get(CLUSTER)
    floor = machine.election.floor(cluster) if cluster is not None else {}
    _, quorums, known = machine.election.standing(stream, floor, machine.members)
    voters = list(dict.fromkeys(voter for group, _ in quorums for voter in group))
    reports = {v: frame for v, (_, frame) in stream.reports.items() if v not in known}
    blank = {v: frame.have for v, frame in reports.items()}
    if stream.name == CLUSTER:
        blank |= {v: 0 for v, promise in machine.election.promises.items() if promise.blank and v not in known | blank}
    return Roll(voters, set(known), set(known), blank, set(blank), False, machine.members)


class MajorityWatch:
    """Of one sequencer.

    Attributes:
        streams: what waits, as of the last look; the cluster's own first.
        rolls: stream that has no majority -> who of its voters is here.
    """

    def __init__(self, machine: SequencerMachine) -> None:
        self.machine = machine
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
            self._parted_ms[peer] = self.machine.now_ms

    # ---- looking

    def look(self) -> bool:
        """Once a second: which streams have no majority. Whether it was time."""
        machine = self.machine
        now_ms = machine.now_ms
        if now_ms < self.due_ms or machine.election.role == STANDBY:
            return False
        self.due_ms = now_ms + LOOK_MS
        streams = list(machine.streams.values())
        if CLUSTER not in machine.streams:  # nobody has promised anything yet
            streams.append(Stream(CLUSTER, machine.members))
        self.rolls = {s.name: found for s in streams if (found := self._short(s)) is not None}
        self._short_ms = {name: self._short_ms.get(name, now_ms) for name in self.rolls}
        self._missing_ms = {
            (name, voter): self._missing_ms.get((name, voter), self._parted_ms.get(voter, now_ms))
            for name, found in self.rolls.items()
            for voter in found.missing()
        }
        names = sorted(self.rolls, key=lambda name: (name != CLUSTER, name))
        self.streams = [self._described(n) for n in names if now_ms - self._short_ms[n] >= NOTED_MS]
        return True

    def _short(self, stream: Stream) -> Roll | None:
        if stream.gone:
            return None  # it is being deleted
        if stream.ready and not stream.voters:
            return None  # of the first term, and nobody has come yet
        found = roll(self.machine, stream)
        return found if found.short() else None

    def missing_ms(self, name: str) -> dict[str, int]:
        """Who is missing in a stream without a majority -> for how long."""
        return {v: self.machine.now_ms - self._missing_ms[name, v] for v in self.rolls[name].missing()}

    def short_ms(self, name: str) -> int:
        return self.machine.now_ms - self._short_ms[name]

    def fate(self, name: str) -> str:
        """What becomes of a stream that has no majority."""
        found = self.rolls[name]
        if not found.hopeless():
            return WAITS
        if name == CLUSTER or not found.nothing():
            return RESET
        return LOST if all(ms >= LOST_MS for ms in self.missing_ms(name).values()) else RESET

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
        peers = [peer for peer in self.machine.linked if is_broker(peer)] if self.streams else sorted(self._told)
        for peer in peers:
            self.machine.send(peer, self._frame(self.streams))
        self._told = set(peers) if self.streams else set()

    def suspected(self, peer: str, members: list[str]) -> None:
        """A broker has no leader, and this sequencer stands by: whom there is no link to, if that is why."""
        machine = self.machine
        if machine.election.role != STANDBY:
            return
        linked = [member for member in members if member in machine.linked]
        if len(linked) >= majority(members):
            return
        for member in members:
            if member not in machine.linked:
                self._parted_ms.setdefault(member, machine.now_ms)
        missing = {m: machine.now_ms - self._parted_ms[m] for m in members if m not in machine.linked}
        waits = Waiting(CLUSTER, members, majority(members), linked, [], missing, max(missing.values()))
        machine.send(peer, self._frame([waits]))

    def _frame(self, streams: list[Waiting]) -> Waits:
        return Waits(self.machine.ballot, self.machine.election.role, streams[:TOLD], max(0, len(streams) - TOLD))

    def report(self) -> dict[str, Any]:
        if self.machine.election.role == STANDBY:
            return {"waiting": []}
        return {"waiting": [msgspec.structs.asdict(waiting) for waiting in self.streams]}


class WaitsHeard:
    """What one broker has been told of streams that wait.

    The leader's word counts as long as it speaks; without one, the last that anybody said.
    """

    __slots__ = ("_by", "_frame", "_heard_ms")

    def __init__(self) -> None:
        self._by = ""
        self._frame: Waits | None = None
        self._heard_ms = 0

    def hear(self, peer: str, frame: Waits, now_ms: int) -> None:
        known = self._frame
        recent = known is not None and now_ms - self._heard_ms < LOOK_MS
        if known is not None and recent and peer != self._by:
            rank = {STANDBY: 0, PREPARING: 1, LEADING: 2}
            if (rank.get(frame.role, 0), frame.ballot) < (rank.get(known.role, 0), known.ballot):
                return
        self._by, self._frame, self._heard_ms = peer, frame, now_ms

    def waits(self, stream: str, now_ms: int) -> bool:
        """Whether that stream has no majority, as far as is known; of those that were not named one is as good as
        another."""
        frame = self._frame
        if frame is None or now_ms - self._heard_ms > KEPT_MS:
            return False
        return frame.more > 0 or any(waiting.stream == stream for waiting in frame.streams)

    def report(self, now_ms: int) -> dict[str, Any]:
        """`waiting`: the streams, as `Waiting`'s fields; `waiting_more`: so many others; `waiting_by`: who says so, and
        in which role; `waiting_heard_ms`: how long ago."""
        frame = self._frame
        if frame is None or now_ms - self._heard_ms > KEPT_MS:
            return {"waiting": [], "waiting_more": 0, "waiting_by": "", "waiting_role": "", "waiting_heard_ms": 0}
        return {
            "waiting": [msgspec.structs.asdict(waiting) for waiting in frame.streams],
            "waiting_more": frame.more,
            "waiting_by": self._by,
            "waiting_role": frame.role,
            "waiting_heard_ms": now_ms - self._heard_ms,
        }
