"""A sender whose exchange or queue is gone hears not-found, and nothing completes that is nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from fake_broker import FakeBroker
from mantamq.client import LinkClosed, NotFound, connect
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import AttachSender, Command, Completed, Detached, Failed, Transfer
from mantamq.protocol.wire.log_frames import Append


def declared(memory: MemoryCluster) -> Any:
    client = memory.client("b1")
    for name, arguments in (
        ("declare_queue", {"name": "q"}),
        ("declare_exchange", {"name": "flights", "type": "topic"}),
        ("bind", {"exchange": "flights", "queue": "q", "key": "#"}),
    ):
        assert client.command(name, **arguments).code == ""
    return client


def sender(memory: MemoryCluster, broker: str, exchange: str = "flights", key: str | None = "JFK") -> Any:
    client = memory.client(broker)
    client.send(AttachSender(1, exchange, key))
    return client


def kept(memory: MemoryCluster) -> list[int]:
    """How many messages each broker's replica has."""
    memory.pass_time(DEFAULT_TIMING.lazy_ms)
    return [len(state.blobs) for state in memory.queue_states("q")]


def numbers(frames: list[Any]) -> list[list[int]]:
    return [frame.ranges for frame in frames]


@pytest.mark.parametrize("key", ["JFK", None])
@pytest.mark.parametrize("broker", ["b1", "b2", "b3"])
def test_a_sender_whose_exchange_is_deleted_ends_at_every_broker(broker, key):
    memory = MemoryCluster()
    admin = declared(memory)
    client = sender(memory, broker, key=key)
    keys = None if key else ["JFK"]
    client.send(Transfer(1, 1, [b"1"], keys))
    assert numbers(client.take(Completed)) == [[1, 1]]
    assert admin.command("delete_exchange", name="flights").code == ""
    (detached,) = client.take(Detached)
    assert (detached.handle, detached.code) == (1, "not-found") and "'flights' was deleted" in detached.text
    client.send(Transfer(1, 2, [b"2"], keys))
    assert not client.take(Completed)
    assert kept(memory) == [1, 1, 1]


def test_what_was_routed_before_is_kept_and_told_before_the_end():
    memory = MemoryCluster()
    admin = declared(memory)
    client = sender(memory, "b1")
    held = memory.hold(Append)
    client.send(Transfer(1, 1, [b"1"]))
    memory.post(admin.name, "b1", Command(99, "delete_exchange", {"name": "flights"}))
    memory.let_go(held)
    kinds = [type(frame) for frame in client.got if isinstance(frame, Completed | Detached)]
    assert kinds == [Completed, Detached]
    assert kept(memory) == [1, 1, 1]


def test_other_senders_go_on_and_a_new_exchange_of_the_name_is_another():
    memory = MemoryCluster()
    admin = declared(memory)
    client = sender(memory, "b2")
    client.send(AttachSender(2, "", "q"))
    assert admin.command("delete_exchange", name="flights").code == ""
    assert admin.command("declare_exchange", name="flights", type="topic").code == ""
    client.send(Transfer(1, 1, [b"1"]), Transfer(2, 1, [b"2"]))
    assert [(frame.handle, frame.ranges) for frame in client.take(Completed)] == [(2, [1, 1])]


def test_a_message_that_names_a_queue_which_is_not_there_fails_and_the_others_complete():
    memory = MemoryCluster()
    declared(memory)
    client = sender(memory, "b2", "", None)
    client.send(Transfer(1, 1, [b"1", b"2", b"3", b"4"], ["q", "none", "q", "gone"]))
    assert numbers(client.take(Completed)) == [[1, 1, 3, 3]]
    (failed,) = client.take(Failed)
    assert (failed.ranges, failed.code) == ([2, 2, 4, 4], "not-found") and "'gone', 'none'" in failed.text
    client.send(Transfer(1, 5, [b"5"], ["none"]))
    assert numbers(client.take(Failed)) == [[5, 5]] and not client.take(Completed)
    assert kept(memory) == [2, 2, 2]


# ---- with the client


@pytest.mark.timeout(20)
def test_the_client_hears_not_found():
    with FakeBroker(2) as cluster, connect(cluster.addresses["b2"]) as other, connect(cluster.address) as connection:
        other.declare_exchange("flights", type="fanout")
        sending = connection.session().sender("flights/x")
        sending.send("1")
        sending.sync(5)
        other.delete_exchange("flights")
        with pytest.raises(NotFound, match="'flights' was deleted") as found:
            for _ in range(1000):
                sending.send("2")
                sending.sync(5)
        assert isinstance(found.value, LinkClosed)


@pytest.mark.timeout(20)
def test_what_is_sent_again_to_a_broker_where_the_exchange_is_gone_fails():
    with (
        FakeBroker(2) as cluster,
        connect(cluster.addresses["b2"]) as other,
        connect(cluster.address, reconnect_s=10, heartbeat_ms=0) as connection,
    ):
        other.declare_exchange("flights", type="fanout")
        sending = connection.session().sender("flights/x")
        cluster.freeze("b1")
        sending.send("1")
        other.delete_exchange("flights")
        cluster.shut("b1")
        with pytest.raises(NotFound, match="'flights'"):
            sending.sync(10)
