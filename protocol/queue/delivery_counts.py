"""How often each message of a queue was delivered before, as marks and counts: AMQP's delivery-count, by position.

When the owner of the consume lock is out, all that is available may have been seen (`sequencer.md` B3): every message
of a queue at once. So "at least once" is a set of ranges, and only what came back more than once has a number of its
own. An eviction costs by the range, whatever the depth of the queue (`durable.md` 7).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ranges import RangeSet


class DeliveryCounts:
    """Part of a queue's replicated state. A queue of which nothing came back has no marks, and pays for none.

    Args:
        marks: as flat ranges.
        repeated: (position, count) pairs, in any order; each has its mark, whether or not `marks` names it.

    Attributes:
        marks: positions of messages that were delivered at least once.
        repeated: position -> how often, of those delivered more than once.
    """

    __slots__ = ("marks", "repeated")

    def __init__(self, marks: Iterable[int] = (), repeated: Iterable[tuple[int, int]] = ()) -> None:
        self.marks = RangeSet(marks)
        pairs = sorted(repeated)
        self.marks.update((position, position) for position, _ in pairs)
        self.repeated = {position: count for position, count in pairs if count > 1}

    def __bool__(self) -> bool:
        return bool(self.marks)

    def back(self, first: int, last: int) -> None:
        """``first..last`` were delivered once more, and are back."""
        repeated = self.repeated
        for a, b in self.marks.within(first, last):
            for position in range(a, b + 1):
                repeated[position] = repeated.get(position, 1) + 1
        self.marks.add(first, last)

    def may_be_seen(self, positions: RangeSet) -> None:
        """These may have been delivered, by an owner that cannot be asked any more: at least once."""
        self.marks.update(positions)

    def forget(self, positions: list[tuple[int, int]]) -> None:
        """The messages at these positions are gone."""
        marks, repeated = self.marks, self.repeated
        for first, last in positions:
            if last - first < len(repeated):
                for position in range(first, last + 1):
                    repeated.pop(position, None)
            elif repeated:
                for position in [one for one in repeated if first <= one <= last]:
                    del repeated[position]
            marks.remove(first, last)

    def column(self, parts: list[tuple[int, int]]) -> list[int]:
        """Flat ``[index, delivery count, ...]`` of those delivered before, by their index in `parts`."""
        flat: list[int] = []
        before = 0
        for first, last in parts:
            for a, b in self.marks.within(first, last):
                for position in range(a, b + 1):
                    flat += (before + position - first, self.repeated.get(position, 1))
            before += last - first + 1
        return flat
