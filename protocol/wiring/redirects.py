"""Queues that are redirected: as a pure function of the cluster stream.

What is sent to the *source*, by whatever way a route finds it, comes into the *target* instead, from the event on
(`Inventory.leads`). What the source holds stays there, and so do its consumers: only routes know of it. A source has
one target, and neither is the other kind to a third queue: no message is redirected twice, and there are no rings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import EXISTS, INVALID, NOT_ALLOWED, NOT_FOUND, PeerError
from ..wire.redirect_events import Redirect
from .definitions import QueueDefinition
from .relays import relayed


class Redirects:
    """Attributes: of: source -> target, by the names of queues that are both there."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def order(self, event: Redirect, queues: Mapping[str, QueueDefinition]) -> bool:
        """Apply an event; whether it changed anything.

        Raises:
            PeerError: it is refused: `not-found`, `invalid`, `not-allowed`, or `exists`, where it is redirected
                elsewhere.
        """
        source, target = event.source, event.target
        if not target:
            if self.of.pop(source, None) is None:
                raise PeerError(
                    NOT_FOUND, f"queue {source!r} is not redirected: `mantamq queue list` marks those that are"
                )
            return True
        if source == target:
            raise PeerError(INVALID, f"queue {source!r} cannot be redirected to itself: name another queue")
        for name in (source, target):
            if name not in queues:
                raise PeerError(NOT_FOUND, f"there is no queue {name!r}: declare it first")
            if of := relayed(queues[name]):
                raise PeerError(NOT_ALLOWED, f"queue {name!r} belongs to exchange {of!r}: redirect other queues")
        if (there := self.of.get(source)) is not None:
            if there == target:
                return False
            raise PeerError(EXISTS, f"queue {source!r} is redirected to {there!r}: end that first")
        if (further := self.of.get(target)) is not None:
            raise PeerError(NOT_ALLOWED, f"queue {target!r} is itself redirected, to {further!r}: redirect to that one")
        if before := self.to(source):
            raise PeerError(NOT_ALLOWED, f"queue {before[0]!r} is redirected to {source!r}: end that first")
        self.of[source] = target
        return True

    def to(self, target: str) -> list[str]:
        """Names of the queues that are redirected to that one."""
        return sorted(source for source, its in self.of.items() if its == target)

    def forget(self, queue: str) -> list[str]:
        """The queue is gone, and with it every redirection that it has part in. Returns the sources that are left."""
        self.of.pop(queue, None)
        left = self.to(queue)
        for source in left:
            del self.of[source]
        return left

    def snapshot(self) -> list[tuple[str, str]]:
        return sorted(self.of.items())

    @classmethod
    def restore(cls, redirects: Iterable[tuple[str, str]]) -> Redirects:
        found = cls()
        found.of = dict(redirects)
        return found
