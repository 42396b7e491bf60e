"""How large a message may be: chosen at the start, told to clients, named in the error."""

from __future__ import annotations

import asyncio

import pytest
from live_cluster import LIMIT_S, cluster
from mantamq.actors.config import chosen_limits
from mantamq.client import TooLarge, connect_async
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import MESSAGE_BYTES


async def test_the_limit_is_told_to_clients_and_the_error_says_how_to_raise_it() -> None:
    async with (
        cluster(limits=chosen_limits(100_000)) as actors,
        connect_async(actors["b3"].addresses["clients"]) as client,
    ):
        await client.declare_queue("q")
        sender = await client.session().sender("q")
        await sender.send(bytes(99_900))
        with pytest.raises(TooLarge, match=r"at most 100,000 bytes.*--max-message-size.*max_message_bytes"):
            await sender.send(bytes(100_001))
        await sender.sync()
        assert (await client.queue("q"))["messages"] == 1


@pytest.mark.parametrize("size", [0, MESSAGE_BYTES[0] - 1, MESSAGE_BYTES[1] + 1, 1 << 30])
def test_a_limit_that_no_frame_carries_is_refused(size: int) -> None:
    with pytest.raises(LocalError, match="1,024 to 25,165,824 bytes"):
        chosen_limits(size)


async def test_the_largest_that_may_be_chosen_works() -> None:
    most = MESSAGE_BYTES[1]
    async with (
        cluster(limits=chosen_limits(most)) as actors,
        connect_async(actors["b1"].addresses["clients"]) as client,
    ):
        await client.declare_queue("q")
        sender = await client.session().sender("q", capacity=10)
        await sender.send(b"small")
        for _ in range(20):
            await sender.send(bytes(6000))  # gathers with what comes next
        await sender.send(bytes(most - 16))
        async with asyncio.timeout(16 * LIMIT_S):
            await sender.sync()
        receiver = await client.session().receiver("q", capacity=100)
        assert [len((await receiver.fetch(6 * LIMIT_S)).body) for _ in range(22)] == [5, *[6000] * 20, most - 16]
