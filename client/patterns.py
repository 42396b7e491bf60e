"""Queues and exchanges that are made when somebody attaches to a name that fits a pattern, for both twins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from .books.abilities import PATTERNS
from .durations import listed
from .errors import Invalid
from .management import (  # pyright: ignore[reportPrivateUsage]
    TYPED,
    AsyncManagement,
    Description,
    Management,
    QueueKeywords,
    _Ask,
    _by_keyword,
    _changed,
    _nothing,
    _with_typed,
)

OF_BOTH = ("durable", "alternate", "arguments")
OF_QUEUES = (*OF_BOTH, *(keyword for keyword in get_type_hints(QueueKeywords) if keyword != "exclusive"))
OF_EXCHANGES = ("type", *OF_BOTH, "internal", "auto_delete", "sequence", "initial")

_PATTERNS: _Ask[list[Description]] = _Ask("patterns", {}, lambda value: value, PATTERNS)


def _add_pattern(
    name: str, pattern: str, priority: int, queue: Mapping[str, Any] | None, exchange: Mapping[str, Any] | None
) -> _Ask[bool]:
    if (queue is None) == (exchange is None):
        raise Invalid("a pattern makes queues or exchanges: give one of queue= and exchange=, {} for a plain one")
    kind, may, given = ("exchange", OF_EXCHANGES, exchange) if queue is None else ("queue", OF_QUEUES, queue)
    if not isinstance(given, Mapping):
        raise Invalid(f"{kind}={given!r:.60}: give the keywords of declare_{kind} as a dictionary, {{}} for none")
    if strange := [keyword for keyword in given if keyword not in may]:
        raise Invalid(f"{kind}= has {strange[0]!r}: leave it out; a pattern takes {', '.join(may)}, of declare_{kind}")
    typed = {name: listed(value) for name, value in _typed(queue, exchange).items()}
    what: dict[str, Any] = {"name": name, "pattern": pattern, "makes": kind, "priority": priority}
    what |= {"durable": given.get("durable", False), "alternate": given.get("alternate", "")}
    what |= {"type": given.get("type", "direct")} if kind == "exchange" else {}
    return _Ask("add_pattern", what | {"arguments": _with_typed(given.get("arguments"), typed)}, _changed, PATTERNS)


def _typed(queue: Mapping[str, Any] | None, exchange: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those that are arguments of brokers."""
    given = exchange if queue is None else queue
    if not isinstance(given, Mapping):
        return {}
    said = {keyword: value for keyword, value in given.items() if keyword in TYPED and value is not None}
    return said if queue is not None else {keyword: value for keyword, value in said.items() if value is not False}


def _delete_pattern(name: str) -> _Ask[None]:
    return _Ask("delete_pattern", {"name": name}, _nothing, PATTERNS)


class Patterns(Management):
    """Queues and exchanges on demand."""

    def add_pattern(
        self, name: str, pattern: str, *, queue: Mapping[str, Any] | None = None,
        exchange: Mapping[str, Any] | None = None, priority: int = 0,
    ) -> bool:  # fmt: skip
        """Have queues, or exchanges, made when somebody attaches a sender, a receiver or a browser to a name that fits
        a pattern and is neither: as `declare_queue` or `declare_exchange` would make it, and with the same refusals,
        which attaching then raises. A pattern of that name is replaced; what is there stays as it is. Of several that
        fit, the one with the highest priority is the name's, and no other.

        Args:
            pattern: a regular expression that is searched for in the name, as that of `add_policy`: `^jobs[.]`.
            queue: keywords of `declare_queue`: {"max_count": 1000, "auto_delete": True}; {}: as without any.
            exchange: keywords of `declare_exchange`, in place of `queue`: {"type": "topic"}. Senders make exchanges;
                receivers attach to queues, and make these alone.
            priority: the highest one wins; of equals the name that comes first.

        Returns:
            Whether it is new, or another one than before.

        Raises:
            Invalid: it is no pattern, and where; or nothing can be declared so; or the queues were to be exclusive.
            NoStore: they were to be durable, and cannot. Unavailable: a member of the cluster is of an older version.
        """
        try:
            return self._ask(_add_pattern(name, pattern, priority, queue, exchange))
        except Invalid as refused:
            raise _by_keyword(refused, _typed(queue, exchange)) from None

    def delete_pattern(self, name: str) -> None:
        """Delete a pattern; queues and exchanges that were made by it stay. Raises NotFound."""
        self._ask(_delete_pattern(name))

    def patterns(self) -> list[Description]:
        """All patterns: name, pattern, priority, what it makes ("queue" or "exchange"), and `settings` by keyword."""
        return self._ask(_PATTERNS)


class AsyncPatterns(AsyncManagement):
    """As `Patterns`, awaited."""

    async def add_pattern(
        self, name: str, pattern: str, *, queue: Mapping[str, Any] | None = None,
        exchange: Mapping[str, Any] | None = None, priority: int = 0,
    ) -> bool:  # fmt: skip
        """As `Connection.add_pattern`."""
        try:
            return await self._ask(_add_pattern(name, pattern, priority, queue, exchange))
        except Invalid as refused:
            raise _by_keyword(refused, _typed(queue, exchange)) from None

    async def delete_pattern(self, name: str) -> None:
        """As `Connection.delete_pattern`."""
        await self._ask(_delete_pattern(name))

    async def patterns(self) -> list[Description]:
        """As `Connection.patterns`."""
        return await self._ask(_PATTERNS)
