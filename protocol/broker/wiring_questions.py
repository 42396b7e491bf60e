"""Questions of clients that the wiring alone answers, at once: what there is, and what a name is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..errors import NOT_FOUND, PeerError
from ..wiring.wiring import Wiring
from .command_arguments import NameArguments, NoArguments
from .declared import all_declared
from .pattern_commands import pattern_described
from .policy_commands import described


def _exchanges(wiring: Wiring, a: NoArguments) -> list[dict[str, Any]]:
    return [asdict(exchange) for exchange in wiring.exchanges()]


def _bindings(wiring: Wiring, a: NoArguments) -> list[dict[str, Any]]:
    links = [asdict(link) | {"queue": "", "to_exchange": link.queue} for link in wiring.links()]
    return [asdict(binding) for binding in wiring.bindings()] + links


def _policies(wiring: Wiring, a: NoArguments) -> list[dict[str, Any]]:
    return [described(one) for one in wiring.policies.snapshot()]


def _patterns(wiring: Wiring, a: NoArguments) -> list[dict[str, Any]]:
    return [pattern_described(one) for one in wiring.patterns.snapshot()]


def _resolve(wiring: Wiring, a: NameArguments) -> dict[str, str]:
    """What a name is, or would be if somebody attached to it."""
    if wiring.queue(a.name) is not None:
        return {"kind": "queue"}
    if wiring.exchange(a.name) is not None:
        return {"kind": "exchange"}
    if (pattern := wiring.patterns.of(a.name)) is not None:
        return {"kind": pattern.makes}
    raise PeerError(NOT_FOUND, f"there is no queue and no exchange {a.name!r}: declare it first")


QUESTIONS: dict[str, tuple[Callable[[Wiring, Any], Any], type[msgspec.Struct]]] = {
    "definitions": (lambda wiring, a: all_declared(wiring), NoArguments),
    "exchanges": (_exchanges, NoArguments),
    "bindings": (_bindings, NoArguments),
    "policies": (_policies, NoArguments),
    "patterns": (_patterns, NoArguments),
    "resolve": (_resolve, NameArguments),
}
