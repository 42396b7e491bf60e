"""`mantamq.client.Queue` has the methods, and the manners, of `ray.util.queue.Queue`."""

from __future__ import annotations

import pickle
import queue
import sys
import threading

import pytest
from fake_broker import FakeBroker
from mantamq.client import Empty, Full, Queue


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        yield broker


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
    threading.Timer(0.02, handle.get).start()
    handle.put(3, timeout=5)
    assert [handle.get(timeout=5), handle.get(timeout=5)] == [2, 3]


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
