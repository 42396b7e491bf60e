"""`Queue(maxsize=n)`: the size is the queue's own, over all handles, brokers and processes."""

from __future__ import annotations

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mantamq.client import Exists, Full, Queue, connect, queue_handle

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def two(cluster):
    """A handle at each broker: as in two processes."""
    yield Queue("small", 3, address=cluster.addresses["b1"]), Queue("small", 3, address=cluster.addresses["b2"])
    queue_handle._close_all()


def tried(put, item):
    try:
        put(item)
    except Full:
        return None
    return item


def test_of_all_who_put_at_once_so_many_succeed_as_there_is_room(two):
    one, other = two
    with ThreadPoolExecutor(12) as pool:
        puts = [pool.submit(tried, handle.put_nowait, n) for n in range(6) for handle in two]
        added = sorted(item for put in puts if (item := put.result(20)) is not None)
    assert len(added) == 3 and one.full() and other.full()
    assert sorted(other.get_nowait_batch(3)) == added
    assert one.empty() and not one.full()


async def test_so_with_the_asyncio_twins(two):
    async def put(handle, item):
        try:
            await handle.put_async(item, block=False)
        except Full:
            return None
        return item

    results = await asyncio.gather(*(put(handle, n) for n in range(6) for handle in two))
    added = sorted(item for item in results if item is not None)
    assert len(added) == 3
    assert sorted([await two[1].get_async(timeout=5) for _ in range(3)]) == added


def test_whoever_waits_for_room_gets_it_and_each_item_is_there_once(two):
    one, other = two
    with ThreadPoolExecutor(4) as pool:
        puts = [pool.submit(lambda t=t, h=h: [h.put((t, n), timeout=50) for n in range(8)])
                for t, h in enumerate((one, other, one, other))]  # fmt: skip
        got = [one.get(timeout=20) for _ in range(32)]
        for put in puts:
            put.result(20)
    assert sorted(got) == [(t, n) for t in range(4) for n in range(8)]
    for t in range(4):
        assert [n for thread, n in got if thread == t] == list(range(8)), "in the order of one that puts"
    assert other.empty()


def test_what_was_got_has_made_room_also_for_others(two):
    one, other = two
    other.put_nowait_batch([1, 2, 3])
    for n in range(4, 40):
        assert one.get_nowait() == n - 3
        other.put_nowait(n)
    one.get_nowait_batch(2)
    other.put_nowait_batch([40, 41])


async def test_what_was_got_has_made_room_for_the_asyncio_twin(two):
    for n in range(1, 40):
        await two[0].put_async(n, block=False)
        if n >= 3:
            assert await two[0].get_async(block=False) == n - 2


def test_full_is_said_after_the_time_out_and_the_item_is_not_added(two):
    one, other = two
    one.put_nowait_batch([1, 2, 3])
    with pytest.raises(Full, match="'small' has its 3 messages"):
        other.put(4, timeout=0.05)
    assert other.get_nowait_batch(3) == [1, 2, 3] and other.empty()


async def test_so_it_is_for_the_asyncio_twin(two):
    one, other = two
    one.put_nowait_batch([1, 2, 3])
    with pytest.raises(Full, match="'small' has its 3 messages"):
        await other.put_async(4, timeout=0.05)
    assert other.get_nowait_batch(3) == [1, 2, 3] and other.empty()


def test_a_batch_that_does_not_fit_adds_nothing_and_of_one_that_others_outran_the_rest_is_told(two, monkeypatch):
    one, other = two
    one.put_nowait(0)
    with pytest.raises(Full) as caught:
        other.put_nowait_batch([1, 2, 3])
    assert one.size() == 1 and caught.value.left == ()
    look = Queue._has_room

    def overtaken(self, count):
        there = look(self, count)
        one.put_nowait("faster")
        return there

    monkeypatch.setattr(Queue, "_has_room", overtaken)
    with pytest.raises(Full, match="1 of 2 items are added") as caught:
        other.put_nowait_batch(["a", "b"])
    assert caught.value.left == ["b"] and pickle.loads(pickle.dumps(caught.value)).left == ["b"]
    assert one.get_nowait_batch(3) == [0, "faster", "a"]


def test_a_consumer_that_is_no_handle_counts_and_so_does_what_it_holds(two, cluster):
    one, other = two
    one.put_nowait_batch([1, 2, 3])
    with connect(cluster.address) as connection:
        session = connection.session()
        receiver = session.receiver("small", capacity=1)
        receiver.fetch(5)
        assert other.full()
        with pytest.raises(Full):
            other.put_nowait(4)
        session.acknowledge()
        session.sync(5)
        other.put_nowait(4)


def test_who_says_no_size_has_the_queues_and_another_size_is_refused(two, cluster):
    assert Queue("small", address=cluster.address).maxsize == 3
    with pytest.raises(Exists, match="'small' is there with maxsize=3: leave maxsize=4 out to use it as it is"):
        Queue("small", 4, address=cluster.address)
    Queue("large", address=cluster.address)
    with pytest.raises(Exists, match="no such limit"):
        Queue("large", 4, address=cluster.address)
    with connect(cluster.address) as connection:
        connection.declare_queue("ring", max_count=3, overflow="ring")
        connection.declare_queue("both", max_count=3, max_size=1 << 20)
        connection.declare_queue("flow", max_count=3)
    assert Queue("ring", address=cluster.address).maxsize == Queue("both", address=cluster.address).maxsize == 0
    assert Queue("flow", 3, address=cluster.address).maxsize == 3


def test_threads_of_one_handle_hear_of_their_own_items(two):
    """They share a sender: what is refused to one must not be told another."""
    one, _ = two
    start = threading.Barrier(8)

    def put(n):
        start.wait(10)
        return tried(one.put_nowait, n)

    with ThreadPoolExecutor(8) as pool:
        added = sorted(n for n in pool.map(put, range(8)) if n is not None)
    assert sorted(one.get_nowait_batch(3)) == added
