"""The initial status exchange on made-up nodes and stores: who is opened, what is waited for, what is let go."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from mantamq.actors.config import ClusterConfig, StoreConfig
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.record import ClusterRecord
from mantamq.actors.supervisor.store_start import StoreStart
from mantamq.actors.supervisor.store_survey import Surveyed, sorted_out
from mantamq.protocol.errors import LocalError
from mantamq.protocol.supervisor.layout import Layout, Node
from mantamq.protocol.supervisor.store_words import StoreWord, VoterSet
from mantamq.protocol.supervisor.stores import ResumeCluster
from mantamq.store.identity import StoreIdentity, StoreState

NODES = {name: Node(name, f"host-{name}", {}) for name in ("n1", "n2", "n3", "n4")}
THREE = ("b1", "b2", "b3")


class MadeUpDisks:
    """Nodes with stores, and a launcher that opens them.

    Attributes:
        stores: (node, broker) -> what its `store.json` has.
        words: broker -> what is said when its store is opened, beside that.
        refuses: broker -> code and text.
        open: processes that have a store locked: broker -> node.
        log: what was done.
        arrives: node -> the look at which it comes.
    """

    def __init__(self, *nodes: str) -> None:
        self.nodes = list(nodes)
        self.stores: dict[tuple[str, str], StoreIdentity] = {}
        self.words: dict[str, dict[str, Any]] = {}
        self.refuses: dict[str, tuple[str, str]] = {}
        self.unusable: dict[str, tuple[str, str]] = {}
        self.open: dict[str, str] = {}
        self.log: list[str] = []
        self.arrives: dict[str, int] = {}
        self.looks = 0
        self.record = ClusterRecord()

    def keep(self, node: str, broker: str, life: int = 5, cluster: str = "c", **more: Any) -> None:
        self.stores[node, broker] = StoreIdentity(
            **{"store": f"{broker} on {node}", "cluster": cluster, "broker": broker, "status": StoreState.DIRTY,
               "life": life, "node": NODES[node].host} | more
        )  # fmt: skip

    # as a survey

    async def found(self) -> Surveyed:
        self.looks += 1
        said: list[tuple[Node, dict[str, Any]]] = []
        for node in [name for name in self.nodes if self.arrives.get(name, 0) <= self.looks]:
            stores = {
                broker: {"identity": msgspec.to_builtins(one), "file": f"{node} {broker}"}
                for (where, broker), one in self.stores.items() if where == node
            }  # fmt: skip
            said.append((NODES[node], {"system": node, "error": self.unusable.get(node), "stores": stores}))
        return sorted_out(said)

    # as a launcher

    def new_store(self, broker: str, node: Node) -> None:
        assert broker not in self.open, "two processes of one store"
        self.open[broker] = node.id

    async def verify(self, name: str, timeout_s: float) -> None:
        assert name.removesuffix(".store") in self.open

    def drop(self, name: str) -> None:
        del self.open[name.removesuffix(".store")]
        self.log.append(f"drop {name}")

    async def look(self, broker: str) -> StoreWord:
        node = self.open[broker]
        self.log.append(f"look {broker} on {node}")
        directory, host = f"/data/{broker}", NODES[node].host
        if broker in self.refuses:
            code, text = self.refuses[broker]
            return StoreWord(node=host, directory=directory, broker=broker, status="dirty", code=code, text=text)
        own = self.stores.get((node, broker))
        if own is None:
            return StoreWord(node=host, directory=directory, broker=broker)
        lasts = {b: f"host-n{b[1:]}" for b in THREE}
        more = {"voters": (VoterSet(7, THREE),), "supervisor": 4, "last_nodes": lasts} | self.words.get(broker, {})
        return StoreWord(
            node=host, directory=directory, broker=broker, store=own.store, cluster=own.cluster,
            status=own.status.value, life=own.life, **more,
        )  # fmt: skip

    # the start

    async def start(
        self, asked: int = 0, births: dict[str, str] | None = None, needed_s: float = 600.0, **chosen: Any
    ) -> ResumeCluster | None:
        store = StoreConfig(**{"data": "/data", "wait_s": 0.0} | chosen)
        self.record.plan = Plan.of(asked, ClusterConfig(store=store))
        places = {
            b: NODES[n]
            for b, n in (births or {b: f"n{b[1:]}" for b in self.record.plan.members if f"n{b[1:]}" in NODES}).items()
        }
        some = NODES["n1"]
        self.begun = StoreStart(self.record, self, self, look_s=0.001)  # type: ignore[arg-type]
        return await self.begun.run(Layout(places, some, some, some, some), needed_s=needed_s)

    @property
    def places(self) -> dict[str, str]:
        return {broker: node.id for broker, node in self.begun.nodes.items()}


@pytest.fixture
def disks() -> MadeUpDisks:
    """Three nodes with a store each."""
    made = MadeUpDisks("n1", "n2", "n3")
    for number in (1, 2, 3):
        made.keep(f"n{number}", f"b{number}")
    return made


# ---- a cluster begins


async def test_empty_directories_become_a_new_cluster_where_the_layout_says() -> None:
    disks = MadeUpDisks("n1", "n2")
    assert await disks.start(births={"b1": "n1", "b2": "n2", "b3": "n1"}) is None
    assert disks.places == disks.open == {"b1": "n1", "b2": "n2", "b3": "n1"}
    [note] = disks.record.notes
    assert note.startswith("new store in /data/b1 on host-n1, /data/b2 on host-n2, /data/b3 on host-n1")


async def test_nothing_begins_while_a_node_that_is_to_have_a_store_says_nothing() -> None:
    disks = MadeUpDisks("n1", "n2", "n3")
    disks.arrives["n3"] = 3
    assert await disks.start() is None
    assert disks.looks == 3


async def test_where_a_directory_cannot_be_used_no_cluster_begins() -> None:
    disks = MadeUpDisks("n1", "n2", "n3")
    disks.unusable["n2"] = ("store-unusable", "/data is on a network file system (nfs): name a local disk")
    with pytest.raises(LocalError, match="network file system"):
        await disks.start()
    assert not disks.log and not disks.open
    disks = MadeUpDisks("n1", "n2", "n3")
    disks.refuses["b3"] = ("store-unusable", "/data/b3 is on a file system that is mounted read-only: mount it")
    with pytest.raises(LocalError, match="mounted read-only: mount it"):
        await disks.start()


async def test_a_restart_begins_nothing() -> None:
    with pytest.raises(LocalError, match="start without --restart"):
        await MadeUpDisks("n1", "n2", "n3").start(restart=True)


# ---- a cluster goes on


async def test_what_was_there_goes_on_under_its_own_id_where_its_stores_are(disks: MadeUpDisks) -> None:
    deed = await disks.start(births=dict.fromkeys(THREE, "n4"))
    assert deed is not None and deed.supervisor == 4
    record = disks.record
    assert (record.cluster, record.plan.members, record.notes) == ("c", THREE, [])
    assert disks.places == disks.open == {"b1": "n1", "b2": "n2", "b3": "n3"}
    assert disks.looks == 1, "all are here: nobody is waited for"


async def test_its_number_of_brokers_is_that_of_the_stores(disks: MadeUpDisks) -> None:
    with pytest.raises(LocalError, match=r"has 3 brokers \(b1, b2, b3\), not 5: start without --brokers"):
        await disks.start(asked=5)
    assert await disks.start(asked=3) is not None


async def test_a_late_one_is_waited_for(disks: MadeUpDisks) -> None:
    disks.arrives["n2"] = 4
    task = asyncio.ensure_future(disks.start(wait_s=60.0))
    deed = await task
    assert deed is not None and deed.missing == () and disks.looks == 4
    assert disks.log.count("look b1 on n1") == 1, "a store is opened once"
    assert "b2 (last on host-n2); the others could start, and will when the wait is over" in disks.record.stage


async def test_when_the_wait_is_over_a_majority_goes_on_without(disks: MadeUpDisks) -> None:
    disks.nodes.remove("n3")
    deed = await disks.start()
    assert deed is not None and deed.missing == ("b3",) and disks.places == {"b1": "n1", "b2": "n2"}
    assert disks.record.plan.members == THREE


async def test_fewer_than_are_needed_start_nothing_and_it_is_said_who_is_missing(disks: MadeUpDisks) -> None:
    disks.nodes = ["n2"]
    with pytest.raises(LocalError) as refused:
        await disks.start(needed_s=0.0)
    text = str(refused.value)
    assert "b1 (last on host-n1), b3 (last on host-n3); a majority of b1, b2, b3 with their logs is needed" in text
    assert "start their nodes, or put their disks back" in text


async def test_a_member_whose_node_is_here_without_its_directory_comes_in_blank_at_once(disks: MadeUpDisks) -> None:
    del disks.stores["n2", "b2"]
    disks.keep("n2", "b3")  # and another broker's is there
    del disks.stores["n3", "b3"]
    disks.nodes.remove("n3")
    deed = await disks.start(wait_s=60.0)
    assert deed is not None and deed.blank == ("b2",) and disks.places["b2"] == "n2" and disks.looks == 1


async def test_a_disk_that_was_lost_is_made_up_for_by_an_empty_directory(disks: MadeUpDisks) -> None:
    disks.nodes = ["n1", "n2", "n4"]
    deed = await disks.start(wait_s=60.0)
    assert deed is not None and deed.blank == ("b3",) and disks.places["b3"] == "n4"


async def test_all_here_and_too_few_with_a_log_is_refused_and_let_go(disks: MadeUpDisks) -> None:
    for broker in ("b1", "b3"):
        disks.words[broker] = {"hurt": "damage at 4096"}
    with pytest.raises(LocalError, match="put the disks back, or `mantamq store recover --from b2`"):
        await disks.start()


# ---- stores that are not used


async def test_another_clusters_store_is_not_opened(disks: MadeUpDisks) -> None:
    disks.keep("n3", "b3", cluster="d")
    deed = await disks.start()
    assert deed is not None and deed.missing == ("b3",)
    assert not [line for line in disks.log if "b3" in line]
    [note] = disks.record.notes
    assert "belongs to the cluster d, not to c" in note


async def test_two_clusters_are_not_chosen_between() -> None:
    disks = MadeUpDisks("n1", "n2")
    disks.keep("n1", "b1")
    disks.keep("n2", "b2", cluster="d")
    for broker, own in (("b1", ("b1",)), ("b2", ("b2",))):
        disks.words[broker] = {"voters": (VoterSet(7, own),)}
    with pytest.raises(LocalError, match=r"different clusters .cluster c: b1 in /data/b1 on host-n1; cluster d: b2"):
        await disks.start()


async def test_of_two_stores_of_a_broker_the_one_used_last_is_opened(disks: MadeUpDisks) -> None:
    disks.nodes.append("n4")
    disks.keep("n4", "b2", life=6)
    deed = await disks.start()
    assert deed is not None and disks.places["b2"] == "n4" and "look b2 on n2" not in disks.log
    [note] = disks.record.notes
    assert "/data/b2 on host-n2 is an old store of b2: b2 lives in /data/b2 on host-n4 now; empty this one" in note


async def test_of_two_copies_neither_is_opened(disks: MadeUpDisks) -> None:
    disks.nodes.append("n4")
    disks.keep("n4", "b2")
    deed = await disks.start()
    assert deed is not None and deed.missing == ("b2",)
    assert not [line for line in disks.log if "b2" in line]
    assert len(disks.record.notes) == 2 and all("move away the one that is a copy" in n for n in disks.record.notes)


async def test_a_broker_that_has_left_is_refused_and_its_name_not_given_again(disks: MadeUpDisks) -> None:
    disks.keep("n3", "b7", status=StoreState.LEFT)
    disks.keep("n2", "b8")  # it never came in
    deed = await disks.start()
    assert deed is not None and disks.record.plan.members == THREE and sorted(disks.open) == list(THREE)
    left, never = disks.record.notes
    assert "b7, which has left the cluster c: empty the directory" in left and "look b7 on n3" not in disks.log
    assert "b8, which is no member" in never and "drop b8.store" in disks.log
    assert disks.record.numbers["broker"] == 8


async def test_a_store_that_is_locked_is_asked_again_and_has_no_process_meanwhile(disks: MadeUpDisks) -> None:
    disks.refuses["b1"] = ("store-locked", "/data/b1 is held by b1.store, process 7 on host-n1: stop that first")
    task = asyncio.ensure_future(disks.start(wait_s=60.0))
    while disks.log.count("drop b1.store") < 2:
        await asyncio.sleep(0)
    assert "refused: /data/b1 is held by b1.store, process 7" in disks.record.stage
    disks.refuses.clear()
    deed = await task
    assert deed is not None and deed.missing == () and sorted(disks.open) == list(THREE)


async def test_a_store_whose_node_goes_while_others_are_waited_for_is_let_go(disks: MadeUpDisks) -> None:
    disks.arrives["n3"] = 1000
    task = asyncio.ensure_future(disks.start(wait_s=60.0))
    while disks.looks < 2:
        await asyncio.sleep(0)
    disks.nodes.remove("n1")
    while "b1" in disks.open:
        await asyncio.sleep(0)
    disks.nodes.append("n1")
    disks.arrives.clear()
    deed = await task
    assert deed is not None and deed.missing == () and sorted(disks.open) == list(THREE)
