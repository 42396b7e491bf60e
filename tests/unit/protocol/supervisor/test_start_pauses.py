"""A process that cannot start is started again less and less often, and at once when it had lived for a while."""

from __future__ import annotations

from mantamq.protocol.supervisor.start_pauses import LONGEST_MS, SETTLED_MS, StartPauses


def test_pauses_double_up_to_the_longest_and_count_from_the_failure() -> None:
    starts, now_ms, pauses = StartPauses(), 5_000_000, list[int]()
    assert starts.wait_ms(now_ms) == 0 and not starts.why
    for number in range(9):
        starts.failed(now_ms, f"errno {number}")
        pauses.append(starts.wait_ms(now_ms))
        assert starts.why == f"errno {number}" and starts.wait_ms(now_ms + 400) == pauses[-1] - 400
        now_ms += pauses[-1] + 3000  # it takes a while to fail
        assert starts.wait_ms(now_ms) == 0
    assert pauses == [1000, 2000, 4000, 8000, 16_000, 32_000, LONGEST_MS, LONGEST_MS, LONGEST_MS]


def test_one_that_starts_and_ends_soon_has_failed_once_however_often_that_is_said() -> None:
    starts = StartPauses()
    starts.failed(0, "errno 5")
    starts.began(1000)
    assert not starts.why and starts.wait_ms(1000) == 0
    for now_ms in (4000, 4100, 90_000):
        starts.ended(now_ms)
        assert starts.wait_ms(now_ms) == max(0, 6000 - now_ms) and "it ended 3 s after" in starts.why


def test_one_that_has_lived_for_a_while_is_started_at_once_and_its_pauses_begin_anew() -> None:
    starts = StartPauses()
    for _ in range(9):
        starts.failed(0, "errno 5")
    starts.began(100)
    starts.ended(100 + SETTLED_MS)
    assert starts.wait_ms(100 + SETTLED_MS) == 0 and not starts.why
    starts.failed(200_000, "errno 5")
    assert starts.wait_ms(200_000) == 1000
