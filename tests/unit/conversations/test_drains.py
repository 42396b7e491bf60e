"""An answered drain is the cluster's word: what was complete before the question is in the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from live_cluster import LIMIT_S, cluster
from mantamq.client import connect_async
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Flow,
    FlowDrained,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Append
from mantamq.protocol.wire.queue_frames import ACCEPT, RELEASE, Drained

TRIES = 150


def declared(memory: MemoryCluster, messages: int = 0) -> Any:
    client = memory.client("b1")
    assert client.command("declare_queue", name="q").code == ""
    client.send(AttachSender(1, "", "q"))
    if messages:
        client.send(Transfer(1, 1, [b"%d" % i for i in range(1, messages + 1)]))
    return client


def receiver(memory: MemoryCluster, broker: str, mode: str = "consume") -> Any:
    client = memory.client(broker)
    client.send(AttachReceiver(1, "q", mode))
    assert client.take(Attached)
    return client


def lagging(memory: MemoryCluster, sender: Any, broker: str) -> list[Any]:
    """A send completes while the replica of `broker` is told nothing; returns what it was not told."""
    held = memory.hold(Append)
    sender.send(Transfer(1, 1, [b"1"]))
    for _ in range(10):
        ready = [item for item in held if not item[0].startswith(f"{broker}.")]
        held[:] = [item for item in held if item[0].startswith(f"{broker}.")]
        memory._inbox += ready
        memory.settle()
        memory.pass_time(max(DEFAULT_TIMING.acknowledge_ms, DEFAULT_TIMING.lazy_ms))
        if sender.take(Completed):
            return held
    raise AssertionError("the send does not complete without that replica")


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_a_drain_at_a_replica_that_is_behind_waits_for_what_was_complete(mode):
    memory = MemoryCluster()
    sender = declared(memory)
    reader = receiver(memory, "b2", mode)
    held = lagging(memory, sender, "b2")
    reader.send(Flow(1, 5, -1, True))
    assert not reader.take(FlowDrained)
    memory.let_go(held)
    memory.pass_time(DEFAULT_TIMING.lazy_ms)
    assert [type(frame) for frame in reader.got if isinstance(frame, Delivery | FlowDrained)] == [Delivery, FlowDrained]


def test_who_only_takes_credit_back_need_not_wait():
    memory = MemoryCluster()
    sender = declared(memory)
    reader = receiver(memory, "b2", "browse")
    held = lagging(memory, sender, "b2")
    reader.send(Flow(1, 5, -1, True, False))
    assert reader.take(FlowDrained)
    memory.let_go(held)


def test_each_drain_of_a_receiver_looks_anew():
    memory = MemoryCluster()
    sender = declared(memory)
    reader = receiver(memory, "b2")
    for _ in range(2):
        reader.send(Flow(1, 5, -1, True))
        assert reader.take(FlowDrained) and not reader.take(Delivery)
    held = lagging(memory, sender, "b2")
    reader.send(Flow(1, 5, -1, True))
    assert not reader.take(FlowDrained)
    memory.let_go(held)
    memory.pass_time(DEFAULT_TIMING.lazy_ms)
    assert reader.take(Delivery) and reader.take(FlowDrained)


def test_what_another_broker_may_give_to_its_consumers_is_not_nothing():
    """The lock is elsewhere, and its consumer there has no credit any more: the lock comes here."""
    memory = MemoryCluster()
    declared(memory, messages=3)
    first, second = receiver(memory, "b2"), receiver(memory, "b3")
    first.send(Flow(1, 1))
    assert first.positions() == [1]
    second.send(Flow(1, 5, -1, True))
    memory.pass_time(500)
    assert second.positions() == [2, 3] and second.take(FlowDrained)


def test_a_drain_without_a_majority_is_not_answered():
    memory = MemoryCluster()
    declared(memory)
    reader = receiver(memory, "b2")
    memory.hold(Append)
    reader.send(Flow(1, 5, -1, True))
    memory.pass_time(1000)
    assert not [frame for _, _, frame in memory.traffic if isinstance(frame, Drained)]


def test_what_is_released_comes_before_what_is_behind_it():
    memory = MemoryCluster()
    declared(memory, messages=3)
    reader = receiver(memory, "b1")
    reader.send(Flow(1, 1))
    (first,) = reader.take(Delivery)
    reader.send(Dispose(1, 1, RELEASE, [first.acquisition, 1, 1]), Flow(1, 1))
    assert reader.positions() == [1]


def test_what_is_released_comes_first_though_the_flow_is_right_behind():
    memory = MemoryCluster()
    declared(memory, messages=3)
    reader = receiver(memory, "b1")
    reader.send(Flow(1, 1))
    (first,) = reader.take(Delivery)
    held = memory.hold(Append)
    reader.send(Dispose(1, 1, RELEASE, [first.acquisition, 1, 1]))
    reader.send(Flow(1, 2))
    assert reader.positions() == []
    memory.let_go(held)
    assert reader.positions() == [1, 2]
    reader.send(Dispose(1, 2, ACCEPT, [first.acquisition, 1, 1]), Flow(1, 1))  # stale: nothing waits for it
    assert reader.positions() == [3]


# ---- with the client, over real sockets


def story(tell: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(6 * LIMIT_S), cluster() as actors:
            places = [actors[broker].addresses["clients"] for broker in ("b1", "b2", "b3")]
            async with connect_async(places[0]) as here, connect_async(places[1]) as there:
                await here.declare_queue("q")
                await tell(here, there)

    asyncio.run(run())


def test_two_who_ask_at_once_each_get_what_was_complete_when_they_asked():
    """The second joins no drain that was asked for before its message was complete."""

    async def tell(here: Any, there: Any) -> None:
        sender = await here.session().sender("q")
        session = there.session()
        reader = await session.receiver("q", capacity=0)
        for number in range(TRIES):
            early = asyncio.create_task(reader.get_batch(2))
            await asyncio.sleep(0)
            await sender.send(str(number))
            await sender.sync()
            late = await reader.get_batch(2)
            found = [message.body for message in [*await early, *late]]
            assert found == [str(number).encode()]
            await session.sync()

    story(tell)


def test_release_and_fetch_brings_the_same_message_again():
    async def tell(here: Any, there: Any) -> None:
        sender = await here.session().sender("q")
        session = there.session()
        reader = await session.receiver("q", capacity=0)
        for body in "abc":
            await sender.send(body)
        await sender.sync()
        for _ in range(10):
            message = await reader.fetch(LIMIT_S)
            assert message.body == b"a"
            await session.release(message)
        second = await reader.get_batch(3)
        assert [message.body for message in second] == [b"a", b"b", b"c"]
        for message in second:  # the second and third gather behind the first
            await session.release(message)
        assert (await reader.get()).body == b"a"

    story(tell)
