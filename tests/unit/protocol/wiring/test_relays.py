"""Exchanges with a queue of their own, the relay: what leads to it, where it goes on from there; both go together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_up_wiring import bind, exchange, link, names, queues, to, wired
from mantamq.protocol.errors import IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND, PeerError
from mantamq.protocol.wire.client_frames import Attached, AttachSender, Completed, Transfer
from mantamq.protocol.wire.events import (
    AnyEvent,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Lost,
    Unbind,
)
from mantamq.protocol.wiring.arguments import check
from mantamq.protocol.wiring.exchanges import LooksAtHeaders
from mantamq.protocol.wiring.relays import relay_name, relay_of
from mantamq.protocol.wiring.wiring import Wiring

from tests.unit.cluster_in_memory import MemoryCluster

NUMBERS: dict[str, Any] = {"qpid.msg_sequence": True}
KEEPS: dict[str, Any] = {"qpid.ive": True}


def relaying(
    name: str, type: str = "fanout", alternate: str = "", durable: bool = False, **arguments: Any
) -> list[AnyEvent]:
    """An exchange and, before it, its relay, as a broker orders them."""
    event = DeclareExchange(name, type, arguments or NUMBERS, durable, alternate)
    relay = relay_of(event, durable)
    assert relay is not None
    return [relay, event]


def onward(wiring: Wiring, exchange: str, key: str = "", headers: dict[str, Any] | None = None) -> list[str]:
    return names(wiring.route_onward(exchange, key, headers))


# ---- declarations


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, None),
        ({"qpid.exclusive-binding": True}, None),
        (NUMBERS, {"manta.exchange": "x", "manta.exchange_sequence": True}),
        (KEEPS, {"manta.exchange": "x", "manta.exchange_initial": True}),
        (
            KEEPS | NUMBERS,
            {"manta.exchange": "x", "manta.exchange_sequence": True, "manta.exchange_initial": True},
        ),
    ],
)
def test_which_exchanges_have_one(arguments: dict[str, Any], wanted: dict[str, Any] | None):
    relay = relay_of(DeclareExchange("x", "direct", arguments), True)
    assert relay == (None if wanted is None else DeclareQueue("manta.exchange.x", wanted, True))


def test_nobody_else_declares_such_a_queue_and_its_exchange_does_not_go_by_itself():
    for own in ("manta.exchange", "manta.exchange_sequence", "manta.exchange_initial"):
        with pytest.raises(PeerError, match="is of queues that exchanges have for themselves"):
            check("queue", {own: "x"})
    for arguments in (NUMBERS, KEEPS):
        with pytest.raises(PeerError, match="has a queue of its own, and stays"):
            check("exchange", arguments | {"manta.auto_delete": True})
        assert check("exchange", arguments) == arguments


@pytest.mark.parametrize("arguments", [NUMBERS, KEEPS, NUMBERS | KEEPS])
def test_without_its_queue_it_is_refused(arguments: dict[str, Any]):
    wiring = wired(*queues("q"))
    before = wiring.snapshot()
    refused = wiring.apply(DeclareExchange("x", "fanout", arguments), 9)
    assert refused.code == NOT_FOUND and "'manta.exchange.x', and it is gone" in refused.text
    assert wiring.snapshot() == before and wiring.exchange("x") is None


@pytest.mark.parametrize("arguments", [{}, {"manta.exchange": "y", "manta.exchange_sequence": True}])
def test_with_another_queue_of_that_name_it_is_refused(arguments: dict[str, Any]):
    wiring = wired(DeclareQueue("manta.exchange.x", arguments))
    refused = wiring.apply(DeclareExchange("x", "fanout", NUMBERS), 9)
    assert refused.code == IN_USE and "for itself: delete that first" in refused.text
    assert wiring.exchange("x") is None
    assert wiring.apply(DeleteQueue("manta.exchange.x"), 10).code == "", "it is nobody's relay"


def test_again_is_no_change():
    wiring = wired(*relaying("x"))
    assert [wiring.apply(event, index).changed for index, event in enumerate(relaying("x"), 9)] == [False, False]
    assert [relay_name(wiring.exchange(name)) for name in ("x", "amq.fanout", "none")] == ["manta.exchange.x", "", ""]


# ---- routes


def test_what_is_sent_to_it_goes_to_its_queue_whatever_is_bound_and_onward_from_there():
    wiring = wired(*queues("q", "r"), *relaying("x", "topic"), bind("x", "q", "a.*"), bind("x", "r", "#"))
    assert [to(wiring, "x", key) for key in ("a.b", "c", "")] == [["@x"]] * 3
    assert [onward(wiring, "x", key) for key in ("a.b", "c")] == [["q", "r"], ["r"]]
    assert wiring.apply(Unbind("x", "r", "#"), 9).changed
    assert [onward(wiring, "x", key) for key in ("a.b", "c")] == [["q"], []]
    assert to(wiring, "x", "c") == ["@x"]


def test_a_route_that_was_looked_up_before_is_not_the_other_one():
    wiring = wired(*queues("q"), *relaying("x"), bind("x", "q"))
    for _ in range(2):
        assert to(wiring, "x") == ["@x"] and onward(wiring, "x") == ["q"]


def test_by_headers_it_goes_onward_only():
    wiring = wired(*queues("q"), *relaying("x", "headers"), bind("x", "q", n=1))
    assert to(wiring, "x") == to(wiring, "x", headers={"n": 1}) == ["@x"]
    assert onward(wiring, "x", headers={"n": 1}) == ["q"] and onward(wiring, "x", headers={"n": 2}) == []
    with pytest.raises(LooksAtHeaders):
        wiring.route_onward("x", "")


def test_of_several_keys_each_queue_is_found_once():
    wiring = wired(
        *queues("q", "r"), *relaying("x", "direct"), bind("x", "q", "a"), bind("x", "q", "b"), bind("x", "r", "b")
    )
    assert names(wiring.route_by_any("x", ["a", "b", "c"])) == ["@x"]
    assert names(wiring.route_by_any("x", ["a", "b", "c"], onward=True)) == ["q", "r"]
    assert names(wiring.route_by_any("x", ["a", "c"], onward=True)) == ["q"]
    assert names(wiring.route_by_any("x", ["c"], onward=True)) == []


def test_its_alternate_gets_what_goes_onward_to_nobody():
    wiring = wired(
        *queues("last", "q"),
        exchange("spare", "fanout"),
        bind("spare", "last"),
        *relaying("x", "direct", "spare"),
        bind("x", "q", "a"),
    )
    assert to(wiring, "x", "b") == ["@x"]
    assert onward(wiring, "x", "a") == ["q"] and onward(wiring, "x", "b") == ["last"]
    assert names(wiring.route_by_any("x", ["b", "c"], onward=True)) == ["last"]


def test_what_goes_from_one_to_another_as_its_alternate_goes_by_the_queue_of_that():
    wiring = wired(*queues("q"), *relaying("y"), *relaying("x", "direct", "y"), bind("y", "q"))
    assert onward(wiring, "x", "b") == names(wiring.route_by_any("x", ["b", "c"], onward=True)) == ["@y"]
    assert onward(wiring, "y", "b") == ["q"]


def test_as_an_alternate_it_takes_all():
    wiring = wired(*queues("q"), *relaying("x", "direct"), exchange("first", "direct", "x"), bind("x", "q", "a"))
    assert to(wiring, "first", "b") == names(wiring.route_by_any("first", ["b", "c"])) == ["@x"]


def test_exchanges_lead_to_its_queue_and_that_leads_on_to_exchanges():
    wiring = wired(
        *queues("q", "r", "s"), exchange("first", "fanout"), exchange("last"), *relaying("x"), link("first", "x"),
        link("x", "last"), bind("first", "q"), bind("x", "r"), bind("last", "s", "k"),
    )  # fmt: skip
    assert to(wiring, "first", "k") == ["@x", "q"] and to(wiring, "x", "k") == ["@x"]
    assert onward(wiring, "x", "k") == ["r", "s"] and onward(wiring, "x", "l") == ["r"]
    assert names(wiring.route_by_any("first", ["l", "k"])) == ["@x", "q"]
    assert names(wiring.route_by_any("x", ["l", "k"], onward=True)) == ["r", "s"]


def test_from_one_to_the_next_it_goes_by_the_queues_of_both():
    wiring = wired(*queues("q"), *relaying("x"), *relaying("y"), link("x", "y"), bind("y", "q"))
    assert to(wiring, "x") == ["@x"] and onward(wiring, "x") == ["@y"] and onward(wiring, "y") == ["q"]


# ---- rings


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([*relaying("x")], link("x", "x")),
        ([*relaying("x"), exchange("y"), link("x", "y")], link("y", "x")),
        ([*relaying("x"), exchange("y"), link("y", "x")], link("x", "y")),
        ([*relaying("x"), exchange("y"), exchange("z"), link("z", "x"), link("x", "y")], link("y", "z")),
        ([*relaying("x"), *relaying("y", **KEEPS), link("y", "x")], link("x", "y")),
        ([*relaying("x"), exchange("y"), exchange("z"), link("x", "y"), link("y", "z")], link("z", "x")),
        ([*relaying("x"), exchange("y", alternate="x")], link("x", "y")),
        ([exchange("y"), *relaying("x", alternate="y")], link("y", "x")),
        ([*relaying("x"), exchange("z", alternate="x"), exchange("y"), link("x", "y")], link("y", "z")),
    ],
)  # fmt: skip
def test_a_ring_through_one_is_refused_and_changes_nothing(events: list[AnyEvent], last: Bind):
    wiring = wired(*events)
    before = wiring.snapshot()
    refused = wiring.apply(last, 90)
    assert refused.code == INVALID and "would get back what it has sent on: have no ring through" in refused.text
    assert wiring.snapshot() == before


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([exchange("y"), exchange("z"), link("y", "z")], link("z", "y")),
        ([exchange("y")], link("y", "y")),
        ([*relaying("x"), exchange("y"), exchange("z"), link("x", "y"), link("y", "z")], link("z", "y")),
        ([*relaying("x"), exchange("y"), exchange("z"), link("y", "z"), link("z", "x")], link("z", "y")),
        ([*relaying("x"), exchange("y"), exchange("z"), link("x", "y"), link("x", "z")], link("y", "z")),
        ([*relaying("x"), exchange("y"), link("x", "y"), Unbind("x", "", "", "y")], link("y", "x")),
    ],
)  # fmt: skip
def test_a_ring_beside_one_and_two_ways_from_it_are_nobodys_harm(events: list[AnyEvent], last: Bind):
    wiring = wired(*events)
    assert wiring.apply(last, 90).changed


# ---- together they come and go


def test_its_queue_is_not_deleted_while_it_is_there():
    wiring = wired(*relaying("x"))
    before = wiring.snapshot()
    refused = wiring.apply(DeleteQueue("manta.exchange.x"), 9)
    assert refused.code == NOT_ALLOWED and "belongs to exchange 'x', and goes with it" in refused.text
    assert wiring.snapshot() == before
    assert wiring.apply(DeleteExchange("x"), 10).gone == ("x",)
    assert wiring.apply(DeleteQueue("manta.exchange.x"), 11).changed and wiring.queues() == []


def test_an_exchange_that_stays_keeps_its_queue():
    wiring = wired(*relaying("x"), exchange("y", alternate="x"))
    assert wiring.apply(DeleteExchange("x"), 9).code == IN_USE
    assert wiring.apply(DeleteQueue("manta.exchange.x"), 10).code == NOT_ALLOWED


def test_of_one_that_is_declared_anew_before_its_queue_has_gone_the_queue_stays():
    wiring = wired(*relaying("x"), DeleteExchange("x"), *relaying("x"))
    assert wiring.apply(DeleteQueue("manta.exchange.x"), 9).code == NOT_ALLOWED and to(wiring, "x") == ["@x"]


def test_with_a_lost_queue_its_exchange_is_gone_and_what_leads_to_it():
    goes = DeclareExchange("y", "fanout", {"manta.auto_delete": True})
    wiring = wired(*queues("q"), *relaying("x"), *relaying("z"), goes, bind("x", "q"), link("y", "x"), link("z", "x"))
    lost = wiring.apply(Lost("manta.exchange.x#2"), 90)
    assert lost.gone == ("x", "y") and lost.queue is not None and lost.queue.name == "manta.exchange.x"
    assert wiring.exchange("x") is None and wiring.bindings() == [] and wiring.links() == []
    assert to(wiring, "z") == ["@z"] and [queue.name for queue in wiring.queues()] == ["manta.exchange.z", "q"]


def test_a_lost_queue_that_is_nobodys_relay_takes_no_exchange_with_it():
    wiring = wired(*queues("manta.exchange.x", "q"), exchange("x", "fanout"), bind("x", "q"))
    assert wiring.apply(Lost("manta.exchange.x#1"), 90).gone == () and to(wiring, "x") == ["q"]
    wiring = wired(*relaying("x"), *queues("q"))
    assert wiring.apply(Lost("q#3"), 90).gone == () and to(wiring, "x") == ["@x"]


def test_a_durable_one_is_not_lost_unless_it_is_said_so():
    wiring = wired(*relaying("x", durable=True))
    assert not wiring.apply(Lost("manta.exchange.x#1"), 9).changed and to(wiring, "x") == ["@x"]
    assert wiring.apply(Lost("manta.exchange.x#1", True, True), 10).gone == ("x",)


# ---- snapshots


def test_it_comes_back_in_a_snapshot():
    wiring = wired(
        *queues("q", "last"), exchange("first", "fanout"), exchange("spare", "fanout"), bind("spare", "last"),
        *relaying("x", "direct", "spare", **NUMBERS, **KEEPS), bind("x", "q", "k"), link("first", "x"),
    )  # fmt: skip
    again = Wiring.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(wiring.snapshot())))
    assert again.snapshot() == wiring.snapshot() and again.digest() == wiring.digest()
    for one in (wiring, again):
        assert to(one, "x", "k") == to(one, "first", "k") == ["@x"]
        assert onward(one, "x", "k") == ["q"] and onward(one, "x", "l") == ["last"]
        assert relay_name(one.exchange("x")) == "manta.exchange.x"
        assert one.apply(DeleteQueue("manta.exchange.x"), 90).code == NOT_ALLOWED
        assert one.apply(link("spare", "x"), 91).code == INVALID
        assert one.apply(Lost(one.route("x", "k")[0]), 92).gone == ("x",)


# ---- through brokers


def test_what_another_exchange_leads_to_it_is_complete_and_goes_on_by_itself():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    assert client.command("declare_exchange", name="x", type="direct", arguments=NUMBERS).code == ""
    client.command("declare_queue", name="q")
    client.command("bind", exchange="x", queue="q", key="k")
    client.command("bind", exchange="amq.topic", to_exchange="x", key="#")
    client.send(AttachSender(1, "amq.topic", None), Transfer(1, 1, [b"\x91\xc4\x011", b"\x91\xc4\x012"], ["k", "l"]))
    assert [frame.headers for frame in client.take(Attached)] == [False]
    assert [(frame.ranges, frame.unroutable) for frame in client.take(Completed)] == [([1, 2], [])]
    assert client.command("queue", name="q").value["messages"] == 1
    (relay,) = [one for one in client.command("queues").value if one["name"] != "q"]
    assert (relay["name"], relay["kind"], relay["enqueued"], relay["dead_lettered"]) == (
        "manta.exchange.x",
        "relay",
        2,
        2,
    )


@pytest.mark.parametrize("arguments", [NUMBERS, KEEPS])
def test_it_is_refused_while_a_member_would_not_send_it_on(arguments: dict[str, Any]):
    cluster = MemoryCluster()
    client = cluster.client("b1")
    cluster.machines["b1"].cluster.versions.least = 9
    refused = client.command("declare_exchange", name="x", arguments=arguments)
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
    assert client.command("queues").value == []
    cluster.machines["b1"].cluster.versions.least = 10
    assert client.command("declare_exchange", name="x", arguments=arguments).value == {"changed": True}


def test_what_comes_from_a_relay_goes_by_the_bindings_up_to_an_index():
    wiring = wired(
        *queues("q", "late"), *relaying("x", "fanout", **NUMBERS), exchange("behind", "fanout"), bind("x", "q")
    )
    wiring.apply(link("x", "behind"), 20)
    wiring.apply(bind("behind", "late"), 21)
    names = {
        index: [id.partition("#")[0] for id in wiring.as_of("x", index).route_onward("x", "")] for index in (19, 20, 21)
    }
    assert names == {19: ["q"], 20: ["q"], 21: ["late", "q"]}
    assert wiring.as_of("x", 21) is wiring and wiring.as_of("x", 20) is not wiring


def test_what_was_bound_before_the_exchange_was_declared_counts_from_the_first_message_on():
    wiring = wired(*queues("q"), exchange("behind", "fanout"), bind("behind", "q"))
    for index, event in enumerate(relaying("x", "fanout", alternate="behind", **NUMBERS), 20):
        assert not wiring.apply(event, index).code
    assert [id.partition("#")[0] for id in wiring.as_of("x", 0).route_onward("x", "")] == ["q"]


def test_an_exclusive_binding_that_is_made_again_is_as_old_as_it_was():
    alone = {"qpid.exclusive-binding": True}
    wiring = wired(*queues("q"), *relaying("x", "direct", **NUMBERS))
    for index in (20, 30):
        assert not wiring.apply(Bind("x", "q", "k", alone), index).code
    assert [id.partition("#")[0] for id in wiring.as_of("x", 25).route_onward("x", "k")] == ["q"]
