"""Delivery counts against a plain dict, and what they cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.queue.delivery_counts import DeliveryCounts
from mantamq.protocol.ranges import RangeSet

stretches = st.tuples(st.integers(1, 40), st.integers(0, 10)).map(lambda p: (p[0], p[0] + p[1]))
disjoint = st.lists(stretches, max_size=4).map(lambda parts: list(_melted(parts)))
steps = st.lists(st.tuples(st.sampled_from(["back", "may_be_seen", "forget"]), disjoint), max_size=30)


def _melted(parts: list[tuple[int, int]]) -> RangeSet:
    ranges = RangeSet()
    for first, last in parts:
        ranges.add(first, last)
    return ranges


def plain(counts: DeliveryCounts) -> dict[int, int]:
    """What it tells of each position, by the question that a delivery asks."""
    column = counts.column([(1, 60)])
    return {1 + index: count for index, count in zip(column[::2], column[1::2], strict=True)}


@given(steps)
def test_they_are_a_dict_of_counts(history):
    ours, theirs = DeliveryCounts(), dict[int, int]()
    for name, parts in history:
        positions = [p for first, last in parts for p in range(first, last + 1)]
        if name == "back":
            for first, last in parts:
                ours.back(first, last)
            theirs |= {p: theirs.get(p, 0) + 1 for p in positions}
        elif name == "may_be_seen":
            ours.may_be_seen(_melted(parts))
            theirs |= {p: theirs.get(p, 1) for p in positions}
        else:
            ours.forget(parts)
            theirs = {p: count for p, count in theirs.items() if p not in positions}
        assert plain(ours) == theirs and bool(ours) == bool(theirs)
        assert ours.repeated == {p: count for p, count in theirs.items() if count > 1}, "no more than these is kept"
    assert plain(DeliveryCounts(ours.marks.flat(), list(ours.repeated.items())[::-1])) == theirs
    assert plain(DeliveryCounts((), theirs.items())) == theirs, "as a program without marks tells them"


@given(steps, st.permutations([(3, 9), (1, 1), (20, 45), (12, 12)]))
def test_a_delivery_names_its_messages_by_their_place_in_it(history, parts):
    counts = DeliveryCounts()
    for name, ranges in history:
        if name == "back":
            for first, last in ranges:
                counts.back(first, last)
        else:
            getattr(counts, name)(_melted(ranges) if name == "may_be_seen" else ranges)
    wanted = plain(counts)
    positions = [p for first, last in parts for p in range(first, last + 1)]
    told = [n for index, p in enumerate(positions) if p in wanted for n in (index, wanted[p])]
    assert counts.column(parts) == told


def test_an_eviction_marks_a_deep_queue_by_its_ranges():
    counts = DeliveryCounts()
    counts.back(7, 7)
    counts.back(7, 7)
    counts.may_be_seen(RangeSet([1, 10**12]))
    assert (counts.marks.flat(), counts.repeated) == ([1, 10**12], {7: 2})
    counts.forget([(1, 10**12)])
    assert not counts and not counts.repeated
