"""The whole: overview, brokers, the one virtual host, and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from ...client.addresses import split_host
from ...client.errors import Invalid
from ...protocol.wiring.definitions import TYPES
from ..view import ManagementView
from .figures import QUEUE_STATS, depths, stats
from .paging import PAGED, found, listed
from .table import VHOST, Answer, Call, Operations

operations = Operations()
COUNTED = ("queues", "exchanges", "connections", "consumers")
CHURN = {
    "connection_created": "opened", "connection_closed": "closed", "queue_created": "queues_declared",
    "queue_deleted": "queues_deleted",
}  # fmt: skip
"""RabbitMQ's name -> ours."""
PROTOCOL = "manta"


@cache
def version() -> str:
    """Of what is installed, "" where that is not known."""
    try:
        return metadata.version("mantamq")
    except metadata.PackageNotFoundError:
        return ""


def whole(view: ManagementView) -> dict[str, Any]:
    """Depths of all queues together, and what goes through them."""
    counts: dict[str, int] = {}
    for queue in view.rows("queues"):
        for ours in QUEUE_STATS.values():
            counts[ours] = counts.get(ours, 0) + queue.get(ours, 0)
    return {"queue_totals": depths(view.totals()), "message_stats": stats(counts, view.rates(), QUEUE_STATS)}


def churn_rates(view: ManagementView) -> dict[str, Any]:
    """What comes and goes: how often, since the brokers that are here began, and a second."""
    return stats(view.churned(), view.churn(), CHURN)


def listeners(view: ManagementView) -> list[dict[str, Any]]:
    """Where brokers take clients."""
    members = view.status.members if view.status is not None else {}
    told: list[dict[str, Any]] = []
    for broker, address in sorted(members.items()):
        try:
            host, port = split_host(address)
        except (Invalid, ValueError):
            continue
        told.append({"node": broker, "protocol": PROTOCOL, "ip_address": host, "port": port})
    return told


@operations.get("/overview", "The whole cluster.")
async def overview(call: Call) -> Answer:
    view, counts = call.view, call.view.counts()
    told: dict[str, Any] = {
        "product_name": "Manta", "product_version": version(),
        "object_totals": {name: counts[name] for name in COUNTED} | {"channels": counts["connections"]},
        **whole(view), "listeners": listeners(view),
        "exchange_types": [{"name": name} for name in TYPES], "churn_rates": churn_rates(view),
    }  # fmt: skip
    ours: dict[str, Any] = {"brokers": counts["brokers"], "time_s": view.time_s, "silent": view.silent}
    ours |= {"troubles": dict(view.troubles), "totals": view.totals(), "rates": view.rates()}
    if view.status is not None:
        told["cluster_name"] = view.status.cluster
        ours |= view.status.health() | {"stage": view.status.stage, "uptime_s": view.status.uptime_s}
    return Answer(told | {"manta": ours})


def told_node(row: Mapping[str, Any], members: Mapping[str, Mapping[str, Any]], serving: Mapping[str, str]) -> Any:
    """A broker by RabbitMQ's names for a node."""
    name = row["broker"]
    told: dict[str, Any] = {"name": name, "running": name in serving}
    if member := members.get(name):
        told["os_pid"] = str(member["pid"])
    more = {key: value for key, value in row.items() if key != "broker" and value is not None}
    more |= {key: member[key] for key in ("host", "alive", "version", "error") if member[key] != ""} if member else {}
    return told | {"manta": more}


def _nodes(view: ManagementView) -> list[dict[str, Any]]:
    members = {row["name"]: row for row in view.members() if row["role"] == "BrokerNode"}
    rows = {row["broker"]: row for row in view.rows("brokers")}
    serving = view.status.members if view.status is not None else dict.fromkeys(rows, "")
    named = sorted({*rows, *members})
    return [told_node(rows.get(name, {"broker": name}), members, serving) for name in named]


@operations.get("/nodes", "All brokers.", *PAGED)
async def nodes(call: Call) -> Answer:
    return listed(call, _nodes(call.view), dict)


@operations.get("/nodes/{name}", "A broker.", statuses={404: "there is no such broker"})
async def node(call: Call) -> Answer:
    row = next((row for row in _nodes(call.view) if row["name"] == call.name), None)
    return Answer(found(row, "broker", call.name))


def _vhost(view: ManagementView) -> dict[str, Any]:
    told = whole(view)
    return {"name": VHOST, **told["queue_totals"], "message_stats": told["message_stats"]}


@operations.get("/vhosts", "All virtual hosts: there is one.", *PAGED)
async def vhosts(call: Call) -> Answer:
    return listed(call, [_vhost(call.view)], dict)


@operations.get("/vhosts/{vhost}", "The virtual host.")
async def vhost(call: Call) -> Answer:
    return Answer(_vhost(call.view))


@operations.get("/whoami", "Who asks, as far as that is known.")
async def whoami(call: Call) -> Answer:
    return Answer({"name": call.who.name, "tags": ["administrator"]})


@operations.get("/extensions", "Extensions of this API: none.")
async def extensions(call: Call) -> Answer:
    return Answer([])


@operations.get("/auth", "Whether OAuth is used: no.")
async def auth(call: Call) -> Answer:
    return Answer({"oauth_enabled": False})
