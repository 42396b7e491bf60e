"""Connections, their channels, which are one each, and consumers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from ...client.definitions.values import to_json
from ..view import ManagementView
from .figures import stats
from .names import of_vhost
from .paging import PAGED, found, listed
from .table import NOTHING, VHOST, Answer, Call, Operations

operations = Operations()
MAJOR = 1
RECEIVER = "receiver"
CHANNEL_STATS = {"publish": "sent", "deliver_get": "delivered"}
"""RabbitMQ's name -> what is counted of a connection."""


def told_connection(row: Mapping[str, Any]) -> dict[str, Any]:
    """A connection by RabbitMQ's names: its name is the client's id, its node the broker."""
    told: dict[str, Any] = {"name": row["client"], "node": row["broker"]}
    told["channels"] = 1
    if "state" in row:
        told["state"] = row["state"]
    host, _, port = row.get("address", "").rpartition(":")
    if host and port.isdigit():
        told |= {"peer_host": host, "peer_port": int(port), "connected_at": row.get("since_ms", 0)}
    if "minor" in row:
        told["protocol"] = f"manta {MAJOR}.{row['minor']}"
    apart = ("client", "broker", "state", "minor", "address", "since_ms")
    more = {name: to_json(value) for name, value in row.items() if name not in apart and value is not None}
    return of_vhost(told) | {"manta": more}


def told_channel(row: Mapping[str, Any], links: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A connection as a channel: what its senders and receivers do. Which session of a client each belongs to nobody
    knows, so that there is one of each connection.

    Args:
        links: its senders and receivers, as far as they are told.
    """
    name = row["client"]
    receivers = [one for one in links if one["role"] == RECEIVER]
    counts = {"sent": row.get("sent", 0), "delivered": sum(one.get("delivered", 0) for one in receivers)}
    rates = {"sent": row["rates"].get("sent", 0.0)}
    rates |= {"delivered": sum(one["rates"].get("delivered", 0.0) for one in receivers)}
    told: dict[str, Any] = {"name": channel_name(name), "number": 1, "node": row["broker"]}
    told |= {"connection_details": {"name": name}, "consumer_count": row.get("receivers", 0)}
    told |= {"state": row["state"]} if "state" in row else {}
    return of_vhost(told) | {"message_stats": stats(counts, rates, CHANNEL_STATS)}


def told_consumer(row: Mapping[str, Any]) -> dict[str, Any]:
    """A receiver by RabbitMQ's names for a consumer."""
    client = row["client"]
    channel = {"name": channel_name(client), "connection_name": client, "node": row["broker"], "number": 1}
    told: dict[str, Any] = {"queue": {"name": row["queue"], "vhost": VHOST}, "channel_details": channel}
    told |= {"consumer_tag": f"{client}/{row['handle']}", "ack_required": row["accept"], "exclusive": row["alone"]}
    told |= {"prefetch_count": row["credit"], "active": not row["waits"], "arguments": {}}
    ours = ("mode", "priority", "selector", "delivered")
    return told | {"manta": {name: row[name] for name in ours if name in row}}


def channel_name(client: str) -> str:
    """As RabbitMQ calls the first channel of a connection."""
    return f"{client} (1)"


def channel_teller(view: ManagementView) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """By what a connection's row is answered as a channel."""
    links: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in view.links():
        links[row["broker"], row["client"]].append(row)
    return lambda row: told_channel(row, links[row["broker"], row["client"]])


@operations.get("/connections", "All connections; of each broker the 1,000 that have sent most.", *PAGED)
@operations.get("/vhosts/{vhost}/connections", "All connections of the virtual host.", *PAGED)
async def connections(call: Call) -> Answer:
    return listed(call, call.view.rows("connections"), told_connection)


@operations.get("/connections/{name}", "A connection.", statuses={404: "there is no such connection"})
async def connection(call: Call) -> Answer:
    row = next((row for row in call.view.rows("connections") if row["client"] == call.name), None)
    return Answer(told_connection(found(row, "connection", call.name)))


@operations.delete("/connections/{name}", "End a connection: its client does not come back by itself.",
                   statuses={204: "it is over", 404: "there is no such connection"})  # fmt: skip
async def close_connection(call: Call) -> Answer:
    row = next((row for row in call.view.rows("connections") if row["client"] == call.name), None)
    await call.deeds.close_connection(call.who, found(row, "connection", call.name)["broker"], call.name)
    return NOTHING


@operations.get("/connections/{name}/channels", "The channel of a connection.", *PAGED,
                statuses={404: "there is no such connection"})  # fmt: skip
async def channels_of_connection(call: Call) -> Answer:
    rows = [row for row in call.view.rows("connections") if row["client"] == call.name]
    found(next(iter(rows), None), "connection", call.name)
    return listed(call, rows, channel_teller(call.view))


@operations.get("/channels", "Channels: one of each connection.", *PAGED)
@operations.get("/vhosts/{vhost}/channels", "Channels of the virtual host: one of each connection.", *PAGED)
async def channels(call: Call) -> Answer:
    return listed(call, call.view.rows("connections"), channel_teller(call.view))


@operations.get("/channels/{name}", "A channel.", statuses={404: "there is no such channel"})
async def channel(call: Call) -> Answer:
    rows = (row for row in call.view.rows("connections") if channel_name(row["client"]) == call.name)
    return Answer(channel_teller(call.view)(found(next(rows, None), "channel", call.name)))


@operations.get("/consumers", "All consumers, and who browses; of each broker those that have got most.", *PAGED)
@operations.get("/consumers/{vhost}", "All consumers of the virtual host, and who browses.", *PAGED)
async def consumers(call: Call) -> Answer:
    return listed(call, call.view.links(role=RECEIVER), told_consumer, "consumer_tag")
