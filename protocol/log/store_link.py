"""A process's way to its broker's store: it takes streams, has them read back, and writes to them from then on.

A stream is asked for under a life (`Take`); the answer says what the store has of it, and the process's shell reads
that by itself (`Load`, `Loaded`). Write numbers belong to the link, and nothing is sent again, so a link that breaks
ends the process (`durable.md` 3, F1).
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import PeerError
from ..machine import Load, Loaded, PeerDown, PeerGone, PeerUp, Received, Stopped, store_of
from ..wire.frame import Frame
from ..wire.store_frames import Ahead, Ousted, Room, Take, Taken, Write, Written
from .durability import RecordWriter
from .history import StreamHistory, read_history
from .outbox import FollowerOutbox
from .retained import RETAINED_BYTES

Records = list[tuple[int, int, bytes]]
"""LSN, kind and payload of each record, as in `Loaded`."""

Found = Callable[[Taken, StreamHistory | None, Loaded], object]
"""Called with what the store has of a stream; without a history, if it has none that can be read."""


class StoreLink:
    """Args:
        broker: whose store it is.
        ahead: called with an LSN when the store asks that nothing before it be needed.

    Attributes:
        peer: name of the store.
        pressed: the store's reserve is begun.
        closing: this life ends: nothing comes behind what was to be written then.
        writer: of the records to it.
    """

    def __init__(self, outbox: FollowerOutbox, broker: str, ahead: Callable[[int], object]) -> None:
        self.peer = store_of(broker)
        self.pressed = False
        self.closing = False
        self.writer = RecordWriter()
        self._outbox = outbox
        self._ahead = ahead
        self._up = False
        self._closed = False
        self._takes: dict[str, tuple[Take, Found]] = {}  # not read back yet
        self._taken: dict[str, Taken] = {}  # of those, the ones that are being read

    # ---- streams

    def take(self, stream: str, life: int, found: Found) -> None:
        """Keep the stream from now on."""
        self._takes[stream] = Take(stream, life), found
        if self._up:
            self._outbox.send(self.peer, self._takes[stream][0])

    def loaded(self, input: Loaded) -> None:
        """A stream's records are read."""
        taken = self._taken.pop(input.stream, None)
        if taken is None:
            return
        history = input.history
        if history is None and not input.hurt and input.records:
            try:
                history = read_history(input.records, input.before)
            except PeerError:
                pass  # it passed its checksum, and is no record all the same
        self._found(taken, history, input)

    def _found(self, taken: Taken, history: StreamHistory | None, loaded: Loaded) -> None:
        _, found = self._takes.pop(taken.stream)
        found(taken, history, loaded)

    # ---- what comes

    def hear(self, input: Received | PeerUp | PeerDown | PeerGone) -> None:
        if isinstance(input, Received):
            self.received(input.frame)
        elif isinstance(input, PeerUp):
            self._up = True
            for take, _ in self._takes.values():
                self._outbox.send(self.peer, take)
        elif self._up and not self._closed:
            self._outbox.retire("its store is gone: what it wrote last may not be on disk")

    def received(self, frame: Frame) -> None:
        if type(frame) is Written:
            self.writer.written(frame)
            self._close()
        elif type(frame) is Taken:
            self._take(frame)
        elif type(frame) is Ousted:
            self._outbox.retire(f"life {frame.life} of this broker keeps {frame.stream} now")
        elif type(frame) is Ahead:
            self._ahead(frame.upto)
        elif type(frame) is Room:
            self.pressed = frame.pressed
            self.writer.room(frame)

    def _take(self, frame: Taken) -> None:
        stream = frame.stream
        if stream not in self._takes or self._takes[stream][0].life != frame.life:
            return
        if frame.last and not frame.hurt:
            self._taken[stream] = frame
            self._outbox.effects.append(Load(stream, frame.checkpoint, frame.last, RETAINED_BYTES))
        else:
            self._found(frame, None, Loaded(frame.stream, []))

    # ---- ending

    def close(self) -> None:
        """What is to be written last is handed out: say when it is on disk (`Stopped`)."""
        self.closing = True
        self._close()

    def _close(self) -> None:
        if self.closing and not self._closed and self.writer.idle:
            self._closed = True
            self._outbox.effects.append(Stopped())

    # ---- what goes

    def flush(self, live_bytes: Callable[[str], int | None] = lambda stream: None) -> Write | None:
        """Send what is to be written, with bytes of live bodies where the store is to be told; returns it."""
        write = self.writer.gathered(live_bytes) if self._up else None
        if write is not None:
            self._outbox.send(self.peer, write)
        return write
