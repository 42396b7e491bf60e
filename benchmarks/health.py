"""Whether a cluster says that it is healthy, and what it lacks if not. Pure: from the values of `Cluster.status()`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def crew(status: Mapping[str, Any]) -> Counter[str]:
    """How many actors of each role are alive and answer."""
    return Counter(actor["role"] for actor in status["actors"] if actor.get("alive") and not actor.get("error"))


def unwell(status: Mapping[str, Any], wanted: Mapping[str, int]) -> list[str]:
    """What keeps this cluster from being healthy, a sentence each.

    Args:
        status: of the cluster. Its own word `healthy` (a bool) counts when it has one.
        wanted: role -> least number of actors that must be alive.
    """
    wrong: list[str] = []
    if status.get("healthy") is False:
        wrong.append(f"the cluster says it is not healthy: {status.get('unhealthy') or 'no reason given'}")
    if status["stage"] != "running":
        wrong.append(f"it is {status['stage']}")
    for actor in status["actors"]:
        if not actor.get("alive"):
            wrong.append(f"{actor['name']} is dead")
        elif actor.get("error"):
            wrong.append(f"{actor['name']} does not answer: {actor['error']}")
    found = crew(status)
    wrong += [f"{found[role]} of {least} {role} are alive" for role, least in wanted.items() if found[role] < least]
    brokers = {actor["name"] for actor in status["actors"] if actor["role"] == "BrokerNode"}
    if set(status["members"]) != brokers:
        wrong.append(f"members are {sorted(status['members'])}, brokers {sorted(brokers)}")
    return wrong
