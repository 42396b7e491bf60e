"""Bugs of routing and of rejected messages planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from mantamq.protocol.broker import management
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.queue_frames import DeadLetter
from mantamq.protocol.wiring.wiring import Wiring

Patch = pytest.MonkeyPatch


def alternates_get_all(patch: Patch) -> None:
    """A message for which an exchange finds a queue goes to the alternate as well."""
    route = Wiring.route_by_any

    def generous(self: Any, name: str, keys: Any, headers: Any = None, onward: bool = False) -> Any:
        found = route(self, name, keys, headers, onward)
        exchange = self._exchanges.get(name)
        if exchange is not None and exchange.definition.alternate:
            found = tuple(dict.fromkeys((*found, *route(self, exchange.definition.alternate, keys, headers))))
        return found

    patch.setattr(Wiring, "route_by_any", generous)


def the_alternate_of_an_alternate_is_not_asked(patch: Patch) -> None:
    route = Wiring.route_by_any

    def lazy(self: Any, name: str, keys: Any, headers: Any = None, onward: bool = False) -> Any:
        exchange = self._exchanges.get(name)
        alternate = exchange.definition.alternate if exchange is not None else ""
        found = route(self, name, keys, headers, onward)
        known = {self._by_id[id].name for id in found}
        if alternate and not known & _bound(exchange, keys, headers):
            there = _bound(self._exchanges[alternate], keys, headers)
            return tuple(id for id in found if self._by_id[id].name in there)
        return found

    patch.setattr(Wiring, "route_by_any", lazy)


def _bound(exchange: Any, keys: Any, headers: Any) -> set[str]:
    """The names of the queues that an exchange finds by itself."""
    return {name for key in keys for name in exchange.bound(key, headers)}


def nobody_asks_whether_an_alternate_looks_at_properties(patch: Patch) -> None:
    patch.setattr(Wiring, "needs_headers", lambda self, name: self.exchange(name).type == "headers")


def rejected_batches_overtake_each_other(patch: Patch) -> None:
    """A large batch is on its way in pieces, and what was rejected behind it goes between them."""
    after = DeadLetters.due

    def hasty(self: Any) -> Any:
        asked: list[Any] = []
        in_pieces, self._in_pieces = self._in_pieces, 0
        while self._waiting:
            self._in_pieces = 0
            asked += after(self)
            in_pieces = in_pieces or self._in_pieces
        self._in_pieces = in_pieces
        return asked

    patch.setattr(DeadLetters, "due", hasty)


def a_rejected_batch_is_turned_round(patch: Patch) -> None:
    send = ReplicaMachine.send

    def turned(self: Any, peer: str, frame: Any) -> None:
        send(
            self, peer, msgspec.structs.replace(frame, blobs=frame.blobs[::-1]) if type(frame) is DeadLetter else frame
        )

    patch.setattr(ReplicaMachine, "send", turned)


def who_only_asks_declares(patch: Patch) -> None:
    """A passive declare of what is not there makes it."""
    declare, kind = management._COMMANDS["declare_exchange"]

    def eager(self: Any, answer: Any, arguments: Any) -> None:
        declare(self, answer, msgspec.structs.replace(arguments, passive=False))

    patch.setitem(management._COMMANDS, "declare_exchange", (eager, kind))


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
