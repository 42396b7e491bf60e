"""Policies that are part of a queue's state: they follow its events and have messages go when others come, as a ring's.

A policy takes the place of the rules it follows in the table of rules, so a queue without one pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ..ranges import RangeSet, pairs
from ..wire.events import Enqueue, Event
from .applied import Applied
from .origins import numbered, origins_of

Rule = Callable[[Any], Applied]


class StatePolicy(Protocol):
    """Keeps account of messages, or has some go when others come (`QueueState.discard`). Like the state it must be a
    function of the stream alone.

    Attributes:
        events: the kinds of events that it follows. A `Rejoin` or `Member` may put a broker out as an `Evict` does.
        one_by_one: what goes depends on which message came before which: an enqueue of many is applied as so many
            enqueues, or it would matter how messages were gathered on their way. Only of one that follows nothing else.
    """

    events: tuple[type[Event], ...]
    one_by_one: bool

    def applied(self, event: Any, done: Applied, /) -> None:
        """The event is applied; what is done here is part of it."""
        ...

    def restored(self) -> None:
        """The state has been replaced by another, of which all messages are here."""
        ...


class Guard:
    """A policy that looks at a message before it comes in, and may refuse it: then the policies that follow an enqueue
    do not see it."""

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def applied(self, event: Any, done: Applied, /) -> None:
        """It has had its say before."""

    def restored(self) -> None:
        """The state has been replaced by another, of which all messages are here."""

    def admits(self, event: Enqueue) -> bool:
        """Whether all messages of an enqueue may come in as they are, without a look at each."""
        raise NotImplementedError

    def refuses(self, message: Enqueue) -> bool:
        """Whether this one message may not come in now. One that has been applied before is none to be refused."""
        raise NotImplementedError

    def refused(self, message: Enqueue) -> Applied:
        """It does not: what is done instead of the rule."""
        raise NotImplementedError


def guarded(rule: Rule, guard: Guard) -> Rule:
    """An enqueue's rule, for the messages that the guard lets in."""
    each = one_by_one(rule, guard)
    return lambda event: rule(event) if guard.admits(event) else each(event)


def one_by_one(rule: Rule, guard: Guard | None = None) -> Rule:
    """An enqueue's rule, for each of its messages that is not refused."""

    def each(event: Enqueue) -> Applied:
        expiry, delays = dict(pairs(event.expiry)), dict(pairs(event.delays))
        numbers = [number for first, last in pairs(event.numbers) for number in range(first, last + 1)]
        origins = origins_of(event) if event.origin_of else []
        done, positions = Applied(effective=False), RangeSet()
        for index, blob in enumerate(event.blobs):
            number = [numbers[index]] * 2 if numbers else []
            expires = [0, expiry[index]] if index in expiry else []
            traits, whose = event.traits[index : index + 1], numbered(origins[index : index + 1])
            delay = [0, delays[index]] if index in delays else []
            message = Enqueue(
                event.client, number, [blob], expires, traits, *whose, event.at_ms, delay, event.judged
            )  # fmt: skip
            one = guard.refused(message) if guard is not None and guard.refuses(message) else rule(message)
            done.effective = done.effective or one.effective
            positions.update(one.positions)
            done.dropped += one.dropped
            done.aside += one.aside
        done.positions = list(positions)
        return done

    return each


@runtime_checkable
class Around(Protocol):
    """A policy that has its say before a rule as well as behind it."""

    def around(self, rule: Rule) -> Rule:
        """The rule with the policy."""
        ...


def followed(rule: Rule, policy: StatePolicy) -> Rule:
    """The rule with the policy behind it, before it, or around it."""
    if isinstance(policy, Guard):
        return guarded(rule, policy)
    if isinstance(policy, Around):
        return policy.around(rule)
    applied = policy.applied

    def rule_and_policy(event: Any) -> Applied:
        done = rule(event)
        applied(event, done)
        return done

    return one_by_one(rule_and_policy) if policy.one_by_one else rule_and_policy
