"""Which level of a queue a priority is: by AMQP 0-10's rule for fewer levels than priorities, or RabbitMQ's."""

from __future__ import annotations

from collections.abc import Callable

USUAL = 4
"""The priority of a message that has none, of 0 to 9 (AMQP 0-10)."""

LevelRule = Callable[[int | None], int]


def level_rule(priorities: int, max_priority: int) -> LevelRule | None:
    """A message's priority -> its level, of which 0 is the lowest. None: there is but one.

    Args:
        priorities: so many levels for priorities 0 to 9: the middle ones have a level each, and those below and above
            go with the lowest and the highest (AMQP 0-10, `message.transfer`).
        max_priority: a level for each priority up to this one; no priority is 0 (RabbitMQ's `x-max-priority`).
    """
    if priorities > 1:
        low, high = 5 - (priorities + 1) // 2, 4 + priorities // 2
        return lambda priority: min(max(USUAL if priority is None else priority, low), high) - low
    if max_priority:
        return lambda priority: min(max(priority or 0, 0), max_priority)
    return None
