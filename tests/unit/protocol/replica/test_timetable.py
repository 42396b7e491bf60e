"""Which positions are due at which time, alone."""

from __future__ import annotations

import random

from mantamq.protocol.replica.timetable import Timetable


def test_the_first_comes_first_and_those_of_one_time_as_they_were_noted():
    times = Timetable([(30, 1), (10, 2), (30, 3), (10, 4), (20, 5)])
    assert (len(times), times.first_ms, list(times)) == (5, 10, [(10, 2), (10, 4), (20, 5), (30, 1), (30, 3)])
    assert [times.pop() for _ in range(5)] == [2, 4, 5, 1, 3] and not times
    times.add(7, 6)
    assert times.first_ms == 7 and times.pop() == 6


def test_those_that_are_gone_are_dropped_from_the_front_as_many_as_one_looks_at():
    times = Timetable([(10, 1), (10, 2), (20, 3), (20, 4), (30, 5)])
    assert times.drop_gone({4, 5}, 2) == 0 and list(times) == [(20, 3), (20, 4), (30, 5)]
    assert times.drop_gone({4, 5}, 9) == 8 and list(times) == [(20, 4), (30, 5)]
    assert times.drop_gone({4}, 9) == 9 and len(times) == 2, "only from the front"
    assert times.drop_gone({}, 9) == 7 and not times and list(times) == []


def test_only_what_is_to_stay_stays():
    times = Timetable([(10, 1), (20, 2), (20, 3)])
    times = times.kept({3})
    assert list(times) == [(20, 3)] and len(times) == 1 and times.pop() == 3


def test_it_is_as_a_sorted_list():
    dice = random.Random(7)
    times, model = Timetable(), list[tuple[int, int]]()
    for position in range(2000):
        if model and dice.random() < 0.4:
            first = min(model, key=lambda item: item[0])
            model.remove(first)
            assert times.first_ms == first[0] and times.pop() == first[1]
        at_ms = dice.randrange(50)
        times.add(at_ms, position)
        model.append((at_ms, position))
    assert list(times) == sorted(model, key=lambda item: item[0]) and len(times) == len(model)
