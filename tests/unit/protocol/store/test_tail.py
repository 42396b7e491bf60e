"""The old end of a log: when it is to go, what stands in its way, and that nothing needed goes with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.store.index import LogIndex, StreamPlace
from mantamq.protocol.store.tail import LogTail


def a_tail(end, **places):
    index = LogIndex()
    index.streams.update({name: StreamPlace(low, body_bytes=body) for name, (low, body) in places.items()})
    return LogTail(index, 0, end, 100), index


def test_a_log_may_be_twice_as_long_as_what_lives_and_four_containers():
    tail, _ = a_tail(600, a=(10, 100))
    assert tail.ask() == (0, [])
    tail.end = 601
    assert tail.ask() == (100, ["a"])


def test_each_stream_is_asked_once_for_each_container():
    tail, index = a_tail(2000, a=(10, 0), b=(99, 0), c=(100, 0))
    assert tail.ask() == (100, ["a", "b"])
    tail.asked("a", 100)
    assert tail.ask() == (100, ["b"])
    tail.asked("b", 100)
    tail.forget("a")
    assert tail.ask() == (100, ["a"]), "another owner has it"
    index.streams["a"].low = index.streams["b"].low = 1900
    assert tail.advance() and tail.base == 100
    assert tail.ask() == (200, ["c"])


def test_as_much_is_asked_for_as_is_worth_the_checkpoints_that_are_written_for_it():
    tail, index = a_tail(2000, a=(10, 0), b=(250, 0), c=(550, 0))
    index.streams["a"].checkpoint_bytes = index.streams["c"].checkpoint_bytes = 110
    assert tail.ask() == (500, ["a", "b"]), "one container would be less than what is written to free it"
    index.streams["a"].checkpoint_bytes = 700
    tail.end = 2099
    assert tail.ask() == (1700, ["a", "b", "c"])
    index.streams["a"].checkpoint_bytes = 800
    tail.end = 2230
    assert tail.ask() == (1900, ["a", "b", "c"])


def test_the_base_moves_by_whole_containers_up_to_what_is_needed():
    tail, index = a_tail(750, a=(399, 0), b=(401, 0))
    assert tail.advance() and (tail.base, tail.used_bytes) == (300, 450)
    assert not tail.advance()
    index.streams.clear()
    assert tail.advance() and tail.base == 700, "the container that is written stays"


def test_nothing_goes_that_the_catalogue_lacks():
    tail, _ = a_tail(750, a=(640, 0))
    tail.hold = 0
    assert not tail.advance(), "it has nothing"
    tail.hold = 430
    assert tail.advance() and tail.base == 400
    tail.hold = 900
    assert tail.advance() and tail.base == 600, "and nothing that a stream needs"


def test_a_log_is_looked_at_when_a_container_is_begun_or_a_stream_may_need_less():
    tail, index = a_tail(610, a=(10, 0))
    assert tail.due() and not tail.due()
    tail.end = 699
    assert not tail.due()
    tail.end = 700
    assert tail.due() and not tail.due()
    index.moved = True
    assert tail.due() and not tail.due()


@given(st.lists(st.integers(0, 2000), max_size=5), st.integers(2000, 2500), st.integers(0, 12))
def test_nothing_that_a_stream_needs_is_freed(lows, end, base):
    index = LogIndex()
    index.streams.update({str(n): StreamPlace(max(low, base * 100)) for n, low in enumerate(lows)})
    tail = LogTail(index, base * 100, end, 100)
    before = tail.base
    tail.advance()
    assert tail.base >= before and tail.base % 100 == 0
    assert all(tail.base <= place.low for place in index.streams.values()) and tail.base <= end


def test_what_is_rotten_is_asked_for_once_another_container_is_written():
    tail, index = a_tail(350, a=(10, 1000), b=(210, 1000), c=(340, 1000))
    assert tail.ask() == (0, [])
    assert not tail.rotten(-50, 0), "it is gone already"
    assert tail.rotten(120, 130) and not tail.rotten(120, 130)
    assert tail.ask() == (200, ["a"]) and tail.rot == [(120, 130)]
    assert tail.rotten(310, 320)
    assert tail.ask() == (200, ["a"]), "what is moved now would come to lie in that container again"
    tail.end = 410
    assert tail.ask() == (400, ["a", "b", "c"])
    for place in index.streams.values():
        place.low = 405
    assert tail.advance() and tail.base == 400 and tail.rot == []
    assert tail.ask() == (0, [])
