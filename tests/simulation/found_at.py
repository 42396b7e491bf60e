"""At which seed each planted bug was found last, so that it is looked for there first. A table that is out of date costs
time and nothing else: every other seed of the budget comes after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

TABLE = Path(__file__).with_suffix(".json")


def seeds(name: str, budget: int, table: dict[str, int] | None = None) -> Iterator[int]:
    """All seeds to look at, 1 to `budget`, the likeliest first."""
    last = (read() if table is None else table).get(name, 0)
    if last:
        yield last
    yield from (seed for seed in range(1, budget + 1) if seed != last)


def read() -> dict[str, int]:
    return json.loads(TABLE.read_text()) if TABLE.exists() else {}


def write(found: dict[str, int]) -> None:
    """Those found at the first seed need no line."""
    TABLE.write_text(json.dumps({name: seed for name, seed in sorted(found.items()) if seed > 1}, indent=1) + "\n")
