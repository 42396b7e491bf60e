"""Two of three brokers die with their replicas, at once: it is said what is lost, and what is left can be read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from mantamq.actors.supervisor.health import leader
from mantamq.client import MantaError, connect

SAID_S = 30.0  # two brokers and their queues' replicas start anew meanwhile


@pytest.mark.timeout(120)
@pytest.mark.hurts(for_good=True)
def test_a_lost_majority_is_named_and_the_survivor_can_be_read(cluster):
    with connect(cluster.addresses["b1"]) as connection:
        connection.declare_queue("orders")
        sender = connection.session().sender("orders")
        for number in range(100):
            sender.send(f"message {number}".encode())
        sender.sync()
    survivor = cluster.addresses["b1"]
    pids = cluster.actor_pids()
    for name, pid in pids.items():
        if name.partition(".")[0] in ("b2", "b3"):
            os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    status = cluster.status()
    while [loss["for_good"] for loss in status["lost"]] != [True]:  # each stream of its own hears of the blank voters
        assert time.monotonic() - killed < SAID_S, status["unhealthy"]
        time.sleep(0.2)
        status = cluster.status()
    assert not cluster.health()["healthy"]
    (loss,) = status["lost"]
    assert loss["here"] == ["b1"] and loss["blank"] == ["b2", "b3"] and len(loss["streams"]) == 2
    assert "only b1 still has it" in status["unhealthy"][0]

    said = _mantamq("doctor", "-b", survivor, "--json")
    assert said.returncode == 1
    assert "lost for good" in next(f for f in json.loads(said.stdout) if f["what"] == "majority")["text"]

    leading = leader(cluster.report().actors)
    assert leading is not None
    os.kill(
        cluster.actor_pids()[leading.name], signal.SIGKILL
    )  # now nobody leads, and nobody can: the survivor's lease ends
    _until_refused(survivor)
    read = _mantamq("receive", "orders", "--browse", "--rescue", "-b", survivor)
    assert read.returncode == 0, read.stderr
    assert read.stdout.split("\n")[:-1] == [f"message {number}" for number in range(100)]
    assert "only b1 still has it" in cluster.status()["unhealthy"][0]


def _until_refused(address: str) -> None:
    until = time.monotonic() + SAID_S
    while True:
        try:
            connect(address, timeout=2, reconnect_s=0).close()
        except MantaError:
            return
        assert time.monotonic() < until, "it still takes clients without a majority"
        time.sleep(0.2)


def _mantamq(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mantamq.client.cli.app", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
