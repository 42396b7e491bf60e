"""Connections, and what can be known of consumers. There are no channels here: a client has one connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...client.definitions.values import to_json
from .names import of_vhost
from .paging import PAGED, found, listed
from .table import VHOST, Answer, Call, Operations

operations = Operations()
MAJOR = 1


def told_connection(row: Mapping[str, Any]) -> dict[str, Any]:
    """A connection by RabbitMQ's names: its name is the client's id, its node the broker."""
    told: dict[str, Any] = {"name": row["client"], "node": row["broker"]}
    if "state" in row:
        told["state"] = row["state"]
    if "minor" in row:
        told["protocol"] = f"manta {MAJOR}.{row['minor']}"
    apart = ("client", "broker", "state", "minor")
    more = {name: to_json(value) for name, value in row.items() if name not in apart and value is not None}
    return of_vhost(told) | {"manta": more}


def told_consumers(row: Mapping[str, Any]) -> dict[str, Any]:
    """How many consumers a queue has at one broker: each by itself nobody knows."""
    return {
        "queue": {"name": row["name"], "vhost": VHOST},
        "channel_details": {"node": row["broker"]},
        "manta": {"consumers": row["count"]},
    }


@operations.get("/connections", "All connections; of each broker the 1,000 that have sent most.", *PAGED)
@operations.get("/vhosts/{vhost}/connections", "All connections of the virtual host.", *PAGED)
async def connections(call: Call) -> Answer:
    return listed(call, call.view.rows("connections"), told_connection)


@operations.get("/connections/{name}", "A connection.", statuses={404: "there is no such connection"})
async def connection(call: Call) -> Answer:
    row = next((row for row in call.view.rows("connections") if row["client"] == call.name), None)
    return Answer(told_connection(found(row, "connection", call.name)))


@operations.get("/channels", "Channels: none, ever.", *PAGED)
@operations.get("/vhosts/{vhost}/channels", "Channels of the virtual host: none, ever.", *PAGED)
async def channels(call: Call) -> Answer:
    return listed(call, [], dict)


@operations.get("/consumers", "Queues with consumers: how many at each broker.", *PAGED)
@operations.get("/consumers/{vhost}", "Queues of the virtual host with consumers: how many at each broker.", *PAGED)
async def consumers(call: Call) -> Answer:
    rows = [
        {"name": queue["name"], "broker": broker, "count": count}
        for queue in call.view.rows("queues")
        for broker, count in sorted(queue.get("consumers_at", {}).items())
    ]
    return listed(call, rows, told_consumers, "queue")
