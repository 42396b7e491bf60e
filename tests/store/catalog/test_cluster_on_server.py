"""A whole cluster, in one process, whose catalogue is in PostgreSQL: the server goes away under it, and comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from mantamq.client import connect_async
from mantamq.protocol.errors import LocalError

from tests.store.catalog.servers import Server
from tests.unit.actors.supervisor.test_refused_starts import tree
from tests.unit.actors.supervisor.test_stored_cluster import Stored
from tests.unit.ray_in_memory import nodes_in_memory

GROWS = "cannot save the wiring in its catalogue, and its transaction log grows"


@pytest.fixture
def own(running: Server) -> Iterator[Server]:
    """A server that the test may end; skipped where none can be started."""
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Stored]:
    with nodes_in_memory():
        one = Stored(tmp_path / "data")
        yield one
        await one.ray.gone()


async def declare(story: Stored, name: str) -> None:
    async with connect_async(await story.addresses()) as there:
        await there.declare_queue(name, durable=True)


async def test_a_server_that_goes_away_stops_nothing_that_runs_and_refuses_a_start(story: Stored, own: Server) -> None:
    await story.up(catalog=own.url())
    await story.whole("b1.store", "b2.store", "b3.store")
    await declare(story, "one")
    own.stop()
    await declare(story, "two")
    status = await story.until(lambda s: sum(GROWS in one for one in s["warnings"]) == 3, "warned of each catalogue")
    assert status["healthy"] and not any("s3cret" in one for one in status["warnings"])
    await story.power_cut()
    before = tree(story.data)
    with pytest.raises(LocalError, match=r"start the server|see that the server runs") as refused:
        await story.up(catalog=own.url())
    assert "s3cret" not in str(refused.value)
    await story.power_cut()
    assert tree(story.data) == before, "nothing was changed on disk"
    own.start()
    await story.up(catalog=own.url())
    await story.whole("b1.store", "b2.store", "b3.store")
    async with connect_async(await story.addresses()) as there:
        assert {"one", "two"} <= {queue["name"] for queue in await there.queues()}
    own.stop()
    await declare(story, "three")
    await story.until(lambda s: any(GROWS in one for one in s["warnings"]), "warned")
    own.start()
    await story.until(lambda s: not any(GROWS in one for one in s["warnings"]), "saved again")


async def test_a_server_that_is_not_there_begins_no_cluster(story: Stored, own: Server) -> None:
    story.data.mkdir()
    own.stop()
    with pytest.raises(LocalError, match="no store can be used"):
        await story.up(catalog=own.url())
    assert tree(story.data) == {}
