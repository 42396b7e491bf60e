"""Sets of positions as disjoint, sorted, inclusive ranges: what makes a batch cost as much as one message.

On the wire a set is a flat list ``[first, last, first, last, ...]``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from math import inf

from .range_columns import FEW, apart, columns, cut_out, joined, rise

NEIGHBOURS = 8
"""Many ranges are taken together when there are at most so many times as many of the set between them."""


class RangeSet:
    """A set of integers kept as ranges. Not safe to change while iterating."""

    __slots__ = ("_firsts", "_lasts", "count")

    def __init__(self, flat: Iterable[int] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0
        """How many integers are in the set."""
        if flat:
            self.assign(flat)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, position: int) -> bool:
        index = bisect_right(self._firsts, position) - 1
        return index >= 0 and position <= self._lasts[index]

    def __repr__(self) -> str:
        return f"RangeSet({self.flat()})"

    def flat(self) -> list[int]:
        return [edge for pair in zip(self._firsts, self._lasts, strict=True) for edge in pair]

    @property
    def first(self) -> int:
        """The least member. Raises IndexError when empty."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """The greatest member. Raises IndexError when empty."""
        return self._lasts[-1]

    def add(self, first: int, last: int) -> None:
        """Put ``first..last`` in; members among them stay."""
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            self.count += last - first + 1
            return
        if first == lasts[-1] + 1:
            lasts[-1] = last
            self.count += last - first + 1
            return
        # All ranges that touch or overlap first..last melt into one.
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        if low < high:
            merged_first = min(first, firsts[low])
            merged_last = max(last, lasts[high - 1])
            self.count -= sum(lasts[i] - firsts[i] + 1 for i in range(low, high))
        else:
            merged_first, merged_last = first, last
        firsts[low:high] = [merged_first]
        lasts[low:high] = [merged_last]
        self.count += merged_last - merged_first + 1

    def update(self, rising: Iterable[tuple[int, int]]) -> None:
        """Put all these ranges in, which rise, in time linear in them and in the ranges that are here."""
        firsts, lasts = list[int](), list[int]()
        end = -inf  # behind the last range and what touches it
        for first, last in sorted([*self, *rising]):
            if first > end:
                firsts.append(first)
                lasts.append(last)
            elif last > lasts[-1]:
                lasts[-1] = last
            else:
                continue
            end = last + 1
        self._firsts, self._lasts, self.count = firsts, lasts, sum(lasts) - sum(firsts) + len(firsts)

    def assign(self, flat: Iterable[int]) -> None:
        """Have just these members."""
        if self.count:
            self.remove(self.first, self.last)
        items = iter(flat)
        for first in items:
            self.add(first, next(items))

    def remove(self, first: int, last: int) -> None:
        """Take ``first..last`` out, as far as they are members."""
        firsts, lasts = self._firsts, self._lasts
        if not firsts:
            return
        if first <= firsts[0] and last <= lasts[0]:  # the common case: from the head
            if last >= firsts[0]:
                self.count -= last - firsts[0] + 1
                if last < lasts[0]:
                    firsts[0] = last + 1
                else:
                    del firsts[0], lasts[0]
            return
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low >= high:
            return
        begin, end = firsts[low], lasts[high - 1]
        self.count -= sum(lasts[low:high]) - sum(firsts[low:high]) + high - low
        if begin < first:
            if end > last:
                self.count += first - begin + end - last
                firsts[low + 1 : high] = [last + 1]
                lasts[low : high - 1] = [first - 1]
                return
            self.count += first - begin
            lasts[low] = first - 1
            low += 1
        elif end > last:
            self.count += end - last
            firsts[high - 1] = last + 1
            high -= 1
        del firsts[low:high], lasts[low:high]

    def take(self, first: int, last: int) -> list[tuple[int, int]]:
        """Take ``first..last`` out, as far as they are members: those, as ranges."""
        firsts, lasts = self._firsts, self._lasts
        low = bisect_left(lasts, first)
        if low == len(firsts):
            return []
        begin, end = firsts[low], lasts[low]
        if last > end:
            found = self.within(first, last)
            RangeSet.remove(self, first, last)  # who overrides it may do so by this
            return found
        if last < begin:
            return []
        # The common case: out of one range.
        if first <= begin:
            if last == end:
                del firsts[low], lasts[low]
            else:
                firsts[low] = last + 1
            first = begin
        else:
            lasts[low] = first - 1
            if last < end:
                firsts.insert(low + 1, last + 1)
                lasts.insert(low + 1, end)
        self.count -= last - first + 1
        return [(first, last)]

    def take_all(self, gone_firsts: list[int], gone_lasts: list[int]) -> bool:
        """Take these ranges out together, if they are many, rise, and are all members: whether they are out. If not,
        nothing is."""
        count = len(gone_firsts)
        if count <= FEW or not rise(gone_firsts, gone_lasts):
            return False
        firsts, lasts = self._firsts, self._lasts
        low, high = bisect_left(lasts, gone_firsts[0]), bisect_right(firsts, gone_lasts[-1])
        if high - low > NEIGHBOURS * count:
            return False
        if firsts[low:high] == gone_firsts and lasts[low:high] == gone_lasts:
            del firsts[low:high], lasts[low:high]
        elif (left := cut_out(firsts[low:high], lasts[low:high], gone_firsts, gone_lasts)) is not None:
            firsts[low:high], lasts[low:high] = left
        else:
            return False
        self.count -= sum(gone_lasts) - sum(gone_firsts) + count
        return True

    def take_each(self, gone_firsts: list[int], gone_lasts: list[int]) -> list[tuple[int, int]]:
        """Take these ranges out, as far as they are members: those, as ranges, in the order of what they are parts
        of."""
        if len(gone_firsts) == 1:
            return self.take(gone_firsts[0], gone_lasts[0])
        ranges = zip(gone_firsts, gone_lasts, strict=True)
        if self.take_all(gone_firsts, gone_lasts):
            return list(ranges)
        return [part for first, last in ranges for part in self.take(first, last)]

    def take_known(self, firsts: list[int], lasts: list[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The same, and what of these ranges was not in."""
        if len(firsts) == 1:
            parts = self.take(firsts[0], lasts[0])
            return parts, [] if parts == [(firsts[0], lasts[0])] else subtract(firsts[0], lasts[0], parts)
        if self.take_all(firsts, lasts):
            return [*zip(firsts, lasts, strict=True)], []
        found, missing = list[tuple[int, int]](), list[tuple[int, int]]()
        for first, last in zip(firsts, lasts, strict=True):
            parts = self.take(first, last)
            found += parts
            if len(parts) != 1 or parts[0] != (first, last):
                missing += subtract(first, last, parts)
        return found, missing

    def add_all(self, ranges: list[tuple[int, int]]) -> None:
        """Put these ranges in, together if they are new, many, rise, and do not touch each other."""
        if len(ranges) <= FEW or not self._add_all(*columns(ranges)):
            for first, last in ranges:
                self.add(first, last)

    def _add_all(self, new_firsts: list[int], new_lasts: list[int]) -> bool:
        if not apart(new_firsts, new_lasts):
            return False
        firsts, lasts = self._firsts, self._lasts
        low, high = bisect_left(lasts, new_firsts[0] - 1), bisect_right(firsts, new_lasts[-1] + 1)
        both = new_firsts, new_lasts
        if high > low:
            if high - low > NEIGHBOURS * len(new_firsts):
                return False
            if (both := joined(firsts[low:high], lasts[low:high], new_firsts, new_lasts)) is None:
                return False
        firsts[low:high], lasts[low:high] = both
        self.count += sum(new_lasts) - sum(new_firsts) + len(new_firsts)
        return True

    def covers(self, first: int, last: int) -> bool:
        """Whether every member of ``first..last`` is in."""
        index = bisect_right(self._firsts, first) - 1
        return index >= 0 and last <= self._lasts[index]

    def within(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of ``first..last`` that are in, as ranges."""
        firsts, lasts = self._firsts, self._lasts
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        return [(max(first, firsts[i]), min(last, lasts[i])) for i in range(low, high)]

    def head(self, count: int) -> list[tuple[int, int]]:
        """The least `count` members, as ranges."""
        found: list[tuple[int, int]] = []
        for first, last in self:
            if count <= 0:
                break
            last = min(last, first + count - 1)
            count -= last - first + 1
            found.append((first, last))
        return found

    def since(self, position: int) -> Iterator[tuple[int, int]]:
        """All ranges of members >= `position`, the first one cut to start there."""
        firsts, lasts = self._firsts, self._lasts
        for index in range(bisect_left(lasts, position), len(lasts)):
            first = firsts[index]
            yield (first if first > position else position), lasts[index]

    def some(self, position: int, most: int) -> list[tuple[int, int]]:
        """The least members >= `position`, at most so many, as ranges."""
        index = bisect_left(self._lasts, position)
        firsts, lasts = self._firsts[index : index + most], self._lasts[index : index + most]
        if firsts == lasts:  # each of one member
            return [*zip(firsts, lasts, strict=True)]
        found: list[tuple[int, int]] = []
        for first, last in zip(firsts, lasts, strict=True):
            if first < position:
                first = position
            if last - first >= most:
                found.append((first, first + most - 1))
                break
            found.append((first, last))
            most -= last - first + 1
            if not most:
                break
        return found

    def meets(self, ranges: list[tuple[int, int]]) -> bool:
        """Whether one of these ranges, which rise, has a member."""
        low, high = bisect_left(self._lasts, ranges[0][0]), bisect_right(self._firsts, ranges[-1][1])
        if low >= high:
            return False
        if high - low <= NEIGHBOURS * len(ranges):
            firsts, lasts = columns(ranges)
            return joined(self._firsts[low:high], self._lasts[low:high], firsts, lasts) is None
        return any(self.within(first, last) for first, last in ranges)

    def at_or_after(self, position: int) -> tuple[int, int] | None:
        """The first range of members >= `position`, cut to start there, or None."""
        index = bisect_left(self._lasts, position)
        if index == len(self._firsts):
            return None
        return max(position, self._firsts[index]), self._lasts[index]


def subtract(first: int, last: int, taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """``first..last`` without the (sorted, disjoint) ranges in `taken`."""
    rest: list[tuple[int, int]] = []
    for a, b in taken:
        if first < a:
            rest.append((first, a - 1))
        first = b + 1
    if first <= last:
        rest.append((first, last))
    return rest


def rising(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint ranges in any order as few that rise."""
    if len(ranges) > FEW:
        firsts, lasts = columns(ranges)
        if (melted := joined(firsts, lasts, [], [])) is not None:
            return list(zip(*melted, strict=True))
    found: list[tuple[int, int]] = []
    begin, end = 0, -1
    for first, last in sorted(ranges):
        if first != end + 1 or end < 0:
            if end >= 0:
                found.append((begin, end))
            begin = first
        end = last
    if end >= 0:
        found.append((begin, end))
    return found


def compress(numbers: list[int]) -> list[int]:
    """A rising list of integers as flat ranges."""
    if not numbers:
        return []
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return [first, last]
    flat = [first]
    previous = first
    for number in numbers:
        if number > previous + 1:
            flat += (previous, number)
        previous = number
    flat.append(previous)
    return flat


def size(flat: list[int]) -> int:
    """How many integers the flat ranges hold."""
    return sum(flat[1::2]) - sum(flat[::2]) + len(flat) // 2


def runs(flat: list[int]) -> Iterator[tuple[int, int, int]]:
    """The (acquisition, first, last) triples of flat runs."""
    items = iter(flat)
    return zip(items, items, items, strict=True)


def melted(flat: list[int]) -> list[int]:
    """The same runs, by acquisition and rising, those that touch as one; a message that is named twice still is."""
    found: list[int] = []
    for acquisition, first, last in sorted(runs(flat)):
        if found and found[-1] == first - 1 and found[-3] == acquisition:
            found[-1] = last
        else:
            found += (acquisition, first, last)
    return found


def pairs(flat: list[int]) -> Iterator[tuple[int, int]]:
    """The (first, last) pairs of flat ranges, or (index, value) pairs of a sparse column."""
    items = iter(flat)
    return zip(items, items, strict=True)
