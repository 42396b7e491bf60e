"""Bugs of failover planted on purpose, as in `mutants.py`; these are looked for among the stories with faults."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from mantamq.protocol.broker.lease import Lease
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.broker.waits_heard import WaitsHeard
from mantamq.protocol.errors import BAD_FRAME, PeerError
from mantamq.protocol.lock import ownership
from mantamq.protocol.log import pieces
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.leader import LeaderView
from mantamq.protocol.queue.acquisitions import Acquisitions
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.delivery_counts import DeliveryCounts
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica import catch_up
from mantamq.protocol.replica.catch_up import CatchUp
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.replica.status import Status
from mantamq.protocol.replica.update import Updater
from mantamq.protocol.sequencer import election, recovery, rejoin
from mantamq.protocol.sequencer import machine as sequencer_machine
from mantamq.protocol.sequencer import stream as sequencer_stream
from mantamq.protocol.sequencer.failure_detector import FailureDetector
from mantamq.protocol.sequencer.keepers import Keepers
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.membership import Membership
from mantamq.protocol.sequencer.order import Order
from mantamq.protocol.sequencer.progress import KeeperState
from mantamq.protocol.sequencer.recovery import Recovery
from mantamq.protocol.sequencer.rejoin import Rejoins
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire import events
from mantamq.protocol.wire.log_frames import Ack, Request, UpdateFront

Patch = pytest.MonkeyPatch


def _born(patch: Patch, kind: Any, change: Callable[[Any], None]) -> None:
    """Every new object of this class is changed."""
    born = kind.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        born(self, *arguments, **named)
        change(self)

    patch.setattr(kind, "__init__", init)


def _altered(patch: Patch, kind: Any, name: str, change: Callable[[Any, Any], Any]) -> None:
    """The result of a method is changed."""
    before = getattr(kind, name)
    patch.setattr(kind, name, lambda self, *arguments: change(self, before(self, *arguments)))


# ---- promises and votes


def promise_forgotten(patch: Patch) -> None:
    """Every sequencer that speaks is followed, whatever was promised."""

    def follow(self: Any, peer: str, ballot: Any, now_ms: int) -> bool:
        if peer != self.leader:
            self.leader, self.attached = peer, False
        self.promised, self.heard_ms, self.parted_ms = ballot, now_ms, 0
        return True

    patch.setattr(LeaderView, "follow", follow)
    patch.setattr(Keeper, "promise", lambda self, ballot: setattr(self, "promised", ballot))
    append = Keeper.append
    patch.setattr(
        Keeper, "append", lambda self, frame: (setattr(self, "promised", frame.ballot), append(self, frame))[1]
    )


def lower_ballot_appends(patch: Patch) -> None:
    """The promise is kept in mind, and entries of a deposed sequencer are taken and acknowledged all the same."""
    append = Keeper.append

    def lenient(self: Any, frame: Any) -> Any:
        return append(self, msgspec.structs.replace(frame, ballot=max(frame.ballot, self.promised)))

    patch.setattr(Keeper, "append", lenient)
    follow = LeaderView.follow
    patch.setattr(LeaderView, "follow", lambda self, *arguments: follow(self, *arguments) or True)


def amnesiac_votes(patch: Patch) -> None:
    _born(patch, Keeper, lambda self: setattr(self, "blank", False))


def amnesiac_broker_votes(patch: Patch) -> None:
    """In the cluster stream only."""
    _born(patch, BrokerMachine, lambda self: setattr(self.keeper, "blank", False))


def rejoin_without_quorum(patch: Patch) -> None:
    """A blank keeper votes as soon as it holds the entry which says so."""

    def vote(self: Any, stream: Any, voter: str, keeper: Any) -> None:
        keeper.begin(KeeperState.VOTING)
        stream.incs[voter] = keeper.log_inc
        stream.away.discard(voter)

    patch.setattr(Rejoins, "vote", vote)


def rejoin_at_once(patch: Patch) -> None:
    """A blank keeper votes with its next log entry, committed or not."""

    def propose(self: Any, stream: Any, voter: str, keeper: Any) -> None:
        keeper.begin(KeeperState.VOTING)

    patch.setattr(Membership, "propose", propose)


def suffix_of_an_older_sequencer_is_acknowledged(patch: Patch) -> None:
    def ack(self: Any, applied: int, eager: bool = True) -> Any:
        return Ack(self.promised, self.stream, self.voter, self.end, applied, eager)

    patch.setattr(Keeper, "ack", ack)


def conflicting_suffix_stays(patch: Patch) -> None:
    """An entry that is there is not looked at again."""
    append = Keeper.append

    def stubborn(self: Any, frame: Any) -> Any:
        mine = {i: self._log[i] for i in range(frame.previous + 1, frame.previous + len(frame.entries) + 1)
                if i in self._log}  # fmt: skip
        kept = [mine.get(i, entry) for i, entry in enumerate(frame.entries, frame.previous + 1)]
        return append(self, msgspec.structs.replace(frame, entries=kept))

    patch.setattr(Keeper, "append", stubborn)


def previous_is_not_compared(patch: Patch) -> None:
    """An `Append` is taken wherever the log is long enough."""
    append = Keeper.append

    def trusting(self: Any, frame: Any) -> Any:
        if self.base < frame.previous <= self.end:
            frame = msgspec.structs.replace(frame, previous_ballot=self._ballot_at(frame.previous))
        return append(self, frame)

    patch.setattr(Keeper, "append", trusting)
    patch.setattr(Stream, "ballot_at", lambda self, index: _Any())


class _Any(tuple[int, int]):
    """Equal to every ballot."""

    def __new__(cls) -> _Any:
        return super().__new__(cls, (0, 0))

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = tuple.__hash__


# ---- taking over


def longest_log(patch: Patch) -> None:
    """The longest log is adopted, not the one whose last entry has the newest ballot."""

    def longest(*arguments: Any, **named: Any) -> Any:
        if type(arguments[0]) is dict:
            return builtins.max(arguments[0], key=lambda voter: arguments[0][voter].have, default="")
        return builtins.max(*arguments, **named)

    patch.setattr(election, "max", longest, raising=False)


def count_old_ballot(patch: Patch) -> None:
    """Figure 8: an adopted entry is committed by counting who holds it."""
    held = Stream.majority_index

    def counting(stream: Any) -> int:
        start, stream.start = stream.start, 0
        try:
            return held(stream)
        finally:
            stream.start = start

    patch.setattr(Stream, "majority_index", counting)


def recover_from_one(patch: Patch) -> None:
    for module in (election, rejoin, sequencer_stream):
        patch.setattr(module, "recovery_quorum", lambda voters: 1)
    patch.setattr(election, "majority", lambda voters: 1)


def adopted_is_committed(patch: Patch) -> None:
    """All that was adopted counts as committed at once."""
    adopt = election.adopt

    def rash(stream: Any, best: Any, fetched: Any) -> None:
        adopt(stream, best, fetched)
        stream.commit = stream.end

    patch.setattr(recovery, "adopt", rash)


def number_table_not_adopted(patch: Patch) -> None:
    patch.setattr(Stream, "parts_held", lambda self, origin, inc, number: 0)


def what_waits_for_a_queue_is_forgotten(patch: Patch) -> None:
    """Requests for a queue before its log is adopted never get there."""
    adopted = Recovery.adopted

    def forgetful(self: Any, stream: Any, *rest: Any) -> None:
        stream.deferred.clear()
        adopted(self, stream, *rest)

    patch.setattr(Recovery, "adopted", forgetful)


def what_waits_for_a_queue_is_turned_round(patch: Patch) -> None:
    """Requests for a queue before its log is adopted get there, the last first."""
    adopted = Recovery.adopted

    def backwards(self: Any, stream: Any, *rest: Any) -> None:
        stream.deferred.reverse()
        adopted(self, stream, *rest)

    patch.setattr(Recovery, "adopted", backwards)


def repeats_answered_early(patch: Patch) -> None:
    """A request that is in the adopted log is answered before that is committed (S6)."""
    request = SequencerMachine.request

    def hasty(self: Any, peer: str, frame: Any) -> None:
        request(self, peer, frame)
        for stream in self.order.streams.values():
            repeats, stream.repeats = stream.repeats, []
            for pending in repeats:
                self.requests.part_done(pending)

    patch.setattr(SequencerMachine, "request", hasty)
    patch.setitem(sequencer_machine._RULES, Request, hasty)


def no_start(patch: Patch) -> None:
    """A term begins without an entry of its own (S3)."""
    append = Order.append

    def mute(self: Any, stream: Any, event: bytes) -> None:
        if type(events.decode_event(event)) is not events.Start:
            append(self, stream, event)

    patch.setattr(Order, "append", mute)


def unlisted_queue_is_empty(patch: Patch) -> None:
    """A broker says what it keeps by its replicas that are there, not by what is declared."""
    pledge = BrokerMachine.pledge

    def modest(self: Any) -> None:
        pledge(self)
        marker = self.effects[-1].frame
        kept = [id for id in marker.hosting if id in self.placement.of]
        self.effects[-1] = self.effects[-1].__class__(
            self.view.leader, msgspec.structs.replace(marker, hosting=kept[::2])
        )

    patch.setattr(BrokerMachine, "pledge", modest)


def one_asks_for_a_new_sequencer(patch: Patch) -> None:
    """The same ballot for every standby that takes over."""
    suspect = Recovery.suspect

    def same(self: Any, peer: str, frame: Any) -> bool:
        self._uid = 1
        return suspect(self, peer, frame)

    patch.setattr(Recovery, "suspect", same)


def requests_are_not_repeated(patch: Patch) -> None:
    """Requests without an answer are not sent again to the next sequencer (B1)."""

    def attached(self: Any) -> None:
        self.lease.renew()
        self.needs_ack = True

    patch.setattr(BrokerMachine, "attached", attached)


def ownership_does_not_repeat(patch: Patch) -> None:
    told = ownership.OwnershipMachine._beat

    def beat(self: Any, peer: str, frame: Any) -> list[Any]:
        return [effect for effect in told(self, peer, frame) if type(effect.frame) is not Request]

    patch.setattr(ownership.OwnershipMachine, "_beat", beat)


# ---- eviction


def no_fence_in_the_queue(patch: Patch) -> None:
    """An acquire counts though its incarnation is out, and the lock's number is not raised."""

    def evict(self: Any, event: Any) -> Applied:
        grant = self.grant
        done = before(self, event)
        self.grant = grant
        return done

    before = QueueState._evict
    patch.setattr(QueueState, "_evict", evict)
    _born(patch, QueueState, lambda self: self._apply.update({events.Evict: self._evict}))


def evicted_keep_the_lock(patch: Patch) -> None:
    def evict(self: Any, event: Any) -> Applied:
        owner, grant = self.owner, self.grant
        done = before(self, event)
        self.owner, self.grant = owner, grant
        return done

    before = QueueState._evict
    patch.setattr(QueueState, "_evict", evict)
    _born(patch, QueueState, lambda self: self._apply.update({events.Evict: self._evict}))


def evict_keeps_messages(patch: Patch) -> None:
    def evict(self: Any, event: Any) -> Applied:
        held, self.acquired = self.acquired, Acquisitions()
        done = before(self, event)
        self.acquired = held
        return done

    before = QueueState._evict
    patch.setattr(QueueState, "_evict", evict)
    _born(patch, QueueState, lambda self: self._apply.update({events.Evict: self._evict}))


def evict_returns_to_the_back(patch: Patch) -> None:
    """Messages that a dead broker held are not seen again by the owner's consumers."""

    def expelled(self: Any, event: Any, done: Any) -> None:
        before(self, event, Applied(done.effective, done.lost, [], done.orphans))

    before = HostedQueue._expelled
    patch.setattr(HostedQueue, "_expelled", expelled)


def unflagged_after_eviction(patch: Patch) -> None:
    """Messages available in a queue when its owner was evicted are not flagged redelivered (B3)."""

    patch.setattr(DeliveryCounts, "may_be_seen", lambda self, positions: None)


def marks_outlive_their_messages(patch: Patch) -> None:
    """What is dequeued keeps its delivery count, for ever."""
    patch.setattr(DeliveryCounts, "forget", lambda self, positions: None)


def a_count_is_lost_when_its_range_is_split(patch: Patch) -> None:
    """A message that goes takes the counts of its neighbours with it, those above one."""
    forget = DeliveryCounts.forget

    def greedy(self: Any, positions: Any) -> None:
        for first, last in positions:
            for position in range(first - 1, last + 2):
                self.repeated.pop(position, None)
        forget(self, positions)

    patch.setattr(DeliveryCounts, "forget", greedy)


def a_message_comes_back_once_only(patch: Patch) -> None:
    """What comes back a second time is counted as before."""
    patch.setattr(DeliveryCounts, "back", lambda self, first, last: self.marks.add(first, last))


def update_forgets_the_marks(patch: Patch) -> None:
    """A copy that was brought up to date gives out messages as if they were new."""
    restore = QueueState.restore

    def forgetful(self: Any, snapshot: Any) -> None:
        restore(self, msgspec.structs.replace(snapshot, marks=[]))

    patch.setattr(QueueState, "restore", forgetful)


def orphans_stay(patch: Patch) -> None:
    """Dead letters that a dead broker began to send are finished by no other."""
    expelled = HostedQueue._expelled

    def careless(self: Any, event: Any, done: Any) -> None:
        expelled(self, event, Applied(done.effective, done.lost, done.positions, []))

    patch.setattr(HostedQueue, "_expelled", careless)


def evicted_in_the_cluster_stream_only(patch: Patch) -> None:
    def evict(self: Any, broker_: str) -> None:
        order = self._order
        streams, order.streams = order.streams, {n: s for n, s in order.streams.items() if n == events.CLUSTER}
        before(self, broker_)
        order.streams = streams

    before = Keepers.evict
    patch.setattr(Keepers, "evict", evict)


def nobody_is_evicted(patch: Patch) -> None:
    patch.setattr(FailureDetector, "dead", lambda self, now_ms, absent: [])


def evicted_goes_on(patch: Patch) -> None:
    """A process that learns of its own eviction carries on."""
    patch.setattr(BrokerMachine, "retire", lambda self, reason, left=False: None)
    patch.setattr(ReplicaMachine, "retire", lambda self, reason: None)


def lease_never_expires(patch: Patch) -> None:
    patch.setattr(Lease, "expired", lambda self, now_ms: False)


def any_beat_renews_the_lease(patch: Patch) -> None:
    """A beat renews the lease though no majority has answered it."""
    heard = Lease.heard
    patch.setattr(Lease, "heard", lambda self, number, sure, now_ms: heard(self, number, number, now_ms))


# ---- updates


def updatee_owns_early(patch: Patch) -> None:
    """An updatee serves before its update is whole."""

    def whole(self: Any) -> bool:
        self._state.fill(self._update.blobs)
        self._update.end(self._outbox.now_ms)
        self._update = None
        self._move(Status.JOINING)
        return True

    patch.setattr(CatchUp, "may_serve", lambda self: self._keeper.end > 0)
    patch.setattr(CatchUp, "_whole", whole)


def updatee_votes_early(patch: Patch) -> None:
    """An updatee acknowledges before its update is whole."""
    serve = HostedQueue.serve

    def hasty(self: Any) -> bool:
        if self.updating and self.acks.needed:
            self.acks.acknowledge(self.applied, True)
        return serve(self)

    patch.setattr(HostedQueue, "serve", hasty)


def update_without_its_number_table(patch: Patch) -> None:
    """The snapshot for an updatee lacks the last numbers of the origins."""
    _altered(patch, Keeper, "update", lambda self, frame: msgspec.structs.replace(frame, numbers={}))


def update_without_the_clients_numbers(patch: Patch) -> None:
    restore = QueueState.restore

    def forgetful(self: Any, snapshot: Any) -> None:
        restore(self, msgspec.structs.replace(snapshot, numbers=[]))

    patch.setattr(QueueState, "restore", forgetful)


def update_forgets_the_dying(patch: Patch) -> None:
    restore = QueueState.restore

    def forgetful(self: Any, snapshot: Any) -> None:
        restore(self, msgspec.structs.replace(snapshot, dead_lettering=[], batches=[]))

    patch.setattr(QueueState, "restore", forgetful)


def update_loses_a_chunk(patch: Patch) -> None:
    """The last message of every chunk but the first is left out."""

    def lossy(self: Any, chunk: Any) -> Any:
        if not isinstance(chunk, UpdateFront) or not chunk.blobs:
            return chunk
        return msgspec.structs.replace(chunk, blobs=[*chunk.blobs[:-1], b""])

    _altered(patch, Updater, "chunk", lossy)


def pieces_of_two_updates_are_put_together(patch: Patch) -> None:
    """An updater goes on where the one before was: what has come is kept, and nobody looks whose it is."""

    def keep(self: Any) -> None:
        if not hasattr(self, "_data"):
            clear(self)

    def take(self: Any, piece: Any) -> bool:
        self.updater, self.number = piece.updater, piece.number
        self._of = (piece.updater, piece.number, piece.size, piece.checksum)
        if piece.chunk == self.chunk + 1:
            self.chunk += 1
            self._data += piece.data
        return piece.chunk <= self.chunk

    def whole(self: Any) -> Any:
        size = self._of[2]
        if not self.updater or len(self._data) < size:
            return None
        data = bytes(self._data[:size])
        clear(self)
        try:
            return pieces._decode(data)
        except msgspec.DecodeError as error:
            raise PeerError(BAD_FRAME, str(error)) from None

    clear = pieces.Pieces.clear
    patch.setattr(pieces.Pieces, "clear", keep)
    patch.setattr(pieces.Pieces, "take", take)
    patch.setattr(pieces.Pieces, "whole", whole)


def an_update_is_forgotten_while_its_pieces_come(patch: Patch) -> None:
    """The last piece of a sync point is lost at the updater: the chunks behind it are taken for all there is."""
    cut = catch_up.cut

    def short(start: Any, minor: int, most_bytes: int) -> Any:
        found = cut(start, minor, most_bytes)
        return found if found is None else iter(list(found)[:-1])

    patch.setattr(catch_up, "cut", short)


# ---- what the simulator has found in failover itself, planted again


def frames_share_the_tables(patch: Patch) -> None:
    """An update's first word says what the updater knows when it arrives."""
    _altered(patch, Keeper, "update", lambda self, frame: msgspec.structs.replace(frame, numbers=self.numbers))


def nobody_says_that_what_is_waited_for_is_deleted(patch: Patch) -> None:
    """The leader waits for the voters of a deleted queue: one is dead, the other was updated past the deletion."""
    patch.setattr(WaitsHeard, "_deleted", lambda self, waiting: False)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
