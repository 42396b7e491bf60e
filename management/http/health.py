"""Questions with one answer, for what watches a cluster: 200 and {"status": "ok"}, or 503 and why not."""

from __future__ import annotations

from typing import Any

from ...protocol.status.cluster import ClusterStatus
from ...protocol.wire.events import CLUSTER
from .overview import listeners
from .table import Answer, Call, Operations

operations = Operations()
LARGEST_PORT = 65_535


def _ok(**more: Any) -> Answer:
    return Answer({"status": "ok", **more})


def _failed(reason: str, **more: Any) -> Answer:
    return Answer({"status": "failed", "reason": reason, **more}, 503)


def _unseen(call: Call) -> Answer | None:
    """Nobody knows how the cluster is now."""
    if call.view.status is None:
        return _failed("the cluster has not been seen yet: ask again")
    if trouble := call.view.troubles.get("status"):
        return _failed(f"the cluster does not say how it is: {trouble}")
    return None


@operations.get("/health/checks/alarms", "Whether flow control holds no producers back.")
@operations.get("/health/checks/local-alarms", "The same: flow control is the whole cluster's.")
async def alarms(call: Call) -> Answer:
    if unseen := _unseen(call):
        return unseen
    flow = call.view.flow()
    if not flow["stopped"]:
        return _ok()
    told = [{"node": member, "resource": why} for member, why in sorted(flow["members"].items())]
    return _failed("flow control holds all producers back", alarms=told)


@operations.get("/health/checks/node-is-quorum-critical", "Whether each broker could stop, and no queue would.")
async def quorum_critical(call: Call) -> Answer:
    if unseen := _unseen(call):
        return unseen
    status, leading = call.view.status, call.view.leader()
    if (lost := _lost(status)) is not None:
        return lost
    if leading is None:
        return _failed("no sequencer leads")
    if status is not None and len(status.brokers) == 1:
        return _ok(reason="the cluster has one broker")
    names = {row["id"]: row["name"] for row in call.view.rows("queues")}
    critical = [
        {"name": "the cluster itself" if key == CLUSTER else names.get(key, key), "missing": sorted(stream.missing)}
        for key, stream in leading.streams.items()
        if len({*stream.voters} - {*stream.missing, *stream.blank}) <= len(stream.voters) // 2 + 1
    ]
    if not critical:
        return _ok()
    return _failed(f"{len(critical)} queues have no majority if one broker more stops", queues=critical[:100])


@operations.get(
    "/health/checks/port-listener/{port}", "Whether a broker takes clients at a port.",
    statuses={400: "it is no number of a port"},
)  # fmt: skip
async def port_listener(call: Call) -> Answer:
    port = call._replace(query=call.path).number("port", 0, 1, LARGEST_PORT)
    if unseen := _unseen(call):
        return unseen
    ports = sorted({one["port"] for one in listeners(call.view)})
    return _ok(port=port) if port in ports else _failed("no broker listens there", missing=port, ports=ports)


@operations.get("/health/checks/virtual-hosts", "Whether the virtual host takes orders: it has a majority.")
async def virtual_hosts(call: Call) -> Answer:
    return _unseen(call) or _lost(call.view.status) or _ok()


@operations.get("/aliveness-test/{vhost}", "Whether the cluster answers. Nothing is declared for it, nor sent.")
async def aliveness(call: Call) -> Answer:
    await call.deeds.bindings()
    return _unseen(call) or _lost(call.view.status) or _ok()


def _lost(status: ClusterStatus | None) -> Answer | None:
    """Something has no majority."""
    streams = [stream for loss in status.lost for stream in loss.streams] if status is not None else []
    if not streams:
        return None
    return _failed(f"{len(streams)} of the cluster's logs have no majority", streams=sorted(streams)[:100])
