"""All that clients have declared, as they would declare it again: what a definitions file is made of.

It is the wiring of one moment. The standard's own exchanges are left out, and the queues that exchanges or clients have
for themselves, with the bindings to these, and of a queue what only the cluster's defaults, or policies, gave.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from ..queue.settings import QueueSettings
from ..wire.settings import read
from ..wiring.definitions import Binding, QueueDefinition, given, standard
from ..wiring.relays import relayed
from ..wiring.wiring import Wiring


def all_declared(wiring: Wiring) -> dict[str, list[dict[str, Any]]]:
    """ "exchanges", "policies", "patterns", "queues", "bindings", of which one to an exchange has `to_exchange`, and no
    `queue`; and "redirects"."""
    queues = {one.name: one for one in wiring.queues() if not relayed(one) and not _is_a_clients(one)}
    return {
        "exchanges": [asdict(one) for one in wiring.exchanges() if not standard(one.name)],
        "policies": [asdict(one) for one in wiring.policies.snapshot()],
        "patterns": [asdict(one) for one in wiring.patterns.snapshot()],
        "queues": [_queue(one) for one in queues.values()],
        "bindings": [asdict(one) for one in wiring.bindings() if one.queue in queues]
        + [_link(one) for one in wiring.links()],
        "redirects": [
            {"source": source, "target": target}
            for source, target in wiring.redirects.snapshot()
            if source in queues and target in queues
        ],
    }


def _is_a_clients(one: QueueDefinition) -> bool:
    return read(QueueSettings, one.arguments).exclusive


def _queue(one: QueueDefinition) -> dict[str, Any]:
    own = one.as_declared
    return {"name": one.name, "durable": one.durable, "alternate": own.alternate, "arguments": given(own.arguments)}


def _link(one: Binding) -> dict[str, Any]:
    return {"exchange": one.exchange, "to_exchange": one.queue, "key": one.key, "arguments": one.arguments}
