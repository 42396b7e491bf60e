"""The client as a stranger's editor, type checker and slips see it."""

from __future__ import annotations

import gc
import inspect

import pytest
from fake_broker import FakeBroker
from mantamq import client
from mantamq.client import connect_async

pytestmark = pytest.mark.timeout(20)

SYNC = [client.Connection, client.Session, client.Sender, client.Receiver]
ASYNC = [client.AsyncConnection, client.AsyncSession, client.AsyncSender, client.AsyncReceiver]
SPEAKS_TO_NOBODY = {"session", "send_nowait", "fetch_nowait"}


def public(cls):
    """Public methods and properties by name, inherited ones too."""
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", [*SYNC, *ASYNC, client.Message], ids=lambda cls: cls.__name__)
def test_what_is_public_says_what_it_does_and_of_what_type_it_is(cls):
    for name, value in public(cls).items():
        function = value.fget if isinstance(value, property) else value
        if not callable(function):
            continue  # a slot
        assert function.__doc__, f"{cls.__name__}.{name} is public and says nothing"
        hints = inspect.get_annotations(function)
        wanted = {*inspect.signature(function).parameters, "return"} - {"self", "cls"}
        assert not wanted - set(hints), f"{cls.__name__}.{name} lacks types: {wanted - set(hints)}"
        assert function.__qualname__.startswith("Queue") or hints["return"] != "Any", f"{cls.__name__}.{name}"


@pytest.mark.parametrize(("one", "twin"), [*zip(SYNC, ASYNC, strict=True)], ids=lambda cls: cls.__name__)
def test_the_twins_have_the_same_methods_with_the_same_arguments(one, twin):
    assert set(public(one)) ^ set(public(twin)) <= {"connection"}
    for name, function in public(one).items():
        if inspect.isfunction(function):
            ours, theirs = (list(inspect.signature(f).parameters.values()) for f in (function, public(twin)[name]))
            without = [
                p for p in ours if p.name != "timeout" or name not in ("send", "send_to", "send_later")
            ]  # asyncio.timeout does that
            assert [(p.name, p.default) for p in without] == [(p.name, p.default) for p in theirs], name


@pytest.mark.parametrize("cls", ASYNC, ids=lambda cls: cls.__name__)
def test_what_speaks_to_the_cluster_is_a_coroutine(cls):
    for name, function in public(cls).items():
        if inspect.isfunction(function):
            plain = name in SPEAKS_TO_NOBODY or inspect.isasyncgenfunction(function)
            assert inspect.iscoroutinefunction(inspect.unwrap(function)) is not plain, f"{cls.__name__}.{name}"


async def test_a_forgotten_await_is_named():
    with FakeBroker() as cluster:
        async with connect_async(cluster.address) as connection:
            await connection.declare_queue("q")
            session = connection.session()
            sender = await session.sender("q")
            await sender.send(b"1")
            message = await (await session.receiver("q")).fetch(5)
            slips = {
                "acknowledge": lambda: session.acknowledge(message),
                "send": lambda: sender.send(b"2"),
                "declare_queue": lambda: connection.declare_queue("other"),
            }
            for name, slip in slips.items():
                with pytest.warns(RuntimeWarning, match=rf"'\w+\.{name}' was never awaited"):
                    slip()
                    gc.collect()
            await session.acknowledge(message)  # nothing had happened
            await session.sync(5)
            with pytest.raises(client.NotFound):
                await connection.queue("other")
