"""When messages came, against a plain dict, and what that costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.queue.enqueue_times import EnqueueTimes
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.wire.events import Acquire, Enqueue, Own

came = st.tuples(st.integers(1, 4), st.sampled_from([0, 5, 6, 9]))
histories = st.lists(st.one_of(came, st.sets(st.integers(0, 60), max_size=12)), max_size=30)
"""Messages and when they came; or which of those that live go."""


def told(times: EnqueueTimes, positions: list[int]) -> dict[int, int]:
    """What a delivery of these, in this order, says of each."""
    column = times.column([(p, p) for p in positions])
    found, at_ms = dict[int, int](), 0
    starts = dict(zip(column[::2], column[1::2], strict=True))
    for index, position in enumerate(positions):
        at_ms = starts.get(index, at_ms)
        found[position] = at_ms
    return found


@given(histories, st.integers(-200, 20), st.randoms(use_true_random=False))
def test_they_are_a_dict_of_times(history, spare, rng):
    """Whatever they forget of messages that are gone, also through a snapshot; and equal queues say the same."""
    ours, thrifty, theirs, end = EnqueueTimes(), EnqueueTimes(spare=spare), dict[int, int](), 1
    live = RangeSet()
    for step in history:
        if isinstance(step, set):
            for position in step & theirs.keys():
                del theirs[position]
                live.remove(position, position)
            thrifty = EnqueueTimes(thrifty.flat(live, end), spare)
            continue
        count, at_ms = step
        live.add(end, end + count - 1)
        theirs |= dict.fromkeys(range(end, end + count), at_ms)
        for times in (ours, thrifty):
            times.came(end, at_ms, len(theirs), lambda: live)
        end += count
    for times in (ours, thrifty):
        assert told(times, sorted(theirs)) == theirs
        assert told(times, order := rng.sample(sorted(theirs), len(theirs))) == {p: theirs[p] for p in order}
        assert times.flat(live, end) == ours.flat(live, end)
        for first, last in live:
            column = times.column([(first, last)])
            assert column == ours.column([(first, last)]) and len(column) <= 2 * (last - first + 1)


def test_messages_that_came_together_cost_a_delivery_one_time():
    state = QueueState("q#1")
    for first, at_ms in ((1, 70), (101, 70), (201, 71)):
        state.apply(Enqueue("c/1", [first, first + 99], [b"m"] * 100, at_ms=at_ms))
    assert state.times.column([(1, 200)]) == [0, 70]
    assert state.times.column([(150, 250)]) == [0, 70, 51, 71]
    assert state.times.column([(201, 250)]) == state.times.column([(201, 202), (260, 300)]) == [0, 71]
    assert state.snapshot().times == [1, 70, 201, 71]


def test_an_enqueue_of_an_older_member_brings_no_time():
    state = QueueState("q#1")
    for number, at_ms in enumerate((0, 7, 0), 1):
        state.apply(Enqueue("c/1", [number, number], [b"m"], at_ms=at_ms))
    assert state.times.column([(1, 1)]) == state.times.column([(3, 3)]) == []
    assert state.times.column([(1, 3)]) == [1, 7, 2, 0]


def test_what_is_gone_is_forgotten():
    state = QueueState("q#1")
    state.times = EnqueueTimes(spare=16)
    state.apply(Own("b1", 1, ""))
    for number in range(1, 2001):
        state.apply(Enqueue("c/1", [number, number], [b"m"], at_ms=1000 + number))
        if number > 1:  # the first one stays
            state.apply(Acquire("b1", 0, 1, [number, number, number], accepted=True))
        assert len(state.times._firsts) <= 2 * len(state.blobs) + 16 + 2
    assert state.times.column([(1, 1)]) == [0, 1001]
    assert state.snapshot().times == [1, 1001, 2001, 3000]
