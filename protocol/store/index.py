"""Where each stream's records are, by the records themselves: the analysis pass of ARIES, its table kept up to date.

The same rule notes a record when recovery finds it and when it is flushed, so a store that comes back knows what it
knew. Of damage in the middle of a log it is told where that lies; which streams are hurt follows from their chains.
"""

from __future__ import annotations

import msgspec

from ..wire.events import ZERO, Ballot
from ..wire.records import (
    CHECKPOINT,
    CLOSED,
    DROPPED,
    OPENED,
    PROMISE,
    CheckpointRecord,
    ClosedRecord,
    OpenedRecord,
    PromiseRecord,
    checkpoint_head,
    decode_record,
)


class StreamPlace(msgspec.Struct):
    """One stream of a log.

    Attributes:
        low: the least LSN that the stream needs.
        last: LSN of its last record.
        checkpoint: LSN of its last checkpoint, 0 for none.
        checkpoint_bytes: size of that one's payload.
        body_bytes: of the live bodies that lie in the log, as its owner has told.
        life, log_inc, blank: as in `OpenedRecord`, of the last life that has opened it.
        hurt: a part of it is, or may be, in damage.
        doubt: it is hurt, unless its next record turns out to follow `last`.
    """

    low: int
    last: int = 0
    checkpoint: int = 0
    checkpoint_bytes: int = 0
    body_bytes: int = 0
    life: int = 0
    log_inc: int = 0
    blank: bool = False
    hurt: bool = False
    doubt: bool = False

    @property
    def live_bytes(self) -> int:
        return self.body_bytes + self.checkpoint_bytes


class LogIndex:
    """The streams of one log.

    Attributes:
        streams: stream -> where its records are.
        promised: the highest ballot among its promises.
        shutdown: the id of the stop with which it ended cleanly, "" if it did not.
        damage: the stretches that cannot be read, as (first, behind) LSNs.
        moved: a stream may need less than when this was last set back, or has another owner.
    """

    def __init__(self) -> None:
        self.streams: dict[str, StreamPlace] = {}
        self.promised: Ballot = ZERO
        self.shutdown = ""
        self.damage: list[tuple[int, int]] = []
        self.moved = False

    def note(self, lsn: int, kind: int, stream: str, payload: bytes | memoryview, undo: int = 0) -> None:
        """The next record, in the order of the log. `undo`: LSN of the stream's record before it, 0 for none.

        Raises:
            PeerError: `bad-frame`, the payload is none of that kind.
        """
        self.shutdown = ""
        if not stream:
            self._note_own(kind, payload)
            return
        if kind == DROPPED:
            self.streams.pop(stream, None)
            self.moved = True
            return
        place = self.streams.get(stream)
        if place is None:
            place = self.streams[stream] = StreamPlace(lsn)
            place.hurt = self._damaged(undo)
        elif place.doubt:
            place.hurt = undo != place.last
        place.doubt = False
        place.last = lsn
        if kind == OPENED:
            self.moved = True
            opened = decode_record(kind, payload)
            if isinstance(opened, OpenedRecord):
                place.life, place.log_inc, place.blank = opened.life, opened.log_inc, opened.blank
        elif kind == CHECKPOINT:
            self._checkpoint(place, lsn, payload)

    def _note_own(self, kind: int, payload: bytes | memoryview) -> None:
        """A record of the store's own, not of a stream."""
        record = decode_record(kind, payload) if kind in (PROMISE, CLOSED) else None
        if isinstance(record, PromiseRecord):
            self.promised = max(self.promised, record.ballot)
        elif isinstance(record, ClosedRecord):
            self.shutdown = record.shutdown

    def _checkpoint(self, place: StreamPlace, lsn: int, payload: bytes | memoryview) -> None:
        head = checkpoint_head(payload)
        self.moved = True
        place.low = min(head.low or lsn, lsn)
        place.checkpoint, place.checkpoint_bytes = lsn, len(payload)
        place.body_bytes = head.live_bytes
        place.life, place.log_inc, place.blank = head.life, head.log_inc, head.blank
        if self.damage:
            place.hurt = self._needs_damage(place.low, payload)

    def _needs_damage(self, low: int, payload: bytes | memoryview) -> bool:
        """Whether a checkpoint names a record that lies in damage."""
        if low >= self.damage[-1][1]:
            return False
        record = decode_record(CHECKPOINT, payload)
        named = [*record.extents[2::4], *record.behind] if isinstance(record, CheckpointRecord) else []
        return any(map(self._damaged, named))

    def _damaged(self, lsn: int) -> bool:
        return any(first <= lsn < behind for first, behind in self.damage)

    def damaged(self, first: int, behind: int) -> None:
        """Nothing from LSN `first` up to `behind` can be read. What has come so far lies before it, and each stream may
        have had records in it: it is whole if its next one follows its last, or by a checkpoint that needs none there.
        """
        self.damage.append((first, behind))
        for place in self.streams.values():
            place.hurt = place.doubt = True

    @property
    def low(self) -> int | None:
        """The least LSN that any stream needs, None if there is no stream."""
        return min((place.low for place in self.streams.values()), default=None)

    @property
    def live_bytes(self) -> int:
        return sum(place.live_bytes for place in self.streams.values())

    @property
    def checkpoint_bytes(self) -> int:
        return sum(place.checkpoint_bytes for place in self.streams.values())
