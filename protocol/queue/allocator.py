"""Which of the messages that are offered to a subscription it may take (Qpid: `MessageDistributor`): any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .subscription import Subscription


class Allocator(Protocol):
    """A message that is refused to a subscription is not offered to it again until it comes back. An allocator that
    refuses it for the time being (of a group that another consumer has, say) says when it may be taken, by `again`."""

    def attach(self, again: Callable[[list[tuple[int, int]]], None], /) -> None:
        """Called once, before any offer. `again` has ranges of messages offered again to all that do not browse."""
        ...

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int] | None:
        """The first messages of an offered range that the subscription may take, again a range; None: none of them.

        Nothing is taken by this: offers are also made to see whether there is anything for it. What it has taken and
        not settled is in `Subscription.held`.
        """
        ...


class AnyConsumer:
    """Any consumer may take any message."""

    __slots__ = ()

    def attach(self, again: Callable[[list[tuple[int, int]]], None], /) -> None:
        """Nothing is refused, so nothing is offered again."""

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int]:
        return first, last
