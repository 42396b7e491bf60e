"""A broker whose cluster stream is durable: the broker's door with its store in front of it.

Until the stream is opened for this life, on disk, whatever comes from anybody else is kept, in order: a voter that
spoke before could forget what it said. From then on it is the broker as it is; what is committed is applied when it is
on disk, too (K5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..broker.machine import BrokerMachine
from ..broker.store_link import CHECKPOINT_BYTES, StoredWiring
from ..log.durability import Promises
from ..machine import Effect, Flush, Input, Loaded, PeerUp, Received, Send, Stop, Tick, Yield
from ..wire.events import Entry
from ..wire.flow_frames import Resident
from ..wire.log_frames import Evicted, Heartbeat, LogDropped
from ..wire.store_frames import Happened
from .hosting import Hosting


class StoredBrokerMachine(BrokerMachine):
    """One broker with a store.

    Args:
        as `BrokerMachine`'s. `blank` counts where the store has no log of the cluster stream.
        checkpoint_bytes: a checkpoint of the wiring is due when so much was written since the last.
    """

    stored = True

    def __init__(self, *args: Any, checkpoint_bytes: int = CHECKPOINT_BYTES, **options: Any) -> None:
        super().__init__(*args, **options)
        placement = self.placement
        placement.stored = True
        placement.untaken = self._untaken
        placement.unheard = self._unheard
        self.store = StoredWiring(
            self, self.cluster, self._took, self._begin, self._wrote, lambda: placement.voters, checkpoint_bytes
        )
        self.hosting = Hosting(self.cluster, self._not_there)
        self._early: list[Input] = []
        self._cluster_rules[Evicted] = self._evicted
        self._blank = False  # on disk it does not vote
        self._unreported = False  # an update was taken, and is not on disk
        self._expected = False  # its store was told which queues there are
        self._asked_ms = 0  # when its store was asked for the stream
        self._pressed = False
        self._out = False  # its log is given up: whatever it said of it now might not be true any more

    def step(self, input: Input) -> list[Effect]:
        store = self.store
        kind = type(input)
        if kind is Stop:
            store.close()
        elif store.closing or self._out:
            return self._end_of_life(input)
        elif kind is Yield:
            self.lifecycle.yield_up(self.connections.close_all)
        elif kind is Loaded:
            store.loaded(input)  # type: ignore[arg-type]
        elif getattr(input, "peer", "") == store.peer:
            self._hear(input)
        elif store.opened or kind in (Tick, Flush):
            return super().step(input)
        elif not isinstance(input, Received) or type(input.frame) is not Heartbeat:  # a late one lengthens the lease
            self._early.append(input)
        return self.take()

    def _hear(self, input: Any) -> None:
        """The store says something."""
        store = self.store
        if type(input) is PeerUp:
            self._asked_ms = self.now_ms
        store.hear(input)
        if type(input) is Received and type(input.frame) is Resident:
            self.memory.heard(store.peer, input.frame)
        elif type(input) is Received and type(input.frame) is Happened:
            word = input.frame
            for observer in self._observers:
                observer.store_happened(word.what, word.queue, word.value, word.detail)
        if store.pressed != self._pressed:
            self._pressed = store.pressed
            for observer in self._observers:
                observer.disk_pressed(store.pressed)

    # ---- ending

    def _end_of_life(self, input: Input) -> list[Effect]:
        """The process stops: only its store is heard, and told."""
        store = self.store
        if type(input) is Flush:
            store.flush()
        elif getattr(input, "peer", "") == store.peer:
            store.hear(input)  # type: ignore[arg-type]
        effects = self.take()
        return [effect for effect in effects if type(effect) is not Send or effect.peer == store.peer]

    # ---- beginning

    def _took(self, promises: Promises) -> None:
        self.promises = promises
        self.keeper = self.cluster.keeper
        self._blank = self.keeper.blank
        self.hosting.begin(self.store.streams)
        self.view.promised = self.keeper.promised
        self.lifecycle.resume()
        self.placement.resume()
        self.deletions.restored()
        self.queue_changes.restored()
        self.investiture.ordered()

    def _begin(self) -> None:
        """The stream is opened on disk: now the others are heard."""
        keeper = self.keeper
        took_ms = self.now_ms - self._asked_ms
        again, self.cluster.again = self.cluster.again, []
        for observer in self._observers:
            for applied in again:  # who was told of it before may have lost it with the power
                observer.applied(*applied)
            observer.store_opened(keeper.opened, keeper.blank, keeper.end - keeper.base, took_ms)
        early, self._early = self._early, []
        effects = self.take()
        for input in early:
            effects += super().step(input)
        self.effects = effects

    # ---- the cluster stream

    def attached(self) -> None:
        super().attached()
        self.lead(self.store.said())

    def hosting_queues(self) -> list[str]:
        return self.hosting.queues()

    def _not_there(self, queue: str, stored: bool) -> None:
        """A sequencer was told of a queue that is not in the wiring, and no log of it is kept here."""
        self.lead(LogDropped(queue, self.broker))
        if stored:
            self.store.drop(queue, self.placement.life)

    def _untaken(self, queue: str, durable: bool) -> None:
        """A queue is deleted before any replica could take its log: it may have one, also where damage has swallowed
        that."""
        if durable:
            self.store.drop(queue, self.placement.life)

    def _unheard(self, queue: str) -> None:
        """A queue is deleted, and the replica that was to drop its log has died."""
        self.store.drop(queue, self.placement.life, perhaps=True)

    def commit(self, committed: Sequence[Entry]) -> None:
        if self.hosting.stored:
            self.hosting.hosted(committed)
        super().commit(committed)
        if self.lifecycle.returned:
            self.hosting.applied()
            if not self._expected:
                self._expected = True
                self.store.expect([queue.id for queue in self.cluster.wiring.all_kept() if queue.durable])
        if self._blank and not self.keeper.blank:  # else it would come back without the vote that it has used
            self._blank = False
            self.store.checkpoint()

    def _wrote(self) -> None:
        """More of the log is on disk, or what an update has brought."""
        if self.store.closing or self._out:
            return  # the checkpoint is written: what comes behind it is applied in the next life
        self.needs_ack = True
        durability = self.keeper.durability
        if self._unreported and durability is not None and durability.whole:
            self._unreported = False
            super()._updated()
        self.commit(self.cluster.wrote())

    def _updated(self) -> None:
        """The sequencer hears of it when it is on disk."""
        self._unreported = True
        self.store.checkpoint()

    def _evicted(self, peer: str, frame: Evicted) -> None:
        """Out; where the log is of no use any more, the next life is to begin without it. That is written whoever leads
        when it is on disk, so nobody hears of this log from now on."""
        if frame.forget and peer == self.view.leader:
            self._out = True
            self.store.forget(lambda: self.lifecycle.retire(frame.reason))
        else:
            self.lifecycle.evicted(peer, frame)

    def _flush(self) -> None:
        super()._flush()
        self.store.flush()
