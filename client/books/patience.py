"""How long nothing may move while something is awaited: what hangs is worse than what fails. Pure: time comes from the
caller, who looks now and then, and whenever it waits."""

from __future__ import annotations

import math
from enum import Enum

from ..errors import Invalid, Timeout, Unavailable

SEND_TIMEOUT_S = 60.0
"""How long nothing may complete while it is awaited, unless something else is asked for."""
LOOK_S = 1.0
"""A caller that waits looks at least this often."""
BLIND_S = 2.0
"""Time in which nobody looked for longer than this does not count: this program stood still, not the cluster."""


class AnswerTime(Enum):
    """In the place of a time-out."""

    OWN = "the connection's own, for an answer: its end raises"


def checked(limit_s: float | None) -> float | None:
    """A time-out as it may be given: more than 0 seconds, or None for none.

    Raises:
        Invalid: it is something else.
    """
    if limit_s is None:
        return None
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not 0 < limit_s < math.inf:
        raise Invalid(
            f"a time-out for what does not complete is more than 0 seconds, or None for none: not {limit_s!r}"
        )
    return float(limit_s)


def idle(timeout: float | None) -> float | None:
    """How long an iterated receiver waits for the next message, as it may be given: 0 seconds or more, or None.

    Raises:
        Invalid: it is something else.
    """
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0):
        raise Invalid(
            f"a receiver's timeout is 0 seconds or more, or None to iterate until it is closed: not {timeout!r}"
        )
    return timeout


class Patience:
    """Watches whether something goes on.

    Args:
        limit_s: how long nothing may move; None: for ever.

    Attributes:
        expired: how often the limit has run out.
        still_s: for how long nothing has moved, at the last look.
    """

    __slots__ = ("_begun", "_looked", "_moved", "_waiting", "expired", "limit_s", "still_s")

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.expired = 0
        self.still_s = 0.0
        self._moved = -1
        self._waiting = False
        self._begun = 0.0  # of the time that counts towards the limit
        self._looked = 0.0

    def look(self, now: float, waiting: bool, moved: int) -> bool:
        """Look at it.

        Args:
            now: seconds, on any clock that does not go back.
            waiting: whether anything is awaited.
            moved: another number when something has moved.

        Returns:
            Whether the limit has run out now; it begins anew then.
        """
        if not waiting or not self._waiting or moved != self._moved:
            self._waiting, self._moved = waiting, moved
            self._begun = self._looked = now
            self.still_s = 0.0
            return False
        since = now - self._looked
        if since > BLIND_S:
            self._begun += since
        else:
            self.still_s += since
        self._looked = now
        if self.limit_s is None or now - self._begun < self.limit_s:
            return False
        self._begun = now
        self.expired += 1
        return True

    def slice_s(self, left_s: float | None) -> float:
        """How long to wait until the next look, when at most `left_s` are left."""
        return min(LOOK_S, self.limit_s or LOOK_S, left_s if left_s is not None else LOOK_S)


class Answering:
    """The wait for one answer of a broker: each has `timeout_s` for it, and all brokers that are tried one after the
    other have `limit_s` together, if that is longer; None: for ever. `now` is on any clock that does not go back.
    `what`: to what, as the command's name."""

    def __init__(self, timeout_s: float, limit_s: float | None, now: float, what: str = "") -> None:
        self._to = f" to {what}" if what else ""
        self._timeout_s = timeout_s
        self._limit_s = None if limit_s is None else max(timeout_s, limit_s)
        self._begun = self._checked = now

    def slice_s(self, now: float) -> float:
        """How long to wait until the next check."""
        if self._limit_s is None:
            return self._timeout_s
        return min(self._timeout_s, max(0.0, self._begun + self._limit_s - now))

    def check(self, same: bool, address: str, now: float) -> None:
        """There is no answer yet.

        Args:
            same: it is the same broker since the last check, and it is there.

        Raises:
            Timeout: it has had its time.
            Unavailable: all have.
        """
        full = now - self._checked >= 0.99 * self._timeout_s
        self._checked = now
        if same and full:
            raise Timeout(
                f"no answer{self._to} from the broker at {address} within {self._timeout_s:g} s; the outcome is "
                "unknown: see `mantamq status`, and ask again"
            )
        waited_s = now - self._begun
        if self._limit_s is not None and waited_s >= self._limit_s:
            raise Unavailable(
                f"no answer{self._to} from any broker within {waited_s:.3g} s, the last one at {address}; the outcome "
                "is unknown: see `mantamq status`, and ask again"
            )
