"""Alerts of a cluster: one replica speaks for all; when its broker is out, the next does."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.capture.capture import ReplicaCapture
from mantamq.protocol.machine import Warn
from mantamq.protocol.wire.capture_frames import Observation, decode_fact
from mantamq.protocol.wire.client_frames import AttachSender, Transfer


class Heard(MemoryCluster):
    """Keeps what its processes write into their logs, and what their captures observe."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        names = [f"b{i}.r{j}" for i in (1, 2, 3) for j in (0, 1)]
        self.captures = {name: ReplicaCapture(name, name[:2], 1) for name in names}
        super().__init__(3, observers={name: (capture,) for name, capture in self.captures.items()})

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        self.log += ((name[:2], effect.text) for effect in effects if isinstance(effect, Warn))
        super()._carry_out(name, effects)

    def said(self) -> list[tuple[str, str]]:
        found, self.log = self.log, []
        return found

    def observed(self) -> list[tuple[str, str, str, int, str]]:
        facts = (
            decode_fact(fact)
            for name, capture in self.captures.items()
            if (buffer := capture.reporter.buffers.get(f"@{name}#1")) is not None
            for fact in buffer.facts
        )
        seen = [fact for fact in facts if isinstance(fact, Observation) and fact.what.startswith("alert")]
        return [(fact.what, fact.broker, fact.queue, fact.value, fact.detail) for fact in seen]


@pytest.fixture
def cluster() -> Heard:
    return Heard()


def send(cluster: MemoryCluster, client: Any, first: int, count: int) -> None:
    client.send(Transfer(1, first, [b"x"] * count))


def queue_with(cluster: Heard, **alerts: int) -> Any:
    client = cluster.client("b2")
    names = {("manta." if "age" in name else "qpid.") + f"alert_{name}": value for name, value in alerts.items()}
    assert client.command("declare_queue", name="q", arguments=names).code == ""
    client.send(AttachSender(1, "", "q"))
    return client


def test_one_replica_tells_for_all(cluster: Heard) -> None:
    client = queue_with(cluster, count_up=5, count_down=2)
    send(cluster, client, 1, 4)
    cluster.pass_time(1000)
    assert cluster.said() == []
    send(cluster, client, 5, 1)
    cluster.pass_time(1000)
    assert cluster.said() == [("b1", "queue 'q': 5 messages, and alert_count_up is 5")]
    client.command("purge", name="q", count=3)
    cluster.pass_time(1000)
    assert cluster.said() == [("b1", "queue 'q': 2 messages again, and alert_count_down is 2")]
    (queue,) = {fact[2] for fact in cluster.observed()}
    assert queue.startswith("q#")
    assert [(what, broker, value, detail) for what, broker, _, value, detail in cluster.observed()] == [
        ("alert_up", "b1", 5, '{"what":"count","threshold":5}'),
        ("alert_down", "b1", 2, '{"what":"count","threshold":2}'),
    ]


def test_a_message_that_lies_there_is_told_of_though_nothing_happens(cluster: Heard) -> None:
    client = queue_with(cluster, age_up=30, repeat_gap=20)
    send(cluster, client, 1, 1)
    for _ in range(29):
        cluster.pass_time(1000)
    assert cluster.said() == []
    for _ in range(3):
        cluster.pass_time(1000)
    assert cluster.said() == [("b1", "queue 'q': its oldest message is 30 seconds old, and alert_age_up is 30")]
    for _ in range(20):
        cluster.pass_time(1000)
    ((broker, text),) = cluster.said()
    assert broker == "b1" and text.startswith("queue 'q': its oldest message is 5")


def test_when_who_speaks_is_out_the_next_tells_what_is_up(cluster: Heard) -> None:
    client = queue_with(cluster, count_up=5)
    send(cluster, client, 1, 9)
    cluster.pass_time(1000)
    assert cluster.said() == [("b1", "queue 'q': 9 messages, and alert_count_up is 5")]
    dead = [name for name in cluster.machines if name.startswith("b1")]
    for name in dead:
        cluster.machines.pop(name)
        cluster.timers.pop(name, None)
    for other in cluster.machines:
        for name in dead:
            cluster.down(other, name)
    cluster.settle()
    for _ in range(40):
        cluster.pass_time(250)
    assert cluster.said() == [("b2", "queue 'q': 9 messages, and alert_count_up is 5")]
