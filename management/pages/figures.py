"""How figures are said on the pages: counts, rates, sizes, times; "–" for what is not known."""

from __future__ import annotations

import time
from typing import Any

UNKNOWN = "–"


def count(value: Any) -> str:
    """A whole number, its thousands apart."""
    return f"{int(value):,}" if _is_number(value) else UNKNOWN


def counted(value: Any, what: str) -> str:
    """A number of what is so called: "1 queue", "2 queues"."""
    return f"{count(value)} {what}" if value == 1 else f"{count(value)} {what}s"


def rate(value: Any) -> str:
    """How many a second: with a digit behind the point while there are few."""
    if not _is_number(value):
        return UNKNOWN
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def size(value: Any) -> str:
    """Bytes, in the unit that leaves one to four digits."""
    if not _is_number(value):
        return UNKNOWN
    left = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if left < 1024:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 100 else f"{left:.1f} {unit}"
        left /= 1024
    return f"{left:,.1f} TiB"


def span(value: Any) -> str:
    """Milliseconds, in the two units that say most."""
    if not _is_number(value):
        return UNKNOWN
    if value < 1000:
        return f"{value:.0f} ms" if value else "0"
    seconds = int(value / 1000)
    for unit, unit_s, smaller, smaller_s in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= unit_s:
            whole, rest = divmod(seconds, unit_s)
            part = rest // smaller_s
            return f"{whole:,} {unit} {part} {smaller}" if part else f"{whole:,} {unit}"
    return f"{seconds} s"


def clock(value: Any) -> str:
    """Unix time in seconds, as a time of day of the server's; with the day, unless that is today's."""
    if not _is_number(value) or not value:
        return UNKNOWN
    there, now = time.localtime(value), time.localtime()
    return time.strftime("%H:%M:%S" if there[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", there)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
