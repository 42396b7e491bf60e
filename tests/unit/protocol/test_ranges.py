"""RangeSet against a plain set, and the helpers for flat ranges."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.ranges import RangeSet, compress, melted, pairs, rising, runs, size, subtract

edges = st.tuples(st.integers(1, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))
moves = st.lists(st.tuples(st.sampled_from(["add", "remove"]), edges), max_size=40)


@given(moves)
def test_range_set_is_a_set(steps):
    ours, plain = RangeSet(), set()
    for name, (first, last) in steps:
        getattr(ours, name)(first, last)
        numbers = set(range(first, last + 1))
        plain = plain | numbers if name == "add" else plain - numbers
        assert {p for a, b in ours for p in range(a, b + 1)} == plain
        assert ours.count == len(plain) and bool(ours) == bool(plain)
        parts = list(ours)
        assert all(b + 1 < c for (_, b), (c, _) in pairwise(parts)), "ranges touch"
    for position in range(80):
        assert (position in ours) == (position in plain)
        later = [p for p in plain if p >= position]
        found = ours.at_or_after(position)
        assert (found[0] if found else None) == (min(later) if later else None)
    assert RangeSet(ours.flat()) == ours


@given(moves, moves, st.integers(0, 40))
def test_the_head_and_other_members(steps, others, count):
    ours, other = RangeSet(), RangeSet()
    for one, moved in ((ours, steps), (other, others)):
        for name, part in moved:
            getattr(one, name)(*part)
    members = [p for a, b in ours for p in range(a, b + 1)]
    assert [p for a, b in ours.head(count) for p in range(a, b + 1)] == members[:count]
    ours.assign(other.flat())
    assert ours == other and ours.count == other.count


@given(moves, moves)
def test_many_ranges_at_once(steps, others):
    ours, other = RangeSet(), RangeSet()
    for one, moved in ((ours, steps), (other, others)):
        for name, part in moved:
            getattr(one, name)(*part)
    both = {p for one in (ours, other) for a, b in one for p in range(a, b + 1)}
    ours.update(other)
    assert {p for a, b in ours for p in range(a, b + 1)} == both and ours.count == len(both)
    assert ours == RangeSet(compress(sorted(both)))


@given(moves, edges)
def test_questions_about_a_stretch(steps, stretch):
    ours = RangeSet()
    for name, part in steps:
        getattr(ours, name)(*part)
    first, last = stretch
    inside = {p for p in range(first, last + 1) if p in ours}
    assert ours.covers(first, last) == (len(inside) == last - first + 1)
    assert {p for a, b in ours.within(first, last) for p in range(a, b + 1)} == inside
    rest = subtract(first, last, ours.within(first, last))
    assert {p for a, b in rest for p in range(a, b + 1)} == set(range(first, last + 1)) - inside


@given(moves, st.lists(edges, max_size=10))
def test_what_is_taken_is_told(steps, stretches):
    ours, other = RangeSet(), RangeSet()
    for name, part in steps:
        getattr(ours, name)(*part)
        getattr(other, name)(*part)
    for first, last in stretches:
        inside = other.within(first, last)
        other.remove(first, last)
        assert ours.take(first, last) == inside
        assert ours == other and ours.count == other.count


@given(moves, st.integers(0, 80))
def test_all_from_a_position_on(steps, position):
    ours = RangeSet()
    for name, part in steps:
        getattr(ours, name)(*part)
    found = list(ours.since(position))
    assert found == ours.within(position, 1_000)


@given(st.permutations(range(12)), st.lists(edges, max_size=8))
def test_ranges_in_any_order_rise(order, parts):
    ours = RangeSet()
    for part in parts:
        ours.add(*part)
    singles = [(p, p) for a, b in ours for p in range(a, b + 1)]
    mixed = [singles[i] for i in order if i < len(singles)] + singles[12:][::-1]
    assert rising(mixed) == list(ours)


def test_runs_melt_within_an_acquisition_and_none_is_lost():
    assert melted([1, 3, 3, 1, 1, 2, 2, 4, 4, 1, 7, 9]) == [1, 1, 3, 1, 7, 9, 2, 4, 4]
    assert melted([1, 3, 3, 1, 3, 3]) == [1, 3, 3, 1, 3, 3], "the second is lost: its broker says so"


@given(st.sets(st.integers(1, 50), min_size=0, max_size=30))
def test_compress_keeps_the_numbers(numbers):
    flat = compress(sorted(numbers))
    assert {n for a, b in pairs(flat) for n in range(a, b + 1)} == numbers
    assert size(flat) == len(numbers)


def test_runs_are_triples():
    assert list(runs([1, 2, 3, 4, 5, 6])) == [(1, 2, 3), (4, 5, 6)]
