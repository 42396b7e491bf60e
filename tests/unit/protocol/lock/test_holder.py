"""The owner's side of the consume lock."""

from __future__ import annotations

from mantamq.protocol.lock.holder import LockHolder
from mantamq.protocol.timing import DEFAULT_TIMING


def granted(at_ms: int = 1000) -> LockHolder:
    lock = LockHolder()
    lock.granted(4, at_ms)
    assert lock.held and lock.grant == 4
    return lock


def test_the_owner_keeps_the_lock_while_nobody_else_wants_it():
    lock = granted()
    lock.used()
    for now in (1000, 5000, 1_000_000):
        assert lock.decide(now, wants=True, consumers=True) == (None, 0)


def test_a_contended_lock_goes_on_after_its_slice_if_it_was_used():
    lock = granted()
    lock.contended(4, "b2", 50)
    assert lock.decide(1000, wants=True, consumers=True) == (None, 1050)
    assert lock.decide(1050, wants=True, consumers=True) == (None, 0), "nothing delivered: no hand-over traffic"
    lock.used()
    assert lock.decide(1049, wants=True, consumers=True) == (None, 1050)
    assert lock.decide(1050, wants=True, consumers=True) == ("b2", 0)


def test_a_contended_lock_goes_on_at_once_if_nobody_here_wants_anything():
    lock = granted()
    lock.contended(4, "b2", 50)
    assert lock.decide(1000, wants=False, consumers=True) == ("b2", 0)
    assert lock.decide(1000, wants=False, consumers=False) == ("b2", 0)


def test_the_slice_counts_from_the_grant_and_the_word_again_does_not_lengthen_it():
    lock = granted()
    lock.used()
    lock.contended(4, "b2", 50)
    lock.contended(4, "b3", 50)
    assert lock.decide(1049, wants=True, consumers=True) == (None, 1050)
    lock.contended(4, "b3", 80)
    assert lock.decide(1050, wants=True, consumers=True) == (None, 1080)
    assert lock.decide(1080, wants=True, consumers=True) == ("b3", 0)


def test_when_nobody_waits_any_more_it_is_kept():
    lock = granted()
    lock.used()
    lock.contended(4, "b2", 50)
    lock.contended(4, "", 50)
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)


def test_the_word_about_another_grant_is_no_word_about_this_one():
    lock = granted()
    lock.used()
    lock.contended(3, "b2", 0)
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)
    lock.contended(4, "b2", 0)
    lock.passed(5)
    assert (lock.held, lock.grant) == (False, 5)
    lock.granted(6, 2000)
    lock.used()
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)


def test_a_new_grant_is_not_used_yet():
    lock = granted()
    lock.used()
    lock.passed(5)
    lock.granted(6, 2000)
    lock.contended(6, "b2", 10)
    assert lock.decide(2010, wants=True, consumers=True) == (None, 0)
    lock.used()
    assert lock.decide(2010, wants=True, consumers=True) == ("b2", 0)


def test_without_consumers_the_lock_is_given_up_and_without_credit_after_a_while():
    assert granted().decide(1000, wants=False, consumers=False) == ("", 0)
    lock = granted()
    assert lock.decide(1000, wants=False, consumers=True) == (None, 1000 + DEFAULT_TIMING.lock_idle_ms)
    assert lock.decide(1000 + DEFAULT_TIMING.lock_idle_ms - 1, wants=False, consumers=True) == (
        None,
        1000 + DEFAULT_TIMING.lock_idle_ms,
    )
    assert lock.decide(1000 + DEFAULT_TIMING.lock_idle_ms, wants=False, consumers=True) == ("", 0)


def test_credit_in_between_starts_the_wait_again():
    lock = granted()
    lock.decide(1000, wants=False, consumers=True)
    lock.decide(1100, wants=True, consumers=True)
    assert lock.decide(1150, wants=False, consumers=True) == (None, 1150 + DEFAULT_TIMING.lock_idle_ms)
