"""What the observers of a broker are told: its parts alone, and a whole cluster with two observers at each process."""

from __future__ import annotations

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.broker.connections import Connections
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import Flush, PeerDown, PeerUp, Received, Send, Tick
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Flow, Open, Transfer
from mantamq.protocol.wire.link_frames import Ping

from tests.unit.broker_bench import Bench
from tests.unit.toy_observers import (
    BrokerCounter,
    BrokerRecorder,
    BrokerTalker,
    ReplicaCounter,
    ReplicaRecorder,
    Talker,
)


def test_clients_that_come_and_go_are_told_and_who_never_opened_is_not():
    counter, recorder, bench = BrokerCounter(), BrokerRecorder(), Bench()

    def end(session: Session, code: str, text: str) -> None:
        connections.forget(session, code, text)

    connections = Connections(bench.outbox, bench.cluster, DEFAULT, "", lambda rescue: "", end, (counter, recorder))
    for peer, client in (("c1", "one"), ("c2", ""), ("c3", "one")):
        connections.up(peer)
        connections.open(connections.sessions[peer], Open(client))
    connections.up("c4")
    for peer in ("c4", "c2"):
        connections.forget(connections.sessions[peer])
    assert recorder.book == [
        ("opened", "one"), ("opened", "b1.5.c2"), ("ended", "one", "in-use"), ("opened", "one"), ("ended", "b1.5.c2", ""),
    ]  # fmt: skip
    assert counter.totals["clients"] == 1


def test_members_are_told_when_they_have_changed():
    recorder, bench = BrokerRecorder(), Bench()
    connections = Connections(bench.outbox, bench.cluster, DEFAULT, "", lambda rescue: "", lambda *_: None, (recorder,))
    for addresses in ({}, {"b1": "here:1"}, {"b1": "here:1"}, {"b1": "there:1", "b2": "here:2"}):
        connections.moved(addresses)
    assert recorder.book == [("moved", "b1"), ("moved", "b1", "b2")]


def test_an_observer_is_told_when_the_broker_stops_reading_and_when_it_reads_on():
    recorder, bench = BrokerRecorder(), Bench("q")
    transfers = Transfers(bench.outbox, bench.cluster, bench.requests, bench.sessions, 1000, observers=(recorder,))
    session = bench.session()
    session.add_sender(1, "", "q", mandatory=False)
    transfers.transfer(session, Transfer(1, 1, [bytes(2000)]))
    transfers.flush()
    transfers.flush()
    assert recorder.book == [("paused", True)]
    bench.answer(1)
    transfers.flush()
    assert recorder.book == [("paused", True), ("paused", False)]


def conversation(cluster: MemoryCluster) -> MemoryCluster:
    """A queue is declared, filled, read by two brokers in turn, and deleted."""
    client = cluster.client("b1", name="one")
    assert client.command("declare_queue", name="q").code == ""
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"a", b"b", b"c"]))
    for broker in ("b1", "b2"):
        reader = cluster.client(broker)
        reader.send(AttachReceiver(1, "q"))
        assert reader.take(Attached)
        reader.send(Flow(1, 2))
        cluster.pass_time(200)
        reader.vanish()
    cluster.pass_time(200)
    assert client.command("delete_queue", name="q").code == ""
    cluster.pass_time(500)
    return cluster


def test_two_observers_at_once_see_the_same_and_the_cluster_does_what_it_does_without():
    plain = conversation(MemoryCluster(replicas=1))
    brokers = {name: (BrokerCounter(), BrokerRecorder()) for name in plain.members}
    replicas = {f"{name}.r0": (ReplicaCounter(), ReplicaRecorder()) for name in plain.members}
    watched = conversation(MemoryCluster(replicas=1, observers={**brokers, **replicas}))
    assert watched.traffic == plain.traffic and watched.timers == plain.timers

    applied = [words for words in brokers["b1"][1].book if words[0] == "applied"]
    for counter, recorder in brokers.values():
        assert [words for words in recorder.book if words[0] == "applied"] == applied
        assert counter.totals["DeclareQueue"] == counter.totals["DeleteQueue"] == 1
    assert [index for _, index, *_ in applied] == list(range(1, len(applied) + 1))
    assert ("opened", "one") in brokers["b1"][1].book
    assert [words[0] for words in brokers["b2"][1].book if words[0] != "applied"] == ["moved", "opened", "ended"]

    enqueued = {counter.totals["Enqueue"] for counter, _ in replicas.values()}
    assert enqueued == {1} and {recorder.book[-1][1] for _, recorder in replicas.values()} == {"gone"}
    delivered = {name: counter.totals["delivered"] for name, (counter, _) in replicas.items()}
    assert delivered == {"b1.r0": 2, "b2.r0": 2, "b3.r0": 0}


@pytest.mark.parametrize("name", ["b1", "b1.r0"])
def test_an_observer_without_a_companion_adds_no_peer(name):
    observers = {"b1": (BrokerCounter(),), "b1.r0": (ReplicaCounter(),)}
    assert not MemoryCluster(brokers=1, replicas=1, observers=observers).machines[name].companions


def test_a_companions_peer_is_no_client_of_the_broker():
    talker = Talker("backup")
    broker = BrokerMachine("b1", 1, ["b1"], observers=[BrokerTalker(talker)])
    inputs = [Tick(1000, 1_000_000), PeerUp("backup"), Received("backup", Ping()), Flush(), PeerDown("backup")]
    assert [broker.step(input) for input in inputs] == [[], [], [Send("backup", Ping())], [], []]
    assert talker.given == inputs and not broker.sessions
    broker.step(PeerUp("c1"))
    assert list(broker.sessions) == ["c1"] and talker.given == inputs
