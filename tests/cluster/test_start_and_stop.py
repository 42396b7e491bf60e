"""A cluster starts, tells about itself, and ends without a trace."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import ray
from mantamq.actors.cluster import Cluster, find_cluster, start_cluster
from mantamq.actors.ray_control.local_ray import wait_gone
from mantamq.client import Unauthorized, connect
from mantamq.protocol.errors import LocalError

from tests.cluster.shared import ray_children
from tests.cluster.wire import RawClient


def test_it_starts_works_and_leaves_no_process() -> None:
    told: list[str] = []
    with start_cluster(brokers=3, token="open sesame", progress=told.append) as cluster:
        assert sorted(cluster.addresses) == ["b1", "b2", "b3"]
        assert cluster.nearest() in cluster.addresses.values()
        pids = cluster.actor_pids()
        assert sorted(pids) == sorted(
            [
                "supervisor",
                "sequencer",
                "sequencer2",
                "ownership",
                "ownership2",
                *(f"b{b}{r}" for b in (1, 2, 3) for r in ("", ".r0", ".r1")),
            ]
        )
        assert all(psutil.Process(pid).nice() == 0 for pid in pids.values())
        if hasattr(os, "SCHED_IDLE"):
            children = psutil.Process().children(recursive=True)
            assert sorted(found for child in children if (found := gives_way(child))) == ["agent", "log monitor"]

        with pytest.raises(Unauthorized):
            connect(cluster.nearest(), token="wrong")
        with connect(cluster.nearest(), token="open sesame") as connection:
            assert connection.members == cluster.addresses
        with (
            RawClient(cluster.addresses["b1"], cluster.token) as one,
            RawClient(cluster.addresses["b3"], cluster.token) as two,
        ):
            assert one.opened is not None and one.opened.members == cluster.addresses
            one.command("declare_queue", name="orders")
            one.send("orders", [b"a", b"b"])
            assert two.receive("orders", 2) == [(b"a", 0), (b"b", 0)]

            status = cluster.status()
            assert [actor for actor in status["actors"] if not actor["alive"] or "error" in actor] == []
            assert {actor["loop"] for actor in status["actors"]} == {"uvloop"}
            assert status["members"] == cluster.addresses

            assert whole(cluster) == []
            assert {b: found["reasons"] for b, found in cluster.quorum_critical().items()} == {
                "b1": [],
                "b2": [],
                "b3": [],
            }
            together = cluster.quorum_critical("b2", whole_node=True)["b2"]  # all brokers are on one node here
            assert together["together"] == ["b1", "b2", "b3"] and len(together["reasons"]) == 1

        assert find_cluster().addresses == cluster.addresses
        with pytest.raises(LocalError, match="runs in the Ray namespace"):
            start_cluster()
        ports = [int(address.rsplit(":", 1)[1]) for address in cluster.addresses.values()]
    assert told
    assert wait_gone(list(pids.values()), 5) == []
    assert not ray.is_initialized()
    assert ray_children() == []
    for port in ports:
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), 1)


BY_ITSELF = """
from mantamq.actors.cluster import start_cluster
with start_cluster(brokers=3, data={data!r}, management=0) as cluster:
    cluster.status()
"""
EMBEDDED = """
from mantamq.client import connect
with connect("local", brokers=3) as connection:
    connection.declare_queue("orders")
"""


@pytest.mark.parametrize("program", [BY_ITSELF, EMBEDDED])
def test_a_program_that_stops_its_cluster_hears_of_no_death(program: str, tmp_path: Path) -> None:
    """Ray tells a terminal of every process that ends without a word as of one that ran out of memory."""
    command = [sys.executable, "-c", program.format(data=str(tmp_path / "data"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "died" not in done.stderr and "unexpected system error" not in done.stderr


def gives_way(process: psutil.Process) -> str:
    """What of Ray's it is, if it runs only when nobody else wants the processor, with all its threads."""
    threads = {os.sched_getscheduler(int(path.name)) for path in Path(f"/proc/{process.pid}/task").iterdir()}
    if os.SCHED_IDLE not in threads:
        return ""
    assert threads == {os.SCHED_IDLE}
    names = {"DashboardAgent": "agent", "log_monitor.py": "log monitor"}
    said = " ".join(process.cmdline()[:4])
    return next((name for word, name in names.items() if word in said), said)


def whole(cluster: Cluster) -> list[str]:
    """What is still wrong when the warm replicas of a declare have had time to start."""
    until = time.monotonic() + 20
    while (wrong := cluster.health()["unhealthy"]) and time.monotonic() < until:
        time.sleep(0.05)
    return wrong


def test_a_spare_is_refilled_up_to_the_limit() -> None:
    with start_cluster(brokers=1, spares=1, queue_actors_max=2) as cluster, RawClient(cluster.nearest()) as client:
        for number in range(4):
            client.command("declare_queue", name=f"q{number}")
            client.send(f"q{number}", [b"x"], handle=number)
        hosts: dict[str, list[str]] = {}
        while len(hosts) < 2:  # the second process takes a moment; queues declared meanwhile share the first
            [broker] = [actor for actor in cluster.status()["actors"] if actor["name"] == "b1"]
            hosts = broker["machine"]["replicas"]
        client.command("declare_queue", name="late")
        client.send("late", [b"x"], handle=9)
        [broker] = [actor for actor in cluster.status()["actors"] if actor["name"] == "b1"]
        assert [id.split("#")[0] for id in broker["machine"]["replicas"]["b1.r1"]] == ["late"]
        assert sorted(cluster.actor_pids()) == [
            "b1",
            "b1.r0",
            "b1.r1",
            "ownership",
            "ownership2",
            "sequencer",
            "sequencer2",
            "supervisor",
        ]


def test_wrong_wishes_are_named(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path_factory.mktemp("home")))
    with pytest.raises(LocalError, match="at least one broker"):
        start_cluster(brokers=0)
    with pytest.raises(LocalError, match="queue_actors_max"):
        start_cluster(spares=0)
    with pytest.raises(LocalError, match="mantamq up"):
        find_cluster("127.0.0.1:1")
    assert not ray.is_initialized()
