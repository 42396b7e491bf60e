"""A start that is refused leaves every byte as it was: logs, `store.json`, the lock, and no file more (`durable.md` 4)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from mantamq.client import connect_async
from mantamq.protocol.errors import LocalError
from mantamq.store.files import RealFiles

from tests.unit.actors.supervisor.test_stored_cluster import LIMIT_S, Stored, story

__all__ = ["story"]


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its content, and every folder."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = None if path.is_dir() else path.read_bytes()
    return found


def say(data: Path, broker: str, **values: object) -> None:
    path = data / broker / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def cut(data: Path, broker: str, log: str = "tx") -> None:
    """As an editor or a full disk would: the newest container is half as long."""
    path = max((data / broker / log).glob("0*.log"))
    os.truncate(path, path.stat().st_size // 2)


def cut_by_hand(data: Path) -> None:
    for broker in ("b1", "b2"):
        for path in (data / broker / "tx").glob("0*.log"):
            os.truncate(path, 100)


def other_cluster(data: Path) -> None:
    for broker in ("b1", "b2"):
        say(data, broker, cluster=f"another of {broker}")


def newer(data: Path) -> None:
    for broker in ("b1", "b2", "b3"):
        say(data, broker, format=99)


def left(data: Path) -> None:
    for broker in ("b1", "b2"):
        say(data, broker, status="left")


def emptied(data: Path) -> None:
    for broker in ("b1", "b2"):
        shutil.rmtree(data / broker)
        (data / broker).mkdir()


def lost_its_word(data: Path) -> None:
    for broker in ("b1", "b2"):
        (data / broker / "store.json").unlink()


def under_anothers_name(data: Path) -> None:
    shutil.rmtree(data / "b3")
    shutil.rmtree(data / "b2")
    shutil.copytree(data / "b1", data / "b2")


async def a_cluster(story: Stored) -> None:
    """Of three, that was cut off, with a torn end in a log."""
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    await story.placed("b1", "b2", "b3")
    await story.power_cut()


async def refused(story: Stored, text: str, brokers: int = 0, **store: object) -> None:
    before = tree(story.data)
    with pytest.raises(LocalError, match=text):
        await story.up(brokers, **store)
    await story.power_cut()
    assert tree(story.data) == before


@pytest.mark.parametrize(
    ("befalls", "text"),
    [
        (other_cluster, "different clusters|majority"),
        (newer, "newer mantamq"),
        (left, "majority of b1, b2, b3"),
        (emptied, "recover --from b3"),
        (cut_by_hand, "header that can be read|recover --from b3|majority"),
        (lost_its_word, "no store.json"),
        (under_anothers_name, "is the store of b1|majority"),
    ],
)
async def test_what_is_refused_is_left_as_it_was(
    story: Stored, befalls: Callable[[Path], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mantamq.actors.supervisor.store_start.StoreStart.run.__defaults__", (0.0,))
    await a_cluster(story)
    befalls(story.data)
    await refused(story, text)


async def test_another_number_of_brokers(story: Stored) -> None:
    await a_cluster(story)
    await refused(story, "has 3 brokers .b1, b2, b3., not 5: start without --brokers", brokers=5)


async def test_a_restart_of_nothing(story: Stored) -> None:
    story.data.mkdir()
    await refused(story, "start without --restart", restart=True)
    shutil.rmtree(story.data)
    with pytest.raises(LocalError, match="start without --restart"):
        await story.up(restart=True)
    assert not story.data.exists()


async def test_stores_that_another_process_has(story: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mantamq.actors.supervisor.store_start.StoreStart.run.__defaults__", (0.0,))
    await a_cluster(story)
    held = [RealFiles().lock(f"{story.data}/{broker}/lock", "another, process 7") for broker in ("b1", "b2")]
    await refused(story, "held by another, process 7")
    for lock in held:
        lock.release()


async def test_stores_of_a_cluster_whose_last_processes_are_about_to_end(story: Stored) -> None:
    await a_cluster(story)
    held = [RealFiles().lock(f"{story.data}/{broker}/lock", "b.store, process 7") for broker in ("b1", "b2", "b3")]
    await refused(story, "no store can be used: .*held by b.store, process 7.*: stop that one first")
    start = asyncio.ensure_future(story.up(wait_s=60.0))
    async with asyncio.timeout(LIMIT_S):
        while not (handle := story.ray.supervisor()) or "no store can be used" not in handle.actor._record.stage:
            assert not start.done(), f"it waits for them, and does not end with {start}"
            await asyncio.sleep(0.02)
    for lock in held:
        lock.release()
    await start
    assert len((await story.supervisor("book_now")).addresses) == 3


async def test_a_network_and_a_disk_that_is_mounted_read_only(story: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mantamq.actors.supervisor.store_start.StoreStart.run.__defaults__", (0.0,))
    await a_cluster(story)
    mounted = SimpleNamespace(mountpoint=str(story.data), fstype="nfs4")
    with monkeypatch.context() as patch:
        patch.setattr(psutil, "disk_partitions", lambda all: [mounted])
        await refused(story, "network file system .nfs4.")
    real = os.statvfs

    class ReadOnly:
        f_flag = os.ST_RDONLY

        def __init__(self, path: str) -> None:
            self._real = real(path)

        def __getattr__(self, name: str) -> int:
            return getattr(self._real, name)

    with monkeypatch.context() as patch:
        patch.setattr("mantamq.store.files.os.statvfs", ReadOnly)
        await refused(story, "mounted read-only: mount it for writing")
        shutil.rmtree(story.data)
        story.data.mkdir()
        await refused(story, "mounted read-only: mount it for writing")


async def test_a_disk_without_room_for_a_new_store(story: Stored) -> None:
    story.data.mkdir()
    await refused(story, "there is no room in", container_bytes=1 << 30, containers=100_000)


async def test_a_torn_end_is_cut_when_it_is_decided_and_not_before(story: Stored) -> None:
    await a_cluster(story)
    path = max((story.data / "b1" / "messages").glob("0*.log"))
    before, spares = path.read_bytes(), [one.name for one in path.parent.glob("spare-*")]
    await refused(story, "not 5", brokers=5)
    assert path.read_bytes() == before and [one.name for one in path.parent.glob("spare-*")] == spares
    await story.up()
    assert sorted(one.name for one in path.parent.glob("0*.log"))[-1] > path.name, "the log goes on behind it"


@pytest.mark.parametrize(
    ("values", "text"),
    [({"cluster": "another"}, "belongs to the cluster another"), ({"format": 99}, "newer mantamq")],
    ids=["another's", "newer"],
)
async def test_one_that_is_refused_is_left_alone_also_by_the_cluster_that_goes_on_without_it(
    story: Stored, values: dict[str, object], text: str
) -> None:
    await a_cluster(story)
    say(story.data, "b3", **values)
    before = tree(story.data / "b3")
    await story.up(node_wait_s=0.2)
    assert any(text in note for note in (await story.supervisor("book_now")).notes), "the operator is told at the start"
    await story.until(lambda s: any("b3" in one and text in one for one in s["unhealthy"]), "said why b3 stays away")
    assert tree(story.data / "b3") == before


@pytest.mark.parametrize("log", ["tx", "messages"])
async def test_a_container_cut_by_hand_at_one_broker_holds_up_no_start(story: Stored, log: str) -> None:
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    async with connect_async(await story.addresses()) as there:
        await there.declare_queue("keep", durable=True)
        sender = await there.session().sender("keep")
        await sender.send(b"kept?")
        await sender.sync()
    await story.power_cut()
    cut(story.data, "b2", log)
    await story.up()
    await story.until(lambda s: s["healthy"] and len(s["members"]) == 3, "whole, with b2 brought up to date")
    async with connect_async((await story.supervisor("book_now")).addresses["b2"]) as there:
        receiver = await there.session().receiver("keep")
        assert (await receiver.fetch(timeout=LIMIT_S)).body == b"kept?"
