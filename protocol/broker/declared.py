"""All that clients have declared, as they would declare it again: what a definitions file is made of.

It is the wiring of one moment. The standard's own exchanges are left out, and the queues that exchanges have for
themselves, and of a queue's arguments those that only the cluster's defaults have given.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from ..wiring.definitions import Binding, QueueDefinition, given, standard
from ..wiring.relays import relayed
from ..wiring.wiring import Wiring


def all_declared(wiring: Wiring) -> dict[str, list[dict[str, Any]]]:
    """ "exchanges", "queues" and "bindings"; a binding to an exchange has `to_exchange` in place of `queue`."""
    return {
        "exchanges": [asdict(one) for one in wiring.exchanges() if not standard(one.name)],
        "queues": [_queue(one) for one in wiring.queues() if not relayed(one)],
        "bindings": [asdict(one) for one in wiring.bindings()] + [_link(one) for one in wiring.links()],
    }


def _queue(one: QueueDefinition) -> dict[str, Any]:
    arguments = given(one.arguments)
    return {"name": one.name, "durable": one.durable, "alternate": one.alternate, "arguments": arguments}


def _link(one: Binding) -> dict[str, Any]:
    return {"exchange": one.exchange, "to_exchange": one.queue, "key": one.key, "arguments": one.arguments}
