"""What is wrong with a cluster, in words: every degraded state has its reason named."""

from __future__ import annotations

from typing import Any

from .book import Plan

Actor = dict[str, Any]


def complaints(plan: Plan, actors: list[Actor]) -> list[str]:
    """Reasons why the cluster is not whole; none when it is.

    Args:
        actors: as in `Supervisor.status`.
    """
    wrong = [f"{actor['name']} does not answer" for actor in actors if not actor.get("alive")]
    alive = [actor for actor in actors if actor.get("alive") and "machine" in actor]
    brokers = {actor["name"]: actor["machine"] for actor in alive if actor["role"] == "BrokerNode"}
    missing = [broker for broker in plan.members if broker not in brokers]
    wrong += [f"broker {broker} is not there" for broker in missing]
    if len(missing) > (plan.brokers - 1) // 2:
        wrong.append("no majority: nothing completes until more brokers are back")
    for name, machine in brokers.items():
        if machine["blank"]:
            wrong.append(f"broker {name} is joining: it has no wiring yet")
        if machine["cut_off"]:
            wrong.append(f"broker {name} is cut off from the majority and serves nobody")
        if not machine["attached"]:
            wrong.append(f"broker {name} has no sequencer to ask")
        if machine["homeless"]:
            wrong.append(f"broker {name} has no replica for {len(machine['homeless'])} queues")
    leaders = [actor for actor in alive if actor["role"] == "Sequencer" and actor["machine"]["standing"] == "leading"]
    standbys = [actor for actor in alive if actor["role"] == "Sequencer" and actor["machine"]["standing"] == "standby"]
    if not leaders:
        wrong.append("no sequencer leads: nothing completes until one does")
    if not standbys:
        wrong.append("no standby sequencer: the death of the one that leads would take longer to heal")
    if not any(actor["role"] == "Ownership" for actor in alive):
        wrong.append("no Ownership: consume locks do not move")
    for leader in leaders[:1]:
        wrong += _streams(leader["machine"])
    return wrong


def _streams(machine: dict[str, Any]) -> list[str]:
    wrong = [f"broker {broker} is evicted" for broker in machine["absent"]]
    for name, stream in machine["streams"].items():
        if not stream["ready"]:
            wrong.append(f"{name}: its log has not been recovered yet")
        if stream["blank"]:
            wrong.append(f"{name}: the replica at {', '.join(stream['blank'])} is being brought up to date")
        if stream["missing"]:
            wrong.append(f"{name}: no replica at {', '.join(stream['missing'])}")
    return wrong


def quorum_critical(plan: Plan, actors: list[Actor], broker: str) -> list[str]:
    """Why stopping `broker` now would stop something from completing; none when it may be stopped."""
    leader = next(
        (a["machine"] for a in actors if a.get("alive") and a["role"] == "Sequencer" and _leads(a)), None
    )  # fmt: skip
    if leader is None:
        return ["no sequencer leads now: wait until one does"]
    majority = plan.brokers // 2 + 1
    wrong: list[str] = []
    for name, stream in leader["streams"].items():
        gone = {broker, *stream["blank"], *stream["missing"]}
        left = [member for member in plan.members if member not in gone]
        if len(left) < majority:
            wrong.append(f"{name}: only {', '.join(left) or 'nobody'} would be left, a majority is {majority}")
    return wrong


def _leads(actor: Actor) -> bool:
    return actor.get("machine", {}).get("standing") == "leading"
