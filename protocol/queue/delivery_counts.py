"""How often each message of a queue was delivered before, as marks and counts: AMQP's delivery-count, by position; and
what consumers noted on those that they gave back.

When the owner of the consume lock is out, all that is available may have been seen (`sequencer.md` B3): every message
of a queue at once. So "at least once" is a set of ranges, and only what came back more than once has a number of its
own. An eviction costs by the range, whatever the depth of the queue (`durable.md` 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..limits import ANNOTATIONS_BYTES
from ..ranges import RangeSet, subtract
from ..wire.message import annotated
from .snapshot import QueueSnapshot

_encode = msgspec.msgpack.Encoder().encode


class DeliveryCounts:
    """Part of a queue's replicated state. A queue of which nothing came back has no marks, and pays for none.

    Args:
        marks: as flat ranges.
        repeated: (position, count) pairs, in any order; each has its mark, whether or not `marks` names it.
        uncounted: as flat ranges; of `marks`.
        annotations: of marked ones.

    Attributes:
        marks: positions of messages that came back: they were acquired, and delivered at least once if not `uncounted`.
        repeated: position -> how often, of those delivered more than once.
        uncounted: positions of marked messages that count as never delivered, by what their consumers said.
        annotations: position -> what consumers noted on it: no such value is ever changed, several may share one.
    """

    __slots__ = ("annotations", "marks", "repeated", "uncounted")

    def __init__(
        self,
        marks: Iterable[int] = (),
        repeated: Iterable[tuple[int, int]] = (),
        uncounted: Iterable[int] = (),
        annotations: dict[int, dict[str, Any]] | None = None,
    ) -> None:
        self.marks = RangeSet(marks)
        pairs = sorted(repeated)
        self.marks.update((position, position) for position, _ in pairs)
        self.repeated = {position: count for position, count in pairs if count > 1}
        self.uncounted = RangeSet(uncounted)
        self.annotations = annotations or {}

    @classmethod
    def of(cls, snapshot: QueueSnapshot) -> DeliveryCounts:
        return cls(snapshot.marks, snapshot.deliveries, snapshot.uncounted, dict(snapshot.annotations))

    def told(self) -> dict[str, Any]:
        """The fields of a `QueueSnapshot` that `of` reads."""
        return {
            "deliveries": list(self.repeated.items()),
            "marks": self.marks.flat(),
            "uncounted": self.uncounted.flat(),
            "annotations": list(self.annotations.items()),
        }

    def __bool__(self) -> bool:
        return bool(self.marks)

    def back(self, first: int, last: int) -> None:
        """``first..last`` were delivered once more, and are back."""
        repeated = self.repeated
        known = self.marks.within(first, last)
        if self.uncounted.count:
            fresh = self.uncounted.take(first, last)
            inside = [(a, b, [one for one in fresh if a <= one[0] <= b]) for a, b in known]  # each is of one mark
            known = [part for a, b, ranges in inside for part in subtract(a, b, ranges)]
        for a, b in known:
            for position in range(a, b + 1):
                repeated[position] = repeated.get(position, 1) + 1
        self.marks.add(first, last)

    def modified(self, positions: list[tuple[int, int]], annotations: dict[str, Any]) -> None:
        """These are back, counted if their consumer says so; it notes this on them. Annotations that would make those
        of a message larger than `ANNOTATIONS_BYTES` are not taken."""
        for first, last in positions:
            for a, b in subtract(first, last, self.marks.within(first, last)):
                self.uncounted.add(a, b)
            self.marks.add(first, last)
        if not annotations:
            return
        known = self.annotations
        for position in (position for first, last in positions for position in range(first, last + 1)):
            before = known.get(position)
            if before is None:
                known[position] = annotations
            elif len(_encode(merged := before | annotations)) <= ANNOTATIONS_BYTES:
                known[position] = merged

    def may_be_seen(self, positions: RangeSet) -> None:
        """These may have been delivered, by an owner that cannot be asked any more: at least once."""
        self.marks.update(positions)
        if self.uncounted.count:
            for first, last in positions:
                self.uncounted.remove(first, last)

    def forget(self, positions: list[tuple[int, int]]) -> None:
        """The messages at these positions are gone."""
        marks, repeated = self.marks, self.repeated
        for first, last in positions:
            _forget(repeated, first, last)
            marks.remove(first, last)
        if self.uncounted.count:
            for first, last in positions:
                self.uncounted.remove(first, last)
        if self.annotations:
            for first, last in positions:
                _forget(self.annotations, first, last)

    def column(self, parts: list[tuple[int, int]]) -> list[int]:
        """Flat ``[index, delivery count, ...]`` of those that came back, by their index in `parts`: 0 is said, too."""
        flat: list[int] = []
        before = 0
        counts = self.repeated
        if self.uncounted.count:
            fresh = (part for first, last in parts for part in self.uncounted.within(first, last))
            counts = counts | {position: 0 for a, b in fresh for position in range(a, b + 1)}
        for first, last in parts:
            for a, b in self.marks.within(first, last):
                for position in range(a, b + 1):
                    flat += (before + position - first, counts.get(position, 1))
            before += last - first + 1
        return flat

    def noted(self, position: int, blob: bytes) -> bytes:
        """A message as its consumers see it: with its annotations."""
        annotations = self.annotations.get(position)
        return blob if annotations is None else annotated(blob, annotations)

    def noted_all(self, parts: list[tuple[int, int]], blobs: list[bytes]) -> list[bytes]:
        """The same of all the messages of `parts`."""
        positions = (position for first, last in parts for position in range(first, last + 1))
        return [self.noted(position, blob) for position, blob in zip(positions, blobs, strict=True)]


def _forget(values: dict[int, Any], first: int, last: int) -> None:
    if last - first < len(values):
        for position in range(first, last + 1):
            values.pop(position, None)
    elif values:
        for position in [one for one in values if first <= one <= last]:
            del values[position]
