"""A program that only sends meets a clear error, and not the memory killer of the system; then consumers take all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psutil
import pytest
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.client import Connection, Unavailable, connect

BODY_BYTES = 64 * 1024
CAPACITY = 200
WATERMARK_MIB = 800
MORE_MIB = 400
"""By that much they may pass it: what comes until they are measured again, and what is under way."""
WAIT_S = 30.0


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, f"{what}: not within {WAIT_S} s"
        time.sleep(0.05)


def resident_mib(cluster: Cluster) -> float:
    pids = [actor.pid for actor in cluster.report().actors if actor.name.partition(".")[0] == "b1" and actor.pid]
    assert len(pids) >= 3, "a broker and its replicas"
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20


def send_until_it_stops(connection: Connection) -> tuple[int, str]:
    """How many were taken, and why no more."""
    sender = connection.session().sender("orders", capacity=CAPACITY, send_timeout_s=3)
    count = 0
    while True:
        try:
            sender.send(count.to_bytes(4) + bytes(BODY_BYTES))
        except Unavailable as error:
            return count, error.text
        count += 1
        assert count * BODY_BYTES < 4 << 30, "it takes whatever comes"


@pytest.mark.timeout(300)
def test_who_only_sends_is_told_why_and_consumers_make_room() -> None:
    with (
        start_cluster(brokers=1, memory_watermark=WATERMARK_MIB << 20) as cluster,
        connect(cluster.nearest(), cluster.token, send_timeout_s=60) as connection,
    ):
        connection.declare_queue("orders")
        assert resident_mib(cluster) < 0.9 * WATERMARK_MIB, "there is room at the beginning"
        count, why = send_until_it_stops(connection)
        assert "flow control of the cluster: the processes of b1 have" in why, why
        assert f"above the watermark of {WATERMARK_MIB} MiB, until consumers make room" in why, why
        assert resident_mib(cluster) < WATERMARK_MIB + MORE_MIB
        reasons = " ".join(cluster.report().unhealthy)
        assert "the processes of b1 have" in reasons, reasons

        # It takes more from nobody, and gives all that it has.
        more = threading.Thread(target=lambda: connection.session().sender("orders").send(b"more"))
        more.start()
        session = connection.session()
        receiver = session.receiver("orders", capacity=CAPACITY)
        numbers = [int.from_bytes(receiver.fetch(WAIT_S).body[:4]) for _ in settled(count, session.acknowledge)]
        assert numbers == list(range(count)), "all that was sent is there once, in order"
        assert receiver.fetch(WAIT_S).body == b"more"
        session.acknowledge()
        session.sync(WAIT_S)
        more.join(WAIT_S)
        wait_until(lambda: not connection.status()["flow"], "flow control is off")
        sender = connection.session().sender("orders")
        sender.send(b"again")
        sender.sync(WAIT_S)


def settled(count: int, acknowledge: Callable[[], None]):
    for number in range(count):
        yield number
        if number % 50 == 49:
            acknowledge()
    acknowledge()
