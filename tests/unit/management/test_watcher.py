"""Looks at a cluster: how often, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mantamq.client.errors import Unavailable
from mantamq.management import watcher
from mantamq.management.view import ManagementView
from mantamq.management.watcher import Watcher

from .. import made_up_status as made

PATIENCE_S = 7.0
"""No other time is like it."""


class Clock:
    """Goes as fast as sleepers ask; a look takes `look_s`."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def watching(clock: Clock, look_s: float = 0.01, status: Any = None, statistics: Any = None) -> Watcher:
    async def good_status() -> Any:
        clock.now_s += look_s
        return made.report(made.actors())

    async def good_statistics() -> Any:
        return {"queues": [], "silent": []}

    return Watcher(ManagementView(), status or good_status, statistics or good_statistics, clock, PATIENCE_S)


async def looks_in(seconds: float, one: Watcher, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many looks there are in so many seconds of the clock."""
    end = clock.now_s + seconds

    async def wait_for(awaitable: Any, timeout_s: float) -> Any:
        if timeout_s == PATIENCE_S:
            return await awaitable
        awaitable.close()
        clock.now_s += timeout_s
        if clock.now_s >= end:
            raise asyncio.CancelledError
        raise TimeoutError

    monkeypatch.setattr(watcher.asyncio, "wait_for", wait_for)
    with pytest.raises(asyncio.CancelledError):
        await one.run()
    return one.looks


async def test_nobody_watches_and_it_looks_each_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    assert await looks_in(50, watching(clock), clock, monkeypatch) in (5, 6)


async def test_somebody_watches_and_it_looks_each_second_for_some_seconds(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    one = watching(clock)
    one.watched()
    assert 14 <= await looks_in(15, one, clock, monkeypatch) <= 16


async def test_members_are_asked_every_other_second_and_each_time_while_one_is_not_heard(
    monkeypatch: pytest.MonkeyPatch,
):
    clock, asked, heard = Clock(), list[float](), [True]

    async def status() -> Any:
        asked.append(clock.now_s)
        if not heard[0]:
            raise Unavailable("brokers came and went")
        return made.report(made.actors())

    one = watching(clock, status=status)
    one.watched()
    looks = await looks_in(14, one, clock, monkeypatch)
    assert looks >= 13
    assert len(asked) == (looks + 1) // 2

    asked.clear()
    heard[0] = False
    one.watched()
    more = await looks_in(14, one, clock, monkeypatch) - looks
    assert more >= 13
    assert len(asked) in (more - 1, more), "but perhaps the first, just after one that was heard"


async def test_looks_that_take_long_are_rare(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    one = watching(clock, look_s=0.2)
    one.watched()
    assert await looks_in(14, one, clock, monkeypatch) in (4, 5), "a twentieth of the time"


async def test_ten_seconds_are_never_passed_without_a_look(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    one = watching(clock, look_s=2.0)
    one.watched()
    assert await looks_in(120, one, clock, monkeypatch) in (10, 11)


async def test_one_look_that_was_held_up_does_not_make_the_next_ones_rare(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    took_s = iter([0.01, 5.0])

    async def status() -> Any:
        clock.now_s += next(took_s, 0.01)
        return made.report(made.actors())

    one = watching(clock, status=status)
    one.watched()
    assert await looks_in(14, one, clock, monkeypatch) >= 9


async def test_who_begins_to_watch_does_not_wait_for_the_next_quiet_look():
    one = Watcher(*_of(ManagementView()))
    task = asyncio.create_task(one.run())
    while one.looks < 1:
        await asyncio.sleep(0)
    one.watched()
    async with asyncio.timeout(3):  # a quiet one would come after ten seconds
        while one.looks < 2:
            await asyncio.sleep(0.01)
    task.cancel()


def _of(view: ManagementView) -> tuple[Any, ...]:
    async def status() -> Any:
        return made.report(made.actors())

    async def statistics() -> Any:
        return {"queues": [], "silent": []}

    return view, status, statistics


async def test_who_asks_is_shown_nothing_old_and_many_who_ask_at_once_share_a_look():
    clock = Clock()
    one = watching(clock)
    await one.fresh()
    assert one.looks == 1
    await one.fresh()
    assert one.looks == 1, "that look is fresh"
    clock.now_s += 1.5
    await asyncio.gather(*(one.fresh() for _ in range(5)))
    assert one.looks == 2


async def test_who_asks_does_not_wait_for_looks_that_take_long():
    clock = Clock()
    one = watching(clock, look_s=2.0)
    await one.look()
    await one.look()
    clock.now_s += 5.0
    await one.fresh()
    assert one.looks == 2
    clock.now_s += 6.0
    await one.fresh()
    assert one.looks == 3


async def test_what_is_not_to_be_had_is_a_trouble_of_the_view():
    async def unavailable() -> Any:
        raise Unavailable("brokers came and went")

    view = ManagementView()
    status, statistics = _of(view)[1:]
    await Watcher(view, unavailable, statistics).look()
    assert view.troubles == {"status": "brokers came and went"}
    await Watcher(view, status, unavailable).look()
    assert view.troubles == {"statistics": "brokers came and went"}
    assert view.status is not None


async def test_what_fails_in_a_way_that_nobody_thought_of_ends_no_looks():
    async def broken() -> Any:
        raise KeyError("b9")

    one = watching(Clock(), status=broken)
    for _ in range(2):
        await one.look()
    assert one.looks == 2 and one._view.troubles == {"status": "KeyError: 'b9'"}


async def test_what_never_answers_is_given_up():
    async def never() -> Any:
        await asyncio.Event().wait()

    view = ManagementView()
    await Watcher(view, never, _of(view)[2], patience_s=0.01).look()
    assert view.troubles == {"status": "no answer within 0.01 s"}


async def test_a_look_waits_for_the_one_that_is_under_way():
    under_way: list[str] = []
    go_on = asyncio.Event()

    async def status() -> Any:
        assert under_way == []
        under_way.append("a look")
        await go_on.wait()
        under_way.clear()
        return made.report(made.actors())

    one = watching(Clock(), status=status)
    looks = [asyncio.create_task(one.look()) for _ in range(3)]
    for _ in range(10):  # as far as they go
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*looks)
    assert one.looks == 3
