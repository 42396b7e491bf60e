"""Each kind of member begins from its configuration alone: no supervisor, no Ray, no other member."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mantamq.actors.config import (
    BrokerConfig,
    EventsConfig,
    ManagementConfig,
    ManagementNodeConfig,
    MemberConfig,
    OwnershipConfig,
    ReplicaConfig,
    SequencerConfig,
    TapConfig,
)
from mantamq.actors.links.handshake import Credentials
from mantamq.actors.members.broker_node import BrokerNode
from mantamq.actors.members.management_node import ManagementNode
from mantamq.actors.members.member import MemberActor
from mantamq.actors.members.ownership import Ownership
from mantamq.actors.members.queue_replica import QueueReplica
from mantamq.actors.members.sequencer import Sequencer
from mantamq.actors.members.store_node import StoreNode
from mantamq.protocol.capture.event_table import NOTES, OPERATED, Row
from mantamq.protocol.capture.tap import Rows
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import Limits
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.machine import EVENTS
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.timing import Timing
from msgspec import UNSET
from msgspec.structs import replace

HERE = "127.0.0.1"
LIMITS = Limits(message_bytes=5000)
TIMING = Timing(evict_ms=3500)
M = TypeVar("M", bound=MemberActor)


def member(name: str, **peers: str) -> MemberConfig:
    return MemberConfig(
        credentials=Credentials("c", b"s" * 32, name, 77), bind=HERE, peers=peers, limits=LIMITS, timing=TIMING
    )


def broker(**options: Any) -> BrokerConfig:
    options = {"client_port": 0, "voters": ("b1", "b2"), "blank": False} | options
    return BrokerConfig(member=member("b1", sequencer=f"{HERE}:1"), **options)


async def begun(actor: M, *order: Any) -> M:
    """Started as a supervisor does it, with a configuration that has travelled."""
    addresses = await actor.obey((1, "one", "supervisor"), "start", pickle.loads(pickle.dumps(order[0])), *order[1:])
    assert addresses == actor.addresses and addresses["peers"].startswith(f"{HERE}:")
    shell = actor.shell
    assert shell is not None and shell.own == order[0].member.credentials and shell.machine.office is actor.office
    machine: Any = shell.machine
    assert machine.timing == shell._timing == TIMING and getattr(machine, "limits", LIMITS) == shell._limits == LIMITS
    assert sorted(shell._diallers) == sorted(order[0].member.peers)
    return actor


def test_each_kind_is_started_with_one_configuration_of_its_own() -> None:
    pytest.importorskip("pyarrow")
    from mantamq.actors.members.event_tap import EventTap

    kinds = {Sequencer, Ownership, BrokerNode, QueueReplica, EventTap, StoreNode, ManagementNode}
    assert {one for one in MemberActor.__subclasses__() if one.__module__.startswith("mantamq.actors.")} == kinds
    taken = {kind: list(inspect.signature(kind.start).parameters.values())[1:] for kind in kinds}
    assert {kind.__name__: first.annotation for kind, (first, *_) in taken.items()} == {
        "Sequencer": "SequencerConfig", "Ownership": "OwnershipConfig", "BrokerNode": "BrokerConfig",
        "QueueReplica": "ReplicaConfig", "EventTap": "TapConfig", "StoreNode": "StoreNodeConfig",
        "ManagementNode": "ManagementNodeConfig",
    }  # fmt: skip
    further = {kind: [one.name for one in rest] for kind, (_, *rest) in taken.items() if rest}
    assert further == {BrokerNode: ["want_spare"], ManagementNode: ["look"]}, "a way to call somebody is no value"


async def test_a_sequencer() -> None:
    for leading in (True, False):
        config = SequencerConfig(member=member("sequencer"), voters=("b1", "b2"), leading=leading)
        actor = await begun(Sequencer("sequencer"), config)
        machine = actor.shell.machine  # pyright: ignore[reportOptionalMemberAccess]
        assert isinstance(machine, SequencerMachine) and machine.uid == 77
        assert (await actor.status())["machine"]["role"] == ("leading" if leading else "standby")
        with pytest.raises(LocalError, match="has been started already"):
            await actor.start(config)
        await actor.stop()


async def test_an_ownership() -> None:
    config = OwnershipConfig(member=member("ownership", sequencer=f"{HERE}:1"), slice_ms=9)
    actor = await begun(Ownership("ownership"), config)
    machine = actor.shell.machine  # pyright: ignore[reportOptionalMemberAccess]
    assert isinstance(machine, OwnershipMachine) and (machine.inc, machine.slice_ms) == (77, 9)
    await actor.stop()


@pytest.mark.parametrize(("events", "peers"), [(False, []), (True, [EVENTS])])
async def test_a_queue_replica(events: bool, peers: list[str]) -> None:
    config = ReplicaConfig(member=member("b1.r0", b1=f"{HERE}:1", sequencer=f"{HERE}:2"), broker="b1", events=events)
    actor = await begun(QueueReplica("b1.r0"), config)
    machine: Any = actor.shell.machine  # pyright: ignore[reportOptionalMemberAccess]
    assert (machine.broker, machine.inc) == ("b1", 77) and list(machine.companions) == peers
    await actor.stop()


@pytest.mark.parametrize(("events", "peers"), [(False, []), (True, [EVENTS])])
async def test_a_broker(events: bool, peers: list[str]) -> None:
    asked: list[str] = []
    actor = await begun(BrokerNode("b1"), broker(events=events, token="t", replicas_max=3), asked.append)
    shell: Any = actor.shell
    assert list(shell.machine.companions) == peers and shell.machine.inc == 77
    assert shell.machine.connections.cluster == member("b1").credentials.cluster != ""
    assert set(actor.addresses) == {"peers", "clients"}
    shell._on_want_spare()
    assert asked == ["b1"]
    await actor.stop()


async def test_a_broker_that_comes_back_takes_another_port_where_its_own_is_taken_and_a_first_one_does_not() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, HERE, 0)
    taken = server.sockets[0].getsockname()[1]
    with pytest.raises(LocalError, match="choose another port"):
        await BrokerNode("b1").start(broker(client_port=taken), lambda broker: None)
    actor = await begun(BrokerNode("b1"), broker(client_port=taken, blank=True), lambda broker: None)
    assert actor.addresses["clients"] != f"{HERE}:{taken}"
    server.close()
    await actor.stop()


async def test_an_address_of_another_machine_is_not_mended_by_another_port() -> None:
    config = broker()
    elsewhere = replace(config, member=replace(config.member, bind="203.0.113.9"))
    with pytest.raises(LocalError, match="bind an address of this machine") as refused:
        await BrokerNode("b1").start(elsewhere, lambda broker: None)
    assert "another port" not in str(refused.value)


async def test_a_tap(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from mantamq.actors.members.event_tap import EventTap

    events = EventsConfig(directory=str(tmp_path), keep_s=5.0, keep_bytes=6)
    config = TapConfig(member=member("events"), events=events, folder=str(tmp_path / "c"))
    actor = await begun(EventTap("events"), config)
    report = (await actor.status())["machine"]
    assert report["directory"].endswith(f"{tmp_path.name}/c") and not report["error"]
    assert (actor._limits.keep_s, actor._limits.keep_bytes) == (5.0, 6)
    await actor.stop()
    with pytest.raises(LocalError, match="not been started"):
        await EventTap("events").newest([], "", 9)
    (tmp_path / "file").touch()
    config = TapConfig(member=member("events"), events=events, folder=str(tmp_path / "file" / "below"))
    with pytest.raises(LocalError, match=f"events cannot be kept in {tmp_path}: .*; give another --events"):
        await EventTap("events").start(config)


@pytest.fixture
def tap_without_ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kind of actor that keeps the events; what it would put into Ray's object store it keeps itself."""
    pytest.importorskip("pyarrow")
    from mantamq.actors.members import event_tap

    monkeypatch.setattr(event_tap, "_put", lambda block: block)
    return event_tap.EventTap


async def test_a_tap_tells_the_newest_rows_also_those_that_are_in_a_part_already(
    tmp_path: Path, tap_without_ray: Any
) -> None:
    events = EventsConfig(directory=str(tmp_path), keep_s=5.0, keep_bytes=0)
    config = TapConfig(member=member("events"), events=events, folder=str(tmp_path / "c"))
    actor: Any = await begun(tap_without_ray("events"), config)
    told = [Row(kind="own", queue="orders#1", time_us=1), Row(kind="connect", client="c1", time_us=2)]
    actor._machine.rows += [Rows("orders#1", 1, told[:1]), Rows("@b1#1", 1, told[1:]), Rows("orders#1", 1, told[:1])]
    assert await actor.roll() == 2, "what was told twice is a row once"
    found = await actor.newest([], "", 9)
    assert [(row["row"], row["kind"]) for row in found] == [(2, "connect"), (1, "own")]
    assert [row["row"] for row in await actor.newest(["own"], "ord", 9)] == [1]
    await actor.stop()


async def test_a_tap_takes_what_the_page_tells_once_and_says_when_it_is_on_disk(
    tmp_path: Path, tap_without_ray: Any
) -> None:
    from mantamq.store.events.event_parts import list_parts, read_parts

    events = EventsConfig(directory=str(tmp_path), keep_s=0.0, keep_bytes=0)
    config = TapConfig(member=member("events"), events=events, folder=str(tmp_path / "c"))
    rows = [list(Row(kind=OPERATED, part=-1, client=who)) for who in ("ann", "bob", "eve")]
    stream = f"{NOTES}7"
    with pytest.raises(LocalError, match="not been started"):
        await tap_without_ray("events").note(stream, 1, rows)
    actor: Any = await begun(tap_without_ray("events"), config)
    assert await actor.note(stream, 1, rows[:2]) == 0
    assert await actor.note(stream, 1, rows[:2]) == 0
    await actor.roll()
    assert await actor.note(stream, 1, rows[:2]) == 2
    assert [row["client"] for row in await actor.newest([OPERATED], "", 9)] == ["bob", "ann"]
    actor._waiting_rows = 0
    assert await actor.note(stream, 3, rows[2:]) == 2 and actor._writer.waiting == 0, "no room: not taken"
    await actor.stop()
    actor = await begun(tap_without_ray("events"), config)
    assert await actor.note(stream, 1, rows) == 2, "the next tap goes on where the last one's parts end"
    assert stream not in actor._machine.streams, "members have no such stream"
    await actor.stop()
    folder = str(tmp_path / "c")
    assert read_parts(folder, list_parts(folder).parts)["client"].to_pylist() == ["ann", "bob", "eve"]


async def test_a_page() -> None:
    def look() -> ClusterStatus:
        raise LocalError("no process of the cluster is known to Ray any more")

    config = ManagementNodeConfig(member=member("management"), management=ManagementConfig(port=0))
    actor = ManagementNode("management")
    assert actor.report().machine is UNSET
    pickle.loads(pickle.dumps(config))
    addresses = await actor.start(config, look)
    assert addresses == actor.addresses and addresses["peers"].startswith(f"{HERE}:")
    async with asyncio.timeout(10):
        while not (await actor.status())["machine"]["looks"]:
            await asyncio.sleep(0.01)
    machine = (await actor.status())["machine"]
    assert machine["address"] == addresses["peers"] and not machine["trouble"]
    assert (
        "known to Ray" in machine["missed"]["status"] and "no broker takes clients" in machine["missed"]["statistics"]
    )
    with pytest.raises(LocalError, match="has been started already"):
        await actor.start(config, look)
    await actor.meet({"sequencer": f"{HERE}:1"})
    await actor.part(["sequencer"])
    await actor.hush()
    host, _, port = addresses["peers"].rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    await actor.hush()
    await actor.stop()


async def test_a_page_that_cannot_listen_is_refused() -> None:
    chosen = ManagementConfig(port=0, host="203.0.113.1")
    config = ManagementNodeConfig(member=member("management"), management=chosen, token="t")
    actor = ManagementNode("management")
    with pytest.raises(LocalError, match="name another host"):
        await actor.start(config, lambda: ClusterStatus.read({}))
    assert actor.report().machine is UNSET
