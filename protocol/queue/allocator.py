"""Which of the messages that are offered to a subscription it may take (Qpid: `MessageDistributor`): any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from .subscription import Subscription

Again = Callable[[list[tuple[int, int]]], None]
"""Has ranges of messages offered again to all that do not browse."""


class Allocator(Protocol):
    """A message that is refused to a subscription is not offered to it again until it comes back. An allocator that
    refuses it for the time being (of a group that another consumer has, say) says when it may be taken, by `again`, or
    is the order, too, and offers it again by itself."""

    def attach(self, subscriptions: Mapping[int, Subscription], again: Again, /) -> None:
        """Called once, before any offer. `subscriptions`: those that there are, by their numbers."""
        ...

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int] | None:
        """The first messages of an offered range that the subscription may take, again a range; None: none of them.

        Nothing is taken by this: offers are also made to see whether there is anything for it. What it has taken and
        not settled is in `Subscription.held`.
        """
        ...

    def took(self, subscription: Subscription, parts: list[tuple[int, int]], /) -> None:
        """These were given to the subscription, before they are ordered as acquired. Not told of `AnyConsumer`."""
        ...

    def returned(self, positions: list[tuple[int, int]], /) -> None:
        """These, rising, have come back, or were not acquired after all. Not told of `AnyConsumer`."""
        ...


class AnyConsumer:
    """Any consumer may take any message."""

    __slots__ = ()

    def attach(self, subscriptions: Mapping[int, Subscription], again: Again, /) -> None:
        """Nothing is refused, so nothing is offered again."""

    def took(self, subscription: Subscription, parts: list[tuple[int, int]], /) -> None:
        """It does not matter who has what."""

    def returned(self, positions: list[tuple[int, int]], /) -> None:
        """It does not matter who had what."""

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int]:
        return first, last
