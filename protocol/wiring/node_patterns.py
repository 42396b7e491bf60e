"""Patterns of queues and exchanges that are made when somebody attaches to them, as a pure function of the cluster
stream.

A pattern makes nothing itself: the broker at which a client attaches to a name that is not there looks which pattern is
the name's, and has the ordinary declaration ordered (`broker/on_demand.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import INVALID, NOT_FOUND, PeerError
from ..wire.pattern_events import DropPattern, PutPattern
from .definitions import check_arguments, check_name
from .name_patterns import best, check_pattern

MOST_PATTERNS = 64
"""Each name that is not there is compared with all."""
KINDS = QUEUE, EXCHANGE = "queue", "exchange"


class NodePattern(msgspec.Struct, frozen=True, array_like=True):
    """One pattern: see `PutPattern`."""

    name: str
    pattern: str
    makes: str
    arguments: dict[str, Any] = {}
    durable: bool = False
    alternate: str = ""
    type: str = ""
    priority: int = 0


class NodePatterns:
    """All patterns of a cluster."""

    def __init__(self) -> None:
        self._all: dict[str, NodePattern] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def order(self, event: PutPattern | DropPattern) -> bool:
        """Apply an event; whether it changed anything.

        Raises:
            PeerError: `invalid`, it is no pattern, or there are too many; `not-found`, there is none to drop.
        """
        before = self._all.get(event.name)
        if isinstance(event, DropPattern):
            if before is None:
                raise PeerError(NOT_FOUND, f"there is no pattern {event.name!r}: `mantamq pattern list` has all")
            del self._all[event.name]
            return True
        check_name("pattern", event.name)
        check_pattern(event.pattern)
        check_arguments(event.arguments)
        if event.makes not in KINDS:
            raise PeerError(INVALID, f"a pattern makes a queue or an exchange, not {event.makes!r}")
        if before is None and len(self._all) >= MOST_PATTERNS:
            raise PeerError(INVALID, f"a cluster has at most {MOST_PATTERNS} patterns: delete one first")
        said = event.arguments, event.durable, event.alternate, event.type, event.priority
        found = self._all[event.name] = NodePattern(event.name, event.pattern, event.makes, *said)
        return found != before

    def of(self, name: str) -> NodePattern | None:
        """The pattern of a queue or an exchange with that name, chosen as policies are."""
        return best(self._all.values(), name)

    def snapshot(self) -> list[NodePattern]:
        return [self._all[name] for name in sorted(self._all)]

    @classmethod
    def restore(cls, patterns: list[NodePattern]) -> NodePatterns:
        found = cls()
        found._all = {one.name: one for one in patterns}
        return found
