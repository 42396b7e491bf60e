"""Consume locks move on when the Ownership on duty is cut off together with the supervisor, who could replace it."""

from __future__ import annotations

import contextlib
import threading
import time

from mantamq.client import Connection, Empty, MantaError, connect

from tests.hosts.hosts import Hosts, Status

QUEUE = "contended"
TURNS = 10
SOON_S = 15.0
"""Far less than the 30 s that Ray takes to hold a host for dead; the cluster itself takes some 3 s."""


def duty(status: Status) -> str:
    """The Ownership on duty, by the sequencer that leads."""
    leading = [
        actor["machine"]
        for actor in status["actors"]
        if actor["role"] == "Sequencer" and actor.get("machine", {}).get("role") == "leading"
    ]
    return leading[0]["duty"]["name"] if leading else ""


class Rivals:
    """Two consumers at two brokers, each message for one of them, and a sender that never lets the queue run dry.

    Attributes:
        turns: when the queue's lock had moved from one to the other.
    """

    def __init__(self, hosts: Hosts, one: str, other: str) -> None:
        self.turns: list[float] = []
        self._last = ""
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._wrong: list[str] = []
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send, hosts.addresses[one])),
            *(threading.Thread(target=self._guard, args=(self._take, hosts.addresses[b], b)) for b in (one, other)),
        ]
        for thread in self._threads:
            thread.start()

    def until_moved(self, count: int, since: float, limit_s: float) -> float:
        """Wait until the lock has moved so often since then; returns how long after it the first of these was, and how
        long it stood still."""
        while len(moved := [at for at in self.turns if at > since]) < count:
            assert not self._wrong, self._wrong
            assert time.monotonic() - since < limit_s, f"the lock moved {len(moved)} times in {limit_s:g} s"
            time.sleep(0.05)
        return max(later - before for before, later in zip([since, *moved], moved, strict=False))

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)
        assert not self._wrong, self._wrong

    def _guard(self, what, *arguments: str) -> None:
        try:
            what(*arguments)
        except Exception as error:
            self._wrong.append(repr(error))

    def _connected(self, address: str) -> Connection:
        return connect(address, timeout=30.0)

    def _send(self, address: str) -> None:
        with self._connected(address) as connection, connection.session().sender(QUEUE, capacity=40) as sender:
            while not self._ended.wait(0.01):
                with contextlib.suppress(MantaError):
                    sender.send(b"x", timeout=0.5)

    def _take(self, address: str, name: str) -> None:
        with self._connected(address) as connection:
            session = connection.session()
            receiver = session.receiver(QUEUE, capacity=4)
            while not self._ended.is_set():
                try:
                    message = receiver.fetch(timeout=0.2)
                except Empty:
                    continue
                session.acknowledge(message)
                with self._lock:
                    if name != self._last:
                        self._last = name
                        self.turns.append(time.monotonic())


def test_locks_move_on_when_ownership_and_supervisor_are_cut_off_together(hosts: Hosts) -> None:
    hosts.start(3)
    status = hosts.until_healthy()
    where = hosts.where(status)
    assert duty(status) == "ownership" and where["ownership"] != where["ownership2"] == "h1"
    table = hosts.mantamq("h2", "status").stdout
    assert "moves the consume locks" in table and "stands by" in table

    # The first one dies: the second, beside the supervisor, is on duty at once, and stays so when the first is back.
    [pid] = [actor["pid"] for actor in status["actors"] if actor["name"] == "ownership"]
    hosts.signal(pid, "KILL")
    hosts.until(lambda s: s.get("healthy") and duty(s) == "ownership2", 60, "whole, with the other Ownership on duty")

    one, other = (name for name in ("b1", "b2", "b3") if where[name] != "h1")
    with hosts.connect() as connection:
        connection.declare_queue(QUEUE)
    rivals = Rivals(hosts, one, other)
    try:
        rivals.until_moved(TURNS, time.monotonic(), 30.0)
        hosts.cut("h1")
        stood_s = rivals.until_moved(TURNS, time.monotonic(), SOON_S)
        hosts.heal("h1")
        print(f"the lock stood still for {stood_s:.1f} s")
        hosts.until_healthy(120)
        rivals.until_moved(TURNS, time.monotonic(), 30.0)
    finally:
        rivals.end()
