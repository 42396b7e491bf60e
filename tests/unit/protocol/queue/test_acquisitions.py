"""What acquisitions hold, alone: settlements by number, and the end of a broker's."""

from __future__ import annotations

import pytest
from mantamq.protocol.queue.acquisitions import Acquisitions, take_held
from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.wire.events import Accept, Release


@pytest.fixture
def acquired() -> Acquisitions:
    return Acquisitions(
        {("b1", 2, 1): RangeSet([1, 4, 7, 8]), ("b1", 3, 2): RangeSet([5, 6]), ("b2", 2, 1): RangeSet([9, 9])}
    )


def test_a_settlement_takes_what_is_held_and_says_what_is_lost(acquired):
    assert acquired.settle(Accept("b1", 2, [1, 2, 3])) == ([(2, 3)], [])
    assert acquired.settle(Release("b1", 2, [1, 1, 7])) == ([(1, 1), (4, 4), (7, 7)], [1, 2, 3, 1, 5, 6])
    assert acquired["b1", 2, 1].flat() == [8, 8] and acquired.messages() == 4


@pytest.mark.parametrize("event", [Accept("b1", 2, [2, 5, 6]), Accept("b1", 3, [1, 5, 6]), Accept("b3", 3, [2, 5, 6])])
def test_a_settlement_under_another_number_incarnation_or_broker_hits_nothing(event, acquired):
    assert acquired.settle(event) == ([], event.runs) and acquired.messages() == 9


def test_an_acquisition_that_holds_nothing_more_is_forgotten(acquired):
    acquired.settle(Accept("b1", 3, [2, 5, 6]))
    assert ("b1", 3, 2) not in acquired
    assert acquired.settle(Accept("b1", 3, [2, 5, 6])) == ([], [2, 5, 6])


def test_a_broker_that_is_out_ends_its_acquisitions_up_to_its_incarnation(acquired):
    acquired["b1", 1, 7] = RangeSet([2, 2])
    assert acquired.end("b1", 2) == [(1, 4), (2, 2), (7, 8)]
    assert set(acquired) == {("b1", 3, 2), ("b2", 2, 1)} and acquired.end("b1", 2) == []


def test_what_a_holder_holds_is_taken_from_it_and_who_holds_nothing_is_forgotten():
    one, other = ("b1", 1, 1), ("b2", 1, 1)
    held = {one: RangeSet([1, 10]), other: RangeSet([11, 20])}
    assert take_held(held, one, [2, 9], [3, 12]) == ([(2, 3), (9, 10)], [(11, 12)])
    assert held[one].flat() == [1, 1, 4, 8]
    assert take_held(held, one, [1, 4], [1, 8]) == ([(1, 1), (4, 8)], [])
    assert list(held) == [other], "and what the other one holds is its own"
    assert take_held(held, one, [1], [2]) == ([], [(1, 2)])
