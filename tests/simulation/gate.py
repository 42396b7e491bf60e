"""The mutation gate: every planted bug must be found within a budget of seeds, or a checker or the workload is too weak."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import NamedTuple

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import mutants, mutants_failover
from .workload import play

BUDGET = 300

PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool | None]] = {
    **{name: (plant, None) for name, plant in mutants.ALL.items()},
    **{name: (plant, True) for name, plant in mutants_failover.ALL.items()},
}
"""Name -> (how to plant it, whether it is looked for among the stories with faults only; None: among all)."""


class Found(NamedTuple):
    """How a planted bug fared. `seed` is 0 if it was not found."""

    name: str
    seed: int
    wrong: str


def find(name: str, budget: int = BUDGET) -> Found:
    """Plant a bug and look for it."""
    plant, faulty = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in range(1, budget + 1):
            wrong = play(seed, faulty=faulty).wrong
            if wrong and _sound(seed, faulty, patch):
                return Found(name, seed, wrong.strip().splitlines()[-1])
    return Found(name, 0, "")


def _sound(seed: int, faulty: bool | None, patch: pytest.MonkeyPatch) -> bool:
    """Whether nothing is wrong without the planted bug: otherwise it is not what was found."""
    patch.undo()
    wrong = play(seed, faulty=faulty).wrong
    if wrong:
        raise RuntimeError(f"seed {seed} is wrong with no bug planted: mend that first. {wrong}")
    return True


def run(console: Console, jobs: int) -> bool:
    """Look for all of them; whether all were found."""
    found: list[Found] = []
    columns = (TextColumn("planted bugs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        multiprocessing.get_context("spawn").Pool(jobs) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(PLANTED))
        for result in pool.imap_unordered(find, PLANTED):
            found.append(result)
            progress.advance(task)
            if not result.seed:
                console.print(f"the planted bug {result.name} was not found in {BUDGET} seeds")
    caught = sum(result.seed > 0 for result in found)
    console.print(f"planted={len(found)} caught={caught}")
    return caught == len(found)
