"""When one durable queue writes a checkpoint, and what it carries forward first: the cleaner's half at the owner.

A checkpoint is due when the stream has written much since its last one, or when the store asks that the old end of its
log may go (`durable.md` 2, "Moving the tail"). For that, live messages that lie there are written again, in records of
at most `MOVE_BYTES`, one at a time behind other work. Their new places count from when they are on disk, and only then
is the checkpoint written that names them: so at every moment the last checkpoint on disk names records that are there.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..errors import LocalError
from ..log.checkpoint import ENTRY_BYTES
from ..queue.state import QueueState
from ..ranges import RangeSet, compress
from ..wire.records import CheckpointRecord, MessageRecord
from .extents import EntryPlaces, Extents

CHECKPOINT_BYTES = 16 * 1024 * 1024
CHECKPOINT_RATIO = 4
"""A checkpoint is due when the stream has written more than either since: that many bytes, or that many times the last
checkpoint's size (an entry counts as `ENTRY_BYTES` at least). So checkpoints are at most a fifth of all that is
written."""
MOVE_BYTES = 1024 * 1024
"""Most bytes of messages in one record of moved ones (one message may be larger)."""
TELL_BYTES = 1024 * 1024
TELL_SHARE = 4
"""The store is told of the live bytes when they have changed by more than `TELL_BYTES` and a fourth."""


class Checkpoints:
    """Args:
        state: of the queue, as applied.
        extents: where its messages are, by the last checkpoint.
        low: the least LSN that the last checkpoint needs.
        last_bytes: the size of that one.
        move_bytes: most bytes of messages in one record of moved ones.

    Attributes:
        extents: where its messages are.
        places: where the entries are that are not applied yet.
        under_way: moves are being made, or the checkpoint behind them is on its way to disk.
    """

    __slots__ = (
        "_asked", "_cursor", "_end", "_last_bytes", "_live", "_low", "_move_bytes", "_moving", "_put", "_since",
        "_state", "_told_bytes", "_upto", "_written_bytes", "extents", "places", "under_way",
    )  # fmt: skip

    def __init__(
        self, state: QueueState, extents: Extents | None = None, low: int = 0, last_bytes: int = 0,
        move_bytes: int = MOVE_BYTES,
    ) -> None:  # fmt: skip
        self._state = state
        self.extents = extents or Extents()
        self.places = EntryPlaces()
        self.under_way = False
        self._move_bytes = move_bytes
        self._low = low
        self._asked = 0  # the store wants the stream to need nothing before this LSN
        self._upto = 0  # that, when the checkpoint under way was begun
        self._written_bytes = 0  # since the last checkpoint
        self._last_bytes = last_bytes
        self._told_bytes = 0
        self._live = RangeSet()  # when the checkpoint under way was begun
        self._end = 0  # and the position that the next message would have had then
        self._cursor = 0  # what lies up to here is moved
        self._moving: list[list[int]] | None = None  # spans of positions whose record is on its way to disk
        self._put = 0  # size of the checkpoint on its way, 0 for none
        self._since: list[
            tuple[int, int]
        ] = []  # applied since that was made: index of an enqueue, number of its extent

    # ---- what happens in the stream

    def wrote(self, first: int, count: int, lsn: int, size: int) -> None:
        """A record of `count` entries from index `first` on, of so many bytes, is on disk: new ones, or those behind a
        checkpoint again. Where these lay before, the checkpoint does not need, and the store may free it."""
        self.places.wrote(first, count, lsn)
        for index, at in self._since:
            if first <= index < first + count:
                self.extents.again(at, lsn, index - first)
        self._written_bytes += max(size, count * ENTRY_BYTES)

    def applied(self, enqueued: list[tuple[int, int]]) -> None:
        """The entry at the state's index was just applied, and gave messages these positions, if it brought any.

        Raises:
            LocalError: it is not on disk (K5).
        """
        lsn, entry = self.places.take(self._state.index)
        if enqueued and not lsn:
            raise LocalError(f"{self._state.id}: entry {self._state.index} must be on disk before it is applied (K5)")
        for first, last in enqueued:
            if self._put:
                self._since.append((self._state.index, len(self.extents)))
            self.extents.enqueued(first, last, lsn, entry)

    def ahead(self, upto: int) -> None:
        """The store asks that the stream need nothing before this LSN."""
        self._asked = max(self._asked, upto)

    # ---- the next checkpoint

    def due(self) -> bool:
        """Whether one is to be begun."""
        much = max(CHECKPOINT_BYTES, CHECKPOINT_RATIO * self._last_bytes)
        return not self.under_way and (self._low < self._asked or self._written_bytes > much)

    def begin(self) -> None:
        """Begin one: what is moved is what lives now and lies before what the store asked for."""
        self.under_way = True
        self._since.clear()
        self._upto, self._cursor = self._asked, 0
        self._live, self._end = self._state.live(), self._state.next_position
        self.extents.prune(self._live)

    def move(self) -> MessageRecord | None:
        """The next record of messages to be written again; None while one is on its way, and when there is no more to
        move (`ready`)."""
        if not self.under_way or self._moving is not None or self._put:
            return None
        positions: list[int] = []
        spans: list[list[int]] = []
        size = 0
        for first, last, here in self._victims():
            end = last
            for position, blob in here:
                if positions and size + len(blob) > self._move_bytes:
                    end = position - 1
                    break
                positions.append(position)
                size += len(blob)
            if end >= first:
                if spans and spans[-1][1] == self._cursor:
                    spans[-1][1] = end
                else:
                    spans.append([first, end])
                self._cursor = end
            if end < last:
                break
        if not positions:
            for first, last in spans:  # nobody lives there any more
                self.extents.dropped(first, last)
            return None
        self._moving = spans
        blobs = self._state.blobs
        return MessageRecord(compress(positions), [blobs[position] for position in positions])

    def _victims(self) -> Iterator[tuple[int, int, Iterator[tuple[int, bytes]]]]:
        """(first, last, live messages) of each extent behind the cursor that is to be moved. One that stays breaks the
        span of them: the cursor is put behind it."""
        for first, last, lsn in self.extents.behind(self._cursor):
            if lsn < self._upto and last < self._end:
                yield first, last, self._messages(first, last)
            else:
                self._cursor = last

    def _messages(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        blobs = self._state.blobs
        for a, b in self._live.within(first, last):
            for position in range(a, b + 1):
                blob = blobs.get(position)
                if blob is not None:
                    yield position, blob

    def moved(self, lsn: int) -> None:
        """The record on its way is on disk."""
        spans, self._moving = self._moving or [], None
        for first, last in spans:
            self.extents.moved(first, last, lsn)

    def ready(self) -> bool:
        """Whether all is moved, so that the checkpoint may be written. Ask when `move` has given nothing."""
        return self.under_way and self._moving is None and not self._put

    def complete(self, record: CheckpointRecord) -> CheckpointRecord:
        """The checkpoint, with where the messages are; `record` has what the keeper knows.

        Raises:
            LocalError: entries that the keeper has given out are not applied: they would be lost.
        """
        state = self._state
        if record.index != state.index:
            text = f"{state.id}: a checkpoint at {record.index} needs a queue applied up to there, not {state.index}"
            raise LocalError(text)
        self.extents.prune(state.live())
        self._told_bytes = state.bytes
        return msgspec.structs.replace(
            record, low=self.extents.low, live_bytes=state.bytes, extents=self.extents.flat()
        )

    @property
    def on_its_way(self) -> bool:
        """A checkpoint is, to disk."""
        return self._put > 0

    def put(self, record: CheckpointRecord, size: int) -> None:
        """That one, of so many bytes, is on its way to disk."""
        self._put = size
        self._low = record.low
        self._written_bytes = 0

    def checkpointed(self, lsn: int) -> None:
        """It is on disk."""
        self._low = self._low or lsn
        if self._upto > lsn:  # the log did not reach so far: there is nothing that one more could move
            self._asked = min(self._asked, self._low)
        self._last_bytes, self._put = self._put, 0
        self.under_way = False

    # ---- the store's count

    def live_bytes(self) -> int | None:
        """Bytes of the live messages, if the store is to be told of them; None: what it knows is near enough."""
        size, told = self._state.bytes, self._told_bytes
        change = abs(size - told)
        if change <= TELL_BYTES or change * TELL_SHARE <= told:
            return None
        self._told_bytes = size
        return size
