"""A queue replica that falls behind: memory stays flat everywhere, it is named, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from mantamq.actors.cluster import Cluster
from mantamq.client import Connection, Empty, connect

WAIT_S = 20.0
BODY_BYTES = 64 * 1024
CAPACITY = 100
SLOW_S = 7.0
"""Under the patience of a broker with its replica, and of the sequencer with a member."""
GROWTH_MIB = 220
"""What a process may grow by: what is kept for a member (64 MiB), at a keeper or sequencer once more for what is on its
way, and what the senders' capacities let come after that. Without flow control it was 2,700."""


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, f"{what}: not within {WAIT_S} s"
        time.sleep(0.01)


class Load:
    """Two senders and two receivers at work until the end of the ``with``; then everything is there.

    Attributes:
        complete: sender -> how many of its messages are complete.
        taken: the bodies' numbers that were accepted.
    """

    def __init__(self, addresses: dict[str, str]) -> None:
        self.complete = [0, 0]
        self.sent = [0, 0]
        self.taken: set[int] = set()
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._addresses = addresses
        self._threads = [
            *(threading.Thread(target=self._guarded, args=(self._send, n, f"b{n + 1}"), daemon=True) for n in (0, 1)),
            *(threading.Thread(target=self._guarded, args=(self._take, n, f"b{n + 1}"), daemon=True) for n in (0, 1)),
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def finish(self) -> None:
        """All that was sent is complete, and was taken."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * WAIT_S)
        assert not self.failures, self.failures
        assert self.taken == {2 * i + n for n in (0, 1) for i in range(self.sent[n])}, "a message was lost"

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _guarded(self, work: Callable[[Connection, int], None], number: int, broker: str) -> None:
        others = [address for name, address in self._addresses.items() if name != broker]
        try:
            with connect([self._addresses[broker], *others]) as connection:
                work(connection, number)
        except BaseException as failure:
            self.failures.append(failure)

    def _send(self, connection: Connection, number: int) -> None:
        sender = connection.session().sender("q", capacity=CAPACITY)
        while not self._stop.is_set():
            for _ in range(20):
                body = (2 * self.sent[number] + number).to_bytes(8, "big")
                sender.send(body.ljust(BODY_BYTES))
                self.sent[number] += 1
            sender.sync(2 * WAIT_S)
            self.complete[number] = self.sent[number]

    def _take(self, connection: Connection, number: int) -> None:
        session = connection.session()
        receiver = session.receiver("q", capacity=CAPACITY)
        while not (self._stop.is_set() and len(self.taken) >= sum(self.sent)):
            with contextlib.suppress(Empty):
                message = receiver.fetch(0.1)
                self.taken.add(int.from_bytes(message.body[:8], "big"))
                session.acknowledge(message)
        session.sync(WAIT_S)


class Memory(threading.Thread):
    """Samples the memory of processes. `growth`: name -> the most MiB it had above its first sample."""

    def __init__(self, pids: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self.growth = dict.fromkeys(pids, 0.0)
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._first = {name: process.memory_info().rss for name, process in self._processes.items()}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            for name, process in self._processes.items():
                with contextlib.suppress(psutil.Error):
                    grown = (process.memory_info().rss - self._first[name]) / 2**20
                    self.growth[name] = max(self.growth[name], grown)

    def stop(self) -> dict[str, float]:
        self._over.set()
        self.join(5)
        return self.growth


@contextlib.contextmanager
def slow(pid: int) -> Iterator[None]:
    """The process runs a fiftieth of the time."""
    stop = threading.Event()

    def throttle() -> None:
        with contextlib.suppress(ProcessLookupError):
            while not stop.is_set():
                os.kill(pid, signal.SIGSTOP)
                stop.wait(0.49)
                os.kill(pid, signal.SIGCONT)
                stop.wait(0.01)

    thread = threading.Thread(target=throttle, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


def replica_of(cluster: Cluster, broker: str) -> tuple[str, int]:
    """Name and pid of the replica that keeps the queue there."""
    actors = {actor["name"]: actor for actor in cluster.status()["actors"]}
    (name,) = [name for name, queues in actors[broker]["machine"]["replicas"].items() if queues]
    return name, actors[name]["pid"]


def flow_of(connection: Connection) -> tuple[bool, int]:
    status = connection.status()
    return status["flowStopped"], status["flowStoppedCount"]


@pytest.mark.timeout(150)
@pytest.mark.hurts
def test_memory_stays_flat_while_a_replica_is_slow_and_then_one_stands_still(cluster: Cluster) -> None:
    with connect(cluster.addresses["b1"]) as watching:
        watching.declare_queue("q")
        with Load(cluster.addresses) as load:
            wait_until(lambda: min(load.complete) > 500, "the load is on its way")
            _, pid = replica_of(cluster, "b3")
            memory = Memory(cluster.actor_pids())
            memory.start()
            sent = sum(load.sent)
            with slow(pid):
                wait_until(lambda: flow_of(watching)[0], "flow control comes on")
                reasons = cluster.health()["unhealthy"]
                time.sleep(SLOW_S)
            wait_until(lambda: not flow_of(watching)[0], "flow control is lifted")
            growth = memory.stop()
            assert [reason for reason in reasons if "b3 is" in reason and "behind, the most in queue q" in reason], (
                reasons
            )
            assert max(growth.values()) < GROWTH_MIB, growth
            print(f"sent_mib={(sum(load.sent) - sent) * BODY_BYTES >> 20} growth_mib={max(growth.values()):.0f}")

            before = min(load.complete)
            wait_until(lambda: min(load.complete) > before + 200, "sends go on")
            name, pid = replica_of(cluster, "b3")
            _, count = flow_of(watching)
            memory = Memory(cluster.actor_pids())
            memory.start()
            os.kill(pid, signal.SIGSTOP)
            try:
                wait_until(lambda: flow_of(watching)[1] > count, "flow control comes on again")
                wait_until(lambda: not flow_of(watching)[0], "its broker gives it up, and flow control is lifted")
                before = min(load.complete)
                wait_until(lambda: min(load.complete) > before + 200, "sends go on")
                assert replica_of(cluster, "b3")[0] != name, "another replica keeps the queue"
                wait_until(lambda: not psutil.pid_exists(pid), "the supervisor ends the one that stands still")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            growth = memory.stop()
            assert max(growth.values()) < GROWTH_MIB, growth
            print(f"growth_mib={max(growth.values()):.0f}")
            load.finish()
            wait_until(lambda: watching.queue("q")["messages"] == 0, "nothing is left")
            wait_until(lambda: cluster.health()["healthy"], "the cluster is whole again")
