"""What fails of a transfer one of whose queues is gone."""

from __future__ import annotations

from mantamq.protocol.broker.gone_queues import failure
from mantamq.protocol.errors import LOST, NOT_FOUND
from mantamq.protocol.wire.events import Enqueue, encode_event


def parts(**numbers: list[int]) -> list[tuple[str, bytes]]:
    """Queue -> ranges of what goes there."""
    return [(f"{queue}#1", encode_event(Enqueue("c", flat, []))) for queue, flat in numbers.items()]


def test_nothing_fails_where_no_queue_is_gone() -> None:
    assert failure([1, 9], parts(a=[1, 9]), {"b#1"}, {"c#1"}) == ([], "", "")


def test_all_fails_where_one_was_lost_and_what_it_held_with_it() -> None:
    failed, code, text = failure([1, 9], parts(a=[1, 9], b=[2, 3]), {"b#1"}, {"a#1"})
    assert (failed, code) == ([1, 9], LOST) and "queue 'b' was lost" in text


def test_what_went_to_no_other_queue_fails_with_one_that_was_deleted() -> None:
    sent = parts(a=[1, 6], b=[2, 3], c=[5, 5, 9, 9])
    failed, code, text = failure([1, 4, 6, 9], sent, set(), {"a#1"})
    assert (failed, code) == ([1, 1, 4, 4, 6, 6], NOT_FOUND) and "'a' was deleted, since it was empty" in text
    assert failure([1, 9], sent, set(), {"a#1", "b#1"})[0] == [1, 4, 6, 6]
    assert failure([2, 3], sent, set(), {"a#1"})[0] == []
