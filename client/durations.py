"""Seconds of this client's keywords as the whole milliseconds that they are on the wire."""

from __future__ import annotations

import math
from typing import Any

from .errors import Invalid

IN_MS = frozenset({"message_ttl_s", "expires_s", "consumer_timeout_s", "retry_delay_min_s", "retry_delay_max_s"})
"""Keywords of `declare_queue` that are in seconds, and whose arguments are in milliseconds."""
MOST_S = 1 << 38


def in_ms(keyword: str, seconds: Any) -> int:
    """Rounded, and never to 0 where something was given.

    Raises:
        Invalid: that is no number of seconds, or too large.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < MOST_S:
        raise Invalid(f"{keyword}={seconds!r:.60}: give a number of seconds, at least 0, or leave it out")
    return round(seconds * 1000) or math.ceil(seconds)


def listed(several: Any) -> Any:
    """Numbers in whatever order keeps them, as a list. What is none a broker refuses, by its rule."""
    return list(several) if isinstance(several, tuple | range) else several
