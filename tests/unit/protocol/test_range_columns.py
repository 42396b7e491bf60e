"""Many ranges at once against the same ranges one after the other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.queue.parted import Parted
from mantamq.protocol.range_columns import (
    FEW,
    apart,
    by_acquisition,
    columns,
    count_of,
    cut_out,
    joined,
    positions_in,
    rise,
)
from mantamq.protocol.ranges import NEIGHBOURS, RangeSet, compress, pairs, runs

positions = st.binary(min_size=8, max_size=8).map(
    lambda bits: {at + 1 for at in range(64) if bits[at // 8] >> at % 8 & 1}
)
flat = positions.map(lambda some: compress(sorted(some)))


@st.composite
def cut(draw: st.DrawFn, some: set[int]) -> list[tuple[int, int]]:
    """Ranges of all these, some of which touch the next."""
    found: list[tuple[int, int]] = []
    if draw(st.booleans()):
        return [*pairs(compress(sorted(some)))]
    ends = draw(positions)
    for first, last in pairs(compress(sorted(some))):
        for end in (at for at in range(first, last + 1) if at in ends or at == last):
            found.append((first, end))
            first = end + 1
    return found


@given(st.data(), positions, positions)
def test_many_go_as_one_after_the_other_do(data, there, gone):
    ours, other = RangeSet(compress(sorted(there))), RangeSet(compress(sorted(there)))
    ranges = data.draw(cut(gone & there if data.draw(st.booleans()) else gone))
    firsts, lasts = [first for first, _ in ranges], [last for _, last in ranges]
    told = [part for first, last in ranges for part in other.take(first, last)]
    assert ours.take_each(firsts, lasts) == told
    assert ours == other and ours.count == other.count == len(there - gone)


@given(st.data(), positions, positions)
def test_what_is_missing_is_told(data, there, gone):
    ours = RangeSet(compress(sorted(there)))
    ranges = data.draw(cut(gone))
    found, missing = ours.take_known([first for first, _ in ranges], [last for _, last in ranges])
    assert set(positions_in(found)) == gone & there and set(positions_in(missing)) == gone - there
    assert ours == RangeSet(compress(sorted(there - gone))) and ours.count == len(there - gone)


@given(st.data(), positions, positions)
def test_many_come_as_one_after_the_other_do(data, there, new):
    ours = RangeSet(compress(sorted(there)))
    ours.add_all(data.draw(cut(new - there if data.draw(st.booleans()) else new)))
    assert ours == RangeSet(compress(sorted(there | new))) and ours.count == len(there | new)


@given(st.data(), st.binary(min_size=40, max_size=60), positions)
def test_parts_lose_what_goes_at_once(data, parts, gone):
    ours, other = Parted(), Parted()
    for one in (ours, other):
        one.add(1, len(parts))
        one.place(1, [part % 5 for part in parts])
    whole = data.draw(st.sets(st.integers(0, 4)))
    gone = {at for at in gone if at <= len(parts)} | {at for at, part in enumerate(parts, 1) if part % 5 in whole}
    ranges = data.draw(cut(gone))
    firsts, lasts = [first for first, _ in ranges], [last for _, last in ranges]
    assert ours.take_each(firsts, lasts) == [part for pair in ranges for part in other.take(*pair)]
    assert ours == other and ours.parts == other.parts and list(ours.parts) == list(other.parts), "in their order"
    assert all(waiting.count == len([*positions_in([*waiting])]) > 0 for waiting in ours.parts.values())


@given(flat, st.integers(0, 130), st.integers(1, 40))
def test_some_from_a_position_on(there, position, most):
    found = RangeSet(there).some(position, most)
    behind = [p for a, b in pairs(there) for p in range(a, b + 1) if p >= position]
    assert [*positions_in(found)] == behind[:most]


@given(flat, flat.filter(bool))
def test_whether_ranges_meet(there, others):
    ranges = list(pairs(others))
    assert RangeSet(there).meets(ranges) == bool(set(positions_in([*pairs(there)])) & set(positions_in(ranges)))


@given(flat, flat)
def test_what_is_not_in_does_not_go_out(there, gone):
    (firsts, lasts), (gone_firsts, gone_lasts) = ((some[::2], some[1::2]) for some in (there, gone))
    left = cut_out(firsts, lasts, gone_firsts, gone_lasts)
    inside = set(positions_in([*pairs(there)])) >= set(positions_in([*pairs(gone)]))
    assert (left is not None) == inside
    if left is not None:
        assert apart(*left) and rise(*left)


@pytest.mark.parametrize("wrong", [[(5, 6), (3, 3)], [(3, 5), (5, 6)], [(3, 3), (3, 3)], [(4, 3), (5, 6)]])
def test_what_does_not_rise_goes_one_after_the_other(wrong):
    """As each of the rest is taken: of a message that is named twice the second is missing."""
    far = [(first, first) for first in range(20, 20 + 2 * FEW, 2)]
    firsts, lasts = columns([*wrong, *far])
    assert not rise(firsts, lasts)
    ours, other = RangeSet([1, 100]), RangeSet([1, 100])
    assert not ours.take_all(firsts, lasts) and ours == RangeSet([1, 100])
    assert ours.take_each(firsts, lasts) == [part for pair in [*wrong, *far] for part in other.take(*pair)]
    assert ours == other


def test_far_apart_in_a_large_set_go_one_after_the_other():
    """What lies between them is not walked through."""
    firsts = [1 + 4 * NEIGHBOURS * number for number in range(2 * FEW)]
    ours = RangeSet(compress(list(range(1, firsts[-1] + 1, 2))))
    before = ours.count
    assert not ours.take_all(firsts, firsts) and ours.count == before
    assert ours.take_each(firsts, firsts) == list(zip(firsts, firsts, strict=True))
    assert ours.count == before - len(firsts) and not any(first in ours for first in firsts)


def test_touching_ranges_melt():
    assert joined([1, 9], [3, 9], [4, 7], [5, 8]) == ([1, 7], [5, 9])
    assert joined([1], [3], [3], [4]) is None
    assert count_of([(1, 3), (7, 7)]) == 4 and count_of([]) == 0


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, 3)), max_size=12))
def test_runs_by_acquisition(some):
    flat_runs = [number for acquisition, first, more in some for number in (acquisition, first, first + more)]
    found = list(by_acquisition(flat_runs))
    assert [(a, *pair) for a, firsts, lasts in found for pair in zip(firsts, lasts, strict=True)] == list(
        runs(flat_runs)
    )
    assert all(one[0] != other[0] for one, other in pairwise(found)), "as few as can be"
