"""Brokers on several Ray nodes."""

from __future__ import annotations

import pytest
from mantamq.actors.cluster import start_cluster
from mantamq.actors.ray_control.local_ray import wait_gone

from tests.cluster.ray_nodes import RayNodes
from tests.cluster.shared import ray_children
from tests.cluster.wire import RawClient


@pytest.mark.timeout(120)
def test_each_node_carries_a_broker() -> None:
    with RayNodes(3) as nodes:
        with start_cluster(brokers=3, address="auto") as cluster:
            assert sorted(cluster.broker_nodes().values()) == sorted(nodes.ids)
            where = {actor["name"]: actor["node"] for actor in cluster.status()["actors"]}
            assert all(where[name] == where[name.split(".")[0]] for name in where if ".r" in name)
            pids = list(cluster.actor_pids().values())
            with RawClient(cluster.addresses["b1"]) as one, RawClient(cluster.addresses["b2"]) as two:
                one.command("declare_queue", name="far")
                one.send("far", [b"hello"])
                assert two.receive("far", 1) == [(b"hello", 0)]
        assert wait_gone(pids, 5) == []
    assert ray_children() == []


@pytest.mark.timeout(120)
def test_nodes_that_offer_the_resource_carry_the_brokers_and_their_actors_die_with_them() -> None:
    with (
        RayNodes(2, resources={"manta_broker": 1}) as nodes,
        start_cluster(brokers=2, spares=1, address="auto") as cluster,
    ):
        assert set(cluster.broker_nodes().values()) == {nodes.ids[1]}
        where = {actor["name"]: actor["node"] for actor in cluster.status()["actors"]}
        assert set(where.values()) == {nodes.ids[1]}
        pids = list(cluster.actor_pids().values())
        nodes.kill(1)
        assert wait_gone(pids, 10) == []
    assert ray_children() == []
