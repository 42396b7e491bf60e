"""Each part of a supervisor alone: its record is real, and of the other parts only what was asked of them is known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from made_up_status import actors, broker, member, report
from mantamq.actors.config import ClusterConfig, ManagementConfig, StoreConfig
from mantamq.actors.ray_control.ray_handles import ActorDied, ActorGone
from mantamq.actors.supervisor import supervision_shell
from mantamq.actors.supervisor.address_book import BookEntry, fresh
from mantamq.actors.supervisor.announcer import Announcer
from mantamq.actors.supervisor.healer import Healer
from mantamq.actors.supervisor.joiner import Joiner
from mantamq.actors.supervisor.nodes import Nodes
from mantamq.actors.supervisor.orders import Orders
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.reach import Reach
from mantamq.actors.supervisor.rebalancer import Rebalancer
from mantamq.actors.supervisor.record import ClusterRecord
from mantamq.actors.supervisor.replacer import Replacer
from mantamq.actors.supervisor.reports import reports
from mantamq.actors.supervisor.store_homes import NotYet, StoreHomes
from mantamq.actors.supervisor.supervision_shell import LeftAlone, SupervisionShell
from mantamq.actors.supervisor.supervisor_state import SupervisorState
from mantamq.actors.supervisor.takeover import Takeover
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.supervisor.change_deeds import JOIN, LEAVE, Begin, Change
from mantamq.protocol.supervisor.layout import Node
from mantamq.protocol.supervisor.office import Commission
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.supervisor.turns import Turns
from mantamq.protocol.timing import Timing
from msgspec.structs import replace

ONE = Commission(1, "one", "supervisor")
NODES = [Node(f"n{number}", f"10.0.0.{number}", {}) for number in (1, 2, 3)]
AT_ONCE = frozenset({"mind", "dead", "serve_when_joined", "new", "new_sequencer", "new_broker", "find", "begin"})
"""Methods of parts that are no coroutines."""
NAMES = ("sequencer", "sequencer2", "ownership", "ownership2", "b1", "b1.r0", "b2", "b2.r0", "b3", "b3.r0")
ROLES = {"s": "Sequencer", "o": "Ownership", "e": "EventTap", "b": "BrokerNode", "m": "ManagementNode"}


class Part:
    """Any other part, or a handle: notes what is asked of it, and answers what it was told to."""

    def __init__(self, asked: list[tuple[Any, ...]], prefix: str = "", **answers: Any) -> None:
        self._asked, self._prefix, self._answers = asked, prefix, answers
        self.id = prefix

    def __getattr__(self, method: str) -> Any:
        def note(*args: Any, **more: Any) -> Any:
            self._asked.append((*([self._prefix] if self._prefix else []), method, *args))
            answer = self._answers.get(method)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        async def later(*args: Any, **more: Any) -> Any:
            return note(*args, **more)

        return note if method in AT_ONCE else later


class Member:
    """The handle of a member, which answers what it was told to, by method."""

    def __init__(self, asked: list[tuple[Any, ...]], name: str, answers: dict[str, Any]) -> None:
        self.asked, self.name, self.id, self.answers = asked, name, f"id of {name}", answers

    async def call(self, method: str, *args: Any, timeout_s: float = 0.0) -> Any:
        self.asked.append((self.name, *(args[1:] if method == "obey" else (method,))))
        answer = self.answers.get(args[1] if method == "obey" else method)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self) -> None:
        self.asked.append((self.name, "killed"))

    async def end(self, timeout_s: float = 0.0) -> bool:
        self.asked.append((self.name, "ended"))
        return True


class World:
    def __init__(self, *names: str, **answers: Any) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = answers
        self.record = ClusterRecord("c", b"secret", Plan.of(3, ClusterConfig(spares=1)), stage="running")
        for number, name in enumerate(names or NAMES):
            self.enter(name, NODES[number % 3])
        self.turns = Turns()
        self.supervision = Supervision(ONE, elected=True)
        self.orders = Orders(self.record, self.supervision)
        self.silent: set[str] = set()
        self.reach = Reach(lambda nodes, timeout_s: set(nodes) - self.silent)
        self.nodes = Nodes(self.record, self.reach, lambda: NODES)

    def enter(self, name: str, node: Node) -> None:
        handle: Any = Member(self.asked, name, self.answers)
        role = "StoreNode" if name.endswith(".store") else "QueueReplica" if "." in name else ROLES[name[0]]
        serving = role == "BrokerNode"
        clients = f"{node.host}:7000" if serving else ""
        self.record.book[name] = BookEntry(
            handle, role, node.id, node.host, 7, "loop", f"at {name}", clients, serving, 11
        )

    def part(self, prefix: str = "", **answers: Any) -> Any:
        return Part(self.asked, prefix, **answers)

    def since(self) -> list[tuple[Any, ...]]:
        found, self.asked[:] = list(self.asked), []
        return found


# ---- orders, nodes, reports


async def test_orders_carry_the_supervisors_number_and_keep_nobody_who_does_not_answer() -> None:
    world = World("b1", "b2", "b3", part=ActorGone("gone"), drain="done")
    assert await world.orders.give("b1", "drain") == "done"
    world.record.book.change("b3", pid=0)
    await world.orders.give_all(["b1", "b2", "b3"], "part", ["b9"])
    assert world.since() == [("b1", "drain"), ("b1", "part", ["b9"]), ("b2", "part", ["b9"])]


async def test_a_newcomers_node_answers_and_has_the_fewest_brokers_or_is_named() -> None:
    world = World("b1", "b2")  # on the first two
    assert await world.nodes.for_newcomer("") == NODES[2] and await world.nodes.for_newcomer("10.0.0.2") == NODES[1]
    world = World("b1", "b2")
    world.silent = {"n3"}
    assert (await world.nodes.for_newcomer("")).id != "n3" and await world.nodes.for_broker("n3") != NODES[2]
    assert world.nodes.find("n3") == NODES[2] and world.nodes.find("n9") is None
    with pytest.raises(LocalError, match="several Ray nodes are called 'n'"):
        await world.nodes.for_newcomer("n")


async def test_who_does_not_answer_is_reported_as_not_alive() -> None:
    world = World("b1", "sequencer", status=ActorGone("out of reach"))
    found = await reports(world.record.book, 1.0)
    assert [(one.name, one.alive, one.error) for one in found] == [
        ("b1", False, "out of reach"), ("sequencer", False, "out of reach"),
    ]  # fmt: skip
    assert [one.name for one in await reports(world.record.book, 1.0, "Sequencer")] == ["sequencer"]


# ---- the announcer


def announcer(world: World) -> Announcer:
    placement: Any = "placement"
    return Announcer(world.record, placement, world.supervision, world.orders, world.turns, b"successor")


async def test_brokers_are_told_where_clients_go_and_what_the_next_supervisor_must_know() -> None:
    world = World("b1", "b2", "b3")
    world.record.numbers["b1"] = 4
    assert await announcer(world).tell()
    asked = world.since()
    assert [one[:2] for one in asked] == [(b, m) for b in ("b1", "b2", "b3") for m in ("members", "remember")]
    watches = [one[2] for one in asked[1::2]]
    assert [watch.rank for watch in watches] == [0, 1, 2] and {watch.successor for watch in watches} == {b"successor"}
    state = SupervisorState.unpacked(watches[0].state)
    assert (state.version, state.number, state.numbers, state.secret) == (1, 1, {"b1": 4}, b"secret")
    assert asked[0][2] == world.record.book.serving()


async def test_who_is_being_replaced_is_not_told_and_counts_in_the_majority() -> None:
    world = World("b1", "b2", "b3")
    world.turns.add("b1")
    assert await announcer(world).tell() and {one[0] for one in world.since()} == {"b2", "b3"}
    world.turns.add("b2")
    assert not await announcer(world).tell()
    world.answers["remember"] = ActorGone("gone")
    assert not await announcer(world).tell()


def said(**status: Any) -> dict[str, Any]:
    """What a broker says of itself."""
    return member("b1", "BrokerNode", machine=broker(["b1", "b2"], **status)).plain()


async def test_clients_are_told_of_a_broker_when_it_has_the_wiring_and_does_not_leave() -> None:
    world = World("b1", "b2", status=said(blank=True))
    world.record.book.change("b1", serving=False)
    one = announcer(world)
    one.serve_when_joined("b1")
    await asyncio.sleep(0.15)
    assert not world.record.book["b1"].serving
    world.answers["status"] = said(blank=False)
    await asyncio.sleep(0.25)
    assert world.record.book["b1"].serving and ("b2", "members", world.record.book.serving()) in world.since()
    world.record.book.change("b2", serving=False)
    world.record.changes.step(Begin(Change("r", LEAVE, "b2")))
    one.serve_when_joined("b2")
    await asyncio.sleep(0.15)
    assert not world.record.book["b2"].serving
    one.close()


# ---- the shell of supervision


def confirmation(**more: Any) -> dict[str, Any]:
    return {"holder": tuple(ONE), "settled": 1, "linked": ["sequencer"], "ballot": (1, 7)} | more


class Shelled(World):
    """A supervision's shell, and the nodes of its Ray."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str, **answers: Any) -> None:
        super().__init__(*names, **answers)
        monkeypatch.setattr(supervision_shell, "alive_nodes", lambda: NODES)
        monkeypatch.setattr(supervision_shell, "current_place", lambda: {"node": "elsewhere"})
        self.resigned: list[str] = []
        self.placement: Any = self
        self.shell = SupervisionShell(
            self.record, self.supervision, self.placement, self.orders, self.turns, self.reach, self.resigned.append
        )

    def kill_process(self, node: str, pid: int) -> None:
        self.asked.append(("kill", node, pid))


async def test_nothing_is_done_until_a_majority_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, "b1", "b2", "b3", confirm=ActorGone("silent"))
    world.supervision.timing = Timing(confirmed_ms=301)
    with pytest.raises(LocalError, match="no majority of the brokers confirms this supervisor"):
        await world.shell.confirmed()
    world.answers["confirm"] = confirmation()
    await world.shell.confirmed()


async def test_a_death_that_is_heard_of_is_to_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, confirm=confirmation(), linger=ActorDied("dead"))
    await world.shell.confirmed()
    world.shell.mind("b1.r0")
    await asyncio.sleep(0.1)
    assert world.turns.names() == ["b1.r0"]
    world.shell.close()


async def test_the_death_of_one_is_not_that_of_who_has_its_place_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two have heard of it, and it is replaced while Ray is asked by the second which nodes live."""
    world = Shelled(monkeypatch, confirm=confirmation(), linger=ActorDied("dead"))

    def replaced() -> list[Node]:
        world.enter("b3", NODES[2])
        world.record.book["b3"].handle.id = "another one"
        return NODES

    monkeypatch.setattr(supervision_shell, "alive_nodes", replaced)
    await world.shell.confirmed()
    world.shell.mind("b3")
    await asyncio.sleep(0.1)
    assert world.record.book["b3"].handle.id == "another one" and world.turns.names() == []
    world.shell.close()


async def test_the_last_word_of_a_store_whose_disk_has_failed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, "b1", "b2", "b3", "b2.r0", confirm=confirmation(), linger="/data/b2: errno 5")
    await world.shell.confirmed()
    for life in ("one", "two", "three"):
        assert not world.record.store_failures.down("b2")
        world.enter("b2.store", NODES[1])
        world.record.book["b2.store"].handle.id = life  # type: ignore[misc]
        for name in ("b2.store", "b2.r0"):
            world.shell.mind(name)
        await asyncio.sleep(0.05)
    assert "b2.store" in world.turns and "errno 5" in world.record.store_failures.down("b2")
    world.shell.close()


async def test_a_process_is_asked_to_end_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, "b1", "b2", "b3", confirm=confirmation(), end="")
    await world.shell.confirmed()
    world.since()
    await world.shell.end("b3", outside=True)
    assert [one for one in world.since() if one[0] == "b3"] == [("b3", "end", True), ("b3", "ended")]
    world.answers["end"] = ActorGone("it stands still")
    await world.shell.confirmed()
    ending = asyncio.ensure_future(world.shell.end("b2", outside=True))
    while not ending.done():
        await world.shell._confirm(True)
        await asyncio.sleep(0.05)
    asked = world.since()
    assert ("b2", "killed") in asked
    async with asyncio.timeout(5):  # its process as well, which does not hear Ray: asked for beside
        while ("kill", "n2", 7) not in asked:
            await asyncio.sleep(0.01)
            asked += world.since()
    world.shell.close()


async def test_who_is_needed_is_left_alone_and_minded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, "b1", "b2", "b3", confirm=confirmation(), end="it leads", linger=ActorGone("away"))
    await world.shell.confirmed()
    world.turns.add("b3")
    with pytest.raises(LeftAlone, match="b3 is not ended: it leads"):
        await world.shell.end("b3", outside=True)
    await asyncio.sleep(0.01)
    assert not world.turns.due() and ("b3", "linger") in world.since()
    world.shell.close()


async def test_another_supervisor_makes_this_one_resign(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Shelled(monkeypatch, "b1", "b2", "b3", confirm=confirmation(holder=(2, "two", "supervisor2"), settled=2))
    await world.shell._confirm(True)
    assert world.resigned == ["another supervisor has taken over, by the cluster stream"]


# ---- what comes in the place of what has gone


def replacer(world: World, **answers: Any) -> Replacer:
    launcher = world.part(**{"new_sequencer": "sequencer3", "launch_broker": ["b2.r1"]} | answers)
    told = answers.pop("tell", True)
    return Replacer(
        world.record, world.orders, world.turns, world.nodes, launcher, world.part(tell=told), world.part().mind,
        StoreHomes(world.record, world.nodes),
    )  # fmt: skip


async def test_a_sequencer_is_dialled_when_a_majority_knows_it() -> None:
    world = World("sequencer", "sequencer2", "ownership", "b1", "b1.r0")
    await replacer(world).sequencer("sequencer")
    asked = [one for one in world.since() if one[0] not in ("new", "new_sequencer")]
    assert asked[:5] == [
        ("end", "sequencer"), ("verify", "sequencer3", 30.0), ("start_sequencer", "sequencer3", False), ("tell",),
        ("mind", "sequencer3"),
    ]  # fmt: skip
    assert [one[:2] for one in asked[5:]] == [
        ("ownership", "meet"), ("b1", "meet"), ("b1.r0", "meet"), ("ownership", "part"), ("b1", "part"),
        ("b1.r0", "part"), ("tell",),
    ]  # fmt: skip


async def test_a_page_comes_where_it_was_and_the_first_one_beside_a_broker() -> None:
    world = World("b1", "b2")
    await replacer(world).management()
    assert world.since() == [("launch_management", NODES[0]), ("tell",)]
    world.enter("management", NODES[1])
    await replacer(world).management()
    assert world.since() == [("end", "management"), ("launch_management", NODES[1]), ("tell",)]
    other = World("b1", "b2")
    other.enter("management", NODES[1])
    other.silent = {"n2"}
    await replacer(other).management()
    assert other.since()[1][1] != NODES[1]


async def test_an_ownership_goes_where_the_other_one_is_not_and_replicas_dial_it() -> None:
    world = World("ownership", "ownership2", "b1.r0")
    world.record.book.change("ownership2", host="10.0.0.1")
    await replacer(world).ownership("ownership")
    asked = world.since()
    assert asked[0] == ("end", "ownership") and asked[1][2].host != "10.0.0.1"
    assert asked[2:] == [("b1.r0", "meet", {"ownership": "at ownership"}), ("tell",)]


async def test_a_replica_comes_only_where_others_are_not_enough() -> None:
    world = World("b1", "b1.r0", "b2", "b2.r0", "b2.r1", "b2.r2")
    await replacer(world).replica("b1.r0")
    assert world.since() == [
        ("end", "b1.r0"), ("b2.r0", "part", ["b1.r0"]), ("b2.r1", "part", ["b1.r0"]), ("b2.r2", "part", ["b1.r0"]),
        ("add_replica", "b1"), ("tell",),
    ]  # fmt: skip
    await replacer(world).replica("b2.r0")
    assert world.since() == [("end", "b2.r0"), ("tell",)]


@pytest.mark.parametrize("answers", [True, False])
async def test_a_broker_comes_back_on_its_port_where_it_was_if_that_node_answers(answers: bool) -> None:
    world = World("b1", "b2", "b2.r0")
    world.silent = set() if answers else {"n2"}
    world.turns.add("b2.r0")
    await replacer(world).broker("b2")
    asked = world.since()
    assert asked[:3] == [("tell",), ("end", "b2"), ("end", "b2.r0")] and not world.turns.due()
    launched, introduced, served = asked[3:]
    assert launched == ("launch_broker", "b2", NODES[1] if answers else NODES[2], 1)
    assert introduced == ("introduce", "b2", ["b2.r1"], 7000 if answers else 0) and served == (
        "serve_when_joined",
        "b2",
    )
    entry = world.record.book["b2"]
    assert (entry.serving, entry.pid, entry.host) == (False, 0, launched[2].host)


async def test_where_a_broker_cannot_be_introduced_its_replicas_are_ended() -> None:
    world = World("b1", "b2", "b2.r0")
    one = replacer(world, introduce=ActorGone("it died"))

    async def launched(broker: str, node: Node, replicas: int) -> list[str]:
        world.enter("b2.r1", node)
        return ["b2.r1"]

    one._launcher.launch_broker = launched
    with pytest.raises(ActorGone):
        await one.broker("b2")
    assert world.since()[-1] == ("b2.r1", "killed") and list(world.record.book) == ["b1", "b2"]


# ---- brokers with stores


class Stored(World):
    """`World`, whose brokers have stores; a broker whose host is gone is waited for `wait_s`."""

    def __init__(self, *names: str, wait_s: float = 60.0, **answers: Any) -> None:
        super().__init__(*names, **answers)
        config = replace(self.record.config, store=StoreConfig(data="/data", node_wait_s=wait_s))
        self.record.plan = replace(self.record.plan, config=config)


@pytest.mark.parametrize("back", [NODES[1], Node("of another Ray", NODES[1].host, {})])
async def test_a_broker_goes_back_to_its_store_which_ends_with_it(back: Node) -> None:
    world = Stored("b1", "b2", "b3", "b1.r0", "b2.r0", "b2.store")
    world.nodes = Nodes(world.record, world.reach, lambda: [NODES[0], NODES[2], back])
    for name, node in (("b2", NODES[1]), ("b2.r0", NODES[1]), ("b2.store", NODES[1])):
        world.enter(name, node)
    world.turns.add("b2")
    await replacer(world).broker("b2")
    asked = [one for one in world.since() if one[0] in ("end", "launch_broker", "introduce", "serve_when_joined")]
    assert sorted(asked[:3]) == [("end", "b2"), ("end", "b2.r0"), ("end", "b2.store")]
    assert [one[0] for one in asked[3:]] == ["launch_broker", "introduce", "serve_when_joined"]
    assert asked[3][2] == back and not world.turns.due()
    assert "b2.store" not in world.record.book and "b2.r0" not in world.record.book


async def test_a_broker_without_its_store_waits_then_begins_elsewhere() -> None:
    world, time_s = Stored("b1", "b2", "b3", wait_s=60.0), [0.0]
    nodes = Nodes(world.record, Reach(lambda ids, timeout_s: set(ids) - world.silent, lambda: time_s[0]), lambda: NODES)
    homes = StoreHomes(world.record, nodes, lambda: time_s[0])

    async def waits_at(at_s: float) -> bool:
        time_s[0] = at_s
        try:
            assert (await homes.of("b2")).id in ("n1", "n3")
        except NotYet as error:
            assert str(error).startswith("the host of broker b2's store (10.0.0.2) does not answer")
            assert homes.awaited == {"b2": str(error)}
            return True
        assert not homes.awaited
        return False

    world.silent = {"n2"}
    assert [await waits_at(at_s) for at_s in (10, 69, 70)] == [True, True, False]
    assert [await waits_at(at_s) for at_s in (100, 159)] == [True, True], "the time begins anew"
    world.silent, time_s[0] = set(), 159.5
    assert await homes.of("b2") == NODES[1] and not homes.awaited
    world.silent = {"n2"}
    assert [await waits_at(at_s) for at_s in (200, 259, 260)] == [True, True, False]


async def test_a_broker_whose_store_is_awaited_is_tried_again_and_said() -> None:
    for name in ("b2", "b2.store"):
        world = Stored("b1", "b2", "b2.store", "b3")
        world.supervision.timing = Timing(replace_again_ms=10)
        one = healer(world, broker=NotYet("awaited"))
        world.turns.add(name)
        world.turns.take()
        await one._replace(name)
        assert world.turns.waiting == {"b2": None}, "its store is forgotten by then"
        one._homes.awaited["b2"] = "the host of b2 is away"
        assert "the host of b2 is away" in one.under_way() and "b2 has died" not in str(one.under_way())


async def test_the_end_of_a_store_is_that_of_its_broker() -> None:
    world = Stored("b1", "b2", "b2.store")
    await healer(world)._heal("b2.store")
    assert world.since()[-1] == ("broker", "b2")


async def test_a_broker_whose_disk_fails_again_and_again_is_left_down_and_status_says_why() -> None:
    world = Stored("b1", "b2", "b2.store", "b2.r0")
    for life in ("one", "two", "three"):
        world.record.store_failures.note("b2", life, 0, "/data/b2: Input/output error (errno 5)")
    await replacer(world).broker("b2")
    asked = world.since()
    assert not [one for one in asked if one[0] in ("launch_broker", "introduce")]
    assert {one[1] for one in asked if one[0] == "end"} == {"b2", "b2.store", "b2.r0"}
    entry = world.record.book["b2"]
    assert (entry.serving, entry.pid) == (False, 0) and world.record.book.half_started() == ["b2"]
    assert asked[-1] == ("tell",) and not world.turns.due()
    world.turns.add("b2.r0")
    lines = healer(world).under_way()
    (said,) = [line for line in lines if "left down" in line]
    assert not [line for line in lines if "being replaced" in line]
    assert "broker b2" in said and "errno 5" in said


# ---- the healer


def healer(world: World, **answers: Any) -> Healer:
    one, joiner = world.part(**answers), world.part(must_return=answers.get("must_return", False))
    shell = world.part(**answers)
    shell.unready = set[str]()
    launcher: Any = world.part()
    launcher.starting = asyncio.Lock()
    homes = StoreHomes(world.record, world.nodes)
    return Healer(world.record, world.supervision, shell, world.turns, launcher, one, joiner, world.part(), homes)


async def test_each_kind_is_replaced_in_its_way_and_all_at_once_that_share_no_fate() -> None:
    world = World("b1", "b1.r0", "b2")
    one = healer(world)
    for name in ("events", "b1.r0", "b2", "ownership2", "sequencer2", "b9"):
        world.turns.add(name)
    one.begin()
    await asyncio.sleep(0.3)
    done = [asked for asked in world.since() if asked[0] not in ("mind", "begin", "confirmed")]
    assert done == [("sequencer", "sequencer2"), ("ownership", "ownership2"), ("broker", "b2"), ("replica", "b1.r0"),
                    ("events",)]  # fmt: skip
    assert not world.turns.due()
    one.close()


async def test_a_page_begins_when_all_else_is_there_if_there_is_to_be_one() -> None:
    for port in (-1, 0):
        world = World("b1", "b2")
        plan = world.record.plan
        world.record.plan = replace(plan, config=replace(plan.config, management=ManagementConfig(port=port)))
        one = healer(world)
        one.begin()
        async with asyncio.timeout(5):
            while world.turns.due():
                await asyncio.sleep(0.01)
        assert (("management",) in world.since()) is (port == 0)
        one.close()


async def test_nobody_waits_while_a_page_that_could_not_start_has_its_pause() -> None:
    world = World("b1", "b2")
    world.supervision.timing = Timing(replace_again_ms=60_000)
    one = healer(world)
    one._replacer = replacer(world, launch_management=LocalError("No module named 'starlette'\nat line 3"))
    starting: asyncio.Lock = one._launcher.starting
    launch = ("launch_management", NODES[0])
    world.turns.add("management")
    world.turns.add("b2.r0")
    one.begin()
    async with asyncio.timeout(5):
        while not world.record.page_starts.why or world.turns.begun or starting.locked():
            await asyncio.sleep(0.01)
        assert world.record.page_starts.why == "it could not start: No module named 'starlette'"
        assert "management" in world.turns and not world.turns.due({"management"})
        world.since()
        world.turns.add("b1.r0")  # what dies meanwhile is replaced, and the page is not tried with it
        while "b1.r0" in world.turns:
            await asyncio.sleep(0.01)
        assert launch not in world.since()
        async with starting:  # a newcomer gets its turn
            world.record.page_starts.failed(0, "long ago: its pause is over")
        while launch not in world.asked:
            await asyncio.sleep(0.01)
    one.close()


async def test_a_page_that_ends_soon_again_and_again_has_a_pause_too() -> None:
    world = World("b1", "b2")
    one = healer(world)
    one._replacer = replacer(world)
    await one._replacer.management()
    assert one._held() == set(), "it need not be replaced"
    world.turns.add("management")
    assert one._held() == {"management"} and "it ended 0 s after it had started" in world.record.page_starts.why


async def test_the_page_is_no_complaint_while_it_is_replaced() -> None:
    world = World("b1", "b2")
    world.turns.add("management")
    assert not any("management" in line for line in healer(world).under_way())


async def test_who_leaves_is_replaced_only_if_it_must_return() -> None:
    for returns in (True, False):
        world = World("b1", "b2")
        world.record.changes.step(Begin(Change("r", LEAVE, "b2")))
        one = healer(world, must_return=returns)
        await one._heal("b2")
        assert (("broker", "b2") in world.since()) is returns
        world.turns.add("b2")
        world.turns.add("b1")
        assert "b1 has died and is being replaced" in one.under_way()
        assert not any(line.startswith("b2") for line in one.under_way())


async def test_what_cannot_be_replaced_yet_waits_for_its_turn_again() -> None:
    world = World("b1")
    world.supervision.timing = Timing(replace_again_ms=10)
    world.turns.add("b1")
    world.turns.take()
    await healer(world, broker=LocalError("not yet"))._replace("b1")
    assert world.turns.waiting == {"b1": None} and not world.turns.begun
    world.turns.take()
    await healer(world, broker=LeftAlone("it leads"))._replace("b1")
    assert not world.turns.due() and world.since()[-1] == ("serve_when_joined", "b1")


# ---- who joins and who leaves


def joiner(world: World, **answers: Any) -> Joiner:
    launcher = world.part(**{"new_broker": "b4"} | answers)
    launcher.starting = asyncio.Lock()
    return Joiner(world.record, world.orders, world.nodes, launcher, world.part(tell=True), world.part().dead)


async def test_a_newcomer_is_launched_on_its_node_and_introduced() -> None:
    world = World("b1", "b2", "b3", "b1.r0", status=ActorGone("busy"))
    one = joiner(world)
    await one.add("r", "n2")
    assert world.record.plan.members == ("b1", "b2", "b3", "b4") and one.under_way()[0].startswith("broker b4 joins")
    await asyncio.sleep(0.1)
    asked = [asked for asked in world.since() if asked[1:] != ("status",)]
    assert asked == [("new_broker",), ("tell",), ("launch_broker", "b4", NODES[1], 1), ("tell",),
                     ("introduce", "b4", [], 0), ("serve_when_joined", "b4")]  # fmt: skip
    await one.add("r", "n2")
    with pytest.raises(LocalError, match="members change one at a time"):
        await one.add("another", "n2")
    one.close()


async def test_a_newcomer_that_is_not_introduced_is_to_be_replaced_and_one_that_does_not_start_is_undone() -> None:
    world = World("b1", "b2", "b3", status=ActorGone("busy"))
    one = joiner(world, introduce=ActorGone("it died"))
    await one.add("r", "")
    await asyncio.sleep(0.1)
    assert ("dead", "b4") in world.since()
    one.close()
    world = World("b1", "b2", "b3", status=ActorGone("busy"))
    one = joiner(world, launch_broker=ActorGone("no host"))
    await one.add("r", "")
    await asyncio.sleep(0.1)
    assert ("forget", "b4") in world.since() and world.record.plan.members == ("b1", "b2", "b3")
    assert one.progress("r")["error"].endswith("no host") and one.progress("q") == {}


async def test_members_change_only_in_a_cluster_that_runs() -> None:
    world = World("b1", "b2", "b3")
    world.record.stage = "superseded"
    with pytest.raises(LocalError, match="the cluster is superseded: its members do not change now"):
        await joiner(world).add("r", "")


async def test_who_leaves_is_dismissed_by_the_others() -> None:
    world = World("b1", "b2", "b3", dismiss=True)
    assert await joiner(world)._certainly_left("b3")
    assert world.since() == [("b1", "dismiss", "b3"), ("b2", "dismiss", "b3")]


# ---- brokers are spread


def rebalancer(world: World, status: ClusterStatus, change: Change | None = None) -> Rebalancer:
    one: Any = world.part()
    one.change, one.under_way = change, lambda: [str(change)] if change else []

    async def ask(timeout_s: float) -> ClusterStatus:
        return status

    return Rebalancer(world.record, world.reach, one, world.part(), ask, world.part().dead)


async def test_a_broker_moves_to_the_host_that_has_none_when_the_cluster_is_whole() -> None:
    world = World("sequencer", "sequencer2", "ownership", "ownership2", "b1", "b2", "b3")
    for name, host in (("sequencer", 1), ("sequencer2", 2), ("ownership", 2), ("ownership2", 1), ("b3", 1)):
        world.record.book.change(name, node=f"n{host}", host=f"10.0.0.{host}")
    world.record.book.change("b1", node="n1", host="10.0.0.1")
    one = rebalancer(world, report(actors()))
    one.nodes = NODES
    assert one.progress() == {"even": False, "stage": "b3 is to move to 10.0.0.2, when the cluster is whole"}
    await one._begin()
    ((asked, _, node),) = world.since()
    assert (asked, node) == ("add", "n2") and world.record.plan.moving == ("b3", 3)


async def test_who_moves_leaves_when_the_newcomer_has_joined() -> None:
    world = World("b1", "b2", "b3", "b4")
    world.record.plan = replace(Plan.of(4), moving=("b3", 3))
    await rebalancer(world, report(actors()), Change("r", JOIN, "b4"))._go_on()
    assert world.since() == []
    await rebalancer(world, report(actors()))._go_on()
    ((asked, _, broker),) = world.since()
    assert (asked, broker) == ("remove", "b3")
    world.record.plan = replace(Plan.of(4), moving=("b3", 3)).left_by("b3")
    await rebalancer(world, report(actors()))._go_on()
    assert world.since() == [("tell",)] and world.record.plan.moving == ("", 0)


# ---- a supervisor takes over


async def test_the_newest_word_of_a_majority_counts_and_what_it_does_not_know_is_ended() -> None:
    world = World("b1", "b2", "b3", "b3.r0")
    older = SupervisorState(
        book=world.record.book, version=4, cluster="c", secret=b"s", plan=world.record.plan, began=1.0, numbers={},
        number=1,
    )  # fmt: skip
    world.record.book.change("b3.r0", peers="")
    newer = SupervisorState(
        book=world.record.book, version=5, cluster="c", secret=b"newer", plan=world.record.plan, began=1.0,
        numbers={"b3": 7}, number=1,
    )  # fmt: skip
    world.answers["recall"] = newer.packed()
    known = dict(world.record.book)
    stranger: Any = Member(world.asked, "b3.r9", {})
    there: Any = world.part()
    there.names = lambda: ["supervisor", *known, *([] if ("b3.r9", "killed") in world.asked else ["b3.r9"])]
    there.find = lambda name: known[name].handle if name in known else stranger if name == "b3.r9" else None
    record, supervision = ClusterRecord(), Supervision(ONE, elected=True)
    supervision.enough = lambda some: len(set(some)) > 1
    shell = world.part()
    state = await Takeover(record, there, supervision, shell, world.part().dead).run(older.packed())
    assert (state.version, record.version, record.secret, record.numbers) == (5, 5, b"newer", {"b3": 7})
    asked = world.since()
    assert asked[0] == ("elected", 25.0) and ("b3.r9", "killed") in asked
    assert asked[-1] == ("dead", "b3.r0"), "it is not known whether it listens"
    assert SupervisorState.unpacked(older.packed()).version == 4


def test_numbers_of_incarnations_rise_with_time_for_long(monkeypatch):
    """They began with 48 bits of milliseconds and chance, which time alone fills in 2039."""
    years = [1_790_000_000 + 3_600 * 24 * 365 * year for year in range(0, 1000, 7)]
    made = []
    for clock_s in years:
        monkeypatch.setattr("time.time", lambda now=clock_s: now)
        made.append(fresh())
    assert made == sorted(made) and made[0] >> 7 == 1_790_000_000_000
    assert made[-1] < 1 << 53
