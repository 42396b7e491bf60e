"""Queues that stamp their messages with their numbers."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from mantamq.protocol.errors import INVALID, PeerError
from mantamq.protocol.queue.allocator import AnyConsumer
from mantamq.protocol.queue.delivery_order import Fifo
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.sequence import shown
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Delivery, Dispose, Failed, Flow, Transfer
from mantamq.protocol.wire.events import Enqueue
from mantamq.protocol.wire.message import Header, encode, header
from mantamq.protocol.wire.queue_frames import REJECT, RELEASE
from mantamq.protocol.wiring.arguments import check

from tests.unit.cluster_in_memory import MemoryCluster

STAMPS = {"qpid.queue_msg_sequence": "seq"}


def message(body: bytes, **properties: Any) -> bytes:
    return encode(Header(body, properties=properties or None))  # type: ignore[arg-type]


def numbers(deliveries: list[Delivery]) -> list[Any]:
    blobs = [blob for frame in deliveries for blob in frame.blobs]
    return [(header(blob).properties or {}).get("seq") if blob != b"raw" else None for blob in blobs]


def declared(cluster: MemoryCluster, **arguments: Any) -> Any:
    client = cluster.client("b1")
    assert client.command("declare_queue", name="q", arguments=STAMPS | arguments).code == ""
    client.send(AttachSender(1, "", "q"))
    return client


def reader(
    cluster: MemoryCluster, broker: str, queue: str = "q", credit: int = 100, bytes_: int = -1, **how: Any
) -> Any:
    client = cluster.client(broker)
    client.send(AttachReceiver(1, queue, **how))
    client.send(Flow(1, credit, bytes_))
    cluster.pass_time(1)
    return client


def test_each_message_has_its_number_and_has_it_again_at_another_broker():
    cluster = MemoryCluster()
    client = declared(cluster)
    client.send(Transfer(1, 1, [message(b"a"), message(b"b", n=1, seq=99), b"raw", message(b"c")]))
    first = reader(cluster, "b2")
    (delivery,) = first.take(Delivery)
    assert numbers([delivery])[:2] == [1, 2] and delivery.blobs[2] == b"raw" and numbers([delivery])[3] == 4
    assert header(delivery.blobs[1]).properties == {"n": 1, "seq": 2}
    first.send(Dispose(1, 1, RELEASE, [delivery.acquisition, 1, 4]))
    first.vanish()
    assert numbers(reader(cluster, "b3").take(Delivery)) == [1, 2, None, 4]


def test_who_is_refused_at_a_limit_has_had_a_number():
    cluster = MemoryCluster()
    client = declared(cluster, **{"qpid.max_count": 2, "qpid.flow_stop_count": 0})
    client.send(Transfer(1, 1, [message(b"a"), message(b"b"), message(b"refused")]))
    cluster.pass_time(1000)
    assert client.take(Failed)
    client.command("purge", name="q")
    client.send(Transfer(1, 4, [message(b"c")]))
    assert numbers(reader(cluster, "b2", mode="browse").take(Delivery)) == [4]


def test_the_alternate_exchange_gets_it_as_it_was_sent():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    client.command("declare_queue", name="dead")
    client.command("bind", exchange="amq.fanout", queue="dead")
    client.command("declare_queue", name="q", arguments=STAMPS, alternate="amq.fanout")
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [message(b"a")]))
    consumer = reader(cluster, "b1")
    (delivery,) = consumer.take(Delivery)
    consumer.send(Dispose(1, 1, REJECT, [delivery.acquisition, 1, 1]))
    cluster.pass_time(1)
    (buried,) = reader(cluster, "b1", "dead").take(Delivery)
    (blob,) = buried.blobs
    properties = header(blob).properties or {}
    assert header(blob).body == header(message(b"a")).body and not STAMPS.values() & properties.keys()


def test_byte_credit_counts_the_stamp():
    blob = message(b"a" * 50)
    state = QueueState("q#1")
    state.apply(Enqueue("", [], [blob, blob]))
    there = shown(state, QueueSettings(sequence_key="seq"))
    assert len(there.blobs) == 2 and list(there.blobs) == [1, 2] and there.bytes == state.bytes
    dispatcher = Dispatcher(state, Fifo(state.available), AnyConsumer(), shown=there)
    subscription = dispatcher.subscribe(1, False, True)
    acquisitions = count(1)
    subscription.credit.grant(1, len(there.blobs[1]) - 1)
    assert dispatcher.run(True, acquisitions) == ([], False), "it would do for the message without its stamp"
    subscription.credit.grant(0, 1)
    ((delivery,), _) = dispatcher.run(True, acquisitions)
    assert delivery.frame(there).blobs == [message(b"a" * 50, seq=1)] and subscription.credit.bytes == 0
    assert shown(state, QueueSettings()) is state, "a plain queue's are looked at as they are"


def test_what_the_header_may_be_called():
    assert check("queue", dict(STAMPS)) == STAMPS
    for odd in ("", "h" * 256, 5):
        with pytest.raises(PeerError) as refused:
            check("queue", {"qpid.queue_msg_sequence": odd})
        assert refused.value.code == INVALID and "give the name of a header" in refused.value.text


def test_it_is_refused_while_a_member_would_not_stamp():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    cluster.machines["b1"].cluster.versions.least = 7
    refused = client.command("declare_queue", name="q", arguments=STAMPS)
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
