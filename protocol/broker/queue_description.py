"""A queue as this broker's clients are told it: what it is declared to be, and its numbers, if these are asked for."""

from __future__ import annotations

from typing import Any

from ..queue.described import definition, kind_of
from ..queue.settings import QueueSettings
from ..wire.settings import read
from ..wiring.definitions import BY_POLICY, QueueDefinition
from ..wiring.redirects import Redirects


def queue_described(queue: QueueDefinition, report: dict[str, Any], redirects: Redirects) -> dict[str, Any]:
    """With what its replica reports. `definition` is in force; where policies have a part in it, these are named, with
    what they give (`policy_definition`), and what it was declared with is in `declared`."""
    settings = read(QueueSettings, queue.arguments)
    has = definition(settings)
    in_force: dict[str, Any] = {
        "name": queue.name,
        "id": queue.id,
        "durable": queue.durable,
        "alternate": queue.alternate,
        "arguments": queue.arguments,
        "kind": kind_of(settings),
        "definition": has,
    }
    if queue.name in redirects.of:
        in_force["redirected_to"] = redirects.of[queue.name]
    if sources := redirects.to(queue.name):
        in_force["redirected_from"] = sources
    return in_force | _by_policies(queue, has) | report


def _by_policies(queue: QueueDefinition, has: dict[str, Any]) -> dict[str, Any]:
    if queue.own is None:
        return {}
    of = queue.arguments.get(BY_POLICY, {})
    own = definition(read(QueueSettings, queue.own))
    given = {name: value for name, value in has.items() if own.get(name) != value}
    if queue.alternate != queue.own_alternate:
        given["alternate"] = queue.alternate
    names = {name: of[name] for name in ("policy", "operator_policy") if name in of}
    return names | {"policy_definition": given, "declared": own}
