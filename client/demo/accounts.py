"""The demo's books: what belongs where by the CSV alone, what came, and the balance of both."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from dataclasses import dataclass, field

from . import flights

LATE = "late"
ORIGINS = ("EWR", "JFK", "LGA")


@dataclass
class Account:
    """The messages that one queue got.

    Attributes:
        rows, checksums: of every message accepted, in order.
        again: rows of those that came flagged as redelivered: the cluster says that somebody may have seen them.
        latencies: microseconds -> count, encoded by HdrHistogram.
    """

    rows: array[int] = field(default_factory=lambda: array("I"))
    checksums: array[int] = field(default_factory=lambda: array("I"))
    again: array[int] = field(default_factory=lambda: array("I"))
    latencies: bytes = b""


@dataclass
class Balance:
    """The accounts against the CSV. `again`: repeats that were flagged, which are in none of the other figures."""

    flights: int
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    mismatched: int = 0
    again: int = 0

    @property
    def good(self) -> bool:
        return not (self.lost or self.duplicated or self.mismatched)

    def line(self) -> str:
        return (
            f"flights={self.flights} delivered={self.delivered} lost={self.lost} duplicated={self.duplicated} "
            f"mismatched={self.mismatched}"
        )


def expected(rows: list[flights.Flight]) -> dict[str, dict[int, int]]:
    """Queue -> row -> checksum, from the CSV alone."""
    belongs: dict[str, dict[int, int]] = {queue: {} for queue in (*ORIGINS, LATE)}
    for flight in rows:
        checksum = zlib.crc32(flight.line)
        belongs[flight.key[:3]][flight.row] = checksum
        if flight.key.endswith(".late"):
            belongs[LATE][flight.row] = checksum
    return belongs


def judge(count: int, belongs: dict[str, dict[int, int]], accounts: dict[str, list[Account]]) -> Balance:
    """Compare what each queue's consumers got with what belongs to it. A repeat that is flagged is no duplicate."""
    verdict = Balance(count)
    for queue, wanted in belongs.items():
        seen: Counter[int] = Counter()
        again: Counter[int] = Counter()
        for account in accounts.get(queue, []):
            verdict.delivered += len(account.rows)
            seen.update(account.rows)
            again.update(account.again)
            verdict.mismatched += sum(
                wanted.get(row) != checksum for row, checksum in zip(account.rows, account.checksums, strict=True)
            )
        verdict.lost += sum(row not in seen for row in wanted)
        flagged = sum(min(times - 1, again[row]) for row, times in seen.items())
        verdict.delivered -= flagged
        verdict.again += flagged
        verdict.duplicated += sum(times - 1 for times in seen.values()) - flagged
    return verdict
