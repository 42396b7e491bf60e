"""A whole cluster with stores in one process, on real files: it begins, goes on, is refused, and ends clean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mantamq.actors.config import ClusterConfig, StoreConfig
from mantamq.actors.ray_control.ray_handles import ActorDied
from mantamq.actors.supervisor.clean_stop import CleanStop
from mantamq.actors.supervisor.launcher import Launcher
from mantamq.actors.supervisor.plan import Plan
from mantamq.client import connect_async
from mantamq.protocol.errors import LocalError
from mantamq.protocol.timing import DEFAULT_TIMING, Timing

from tests.unit.actors.supervisor.test_supervised_cluster import LIMIT_S, Story
from tests.unit.ray_in_memory import nodes_in_memory


class Stored(Story):
    """Clusters one after the other in one directory."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self.data = data

    def config(self, timing: Timing = DEFAULT_TIMING, **store: Any) -> ClusterConfig:
        chosen = {
            "data": str(self.data),
            "container_bytes": 512 * 1024,
            "reserve_bytes": 0,
            "wait_s": 0.5,
            "catalog": "",
        }
        stored = StoreConfig(**chosen | store)
        return ClusterConfig(bind="127.0.0.1", spares=1, rebalance=False, store=stored, timing=timing)

    async def up(self, brokers: int = 0, **store: Any) -> None:
        await self.supervisor("start_cluster", Plan.of(brokers, self.config(**store)))

    async def power_cut(self) -> None:
        """Every process is gone at once, and another Ray is there."""
        await self.ray.gone()
        fresh = type(self.ray)()
        self.ray = fresh

    def json(self, broker: str) -> dict[str, Any]:
        return json.loads((self.data / broker / "store.json").read_text())

    async def placed(self, *brokers: str) -> None:
        """When stores know where all are."""
        async with asyncio.timeout(LIMIT_S):
            while any(len(self.json(broker)["nodes"]) < len(brokers) for broker in brokers):
                await asyncio.sleep(0.02)

    async def addresses(self) -> list[str]:
        return list((await self.supervisor("book_now")).addresses.values())


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Stored]:
    with nodes_in_memory():
        one = Stored(tmp_path / "data")
        yield one
        await one.ray.gone()


async def test_a_cluster_begins_and_goes_on_after_a_power_cut(story: Stored) -> None:
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    async with connect_async(await story.addresses()) as there:
        await there.declare_exchange("news", "fanout")
        await there.declare_queue("keep", durable=True)
        await there.declare_queue("gone")
        session = there.session()
        for queue in ("keep", "gone"):
            sender = await session.sender(queue)
            await sender.send(b"kept?")
            await sender.sync()
    replicas = [actor for actor in (await story.supervisor("status"))["actors"] if actor["role"] == "QueueReplica"]
    said = {id.split("#")[0]: queue.get("durable") for one in replicas for id, queue in one["machine"].items()}
    assert said == {"keep": True, "gone": None}, "`mantamq down` asks about those only that would be gone"
    await story.placed("b1", "b2", "b3")
    first = await story.supervisor("book_now")
    assert first.notes[0].startswith("new store in ") and first.data == str(story.data)
    assert {story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {"dirty"}
    await story.power_cut()
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    second = await story.supervisor("book_now")
    assert second.cluster == first.cluster and second.notes == () and sorted(second.addresses) == ["b1", "b2", "b3"]
    async with connect_async(await story.addresses()) as there:
        assert "news" in {exchange["name"] for exchange in await there.exchanges()}, "the wiring is there again"
        receiver = await there.session().receiver("keep")
        assert (await receiver.fetch(timeout=LIMIT_S)).body == b"kept?"
    assert story.json("b1")["nodes"] == dict.fromkeys(("b1", "b2", "b3"), "127.0.0.1")
    status = await story.supervisor("status")
    assert status["supervisor"]["number"] == 2, "orders of the first are refused by its number"


async def test_other_numbers_of_brokers_are_refused_and_nothing_is_changed(story: Stored) -> None:
    await story.up(1)
    await story.placed("b1")
    await story.power_cut()
    before = story.json("b1")
    with pytest.raises(LocalError, match=r"has 1 brokers? \(b1\), not 5"):
        await story.up(5)
    assert story.json("b1") == before
    assert sorted(path.name for path in story.data.iterdir()) == ["b1"]


async def test_a_first_start_that_was_interrupted_is_in_nobodys_way(
    story: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the first `mantamq up`, the next one as another operator would have it: nothing is to be cleared away."""

    async def interrupted(launcher: Launcher, name: str, *more: Any) -> None:
        raise LocalError(f"{name}: interrupted")

    with monkeypatch.context() as broken:
        broken.setattr(Launcher, "start_broker", interrupted)
        with pytest.raises(LocalError, match="interrupted"):
            await story.up(5)
    assert {story.json(f"b{number}")["status"] for number in range(1, 6)} == {"founding"}
    await story.power_cut()
    await story.up(3)
    await story.whole("b1.store", "b2.store", "b3.store")
    assert {story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {"dirty"}
    assert story.json("b4")["status"] == "founding", "it is left as it was, and nobody's"
    assert (await story.supervisor("book_now")).notes[0].startswith("new store in ")
    await story.power_cut()
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    assert story.json("b4")["status"] == "founding", "nor does it matter later"


async def test_a_cluster_that_is_stopped_leaves_clean_stores_of_one_stop(story: Stored) -> None:
    await story.up()
    await story.whole("b1.store")
    async with connect_async(await story.addresses()) as there:
        await there.declare_exchange("news", "fanout")
    await story.supervisor("stop")
    assert await story.supervisor("unclean") == []
    left = [story.json(broker) for broker in ("b1", "b2", "b3")]
    assert {one["status"] for one in left} == {"clean"}
    assert len({one["shutdown"] for one in left}) == 1 and left[0]["shutdown"]
    await story.power_cut()
    await story.up()
    async with connect_async(await story.addresses()) as there:
        assert "news" in {exchange["name"] for exchange in await there.exchanges()}
    assert {story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {"dirty"}


async def test_who_asks_again_for_a_stop_waits_for_it_and_hears_the_same(story: Stored) -> None:
    """The first answer may have come too late."""
    await story.up()
    await story.whole("b1.store", "b2.store", "b3.store")
    story.ray.named["b2.r0"].stands_still = True
    supervisor = story.ray.named["supervisor"].actor
    stop = asyncio.ensure_future(supervisor.stop())
    async with asyncio.timeout(LIMIT_S):
        while not story.ray.named["b1"].actor.shell.machine.lifecycle.stopping:
            await asyncio.sleep(0.01)
    again = asyncio.ensure_future(supervisor.stop())
    await asyncio.sleep(0)
    story.ray.named["b2.r0"].kill()
    await asyncio.gather(stop, again)
    assert {broker: story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {
        "b1": "clean", "b2": "dirty", "b3": "clean",
    }  # fmt: skip
    await supervisor.stop()
    assert await supervisor.unclean() == ["b2"], "also when nothing is left to be stopped"


async def test_a_cluster_whose_stop_dies_in_the_middle_goes_on_and_says_why_nobody_is_let_in(story: Stored) -> None:
    """The supervisor that stops it dies when clients have been sent away, and the next one knows nothing of a stop."""
    await story.up(timing=Timing(stop_ms=20_000))
    await story.whole("b1.store")
    story.ray.named["b3"].stands_still = True  # it gives nothing back: the stop waits for it
    stop = asyncio.ensure_future(story.supervisor("stop"))
    async with asyncio.timeout(LIMIT_S):
        while not all(story.ray.named[b].actor.shell.machine.lifecycle.stopping for b in ("b1", "b2")):
            await asyncio.sleep(0.01)
    story.ray.named["supervisor"].kill()
    story.ray.named["b3"].stands_still = False
    with pytest.raises(ActorDied):
        await stop
    async with asyncio.timeout(LIMIT_S):
        while "supervisor" not in story.ray.named:
            await asyncio.sleep(0.05)
    said = "let no client in: the cluster is being stopped"
    await story.until(lambda status: any(said in why for why in status["unhealthy"]), "said")
    await story.whole("b1", "b2", "b3", "b1.store")
    async with connect_async(await story.addresses()) as there:
        await there.declare_queue("again", durable=True)


async def test_processes_that_were_closed_for_a_stop_that_came_to_nothing_end(story: Stored) -> None:
    """All is written down by then: the cluster is down, as it was to be, and stores that were not closed are dirty."""
    soon = Timing(
        supervisor_fresh_ms=350, supervisor_round_ms=150, supervisor_heard_ms=400, supervisor_silent_ms=500,
        supervisor_rank_ms=100, stop_ms=1500,
    )  # fmt: skip
    await story.up(timing=soon)
    await story.whole("b1.store")
    supervisor = story.ray.named["supervisor"].actor
    supervisor._close_but_shell()
    keepers = ("b1", "b2", "b3", "b1.r0")
    await asyncio.gather(*(supervisor._orders.give(name, "close", "stop-1") for name in keepers))
    await supervisor._orders.give("b1.store", "close", "stop-1")
    story.ray.named["supervisor"].kill()
    async with asyncio.timeout(LIMIT_S):
        while {"b1", "b2", "b3", "b1.r0", "b1.store"} & set(story.ray.named):
            await asyncio.sleep(0.05)
    assert (story.json("b1")["status"], story.json("b2")["status"]) == ("clean", "dirty")


async def test_a_stop_in_a_hurry_closes_nothing(story: Stored) -> None:
    await story.up()
    await story.supervisor("stop", True)
    assert await story.supervisor("unclean") == ["b1", "b2", "b3"]
    assert {story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {"dirty"}


async def test_what_does_not_answer_stays_dirty_and_the_rest_is_closed(story: Stored) -> None:
    await story.up()
    await story.whole("b1.store")
    story.ray.named["b2"].stands_still = True
    supervisor = story.ray.named["supervisor"].actor
    stop = CleanStop(supervisor._record, supervisor._orders, give_back_s=0.2, close_s=5.0)
    assert await stop.run() == ["b2"]
    assert {broker: story.json(broker)["status"] for broker in ("b1", "b2", "b3")} == {
        "b1": "clean", "b2": "dirty", "b3": "clean",
    }  # fmt: skip


async def test_a_broker_that_leaves_leaves_a_directory_that_says_so(story: Stored) -> None:
    await story.up()
    await story.whole("b1.store")
    assert await story.changed("add_broker", "n3") == "b4"
    await story.whole("b4", "b4.store")
    await story.changed("remove_broker", "b4")
    await story.power_cut()
    await story.up()
    book = await story.supervisor("book_now")
    assert sorted(book.addresses) == ["b1", "b2", "b3"]
    [note] = book.notes
    assert "b4, which has left the cluster" in note or "b4, which is no member" in note
    assert await story.changed("add_broker", "n3") == "b5", "a name is never given twice"
