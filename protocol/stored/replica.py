"""A queue replica with a store: the replica's door, behind which durable and transient queues are kept side by side.

A durable queue is taken from the store, read back and opened for this life before anything is said of it: neither
`Hosted` to the broker nor a log report to a sequencer (`durable.md` 3, 4). What the broker says to it meanwhile waits.
For transient queues nothing is other than without a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ..errors import PeerError
from ..limits import DEFAULT, Limits
from ..log.checkpoint import opening_of
from ..log.durability import Durability, Promises
from ..log.history import StreamHistory
from ..log.keeper import Keeper
from ..log.store_link import StoreLink
from ..machine import Effect, Flush, Input, Loaded, PeerDown, PeerGone, PeerUp, Received, Send, Stop
from ..replica.body_cache import BodyCache
from ..replica.hosted_queue import HostedQueue
from ..replica.machine import ReplicaMachine
from ..replica.observers import ReplicaObserver
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Entry
from ..wire.frame import Frame
from ..wire.log_frames import Evicted, LogDropped
from ..wire.queue_frames import Host, Unhost
from ..wire.records import DROPPED, OPENED, DroppedRecord, OpenedRecord, encode_record
from ..wire.store_frames import Taken
from .old_bodies import old_bodies
from .outlines import Outline, read_outline
from .queue import StoredQueue


class OpeningQueue(NamedTuple):
    """A durable queue that is asked for and not open. `early`: frames for it that wait."""

    host: Host
    early: list[tuple[str, Frame]]


class FoundQueue(NamedTuple):
    """A log that counts: its keeper, what the checkpoint has, and the entries behind that which are to be applied."""

    keeper: Keeper
    outline: Outline | None
    history: StreamHistory
    committed: list[Entry]


class StoredReplicaMachine(ReplicaMachine):
    """One queue replica process of a broker with a store.

    Args:
        as `ReplicaMachine`'s.

    Attributes:
        store: the link to it.
    """

    stored = True

    def __init__(
        self, name: str, broker: str, inc: int, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT,
        observers: Sequence[ReplicaObserver] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, broker, inc, timing, limits, observers)
        self.store = StoreLink(self, broker, self._ahead)
        self.promises = self._promises = Promises(self.store.writer)
        self._opening: dict[str, OpeningQueue] = {}
        self._given_up: set[str] = set()  # queues whose log is of no use: until that is on disk, and this process ends
        self._upto = 0  # what the store has asked for last, of those too that were not open then: it asks once

    # ---- the door

    def other(self, input: Input) -> None:
        if isinstance(input, Loaded):
            self.store.loaded(input)
        elif isinstance(input, PeerGone) and input.peer == self.store.peer:
            self.store.hear(input)
        elif isinstance(input, Stop):
            self._stop()

    def _stop(self) -> None:
        """Write down how the durable queues are; from now on only the store is heard, and told."""
        self.step = self._end_of_life
        for queue in self.queues.values():
            if isinstance(queue, StoredQueue):
                queue.close()
        self.store.close()

    def _end_of_life(self, input: Input) -> list[Effect]:
        if type(input) is Flush:
            self.store.flush(self._live_bytes)
        elif isinstance(input, (Received, PeerUp, PeerDown, PeerGone)) and input.peer == self.store.peer:
            self.store.hear(input)
        return [effect for effect in self.take() if type(effect) is not Send or effect.peer == self.store.peer]

    def from_store(self, peer: str, frame: Frame) -> None:
        if peer == self.store.peer:
            self.store.received(frame)

    def _peer_up(self, peer: str) -> None:
        if peer == self.store.peer:
            self.store.hear(PeerUp(peer))
        else:
            super()._peer_up(peer)

    def _peer_down(self, peer: str) -> None:
        if peer == self.store.peer:
            self.store.hear(PeerDown(peer))
        else:
            super()._peer_down(peer)

    def absent(self, peer: str, frame: Any) -> bool:
        opening = self._opening.get(frame.queue)
        if opening is None:
            return self._is_given_up(frame)
        if isinstance(frame, Unhost):
            del self._opening[frame.queue]
            self._drop(frame.queue)
            self.dropped(frame.queue)
            for waited, early in opening.early:  # it is not here, and will not be: whoever waits for an answer hears so
                self.route(waited, early)
        else:
            opening.early.append((peer, frame))
        return True

    def _is_given_up(self, frame: Any) -> bool:
        """The queue lives, and its broker hears when this process ends that nothing of this was done."""
        if frame.queue in self._given_up and isinstance(frame, Unhost):
            self._given_up.remove(frame.queue)
            self._drop(frame.queue)
            self.dropped(frame.queue)
        return frame.queue in self._given_up

    def _flush(self) -> None:
        super()._flush()
        self.store.flush(self._live_bytes)

    # ---- hosting

    def begin(self, frame: Host) -> None:
        if not frame.durable:
            super().begin(frame)
        elif frame.queue not in self._opening:
            self._opening[frame.queue] = OpeningQueue(frame, [])
            self.store.take(frame.queue, frame.inc, self._found)

    def _found(self, taken: Taken, history: StreamHistory | None, loaded: Loaded) -> None:
        """The store has given the stream: go on with the log that is there, if it counts, and open it for this life."""
        opening = self._opening.get(taken.stream)
        if opening is None:
            return  # deleted meanwhile
        self.adopt(taken.promised)
        frame = opening.host
        found = self._resumed(frame, taken, history, loaded) if history is not None else None
        if found is not None:
            keeper, voters = found.keeper, []  # the log's own, from its beginning on
        else:
            blank, voters = frame.blank or taken.hurt or taken.last > 0, frame.voters
            keeper = Keeper(frame.queue, self.broker, frame.inc, blank, self.view.promised, voters, stored=True)
            keeper.durability = self._durability(frame.queue)
        queue = self.queue(StoredQueue, frame, keeper)
        queue.stored(self.store.writer, self._promises, self.timing)
        if found is not None:
            queue.resume(found.outline, found.history, found.committed)
        elif queue.catch_up.cache is not None:
            queue.catch_up.cache = _kept(loaded)
        record = encode_record(opening_of(keeper, voters))
        self.store.writer.put(OPENED, frame.queue, record, lambda lsn: self._opened(queue))

    def _durability(self, stream: str) -> Durability:
        return Durability(stream, self.store.writer, lambda: None)

    def _resumed(self, frame: Host, taken: Taken, history: StreamHistory, loaded: Loaded) -> FoundQueue | None:
        """The keeper of an earlier life's log, and what it has made; None if that log does not vote, or cannot be read
        after all (K4)."""
        keeper = Keeper(
            frame.queue, self.broker, frame.inc, history.blank, self.view.promised, history.voters, history.log_inc,
            taken.opened, True,
        )  # fmt: skip
        keeper.durability = self._durability(frame.queue)
        committed = keeper.resume(history)
        if keeper.blank:
            return None
        try:
            return FoundQueue(keeper, loaded.outline or read_outline(history, loaded.records), history, committed)
        except (PeerError, msgspec.DecodeError):
            return None

    def _opened(self, queue: StoredQueue) -> None:
        """The stream is open for this life, on disk: now it is spoken of."""
        opening = self._opening.pop(queue.id, None)
        if opening is None:
            return  # deleted meanwhile
        queue.keeper.promise(self.view.promised)
        if queue.keeper.opened:  # a log that is new needs nothing that is old
            queue.checkpoints.ahead(self._upto)
        queue.apply()
        self.begun(queue)
        for peer, frame in opening.early:
            self.route(peer, frame)

    def ended(self, queue: HostedQueue) -> None:
        super().ended(queue)
        if isinstance(queue, StoredQueue):
            self._drop(queue.id)

    def _drop(self, stream: str) -> None:
        """The queue is deleted, and all that is on disk of it dead."""
        writer = self.store.writer
        writer.drop(stream)
        writer.put_ahead(DROPPED, stream, encode_record(DroppedRecord()), lambda lsn: None)

    # ---- the sequencer

    def pledge(self) -> None:
        leader = self.view.leader
        self.effects += (Send(leader, LogDropped(id, self.broker)) for id in self._unhosted)
        for queue in self.queues.values():
            if (report := queue.log_report()) is not None:
                self.send(leader, report)

    def evicted(self, peer: str, frame: Evicted) -> None:
        """Out; where a log is of no use any more, the next life is to begin without it."""
        queue = self.queues.get(frame.stream)
        if frame.forget and peer == self.view.leader and isinstance(queue, StoredQueue):
            del self.queues[queue.id]  # nothing of it is written behind that
            self._given_up.add(queue.id)
            record = OpenedRecord(queue.inc, queue.inc, True)
            self.store.writer.put_ahead(OPENED, queue.id, encode_record(record), lambda lsn: self.retire(frame.reason))
        else:
            super().evicted(peer, frame)

    # ---- the store

    def _ahead(self, upto: int) -> None:
        """The store wants to free the old end of its log."""
        self._upto = max(self._upto, upto)
        for id, queue in self.queues.items():
            if isinstance(queue, StoredQueue):
                queue.checkpoints.ahead(upto)
                self.dirty[id] = None

    def _live_bytes(self, stream: str) -> int | None:
        queue = self.queues.get(stream)
        return queue.checkpoints.live_bytes() if isinstance(queue, StoredQueue) else None


def _kept(loaded: Loaded) -> BodyCache:
    """What is left of the messages of a log that does not vote."""
    if loaded.bodies is not None:
        return loaded.bodies
    return BodyCache(loaded.outline.blobs if loaded.outline is not None else old_bodies(loaded.records))
