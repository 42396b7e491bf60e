"""A queue that gives a message that came back only after a while, a longer one each time (retry back-off).

What comes back by a consumer's word, or with a consumer that goes, says when; an eviction of a broker does not, and no
stream knows the time: what that broker's consumers held is available at once.
"""

from __future__ import annotations

from typing import Any

from ..wire.events import Event, Modify, Release
from .applied import Applied, PutOff
from .state import QueueState
from .state_policy import Rule


class Retries:
    """Args: delays_s: after the first delivery in vain, after the second, and so on; the last one after all further."""

    events: tuple[type[Event], ...] = (Release, Modify)
    one_by_one = False

    def __init__(self, state: QueueState, delays_s: list[float]) -> None:
        self._state = state
        self._delays_ms = [int(delay_s * 1000) for delay_s in delays_s]

    def around(self, rule: Rule) -> Rule:
        """The rule, and those that are available after a delivery in vain are delayed."""

        def back(event: Any) -> Applied:
            done = rule(event)
            waits = self._put_off(event, done.positions) if event.redelivered and event.at_ms else []
            if not waits:
                return done
            return PutOff(done.effective, done.lost, done.positions, done.orphans, done.dropped, done.aside, waits)

        return back

    def _put_off(self, event: Any, positions: list[tuple[int, int]]) -> list[tuple[int, int]]:
        state, delays_ms = self._state, self._delays_ms
        repeated, last = state.deliveries.repeated, len(delays_ms)
        waits: list[tuple[int, int]] = []
        for first, end in positions:
            for position in range(first, end + 1):
                delay_ms = delays_ms[min(repeated.get(position, 1), last) - 1]
                if delay_ms and position in state.available:
                    waits.append((position, event.at_ms + delay_ms))
        for position, due_ms in waits:
            state.delayed.put_off([(position, position)], due_ms, state.available)
        return waits

    def applied(self, event: Any, done: Applied, /) -> None:
        """They wait by the rule."""

    def restored(self) -> None:
        """It keeps nothing of its own."""
