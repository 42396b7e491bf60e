"""`mantamq.client.Queue` has the methods, and the manners, of `ray.util.queue.Queue`."""

from __future__ import annotations

import asyncio
import pickle
import queue
import sys
import threading
import time

import pytest
from fake_broker import FakeBroker
from mantamq.client import Connection, Deleted, Empty, Full, NotFound, Queue, connect, queue_handle


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        yield broker
        queue_handle._close_all()  # or the next test's "cluster that is found" would be this one, which is gone


@pytest.fixture
def handle(broker):
    return Queue("q", address=broker.address)


def test_objects_come_back_as_they_went(handle):
    items = [1, "text", b"bytes", None, {"a": (1, 2)}]
    for item in items:
        handle.put(item)
    assert handle.qsize() == len(handle) == 5 and not handle.empty()
    assert [handle.get() for _ in items] == items
    with pytest.raises(Empty):
        handle.get_nowait()
    with pytest.raises(queue.Empty):
        handle.get(timeout=0.01)
    assert handle.empty()


async def test_the_asyncio_twins(handle):
    await handle.put_async({"n": 1})
    assert await handle.get_async() == {"n": 1}
    with pytest.raises(Empty):
        await handle.get_async(block=False)


def test_maxsize(broker):
    handle = Queue("small", maxsize=2, address=broker.address)
    handle.put_nowait_batch([1, 2])
    assert handle.full()
    with pytest.raises(Full):
        handle.put_nowait(3)
    with pytest.raises(queue.Full):
        handle.put(3, timeout=0.01)
    getter = threading.Timer(0.02, handle.get)
    getter.start()
    handle.put(3, timeout=20)
    getter.join(20)  # of two who get at the same time either may get what comes first
    assert [handle.get(timeout=20), handle.get(timeout=20)] == [2, 3]


def test_batches_are_all_or_none(handle):
    handle.put_nowait_batch(range(3))
    with pytest.raises(Empty):
        handle.get_nowait_batch(4)
    assert handle.get_nowait_batch(3) == [0, 1, 2]
    assert handle.get_nowait_batch(0) == []


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda q: q.put(1, timeout=-1), ValueError),
        (lambda q: q.get(timeout=-1), ValueError),
        (lambda q: q.get_nowait_batch(-1), ValueError),
        (lambda q: q.get_nowait_batch("1"), TypeError),
        (lambda q: q.put_nowait_batch(1), TypeError),
    ],
)
def test_wrong_arguments_are_refused_as_ray_does(handle, call, error):
    with pytest.raises(error):
        call(handle)


def test_a_handle_travels(handle):
    handle.put(1)
    travelled = pickle.loads(pickle.dumps(handle))
    assert travelled.name == "q"
    travelled._addresses = handle._addresses  # the machines' members have made-up addresses
    assert travelled.get(timeout=5) == 1


def test_shutdown_deletes_the_queue(broker, handle):
    handle.put(1)
    handle.shutdown()
    assert Queue("q", address=broker.address).empty()


def test_no_ray_is_imported_for_a_plain_address():
    import subprocess

    code = "import sys, mantamq.client; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_a_number_is_maxsize_and_no_name_is_a_queue_of_its_own(broker, monkeypatch):
    monkeypatch.setattr(
        "mantamq.client.queue_handle.find_or_start", lambda token, start=True: ([broker.address], token)
    )
    one, two, five = Queue(), Queue(), Queue(5)
    one.put(1)
    assert two.empty() and one.get() == 1
    assert (five.maxsize, one.maxsize, Queue(maxsize=3).maxsize, Queue("named", 4).maxsize) == (5, 0, 3, 4)
    five.put_nowait_batch(range(5))
    with pytest.raises(Full):
        five.put_nowait(6)
    assert len({one.name, two.name, five.name}) == 3
    assert Queue(5, {"num_cpus": 1, "name": "asked"}).name == "asked"


def test_a_connection_to_a_cluster_that_is_gone_is_not_used_for_the_one_that_the_rule_names_now(monkeypatch):
    """It used to be looked for 30 s long, and then ConnectionLost was raised."""
    for _ in range(2):
        with FakeBroker() as cluster:
            address = cluster.address
            monkeypatch.setattr(
                "mantamq.client.queue_handle.find_or_start", lambda token, start=True, a=address: ([a], token)
            )
            handle = Queue("q")
            handle.put(1)
            assert handle.get(timeout=5) == 1
        assert handle._opened is not None
        connection = handle._opened[0].connection
        end = time.monotonic() + 5
        while not connection._seeking:
            assert time.monotonic() < end, "the loss is not noticed"
            time.sleep(0.002)


async def test_nor_by_the_asyncio_twins(monkeypatch):
    for _ in range(2):
        with FakeBroker() as cluster:
            address = cluster.address
            monkeypatch.setattr(
                "mantamq.client.queue_handle.find_or_start", lambda token, start=True, a=address: ([a], token)
            )
            handle = Queue("q")
            async with asyncio.timeout(5):
                await asyncio.gather(*(handle.put_async(n) for n in range(3)))
                assert sorted([await handle.get_async() for _ in range(3)]) == [0, 1, 2]
        connection = list(handle._async_links)[-1]
        async with asyncio.timeout(5):
            while connection._seeking is None:
                await asyncio.sleep(0.002)


def test_an_unnamed_queue_goes_with_its_process_and_a_named_one_stays(broker):
    from mantamq.client import connect

    Queue("stays", address=broker.address).put(1)
    unnamed = Queue(address=broker.address)
    unnamed.put(1)
    queue_handle._close_all()
    with connect(broker.address) as connection:
        names = {one["name"] for one in connection.queues()}
    assert "stays" in names and unnamed.name not in names


@pytest.mark.parametrize("wrong, named", [
    ({"num_cpus": 1, "concurrency_groups": {}}, "concurrency_groups"), ({"namespace": "x"}, "namespace"),
    ({"get_if_exists": False}, "get_if_exists"), ({"name": "other"}, "other"),
])  # fmt: skip
def test_options_of_an_actor_are_accepted_or_refused_by_name(broker, wrong, named):
    with pytest.raises(ValueError, match=named):
        Queue("q", address=broker.address, actor_options=wrong)
    Queue("q", address=broker.address, actor_options={"num_cpus": 1, "resources": {"x": 1}, "lifetime": "detached"})


def test_a_failed_first_use_breaks_nothing(broker):
    handle = Queue("later", address=broker.address, create=False)
    for _ in range(2):
        with pytest.raises(NotFound, match="later"):
            handle.put(1)
        with pytest.raises(NotFound, match="later"):
            handle.get_nowait()
    Queue("later", address=broker.address)
    handle.put(1)
    assert handle.get_nowait() == 1


async def test_a_failed_first_use_breaks_nothing_async(broker):
    handle = Queue("later", address=broker.address, create=False)
    for _ in range(2):
        with pytest.raises(NotFound, match="later"):
            await handle.put_async(1)
    Queue("later", address=broker.address)
    await handle.put_async(1)
    assert await handle.get_async(block=False) == 1


async def test_a_queue_that_was_deleted_and_declared_again_is_used_again(broker, handle):
    handle.put(1)
    await handle.put_async(2)
    assert handle.get() == 1
    for _ in range(2):
        handle.shutdown()
        handle.shutdown()  # as Ray's: the second time there is nothing to do
        with pytest.raises((NotFound, Deleted)):
            handle.put(3)
        with pytest.raises((NotFound, Deleted)):
            await handle.put_async(3)
        Queue("q", address=broker.address)
        handle.put(4)
        await handle.put_async(5)
        assert [handle.get(timeout=5), await handle.get_async(timeout=5)] == [4, 5]


def test_a_signature_of_rays_is_one_of_ours():
    import inspect

    from ray.util.queue import Queue as Rays

    for name, method in inspect.getmembers(Rays, inspect.isfunction):
        if not name.startswith("_"):
            theirs, ours = (inspect.signature(m).parameters for m in (method, getattr(Queue, name)))
            assert [(p.name, p.default, p.kind) for p in theirs.values()] == [
                (p.name, p.default, p.kind) for p in ours.values()
            ], name
            assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(getattr(Queue, name))


async def test_what_is_caught_as_rays_is_caught_as_ours(broker, handle):
    from ray.util import queue as rays

    small = Queue("small", 1, address=broker.address)
    small.put(1)
    asked = [
        (lambda: handle.get_nowait(), Empty), (lambda: handle.get(timeout=0.01), Empty),
        (lambda: handle.get_nowait_batch(2), Empty), (lambda: small.put_nowait(1), Full),
        (lambda: small.put(1, timeout=0.01), Full), (lambda: small.put_nowait_batch([1]), Full),
    ]  # fmt: skip
    for call, ours in asked:
        with pytest.raises(getattr(rays, ours.__name__)) as caught:
            call()
        assert isinstance(caught.value, ours)
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), ours)
    with pytest.raises(rays.Empty):
        await handle.get_async(block=False)
    with pytest.raises(rays.Full):
        await small.put_async(1, block=False)
    with pytest.raises(ValueError):
        handle.put(1, timeout=-1)
    handle.put(1, block=False, timeout=-1)  # not looked at, as Ray does not


def test_a_cluster_that_does_not_answer_holds_up_no_handle_of_another(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
):
    begun, over = threading.Event(), threading.Event()

    def slow(addresses: list[str], token: str) -> Connection:
        if addresses == ["silent:1"]:
            begun.set()
            assert over.wait(60)
        return connect(broker.address, token)

    monkeypatch.setattr(queue_handle, "connect", slow)
    opening = threading.Thread(target=Queue, args=("orders",), kwargs={"address": "silent:1"})
    opening.start()
    assert begun.wait(60)
    other = threading.Thread(target=Queue, args=("orders",), kwargs={"address": broker.address})
    other.start()
    other.join(30)
    held_up = other.is_alive()
    over.set()
    for thread in (opening, other):
        thread.join(60)
    assert not held_up
