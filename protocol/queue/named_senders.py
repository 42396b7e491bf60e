"""Named senders of a queue: under which client its numbers keep them, and which sender has each name now.

A program that is started anew goes on where the one before it ended, by what the queue knows under its name. The last
one to begin has the name: whoever had it before is told that it is over (`broker/named_senders.py`), and whoever comes
back from a lost connection behind a later one has it no more. What came under a number came once, whoever sent it.

A queue remembers the last `NAMES` names that were used, however many other clients come and go.
"""

from __future__ import annotations

from typing import Any

from ..wire.sender_events import Named
from .applied import Applied

NAMES = 10_000
_MARK = "!"
"""Ends the client of a named sender; of others it ends with a number, or "@"."""


def client_of(name: str) -> str:
    """The client, as an `Enqueue` has it, of senders of that name."""
    return name + _MARK


def is_named(client: str) -> bool:
    return client.endswith(_MARK)


class NamedSenders:
    """Part of a queue's replicated state.

    Attributes:
        numbers: client -> last number, of named senders that are not among the queue's `LastNumbers` any more.
        holders: name -> which sender has it; the one that began longest ago is forgotten first.
    """

    __slots__ = ("_most", "holders", "numbers")

    def __init__(self, most: int = NAMES) -> None:
        self._most = most
        self.numbers: dict[str, int] = {}
        self.holders: dict[str, str] = {}

    def begins(self, event: Named) -> Applied:
        """The rule of the event; one that has no effect is of a sender that is over."""
        holders = self.holders
        if event.again and holders.get(event.name, event.holder) != event.holder:
            return Applied(effective=False)
        _put(holders, event.name, event.holder, self._most)
        return Applied()

    def keep(self, client: str, number: int) -> None:
        """`LastNumbers` forgets a client, which is kept here if it is a named sender."""
        if is_named(client):
            _put(self.numbers, client, number, self._most)

    def told(self) -> dict[str, Any]:
        """As fields of a snapshot; nothing, where there are none."""
        if not self.numbers and not self.holders:
            return {}
        return {"named": list(self.numbers.items()), "holders": list(self.holders.items())}

    def assign(self, named: list[tuple[str, int]], holders: list[tuple[str, str]]) -> None:
        """Take over what was told."""
        self.numbers.clear()
        self.numbers.update(named)
        self.holders = dict(holders)


def _put(table: dict[str, Any], key: str, value: Any, most: int) -> None:
    table.pop(key, None)
    table[key] = value
    if len(table) > most:
        del table[next(iter(table))]
