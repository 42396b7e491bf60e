"""Whose writes count: the highest life's, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.store.owners import Keeping, Owners


def test_a_higher_life_takes_a_stream_and_an_older_one_gives_way():
    owners = Owners()
    assert owners.take("b1.r0", "q#1", 7, 0) == 0
    assert owners.may_write("b1.r0", "q#1") and not owners.may_write("b1.r1", "q#1")
    assert owners.take("b1.r1", "q#1", 6, 0) == 7, "of a life that is over"
    assert owners.take("b1.r1", "q#1", 7, 0) == 7, "two processes under one life could not be told apart"
    assert owners.take("b1.r0", "q#1", 7, 7) == 0, "the same again"
    assert owners.take("b1.r1", "q#1", 8, 7) == 0
    assert not owners.may_write("b1.r0", "q#1") and owners.life("q#1") == 8


def test_a_life_that_the_records_know_is_over():
    owners = Owners()
    assert owners.take("b1", "cluster", 7, 7) == 7
    assert owners.take("b1", "cluster", 8, 7) == 0


def test_a_process_that_is_gone_keeps_nothing():
    owners = Owners()
    owners.take("b1.r0", "q#1", 7, 0)
    owners.take("b1.r0", "q#2", 8, 0)
    owners.take("b1.r1", "q#3", 9, 0)
    assert owners.gone("b1.r0") == ["q#1", "q#2"] and list(owners.by_stream) == ["q#3"]
    owners.dropped("q#3")
    assert not owners.by_stream and owners.life("q#3") == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.booleans()), max_size=30))
def test_the_life_that_may_write_never_falls(steps):
    owners, opened, highest = Owners(), 0, 0
    for peer, life, writes in steps:
        granted = owners.take(peer, "q#1", life, opened) == 0
        keeping = owners.by_stream.get("q#1")
        assert granted == (keeping == Keeping(peer, life))
        if keeping is not None:
            assert keeping.life >= highest
            highest = keeping.life
            if writes:
                opened = keeping.life
        if granted and not writes:
            owners.gone(peer)
            highest = max(highest if opened >= highest else opened, opened)
