"""What gathers for one queue, alone: claims, when acquires are due, and the order of events."""

from __future__ import annotations

from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.replica.settlements import ACQUIRE_RUNS, Settlements, claim, common
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import Accept, Acquire, Modify, Reject, Release
from mantamq.protocol.wire.queue_frames import ACCEPT, MODIFY, REJECT, RELEASE, Modification, Settle


def holds(**runs: list[int]) -> dict[int, RangeSet]:
    return {int(acquisition[1:]): RangeSet(run) for acquisition, run in runs.items()}


def test_a_claim_takes_what_is_held_and_names_what_is_not():
    held = holds(a7=[1, 5], a8=[10, 10])
    assert claim(held, [7, 2, 3, 9, 1, 1]) == ([7, 2, 3], [9, 1, 1])
    assert claim(held, [7, 1, 4]) == ([7, 1, 1, 7, 4, 4], [7, 2, 3]), "2 and 3 are settled already"
    assert claim(held, [8, 10, 10]) == ([8, 10, 10], [])
    assert list(held) == [7], "an acquisition that is settled is forgotten"


def test_what_two_lists_of_runs_have_in_common():
    assert common([7, 1, 4, 8, 1, 2, 7, 9, 9], [7, 3, 9, 9, 1, 1]) == [7, 3, 4, 7, 9, 9]
    assert common([7, 1, 1], [7, 2, 2]) == [] == common([], [7, 2, 2])


def test_acquires_wait_for_a_while_or_until_there_are_many():
    gathered = Settlements()
    assert not gathered.due(1000) and gathered.due_ms == 0
    gathered.acquires += (1, 1, 1)
    assert not gathered.due(1000) and gathered.due_ms == 1000 + DEFAULT_TIMING.acquire_ms
    assert gathered.due(1000 + DEFAULT_TIMING.acquire_ms)
    gathered.acquires_accepted += [2, 2, 2] * ACQUIRE_RUNS
    assert gathered.due(1000)


def test_a_settlement_is_due_at_once():
    gathered = Settlements()
    assert not gathered.settle(Settle("q#1", 1, 1, ACCEPT, [1, 1, 1]), holds(a1=[1, 1]))
    assert gathered.due(1000) and gathered.anything()


def test_acquires_come_before_the_settlements_that_quote_them():
    gathered = Settlements()
    gathered.settle(Settle("q#1", 1, 1, REJECT, [1, 1, 1]), holds(a1=[1, 1]))
    assert gathered.settle(Settle("q#1", 2, 1, RELEASE, [2, 2, 2]), holds(a2=[2, 2]))
    gathered.settle(Settle("q#1", 1, 2, REJECT, [3, 3, 3]), holds(a3=[3, 3]))
    gathered.acquires += (1, 1, 1)
    gathered.acquires_accepted += (4, 4, 4)
    assert [event for event, _ in gathered.events("b1", 4, 9)] == [
        Acquire("b1", 4, 9, [1, 1, 1]),
        Acquire("b1", 4, 9, [4, 4, 4], True),
        Reject("b1", 4, [1, 1, 1, 3, 3, 3]),
        Release("b1", 4, [2, 2, 2]),
    ]
    assert not gathered.anything() and gathered.events("b1", 4, 9) == []


def test_where_all_is_lost_there_is_no_event():
    gathered = Settlements()
    gathered.settle(Settle("q#1", 1, 7, ACCEPT, [1, 1, 1]), {})
    ((event, settling),) = gathered.events("b1", 4, 9)
    assert event is None and settling is not None and settling.tags == [(1, 7, [1, 1, 1], [])]
    gathered.settle(Settle("q#1", 1, 8, ACCEPT, [1, 1, 1]), {})
    gathered.settle(Settle("q#1", 2, 1, ACCEPT, [2, 2, 2]), holds(a2=[2, 2]))
    ((event, settling),) = gathered.events("b1", 4, 9)
    assert event == Accept("b1", 4, [2, 2, 2])


def test_what_is_said_alike_is_one_event_and_goes_back():
    gathered = Settlements()
    one, same = Modification(True, False, {"a": 1}), Modification(True, True, {"a": 1})
    other = Modification(False, False, {"a": 1})
    for sub, said in enumerate((one, same, other), 1):
        back = gathered.settle(Settle("q#1", sub, 1, MODIFY, [sub, 1, 2], said), {sub: RangeSet([1, 1])})
        assert back == [sub, 1, 1], "not what it did not hold"
    assert gathered.settle(Settle("q#1", 4, 1, MODIFY, [4, 1, 1], one), {}) == []
    events = gathered.events("b1", 4, 9)
    assert [event for event, _ in events] == [
        Modify("b1", 4, [1, 1, 1, 2, 1, 1], True, {"a": 1}),
        Modify("b1", 4, [3, 1, 1], False, {"a": 1}),
    ]
    assert [settling.releasing for _, settling in events if settling] == [[1, 2], [3]]
