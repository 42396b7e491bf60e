"""Small clusters that never ran, as `Supervisor.status` would tell of them."""

from __future__ import annotations

from typing import Any

from mantamq.actors.supervisor.health import complaints, figures, lost
from mantamq.actors.supervisor.plan import Plan

Actor = dict[str, Any]
ORDERS = "orders#4"


def plan(brokers: int = 3) -> Plan:
    return Plan.of(brokers)


def stream(members: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "end": 1000, "commit": 1000, "ready": True, "voters": list(members), "lag": dict.fromkeys(members, 0), "blank": [], "missing": [],
    } | changes  # fmt: skip


def actors(brokers: int = 3, nodes: int = 1) -> list[Actor]:
    """All actors of a healthy cluster with one queue, on `nodes` Ray nodes."""
    members = list(plan(brokers).members)
    found: list[Actor] = []

    def add(name: str, role: str, machine: Any, index: int = 0, **more: Any) -> None:
        node = f"node{index % nodes}"
        place = {"pid": 100 + len(found), "node": node, "host": f"10.0.0.{index % nodes}", "loop": "uvloop"}
        found.append(
            {
                "name": name,
                "role": role,
                "alive": True,
                "clients": 0,
                "version": "1.2",
                "machine": machine,
                **place,
                **more,
            }
        )

    streams = {"cluster": stream(members), ORDERS: stream(members)}
    flow: dict[str, Any] = {"flowStopped": False, "flowStoppedCount": 0, "flow": {}}
    leading: dict[str, Any] = {
        "ballot": [2, 7],
        "standing": "leading",
        "out": {},
        "members": members,
        "absent": [],
        "seq": 2000,
        "duty": {"name": "ownership", "turn": 0, "silent_ms": 120},
        "streams": streams,
    } | flow
    standby: dict[str, Any] = {
        "ballot": [0, 0],
        "standing": "standby",
        "out": {},
        "members": members,
        "absent": [],
        "seq": 0,
        "streams": {},
    } | flow
    add("sequencer2", "Sequencer", leading)
    add("sequencer3", "Sequencer", standby, brokers - 1)
    for index, name in enumerate(("ownership", "ownership2")):
        add(name, "Ownership", {ORDERS: {"owner": "b1", "grant": 3, "interested": members[:2]}}, index)
    for index, broker in enumerate(members):
        machine = {
            "blank": False, "voters": list(members), "leaving": False, "cut_off": False, "attached": True, "homeless": [],
            "replicas": {f"{broker}.r0": [ORDERS], f"{broker}.r1": []}, **flow,
        }  # fmt: skip
        add(broker, "BrokerNode", machine, index, address=f"10.0.0.{index % nodes}:{5000 + index}", clients=index)
        queue = {"messages": 12, "owner": "b1", "blank": False, "applied": 1000 - index}
        add(f"{broker}.r0", "QueueReplica", {ORDERS: queue}, index)
        add(f"{broker}.r1", "QueueReplica", {}, index)
    return found


def named(found: list[Actor], name: str) -> Actor:
    return next(actor for actor in found if actor["name"] == name)


def machine(found: list[Actor], name: str) -> Any:
    return named(found, name)["machine"]


def silence(found: list[Actor], name: str) -> None:
    """It does not answer any more."""
    actor = named(found, name)
    actor["alive"], actor["error"] = False, f"{name} did not answer status within 3 s"
    del actor["machine"], actor["clients"]


def report(found: list[Actor], brokers: int = 3) -> dict[str, Any]:
    """As `Supervisor.status`."""
    wrong = complaints(plan(brokers), found)
    serving = {
        actor["name"]: actor["address"]
        for actor in found
        if actor["role"] == "BrokerNode" and not actor.get("machine", {}).get("blank", True)
    }
    return {
        "cluster": "abc123", "namespace": "mantamq", "stage": "running", "uptime_s": 4000.5,
        "brokers": list(plan(brokers).members), "members": serving, "authenticated": False,
        **figures(plan(brokers).members, serving),
        "supervisor": {"pid": 99, "host": "10.0.0.1", "name": "supervisor", "number": 1, "confirmed": True},
        "healthy": not wrong, "unhealthy": wrong, "lost": [loss.facts() for loss in lost(found)],
        "actors": found,
    }  # fmt: skip
