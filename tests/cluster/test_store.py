"""Clusters with stores: every process is killed, and what was complete is there when they are started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mantamq.actors.ray_control.local_ray import wait_gone
from mantamq.client import connect

END_S = 30.0
WHOLE_S = 60.0
PROGRAM = """
import json, sys
from mantamq.actors.cluster import start_cluster

def say(value):
    print(json.dumps(value), flush=True)

cluster = start_cluster(brokers=3, spares=1, data=sys.argv[1], container_bytes=512 * 1024, reserve_bytes=0, wait_s=5.0)
say("up")
for line in sys.stdin:
    order = line.strip()
    if order == "addresses":
        say(cluster.refresh())
    elif order == "pids":
        say(cluster.actor_pids())
    elif order == "unhealthy":
        say(cluster.health()["unhealthy"])
    elif order == "stop":
        cluster.stop()
        say("stopped")
        break
"""


class Program:
    """A program with a cluster of three brokers that keeps its data in a directory."""

    def __init__(self, data: Path, log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", PROGRAM, str(data)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip
        self._log = log
        assert self._hear() == "up"

    def _hear(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line[:1] in '"[{':
                return json.loads(line)
        raise AssertionError(f"it ended: {self._log.read_text()[-3000:]}")

    def ask(self, order: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self._hear()

    @property
    def addresses(self) -> list[str]:
        return list(self.ask("addresses").values())

    def whole(self) -> None:
        until(lambda: self.ask("unhealthy") == [], lambda: f"not whole: {self.ask('unhealthy')}")

    def cut_power(self) -> None:
        """No process of it has time for a last word."""
        mine = [self.process, *psutil.Process(self.process.pid).children(recursive=True)]
        for one in mine:
            try:
                os.kill(one.pid, signal.SIGSTOP)  # none sees another die
            except ProcessLookupError:
                pass
        for one in mine:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        assert wait_gone([one.pid for one in mine], END_S) == []


def until(true: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    end = time.monotonic() + WHOLE_S
    while not true():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.1)


@contextmanager
def cluster_in(folder: Path) -> Iterator[Program]:
    one = Program(folder / "data", folder / "log")
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.cut_power()


@pytest.mark.timeout(240)
def test_the_wiring_is_there_after_a_power_cut_and_after_the_death_of_a_store(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as one:
        with connect(one.addresses) as there:
            there.declare_exchange("news", "fanout")
        one.whole()
        one.cut_power()
    with cluster_in(tmp_path) as two:
        with connect(two.addresses) as there:
            assert "news" in {exchange["name"] for exchange in there.exchanges()}
            there.declare_exchange("weather", "topic")
        two.whole()
        before = two.ask("pids")
        os.kill(before["b2.store"], signal.SIGKILL)
        until(lambda: two.ask("pids").get("b2.store", before["b2.store"]) != before["b2.store"], lambda: "not replaced")
        two.whole()
        after = two.ask("pids")
        assert {
            name.partition(".")[0] for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        } == {"b2"}
        with connect(two.ask("addresses")["b2"]) as there:
            assert {"news", "weather"} <= {exchange["name"] for exchange in there.exchanges()}
        two.cut_power()


def texts(numbers: range) -> list[bytes]:
    return [f"message {number}".encode() for number in numbers]


def kept(one: Program) -> list[bytes]:
    """What a queue holds, by each broker's word."""
    found: list[list[bytes]] = []
    for address in one.addresses:
        with connect(address) as there:
            found.append([message.body for message in there.session().browse("orders")])
    assert found[0] == found[1] == found[2]
    return found[0]


def send(one: Program, numbers: range) -> None:
    with connect(one.addresses) as there:
        sender = there.session().sender("orders")
        for text in texts(numbers):
            sender.send(text)
        sender.sync()


@pytest.mark.timeout(300)
def test_what_is_complete_is_there_and_what_was_accepted_is_not(tmp_path: Path) -> None:
    with cluster_in(tmp_path) as one:
        with connect(one.addresses) as there:
            there.declare_queue("orders", durable=True)
        send(one, range(300))
        with connect(one.addresses) as there:
            session = there.session()
            receiver = session.receiver("orders", capacity=10)
            for text in texts(range(100)):
                message = receiver.fetch(timeout=END_S)
                assert message.body == text
                session.acknowledge(message)
            session.sync()
        one.cut_power()
    with cluster_in(tmp_path) as two:
        assert kept(two) == texts(range(100, 300)), "after a power cut"
        send(two, range(300, 310))
        two.whole()
        store = two.ask("pids")["b1.store"]
        os.kill(store, signal.SIGKILL)
        until(lambda: two.ask("pids").get("b1.store", store) != store, lambda: "not replaced")
        two.whole()
        assert kept(two) == texts(range(100, 310)), "after the death of a store"
        with connect(two.addresses) as there:
            session = there.session()
            receiver = session.receiver("orders", capacity=10)
            for _ in range(210):
                session.acknowledge(receiver.fetch(timeout=END_S))
            session.sync()
        send(two, range(50))
        assert two.ask("stop") == "stopped"
        two.process.wait(END_S)
    with cluster_in(tmp_path) as three, connect(three.addresses) as there:
        receiver = there.session().receiver("orders")
        found = [receiver.fetch(timeout=END_S) for _ in range(50)]
        assert [message.body for message in found] == texts(range(50)), "after a clean stop"
        assert not [message for message in found if message.redelivered], "nobody was given any of them"
        three.cut_power()
