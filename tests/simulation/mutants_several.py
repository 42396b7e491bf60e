"""Bugs of messages with several routing keys, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books import sender
from mantamq.protocol.broker import routing, transfers
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def only_the_first_of_several_keys_counts(patch: Patch) -> None:
    by_any = Wiring.route_by_any

    def first(self: Any, exchange: str, keys: Any, headers: Any = None, onward: bool = False) -> tuple[str, ...]:
        return by_any(self, exchange, keys[:1], headers, onward)

    patch.setattr(Wiring, "route_by_any", first)


def a_queue_gets_a_message_once_for_each_key(patch: Patch) -> None:
    by_any = Wiring.route_by_any

    def often(self: Any, exchange: str, keys: Any, headers: Any = None, onward: bool = False) -> tuple[str, ...]:
        return tuple(queue for key in keys for queue in by_any(self, exchange, [key], headers, onward))

    patch.setattr(Wiring, "route_by_any", often)


def each_key_that_finds_nothing_asks_the_alternate(patch: Patch) -> None:
    by_any = Wiring.route_by_any

    def eager(self: Any, exchange: str, keys: Any, headers: Any = None, onward: bool = False) -> tuple[str, ...]:
        found = [queue for key in keys for queue in by_any(self, exchange, [key], headers, onward)]
        return tuple(dict.fromkeys(found))

    patch.setattr(Wiring, "route_by_any", eager)


def what_is_said_again_is_said_without_its_keys(patch: Patch) -> None:
    part = sender.part
    patch.setattr(sender, "part", lambda *given: replace(part(*given), several=[]))


def a_message_goes_by_its_subject_all_the_same(patch: Patch) -> None:
    each = routing.route_each
    patch.setattr(routing, "route_each", lambda *given: each(*given[:2], replace(given[2], several=[]), *given[3:]))
    patch.setattr(transfers, "route_each", routing.route_each)


ALL = planted(globals())
