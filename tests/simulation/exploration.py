"""``python -m tests.simulation.exploration``: explore all small worlds, some of them with stores, and count."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import explore, small_stores
from .explore import Bounds, Explorer
from .model import Violation
from .small_stores import StoredExplorer

ALL: list[tuple[type[Explorer], Bounds]] = [
    *((Explorer, bounds) for bounds in explore.STORIES),
    *((StoredExplorer, bounds) for bounds in small_stores.STORIES),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.exploration", description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000, help="how many worlds to visit at the most")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False, markup=False)
    started = time.monotonic()
    share = -(-arguments.states // len(ALL))
    visited = violations = 0
    columns = (TextColumn("states"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=share * len(ALL))
        jobs = [(number, share) for number in range(len(ALL))]
        for kind, bounds, count, exhausted, wrong in pool.imap_unordered(_explore, jobs):
            visited += count
            violations += wrong != ""
            progress.advance(task, share)
            console.print(f"{count} states{' (all there are)' if exhausted else ''}: {describe(kind, bounds)}")
            if wrong:
                console.print(wrong)
    console.print(f"{visited / (time.monotonic() - started):.0f} states/s")
    console.print(f"states={visited} violations={violations}")
    return 1 if violations else 0


def _explore(job: tuple[int, int]) -> tuple[type[Explorer], Bounds, int, bool, str]:
    """Explore one story; returns (its worlds, it, worlds visited, whether that is all of them, the violation or "")."""
    number, states = job
    kind, bounds = ALL[number]
    explorer = kind(bounds)
    wrong = ""
    try:
        for _ in explorer.run(states):
            pass
    except Violation as violation:
        wrong = str(violation)
    return kind, bounds, explorer.visited, explorer.exhausted, wrong


def describe(kind: type[Explorer], bounds: Bounds) -> str:
    after = f", after {len(bounds.prefix)} given steps" if bounds.prefix else ""
    keepers, deaths = ("keepers", "keepers die") if kind is Explorer else ("keepers with stores", "crashes of those")
    return (
        f"{bounds.nodes} {keepers}, {bounds.sequencers} sequencers, {bounds.requests} requests, {bounds.cuts} cuts, "
        f"{bounds.deaths} {deaths}, {bounds.ends} sequencers die{after}"
    )


if __name__ == "__main__":
    sys.exit(main())
