"""A launcher alone: no Ray, no supervisor, and nobody who judges who lives; what it asks of them is written down."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from mantamq.actors.config import (
    BrokerConfig,
    ClusterConfig,
    EventsConfig,
    LogConfig,
    ManagementConfig,
    MemberConfig,
    OwnershipConfig,
    ReplicaConfig,
    SequencerConfig,
    StoreConfig,
    TapConfig,
    chosen_limits,
)
from mantamq.actors.links.handshake import Credentials
from mantamq.actors.members.store_node import StoreInUse, StoreRefused
from mantamq.actors.ray_control.ray_handles import ActorGone
from mantamq.actors.supervisor.address_book import BookEntry
from mantamq.actors.supervisor.launcher import Launcher
from mantamq.actors.supervisor.lookout import Lookout
from mantamq.actors.supervisor.orders import Orders
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.record import ClusterRecord
from mantamq.protocol.errors import LocalError
from mantamq.protocol.supervisor.layout import Node
from mantamq.protocol.supervisor.office import Commission
from mantamq.protocol.supervisor.store_words import StoreWord
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.supervisor.turns import Turns
from mantamq.protocol.timing import Timing
from msgspec.structs import replace

NODE = Node("n1", "10.0.0.1", {})
ONE = Commission(1, "one", "supervisor")
LOGS = LogConfig(format="json", cluster="made up")
CHOSEN = ClusterConfig(client_port=7000, token="t", limits=chosen_limits(5000), timing=Timing(evict_ms=3500))


class MadeUp:
    """A placement, its handles, and an overseer: all that is asked of them, in order.

    Attributes:
        fails: names of actors that do not start.
        confirms: whether the brokers confirm the supervisor.
        life: of the next store that is started.
        said: what a store that is looked at says.
    """

    logs = LOGS

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.fails: set[str] = set()
        self.confirms = True
        self.life = 7
        self.said: dict[str, Any] = {}
        self.record = ClusterRecord("c", b"secret", Plan.of(2, CHOSEN))
        self.turns = Turns()
        placement: Any = self
        self.launcher = Launcher(self.record, placement, Orders(self.record, Supervision(ONE, True)), self, self.turns)

    # a placement

    def actor(self, cls: type, name: str, node: str, *args: Any) -> MadeUpHandle:
        self.asked.append(("actor", cls.__name__, name, node, *args))
        return MadeUpHandle(self, name)

    async def verify(self, handle: MadeUpHandle, node: str, timeout_s: float) -> dict[str, Any]:
        self.asked.append(("verify", handle.name))
        if handle.name in self.fails:
            raise ActorGone(f"{handle.name} does not start")
        return {"node": node, "pid": 7, "loop": "uvloop"}

    # an overseer

    async def confirmed(self) -> None:
        self.asked.append(("confirmed",))
        if not self.confirms:
            raise LocalError("no majority")

    def launched(self, name: str) -> None:
        self.asked.append(("launched", name))

    def began(self, name: str) -> None:
        self.asked.append(("began", name))

    def mind(self, name: str) -> None:
        self.asked.append(("mind", name))

    async def end(self, name: str, outside: bool = False) -> None:
        self.asked.append(("end", name, outside))

    def since(self) -> list[tuple[Any, ...]]:
        found, self.asked = self.asked, []
        return found

    def runs(self, *names: str) -> None:
        """These actors are there, and listen."""
        for name in names:
            role = "QueueReplica" if "." in name else "BrokerNode"
            handle: Any = MadeUpHandle(self, name)
            self.record.book[name] = BookEntry(handle, role, "n1", "10.0.0.1", 7, peers=f"at {name}")


class MadeUpHandle:
    def __init__(self, world: MadeUp, name: str) -> None:
        self.world, self.name, self.id = world, name, f"{name} {len(world.asked)}"
        self.refused: LocalError | None = None

    async def call(self, method: str, *args: Any, timeout_s: float = 0.0) -> Any:
        self.world.asked.append((self.name, method, *args))
        if self.refused is not None:
            raise self.refused
        if method == "look":
            return self.world.said
        life = {"life": str(self.world.life)} if self.name.endswith(".store") else {}
        addresses = {"peers": f"at {self.name}", "clients": f"10.0.0.1:{len(self.name)}"} | life
        return addresses if args[1:2] == ("start",) else None

    def kill(self) -> None:
        self.world.asked.append(("kill", self.name))


def test_a_process_is_in_the_book_from_its_beginning_and_a_broker_of_its_node_host_and_role() -> None:
    made = MadeUp()
    made.launcher.new(type("BrokerNode", (), {}), "b1", NODE)
    entry = made.record.book["b1"]
    assert (entry.role, entry.node, entry.host, entry.pid, entry.inc) == ("BrokerNode", "n1", "10.0.0.1", 0, 0)
    assert made.since() == [("actor", "BrokerNode", "b1", "n1", True)]


async def test_while_a_cluster_starts_verified_processes_are_counted() -> None:
    made = MadeUp()
    for name in ("b1", "b2"):
        made.launcher.new(type("BrokerNode", (), {}), name, NODE)
    await made.launcher.verify("b1", 1.0)
    assert made.record.stage == "1 of 2 processes are up" and made.record.book["b1"].pid == 7
    made.record.stage = "running"
    await made.launcher.verify("b2", 1.0)
    assert made.record.stage == "running" and made.record.book["b2"].loop == "uvloop"


def test_numbers_are_given_once() -> None:
    made = MadeUp()
    made.runs("b1", "b2", "b1.r0", "b1.r4")
    assert [made.launcher.number("b1") for _ in range(2)] == [5, 6] and made.launcher.number("b2") == 0
    made.record.book.pop("b1.r4")
    assert made.launcher.number("b1") == 7
    assert [made.launcher.new_broker() for _ in range(2)] == ["b3", "b4"]
    assert made.launcher.new_sequencer("sequencer") == "sequencer3"
    assert made.launcher.new_sequencer("sequencer5") == "sequencer6"
    assert made.record.numbers == {"b1": 7, "b2": 0, "broker": 4, "sequencer": 6}


@pytest.mark.parametrize("kind", ["sequencer", "ownership", "b2", "b2.r0"])
async def test_each_kind_is_told_to_begin_by_this_supervisors_number_with_what_its_kind_is_given(kind: str) -> None:
    made = MadeUp()
    made.runs("b1", "b1.r0", kind)
    launcher = made.launcher
    start = {
        "sequencer": lambda: launcher.start_sequencer(kind, True),
        "ownership": lambda: launcher.start_ownership(kind),
        "b2": lambda: launcher.start_broker(kind, 7001, True, {"sequencer": "there"}),
        "b2.r0": lambda: launcher.start_replica(kind),
    }
    await start[kind]()
    ((name, obey, giver, method, config, *further),) = made.since()
    entry = made.record.book[kind]
    assert (name, obey, giver, method) == (kind, "obey", tuple(ONE), "start")
    assert entry.inc and entry.peers == f"at {kind}" and entry.clients.startswith("10.0.0.1:")
    dialled = {
        "sequencer": {}, "ownership": {}, "b2": {"sequencer": "there"}, "b2.r0": {"b1.r0": "at b1.r0"},
    }[kind]  # fmt: skip
    member = MemberConfig(
        credentials=Credentials("c", b"secret", kind, entry.inc),
        bind="10.0.0.1",
        logs=replace(LOGS, host="10.0.0.1"),
        peers=dialled,
        limits=CHOSEN.limits,
        timing=CHOSEN.timing,
    )
    voters = ("b1", "b2")
    assert (
        config
        == {
            "sequencer": SequencerConfig(member=member, voters=voters, leading=True),
            "ownership": OwnershipConfig(member=member, slice_ms=20),
            "b2": BrokerConfig(member=member, client_port=7001, voters=voters, blank=True, token="t", replicas_max=2),
            "b2.r0": ReplicaConfig(member=member, broker="b2"),
        }[kind]
    )
    assert [one._method for one in further] == (["want_spare"] if kind == "b2" else [])


async def test_a_broker_is_launched_only_while_the_brokers_confirm_us_and_introduced_before_its_replicas() -> None:
    made = MadeUp()
    made.runs("b1", "b1.r0")
    made.confirms = False
    with pytest.raises(LocalError, match="no majority"):
        await made.launcher.launch_broker("b2", NODE, 2)
    assert made.since() == [("confirmed",)] and "b2" not in made.record.book
    made.confirms = True
    names = await made.launcher.launch_broker("b2", NODE, 2, gently=True)
    assert names == ["b2.r0", "b2.r1"]
    asked = made.since()
    assert [one[:3] for one in asked[:4]] == [
        ("confirmed",), ("actor", "BrokerNode", "b2"), ("launched", "b2"), ("verify", "b2"),
    ]  # fmt: skip
    assert [one[2] for one in asked if one[0] == "actor"] == ["b2", *names]
    await made.launcher.introduce("b2", names, 7001)
    said = [(one[0], one[3]) if one[1:2] == ("obey",) else one for one in made.since()]
    assert said == [
        ("confirmed",), ("began", "b2"), ("b2", "start"), ("b2.r0", "start"), ("b2.r1", "start"),
        ("b2", "until_linked", names, 2.0), ("b2", "meet"), ("mind", "b2"), ("mind", "b2.r0"), ("mind", "b2.r1"),
    ]  # fmt: skip


async def test_where_one_process_of_a_broker_does_not_start_its_replicas_are_ended() -> None:
    made = MadeUp()
    made.fails.add("b2.r1")
    with pytest.raises(ActorGone):
        await made.launcher.launch_broker("b2", NODE, 2)
    assert [one for one in made.since() if one[0] == "kill"] == [("kill", "b2.r0"), ("kill", "b2.r1")]
    assert list(made.record.book) == ["b2"], "its entry says where it was to be"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_further_replica_is_minded_when_it_has_begun_and_forgotten_when_it_does_not_start(fails: bool) -> None:
    made = MadeUp()
    made.runs("b1", "b1.r0")
    made.fails.update(["b1.r1"] if fails else [])
    assert await made.launcher.add_replica("b1") is not fails
    assert made.since()[-1] == (("kill", "b1.r1") if fails else ("mind", "b1.r1"))
    assert ("b1.r1" in made.record.book) is not fails


async def test_who_is_forgotten_is_ended_with_its_replicas_not_replaced_and_the_others_dial_it_no_more() -> None:
    made = MadeUp()
    made.runs("b1", "b1.r0", "b2", "b2.r0", "b2.r1")
    made.turns.add("b2.r1")
    await made.launcher.forget("b2")
    asked = made.since()
    assert asked[:3] == [("end", "b2", True), ("end", "b2.r0", True), ("end", "b2.r1", True)]
    assert asked[3:] == [("b1.r0", "obey", tuple(ONE), "part", ["b2.r0", "b2.r1"])]
    assert list(made.record.book) == ["b1", "b1.r0"] and not made.turns.due()


async def test_replicas_begin_one_after_the_other_so_that_every_two_are_linked_once() -> None:
    made = MadeUp()
    made.runs("b1", "b2")
    for name in ("b1.r0", "b2.r0"):
        made.launcher.new(type("QueueReplica", (), {}), name, NODE)
    made.since()
    await asyncio.gather(made.launcher.start_replica("b1.r0"), made.launcher.start_replica("b2.r0"))
    first, second = (one[4].member.peers for one in made.since())
    assert first == {"b1": "at b1"} and second == {"b2": "at b2", "b1.r0": "at b1.r0"}


async def test_a_tap_is_given_the_clusters_folder_and_all_others_are_told_that_there_are_events() -> None:
    pytest.importorskip("pyarrow")
    from mantamq.store.events.event_folders import folder_of

    made = MadeUp()
    events = EventsConfig(directory="/events", keep_s=5.0, keep_bytes=6)
    made.record.plan = Plan.of(2, replace(CHOSEN, events=events))
    made.record.began = 0.0
    made.launcher.new_tap(NODE)
    made.runs("b1", "b1.r0")
    await made.launcher.start_tap()
    await made.launcher.start_broker("b1", 0, False, {})
    await made.launcher.start_replica("b1.r0")
    _, tap, broker, replica = (one[4] for one in made.since())
    member = MemberConfig(
        credentials=Credentials("c", b"secret", "events"),
        bind="10.0.0.1",
        limits=CHOSEN.limits,
        timing=CHOSEN.timing,
        logs=replace(LOGS, host="10.0.0.1"),
    )
    assert tap == TapConfig(member=member, events=events, folder=folder_of("/events", 0.0, "c"))
    assert made.record.book["events"].inc
    assert broker.events and replica.events


async def test_a_cluster_without_events_has_no_tap() -> None:
    made = MadeUp()
    made.launcher.new_tap(NODE)
    await made.launcher.start_tap()
    assert made.since() == []


async def test_a_broker_with_a_store_lives_the_life_of_that_and_dials_it() -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, store=StoreConfig(data="/data")))
    made.runs("b1", "b1.r0")
    made.life = 1 << 50
    names = await made.launcher.launch_broker("b2", NODE, 1, gently=True)
    started = [one[1:3] for one in made.since() if one[0] == "actor"]
    assert started == [("StoreNode", "b2.store"), ("BrokerNode", "b2"), ("QueueReplica", "b2.r0")]
    await made.launcher.introduce("b2", names, 7001)
    asked = made.since()
    told = {one[0]: one[4] for one in asked if one[1:2] == ("obey",) and one[3] == "start"}
    assert list(told) == ["b2.store", "b2", "b2.r0"], "the store first: its life is the broker's"
    assert not told["b2.store"].birth and told["b2.store"].store.data == "/data"
    assert told["b2"].member.credentials.inc == 1 << 50 and told["b2"].store == told["b2.r0"].store == "/data/b2"
    assert told["b2"].member.peers == {"b2.store": "at b2.store"}
    assert told["b2.r0"].member.peers == {"b2.store": "at b2.store", "b2": "at b2", "b1.r0": "at b1.r0"}
    assert told["b2.r0"].member.credentials.inc > 1 << 50
    assert [one[1] for one in asked if one[0] == "mind"] == ["b2.store", "b2", "b2.r0"]


async def test_a_store_says_what_it_has_before_its_cluster_is_known() -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, store=StoreConfig(data="/data")))
    made.launcher.new_store("b2", NODE)
    made.said = {"broker": "b2", "status": "dirty", "a field of a later version": 1}
    assert await made.launcher.look("b2") == StoreWord(broker="b2", status="dirty")
    name, look, config = made.since()[-1]
    assert (name, look, config.node, config.member.credentials.cluster) == ("b2.store", "look", "10.0.0.1", "")
    await made.launcher.look("b2", "mine")
    assert made.since()[-1][2].member.credentials.cluster == "mine"
    await made.launcher.start_store("b2", birth=True)
    assert made.since()[-1][4].birth and made.since() == []


async def test_where_a_process_of_a_broker_does_not_start_its_store_is_ended_too() -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, store=StoreConfig(data="/data")))
    made.fails.add("b2.r0")
    with pytest.raises(ActorGone):
        await made.launcher.launch_broker("b2", NODE, 1)
    assert [one for one in made.since() if one[0] == "kill"] == [("kill", "b2.store"), ("kill", "b2.r0")]
    assert list(made.record.book) == ["b2"]


async def test_a_store_that_cannot_be_used_is_noted_and_one_that_is_in_use_is_not() -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, store=StoreConfig(data="/data")))
    for life in range(6):
        made.launcher.new_store("b2", NODE)
        refused = (StoreInUse if life % 2 else StoreRefused)(f"errno {life}")
        made.record.book["b2.store"].handle.refused = refused  # type: ignore[attr-defined]
        assert not made.record.store_failures.down("b2")
        with pytest.raises(type(refused)):
            await made.launcher.start_store("b2")
        if made.record.store_failures.down("b2"):
            break
    assert life == 4 and "errno 4" in made.record.store_failures.down("b2")
    await made.launcher.forget("b2")
    assert not made.record.store_failures.down("b2")


async def test_a_cluster_without_stores_has_no_process_of_them() -> None:
    made = MadeUp()
    made.launcher.new_store("b2", NODE)
    assert made.since() == [] and not made.record.book


async def test_a_page_is_told_where_brokers_take_clients_and_how_to_look() -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, management=ManagementConfig(port=15672)))
    made.runs("b1")
    made.record.book.change("b1", clients="10.0.0.1:7000", serving=True)
    await made.launcher.launch_management(NODE)
    (order,) = [one for one in made.since() if one[1:2] == ("obey",)]
    config, look = order[4:6]
    assert config.management == ManagementConfig(port=15672)
    assert config.brokers == ("10.0.0.1:7000",) and config.token == CHOSEN.token
    assert isinstance(pickle.loads(pickle.dumps(look)), Lookout)
    assert made.record.book["management"].inc


async def test_a_page_that_does_not_begin_is_no_process_of_the_cluster() -> None:
    made = MadeUp()
    made.runs("b1")
    made.fails.add("management")
    with pytest.raises(LocalError, match="management does not start"):
        await made.launcher.launch_management(NODE)
    assert "management" not in made.record.book
    assert made.since()[-1] == ("kill", "management")


@pytest.mark.parametrize(
    ("page", "back"),
    [
        (ManagementConfig(port=15672, elsewhere=True), ManagementConfig(port=40001, elsewhere=True)),
        (ManagementConfig(port=0), ManagementConfig(port=40001, elsewhere=True)),
        (ManagementConfig(port=15672), ManagementConfig(port=15672)),
    ],
)
async def test_a_page_that_comes_back_is_where_it_was_unless_its_port_was_named(
    page: ManagementConfig, back: ManagementConfig
) -> None:
    made = MadeUp()
    made.record.plan = Plan.of(2, replace(CHOSEN, management=page))
    made.runs("b1", "management")
    made.record.book.change("management", peers="127.0.0.1:40001")
    made.fails.add("management")
    with pytest.raises(LocalError):
        await made.launcher.launch_management(NODE)
    made.fails.clear()
    made.since()
    await made.launcher.launch_management(NODE)  # the second time, too
    (order,) = [one for one in made.since() if one[1:2] == ("obey",)]
    assert order[4].management == back
