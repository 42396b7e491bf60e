"""A cluster with stores starts without the broker whose directory turns out to be no use, and that one comes again."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.actors.members import store_node
from mantamq.actors.members.store_logs import StoreLogs
from mantamq.actors.ray_control.ray_handles import ActorDied, Handle
from mantamq.actors.supervisor import cluster_start
from mantamq.actors.supervisor.address_book import BookEntry
from mantamq.actors.supervisor.cluster_start import ClusterStart
from mantamq.actors.supervisor.launcher import Launcher
from mantamq.actors.supervisor.record import ClusterRecord
from mantamq.client import connect_async
from mantamq.protocol.errors import STORE_DAMAGED, LocalError, StoreError

from tests.unit.actors.supervisor.test_stored_cluster import LIMIT_S, Stored, story

__all__ = ["story"]
MEMBERS = ("b1", "b2", "b3")


async def two_lives(story: Stored) -> Path:
    """A cluster that has lived twice, and was cut off; returns a copy of its directories from between."""
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    await story.power_cut()
    copy = story.data.with_name("copy")
    shutil.copytree(story.data, copy)
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    async with connect_async(await story.addresses()) as there:
        await there.declare_queue("keep", durable=True)
        sender = await there.session().sender("keep")
        await sender.send(b"kept?")
        await sender.sync()
    await story.power_cut()
    return copy


async def kept(story: Stored) -> bytes:
    async with connect_async(await story.addresses()) as there:
        receiver = await there.session().receiver("keep")
        return (await receiver.fetch(timeout=LIMIT_S)).body


async def test_an_old_copy_of_one_directory_holds_up_no_start(story: Stored) -> None:
    copy = await two_lives(story)
    shutil.rmtree(story.data / "b2")
    shutil.copytree(copy / "b2", story.data / "b2")
    await story.up()
    book = await story.supervisor("book_now")
    assert any("without b2" in note and "copy" in note for note in book.notes), await story.supervisor("status")
    assert await kept(story) == b"kept?"
    status = await story.until(lambda s: s["healthy"] and len(s["members"]) == 3, "whole, with b2 up to date")
    assert sorted(status["members"]) == list(MEMBERS)


async def test_a_store_that_is_refused_when_it_is_opened_is_done_without(
    story: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the look before has found it well: a disk may fail in between."""
    await two_lives(story)
    fails = {"b2"}

    class Refusing(StoreLogs):
        def __init__(self, *args: object) -> None:
            if args[2].broker in fails:  # type: ignore[attr-defined]
                raise StoreError(STORE_DAMAGED, "cannot be read after all")
            super().__init__(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(store_node, "StoreLogs", Refusing)
    await story.up()
    book = await story.supervisor("book_now")
    assert any("without b2" in note and "cannot be read after all" in note for note in book.notes)
    assert "b2.store" not in story.ray.named
    assert await kept(story) == b"kept?"
    fails.clear()
    await story.until(lambda s: s["healthy"] and len(s["members"]) == 3, "whole, with b2")
    await story.power_cut()
    fails.update(("b2", "b3"))
    with pytest.raises(LocalError, match="cannot be read after all"):
        await story.up()
    fails.clear()
    await story.power_cut()
    await story.up()
    assert len((await story.supervisor("book_now")).addresses) == 3, "nothing was lost by that"


def start_of(*brokers: str) -> Any:
    """A start of a cluster that was there before, and can do without one of these."""
    record = ClusterRecord()
    for broker in brokers:
        record.book[broker] = BookEntry(Handle(broker, None), "BrokerNode", "n1", "127.0.0.1")
    nobody: Any = None
    start: Any = ClusterStart(record, nobody, nobody, nobody, nobody)
    start._back = SimpleNamespace(enough_without=lambda gone: len(gone) < 2)
    start._stores = dict.fromkeys(brokers, nobody)
    return start


@pytest.mark.parametrize("there_before", [True, False])
async def test_stores_are_opened_while_other_processes_start_where_a_cluster_was_there(there_before: bool) -> None:
    start, done = start_of("b1"), list[str]()
    start._back = start._back if there_before else None
    for name, role in (("b1.store", "StoreNode"), ("b1.r0", "QueueReplica")):
        start._record.book[name] = BookEntry(Handle(name, None), role, "n1", "127.0.0.1")
    opened, up = asyncio.Event(), asyncio.Event()

    class Processes:
        async def verify(self, name: str, timeout_s: float) -> None:
            if name == "b1.r0":
                await up.wait()
            done.append(name)

        async def start_store(self, broker: str, birth: bool) -> None:
            assert birth is not there_before
            done.append("opened")
            opened.set()

    start._launcher = Processes()
    starting = asyncio.create_task(start._processes())
    if there_before:
        await asyncio.wait_for(opened.wait(), LIMIT_S)
        assert "b1.r0" not in done and not starting.done()
        up.set()
    else:
        while len(done) < 2:
            await asyncio.sleep(0)
        up.set()
    await asyncio.wait_for(starting, LIMIT_S)
    assert done[-1] == ("b1.r0" if there_before else "opened")
    assert start._record.stage == "opening stores"


async def test_of_a_process_that_ends_during_a_start_it_is_said_how_and_what_may_be_the_reason() -> None:
    def died(name: str) -> Any:
        async def call(*_: object, **__: object) -> None:
            raise ActorDied(f"{name} is dead: The actor died:\n\tWorker exit detail: killed as one out of memory")

        return call

    for way in ("begin", "link", "serve"):
        start = start_of("b1", "b2", "b3")
        start._record.book["b2"].handle.call = died("b2")
        if way == "begin":
            await start._within(died("b2")(), "b2")
        elif way == "link":
            start._links_of = lambda name: ["sequencer"]
            assert await start._missing("b2", 0.1) == ["b2, which has ended"]
        else:
            assert await start._asked("b2") is None
        [note] = start._record.notes
        assert "without b2, which is started again" in note and "detail: killed as one out of memory), perhaps" in note
        assert note.endswith("put back from a copy: see the log of b2") and "\n" not in note


async def test_there_is_a_pause_between_two_looks_for_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot be asked says so at once."""
    start, done = start_of("b1"), list[str]()

    async def missing(name: str, timeout_s: float) -> list[str]:
        done.append("look")
        return ["b1 cannot be reached"] if len(done) < 5 else []

    async def sleep(seconds: float) -> None:
        done.append(f"sleep {seconds}")

    start._missing = missing
    monkeypatch.setattr(cluster_start, "asyncio", SimpleNamespace(gather=asyncio.gather, sleep=sleep))
    await start._link(time.monotonic() + 60)
    assert done == ["look", "sleep 0.1", "look", "sleep 0.1", "look"]


async def test_the_time_for_links_begins_when_the_stores_are_open(
    story: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gigabyte is read for longer than links may take."""
    passed_s = [0.0]

    async def for_long(self: Launcher, broker: str, birth: bool = False) -> None:
        await start_store(self, broker, birth)
        passed_s[0] = 1000.0

    async def late(self: ClusterStart, name: str, timeout_s: float) -> list[str]:
        """One link is not up when they are looked at first."""
        found = await missing(self, name, timeout_s)
        looked.append(name)
        return ["b1 to its store"] if len(looked) == 1 else found

    looked: list[str] = []
    start_store, missing = Launcher.start_store, ClusterStart._missing
    monkeypatch.setattr(ClusterStart, "_missing", late)
    monkeypatch.setattr(Launcher, "start_store", for_long)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s[0])
    monkeypatch.setattr(cluster_start, "time", clock)
    await story.up()
    assert len((await story.supervisor("book_now")).addresses) == 3
