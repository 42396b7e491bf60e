"""A queue that gives a message that came back only after a while, a longer one each time (retry back-off).

What comes back by a consumer's word, or with a consumer that goes, says when; an eviction of a broker does not, and no
stream knows the time: what that broker's consumers held is available at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.events import Event, Modify, Release
from .applied import Applied, PutOff
from .settings import QueueSettings
from .state import QueueState
from .state_policy import Rule

MOST_MS = (1 << 48) - 1
"""No message waits longer, however often it came back: a time in ms stays an integer that travels."""
Backoff = Callable[[int], int]
"""How often it was delivered in vain, from 1 -> for how many ms it waits."""


def backoff_of(settings: QueueSettings) -> Backoff:
    """That of a queue that has one: the n-th of its delays, the last one for all further; or n times the least."""
    if settings.retry_delay_s:
        delays_ms = [int(delay_s * 1000) for delay_s in settings.retry_delay_s]
        return lambda count: delays_ms[min(count, len(delays_ms)) - 1]
    step_ms, most_ms = settings.retry_delay_min_ms, settings.retry_delay_max_ms or MOST_MS
    return lambda count: min(step_ms * count, most_ms)


class Retries:
    events: tuple[type[Event], ...] = (Release, Modify)
    one_by_one = False

    def __init__(self, state: QueueState, backoff: Backoff) -> None:
        self._state = state
        self._backoff = backoff

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
        state, backoff, repeated = self._state, self._backoff, self._state.deliveries.repeated
        waits: list[tuple[int, int]] = []
        for first, end in positions:
            for position in range(first, end + 1):
                delay_ms = backoff(repeated.get(position, 1))
                if delay_ms and position in state.available:
                    waits.append((position, event.at_ms + delay_ms))
        for position, due_ms in waits:
            state.delayed.put_off([(position, position)], due_ms, state.available)
        return waits

    def applied(self, event: Any, done: Applied, /) -> None:
        """They wait by the rule."""

    def restored(self) -> None:
        """It keeps nothing of its own."""
