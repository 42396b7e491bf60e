"""What a page shows that is in several tables of the view, brought together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from ...protocol.status.members import BrokerMember, StoreMember
from ..view import ManagementView, Row

IN_STEP = "in step"


def health_of(view: ManagementView) -> Row:
    """`state`: "healthy", "unhealthy" or "unknown"; what is wrong (`wrong`), what is not well though nothing is wrong
    (`warnings`), and what the view itself could not ask (`troubles`)."""
    status = view.status
    troubles = [f"The {what} of the cluster could not be asked: {why}" for what, why in view.troubles.items()]
    if view.silent:
        troubles.append(f"{', '.join(view.silent)} did not answer: what they alone know is missing")
    if status is None:
        return {"state": "unknown", "wrong": [], "warnings": [], "troubles": troubles}
    state = "healthy" if status.healthy else "unhealthy"
    return {"state": state, "wrong": status.unhealthy, "warnings": status.warnings, "troubles": troubles}


def broker_rows(view: ManagementView) -> list[Row]:
    """The brokers: their statistics, and what their actors say. One that says nothing has a row too."""
    found: dict[str, Row] = {row["broker"]: dict(row) for row in view.rows("brokers")}
    for actor in view.status.actors if view.status is not None else ():
        if not isinstance(actor, BrokerMember):
            continue
        machine = actor.machine
        row = found.setdefault(actor.name, {"broker": actor.name, "address": actor.address})
        row |= {"alive": actor.alive, "host": actor.host, "pid": actor.pid, "version": actor.version or ""}
        row |= {"links": len(actor.peers or ()), "why": actor.error or row.get("error", "")}
        if machine is not UNSET:
            row |= {"memory_bytes": machine.memory_bytes or None, "memory_limit_bytes": machine.memory_limit_bytes or 0}
            row |= {"cut_off": machine.cut_off, "leaving": machine.leaving, "leader": machine.leader}
    return [found[name] | {"state": _state(found[name])} for name in sorted(found)]


def _state(row: Mapping[str, Any]) -> str:
    if row.get("alive") is False or row.get("why"):
        return "silent"
    if row.get("cut_off"):
        return "cut off"
    return "leaving" if row.get("leaving") else "running"


def connection_rows(view: ManagementView) -> list[Row]:
    """The connections, with how long each has been there (`age_ms`), and what is searched for in it (`text`)."""
    return [connection_row(row, view.time_s) for row in view.rows("connections")]


def connection_row(row: Mapping[str, Any], now_s: float) -> Row:
    """One, as of `connection_rows`."""
    since_ms = row.get("since_ms")
    found: Row = {**row, "text": f"{row['client']} {row.get('address', '')}"}
    return found | ({"age_ms": max(0, int(now_s * 1000) - since_ms)} if since_ms else {})


def link_rows(view: ManagementView) -> list[Row]:
    """The senders and receivers in one table: `of` is the exchange or the queue, `count` and `rate` say how many
    messages came or went by it, and `text` is what is searched for."""
    found: list[Row] = []
    for row in view.links():
        of, counter = ("exchange", "sent") if row["role"] == "sender" else ("queue", "delivered")
        name, key = row.get(of, ""), row.get("key") or ""
        same: Row = {"of": name, "count": row.get(counter, 0), "rate": row["rates"].get(counter)}
        found.append(row | same | {"text": f"{row['client']} {row['role']} {name} {key}"})
    return found


def store_rows(view: ManagementView) -> list[Row]:
    """The brokers' stores on disk."""
    found: list[Row] = []
    for actor in view.status.actors if view.status is not None else ():
        if isinstance(actor, StoreMember):
            row: Row = {"name": actor.name, "alive": actor.alive, "error": actor.error or ""}
            if one := actor.machine:
                row |= {"folder": one.folder, "disk_bytes": one.disk_bytes, "live_bytes": one.live_bytes}
                row |= {"left_bytes": one.left_bytes, "flushes_per_s": one.flushes_per_s}
                row |= {"flush_p99_ms": one.flush_p99_ms, "catalog": one.catalog, "hurt": _hurt(one.logs.values())}
                row["state"] = "full" if one.full else "reserve begun" if one.pressed else "room"
            found.append(row)
    return found


def _hurt(logs: Iterable[Any]) -> list[str]:
    return sorted({stream for log in logs for stream in log.hurt})


def replicas_by_queue(view: ManagementView) -> tuple[list[Row], list[str], dict[str, int]]:
    """A row for each queue: `name`, `at` (broker -> its replica) and `wrong`, the number of replicas that are not in
    step; the brokers that have any; and state -> number of replicas."""
    rows: dict[str, Row] = {}
    states: Counter[str] = Counter()
    brokers: set[str] = set()
    for replica in view.replicas():
        key = replica["id"]
        row = rows.setdefault(key, {"id": key, "name": replica["queue"] or key, "at": {}, "wrong": 0, "known": False})
        row["at"][replica["broker"]] = replica
        row["wrong"] += replica["state"] != IN_STEP
        row["known"] = bool(replica["queue"])
        states[replica["state"]] += 1
        brokers.add(replica["broker"])
    return list(rows.values()), sorted(brokers), dict(states)


def locks_by_broker(locks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Broker -> number of consume locks that it owns; "" for those that nobody owns."""
    counted = Counter(lock["owner"] or "" for lock in locks)
    return dict(sorted(counted.items()))


def settings_of(queue: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """What a queue is: name, value, and where it is from."""
    given = queue.get("policy_definition", {})
    by = ", ".join(queue[name] for name in ("policy", "operator_policy") if queue.get(name))
    found: list[tuple[str, Any, str]] = [("kind", queue.get("kind", ""), ""), ("durable", queue.get("durable"), "")]
    if queue.get("alternate"):
        found.append(("alternate", queue["alternate"], by if "alternate" in given else ""))
    for name, value in queue.get("definition", {}).items():
        found.append((name, value, by if name in given else ""))
    return found
