"""One measured figure, and how rounds become a median."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

LATEST = Path(__file__).parent / "results" / "latest.json"
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Figure:
    """Attributes: system, workload, metric, unit: what was measured; median, min, max over `rounds` rounds."""

    system: str
    workload: str
    metric: str
    unit: str
    median: float
    min: float
    max: float
    rounds: int


class Collection:
    """Gathers single measurements, round after round."""

    def __init__(self) -> None:
        self._values: dict[Key, list[float]] = {}

    def add(self, system: str, workload: str, metric: str, unit: str, value: float) -> None:
        self._values.setdefault((system, workload, metric, unit), []).append(value)

    def figures(self) -> list[Figure]:
        return [
            Figure(*key, statistics.median(values), min(values), max(values), len(values))
            for key, values in sorted(self._values.items())
        ]

    def ratios(self, ours: tuple[str, str, str], theirs: tuple[str, str, str]) -> list[float]:
        """Ours over theirs, round by round: both were measured minutes apart on the same machine."""
        mine = next((v for key, v in self._values.items() if key[:3] == ours), [])
        other = next((v for key, v in self._values.items() if key[:3] == theirs), [])
        return [a / b for a, b in zip(mine, other, strict=False) if b]


def write(figures: list[Figure], path: Path = LATEST) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
