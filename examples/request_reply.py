"""Requests and replies: two workers that square numbers, and a program that asks them, many questions at once.

python examples/request_reply.py                    # in a cluster of its own
python examples/request_reply.py 127.0.0.1:5700     # in one that runs: `mantamq status` has its addresses
"""

import asyncio
import sys

from mantamq.client import NotFound, Timeout, connect_async

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "local"


async def work() -> None:
    async with connect_async(ADDRESS) as connection:
        session = connection.session()
        async for message in await session.receiver("example.squares", capacity=1):
            if message.body != b"nothing":
                await session.reply(message, str(int(message.body) ** 2))
            await session.acknowledge(message)


async def main() -> None:
    async with connect_async(ADDRESS) as connection:
        await connection.declare_queue("example.squares")
        workers = [asyncio.create_task(work()) for _ in range(2)]
        replies = await asyncio.gather(*(connection.request("example.squares", str(n)) for n in range(1, 11)))
        print("squares:", *[reply.body.decode() for reply in replies])
        try:
            await connection.request("example.squares", "nothing", timeout_s=0.5)
        except Timeout as silence:
            print("nothing:", silence)
        try:
            await connection.request("example.cubes", "3")
        except NotFound as refused:
            print("cubes:", refused)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await connection.delete_queue("example.squares")


asyncio.run(main())
