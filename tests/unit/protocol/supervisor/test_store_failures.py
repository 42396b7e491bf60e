"""A store that fails again and again: which broker is left down, and what is said of it."""

from __future__ import annotations

from mantamq.protocol.supervisor.store_failures import MOST, WITHIN_MS, StoreFailures


def test_three_lives_that_fail_within_ten_minutes_are_enough() -> None:
    failures = StoreFailures()
    for number in range(MOST):
        assert not failures.down("b2") and not failures.complaints()
        failures.note("b2", f"life {number}", number * (WITHIN_MS // 2 - 1), f"errno {number}")
        failures.note("b2", f"life {number}", number, "another process of the same life")
        failures.note("b1", "its only life", number, "its replica, too")
    assert "errno 2" in failures.down("b2") and "mantamq broker remove b2" in failures.down("b2")
    assert failures.complaints() == {"b2": failures.down("b2")} and not failures.down("b1")
    heir = StoreFailures()
    heir.inherit(failures.left_down())
    assert heir.complaints() == failures.complaints()
    failures.note("b2", "another", 9 * WITHIN_MS, "it stays down")
    assert "errno 2" in failures.down("b2")
    failures.forget("b2")
    assert not failures.down("b2") and not failures.complaints()


def test_failures_that_are_long_past_do_not_count() -> None:
    failures = StoreFailures()
    for number in range(3 * MOST):
        failures.note("b2", f"life {number}", number * WITHIN_MS // (MOST - 1), "rare")
    assert not failures.down("b2")
