"""Policies that are part of a queue's state: they follow its events and have messages go when others come, as a ring's.

A policy takes the place of the rules it follows in the table of rules, so a queue without one pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..wire.events import Event
from .applied import Applied

Rule = Callable[[Any], Applied]


class StatePolicy(Protocol):
    """Keeps account of messages, or has some go when others come (`QueueState.discard`). Like the state it must be a
    function of the stream alone.

    Attributes:
        events: the kinds of events that it follows. A `Rejoin` or `Member` may put a broker out as an `Evict` does.
    """

    events: tuple[type[Event], ...]

    def applied(self, event: Any, done: Applied, /) -> None:
        """The event is applied; what is done here is part of it."""
        ...

    def restored(self) -> None:
        """The state has been replaced by another, of which all messages are here."""
        ...


def followed(rule: Rule, policy: StatePolicy) -> Rule:
    """The rule with the policy behind it."""
    applied = policy.applied

    def rule_and_policy(event: Any) -> Applied:
        done = rule(event)
        applied(event, done)
        return done

    return rule_and_policy
