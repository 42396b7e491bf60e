"""A consumer's credit: messages and bytes."""

from __future__ import annotations

from mantamq.protocol.queue.credit import UNLIMITED, CreditBalance


def test_without_a_grant_nothing_may_be_sent():
    credit = CreditBalance()
    assert credit.messages == 0
    credit.grant(0, UNLIMITED)
    assert credit.messages == 0


def test_messages_count_down_and_bytes_without_limit_do_not():
    credit = CreditBalance()
    credit.grant(2, UNLIMITED)
    credit.take(1, 10**12)
    assert (credit.messages, credit.bytes) == (1, UNLIMITED)
    credit.take(1, 1)
    assert (credit.messages, credit.bytes) == (0, UNLIMITED)


def test_bytes_are_a_bound_to_the_last_one():
    credit = CreditBalance()
    credit.grant(10, 100)
    credit.take(1, 60)
    assert (credit.messages, credit.bytes) == (9, 40)
    credit.take(1, 40)
    assert (credit.messages, credit.bytes) == (8, 0)


def test_grants_add_up_and_bytes_count_from_where_they_were_first_named():
    credit = CreditBalance()
    credit.grant(1, UNLIMITED)
    credit.grant(2, 50)
    assert (credit.messages, credit.bytes) == (3, 50), "without limit is no number to add to"
    credit.grant(1, 25)
    assert (credit.messages, credit.bytes) == (4, 75)
    credit.grant(0, UNLIMITED)
    assert (credit.messages, credit.bytes) == (4, UNLIMITED)


def test_stop_takes_the_messages_back():
    credit = CreditBalance()
    credit.grant(5, 100)
    credit.stop()
    assert (credit.messages, credit.bytes) == (0, 100)
    credit.grant(1, 0)
    assert (credit.messages, credit.bytes) == (1, 100)
