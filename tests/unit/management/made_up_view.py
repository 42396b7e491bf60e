"""Views of clusters that never ran, as a watcher would have fed them."""

from __future__ import annotations

import math
from typing import Any

from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.status.machines import BehindStatus, UpdateStatus

from .. import made_up_status as made

NOW_S = 1_764_000_000.0
HOSTILE = (
    "<script>alert(1)</script>", "x" * 250, "\u202eשלום مرحبا", "quotes \" and ' and `", "a/b", "/", "..", "../../etc",
    "%2F", "a%2Fb?c=d&e#f", "<b>", "{{ 7 * 7 }}", " ", "naïve – 队列 🐟",
)  # fmt: skip
"""Names that a careless page opens wrongly, or runs."""


def queue_row(name: str, look: int = 0, **values: Any) -> dict[str, Any]:
    """As `Connection.statistics` describes a queue."""
    number = sum(name.encode()) % 97
    enqueued = look * (20 + number * 9) if number % 4 else 0
    depth = int(number * 13 * (1.2 + math.sin(look / 9 + number))) if number % 4 else 0
    plain: dict[str, Any] = {
        "id": f"{name}#{number}", "name": name, "durable": number % 2 == 0, "kind": "plain", "alternate": "",
        "arguments": {}, "definition": {"max_count": 100_000, "flow_stop_count": 50_000, "flow_resume_count": 25_000},
        "messages": depth, "available": depth - depth // 5, "acquired": depth // 5, "delayed": 0, "bytes": depth * 512,
        "enqueued": enqueued, "dequeued": max(0, enqueued - depth), "accepted": max(0, enqueued - depth),
        "acquires": enqueued, "releases": look // 4, "discarded": 0, "dead_lettered": 0, "expired": 0,
        "age_ms": depth * 11, "owner": f"b{number % 3 + 1}", "grant": number, "handovers": number,
        "consumers": 1 + number % 6, "consumers_at": {"b1": 1, "b2": number % 6}, "bindings": 1, "held_by": {"b1": depth // 5},
        "flowStopped": False, "flowStoppedCount": 0,
    }  # fmt: skip
    return plain | values


def _receiver(client: str, at: int, look: int, queue: str) -> dict[str, Any]:
    return {
        "broker": f"b{at % 3 + 1}", "client": client, "handle": 2, "role": "receiver", "queue": queue, "mode": "consume",
        "accept": True, "priority": 0, "selector": "", "alone": False, "waits": False, "credit": 100 * at,
        "delivered": look * at * 30,
    }  # fmt: skip


def _sender(client: str, at: int, look: int, key: str | None) -> dict[str, Any]:
    return {
        "broker": f"b{at % 3 + 1}", "client": client, "handle": 1, "role": "sender",
        "exchange": "events" if key is None else "", "key": key, "sender": "", "mandatory": False, "sent": look * at * 40,
    }  # fmt: skip


def statistics(look: int, queues: int, names: tuple[str, ...]) -> dict[str, Any]:
    domains = ("orders", "payments", "mail", "invoices", "search", "audit", "stock", "shipping")
    rows = [queue_row(f"{domains[at % 8]}.{at // 8:04d}", look) for at in range(queues)]
    rows += [queue_row(name, look, owner="") for name in names]
    wave = int(6000 * math.sin((look - 1) * math.tau / 60))
    held = {"flowStopped": True, "flowStoppedCount": 3, "messages": 50_412 + wave, "available": 40_330 + wave}
    held |= {"acquired": 10_082, "held_by": {"b1": 6_041, "b2": 4_041}, "bytes": (50_412 + wave) * 512}
    orders = queue_row(
        "orders", look, id=made.ORDERS, owner=f"b{look // 20 % 2 + 1}", handovers=40 + look // 20, kind="groups",
        groups=[{"group": f"customer {at}", "held": 9 - at, "owner": f"b{at % 3 + 1}"} for at in range(5)],
        policy="defaults", policy_definition={"max_count": 100_000}, **held,
    )  # fmt: skip
    connections = [
        {"broker": f"b{at % 3 + 1}", "client": f"c{at}", "senders": at % 3, "receivers": 1, "sent": look * at * 40,
         "credit": 100 * at, "state": "running", "held_back_by": [], "why": "", "minor": 12,
         "address": f"10.0.1.{at}:{50_000 + at}", "since_ms": int((NOW_S - 60 * at * at) * 1000)}
        for at in range(14)
    ]  # fmt: skip
    why = "producer flow control: 'orders' waits for its consumers"
    connections[3] |= {"state": "flow", "held_back_by": ["orders", *names[:1]], "why": why}
    connections[5] |= {"state": "blocked", "why": "b3: its disk has no room"}
    links = [_receiver(f"c{at}", at, look, ("orders", *names)[at % (1 + len(names))]) for at in range(14)]
    links += [
        _sender(f"c{at}", at, look, None if at % 2 else names[0] if names else "orders") for at in range(1, 14, 2)
    ]
    links[2] |= {"mode": "browse", "accept": False, "selector": "colour = '<b>'"}
    links[4] |= {"waits": True, "priority": 3, "alone": True}
    links[-1] |= {"sender": "<i>importer", "mandatory": True}
    exchanges = [
        {"name": name, "type": kind, "durable": True, "alternate": "unroutable" if kind == "topic" else "",
         "arguments": {}, "bindings": 4, "received": look * 900, "routed": look * 880, "unroutable": look * 20}
        for name, kind in (("", "direct"), ("events", "topic"), ("unroutable", "fanout"), *((n, "direct") for n in names))
    ]  # fmt: skip
    brokers = [
        {"broker": f"b{at}", "address": f"10.0.0.{at}:5000", "inc": 1, "connections": 5, "senders": 4, "receivers": 5,
         "received": look * 4100 * at, "unroutable": 0, "uncommitted_bytes": 4096 * at, "withheld_bytes": 0,
         "unacked": 120 * at, "locks": queues // 3, "opened": 30 + look, "closed": 25 + look, "queues_declared": queues + look,
         "queues_deleted": look}
        for at in (1, 2, 3)
    ]  # fmt: skip
    groups = [{"queue": "orders", **group} for group in orders["groups"]]
    groups += [{"queue": name, "group": name, "held": 1, "owner": "b1"} for name in names]
    return {
        "queues": [*rows, orders], "exchanges": exchanges, "brokers": brokers, "connections": connections,
        "links": links, "groups": groups, "silent": [],
    }  # fmt: skip


def made_up_view(
    queues: int = 40, looks: int = 2, names: tuple[str, ...] = (), ill: bool = True, now_s: float = NOW_S
) -> ManagementView:
    """A cluster of three brokers, seen each second.

    Args:
        names: of queues, exchanges and groups that there are besides.
        ill: a replica is missing, another behind, flow control is on, and b3 does not answer.
    """
    found = made.actors(nodes=3)
    made.add_stores(found)
    leader = made.machine(found, "sequencer2")
    rows = statistics(0, queues, names)["queues"]
    leader.streams |= {row["id"]: made.stream(["b1", "b2", "b3"]) for row in rows}
    for at, name in enumerate(("b1", "b2", "b3")):
        made.alter(made.machine(found, name), memory_bytes=(310 + at * 24) << 20, memory_limit_bytes=2 << 30)
    if ill:
        ids = [made.ORDERS, *(row["id"] for row in rows)]
        made.alter(leader.streams[ids[0]], lag={"b1": 0, "b2": 412}, missing=["b3"])
        made.alter(leader.streams[ids[1]], lag={"b1": 0, "b2": 3, "b3": 0})
        made.alter(leader.streams[ids[2]], blank=["b3"], voters=["b1", "b2"])
        update = UpdateStatus(messages=4100, depth=9000, began_ms=int(now_s * 1000) - 4000, ended_ms=0)
        made.machine(found, "b3.r0")[ids[2]] = made.queue(messages=4100, blank=True, update=update)
        for broker, messages in (("b1", 50_412), ("b2", 50_000)):
            made.machine(found, f"{broker}.r0")[made.ORDERS].messages = messages
        made.alter(leader, flow_stopped=True, flow_stopped_count=2)
        leader.flow["b2"] = BehindStatus(reason="b2 is 412 entries behind", for_ms=1800)
        made.silence(found, "ownership2")
    status = made.report(found)
    if ill:
        status.warnings.append("b2.store: 8 % of its disk is left")
    view = ManagementView()
    for look in range(looks):
        time_s = now_s - looks + look
        view.take(Sample(float(look + 1), time_s, status, statistics(look, queues, names)))
    return view
