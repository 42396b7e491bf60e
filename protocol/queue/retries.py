"""A queue that gives a message that came back only after a while, a longer one each time (retry back-off).

What comes back by a consumer's word, or with a consumer that goes, says when; an eviction of a broker does not, and no
stream knows the time: what that broker's consumers held is available at once.
"""

from __future__ import annotations

from typing import Any

from ..wire.events import Event, Modify, Release
from .applied import Applied
from .state import QueueState


class Retries:
    """Args: delays_s: after the first delivery in vain, after the second, and so on; the last one after all further."""

    events: tuple[type[Event], ...] = (Release, Modify)
    one_by_one = False

    def __init__(self, state: QueueState, delays_s: list[float]) -> None:
        self._state = state
        self._delays_ms = [int(delay_s * 1000) for delay_s in delays_s]

    def applied(self, event: Any, done: Applied, /) -> None:
        """Those that are available after a delivery in vain are delayed."""
        if not (event.redelivered and event.at_ms):
            return
        state, delays_ms = self._state, self._delays_ms
        repeated, last = state.deliveries.repeated, len(delays_ms)
        for first, end in done.positions:
            for position in range(first, end + 1):
                delay_ms = delays_ms[min(repeated.get(position, 1), last) - 1]
                if delay_ms:
                    state.delayed.put_off([(position, position)], event.at_ms + delay_ms, state.available)

    def restored(self) -> None:
        """It keeps nothing of its own."""
