"""What consumers noted on messages, in a whole cluster: it survives a takeover, an update and a power cut."""

from __future__ import annotations

from typing import Any

from mantamq.client import Message
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Delivery,
    Dispose,
    Disposed,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.message import decode, encode
from mantamq.protocol.wire.queue_frames import ACCEPT, MODIFY, Modification
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

NOTES = {"why": "slow", "tries": [1, 2]}


def modified(cluster: Any, durable: bool = False) -> None:
    """A queue at b1 whose first two of three messages were modified by a consumer at b2."""
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="q", durable=durable).code
    client.send(AttachSender(1, "", "q"))
    client.send(Transfer(1, 1, [encode(Message(body)) for body in (b"1", b"2", b"3")]))
    cluster.pass_time(1000)
    consumer = cluster.client("b2")
    consumer.send(AttachReceiver(1, "q"), Flow(1, 2))
    cluster.pass_time(1000)
    (delivery,) = consumer.take(Delivery)
    said = Modification(True, annotations=NOTES), Modification(False, annotations={"b": 1})
    for number, one in enumerate(said, 1):
        consumer.send(Dispose(1, number, MODIFY, [delivery.acquisition, number, number], one))
    cluster.pass_time(1000)
    assert [answer.lost for answer in consumer.take(Disposed)] == [[], []]
    consumer.vanish()
    cluster.pass_time(500)


def read(cluster: Any, broker: str) -> list[tuple[bytes, dict[str, Any]]]:
    """What a consumer at a broker is given, all of it, and accepts; with the delivery counts of those that came back."""
    consumer = cluster.client(broker)
    consumer.send(AttachReceiver(1, "q"), Flow(1, 10))
    cluster.pass_time(3000)
    found = []
    for number, delivery in enumerate(consumer.take(Delivery), 1):
        found += [(message.body, message.annotations) for message in (decode(blob, Message) for blob in delivery.blobs)]
        runs = [
            n for i in range(0, len(delivery.ranges), 2) for n in (delivery.acquisition, *delivery.ranges[i : i + 2])
        ]
        consumer.send(Dispose(1, number, ACCEPT, runs))
    cluster.pass_time(1000)
    return found


WHOLE = [(b"1", NOTES), (b"2", {"b": 1}), (b"3", {})]


def test_what_was_noted_survives_a_takeover_and_an_update():
    cluster = MortalCluster()
    modified(cluster)
    cluster.add_sequencer()
    cluster.kill("sequencer", "b2")
    cluster.pass_time(3000)
    cluster.add_broker("b2")
    for _ in range(20):
        cluster.pass_time(300)
    states = cluster.queue_states("q")  # that at b2 has it from an update
    assert len(states) == 3 and len({state.digest() for state in states}) == 1
    assert [state.deliveries.annotations for state in states] == [{1: NOTES, 2: {"b": 1}}] * 3
    assert read(cluster, "b3") == WHOLE
    cluster.pass_time(3000)
    assert all(not state.deliveries.annotations for state in cluster.queue_states("q"))


def test_what_was_noted_survives_a_power_cut():
    cluster = StoredCluster()
    modified(cluster, durable=True)
    cluster.blackout("b3", "b1")
    assert not cluster.retired, cluster.retired
    assert read(cluster, "b3") == WHOLE
