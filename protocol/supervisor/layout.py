"""Where processes go, so that one host may fail: a host is an address, and may run several nodes.

brokers             one host after the other; a host with two is reported, and put right when there is a better place
sequencers          the two on different hosts, and none beside the supervisor if there are three
Ownership           beside neither the supervisor nor the sequencer that leads, as far as there are hosts; the second on
                    another host than the first, and not beside that sequencer either

Functions of the present places: at the start (`layout`), when a process is replaced (`for_sequencer`, `for_ownership`,
`for_broker`), and when a better place has come (`astray`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """A Ray node that is alive. `id` is Ray's; `host` its IP address."""

    id: str
    host: str
    resources: dict[str, float] = field(default_factory=dict)


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
    """Nodes ordered so that hosts take turns; a host's second node comes when each host has had its first."""
    seen: Counter[str] = Counter()
    keyed: list[tuple[int, Node]] = []
    for node in nodes:
        keyed.append((seen[node.host], node))
        seen[node.host] += 1
    return [node for _, node in sorted(keyed, key=lambda pair: pair[0])]


def layout(members: Sequence[str], nodes: Sequence[Node], supervisor: str = "") -> Layout:
    """The places of all processes at the start.

    Args:
        nodes: the nodes that may carry brokers, at least one.
        supervisor: the host of the supervisor.
    """
    turns = by_turns(nodes)
    brokers = {broker: turns[index % len(turns)] for index, broker in enumerate(members)}
    sequencer = best(turns, [supervisor])
    standby = best(turns, [sequencer.host], [supervisor])
    ownership = best(turns, [supervisor, sequencer.host])
    return Layout(brokers, sequencer, standby, ownership, best(turns, [ownership.host], [sequencer.host]))


def best(nodes: Sequence[Node], *shunned: Sequence[str]) -> Node:
    """The first node on none of the shunned hosts; if there is none, the last group of hosts is allowed first."""
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
        hosts: the hosts that may carry brokers.
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


def for_sequencer(nodes: Iterable[Node], others: Sequence[str]) -> Node:
    """The node for a new standby.

    Args:
        nodes: the nodes that may carry brokers, and answer; at least one.
        others: the hosts of the sequencers that are left.
    """
    return best(by_turns(nodes), others)


def for_ownership(nodes: Iterable[Node], before: str, others: Sequence[str]) -> Node:
    """The node for an Ownership: where it was, but not on the host of the other Ownership.

    Args:
        before: the node where it was.
        others: the host of the other Ownership.
    """
    turns = by_turns(nodes)
    same = [node for node in turns if node.id == before and node.host not in others]
    return same[0] if same else best(turns, others)


def for_broker(nodes: Sequence[Node], before: str, brokers: Iterable[tuple[str, str]]) -> Node:
    """The node for a broker that is started again: where it was, else as for one more.

    Args:
        before: the node where it was.
        brokers: as in `emptiest`.
    """
    same = [node for node in nodes if node.id == before]
    return same[0] if same else emptiest(nodes, brokers)


def astray(
    sequencers: Mapping[str, str], ownerships: Mapping[str, str], brokers: Mapping[str, str], hosts: Iterable[str],
    leading: str = "", duty: str = "",
) -> tuple[str, str] | None:  # fmt: skip
    """The first process to move to a better place, and the host: "" for any other than that of its fellow, when it is
    replaced. None when all are spread as well as can be.

    Args:
        sequencers, ownerships, brokers: name -> its host.
        hosts: the hosts that may carry brokers, and answer.
        leading, duty: the sequencer that leads and the Ownership on duty, which stay; "" while that is not known.
    """
    there = set(hosts)
    for names, stays in ((sequencers, leading), (ownerships, duty)):
        used = set(names.values())
        if len(names) > 1 and len(used) == 1 and there - used:
            return next(name for name in names if name != stays), ""
    return uneven(brokers, sorted(there)) if there else None
