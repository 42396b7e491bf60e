"""The sequencer: gives every event its place in the one total order, and says when it is committed.

Rules S1 to S8 of `sequencer.md`. It never looks inside an event. Each stream is a log of its own with its own majority,
so one queue's trouble is its own; `seq`, on every entry, is its place in the order of the whole cluster. How a standby
comes to lead is in `election.py`, whom it takes for dead in `failure_detector.py`, what it knows of a stream in
`streams.py`.

What a step gathers is said at `Flush`: one `Append` per stream with news, encoded once for all keepers that stand at
the same place, and one `Results` per origin. Under load, batches grow by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..broker.queue_placement import INCARNATIONS_PER_BROKER
from ..errors import LocalError
from ..lock.duty import Duty, hears_beats
from ..log.quorum import held_by_majority, majority, recovery_quorum
from ..machine import Effect, Flush, Input, Multicast, PeerDown, PeerUp, Received, Send, SetTimer, Tick, is_broker
from ..supervisor.office import Office
from ..wire.events import CLUSTER, ZERO, Ballot, Entry, Evict, Start, encode_event
from ..wire.frame import Frame
from ..wire.log_frames import (
    Ack,
    Evicted,
    Fetched,
    Gap,
    HeartbeatReply,
    Leave,
    LogDropped,
    LogReport,
    Nack,
    Orphaned,
    Prepare,
    Promise,
    Request,
    Suspect,
    UpdateStart,
)
from ..wire.majority_frames import Reset
from .backlog import Backlog
from .election import GRACE_MS, LEADING, PREPARE_MS, PREPARING, STANDBY, Election
from .failure_detector import FailureDetector
from .lost_queues import LostQueues
from .majorities import MajorityWatch
from .mandate import CHARGES, Mandate
from .membership import Membership
from .recovery import Recovery
from .rejoin import Rejoins
from .replicator import LAZY_MS, answer, replicate
from .streams import Origin, Part, Pending, Progress, Stream


def _broker_of(peer: str) -> str:
    return peer.partition(".")[0]


class SequencerMachine:
    """One sequencer: a standby, or the one that leads.

    Args:
        uid: fresh per incarnation; with a counter it makes the ballot.
        members: the broker ids; each is a voter of every stream until the streams say otherwise.
        counter: of the first ballot.
        leading: the cluster begins with this one; the others wait until they are asked.

    Attributes:
        out: broker -> the incarnation up to which it is evicted.
        absent: brokers that are evicted and have not come back.
    """

    def __init__(self, uid: int, members: list[str], counter: int = 1, leading: bool = True) -> None:
        self.members = list(members)
        if majority(members) + recovery_quorum(members) <= len(members):
            raise LocalError("commit quorum and recovery quorum must have a voter in common: their sum exceeds n")
        self.uid = uid
        self.ballot: Ballot = (counter, uid) if leading else ZERO
        self.born = leading
        """This is the cluster's first term: there is nothing to adopt."""
        self.seq = 0
        self.deposed: Ballot | None = None
        """A higher ballot that was seen: this sequencer has stopped for good (S7)."""
        self.out: dict[str, int] = {}
        self.absent: set[str] = set()
        self.election = Election(self.members, LEADING if leading else STANDBY)
        self.detector = FailureDetector(self.members, None)
        self.recovery = Recovery(self)
        self.rejoins = Rejoins(self)
        self.membership = Membership(self)
        self.backlog = Backlog(self)
        self.watch = MajorityWatch(self)
        self.lost_queues = LostQueues(self)
        self.office = Office()
        self.mandate = Mandate(self)
        self.duty = Duty()
        self.linked: dict[str, None] = {}
        self.streams: dict[str, Stream] = {}
        self.dropped: set[str] = set()
        self._origins: dict[str, Origin] = {}
        self.dirty: dict[str, None] = {}  # streams with something to say, in order of arrival
        self._results: dict[tuple[str, int], list[int]] = {}  # (peer, inc) -> numbers to answer at the next flush
        self.lazy: dict[str, None] = {}  # streams with keepers that do not know the commit index yet
        self.lazy_at_ms = 0  # when they are told
        self._timer = 0
        self.now_ms = 0
        self.effects: list[Effect] = []

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        if self.deposed is not None:
            return []
        kind = type(input)
        if kind is Received:
            rule = _RULES.get(type(input.frame))  # type: ignore[union-attr]
            if rule is not None:
                rule(self, input.peer, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            return self._flush()
        elif kind is Tick:
            self.now_ms = input.now_ms  # type: ignore[union-attr]
            if self._timer and self.now_ms >= self._timer:
                self._timer = 0
                self._tick()
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects

    def send(self, peer: str, frame: Frame) -> None:
        self.effects.append(Send(peer, frame))

    def wake(self, at_ms: int) -> None:
        if not self._timer or at_ms < self._timer:
            self._timer = at_ms
            self.effects.append(SetTimer(at_ms))

    def _tick(self) -> None:
        now_ms = self.now_ms
        if self.lazy_at_ms:
            if now_ms >= self.lazy_at_ms:
                self.lazy_at_ms = 0
                self.dirty |= self.lazy
            else:
                self.wake(self.lazy_at_ms)
        role = self.election.role
        if role == PREPARING:
            if now_ms >= self.election.asked_ms + PREPARE_MS:
                self.recovery.ask(list(self.linked))
            self.recovery.recover_all()
            self.watch.tell()
            self.wake(now_ms + GRACE_MS)
        elif role == LEADING:
            if any(not stream.ready for stream in self.streams.values()):
                self.recovery.recover_all()
                self.wake(now_ms + GRACE_MS)
            if now_ms >= self.detector.due_ms:
                self._heartbeat()
            self.wake(self.detector.due_ms)

    def _peer_up(self, peer: str) -> None:
        self.linked[peer] = None
        self.watch.up(peer)
        self.duty.up(peer)
        if self.election.role == LEADING:
            if is_broker(peer):
                self.detector.up(peer, self.now_ms)
            self.send(peer, self.duty.beat(self))
            self.wake(max(self.detector.due_ms, self.now_ms))
        elif self.election.role == PREPARING:
            self.send(peer, Prepare(self.ballot))

    def _peer_down(self, peer: str) -> None:
        self.linked.pop(peer, None)
        self.watch.down(peer)
        self.duty.down(peer, self.now_ms)
        if is_broker(peer) and self.election.role == LEADING:
            self.detector.down(peer, self.now_ms)
            self.wake(self.detector.due_ms)
        for stream in list(self.streams.values()):
            for voter, keeper in list(stream.keepers.items()):
                if keeper.peer == peer:
                    del stream.keepers[voter]
                    stream.away.add(voter)
            if stream.asked == peer:
                stream.asked = ""
            stream.updates.pop(peer, None)
            for voter in [v for v, (p, _) in stream.reports.items() if p == peer]:
                del stream.reports[voter]
            self.drop_if_gone(stream)  # it may have been the last one that had not heard of the deletion
            if stream.name == CLUSTER:
                self._answer(stream)

    # ---- the living and the dead

    def _heartbeat(self) -> None:
        self.rejoins.hear_again()
        # While a voter is kept waiting that the others cannot do without, they cannot do without another either.
        if not any(stream.ready and stream.reports for stream in self.streams.values()):
            for broker in self.detector.dead(self.now_ms, self.absent):
                self._evict(broker)
        self.rejoins.remind()
        self.membership.remind()
        self.watch.tell()
        self.lost_queues.look()
        self.detector.beat(self.now_ms)
        self.effects.append(Multicast([peer for peer in self.linked if hears_beats(peer)], self.duty.beat(self)))

    def _orphaned(self, peer: str, frame: Orphaned) -> None:
        if self.election.role == LEADING:
            self.detector.orphaned(frame.broker, self.now_ms)
            self.wake(max(self.detector.due_ms, self.now_ms))

    def _heartbeat_reply(self, peer: str, frame: HeartbeatReply) -> None:
        if frame.ballot != self.ballot or self.duty.answered(peer, self.now_ms):
            return
        self.lost_queues.minors[frame.broker] = frame.minor
        if self._is_out(frame.broker, frame.inc):  # it stood still, and its link did not break
            self.send(peer, Evicted("this broker was silent for too long: another incarnation takes over"))
        else:
            self.detector.answered(frame.broker, frame.number, self.now_ms)

    def beyond(self, broker: str) -> int:
        """An incarnation that no older one of this broker is above."""
        incs = [stream.incs.get(broker, 0) for stream in self.streams.values()]
        for stream in self.streams.values():
            incs += (keeper.inc for voter, keeper in stream.keepers.items() if voter == broker)
            incs += (inc for origin, (inc, _, _) in stream.numbers.items() if _broker_of(origin) == broker)
        # Under later ones it may have kept queues of which nothing is known here (`broker/queue_placement.py`).
        return max([*incs, self.out.get(broker, 0) - INCARNATIONS_PER_BROKER]) + INCARNATIONS_PER_BROKER

    def _evict(self, broker: str) -> None:
        """Order that a broker is out, in every stream (Q3)."""
        inc = self.out[broker] = self.beyond(broker)
        self.absent.add(broker)
        for stream in self.streams.values():
            stream.keepers.pop(broker, None)
            stream.away.add(broker)
            if stream.ready:
                self.append(stream, encode_event(Evict(broker, inc)))
                self._advance(stream)
        for stream in list(self.streams.values()):
            self.drop_if_gone(stream)

    def _is_out(self, peer: str, inc: int) -> bool:
        return inc <= self.out.get(_broker_of(peer), -1)

    # ---- requests

    def request(self, peer: str, request: Request) -> None:
        if self.election.role != LEADING:
            return  # it is sent again when we lead
        if self.out and self._is_out(request.origin, request.inc):
            self.send(peer, Evicted("this incarnation was evicted: its events are void (Q3)"))
            return
        number = request.number
        origin = self._origins.get(request.origin)
        if origin is None or origin.inc < request.inc:
            origin = self._origins[request.origin] = Origin(peer, request.inc)
        elif request.inc < origin.inc:
            return  # an incarnation that is over
        origin.peer = peer
        if number <= origin.last:
            if number not in origin.unanswered:
                self._results.setdefault((peer, request.inc), []).append(number)
            return
        # Numbers rise; where one is left out, an earlier sequencer has answered it. None is lost: links keep order, and
        # a new link, like a new sequencer, is told all that has no answer before anything else.
        origin.last = number
        pending = Pending(origin, number)
        if self.born:
            for name, event in request.parts:
                if name in self.dropped:
                    continue
                stream = self.streams.get(name) or self.stream(name)
                pending.left += 1
                self.seq += 1
                stream.put(Entry(self.ballot, self.seq, request.origin, request.inc, number, event))
                self.dirty[name] = None
                stream.waiting[stream.end] = pending
        else:
            self._place(pending, request)
        if pending.left:
            origin.unanswered.add(number)
        else:
            self._results.setdefault((peer, request.inc), []).append(number)

    def _place(self, pending: Pending, request: Request) -> None:
        """Of a request that an earlier sequencer may have taken. A part for a stream that is not adopted yet waits, and
        so does what comes behind it there, but nothing else: one queue's trouble is its own."""
        count: dict[str, int] = {}
        parts: list[tuple[Stream, Part]] = []
        for name, event in request.parts:
            if name not in self.dropped:
                place = count[name] = count.get(name, 0) + 1
                parts.append((self.stream(name), Part(pending, request.origin, place, event)))
        pending.left = len(parts) + 1  # so that it is not answered before all have been looked at
        for stream, part in parts:
            if stream.ready:
                self.put(stream, part)
            else:
                stream.deferred.append(part)
        pending.left -= 1

    def put(self, stream: Stream, part: Part) -> None:
        """Give a part of a request its place, unless an earlier sequencer has done so (S5)."""
        pending, origin = part.pending, part.pending.origin
        if self.out and self._is_out(part.origin, origin.inc):
            return  # it was evicted while this waited: nobody is there to be answered
        if part.place <= stream.parts_held(part.origin, origin.inc, pending.number):
            if stream.commit >= stream.start and stream.name != CLUSTER:
                self._part_done(pending)
            else:
                stream.repeats.append(pending)
                self._answer(stream)  # of the wiring, once every member shows it
            return
        self.seq += 1
        stream.put(Entry(self.ballot, self.seq, part.origin, origin.inc, pending.number, part.event))
        self.dirty[stream.name] = None
        stream.waiting[stream.end] = pending

    def append(self, stream: Stream, event: bytes) -> None:
        """An entry of our own."""
        self.seq += 1
        stream.put(Entry(self.ballot, self.seq, "", 0, 0, event))
        self.dirty[stream.name] = None

    def stream(self, name: str) -> Stream:
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(name, self.members if name == CLUSTER else ())
            if self.born:
                stream.ready = True
                self.append(stream, encode_event(Start(self.ballot)))
                stream.start = stream.end
            else:
                self.recovery.recover(stream)
        return stream

    # ---- keepers

    def _log_report(self, peer: str, frame: LogReport) -> None:
        if self.election.role == STANDBY or frame.stream in self.dropped:
            return
        if frame.promised > self.ballot:
            self.recovery.nack(peer, Nack(frame.promised))
            return
        stream = self.streams.get(frame.stream) or self.stream(frame.stream)
        if stream.ready:
            self.enrol(stream, peer, frame)
            return
        if frame.promised < self.ballot:
            return  # said to an older ballot of ours; it may have held more since, and speaks again when it promises
        known = stream.reports.get(frame.voter)
        if known is None or known[1].inc <= frame.inc:
            stream.reports[frame.voter] = (peer, frame)
        self.recovery.recover(stream)

    def enrol(self, stream: Stream, peer: str, frame: LogReport) -> None:
        """A keeper of a stream that is ready."""
        voter = frame.voter
        if not frame.blank:  # a blank one does not know who they were when the stream began
            stream.voters = stream.voters or list(frame.voters) or list(self.members)
        known = stream.keepers.get(voter)
        newest = max(stream.incs.get(voter, 0), known.inc if known is not None else 0)
        if self.membership.turns_away(stream, frame, newest):
            if stream.name == CLUSTER:
                self.membership.tell_left(peer, voter)
            return
        if self._is_out(voter, frame.inc) or frame.inc < newest:
            self.send(peer, Evicted(f"incarnation {frame.inc} of {voter} is over: a newer one keeps {stream.name}"))
            return
        same = frame.have <= stream.end and stream.ballot_at(frame.have) == frame.ballot
        have = frame.have if same else min(frame.commit, stream.end)
        keeper = Progress(peer, frame.inc, have, not frame.blank)
        stream.gone.discard(voter)
        if self.recovery.mistaken(stream, frame):
            return
        inc, index = stream.returned.get(voter, (0, 0))
        if not keeper.voting and inc == frame.inc and have >= stream.base:  # it may not have heard yet that it votes
            keeper.voting = index <= stream.commit
            keeper.rejoin = index
            if keeper.voting:
                stream.incs[voter] = inc
        if have < stream.base:
            if keeper.voting:
                if not self.rejoins.possible(stream, voter):
                    stream.reports[voter] = peer, frame  # until somebody else is here
                    return
                self.send(peer, Evicted(f"{voter} is too far behind in {stream.name}: come back through an update"))
                self.backlog.ends(peer)
                return
            keeper.updating = True
        stream.keepers[voter] = keeper
        self.backlog.enrolled(stream, voter)
        if stream.name == CLUSTER:
            self.absent.discard(voter)
            self.membership.back(voter, frame.inc)
        if keeper.voting:
            stream.away.discard(voter)
        else:
            stream.away.add(voter)
        self.dirty[stream.name] = None
        if keeper.updating:
            self.rejoins.update(stream, keeper)
        self._advance(stream)  # its acknowledgement may have been lost with the link

    def _log_dropped(self, peer: str, frame: LogDropped) -> None:
        if frame.stream in self.dropped or self.election.role != LEADING:
            return
        stream = self.streams.get(frame.stream) or self.stream(frame.stream)
        stream.keepers.pop(frame.voter, None)  # its subscription may have been lost with a link
        stream.reports.pop(frame.voter, None)
        stream.gone.add(frame.voter)
        self.drop_if_gone(stream)

    def drop_if_gone(self, stream: Stream) -> None:
        """Drop the stream once a voter has dropped its log (the deletion is committed) and no other has it."""
        if stream.gone and not stream.keepers and not stream.reports:
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        """The queue is deleted everywhere: forget its stream and answer what still waits on it."""
        del self.streams[stream.name]
        self.dirty.pop(stream.name, None)
        self.lazy.pop(stream.name, None)
        self.dropped.add(stream.name)
        self.backlog.dropped(stream)
        for pending in [*stream.waiting.values(), *stream.repeats, *(part.pending for part in stream.deferred)]:
            self._part_done(pending)

    def _ack(self, peer: str, ack: Ack) -> None:
        stream = self.streams.get(ack.stream)
        if stream is None or ack.ballot != self.ballot:
            return
        keeper = stream.keepers.get(ack.voter)
        if keeper is None or keeper.peer != peer:
            return
        keeper.eager = ack.eager
        if ack.applied > keeper.applied:
            keeper.applied = ack.applied
            keeper.sent_commit = max(keeper.sent_commit, ack.applied)
            if ack.applied > stream.commit:  # a learner was told of a majority before us
                self._commit(stream, min(ack.applied, stream.end))  # of a deleted queue's log we may have nothing
            if stream.name in self.membership.untold:
                self.membership.heard(stream)
        if ack.eager and keeper.sent_commit < stream.commit:
            self.dirty[stream.name] = None
        if ack.match > keeper.match:
            keeper.match = min(ack.match, stream.end)
            keeper.next = max(keeper.next, keeper.match + 1)
            self._advance(stream)
        if not keeper.voting:
            keeper.catch_up_to = keeper.catch_up_to if keeper.catch_up_to >= 0 else stream.commit
            self.rejoins.propose(stream, ack.voter, keeper)
        # Even where this ack commits nothing: the last member to show a wiring event is what its origin waits for.
        if stream.name == CLUSTER:
            self._answer(stream)

    def _gap(self, peer: str, gap: Gap) -> None:
        stream = self.streams.get(gap.stream)
        if stream is None or gap.ballot != self.ballot:
            return
        keeper = stream.keepers.get(gap.voter)
        if keeper is not None and keeper.peer == peer:
            keeper.next = max(gap.have, keeper.match, stream.base) + 1
            self.dirty[stream.name] = None

    # ---- commit

    def _advance(self, stream: Stream) -> None:
        """Commit the largest index a majority holds, of this term (S4)."""
        keepers = stream.keepers
        for voter, keeper in keepers.items():
            if keeper.rejoin and not keeper.voting and keeper.match >= keeper.rejoin:
                self.rejoins.vote(stream, voter, keeper)
        index = self._majority_index(stream)
        while index > stream.commit:
            changes = stream.change
            self._commit(stream, index)
            index = self._majority_index(stream) if changes else 0  # what is behind a change is for the voters after it
        self.backlog.trim(stream)

    def _majority_index(self, stream: Stream) -> int:
        """Up to where it is committed by what is held: by the voters before a change no further than the change."""
        held = {voter: keeper.match for voter, keeper in stream.keepers.items() if keeper.voting}
        index = held_by_majority(stream.voters, held)
        if index < stream.start:
            return 0
        return min(index, stream.change) if stream.change else index

    def _commit(self, stream: Stream, index: int) -> None:
        first, stream.commit = stream.commit < stream.start <= index, index
        if stream.change and index >= stream.change:
            self.membership.done(stream)
        elif first:
            self.membership.resume(stream)
        self.dirty[stream.name] = None
        self._answer(stream)

    def _answer(self, stream: Stream) -> None:
        """Answer the requests whose parts are committed; wiring also waits until every member shows it: those that
        are starting too, only not those whose link broke or that are blank."""
        upto = stream.commit
        if stream.name == CLUSTER:
            keepers = stream.keepers
            for member in self.members:
                if member not in stream.away:
                    upto = min(upto, keepers[member].applied if member in keepers else 0)
        waiting = stream.waiting
        while stream.waiting_from <= upto:
            pending = waiting.pop(stream.waiting_from, None)
            stream.waiting_from += 1
            if pending is not None:
                self._part_done(pending)
        if stream.repeats and upto >= stream.start:
            repeats, stream.repeats = stream.repeats, []
            for pending in repeats:
                self._part_done(pending)

    def _part_done(self, pending: Pending) -> None:
        pending.left -= 1
        if pending.left == 0:
            pending.origin.unanswered.discard(pending.number)
            origin = pending.origin
            self._results.setdefault((origin.peer, origin.inc), []).append(pending.number)

    # ---- saying it

    def _flush(self) -> list[Effect]:
        if self.now_ms >= self.backlog.due_ms:
            self.backlog.look()
        effects, self.effects = self.effects, []
        if self.dirty:
            dirty, self.dirty = self.dirty, {}
            for name in dirty:
                replicate(self, self.streams[name], effects)
            if self.lazy and not self.lazy_at_ms:
                self.lazy_at_ms = self.now_ms + LAZY_MS
                self.wake(self.lazy_at_ms)
                effects += self.effects
                self.effects = []
        if self._results:
            self._results = answer(self, self._results, effects)
        return effects

    # ---- for reports

    def report(self) -> dict[str, object]:
        return {
            "ballot": list(self.ballot),
            "standing": self.election.role,
            "members": self.members,
            "leaving": sorted(self.membership.leaving),
            "out": self.out,
            "absent": sorted(self.absent),
            "seq": self.seq,
            **self.backlog.report(),
            **(self.watch.report() | self.duty.report(self.now_ms)),
            "streams": {name: stream.report() for name, stream in self.streams.items()},
        }


_RULES: dict[type[Frame], Callable[[SequencerMachine, str, Any], None]] = {
    Ack: SequencerMachine._ack,
    Request: SequencerMachine.request,
    LogReport: SequencerMachine._log_report,
    LogDropped: SequencerMachine._log_dropped,
    Gap: SequencerMachine._gap,
    Orphaned: SequencerMachine._orphaned,
    Nack: lambda machine, peer, frame: machine.recovery.nack(peer, frame),
    HeartbeatReply: SequencerMachine._heartbeat_reply,
    Suspect: lambda machine, peer, frame: machine.recovery.suspect(peer, frame),
    Promise: lambda machine, peer, frame: machine.recovery.promised(peer, frame),
    Fetched: lambda machine, peer, frame: machine.recovery.fetched(peer, frame),
    # Brokers have no links to each other: the wiring's snapshot goes through here.
    UpdateStart: lambda machine, peer, frame: machine.send(frame.updatee, frame),
    Leave: lambda machine, peer, frame: machine.membership.leave(peer, frame),
    Reset: lambda machine, peer, frame: machine.lost_queues.reset(peer, frame),
    **CHARGES,
}  # pyright: ignore[reportPrivateUsage]
