"""A broker's way to its store: the cluster stream's log is taken, read back, opened, and written from then on.

Recovery, as in ARIES, without undo: the last checkpoint is the wiring, the entries behind it that were known committed
are applied again, and the rest is held for the next leader to decide. Before the record that opens the stream for this
life is on disk, nothing is said to anybody (`durable.md` 3, 4). Write numbers belong to the link, so a link that breaks
ends the process (F1).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..errors import PeerError
from ..log.checkpoint import checkpoint_of, tail_of
from ..log.durability import Durability, Promises, RecordWriter
from ..log.history import StreamHistory, read_history
from ..log.keeper import Keeper
from ..log.outbox import FollowerOutbox
from ..log.retained import RETAINED_BYTES
from ..machine import Load, Loaded, PeerDown, PeerGone, PeerUp, Received, Stopped
from ..wire.events import CLUSTER
from ..wire.flow_frames import Pressed
from ..wire.frame import Frame
from ..wire.records import CHECKPOINT, DROPPED, ENTRIES, OPENED, DroppedRecord, OpenedRecord, encode_record
from ..wire.store_frames import Ahead, Ousted, Room, Take, Taken, Written
from ..wiring.snapshot import ClusterOutline
from .cluster_state import ClusterState

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""A checkpoint is due when so much was written since the last, and four times as much as that was itself."""

_encode = msgspec.msgpack.Encoder().encode
_outline = msgspec.msgpack.Decoder(ClusterOutline)


class StoreLink:
    """Args:
        took: called when the stream has been read back, with what this store has promised: the parts that go by the log
            and the wiring begin anew then.
        begun: called when the record that opens the stream is on disk.
        wrote: called when more of the log is on disk.
        queue_voters: queue id -> the voters when it was declared.

    Attributes:
        peer: name of the store.
        opened: the stream is opened for this life, on disk.
        pressed: the store's reserve is begun.
        streams: the queues of which the store had records when the cluster stream was taken.
        closing: this life of the stream ends: what is known is written down, and nothing comes behind it.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, took: Callable[[Promises], object],
        begun: Callable[[], object], wrote: Callable[[], object], queue_voters: Callable[[], dict[str, list[str]]],
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:  # fmt: skip
        self.peer = f"{cluster.broker}.store"
        self.opened = False
        self.pressed = False
        self.closing = False
        self.streams: list[str] = []
        self._closed = False
        self._outbox = outbox
        self._cluster = cluster
        self._took = took
        self._begun = begun
        self._queue_voters = queue_voters
        self._least_bytes = checkpoint_bytes
        self._writer = RecordWriter()
        self._wrote = wrote
        self._taken: Taken | None = None  # until the stream is read back
        self._asked = False  # the stream was asked for
        self._since_bytes = 0  # written since the last checkpoint
        self._last_bytes = 0  # of that
        self._due = False  # the store asks for a checkpoint

    # ---- what comes

    def hear(self, input: Received | PeerUp | PeerDown | PeerGone) -> None:
        if isinstance(input, Received):
            self._received(input.frame)
        elif isinstance(input, PeerUp):
            self._asked = True
            self._outbox.send(self.peer, Take(CLUSTER, self._cluster.inc))
        elif self._asked and not self._closed:
            self._outbox.retire("its store is gone: what it wrote last may not be on disk")

    def _received(self, frame: Frame) -> None:
        if type(frame) is Written:
            before = self.opened
            self._writer.written(frame)
            if self.opened and not before and not self.closing:
                self._begun()
            self._close()
        elif type(frame) is Taken:
            if frame.stream == CLUSTER:
                self._take(frame)
            else:
                self._writer.put(DROPPED, frame.stream, encode_record(DroppedRecord()), lambda lsn: None)
        elif type(frame) is Ousted:
            self._outbox.retire(f"life {frame.life} of this broker keeps its store now")
        elif type(frame) is Ahead:
            self._due = True
        elif type(frame) is Room:
            self.pressed = frame.pressed
            self._writer.room(frame)
            self._outbox.lead(self.said())

    # ---- beginning

    def _take(self, frame: Taken) -> None:
        self._taken, self.streams = frame, frame.streams
        if frame.last and not frame.hurt:
            self._outbox.effects.append(Load(CLUSTER, frame.checkpoint, frame.last, RETAINED_BYTES))
        else:
            self._open(None)

    def loaded(self, input: Loaded) -> None:
        """The stream's records are read: go on where they end."""
        if self._taken is None or input.stream != CLUSTER:
            return
        for _, kind, payload in input.records:
            self._count(kind, len(payload))
        try:
            history = read_history(input.records, input.before)
        except PeerError:  # it passed its checksum, and is no record all the same
            self._open(None)
        else:
            self._open(None if input.hurt or not input.records else history)

    def _open(self, history: StreamHistory | None) -> None:
        """Begin with a log of this life, or with the one found; no vote, if one was there that cannot be read (K4)."""
        taken, self._taken = self._taken, None
        assert taken is not None
        cluster = self._cluster
        if history is not None and (keeper := self._resumed(taken, history)) is not None:
            voters: list[str] = []  # the log's own, from its beginning on
        else:
            blank = cluster.keeper.blank or taken.hurt or taken.last > 0
            voters = list(cluster.keeper.voters)
            keeper = Keeper(CLUSTER, cluster.broker, cluster.inc, blank, taken.promised, voters, stored=True)
            keeper.durability = Durability(CLUSTER, self._writer, self._wrote)
            cluster.keeper = keeper
        self._took(Promises(self._writer, taken.promised))
        record = OpenedRecord(cluster.inc, keeper.log_inc, keeper.blank, voters)
        self._writer.put(OPENED, CLUSTER, encode_record(record), self._on_disk)

    def _resumed(self, taken: Taken, history: StreamHistory) -> Keeper | None:
        """The keeper of an earlier life's log, and its wiring; None if that log does not vote."""
        cluster = self._cluster
        keeper = Keeper(
            CLUSTER, cluster.broker, cluster.inc, history.blank, taken.promised, history.voters, history.log_inc,
            taken.opened, True,
        )  # fmt: skip
        keeper.durability = Durability(CLUSTER, self._writer, self._wrote)
        committed = keeper.resume(history)
        if keeper.blank:
            return None
        found = history.checkpoint
        outline = _outline.decode(found.outline) if found is not None else None
        cluster.resume(keeper, outline, history, committed)
        return keeper

    def _on_disk(self, lsn: int) -> None:
        self.opened = True

    # ---- what goes

    def flush(self) -> None:
        """Send what is to be written; a checkpoint behind it, if one is due."""
        if self.opened and (self._due or self._since_bytes > max(self._least_bytes, 4 * self._last_bytes)):
            self.checkpoint()
        write = self._writer.gathered()
        if write is not None:
            for kind, stream, payload in write.records:
                if stream:
                    self._count(kind, len(payload))
            self._outbox.send(self.peer, write)

    def _count(self, kind: int, count_bytes: int) -> None:
        if kind == CHECKPOINT:
            self._since_bytes, self._last_bytes = 0, count_bytes
        else:
            self._since_bytes += count_bytes

    def said(self) -> Pressed:
        """The word of this broker on the room on its disk."""
        return Pressed(self._cluster.broker, self.pressed)

    def drop(self, stream: str) -> None:
        """Of a queue that is not there, the store has records still: they are dead once the stream is taken."""
        self._outbox.send(self.peer, Take(stream, self._cluster.inc))

    def forget(self, done: Callable[[], object]) -> None:
        """Give the log up: the next life begins with none, and blank (K4). `done`: called when that is on disk."""
        record = OpenedRecord(self._cluster.inc, self._cluster.inc, True)
        self._writer.put(OPENED, CLUSTER, encode_record(record), lambda lsn: done())

    def close(self) -> None:
        """Write down what there is, and say when it is on disk."""
        if not self.closing:
            self.closing = True
            if self.opened:
                self.checkpoint()
            self._close()

    def _close(self) -> None:
        if self.closing and not self._closed and self._writer.idle:
            self._closed = True
            self._outbox.effects.append(Stopped())

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
            self._writer.put(ENTRIES, CLUSTER, encode_record(tail), lambda lsn: None)
