"""Which broker to try next after one was lost, and when to give up. Pure: time and chance come from the caller."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Invalid

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
SETTLED_S = 2.0
"""A connection that lived this long was good: the next loss is a new one."""
FLAPS = 10
"""This many connections in a row that were not good are one trouble, whose time does not begin anew."""
ATTEMPT_S = 3.0
"""Longest wait for one broker's greeting."""


@dataclass(frozen=True)
class Reconnecting:
    """How a connection lives on without its broker.

    Attributes:
        reconnect_s: how long to look for another member before everything raises ConnectionLost; 0: do not look.
        heartbeat_ms: a broker that is silent for two heartbeats is left. 0: no heartbeats.
        on_reconnect: called with the connection each time another broker has taken over, in the thread that reads (or
            the event loop): it must not wait for the connection.
        rescue: it only looks, and stays with a broker that has lost the majority.
    """

    reconnect_s: float = 30.0
    heartbeat_ms: int = 500
    on_reconnect: Callable[[Any], None] | None = None
    rescue: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.reconnect_s < math.inf:
            raise Invalid(f"reconnect_s is 0 or more seconds, not {self.reconnect_s!r}")
        if not isinstance(self.heartbeat_ms, int) or not 0 <= self.heartbeat_ms < 1 << 31:
            raise Invalid(f"heartbeat_ms is 0 or more whole milliseconds, not {self.heartbeat_ms!r}")

    def tell(self, connection: Any) -> None:
        """Call `on_reconnect`; what it raises is logged."""
        if self.on_reconnect is not None:
            try:
                self.on_reconnect(connection)
            except Exception:
                log.exception("on_reconnect failed")


OFF = Reconnecting(0.0)


class Search:
    """The search for another member.

    Each round tries every known broker once: the members in random order (or all clients of a dead broker would run to
    the same one), then the addresses that were given, last the broker that was lost, which may be fine behind a broken
    link. The first round begins at once; before each further one there is a wait that doubles, jittered.

    Args:
        given: the addresses the application named.
        timeout_s: how long to search; 0: not at all.
        chance: a number from 0 to 1 at each call.

    Attributes:
        tried: the addresses tried since the last loss, in the order of their first trial.
    """

    def __init__(self, given: Iterable[str], timeout_s: float, chance: Callable[[], float]) -> None:
        self.given = list(given)
        self.tried: list[str] = []
        self._timeout_s = timeout_s
        self._chance = chance
        self._round: list[str] = []
        self._until = 0.0
        self._wait_s = 0.0
        self._known: list[str] = []
        self._found: float | None = None
        self._flaps = 0

    def lost(self, now: float, broker: str, address: str, members: Mapping[str, str]) -> None:
        """`broker`, reached at `address`, is lost; `members` (broker id to address) is what was last heard."""
        others = sorted((one for id, one in members.items() if id != broker), key=lambda _: self._chance())
        last = [members[broker], address] if broker in members else [address]
        first = [one for one in dict.fromkeys([*others, *self.given]) if one not in last]
        self._known = [*first, *dict.fromkeys(last)]
        self.tried = []
        if self._found is None or now - self._found > SETTLED_S:
            self._flaps = 0
            self._wait_s = 0.0
            self._round = list(self._known)
        else:  # it broke again at once: the waits go on growing
            self._flaps += 1
            self._round = []
        if self._flaps < FLAPS:
            self._until = now + self._timeout_s
        self._found = None

    def found(self, now: float) -> None:
        """A broker has taken us in."""
        self._found = now

    def next(self, now: float) -> tuple[float, str, float] | None:
        """Seconds to wait, the "host:port" to try then, and for how many seconds at most. None: the time is over."""
        left_s = self._until - now
        if left_s <= 0:
            return None
        wait_s = 0.0
        if not self._round:
            self._round = list(self._known)
            self._wait_s = min(max(2 * self._wait_s, FIRST_WAIT_S), LONGEST_WAIT_S)
            wait_s = min(self._wait_s * (0.5 + 0.5 * self._chance()), left_s)
        address = self._round.pop(0)
        if address not in self.tried:
            self.tried.append(address)
        return wait_s, address, min(ATTEMPT_S, left_s)
