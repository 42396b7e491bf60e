"""``python -m tests.simulation --seeds 300``: many seeds, two processes, one closing line."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .workload import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--start", type=int, default=1, help="the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    arguments = parser.parse_args()
    console = Console()
    seeds = (
        [arguments.seed] if arguments.seed is not None else range(arguments.start, arguments.start + arguments.seeds)
    )
    operations = violations = 0
    started = time.monotonic()
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(seeds))
        for seed, count, wrong in pool.imap_unordered(play, seeds, chunksize=4):
            operations += count
            progress.advance(task)
            if wrong:
                violations += 1
                console.print(f"seed {seed}: {wrong}", markup=False)
                console.print(f"  replay: .venv/bin/python -m tests.simulation --seed {seed}", markup=False)
    seconds = time.monotonic() - started
    console.print(f"{len(seeds) / seconds:.1f} seeds/s", highlight=False)
    console.print(f"seeds={len(seeds)} operations={operations} violations={violations}", highlight=False)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
