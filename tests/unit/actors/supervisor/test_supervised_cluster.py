"""All parts of a supervisor over real members in one process: a cluster starts, heals, changes, and is taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mantamq.actors.config import ClusterConfig, EventsConfig
from mantamq.actors.members.queue_replica import QueueReplica
from mantamq.actors.members.shell import Shell
from mantamq.actors.ray_control.ray_handles import ActorDied
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.supervisor import Supervisor
from mantamq.protocol.errors import LocalError
from mantamq.protocol.machine import broker_of

from tests.unit.ray_in_memory import RayInMemory, nodes_in_memory

LIMIT_S = 25.0
CALL_S = 120.0
"""A start, or a clean stop, is many steps, and a loaded machine takes its time."""


class Story:
    """A cluster of three brokers with two replicas each, its supervisor, and its Ray."""

    def __init__(self) -> None:
        self.ray = RayInMemory()

    async def begin(self, **options: Any) -> None:
        config = ClusterConfig(bind="127.0.0.1", spares=2, rebalance=False, **options)
        await self.supervisor("start_cluster", Plan.of(3, config))
        await self.whole()

    async def supervisor(self, method: str, *args: Any) -> Any:
        handle = self.ray.supervisor() or self.ray.actor(Supervisor, "supervisor", "n1", self.ray, True)
        return await handle.call(method, *args, timeout_s=CALL_S)

    async def until(self, true: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        status: dict[str, Any] = {}
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    try:
                        status = await self.supervisor("status")
                        if true(status):
                            return status
                    except LocalError:
                        pass
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not {what} within {LIMIT_S} s: {status.get('unhealthy')}") from None

    async def whole(self, *names: str) -> None:
        """Healthy, with actors of these names."""
        await self.until(
            lambda s: s["healthy"] and set(names) <= {actor["name"] for actor in s["actors"]}, f"whole with {names}"
        )

    async def changed(self, method: str, which: str) -> str:
        await self.supervisor(method, "request " + method, which)
        async with asyncio.timeout(LIMIT_S):
            while not (now := await self.supervisor("progress", "request " + method))["ended"]:
                await asyncio.sleep(0.1)
        assert not now["error"]
        return now["broker"]


@pytest.fixture
async def story() -> AsyncIterator[Story]:
    with nodes_in_memory():
        one = Story()
        await one.begin()
        yield one
        await one.ray.gone()


async def test_who_dies_is_replaced(story: Story) -> None:
    ray = story.ray
    names = set(ray.named)
    assert names == {
        "supervisor", "sequencer", "sequencer2", "ownership", "ownership2", *("b1", "b2", "b3"),
        *("b1.r0", "b1.r1", "b2.r0", "b2.r1", "b3.r0", "b3.r1"),
    }  # fmt: skip
    before = {ray.named[name].id: name for name in names}
    ray.named["b1.r0"].kill()
    await story.whole("b1.r2")
    ray.named["ownership2"].kill()
    ray.named["sequencer2"].kill()
    await story.whole("ownership2", "sequencer3")
    ray.named["b2"].kill()
    await story.whole("b2")
    assert {before.get(handle.id, "") for handle in ray.named.values()} == {
        "", "supervisor", "sequencer", "ownership", "b1", "b3", "b1.r1", "b3.r0", "b3.r1",
    }  # fmt: skip
    new = sorted(broker_of(name) for name, handle in ray.named.items() if handle.id not in before)
    assert new == ["b1", "b2", "b2", "b2", "ownership2", "sequencer3"]


@pytest.mark.parametrize("held", [(QueueReplica, "start"), (Shell, "listen_peers")], ids=["before", "in the middle"])
async def test_nothing_of_one_that_dies_while_it_starts_is_left(
    story: Story, held: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would dial ports that are others' by then, of the next cluster of the same stores for instance."""
    reached, let_go, real = asyncio.Event(), asyncio.Event(), getattr(*held)

    async def slow(*args: Any) -> Any:
        reached.set()
        await let_go.wait()
        return await real(*args)

    monkeypatch.setattr(*held, slow)
    story.ray.named["b1.r0"].kill()
    async with asyncio.timeout(LIMIT_S):
        await reached.wait()
    starting = story.ray.named["b1.r2"]
    gone = asyncio.ensure_future(story.ray.gone())
    await starting.dead.wait()
    let_go.set()
    await gone
    assert starting.actor.addresses, "its start has come to its end"
    for handle in story.ray.all:
        if (shell := getattr(handle.actor, "shell", None)) is not None:
            assert not any(server.is_serving() for server in shell._servers), f"{handle.name} listens"
            assert all(dialler._task.cancelling() for dialler in shell._diallers.values()), f"{handle.name} dials"


async def test_one_that_stands_still_is_ended_and_replaced(story: Story) -> None:
    ray = story.ray
    still = ray.named["sequencer2"]
    still.stands_still = True
    await still.actor.shell.stop()
    await story.whole("sequencer3")
    assert "sequencer2" not in ray.named and still.dead.is_set()


async def test_the_tap_is_replaced_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with nodes_in_memory():
        story = Story()
        await story.begin(events=EventsConfig(directory=str(tmp_path)))
        first = story.ray.named["events"]
        first.kill()
        async with asyncio.timeout(LIMIT_S):
            while story.ray.named.get("events", first) is first:
                await asyncio.sleep(0.05)
        said = "events are not captured now: the tap does not answer and is being replaced"
        await story.until(lambda status: status["healthy"] and said not in status["warnings"], "whole, with a tap")
        started = [args for name, _, args in story.ray.calls if name == "events" and args[1:2] == ("start",)]
        assert len(started) == 2 and started[0][2].folder == started[1][2].folder, "it goes on in the same folder"
        await story.ray.gone()


async def test_the_standby_leads_when_the_first_sequencer_dies(story: Story) -> None:
    story.ray.named["sequencer"].kill()
    await story.whole("sequencer2", "sequencer3")
    assert "sequencer" not in story.ray.named


async def test_a_broker_joins_and_leaves_and_names_are_not_used_twice(story: Story) -> None:
    ray = story.ray
    assert await story.changed("add_broker", "n3") == "b4"
    await story.whole("b4", "b4.r0", "b4.r1")
    assert ray.named["b4"].node == "n3"
    assert await story.changed("remove_broker", "b4") == "b4"
    await story.whole()
    assert not [name for name in ray.named if name.startswith("b4")]
    with pytest.raises(LocalError, match="there is no broker 'b9'"):
        await story.supervisor("remove_broker", "another request", "b9")
    assert await story.supervisor("want_spare", "b1") is False


async def test_a_newcomer_that_does_not_start_is_undone(story: Story) -> None:
    story.ray.fails.add("b4.r0")
    await story.supervisor("add_broker", "r", "")
    async with asyncio.timeout(LIMIT_S):
        while not (now := await story.supervisor("progress", "r"))["ended"]:
            await asyncio.sleep(0.1)
    assert now["error"].endswith("the cluster is as it was: b4.r0 does not start")
    await story.whole()
    assert not [name for name in story.ray.named if name.startswith("b4")]


async def test_a_broker_starts_the_next_supervisor_which_knows_what_the_last_one_knew(story: Story) -> None:
    ray = story.ray
    first, cluster = ray.named["supervisor"], (await story.supervisor("book_now")).cluster
    ray.named["b3.r0"].kill()
    await story.whole("b3.r2")
    kept = {name: handle.id for name, handle in ray.named.items()}
    first.kill()
    async with asyncio.timeout(LIMIT_S):
        while "supervisor" not in ray.named:
            await asyncio.sleep(0.05)
    await story.until(lambda status: status["healthy"] and status["supervisor"]["number"] == 2, "taken over")
    assert (await story.supervisor("book_now")).cluster == cluster
    assert {name: handle.id for name, handle in ray.named.items() if name != "supervisor"} == {
        name: id for name, id in kept.items() if name != "supervisor"
    }
    ray.named["b3.r1"].kill()
    await story.whole("b3.r3")


async def test_a_status_is_of_one_moment(story: Story) -> None:
    """A broker that clients are told of while actors answer takes none yet: what the others report is from before."""
    ray, asks = story.ray, ("b3.r1", "status", ())
    book = ray.named["supervisor"].actor._record.book
    book.change("b2", serving=False)
    before = ray.calls.count(asks)
    status = asyncio.create_task(story.supervisor("status"))
    async with asyncio.timeout(LIMIT_S):
        while ray.calls.count(asks) == before:
            await asyncio.sleep(0)
    book.change("b2", serving=True)
    told = await status
    assert told["unhealthy"] == ["broker b2 takes no clients yet"]
    assert sorted(told["members"]) == ["b1", "b3"] and told["brokers_taking_clients"] == 2
    assert "b2" in (await story.supervisor("status"))["members"]


async def test_members_are_asked_how_they_are_one_after_the_other(story: Story) -> None:
    """All at the same moment would be all replicas of a queue: what a client sends just then waits for the answers."""
    await asyncio.sleep(0)
    asked: list[tuple[int, str]] = []
    turn = 0

    class Calls(list[tuple[str, str, tuple[Any, ...]]]):
        def append(self, call: tuple[str, str, tuple[Any, ...]]) -> None:
            if call[1] in ("confirm", "status"):
                asked.append((turn, call[0]))

    story.ray.calls = Calls()
    async with asyncio.timeout(LIMIT_S):
        while len(asked) < 30:
            await asyncio.sleep(0)
            turn += 1
    turns = [turn for turn, _ in asked]
    assert len(set(turns)) == len(turns), asked
    assert {name for _, name in asked} == {"b1", "b2", "b3", "sequencer", "sequencer2", "ownership", "ownership2"}


async def test_at_the_end_nothing_is_left(story: Story) -> None:
    pids = await story.supervisor("stop")
    assert set(pids) == {handle.name for handle in story.ray.all} - {"supervisor"}
    assert list(story.ray.named) == ["supervisor"]
    with pytest.raises(ActorDied):
        await story.ray.all[1].call("status")
