"""When messages came, in a whole cluster: the same at every broker and each time, through takeovers, updates and power cuts."""

from __future__ import annotations

from typing import Any

from mantamq.client import Message
from mantamq.protocol.broker import routing
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Delivery,
    Dispose,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.message import encode
from mantamq.protocol.wire.queue_frames import REJECT, RELEASE
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster


def sent(cluster: Any, **declared: Any) -> list[int]:
    """A queue with three messages, sent a second apart through two brokers. Returns when."""
    assert not cluster.client("b1").command("declare_queue", name="q", **declared).code
    times: list[int] = []
    for number, broker in enumerate(("b1", "b2", "b1")):
        sender = cluster.client(broker)
        sender.send(AttachSender(1, "", "q"))
        times.append(cluster.now_ms)
        sender.send(Transfer(1, 1, [encode(Message(b"%d" % number))]))
        cluster.pass_time(1000)
    return times


def seen(cluster: Any, broker: str, queue: str = "q", kind: int = 0) -> dict[int, int]:
    """Position -> when it came, as a browser at this broker is told; or one who consumes, and settles them so."""
    client = cluster.client(broker)
    client.send(AttachReceiver(1, queue, "consume" if kind else "browse"), Flow(1, 10))
    cluster.pass_time(3000)
    found = dict[int, int]()
    for number, delivery in enumerate(client.take(Delivery), 1):
        starts, at_ms, index = dict(zip(delivery.times[::2], delivery.times[1::2], strict=True)), 0, 0
        for first, last in zip(delivery.ranges[::2], delivery.ranges[1::2], strict=True):
            if kind:
                client.send(Dispose(1, number, kind, [delivery.acquisition, first, last]))
            for position in range(first, last + 1):
                at_ms = starts.get(index, at_ms)
                found[position] = at_ms
                index += 1
    if kind:
        client.vanish()
    cluster.pass_time(1000)
    return found


def test_it_survives_a_takeover_and_an_update():
    cluster = MortalCluster()
    times = sent(cluster)
    whole = dict(enumerate(times, 1))
    assert seen(cluster, "b1") == seen(cluster, "b3") == seen(cluster, "b2", kind=RELEASE) == whole
    cluster.add_sequencer()
    cluster.kill("sequencer", "b2")
    cluster.pass_time(3000)
    cluster.add_broker("b2")
    for _ in range(20):
        cluster.pass_time(300)
    states = cluster.queue_states("q")  # that at b2 has it from an update
    assert len(states) == 3 and len({state.digest() for state in states}) == 1
    assert [seen(cluster, broker) for broker in ("b1", "b2", "b3")] == [whole] * 3
    assert seen(cluster, "b3", kind=RELEASE) == whole, "those that came back have it as well"


def test_it_survives_a_power_cut():
    cluster = StoredCluster()
    times = sent(cluster, durable=True)
    cluster.blackout("b3", "b1")
    assert not cluster.retired, cluster.retired
    assert seen(cluster, "b3") == seen(cluster, "b1") == dict(enumerate(times, 1))


def test_a_dead_letter_has_come_when_it_came_into_that_queue():
    cluster = MortalCluster()
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="dead").code
    assert not client.command("declare_exchange", name="lost", type="fanout").code
    assert not client.command("bind", exchange="lost", queue="dead", key="").code
    times = sent(cluster, alternate="lost")
    rejected_ms = cluster.now_ms
    assert seen(cluster, "b2", kind=REJECT) == dict(enumerate(times, 1))
    dead = seen(cluster, "b3", "dead")
    assert len(dead) == 3 and all(at_ms >= rejected_ms for at_ms in dead.values())


def test_what_a_broker_before_9_took_in_says_nothing(monkeypatch):
    enqueue = routing.Enqueue
    monkeypatch.setattr(routing, "Enqueue", lambda *given, at_ms: enqueue(*given))
    cluster = MortalCluster()
    sent(cluster)
    assert seen(cluster, "b1") == {1: 0, 2: 0, 3: 0}
