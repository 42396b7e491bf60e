"""A queue most of whose replicas die on a real cluster, while the cluster itself goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from mantamq.client import Connection, Lost, NotAllowed, connect

WAIT_S = 30


def replicas_of(cluster: Any, queue: str) -> dict[str, str]:
    """Broker -> its replica that keeps the queue."""
    found: dict[str, str] = {}
    for broker, address in cluster.addresses.items():
        with connect(address) as connection:
            for replica, ids in connection.status()["replicas"].items():
                if any(id.rpartition("#")[0] == queue for id in ids):
                    found[broker] = replica
    return found


def kill(cluster: Any, replicas: list[str]) -> None:
    pids = cluster.actor_pids()
    for replica in replicas:
        os.kill(pids[replica], signal.SIGKILL)


def fate(connection: Connection, queue: str) -> str:
    """What becomes of a queue that waits, by the broker's report; "" while it is not said to wait."""
    waiting = connection.status()["waiting"]
    return next((w["fate"] for w in waiting if w["stream"].rpartition("#")[0] == queue), "")


def until(done: Any, what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.hurts
def test_what_one_still_has_stays_until_queue_reset(cluster):
    with connect(list(cluster.addresses.values())) as connection:
        connection.declare_queue("some")
        sender = connection.session().sender("some")
        for number in range(10):
            sender.send(str(number))
        sender.sync(10)
        with pytest.raises(NotAllowed, match="has its majority"):
            connection.reset_queue("some")
        replicas = replicas_of(cluster, "some")
        assert len(replicas) == 3
        survivor, *others = replicas
        kill(cluster, [replicas[broker] for broker in others])
        until(lambda: fate(connection, "some") == "reset", "that it can never go on is said")
        with connect(cluster.addresses[survivor]) as near:
            browser = near.session().receiver("some", mode="browse")
            assert [browser.fetch(timeout=10).body for _ in range(10)] == [str(n).encode() for n in range(10)]
        command = [sys.executable, "-m", "mantamq", "queue", "reset", "some", "--broker", cluster.addresses[survivor]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        assert "queue some given up" in done.stdout
        with pytest.raises(Lost, match="'some' was lost"):
            sender.send("more")
            sender.sync(10)
        assert connection.declare_queue("some"), "its name is free"
        again = connection.session().sender("some")
        again.send("new")
        again.sync(10)


@pytest.mark.hurts
def test_what_nobody_has_is_dropped_and_its_clients_hear_it(cluster):
    with connect(list(cluster.addresses.values())) as connection:
        connection.declare_queue("none")
        sender = connection.session().sender("none")
        sender.send("gone")
        sender.sync(10)
        kill(cluster, list(replicas_of(cluster, "none").values()))
        with pytest.raises(Lost, match="'none' was lost"):
            sender.send("more")
            sender.sync(WAIT_S)
        assert "none" not in [queue["name"] for queue in connection.queues()]
        assert connection.declare_queue("none")
