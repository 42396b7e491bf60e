"""Flow control of the whole cluster, as a program that sends sees it: both twins say why they wait."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Unavailable, connect, connect_async
from mantamq.protocol.broker.memory import MIB
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import Measured

pytestmark = pytest.mark.timeout(30)
WHY = "flow control of the cluster: the processes of b1 have 1,200 MiB of memory, above the watermark of 1,000 MiB"


@pytest.fixture
def broker():
    with FakeBroker(1, limits=Limits(memory_bytes=1000 * MIB)) as broker:
        yield broker


def has(broker: FakeBroker, mib: int) -> None:
    def measure():
        broker.cluster._inbox.append(("b1", Measured(mib * MIB, 0)))
        broker.cluster.settle()

    broker.call(measure)
    for _ in range(10):
        broker.pass_time(100)


def test_who_waits_too_long_is_told_why_and_all_is_there_when_consumers_have_made_room(broker):
    with connect(broker.address, send_timeout_s=0.3) as connection:
        connection.declare_queue("orders")
        session = connection.session()
        sender = session.sender("orders", capacity=5)
        sender.send("0")
        sender.sync(5)
        has(broker, 1200)
        assert sender.blocked == "", "nothing is under way"
        sender.send("1")
        wait_until(lambda: sender.blocked)
        assert sender.blocked.startswith(WHY)
        with pytest.raises(Unavailable, match=WHY + ", until consumers make room; or see"):
            for n in range(2, 9):
                sender.send(f"{n}")
        receiver = session.receiver("orders", capacity=10)
        got = [receiver.fetch(5).body for _ in range(6)]
        session.acknowledge()
        receiver.sync(5)
        has(broker, 400)
        sender.sync(5)
        assert sender.blocked == "" and got == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_the_asynchronous_twin_says_the_same(broker):
    async with connect_async(broker.address, send_timeout_s=0.3) as connection:
        await connection.declare_queue("orders")
        has(broker, 1200)
        sender = await connection.session().sender("orders")
        await sender.send("1")
        with pytest.raises(Unavailable, match=WHY):
            for _ in range(3):
                await sender.sync()
        assert sender.blocked.startswith(WHY)
        has(broker, 400)
        await sender.sync(5)
        assert sender.blocked == ""
