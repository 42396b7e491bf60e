"""``python -m tests.simulation --seeds 300``: many seeds, then planted bugs, then one closing line."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import gate
from .workload import Played, play

TASKS = 50
"""After so many chunks a process is replaced: what stories leave behind adds up, to gigabytes in ten thousand."""
STRIDE = 100
"""After how many seeds a file is told so; a terminal has a bar."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--start", type=int, default=1, help="the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--stores", choices=("yes", "no"), help="whether brokers have stores; by the seed, if not said")
    parser.add_argument("--verbose", action="store_true", help="with --seed: print every frame")
    parser.add_argument("--no-gate", action="store_true", help="plant no bugs at the end")
    parser.add_argument("--remember", action="store_true", help="write down where each planted bug was found")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    arguments = parser.parse_args()
    if arguments.verbose and arguments.seed is None:
        parser.error("--verbose prints one story: name it with --seed")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    started = time.monotonic()
    if arguments.seed is not None:
        stored = None if arguments.stores is None else arguments.stores == "yes"
        results = [play(arguments.seed, print if arguments.verbose else None, stored=stored)]
        tell(console, results[0])
    else:
        results = play_all(console, range(arguments.start, arguments.start + arguments.seeds), arguments.jobs)
    seconds = time.monotonic() - started
    operations = sum(result.operations for result in results)
    violations = sum(result.wrong != "" for result in results)
    if results:
        console.print(f"{len(results) / seconds:.1f} seeds/s")
    blind = (
        arguments.seed is None and not arguments.no_gate and not gate.run(console, arguments.jobs, arguments.remember)
    )
    console.print(f"seeds={len(results)} operations={operations} violations={violations}")
    return 1 if violations or blind else 0


def play_all(console: Console, seeds: range, jobs: int) -> list[Played]:
    results: list[Played] = []
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=TASKS) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(seeds))
        for result in pool.imap_unordered(play, seeds, chunksize=4):
            results.append(result)
            progress.advance(task)
            tell(console, result)
            if not console.is_terminal and len(results) % STRIDE == 0:
                console.print(f"{len(results)} of {len(seeds)} seeds")
    return results


def tell(console: Console, result: Played) -> None:
    """A violation: the frames before it, what broke, and how to see it again."""
    if not result.wrong:
        return
    for line in result.tail:
        console.print(f"  {line}")
    console.print(f"seed {result.seed}: {result.wrong}")
    console.print(f"  replay: .venv/bin/python -m tests.simulation --seed {result.seed} --verbose")


if __name__ == "__main__":
    sys.exit(main())
