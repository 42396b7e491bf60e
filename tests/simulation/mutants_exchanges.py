"""Bugs of exchanges and bindings planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replace_outcome
from typing import Any

import pytest
from mantamq.protocol.broker import routing
from mantamq.protocol.broker.queue_changes import QueueChanges
from mantamq.protocol.wire.events import DeleteExchange
from mantamq.protocol.wiring import endings, exchanges, links, wiring
from mantamq.protocol.wiring import routing as wirings_routing
from mantamq.protocol.wiring.exchanges import Exchange
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

Patch = pytest.MonkeyPatch


def headers_that_begin_with_x_take_no_part(patch: Patch) -> None:
    match = exchanges._headers_match

    def blind(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
        plain = {name: value for name, value in arguments.items() if not name.startswith("x-")}
        return match(plain | {"x-match": arguments.get("x-match", "all").removesuffix("-with-x")}, headers)

    patch.setattr(exchanges, "_headers_match", blind)


def any_with_x_asks_for_all(patch: Patch) -> None:
    match = exchanges._headers_match

    def strict(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
        if arguments.get("x-match") == "any-with-x":
            arguments = arguments | {"x-match": "all-with-x"}
        return match(arguments, headers)

    patch.setattr(exchanges, "_headers_match", strict)


def exchanges_that_are_bound_are_not_gone_on_from(patch: Patch) -> None:
    """A message goes on to exchanges that are bound to its own, and to none that are bound to those."""
    reached = links.reached

    def near(exchanges: Any, first: Any, key: str, headers: Any, onward: bool) -> Any:
        cut = {name: Exchange(one.definition, one.bindings) for name, one in exchanges.items() if one is not first}
        return reached(cut | {first.definition.name: first}, first, key, headers, onward)

    patch.setattr(wirings_routing, "reached", near)


def the_alternate_is_asked_although_others_have_found_a_queue(patch: Patch) -> None:
    """An exchange that finds no queue itself passes to its alternate, though exchanges bound to it have found some."""
    route = Wiring.route_by_any

    def hasty(self: Any, name: str, keys: Any, headers: Any = None, onward: bool = False) -> Any:
        found = route(self, name, keys, headers, onward)
        exchange = self._exchanges.get(name)
        if exchange is not None and exchange.links and exchange.definition.alternate:
            if not any(exchange.bound(key, headers) for key in keys):
                found = tuple(dict.fromkeys((*found, *route(self, exchange.definition.alternate, keys, headers))))
        return found

    patch.setattr(Wiring, "route_by_any", hasty)


def an_exchange_on_the_way_has_no_alternate(patch: Patch) -> None:
    reached = links.reached

    def without(exchanges: Any, first: Any, key: str, headers: Any, onward: bool) -> Any:
        bare = {
            name: Exchange(replace(one.definition, alternate=""), one.bindings, one.links)
            for name, one in exchanges.items()
        }
        return reached(bare, bare[first.definition.name], key, headers, onward)

    patch.setattr(wirings_routing, "reached", without)


def a_sender_that_knows_nothing_of_headers_has_none(patch: Patch) -> None:
    """Its exchange has come to look at them behind its back; the broker does not look into the messages."""
    patch.setattr(routing, "headers_of", lambda blob: {})


def exchanges_bound_to_one_that_goes_stay_bound(patch: Patch) -> None:
    patch.setattr(Exchange, "unlink", lambda self, name, key=None: key is not None)


def who_should_go_with_its_last_binding_stays(patch: Patch) -> None:
    patch.setattr(wiring, "unused", lambda less: [])


def an_exchange_goes_before_it_had_a_binding(patch: Patch) -> None:
    """Whatever loses a binding: all that are to go with their last, and have none, go."""
    delete = Wiring._delete_exchange

    def eager(self: Any, event: Any) -> Any:
        outcome = delete(self, event)
        gone = endings.end(self._exchanges, endings.unused(self._exchanges.values()))
        return replace_outcome(outcome, gone=(*outcome.gone, *gone))

    patch.setattr(Wiring, "_delete_exchange", eager)


def who_leads_to_exchanges_only_has_no_bindings(patch: Patch) -> None:
    unused = endings.unused

    def forgetful(less: Any) -> Any:
        bare = [Exchange(one.definition, one.bindings) for one in less]
        return unused(bare)

    patch.setattr(endings, "unused", forgetful)
    patch.setattr(wiring, "unused", forgetful)


def senders_of_an_exchange_that_went_by_itself_stay(patch: Patch) -> None:
    rewired = QueueChanges.rewired

    def silent(self: Any, event: Any, outcome: Any, index: int) -> None:
        asked = (event.name,) if type(event) is DeleteExchange else ()
        rewired(self, event, replace_outcome(outcome, gone=asked), index)

    patch.setattr(QueueChanges, "rewired", silent)


def anybody_sends_to_internal_exchanges(patch: Patch) -> None:
    patch.setattr(Wiring, "internal", lambda self, name: False)


def an_exclusive_binding_joins_the_others(patch: Patch) -> None:
    patch.setattr(Exchange, "clear", lambda self, key: None)


def an_exclusive_binding_takes_the_place_of_those_of_other_keys(patch: Patch) -> None:
    def clear(self: Any, key: str) -> None:
        for binding in list(self.bindings.values()):
            self.unbind(binding.queue)

    patch.setattr(Exchange, "clear", clear)


def an_update_lacks_exchanges_bound_to_exchanges(patch: Patch) -> None:
    restore = Wiring.restore.__func__  # type: ignore[attr-defined]
    patch.setattr(Wiring, "restore", classmethod(lambda cls, snapshot: restore(cls, [*snapshot[:6], []])))


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
