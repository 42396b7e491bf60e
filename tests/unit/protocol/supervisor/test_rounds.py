"""The order in which a supervisor asks: everybody once a second, and no two at the same moment."""

from __future__ import annotations

import itertools

from mantamq.protocol.supervisor.rounds import Rounds

NAMES = ["b1", "b2", "b3", "sequencer", "sequencer2", "ownership", "ownership2", "events"]


def asked(rounds: Rounds, names: list[str], since_ms: int, until_ms: int) -> list[tuple[int, list[str]]]:
    """When who is asked, by a shell that sleeps as long as it may."""
    found: list[tuple[int, list[str]]] = []
    now_ms = since_ms
    while now_ms < until_ms:
        if due := rounds.due(names, now_ms):
            found.append((now_ms, due))
        now_ms += rounds.wait_ms(now_ms)
    return found


def test_all_are_asked_at_once_at_first_and_then_one_after_the_other_once_a_second() -> None:
    (first_ms, first), *later = asked(Rounds(), NAMES, 5000, 15_000)
    assert (first_ms, first) == (5000, NAMES)
    assert all(len(names) == 1 for _, names in later)
    times = [at for at, _ in later]
    assert {b - a for a, b in itertools.pairwise(times)} == {1000 // len(NAMES)}
    for name in NAMES:
        mine = [at for at, names in later if name in names]
        assert {b - a for a, b in itertools.pairwise(mine)} == {1000}, name


def test_who_is_new_is_asked_at_once_and_who_was_away_too() -> None:
    rounds = Rounds()
    rounds.due(NAMES, 0)
    assert rounds.due([*NAMES, "b2.r0", "b3.r0"], 10) == ["b2.r0", "b3.r0"]
    assert rounds.due(NAMES, 20) == []
    assert rounds.due([*NAMES, "b2.r0"], 30) == ["b2.r0"]


def test_a_shell_that_comes_late_asks_nobody_twice_for_it() -> None:
    rounds = Rounds()
    rounds.due(["b1", "b2"], 0)
    assert rounds.due(["b1", "b2"], 10_000) == ["b1"]
    assert rounds.due(["b1", "b2"], 10_001) == []
    assert rounds.wait_ms(10_001) == 499
    assert rounds.due(["b1", "b2"], 10_500) == ["b2"]


def test_nobody_is_no_error() -> None:
    rounds = Rounds()
    assert rounds.due([], 0) == [] and rounds.wait_ms(0) > 0
