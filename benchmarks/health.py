"""Whether a cluster says that it is healthy, and what it lacks if not. Pure: from its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..protocol.status.cluster import ClusterStatus


def crew(status: ClusterStatus) -> Counter[str]:
    """How many actors of each role are alive and answer."""
    return Counter(actor.role for actor in status.actors if actor.alive and not actor.error)


def unwell(status: ClusterStatus, wanted: Mapping[str, int]) -> list[str]:
    """What keeps this cluster from being healthy, a sentence each.

    Args:
        status: of the cluster. Its own word `healthy` counts.
        wanted: role -> least number of actors that must be alive.
    """
    wrong: list[str] = []
    if not status.healthy:
        wrong.append(f"the cluster says it is not healthy: {status.unhealthy or 'no reason given'}")
    if status.stage != "running":
        wrong.append(f"it is {status.stage}")
    for actor in status.actors:
        if not actor.alive:
            wrong.append(f"{actor.name} is dead")
        elif actor.error:
            wrong.append(f"{actor.name} does not answer: {actor.error}")
    found = crew(status)
    wrong += [f"{found[role]} of {least} {role} are alive" for role, least in wanted.items() if found[role] < least]
    brokers = {actor.name for actor in status.actors if actor.role == "BrokerNode"}
    if set(status.members) != brokers:
        wrong.append(f"members are {sorted(status.members)}, brokers {sorted(brokers)}")
    return wrong
