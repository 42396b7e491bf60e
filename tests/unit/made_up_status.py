"""Small clusters that never ran, as `Supervisor.report` would tell of them."""

from __future__ import annotations

from typing import Any

from mantamq.actors.supervisor.health import complaints, lost
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.reasons import texts
from mantamq.protocol.status.cluster import ClusterStatus, SupervisorStatus
from mantamq.protocol.status.machines import (
    BrokerStatus,
    DutyStatus,
    OfficeStatus,
    OwnershipStatus,
    QueueStatus,
    SequencerStatus,
    StreamStatus,
    TapStatus,
)
from mantamq.protocol.status.members import KIND_OF_ROLE, AnyMember, BrokerMember
from mantamq.protocol.status.stores import StoreLogStatus, StoreStatus
from msgspec import UNSET

ORDERS = "orders#4"


def plan(brokers: int = 3) -> Plan:
    return Plan.of(brokers)


def stream(members: list[str], **changes: Any) -> StreamStatus:
    values: dict[str, Any] = {
        "end": 1000, "commit": 1000, "ready": True, "voters": list(members), "lag": dict.fromkeys(members, 0), "blank": [], "missing": [], "changing": [],
    }  # fmt: skip
    return StreamStatus(**values | changes)


def sequencer(members: list[str], **changes: Any) -> SequencerStatus:
    """One that stands by."""
    values: dict[str, Any] = {
        "ballot": [0, 0], "role": "standby", "members": members, "leaving": [], "out": {}, "absent": [], "seq": 0,
        "flow_stopped": False, "flow_stopped_count": 0, "flow": {}, "waiting": [],
        "duty": DutyStatus(name="ownership", turn=0, silent_ms=120), "streams": {},
    }  # fmt: skip
    return SequencerStatus(**values | changes)


def broker(members: list[str], name: str = "b1", **changes: Any) -> BrokerStatus:
    values: dict[str, Any] = {
        "broker": name, "members": {}, "connections": 0, "queues": 1, "inc": 0, "blank": False, "voters": list(members),
        "leaving": False, "left": [], "cut_off": False, "wiring_index": 1000, "uncommitted_bytes": 0,
        "withheld_bytes": 0, "unconfirmed_ms": 0, "waiting": [], "waiting_more": 0, "waiting_by": "",
        "waiting_role": "", "waiting_heard_ms": 0, "leader_silent_ms": 0, "sequencers": ["sequencer2"],
        "supervisor": OfficeStatus(name="supervisor", number=1), "flow_stopped": False, "flow_stopped_count": 0,
        "flow": {}, "condemned": [], "ballot": [2, 7], "leader": "sequencer2", "attached": True,
        "replicas": {f"{name}.r0": [ORDERS], f"{name}.r1": []}, "homeless": [],
    }  # fmt: skip
    return BrokerStatus(**values | changes)


def queue(**changes: Any) -> QueueStatus:
    counts: dict[str, Any] = dict.fromkeys(QueueStatus.__struct_fields__, 0)
    names: dict[str, Any] = {
        "owner": "b1",
        "blank": False,
        "update": None,
        "replica": "b1.r0",
        "durable": False,
        "flow_stopped": False,
        "dissolved": [],
        "absent": [],
    }
    return QueueStatus(**counts | names | changes)


def tap(**changes: Any) -> TapStatus:
    values: dict[str, Any] = {
        "streams": 2, "untold": [], "events": 1000, "dropped": 0, "directory": "/e/abc123", "rows": 1200,
    }  # fmt: skip
    return TapStatus(**values | changes)


def store(name: str = "b1.store", **changes: Any) -> StoreStatus:
    log: dict[str, Any] = {
        "base": 4096, "end": 1 << 20, "live_bytes": 5 << 20, "streams": 1, "unowned": [], "hurt": [], "damage": [],
        "used_bytes": 32 << 20, "spare_bytes": 32 << 20, "oldest_us": 1_764_000_000_000_000,
    }  # fmt: skip
    values: dict[str, Any] = {
        "name": name, "promised": [2, 7], "groups": 1000, "waiting": 0, "left_bytes": 40 << 30, "pressed": False,
        "logs": {"tx": StoreLogStatus(**log), "messages": StoreLogStatus(**log)}, "full": False,
        "folder": f"/data/{name.partition('.')[0]}", "state": "dirty", "flushes_per_s": 812.3, "flush_p99_ms": 1.45,
    }  # fmt: skip
    return StoreStatus(**values | changes)


def add_stores(found: list[AnyMember]) -> None:
    """Each broker has one."""
    for name in [actor.name for actor in found if actor.role == "BrokerNode"]:
        place = {"pid": 900, "node": "node0", "host": "10.0.0.0", "loop": "uvloop"}
        found.append(member(f"{name}.store", "StoreNode", machine=store(f"{name}.store"), **place))


def member(name: str, role: str, **values: Any) -> AnyMember:
    return KIND_OF_ROLE[role](name=name, role=role, **values)


def actors(brokers: int = 3, nodes: int = 1) -> list[AnyMember]:
    """All actors of a healthy cluster with one queue, on `nodes` Ray nodes."""
    members = list(plan(brokers).members)
    found: list[AnyMember] = []

    def add(name: str, role: str, machine: Any, index: int = 0, **more: Any) -> None:
        node = f"node{index % nodes}"
        place: dict[str, Any] = {
            "pid": 100 + len(found), "node": node, "host": f"10.0.0.{index % nodes}", "loop": "uvloop",
        }  # fmt: skip
        found.append(member(name, role, version="1.2", machine=machine, **{"clients": 0, **place, **more}))

    streams = {"cluster": stream(members), ORDERS: stream(members)}
    add("sequencer2", "Sequencer", sequencer(members, ballot=[2, 7], role="leading", seq=2000, streams=streams))
    add("sequencer3", "Sequencer", sequencer(members), brokers - 1)
    for index, name in enumerate(("ownership", "ownership2")):
        add(name, "Ownership", {ORDERS: OwnershipStatus(owner="b1", grant=3, interested=members[:2])}, index)
    for index, name in enumerate(members):
        add(
            name, "BrokerNode", broker(members, name), index, address=f"10.0.0.{index % nodes}:{5000 + index}",
            clients=index,
        )  # fmt: skip
        add(f"{name}.r0", "QueueReplica", {ORDERS: queue(messages=12, applied=1000 - index)}, index)
        add(f"{name}.r1", "QueueReplica", {}, index)
    return found


def named(found: list[AnyMember], name: str) -> AnyMember:
    return next(actor for actor in found if actor.name == name)


def machine(found: list[AnyMember], name: str) -> Any:
    return named(found, name).machine


def alter(status: Any, **values: Any) -> None:
    for name, value in values.items():
        setattr(status, name, value)


def silence(found: list[AnyMember], name: str) -> None:
    """It does not answer any more."""
    actor = named(found, name)
    actor.alive, actor.error = False, f"{name} did not answer status within 3 s"
    actor.machine = actor.clients = UNSET


def report(found: list[AnyMember], brokers: int = 3) -> ClusterStatus:
    """As `Supervisor.report`."""
    wrong = complaints(plan(brokers), found)
    serving = {
        actor.name: actor.address
        for actor in found
        if isinstance(actor, BrokerMember) and actor.machine and not actor.machine.blank
    }
    return ClusterStatus(
        cluster="abc123", namespace="mantamq", stage="running", uptime_s=4000.5,
        brokers=list(plan(brokers).members), members=serving, brokers_in_cluster=brokers,
        brokers_taking_clients=len(serving), authenticated=False,
        supervisor=SupervisorStatus(pid=99, host="10.0.0.1", name="supervisor", number=1),
        healthy=not wrong, unhealthy=texts(wrong), lost=[loss.report() for loss in lost(found)],
        alerts=[reason.alert() for reason in wrong], actors=found,
    )  # fmt: skip
