"""How many of a broker's queue replica processes keep queues."""

from __future__ import annotations

import pytest
from mantamq.actors.ray_control.placement import BROKER_RESOURCE, queue_actors
from mantamq.protocol.supervisor.layout import Node


def node(cores: float, brokers: bool = False) -> Node:
    return Node(f"n{cores}", "host", {"CPU": cores} | ({BROKER_RESOURCE: 1.0} if brokers else {}))


@pytest.mark.parametrize(
    "brokers, nodes, most",
    [
        (3, [node(2)], 1),  # three brokers share two cores
        (3, [node(1)], 1),
        (3, [node(16)], 10),
        (3, [node(8), node(8), node(8)], 16),
        (4, [node(8), node(4), node(8)], 4),  # two on one node, perhaps the small one
        (3, [node(64), node(8, True), node(8, True), node(8, True)], 16),  # the head carries none
        (1, [], 2),
    ],
)
def test_twice_the_cores_a_broker_has_to_itself(brokers: int, nodes: list[Node], most: int) -> None:
    assert queue_actors(brokers, nodes) == most
