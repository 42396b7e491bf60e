"""The event table of a cluster that is started again: it goes on where it was."""

from __future__ import annotations

import asyncio
import time

import pytest
from mantamq.actors.config import EventsConfig
from mantamq.actors.supervisor.plan import Plan
from mantamq.client import connect_async
from msgspec.structs import replace

from tests.unit.actors.supervisor.test_stored_cluster import LIMIT_S, Stored, story

__all__ = ["story"]


async def test_the_event_table_goes_on_in_the_folder_that_the_cluster_has(
    story: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    from mantamq.actors.members import event_tap
    from mantamq.store.events.event_folders import folders, newest_folder
    from mantamq.store.events.event_parts import list_parts

    events = f"{story.data}-events"

    def rows(folder: str) -> int:
        parts = list_parts(folder).parts
        return parts[-1].row_last if parts else 0

    monkeypatch.setattr(event_tap, "_put", lambda block: block)

    async def up() -> str:
        """Start, have something written, and stop."""
        config = replace(story.config(), events=EventsConfig(directory=events))
        await story.supervisor("start_cluster", Plan.of(0, config))
        await story.whole("b1.store", "b2.store", "b3.store", "events")
        tap = story.ray.named["events"].actor
        folder, before, now_us = tap._writer.directory, rows(tap._writer.directory), time.time_ns() // 1000
        async with connect_async(await story.addresses()) as there:
            await there.declare_exchange(f"news {before}", "fanout")
        async with asyncio.timeout(LIMIT_S):
            while rows(folder) == before or list_parts(folder).parts[-1].time_last_us < now_us:  # told again, perhaps
                await tap.roll()
                await asyncio.sleep(0.05)
        await story.power_cut()
        return folder

    first = await up()
    had = rows(first)
    assert await up() == first and folders(events) == [first]
    assert rows(first) > had, "it goes on behind what was there"
    story.data = story.data.with_name("another")
    second = await up()
    assert second != first and newest_folder(events) == second
    story.data = story.data.with_name("data")
    assert await up() == first and newest_folder(events) == first, "that of the cluster that has written last"
