"""A forgotten `await` of a sender or a receiver says so; an `await` that is not forgotten is none the worse."""

from __future__ import annotations

import asyncio
import gc

import pytest
from fake_broker import FakeBroker
from mantamq.client import connect_async
from mantamq.client.aio.unawaited import Unawaited, says_unawaited


@says_unawaited
async def sender(name: str) -> str:
    await asyncio.sleep(0)
    if name == "nobody":
        raise LookupError(name)
    return f"a sender to {name}"


@pytest.mark.parametrize("use", [lambda one: one.send(b"body"), lambda one: one.send(message=b"body")])
def test_what_is_sent_by_no_sender_yet_says_so(use):
    one = sender("q")
    with pytest.raises(TypeError, match=r"no sender, and has no 'send', before it is awaited: `sender = await session"):
        use(one)
    one.close()


def test_so_does_whatever_else_is_asked_of_it():
    one = sender("q")
    with pytest.raises(AttributeError, match="has no 'sync', before it is awaited"):
        one.sync()
    assert not hasattr(one, "__aiter__")
    one.close()


async def test_it_is_awaited_as_any_coroutine():
    one = sender("q")
    assert asyncio.iscoroutine(one)
    assert await one == "a sender to q"
    assert await asyncio.create_task(sender("q")) == "a sender to q"
    assert await asyncio.gather(sender("a"), sender("b")) == ["a sender to a", "a sender to b"]
    assert await asyncio.wait_for(sender("q"), 5) == "a sender to q"
    with pytest.raises(LookupError):
        await asyncio.create_task(sender("nobody"))


async def test_a_task_of_it_is_cancelled():
    task = asyncio.create_task(sender("q"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_asyncio_runs_it():
    assert asyncio.run(sender("q")) == "a sender to q"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_nobody_ever_awaits_warns():
    with pytest.warns(RuntimeWarning, match="sender' was never awaited"):
        one = sender("q")
        assert isinstance(one, Unawaited)
        del one
        gc.collect()


async def test_a_sessions_are_such():
    with FakeBroker() as broker:
        async with connect_async(broker.address) as connection:
            await connection.declare_queue("q")
            session = connection.session()
            one, other = session.sender("q"), session.receiver("q")
            with pytest.raises(TypeError, match=r"await session\.sender"):
                one.send(b"body")
            with pytest.raises(AttributeError, match=r"await session\.receiver"):
                other.fetch()
            await (await one).send(b"body")
            assert (await (await other).fetch(timeout=5)).body == b"body"
