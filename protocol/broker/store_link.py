"""The cluster stream in a broker's store: its log is taken, read back, opened, and written from then on.

Recovery, as in ARIES, without undo: the last checkpoint is the wiring, the entries behind it that were known committed
are applied again, and the rest is held for the next leader to decide. Before the record that opens the stream for this
life is on disk, nothing is said to anybody (`durable.md` 3, 4).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..log.checkpoint import ENTRY_BYTES, checkpoint_of, opening_of, tail_of
from ..log.durability import Durability, Promises
from ..log.history import StreamHistory
from ..log.keeper import Keeper
from ..log.outbox import FollowerOutbox
from ..log.store_link import StoreLink
from ..machine import Loaded
from ..wire.events import CLUSTER
from ..wire.flow_frames import Pressed
from ..wire.frame import Frame
from ..wire.records import CHECKPOINT, DROPPED, ENTRIES, OPENED, DroppedRecord, OpenedRecord, encode_record
from ..wire.store_frames import Expected, Room, Take, Taken, Write
from ..wiring.snapshot import ClusterOutline
from .cluster_state import ClusterState

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""A checkpoint is due when so much was written since the last, and four times as much as that was itself; a record
counts as `ENTRY_BYTES` at least."""

_encode = msgspec.msgpack.Encoder().encode
_outline = msgspec.msgpack.Decoder(ClusterOutline)


class StoredWiring(StoreLink):
    """Args:
        took: called when the stream has been read back, with what this store has promised: the parts that go by the log
            and the wiring begin anew then.
        begun: called when the record that opens the stream is on disk.
        wrote: called when more of the log is on disk.
        queue_voters: queue id -> the voters when it was declared.

    Attributes:
        opened: the stream is opened for this life, on disk.
        streams: the queues of which the store had records when the cluster stream was taken.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, took: Callable[[Promises], object],
        begun: Callable[[], object], wrote: Callable[[], object], queue_voters: Callable[[], dict[str, list[str]]],
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:  # fmt: skip
        super().__init__(outbox, cluster.broker, self._wanted)
        self.opened = False
        self.streams: list[str] = []
        self._cluster = cluster
        self._took = took
        self._begun = begun
        self._queue_voters = queue_voters
        self._least_bytes = checkpoint_bytes
        self._wrote = wrote
        self._since_bytes = 0  # written since the last checkpoint
        self._last_bytes = 0  # of that
        self._due = False  # the store asks for a checkpoint
        self._perhaps: set[str] = set()  # streams to be dropped that may have been
        self.take(CLUSTER, cluster.inc, self._open)

    # ---- what comes

    def received(self, frame: Frame) -> None:
        if type(frame) is Taken and frame.stream != CLUSTER:
            if frame.stream in self._perhaps:
                self._perhaps.discard(frame.stream)
                if not (frame.last or frame.hurt):
                    return  # whoever kept it has dropped it
            self.writer.put(DROPPED, frame.stream, encode_record(DroppedRecord()), lambda lsn: None)
        else:
            super().received(frame)
        if type(frame) is Room:
            self._outbox.lead(self.said())

    def _wanted(self, upto: int) -> None:
        self._due = True

    # ---- beginning

    def _open(self, taken: Taken, history: StreamHistory | None, loaded: Loaded) -> None:
        """Begin with a log of this life, or with the one found; no vote, if one was there that cannot be read (K4)."""
        cluster, self.streams = self._cluster, taken.streams
        for _, kind, payload in loaded.records:
            self._count(kind, len(payload))
        if history is not None and (keeper := self._resumed(taken, history)) is not None:
            voters: list[str] = []  # the log's own, from its beginning on
        else:
            blank = cluster.keeper.blank or taken.hurt or taken.last > 0
            voters = list(cluster.keeper.voters)
            keeper = Keeper(CLUSTER, cluster.broker, cluster.inc, blank, taken.promised, voters, stored=True)
            keeper.durability = Durability(CLUSTER, self.writer, self._wrote)
            cluster.keeper = keeper
        self._took(Promises(self.writer, taken.promised))
        self.writer.put(OPENED, CLUSTER, encode_record(opening_of(keeper, voters)), self._on_disk)

    def _resumed(self, taken: Taken, history: StreamHistory) -> Keeper | None:
        """The keeper of an earlier life's log, and its wiring; None if that log does not vote."""
        cluster = self._cluster
        keeper = Keeper(
            CLUSTER, cluster.broker, cluster.inc, history.blank, taken.promised, history.voters, history.log_inc,
            taken.opened, True,
        )  # fmt: skip
        keeper.durability = Durability(CLUSTER, self.writer, self._wrote)
        committed = keeper.resume(history)
        if keeper.blank:
            return None
        found = history.checkpoint
        outline = _outline.decode(found.outline) if found is not None else None
        cluster.resume(keeper, outline, history, committed)
        return keeper

    def _on_disk(self, lsn: int) -> None:
        self.opened = True
        if not self.closing:
            self._begun()

    # ---- what goes

    def flush(self, live_bytes: Callable[[str], int | None] = lambda stream: None) -> Write | None:
        """Send what is to be written; a checkpoint behind it, if one is due."""
        if self.opened and (self._due or self._since_bytes > max(self._least_bytes, 4 * self._last_bytes)):
            self.checkpoint()
        write = super().flush(live_bytes)
        for kind, stream, payload in write.records if write is not None else ():
            if stream:
                self._count(kind, len(payload))
        return write

    def _count(self, kind: int, count_bytes: int) -> None:
        if kind == CHECKPOINT:
            self._since_bytes, self._last_bytes = 0, count_bytes
        else:
            self._since_bytes += max(count_bytes, ENTRY_BYTES)

    def said(self) -> Pressed:
        """The word of this broker on the room on its disk."""
        self._cluster.no_room = self.pressed
        return Pressed(self._cluster.broker, self.pressed, self._cluster.crowded)

    def drop(self, stream: str, life: int, perhaps: bool = False) -> None:
        """Of a queue that is not there, the store has records still: they are dead once the stream is taken, in a life
        above all that have kept it. `perhaps`: or whoever kept it has dropped it."""
        if perhaps:
            self._perhaps.add(stream)
        self._outbox.send(self.peer, Take(stream, life))

    def expect(self, queues: list[str]) -> None:
        """Of these queues the store may have had records, also where it finds none."""
        self._outbox.send(self.peer, Expected(queues))

    def forget(self, done: Callable[[], object]) -> None:
        """Give the log up: the next life begins with none, and blank (K4). `done`: called when that is on disk."""
        record = OpenedRecord(self._cluster.inc, self._cluster.inc, True)
        self.writer.put(OPENED, CLUSTER, encode_record(record), lambda lsn: done())

    def close(self) -> None:
        """Write down what there is, and say when it is on disk."""
        if not self.closing:
            if self.opened:
                self.checkpoint()
            super().close()

    def checkpoint(self) -> None:
        """Write the wiring as it is applied, and what the log holds behind that, in one write: all of it or nothing
        comes back."""
        self._due = False
        cluster, keeper = self._cluster, self._cluster.keeper
        assert keeper.durability is not None
        outline = ClusterOutline(cluster.wiring.snapshot(), self._queue_voters())
        keeper.durability.checkpoint(checkpoint_of(keeper, _encode(outline)))
        tail = tail_of(keeper)
        if tail is not None:
            self.writer.put(ENTRIES, CLUSTER, encode_record(tail), lambda lsn: None)
