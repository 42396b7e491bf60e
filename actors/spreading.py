"""Where actors go, so that one host may fail: a host is an address, and may run several Ray nodes. Pure.

brokers             one host after the other; a host with two is said, and put right when there is a better place
sequencers          the two on different hosts, and none beside the supervisor if there are three
Ownership           beside neither the supervisor nor the sequencer that leads, as far as there are hosts; the second on
                    another host than the first, and not beside that sequencer either
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .book import Plan
from .health import leader, quorum_critical
from .placement import Node

Actor = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """Where a cluster's actors begin.

    Attributes:
        brokers: broker -> its node, and its replicas'.
        sequencer, standby, ownership, ownership2: their nodes.
    """

    brokers: dict[str, Node]
    sequencer: Node
    standby: Node
    ownership: Node
    ownership2: Node


def by_turns(nodes: Iterable[Node]) -> list[Node]:
    """Nodes so ordered that hosts take turns; a host's second node comes when each has had its first."""
    seen: Counter[str] = Counter()
    keyed: list[tuple[int, Node]] = []
    for node in nodes:
        keyed.append((seen[node.host], node))
        seen[node.host] += 1
    return [node for _, node in sorted(keyed, key=lambda pair: pair[0])]


def layout(members: Sequence[str], nodes: Sequence[Node], supervisor: str = "") -> Layout:
    """Where everything goes at the start.

    Args:
        nodes: those that may carry brokers, at least one.
        supervisor: the host of the supervisor.
    """
    turns = by_turns(nodes)
    brokers = {broker: turns[index % len(turns)] for index, broker in enumerate(members)}
    sequencer = best(turns, [supervisor])
    standby = best(turns, [sequencer.host], [supervisor])
    ownership = best(turns, [supervisor, sequencer.host])
    return Layout(brokers, sequencer, standby, ownership, best(turns, [ownership.host], [sequencer.host]))


def best(nodes: Sequence[Node], *shunned: Sequence[str]) -> Node:
    """The first node on none of the shunned hosts; if there is none, what is shunned last is put up with first."""
    for count in range(len(shunned), -1, -1):
        hosts = {host for group in shunned[:count] for host in group}
        for node in nodes:
            if node.host not in hosts:
                return node
    return nodes[0]


def emptiest(nodes: Sequence[Node], brokers: Iterable[tuple[str, str]]) -> Node:
    """The node for one more broker: on the host with the fewest, there on the node with the fewest.

    Args:
        brokers: Ray node and host of each broker.
    """
    placed = list(brokers)
    hosts, ids = Counter(host for _, host in placed), Counter(node for node, _ in placed)
    return min(nodes, key=lambda node: (hosts[node.host], ids[node.id]))


def uneven(brokers: Mapping[str, str], hosts: Iterable[str]) -> tuple[str, str] | None:
    """A broker to move and the host it should go to; None when brokers are spread as evenly as can be.

    Args:
        brokers: broker -> its host.
        hosts: those that may carry brokers.
    """
    counts = Counter(dict.fromkeys(hosts, 0))
    if not counts:
        return None
    there = Counter(brokers.values())
    empty = min(counts, key=lambda host: there[host])
    full = max(there, key=lambda host: there[host], default=empty)
    if there[full] - there[empty] < 2:
        return None
    return max(broker for broker, host in brokers.items() if host == full), empty


def on_host(actors: list[Actor], host: str) -> list[str]:
    """The brokers on a host."""
    return [actor["name"] for actor in actors if actor["role"] == "BrokerNode" and actor["host"] == host]


def frail(plan: Plan, actors: list[Actor], hosts: int = 0) -> list[str]:
    """Why one host may not fail now: for each such host, what it carries. None when any one may, and none for a cluster
    that was begun on a single host and has no other.

    Args:
        actors: as in `Supervisor.status`.
        hosts: how many Ray has now that may carry brokers; 0 when that is not known.
    """
    used = sorted({actor["host"] for actor in actors if actor["role"] == "BrokerNode"})
    if len(plan.members) < 2 or max(len(used), plan.hosts, hosts) < 2:
        return []
    found: list[str] = []
    for host in used:
        brokers = on_host(actors, host)
        why: list[str] = []
        if len(brokers) > 1 and len(plan.members) > 2 and 2 * (len(plan.members) - len(brokers)) <= len(plan.members):
            majority = len(plan.members) // 2 + 1
            why.append(f"it carries {_and(brokers)}, and a majority of the brokers is {majority}")
        sequencers = [a for a in actors if a["role"] == "Sequencer" and a.get("alive")]
        if len(sequencers) > 1 and {a["host"] for a in sequencers} == {host}:
            why.append(f"it carries every sequencer ({_and([a['name'] for a in sequencers])})")
        if why:
            found.append(f"host {host} may not fail now, since {'; '.join(why)}")
    return found


def critical_hosts(plan: Plan, actors: list[Actor]) -> dict[str, dict[str, Any]]:
    """Host -> the brokers it carries, and what would stop if all of them did, as `Supervisor.quorum_critical`."""
    answers: dict[str, dict[str, Any]] = {}
    hosts = sorted({actor["host"] for actor in actors if actor["role"] == "BrokerNode"})
    for host in hosts if len(hosts) > 1 else ():
        brokers = on_host(actors, host)
        reasons = quorum_critical(plan, actors, *brokers)
        leading = leader(actors)
        others = [a for a in actors if a["role"] == "Sequencer" and a.get("alive") and a["host"] != host]
        if not reasons and leading is not None and leading["host"] == host and not others:
            reasons = ["every sequencer would be gone: nothing completes until others have been started"]
        answers[f"host {host}"] = {"together": brokers, "reasons": reasons}
    return answers


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
