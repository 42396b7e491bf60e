"""Stores that die or whose disks fail, in a whole cluster in one process: the group begins again with what it had, until
its disk has failed too often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mantamq.client import connect_async
from mantamq.protocol.machine import broker_of

from tests.unit.actors.supervisor.test_stored_cluster import Stored
from tests.unit.actors.supervisor.test_supervised_cluster import LIMIT_S
from tests.unit.ray_in_memory import MadeUpHandle, nodes_in_memory

READ_ERROR = OSError(5, "Input/output error", "/a/file")


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Stored]:
    with nodes_in_memory():
        one = Stored(tmp_path / "data")
        await one.up()
        await one.whole("b1.store", "b2.store", "b3.store")
        yield one
        await one.ray.gone()


def keeper(story: Stored, broker: str) -> Any:
    return story.ray.named[broker].actor.shell.machine.keeper


def fail(store: MadeUpHandle) -> None:
    """The next flush of this store does not return well."""

    def commit(effect: Any) -> Any:
        raise READ_ERROR

    store.actor._running_logs().commit = commit


async def declared(story: Stored, *names: str) -> set[str]:
    """Declare exchanges; returns those there are, by each broker's word."""
    there = (await story.supervisor("book_now")).addresses
    async with connect_async(there["b1"]) as one:
        for name in names:
            await one.declare_exchange(name, "fanout")
    found: list[set[str]] = []
    for address in there.values():
        async with connect_async(address) as one:
            found.append({exchange["name"] for exchange in await one.exchanges()})
    assert all(each == found[0] for each in found)
    return found[0]


async def gone(handle: MadeUpHandle) -> None:
    async with asyncio.timeout(LIMIT_S):
        await handle.dead.wait()


async def test_a_store_that_dies_takes_its_group_along_and_that_comes_back_with_its_log(story: Stored) -> None:
    await declared(story, "news")
    before = dict(story.ray.named)
    log_inc, life = keeper(story, "b2").log_inc, story.json("b2")["life"]
    story.ray.named["b2.store"].kill()
    await asyncio.gather(*(gone(before[name]) for name in ("b2", "b2.r0")))
    await story.whole("b2", "b2.store")
    assert await declared(story, "weather") >= {"news", "weather"}
    after = story.ray.named
    assert {broker_of(name) for name in before if after.get(name) is not before[name]} == {"b2"}
    assert story.json("b2")["life"] > life == log_inc == keeper(story, "b2").log_inc, "it came back as the same voter"
    assert not keeper(story, "b2").blank and sum(broker_of(name) == "b2" for name in after) == 3


async def test_a_disk_that_fails_three_times_has_its_broker_left_down_and_status_says_why(story: Stored) -> None:
    for time in range(3):
        group = [handle for name, handle in story.ray.named.items() if broker_of(name) == "b2"]
        fail(story.ray.named["b2.store"])
        there = (await story.supervisor("book_now")).addresses
        async with connect_async(there["b1"]) as one:
            await one.declare_exchange(f"e{time}", "fanout")
        await asyncio.gather(*map(gone, group))
        if time < 2:
            await story.whole("b2", "b2.store")

    def left_down(status: dict[str, Any]) -> bool:
        said = any("b2 is left down" in line and "errno 5" in line for line in status["unhealthy"])
        return said and "b2" not in status["members"]

    said = await story.until(left_down, "left down, and clients are not sent there")
    assert not [line for line in said["unhealthy"] if "is being replaced" in line]
    await declared(story, "more")
    first = story.ray.named["supervisor"]
    first.kill()
    async with asyncio.timeout(LIMIT_S):
        while story.ray.named.get("supervisor", first) is first:
            await asyncio.sleep(0.05)
    began = len(story.ray.all)
    await story.until(lambda status: status["supervisor"]["number"] == 2 and left_down(status), "known to the next one")
    assert not [one.name for one in story.ray.all[began:] if broker_of(one.name) == "b2"], "it is tried again"
    await story.supervisor("remove_broker", "its disk is gone", "b2")
    async with asyncio.timeout(LIMIT_S):
        while not (now := await story.supervisor("progress", "its disk is gone"))["ended"]:
            await asyncio.sleep(0.1)
    assert not now["error"] and not [name for name in story.ray.named if broker_of(name) == "b2"]
    await story.whole("b1", "b3")
