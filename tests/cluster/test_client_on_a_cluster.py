"""The client on a real cluster: sync, asyncio, inside Ray tasks and actors, and from programs without Ray."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import ray
from mantamq.client import Empty, Message, Queue, connect, connect_async


def test_messages_cross_the_cluster_and_keep_all_they_have(cluster):
    first, second, _ = cluster.addresses.values()
    sent = Message(
        b"body", subject="s", properties={"n": 1}, ttl=60.0, priority=7, correlation_id="c", reply_to="r"
    )  # fmt: skip
    with connect(first) as here, connect(second) as there:
        here.declare_queue("crossing")
        here.session().sender("crossing").send(sent)
        session = there.session()
        got = session.receiver("crossing").fetch(timeout=10)
        session.acknowledge(got)
        session.sync(10)
        for name in ("body", "subject", "properties", "ttl", "priority", "correlation_id", "reply_to"):
            assert getattr(got, name) == getattr(sent, name)
        assert there.queue("crossing")["messages"] == 0


async def test_the_asyncio_twin(cluster):
    first, _, third = cluster.addresses.values()
    async with connect_async(first) as here, connect_async(third) as there:
        await here.declare_queue("twin")
        sender = await here.session().sender("twin", capacity=10)
        session = there.session()
        receiver = await session.receiver("twin")
        for number in range(100):
            await sender.send(str(number))
        await sender.sync()
        for number in range(100):
            message = await receiver.fetch(timeout=10)
            assert message.body == str(number).encode()
            await session.acknowledge(message)
        await session.sync()
        with pytest.raises(Empty):
            await receiver.get()


def test_one_queue_from_three_brokers_each_message_once(cluster):
    addresses = list(cluster.addresses.values())
    count = 5000
    with connect(addresses[0]) as c:
        c.declare_queue("contended")
    got: list[list[bytes]] = [[], [], []]

    def consume(index: int) -> None:
        with connect(addresses[index]) as c:
            session = c.session()
            receiver = session.receiver("contended", capacity=50)
            while True:
                try:
                    message = receiver.fetch(timeout=3)
                except Empty:
                    break
                got[index].append(message.body)
                session.acknowledge(message)
            session.sync(10)

    consumers = [threading.Thread(target=consume, args=(i,)) for i in range(3)]
    for consumer in consumers:
        consumer.start()
    with connect(addresses[1]) as c:
        sender = c.session().sender("contended")
        for number in range(count):
            sender.send(str(number))
        sender.sync()
    for consumer in consumers:
        consumer.join(60)
    assert sorted(int(body) for bodies in got for body in bodies) == list(range(count))
    with connect(addresses[2]) as c:
        assert c.queue("contended")["messages"] == 0


def test_a_declare_on_two_brokers_at_once_ends_in_one_definition(cluster):
    connections = [connect(address) for address in cluster.addresses.values()]
    outcomes: list[object] = []

    def declare(c, flavour):
        try:
            c.declare_queue("raced", arguments={"flavour": flavour})
            outcomes.append(flavour)
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=declare, args=(c, i)) for i, c in enumerate(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    winners = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert len(winners) == 1 and len(outcomes) == 3
    assert {c.queue("raced")["arguments"]["flavour"] for c in connections} == {winners[0]}
    for c in connections:
        c.close()


def test_the_queue_handle_in_tasks_and_actors(cluster):
    queue = Queue("handle")

    @ray.remote(num_cpus=0)
    def produce(queue, count):
        for number in range(count):
            queue.put({"number": number})

    @ray.remote(num_cpus=0)
    class Consumer:
        async def take(self, queue, count):
            return [(await queue.get_async(timeout=30))["number"] for _ in range(count)]

    consumer = Consumer.remote()
    taken = consumer.take.remote(queue, 20)
    ray.get(produce.remote(queue, 20), timeout=60)
    assert sorted(ray.get(taken, timeout=60)) == list(range(20))
    ray.kill(consumer)
    assert queue.empty() and queue.qsize() == 0
    with pytest.raises(Empty):
        queue.get_nowait()
    queue.put_nowait_batch([1, b"two", "three"])
    with pytest.raises(Empty):
        queue.get_nowait_batch(4)
    assert queue.get_nowait_batch(3) == [1, b"two", "three"]


def test_connect_without_an_address_finds_the_cluster(cluster):
    with connect() as c:
        assert c.members == cluster.addresses


def test_a_program_without_ray_needs_only_an_address(cluster):
    code = (
        "import sys\nfrom mantamq.client import connect\n"
        f"with connect({next(iter(cluster.addresses.values()))!r}) as c:\n"
        "    c.declare_queue('plain')\n    c.session().sender('plain').send('x')\n"
        "assert 'ray' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with connect() as c:
        assert c.queue("plain")["messages"] == 1
