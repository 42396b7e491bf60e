"""The process of a store, over real sockets and on real files, without Ray: what it has answered is there afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from live_cluster import own, until
from made_up_logs import cluster_checkpoint, declarations
from mantamq.actors.config import MemberConfig, StoreConfig, StoreNodeConfig
from mantamq.actors.members.ending import DISK_FAILED, leave
from mantamq.actors.members.shell import DiskFailed, Shell
from mantamq.actors.members.store_logs import StoreLogs
from mantamq.actors.members.store_look import StorePlace, look_at
from mantamq.actors.members.store_node import SCRUB_BYTES, StoreNode, StoreRefused, read_on
from mantamq.protocol.errors import LocalError, PeerError, StoreError
from mantamq.protocol.machine import PeerUp, Received, Send
from mantamq.protocol.status.stores import StoreStatus
from mantamq.protocol.store.host import MESSAGES, TX, Commit, Rotten
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.supervisor.store_words import StoreWord, VoterSet
from mantamq.protocol.wire.events import CLUSTER, Entry, Member, encode_event
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    EntriesRecord,
    OpenedRecord,
    decode_record,
    encode_record,
)
from mantamq.protocol.wire.store_frames import Ahead, Happened, Room, Take, Taken, Write, Written
from mantamq.store.catalog.catalog import FILE, read_catalog
from mantamq.store.files import RealFile, RealFiles
from mantamq.store.identity import StoreState
from mantamq.store.log.chain import read_chain
from mantamq.store.log.containers import container_name
from mantamq.store.log.reader import LogReader
from mantamq.store.offline.inventory import summary

HERE = "127.0.0.1"
VOTERS = ["b1", "b2", "b3"]


class ToyKeeper:
    """The far end of the store's link."""

    def __init__(self) -> None:
        self.up = False
        self.heard: list[Any] = []

    def step(self, input: Any) -> list[Any]:
        if isinstance(input, PeerUp):
            self.up = True
        elif isinstance(input, Received):
            self.heard.append(input.frame)
        elif isinstance(input, Send):
            return [input]
        return []


class FailingFiles(RealFiles):
    """Its flushes fail on demand."""

    def __init__(self) -> None:
        self.fails = False

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> RealFile:
        file, files = super().open(path, create_bytes=create_bytes, read_only=read_only), self
        flush = file.fdatasync

        def fdatasync() -> None:
            if files.fails:
                raise OSError(5, "Input/output error", path)
            flush()

        file.fdatasync = fdatasync  # type: ignore[method-assign]
        return file


def config(data: Path, **more: Any) -> StoreNodeConfig:
    chosen = StoreConfig(data=str(data), container_bytes=512 * 1024, reserve_bytes=more.pop("reserve_bytes", 4096))
    cluster = more.pop("cluster", "toy")
    member = MemberConfig(credentials=own("b1.store", cluster), bind=HERE)
    return StoreNodeConfig(**({"member": member, "broker": "b1", "store": chosen, "node": "n1", "birth": True} | more))


class Keeping:
    """A store that runs, and one keeper."""

    def __init__(self, node: StoreNode, keeper: ToyKeeper, shell: Shell, life: int) -> None:
        self.node, self.keeper, self.shell, self.life = node, keeper, shell, life

    def say(self, frame: Any) -> None:
        self.shell.give(Send("b1.store", frame))  # type: ignore[arg-type]

    async def open(self) -> None:
        """Write the cluster stream's first record."""
        self.say(Take(CLUSTER, self.life))
        await self.hear(Taken)
        self.say(Write(1, [opened(self.life, VOTERS)]))
        await self.hear(Written)

    async def hear(self, kind: type[Any]) -> Any:
        await until(lambda: any(isinstance(one, kind) for one in self.keeper.heard))
        found = next(one for one in self.keeper.heard if isinstance(one, kind))
        self.keeper.heard.remove(found)
        return found


@asynccontextmanager
async def running(made: StoreNodeConfig, files: RealFiles | None = None) -> AsyncIterator[Keeping]:
    node, keeper = StoreNode("b1.store", files=files), ToyKeeper()
    addresses = await node.start(made)
    shell = Shell(keeper, own("b1", made.member.credentials.cluster))
    shell.dial("b1.store", addresses["peers"])
    try:
        await until(lambda: keeper.up)
        yield Keeping(node, keeper, shell, int(addresses["life"]))
    finally:
        await shell.stop()
        await node.stop()


def opened(life: int, voters: list[str]) -> tuple[int, str, bytes]:
    return OPENED, CLUSTER, encode_record(OpenedRecord(life, life, False, voters))


def entries(first: int, commit: int, *events: Any) -> tuple[int, str, bytes]:
    made = [Entry((1, 1), 0, "", 0, 0, encode_event(event)) for event in events]
    return ENTRIES, CLUSTER, encode_record(EntriesRecord(first, commit, made))


def status_of(said: dict[str, Any]) -> StoreStatus:
    return StoreStatus.read(said["machine"])


async def word(made: StoreNodeConfig) -> StoreWord:
    node = StoreNode("b1.store")
    try:
        return msgspec.convert(await node.look(made), StoreWord)
    finally:
        await node.stop()


async def test_what_is_answered_is_there_in_the_next_life(tmp_path: Path) -> None:
    made, join = config(tmp_path), Member("b4", 1, True)
    async with running(made) as one:
        one.say(Take(CLUSTER, one.life))
        assert (await one.hear(Taken)).opened == 0
        one.say(Write(1, [opened(one.life, VOTERS), entries(1, 0, join)]))
        written = await one.hear(Written)
        assert written.number == 1 and all(written.lsns)
        one.say(Write(2, [(ENTRIES, "q#1", b"x" * 700_000)]))
        assert (await one.hear(Written)).lsns == [0], "nobody has taken that stream"
        status = await one.node.status()
        machine = status["machine"]
        assert machine["logs"][TX]["streams"] == 1 and status["role"] == "StoreNode"
        assert machine["folder"] == f"{tmp_path}/b1" and machine["flush_p99_ms"] > 0 < machine["flushes_per_s"]
        assert machine["logs"][TX]["used_bytes"] == 512 * 1024
        async with asyncio.timeout(10):  # spares are made meanwhile
            while status_of(await one.node.status()).disk_bytes != summary(RealFiles(), f"{tmp_path}/b1").disk_bytes:
                await asyncio.sleep(0.05)
        assert abs(machine["logs"][TX]["oldest_us"] / 1e6 - time.time()) < 600, "when its first record came"
        assert machine["logs"]["messages"]["oldest_us"] == 0, "it has none"
    async with running(made) as two:
        assert two.life > one.life
        two.say(Take(CLUSTER, two.life))
        taken = await two.hear(Taken)
        assert (taken.opened, taken.last, taken.hurt) == (one.life, taken.last, False)
        folder = f"{tmp_path}/b1/{TX}"
        chain = read_chain(LogReader(RealFiles(), folder), CLUSTER, taken.checkpoint, taken.last)
        assert [kind for _, kind, _ in chain] == [OPENED, ENTRIES]
    said = await word(made)
    assert (said.status, said.cluster, said.broker, said.node, said.life) == ("dirty", "toy", "b1", "n1", two.life)
    assert said.voters == (VoterSet(0, tuple(VOTERS)), VoterSet(1, (*VOTERS, "b4"))) and said.votes


class SlowFiles(RealFiles):
    """Each time a container is opened to be read, that takes a while."""

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> RealFile:
        if read_only and path.endswith(".log"):
            time.sleep(0.05)
        return super().open(path, create_bytes=create_bytes, read_only=read_only)


async def test_what_a_store_has_read_is_told_with_how_long_that_took(tmp_path: Path) -> None:
    made = config(tmp_path)
    async with running(made) as one:
        one.say(Take(CLUSTER, one.life))
        one.say(Write(1, [opened(one.life, VOTERS)]))
        await one.hear(Written)
    async with running(made, SlowFiles()) as two:
        told = await two.hear(Happened)
    assert told.what == "store_recovered" and told.value >= 2 * 50_000, "each log has a container at least"


class CountedFiles(RealFiles):
    """Knows how many files are open."""

    def __init__(self) -> None:
        self.count = 0

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> RealFile:
        file = super().open(path, create_bytes=create_bytes, read_only=read_only)
        close = file.close
        self.count += 1

        def closed() -> None:
            self.count -= 1
            close()

        file.close = closed  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("where", ["entry", "outline", "index"])
async def test_a_record_that_is_none_refuses_its_store_and_not_the_start(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passed its checksum: a program has written it so."""
    made = config(tmp_path)
    async with running(made) as one:
        one.say(Take(CLUSTER, one.life))
        if where == "outline":
            checkpoint: Any = decode_record(CHECKPOINT, cluster_checkpoint(2))
            none = encode_record(msgspec.structs.replace(checkpoint, outline=b"\xc1"))
            one.say(Write(1, [opened(one.life, VOTERS), (CHECKPOINT, CLUSTER, none)]))
        else:
            none = encode_record(EntriesRecord(1, 0, [Entry((1, 1), 0, "b1", 1, 1, b"\xc1")]))
            one.say(Write(1, [opened(one.life, VOTERS), (ENTRIES, CLUSTER, none)]))
        await one.hear(Written)
    if where == "index":

        def odd(*_: Any) -> None:
            raise PeerError("bad-frame", "it is none")

        monkeypatch.setattr(LogIndex, "note", odd)
    files = CountedFiles()
    node = StoreNode("b1.store", files=files)
    said = msgspec.convert(await node.look(made), StoreWord)
    await node.stop()
    assert (said.code, files.count) == ("store-damaged", 0)
    assert f"{tmp_path}/b1/tx has a record that is none" in said.text


async def test_a_look_changes_nothing_in_an_empty_directory(tmp_path: Path) -> None:
    said = await word(config(tmp_path))
    assert said.status == "empty" and said.voters == () and said.free_bytes > 0
    assert not (tmp_path / "b1" / "store.json").exists()


async def test_a_store_that_is_in_use_or_anothers_is_refused_in_words(tmp_path: Path) -> None:
    made = config(tmp_path)
    async with running(made) as one:
        await one.open()
        said = await word(made)
        assert said.code == "store-locked" and "process" in said.text
        with pytest.raises(LocalError, match="is held by"):
            await StoreNode("b1.store").start(made)
    said = await word(config(tmp_path, cluster="another"))
    assert said.code == "not-our-store" and "cluster toy" in said.text


async def test_a_start_that_came_to_nothing_leaves_what_counts_as_empty(tmp_path: Path) -> None:
    """Also for another cluster, whose store goes on under the same id, that of its catalogue, with logs of its own."""
    made, path, log = config(tmp_path), tmp_path / "b1" / "store.json", tmp_path / "b1" / "tx" / container_name(2)
    async with running(made) as one:
        first, header = one.life, log.read_bytes()[:4096]
        assert '"founding"' in path.read_text()
    said = await word(made)
    assert (said.status, said.code, said.voters, said.cluster, said.founding) == ("empty", "", (), "", "toy")
    other = config(tmp_path, cluster="another")
    assert (await word(other)).status == "empty"
    async with running(other) as one:
        own = json.loads(path.read_text())
        assert (own["status"], own["cluster"], own["store"]) == ("founding", "another", said.store)
        assert one.life > first and log.read_bytes()[:4096] != header
        await one.open()
        assert '"dirty"' in path.read_text()
    assert (await word(made)).code == "not-our-store"
    said = await word(other)
    assert said.status == "dirty" and said.voters
    path.write_text(path.read_text().replace("dirty", "founding"))  # as a backup has it that was made meanwhile
    said, before = await word(made), log.read_bytes()
    assert said.code == "store-damaged" and "has records: put that file back" in said.text
    with pytest.raises(LocalError, match="has records"):
        await StoreNode("b1.store").start(made)
    assert log.read_bytes() == before


async def test_what_counts_begins_with_the_first_record_and_not_behind_it(tmp_path: Path) -> None:
    """A crash between the two leaves a store that says that it is in use: never one that has a record and counts as
    empty."""
    logs = StoreLogs(RealFiles(), config(tmp_path).store, StorePlace("b1", "n1"))
    life = logs.begin("toy", "s", birth=True)
    log, said = logs._logs[TX], list[tuple[int, str]]()
    write = log.write

    def noted(batch: Any, time_us: int) -> list[int]:
        said.append((len(batch), logs.directory.identity.status.value))
        return write(batch, time_us)

    log.write = noted  # type: ignore[method-assign]
    for number, batch in enumerate([[], [opened(life, VOTERS)], []]):
        logs.commit(Commit(number, {TX: batch}, (0, 0), 1))
    assert said == [(0, "founding"), (1, "dirty"), (0, "dirty")]
    logs.close()


async def test_a_store_that_is_closed_is_clean(tmp_path: Path) -> None:
    made = config(tmp_path)
    async with running(made) as one:
        await one.node.close("stop-1")
    said = await word(made)
    assert (said.status, said.shutdown) == ("clean", "stop-1")
    async with running(made):
        pass
    assert (await word(made)).status == "dirty"


async def test_a_blank_store_is_blank_until_its_log_votes_and_not_closed_as_clean_before(tmp_path: Path) -> None:
    made, path = config(tmp_path, birth=False), tmp_path / "b1" / "store.json"
    for blank, left in ((True, "joining"), (False, "clean")):
        async with running(made) as one:
            assert '"joining"' in path.read_text()
            one.say(Take(CLUSTER, one.life))
            await one.hear(Taken)
            one.say(Write(1, [(OPENED, CLUSTER, encode_record(OpenedRecord(one.life, one.life, blank, VOTERS)))]))
            await one.hear(Written)
            if not blank:
                await until(lambda: '"dirty"' in path.read_text())
            await one.node.close("stop-1")
        assert (await word(made)).status == left


async def test_a_failed_flush_answers_nothing_and_ends_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FailingFiles()
    async with running(config(tmp_path), files) as one:
        one.say(Take(CLUSTER, one.life))
        await one.hear(Taken)
        files.fails, lingers = True, asyncio.ensure_future(one.node.linger())
        with caplog.at_level(logging.CRITICAL):
            one.say(Write(1, [opened(one.life, VOTERS)]))
            shell = one.node._running()
            await until(lambda: shell.failure is not None)
        assert isinstance(shell.failure, DiskFailed) and "errno 5" in str(shell.failure)
        assert "the disk failed" in caplog.text
        assert "errno 5" in await lingers, "the supervisor is told why"
        await until(lambda: "b1.store" not in one.shell.links)
        assert not [frame for frame in one.keeper.heard if isinstance(frame, Written)]
        ended: list[int] = []
        monkeypatch.setattr("os._exit", ended.append)
        monkeypatch.setattr("logging.shutdown", lambda: None)
        leave(shell.failure)
        await until(lambda: ended)
        assert ended == [DISK_FAILED] == [71]
        files.fails = False


async def test_a_disk_without_room_is_told_to_its_keepers(tmp_path: Path) -> None:
    async with running(config(tmp_path, reserve_bytes=1 << 60)) as one:
        room = await one.hear(Room)
        assert room.pressed and room.full and room.left_bytes < 0


async def test_containers_are_made_ahead(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as one:
        logs = one.node._running_logs()
        await until(lambda: all(log.spares == 2 for log in logs._logs.values()))


async def test_strangers_are_not_let_in(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as one:
        shell = one.node._running()
        assert shell._admits("b1") and shell._admits("b1.r7")
        assert not any(shell._admits(name) for name in ("b2", "b11", "b11.r0", "sequencer", "b2.r0"))


def test_a_birth_that_came_to_nothing_comes_back_blank_and_a_lost_log_is_refused(tmp_path: Path) -> None:
    chosen, place = StoreConfig(data=str(tmp_path), container_bytes=512 * 1024), StorePlace("b1", "n1")
    logs = StoreLogs(RealFiles(), chosen, place)
    logs.directory.begin(1, cluster="toy", store="s", node="n1", status=StoreState.JOINING)  # then the process dies
    logs.close()
    assert look_at(RealFiles(), chosen, place).status == "joining"
    logs = StoreLogs(RealFiles(), chosen, place)
    logs.begin("toy", "s", birth=True)
    assert logs.directory.identity.status.value == "joining", "whether it ever voted is not known"
    logs.directory.joined()
    logs.close()
    for file in (tmp_path / "b1" / MESSAGES).iterdir():
        file.unlink()
    with pytest.raises(StoreError, match="no log"):
        StoreLogs(RealFiles(), chosen, place)
    with pytest.raises(StoreError, match="no log"):
        look_at(RealFiles(), chosen, place)


async def test_a_store_saves_its_wiring_and_asks_for_what_it_lacks(tmp_path: Path) -> None:
    """A file that is gone is made again, since the log has it all; one that is none is a refusal."""
    made = config(tmp_path)
    made = msgspec.structs.replace(made, store=msgspec.structs.replace(made.store, catalog=""))
    folder = f"{tmp_path}/b1"
    async with running(made) as one:
        one.say(Take(CLUSTER, one.life))
        await one.hear(Taken)
        one.say(Write(1, [opened(one.life, ["b1"]), (ENTRIES, CLUSTER, declarations(1, 2))]))
        await one.hear(Written)
        assert (await one.hear(Ahead)).log == "tx", "it asks for a checkpoint"
        one.say(Write(2, [(CHECKPOINT, CLUSTER, cluster_checkpoint(2))]))
        await one.hear(Written)
        writer = one.node._catalog
        assert writer is not None
        await until(lambda: writer.index == 2)
        status = await one.node.status()
        assert (status["machine"]["catalog"], status["machine"]["catalog_index"]) == ("", 2)
        store = one.node._running_logs().directory.identity.store
    saved = read_catalog("", folder, UUID(store))
    assert saved is not None and saved.index == 2
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
        Path(folder, name).unlink(missing_ok=True)
    async with running(made) as two:
        two.say(Take(CLUSTER, two.life))
        await two.hear(Taken)
        assert two.node._catalog is not None and Path(folder, FILE).exists()
    Path(folder, FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreRefused, match="damaged"):
        async with running(made):
            pass


def test_a_scrub_reads_a_part_at_a_time():
    rotten = Rotten(TX, 8192, 8200)
    turn = iter([SCRUB_BYTES - 1, 10, 5, rotten, SCRUB_BYTES, 7])
    assert [read_on(turn) for _ in range(4)] == [[], [rotten], [], None]
