"""`python -m tests.chaos`: the load, the faults, and the verdict. The last line and the exit code say the same."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from . import faults
from .run import Settings, judge, run

SHOWN = 20


def main() -> int:
    """Exit codes: 0 no violation, 1 violations, 2 wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Nothing completed is ever lost.")
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes of load")
    parser.add_argument(
        "--faults", default="none", help=f"with commas: none, all, durable, {', '.join(faults.FAULTS)}, kill-*"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--keep", default="", metavar="DIR", help="keep the journals here")
    parser.add_argument("--rate", type=float, default=400.0, help="messages a second, about")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--round", type=float, default=120.0, metavar="SECONDS", help="longest round")
    parser.add_argument("--healthy", type=float, default=30.0, metavar="SECONDS", help="longest way back to health")
    parser.add_argument("--check", default="", metavar="DIR", help="only judge the journals that are here")
    arguments = parser.parse_args()
    if arguments.check:
        return check(Path(arguments.check))
    try:
        names = faults.parse(arguments.faults)
    except ValueError as error:
        parser.error(str(error))
    if arguments.keep and Path(arguments.keep).exists() and any(Path(arguments.keep).iterdir()):
        parser.error(f"{arguments.keep} is not empty: journals of two runs must not mix")
    settings = Settings(
        minutes=arguments.minutes, faults=tuple(names), seed=arguments.seed, keep=arguments.keep, rate=arguments.rate,
        brokers=arguments.brokers, round_s=arguments.round, healthy_s=arguments.healthy,
    )  # fmt: skip
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    say(f"{settings.minutes:g} minutes, seed {settings.seed}, faults: {', '.join(names) or 'none'}")
    outcome = run(settings, say)
    for name, took_s in sorted(outcome.recoveries_s.items()):
        took_s.sort()
        print(f"{name}: {len(took_s)} times, healthy after {took_s[len(took_s) // 2]:.1f} s (most {took_s[-1]:.1f} s)")
    print(", ".join(f"{name} {count:,}" for name, count in sorted(outcome.counts.items())))
    for violation in outcome.violations[:SHOWN]:
        print(violation)
    if len(outcome.violations) > SHOWN:
        print(f"... and {len(outcome.violations) - SHOWN} more")
    if outcome.folder is not None:
        print(f"the journals are kept; to judge them again: python -m tests.chaos --check {outcome.folder}")
    print(outcome.summary())
    return 1 if outcome.violations else 0


def check(folder: Path) -> int:
    """Judge kept journals: of a run (a folder with rounds) or of one round."""
    rounds = sorted(folder.glob("round-*")) or [folder]
    settings = next(
        (path for path in (folder / "settings.json", folder.parent / "settings.json") if path.exists()), None
    )
    strict = settings is not None and not json.loads(settings.read_text())["faults"]
    found = 0
    for each in rounds:
        verdict = judge(each, strict)
        print(f"{each.name}: " + ", ".join(f"{name} {count:,}" for name, count in sorted(verdict.counts.items())))
        for violation in verdict.violations:
            print(violation)
        found += len(verdict.violations)
    print(f"violations={found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
