"""How long a message waits before anybody gets it, as its user says it and as it is sent."""

from __future__ import annotations

from ..errors import Invalid

_MOST_S = (1 << 48) // 1000
_RANGE = f"0 to {_MOST_S:,}"


def delay_ms(delay: object) -> int:
    """Seconds as milliseconds. Raises Invalid: it is no such number."""
    if isinstance(delay, int | float) and 0 <= delay <= _MOST_S:  # false for nan
        return int(delay * 1000)
    raise Invalid(f"a message's delay is a number of seconds, {_RANGE}, not {delay!r}")


def later(delay: object, at: object) -> tuple[int, bool]:
    """How many ms, and whether that is since the epoch.

    Raises:
        Invalid: one of them must be given, in seconds.
    """
    if (delay is None) == (at is None):
        raise Invalid("give a delay in seconds, or as at when it is due, in seconds since the epoch: one of both")
    if at is None:
        return delay_ms(delay), False
    if isinstance(at, int | float) and 0 <= at <= _MOST_S:
        return int(at * 1000), True
    raise Invalid(
        f"a message is due at a time in seconds since the epoch, {_RANGE}, such as time.time() + 60, not {at!r}"
    )
