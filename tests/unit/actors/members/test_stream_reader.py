"""What a store has written is read back by another process for its machine; what cannot be read is said, or ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from live_cluster import own, until
from mantamq.actors.config import BrokerConfig, MemberConfig, SequencerConfig, StoreConfig, StoreNodeConfig
from mantamq.actors.members.broker_node import BrokerNode
from mantamq.actors.members.sequencer import Sequencer
from mantamq.actors.members.shell import DiskFailed
from mantamq.actors.members.store_node import StoreNode
from mantamq.actors.members.stream_reader import StreamReader
from mantamq.protocol.errors import LocalError
from mantamq.protocol.machine import Load, Loaded
from mantamq.protocol.store.host import TX
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import OPENED
from mantamq.store.files import RealFiles

HERE = "127.0.0.1"
LIMIT_S = 20.0


class ToyShell:
    def __init__(self) -> None:
        self.given: list[Loaded] = []
        self.failed: list[BaseException] = []
        self.give, self.fail = self.given.append, self.failed.append


class Unreadable(RealFiles):
    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> Any:
        raise OSError(5, "Input/output error", path)


def member(name: str, inc: int = 0, **peers: str) -> MemberConfig:
    return MemberConfig(credentials=own(name, inc=inc), bind=HERE, peers=peers, timing=Timing(evict_ms=3500))


class Group:
    """A broker with its store, and a sequencer: a cluster of one.

    Attributes:
        life: of the store.
    """

    def __init__(self, data: Path) -> None:
        self.config = StoreConfig(data=str(data), container_bytes=512 * 1024, reserve_bytes=4096)
        self.sequencer, self.store, self.broker = Sequencer("sequencer"), StoreNode("b1.store"), BrokerNode("b1")
        self.life = 0

    async def start(self, birth: bool, uid: int) -> None:
        said = await self.sequencer.start(
            SequencerConfig(member=member("sequencer", uid), voters=("b1",), leading=birth)
        )
        begun = await self.store.start(
            StoreNodeConfig(member=member("b1.store"), broker="b1", store=self.config, birth=birth)
        )
        self.life = int(begun["life"])
        peers = {"sequencer": said["peers"], "b1.store": begun["peers"]}
        config = BrokerConfig(
            member=member("b1", self.life, **peers), client_port=0, voters=("b1",), blank=not birth,
            store=self.config.folder("b1"),
        )  # fmt: skip
        await self.broker.start(config, lambda broker: None)
        async with asyncio.timeout(LIMIT_S):
            while not (self.machine.store.opened and self.machine.lifecycle.state.name == "VOTER"):
                await asyncio.sleep(0.01)

    @property
    def machine(self) -> Any:
        return self.broker._running().machine

    async def stop(self) -> None:
        for actor in (self.broker, self.store, self.sequencer):
            await actor.stop()


async def test_a_broker_comes_back_in_a_new_life_with_the_vote_that_its_store_has(tmp_path: Path) -> None:
    first = Group(tmp_path)
    await first.start(birth=True, uid=7)
    await first.stop()
    second = Group(tmp_path)
    await second.start(birth=False, uid=8)
    assert second.life > first.life and second.machine.keeper.log_inc == first.life, "the log of the life before"
    assert not second.machine.keeper.blank
    await second.stop()


async def test_a_stream_is_read_as_its_machine_asked_and_what_cannot_be_read_is_of_no_use(tmp_path: Path) -> None:
    group = Group(tmp_path)
    await group.start(birth=True, uid=7)
    place = group.store._running_logs().found[TX].index.streams[CLUSTER]
    await group.stop()
    for checkpoint, last, hurt in (
        (0, place.last, False),
        (0, place.last + 8, True),
        (place.last + 8, place.last, True),
    ):
        shell: Any = ToyShell()
        StreamReader(f"{tmp_path}/b1", lambda shell=shell: shell).load(Load(CLUSTER, checkpoint, last))
        await until(lambda shell=shell: shell.given)
        (loaded,) = shell.given
        assert (loaded.stream, loaded.hurt, bool(loaded.records)) == (CLUSTER, hurt, not hurt) and not shell.failed
        assert hurt or loaded.records[0][1] == OPENED


async def test_a_disk_that_cannot_be_read_ends_the_process_with_its_errno(tmp_path: Path) -> None:
    (tmp_path / "b1" / TX).mkdir(parents=True)
    (tmp_path / "b1" / TX / "0000000000000000.log").touch()
    shell: Any = ToyShell()
    StreamReader(f"{tmp_path}/b1", lambda: shell, Unreadable()).load(Load(CLUSTER, 0, 8))
    await until(lambda: shell.failed)
    (error,) = shell.failed
    assert isinstance(error, DiskFailed) and "errno 5" in str(error) and not shell.given


class Odd(RealFiles):
    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> Any:
        raise IndexError("list index out of range")


async def test_whatever_else_goes_wrong_as_a_stream_is_read_ends_the_process_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "b1" / TX).mkdir(parents=True)
    (tmp_path / "b1" / TX / "0000000000000000.log").touch()
    shell: Any = ToyShell()
    StreamReader(f"{tmp_path}/b1", lambda: shell, Odd()).load(Load(CLUSTER, 0, 8))
    await until(lambda: shell.failed)
    (error,) = shell.failed
    assert isinstance(error, LocalError) and not isinstance(error, DiskFailed) and not shell.given
    assert f"{tmp_path}/b1: reading {CLUSTER} back broke: IndexError" in str(error)
