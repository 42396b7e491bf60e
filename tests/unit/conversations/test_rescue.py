"""What a survivor still has can be looked at without a majority, by those who say that they only look."""

from __future__ import annotations

from mantamq.protocol.broker.lifecycle import RETURNING
from mantamq.protocol.errors import NOT_ALLOWED, UNAVAILABLE
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Delivery,
    Detached,
    Flow,
    FlowDrained,
    Open,
    Opened,
    Transfer,
)
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster


def survivor(held: int = 0) -> MortalCluster:
    """b3 is alone: the others have died, and the sequencer too, with two messages in q; consumers at b1 and b3 were
    given `held` of them, and have not settled them."""
    cluster = MortalCluster()
    client = cluster.client("b3", name="teller")
    assert not client.command("declare_queue", name="q").code
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"one", b"two"]))
    for broker in ("b1", "b3")[:held]:
        consumer = cluster.client(broker)
        consumer.send(AttachReceiver(1, "q"), Flow(1, 1))
        cluster.pass_time(1000)
        assert len(consumer.take(Delivery)) == 1
    cluster.pass_time(1000)
    cluster.kill("b1", "b2", *cluster.sequencers())
    cluster.pass_time(5000)
    assert cluster.machines["b3"].report().cut_off
    assert client.closed[0] == UNAVAILABLE
    return cluster


def test_it_is_let_in_where_nobody_else_is_and_sees_what_is_there() -> None:
    cluster = survivor()
    assert cluster.client("b3").closed[0] == UNAVAILABLE
    looker = cluster.client("b3", opened=False)
    looker.send(Open("looker", rescue=True))
    assert looker.take(Opened)
    looker.send(AttachReceiver(1, "q", "browse"), Flow(1, 10))
    assert looker.positions() == [1, 2]
    cluster.pass_time(10_000)
    assert not looker.closed
    assert looker.command("status").value["cut_off"]
    assert [queue["name"] for queue in looker.command("queues").value] == ["q"]


def test_it_only_looks() -> None:
    """Also where there is a majority: what an option allows must not depend on the weather."""
    cluster = MortalCluster()
    assert not cluster.client("b1").command("declare_queue", name="q").code
    looker = cluster.client("b1", opened=False)
    looker.send(Open("looker", rescue=True))
    looker.send(AttachSender(1, "", "q"), AttachReceiver(2, "q", "consume"))
    assert [(d.handle, d.code) for d in looker.take(Detached)] == [(1, NOT_ALLOWED), (2, NOT_ALLOWED)]
    for name in ("declare_queue", "delete_queue", "purge"):
        assert looker.command(name, name="q").code == NOT_ALLOWED
    assert looker.command("queue", name="q").value["name"] == "q"


def test_what_somebody_holds_is_seen_as_well() -> None:
    """Nobody can settle it any more, nor give it back: hidden, it would be lost with the queue."""
    cluster = survivor(held=2)
    looker = cluster.client("b3", opened=False)
    looker.send(Open("looker", rescue=True), AttachReceiver(1, "q", "browse"), Flow(1, 10))
    assert looker.positions() == [1, 2]


def test_who_only_looks_where_all_is_well_sees_what_others_hold() -> None:
    cluster = MortalCluster()
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="q").code
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"one", b"two"]), AttachReceiver(2, "q"), Flow(2, 1))
    cluster.pass_time(100)
    looker, browser = cluster.client("b1", opened=False), cluster.client("b1")
    looker.send(Open("looker", rescue=True))
    for one in (looker, browser):
        one.send(AttachReceiver(1, "q", "browse"), Flow(1, 10))
    assert (looker.positions(), browser.positions()) == ([1, 2], [2])


def test_it_is_told_where_what_is_there_ends() -> None:
    """`get` and `session.browse` ask for that; a majority would never answer."""
    cluster = survivor()
    looker = cluster.client("b3", opened=False)
    looker.send(Open("looker", rescue=True), AttachReceiver(1, "q", "browse"), Flow(1, 10, drain=True))
    cluster.pass_time(1000)
    assert looker.positions() == [1, 2]
    assert looker.take(FlowDrained)


def test_a_survivor_that_has_started_again_is_looked_at() -> None:
    """Its disk may be all that is left, and nobody is there to order its return."""
    cluster = StoredCluster()
    client = cluster.client("b3", name="teller")
    for name in ("q", "another"):
        assert not client.command("declare_queue", name=name, durable=True).code
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"one", b"two"]))
    cluster.pass_time(1000)
    client.send(Transfer(1, 3, [b"three"]))  # which writes down that those before are committed
    cluster.pass_time(1000)
    cluster.blackout("b3")
    assert cluster.client("b3").closed == (UNAVAILABLE, RETURNING)
    looker = cluster.client("b3", opened=False)
    looker.send(Open("looker", rescue=True), AttachReceiver(1, "q", "browse"), Flow(1, 10, drain=True))
    cluster.pass_time(1000)
    assert looker.take(Opened) and looker.positions()[:2] == [1, 2] and looker.take(FlowDrained)
    assert "q" in [queue["name"] for queue in looker.command("queues").value]
    cluster.come_back("b1", "b2")
    for _ in range(20):
        cluster.pass_time(200)
    assert not cluster.retired and not looker.closed
    assert not cluster.client("b3").closed, "there is a majority again"
