"""Many ranges at once: sorted, disjoint, inclusive ranges as two columns, the first member of each and the last.

Taken one after the other each range costs a search and a move of all that is behind it. Together, the edges of a set
and of what goes out of it or comes into it are merged by sorting, which costs each a part of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress, groupby
from operator import le, lt

Columns = tuple[list[int], list[int]]
FEW = 5
"""So many ranges cost no more one after the other."""


def rise(firsts: list[int], lasts: list[int]) -> bool:
    """Whether these ranges rise and share no member."""
    return all(map(lt, lasts, firsts[1:])) and all(map(le, firsts, lasts))


def apart(firsts: list[int], lasts: list[int]) -> bool:
    """Whether these ranges rise and none touches the next."""
    return all(map(lt, [last + 1 for last in lasts], firsts[1:]))


def cut_out(firsts: list[int], lasts: list[int], gone_firsts: list[int], gone_lasts: list[int]) -> Columns | None:
    """Ranges, without others that are in them; None: some of those are not. Both rise."""
    begins = sorted([*firsts, *[last + 1 for last in gone_lasts]])
    ends = sorted([*[last + 1 for last in lasts], *gone_firsts])  # each is the first that is not a member any more
    # What goes ends a range and begins another behind it. If it was in one, so many have begun as end, at each place.
    if not all(map(le, begins, ends)):
        return None
    left = [*map(lt, begins, ends)]
    return [*compress(begins, left)], [end - 1 for end in compress(ends, left)]


def joined(firsts: list[int], lasts: list[int], new_firsts: list[int], new_lasts: list[int]) -> Columns | None:
    """Ranges and others, those that touch as one; None: they share members. Both rise, and there are some."""
    begins, ends = sorted(firsts + new_firsts), sorted(lasts + new_lasts)
    next_begins = begins[1:]
    if not all(map(lt, ends, next_begins)):
        return None
    apart = [*map(lt, [end + 1 for end in ends], next_begins)]
    return [begins[0], *compress(next_begins, apart)], [*compress(ends, apart), ends[-1]]


def columns(ranges: list[tuple[int, int]]) -> Columns:
    """Of ranges, of which there are some."""
    firsts, lasts = zip(*ranges, strict=True)
    return [*firsts], [*lasts]


def positions_in(ranges: list[tuple[int, int]]) -> Iterable[int]:
    """All members of these ranges, in their order."""
    if len(ranges) == 1:
        return range(ranges[0][0], ranges[0][1] + 1)
    if len(ranges) > FEW:
        firsts, lasts = zip(*ranges, strict=True)
        return positions_between(firsts, lasts)
    return chain.from_iterable([range(first, last + 1) for first, last in ranges])


def positions_between(firsts: Sequence[int], lasts: Sequence[int]) -> Iterable[int]:
    """The same, of ranges in columns."""
    if firsts == lasts:
        return firsts
    return chain.from_iterable(map(range, firsts, [last + 1 for last in lasts]))


def count_of(ranges: list[tuple[int, int]]) -> int:
    """How many members they have."""
    return sum([last - first for first, last in ranges]) + len(ranges)


def by_acquisition(flat: list[int]) -> Iterable[tuple[int, list[int], list[int]]]:
    """(acquisition, firsts, lasts) of flat runs that follow each other and are of one acquisition."""
    if len(flat) == 3:
        return ((flat[0], flat[1:2], flat[2:]),)
    acquisitions, firsts, lasts = flat[::3], flat[1::3], flat[2::3]
    if flat and acquisitions.count(flat[0]) == len(acquisitions):
        return ((flat[0], firsts, lasts),)
    found: list[tuple[int, list[int], list[int]]] = []
    begin = 0
    for acquisition, same in groupby(acquisitions):
        end = begin + len([*same])
        found.append((acquisition, firsts[begin:end], lasts[begin:end]))
        begin = end
    return found
