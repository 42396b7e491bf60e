"""Log entries kept for members that are behind, and flow control, which bounds them (`design.md` 7, S8).

A majority goes on without a voter that is slow, so the entries it lacks gather here and, with the same trim, at every
keeper. A member that is behind by more than the stop threshold, in bytes or in entries over all its streams, turns flow
control on for the whole cluster; it goes off when both are below the resume thresholds, or the member is evicted. One
that has not come below for `Timing.backlog_patience_ms`, or is behind by `Limits.flow_give_up` times the limit, has had
its window: what is kept for it is forgotten, and it comes back through an update. One member at a time, and where the
others are a majority, by what they have answered since: a process that is given up forgets its log at once, so a voter
that had just lost its power, unknown to the sequencer, would leave one copy of three. Until then the entries are kept,
and the member catches up by them if it is needed.

Who joins is counted from its first report on, before it is a member: what is committed is kept for its copies as well,
and while it is none, it is not evicted for its silence. So is one that was evicted and of which only some processes
have reported since.

A member whose disk has no room turns flow control on, too (`durable.md` 6): nothing completes, and what frees space
goes on. It is spared after the same window, if the others have room and are a majority: then it is as slow as its disk
is. Where too few have room, all wait for consumers or the operator.

So does a member whose processes have more memory than they may (`broker/memory.py`), by its own word. It is not spared:
its copies of the queues are as large as the others', and what consumers take away makes room at all.

So a sequencer and a keeper hold, for each member that is behind, what the stop threshold says, plus what was under way
when it was passed: `Limits.uncommitted_bytes` per broker at most; less, if senders' capacities are less.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from ..limits import DEFAULT, Limits
from ..log.quorum import majority
from ..outbox import Outbox
from ..status.machines import BehindStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, FlowControl, encode_event
from ..wire.log_frames import Evicted
from .evictions import Evictions
from .failure_detector import FailureDetector
from .order import Order
from .progress import Progress
from .retention import Retention
from .stream import Stream


class Lag(NamedTuple):
    """How far a member is behind what is committed."""

    bytes: int = 0
    entries: int = 0

    def above(self, share: float, limits: Limits) -> bool:
        """Whether either is strictly more than `share` of its limit."""
        return self.bytes > share * limits.backlog_bytes or self.entries > share * limits.backlog_entries

    def below(self, share: float, limits: Limits) -> bool:
        """Whether both are strictly less."""
        return self.bytes < share * limits.backlog_bytes and self.entries < share * limits.backlog_entries


class Backlog:
    """The entries kept in one term for members that are behind, and whether flow control is on.

    Args:
        detector: knows which beats the members have answered.

    Attributes:
        on: member that flow control is on for -> since when.
        passed: (stream, voter) for which nothing is kept any more.
        count: how often flow control has gone on in this term.
        due_ms: when to look again.
        pressed: member whose disk has no room, by its own word -> since when.
        crowded: member whose processes have more memory than they may -> that, in words.
    """

    def __init__(
        self,
        order: Order,
        outbox: Outbox,
        evictions: Evictions,
        detector: FailureDetector,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
    ) -> None:
        self._look_ms = timing.backlog_look_ms
        self._patience_ms = timing.backlog_patience_ms
        self._ask_again_ms = timing.suspect_ms
        self._limits = limits
        self._order = order
        self._outbox = outbox
        self._evictions = evictions
        self._detector = detector
        self.retention = Retention(order, evictions, limits)
        self.on: dict[str, int] = {}
        self.passed: set[tuple[str, str]] = set()
        self.count = 0
        self.due_ms = 0
        self.pressed: dict[str, int] = {}
        self.crowded: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._behind_ms: dict[str, int] = {}  # member that flow control is on for -> when its window began
        self._asked: dict[str, tuple[int, int]] = {}  # member to be given up -> last beat when that was found, and when

    # ---- how far behind

    def lag_in(self, stream: Stream, member: str) -> Lag:
        keeper = stream.keepers.get(member)
        match = max(keeper.match, keeper.kept_from, stream.held) if keeper is not None else stream.held
        if match >= stream.commit or not stream.ready or member in stream.gone:
            return Lag()
        if keeper is None and (
            member in self._evictions.absent  # else some process of it is back, and its broker not yet, say
            or (stream.name, member) in self.passed
            or member not in stream.voters + stream.changed
        ):
            return Lag()
        return Lag(stream.size[stream.commit] - stream.size[match], stream.commit - match)

    def lag(self, member: str) -> Lag:
        lags = [self.lag_in(stream, member) for stream in self._order.streams.values()]
        return Lag(sum(lag.bytes for lag in lags), sum(lag.entries for lag in lags))

    def _kept(self) -> Lag:
        """All that the logs hold for members that are waited for: none is behind by more."""
        streams = self._order.streams.values()
        return Lag(sum(s.total - s.size[s.held] for s in streams), sum(s.end - s.held for s in streams))

    def _waited_for(self) -> list[str]:
        """Whoever may keep a log from being forgotten: the members, and who is about to be one or is one no more, whose
        copies are streams' keepers and voters before and after."""
        streams = self._order.streams.values()
        others = (voter for stream in streams for voter in (*stream.keepers, *stream.voters, *stream.changed))
        return list(dict.fromkeys([*self._order.members, *self.on, *others]))

    # ---- on and off

    def disk(self, member: str, full: bool) -> None:
        """A member's word on the room on its disk."""
        if full:
            self.pressed.setdefault(member, self._outbox.now_ms)
        else:
            self.pressed.pop(member, None)
        self.due_ms = 0

    def memory(self, member: str, why: str) -> None:
        """A member's word on the memory of its processes; "": they may have more."""
        if why:
            self.crowded[member] = why
        else:
            self.crowded.pop(member, None)
        self.due_ms = 0

    def _wants_room(self, member: str) -> str:
        """Why everybody is to wait for room at that member; "" if nobody is."""
        if self._waits_for_room(member):
            return f"the disk of {member} has no room"
        if member not in self._order.members or member in self._evictions.absent:
            return ""
        return self.crowded.get(member, "")

    def _waits_for_room(self, member: str) -> bool:
        """Whether everybody is to wait for room on that member's disk."""
        since_ms, members = self.pressed.get(member), self._order.members
        if since_ms is None or member not in members or member in self._evictions.absent:
            return False
        if self._outbox.now_ms - since_ms < self._patience_ms:
            return True
        return len(members) - sum(one in self.pressed for one in members) < majority(members)

    def look(self) -> None:
        """Whether a member is too far behind, or has caught up."""
        order, now_ms, limits = self._order, self._outbox.now_ms, self._limits
        self.due_ms = now_ms + self._look_ms
        cluster = order.streams.get(CLUSTER)
        if cluster is None or not cluster.ready:
            return
        if not (self.on or self.pressed or self.crowded) and not self._kept().above(limits.flow_stop, limits):
            return
        for stream in order.streams.values():
            self.trim(stream)  # who has left, or has nothing to say any more, holds nothing up
        for member in self._waited_for():
            lag = self.lag(member)  # none when all of it is evicted, or has gone before it was a member
            since_ms, full = self.on.get(member), self._wants_room(member)
            if since_ms is None:
                if full:
                    self._switch(cluster, member, True, full)
                elif lag.above(limits.flow_stop, limits):
                    self._switch(cluster, member, True, self._reason(member, lag))
                continue
            caught_up = lag.below(limits.flow_resume, limits)
            if caught_up and member in self.crowded:
                self._behind_ms[member] = now_ms  # it has been waited for, but was not behind
            late = not caught_up and now_ms - self._behind_ms[member] >= self._patience_ms
            if not late and not lag.above(limits.flow_give_up, limits):
                self._asked.pop(member, None)
            elif self._may_go(member):
                self._give_up(member, lag)
                lag = self.lag(member)
            if lag.below(limits.flow_resume, limits) and not full:
                self._switch(cluster, member, False, "")

    def _switch(self, cluster: Stream, member: str, on: bool, reason: str) -> None:
        if on:
            self.count += not self.on
            self.on[member] = self._behind_ms[member] = self._outbox.now_ms
            self._reasons[member] = reason
        else:
            del self.on[member], self._reasons[member], self._behind_ms[member]
            self._asked.pop(member, None)
        self._order.append(cluster, encode_event(FlowControl(member, on, reason)))

    def _reason(self, member: str, lag: Lag) -> str:
        streams = self._order.streams.values()
        worst = max(streams, key=lambda stream: (self.lag_in(stream, member), stream.name))
        where = "the wiring" if worst.name == CLUSTER else f"queue {worst.name.rpartition('#')[0]}"
        return f"{member} is {lag.entries:,} events, {lag.bytes / 2**20:.1f} MiB behind, the most in {where}"

    # ---- what is kept

    def trim(self, stream: Stream) -> None:
        """Forget what every member holds that is waited for, but for what is retained."""
        keepers, absent, passed, gone = stream.keepers, self._evictions.absent, self.passed, stream.gone
        if stream.commit <= stream.base or not stream.ready:
            return
        upto = min([stream.commit, *(max(keeper.match, keeper.kept_from) for keeper in keepers.values())])
        if upto > stream.base and all(
            v in keepers or v in absent or v in gone or (stream.name, v) in passed
            for v in stream.voters + stream.changed
        ):  # fmt: skip
            stream.held = upto
            if stream.stored:
                upto = self.retention.upto(stream)
            if upto > stream.base:
                stream.forget(upto)

    def _give_up(self, member: str, lag: Lag) -> None:
        """It has had its window: the streams it is furthest behind in go, until the rest is not much. The wiring's, and
        so its whole broker, only when that alone is too much."""
        limits = self._limits
        behind = [(self.lag_in(stream, member), stream) for stream in self._order.streams.values()]
        behind.sort(key=lambda item: item[0], reverse=True)
        for part, stream in behind:
            if lag.below(limits.flow_resume, limits) or not part.entries:
                break
            if stream.name != CLUSTER or not part.below(limits.flow_resume, limits):
                lag = Lag(lag.bytes - part.bytes, lag.entries - part.entries)
                self._pass_over(stream, member)

    def _can_spare(self, member: str, alive: Container[str] | None = None) -> bool:
        """Whether the others (those of them that are `alive`) are a majority without it, in every stream: its processes
        keep other queues as well, and another member may have just been given up in one of them. Without a majority
        nothing is committed, so nothing gathers either."""
        return all(s.stands_without(member, alive) for s in self._order.streams.values() if not s.gone)

    def _may_go(self, member: str) -> bool:
        """Whether others that make a majority without it have answered a beat that was sent since it was to be given
        up: no link tells that the node at its other end has lost power. One that does not answer is evicted soon:
        then the others are a majority, or the member is needed, and what it lacks gathers no more. Old answers prove
        little, so the question is put again after a while."""
        now_ms, detector = self._outbox.now_ms, self._detector
        if not self._can_spare(member):
            self._asked.pop(member, None)
            return False
        number, asked_ms = self._asked.get(member, (0, now_ms - self._ask_again_ms))
        if now_ms - asked_ms >= self._ask_again_ms:
            self._asked[member] = detector.number, now_ms
            detector.due_ms = min(detector.due_ms, now_ms)  # meanwhile more gathers
            self._outbox.wake(now_ms)
            return False
        return self._can_spare(member, detector.answered_since(number))

    def heard(self) -> None:
        """A member has answered a beat: its answer may be the one that was waited for."""
        if self._asked:
            self.due_ms = 0

    def _why_kept(self, member: str) -> str:
        """Why a member that is to be given up is waited for all the same; "" if it is not."""
        if member not in self._asked:
            spared = self.lag(member).below(self._limits.flow_resume, self._limits) or self._can_spare(member)
            return "" if spared else ", and the others are no majority without it"
        alive, streams = self._detector.answered_since(self._asked[member][0]), self._order.streams.values()
        silent = {v for s in streams for v in s.voters if v != member and v in s.keepers and v not in alive}
        return f", and not given up before an answer of {', '.join(sorted(silent))}" if silent else ""

    def _pass_over(self, stream: Stream, member: str) -> None:
        keeper = stream.keepers.pop(member, None)
        stream.left[member] = -1
        stream.away.add(member)
        self.passed.add((stream.name, member))
        if keeper is not None:
            reason = f"{member} is too far behind in {stream.name}: come back through an update (S8)"
            self._outbox.send(keeper.peer, Evicted(reason, True, stream.name))
            self._order.part_with(keeper.peer)
        self.trim(stream)

    def enrolled(self, stream: Stream, voter: str, keeper: Progress) -> None:
        self.passed.discard((stream.name, voter))
        stream.left.pop(voter, None)
        if keeper.updating:
            # What others lack that are updated as well is not kept for it, or each would be given up for the other.
            applied = min((other.applied for other in stream.keepers.values() if not other.updating), default=0)
            keeper.kept_from = min(applied, stream.commit)
        else:
            stream.held = max(stream.base, min(stream.held, keeper.next - 1))

    def dropped(self, stream: Stream) -> None:
        """The stream is gone."""
        self.passed = {item for item in self.passed if item[0] != stream.name}
        self.retention.dropped(stream)

    def report(self) -> dict[str, BehindStatus]:
        """Each member that flow control is on for."""
        now_ms = self._outbox.now_ms
        return {
            member: BehindStatus(
                reason=self._reasons.get(member, "") + self._why_kept(member), for_ms=now_ms - since_ms
            )
            for member, since_ms in self.on.items()
        }
