"""The order in which a supervisor asks: everybody once a second, brokers twice, and no two at the same moment."""

from __future__ import annotations

import itertools

from mantamq.protocol.supervisor.rounds import Rounds
from mantamq.protocol.timing import DEFAULT_TIMING

NAMES = ["b1", "b2", "b3", "sequencer", "sequencer2", "ownership", "ownership2", "events"]


def asked(
    rounds: Rounds, names: list[str], since_ms: int, until_ms: int, often: tuple[str, ...] = (), late_ms: int = 0
) -> list[tuple[int, list[str]]]:
    """When who is asked, by a shell that sleeps as long as it may, and `late_ms` longer."""
    found: list[tuple[int, list[str]]] = []
    now_ms = since_ms
    while now_ms < until_ms:
        if due := rounds.due(names, now_ms, often):
            found.append((now_ms, due))
        now_ms += rounds.wait_ms(now_ms) + late_ms
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


def longest_ms(late_ms: int) -> dict[str, int]:
    """The longest time from one question to the next, of each."""
    rounds = Rounds(often_ms=DEFAULT_TIMING.supervisor_round_ms)
    found = asked(rounds, NAMES, 5000, 65_000, ("b1", "b2", "b3"), late_ms)
    assert all(len(names) == 1 for _, names in found[1:]), "no two at the same moment"
    times = {name: [at for at, names in found if name in names] for name in NAMES}
    return {name: max(b - a for a, b in itertools.pairwise(times[name])) for name in NAMES}


def test_a_brokers_word_is_fresh_until_the_next_one_also_where_everything_is_late() -> None:
    """Else a supervisor of a cluster that is well could not act now and then. An answer takes its time, too."""
    for late_ms, more_ms in ((0, 150), (20, 300)):
        longest = longest_ms(late_ms)
        brokers = max(longest[name] for name in ("b1", "b2", "b3"))
        assert brokers <= DEFAULT_TIMING.supervisor_round_ms + more_ms < DEFAULT_TIMING.supervisor_fresh_ms, longest
    assert max(longest_ms(0).values()) <= 1300, "and nobody else is asked less often for that"
