"""Exchanges that go with the last of their bindings; and internal ones, to which nobody sends."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_wiring import link, wired
from mantamq.protocol.errors import NOT_ALLOWED, NOT_FOUND
from mantamq.protocol.wire.client_frames import Attached, AttachSender, Completed, Detached, Transfer
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
from mantamq.protocol.wiring.wiring import Wiring

from tests.unit.cluster_in_memory import MemoryCluster

GOES = {"manta.auto_delete": True}


def exchange(name: str, alternate: str = "", **arguments: Any) -> DeclareExchange:
    return DeclareExchange(name, "direct", arguments or GOES, alternate=alternate)


def left(wiring: Wiring) -> set[str]:
    return {one.name for one in wiring.exchanges() if one.name and not one.name.startswith("amq.")}


@pytest.mark.parametrize("last", [Unbind("e", "q", "l"), DeleteQueue("q"), Lost("q#2"), DeleteExchange("e")])
def test_it_goes_with_the_last_of_its_bindings_whatever_takes_that(last: AnyEvent):
    wiring = wired(exchange("e"), DeclareQueue("q", {}), Bind("e", "q", "k", {}), Bind("e", "q", "l", {}))
    assert wiring.apply(Unbind("e", "q", "k"), 5).gone == () and left(wiring) == {"e"}
    outcome = wiring.apply(last, 6)
    assert outcome.changed and outcome.gone == ("e",) and left(wiring) == set()
    assert wiring.apply(Bind("e", "q", "k", {}), 7).code == NOT_FOUND


def test_one_that_had_none_yet_stays_and_so_does_one_that_was_not_declared_so():
    wiring = wired(
        exchange("new"), exchange("e", mine=1), DeclareQueue("q", {}), DeclareQueue("r", {}), Bind("e", "q", "k", {}),
    )  # fmt: skip
    assert wiring.apply(DeleteQueue("q"), 6).gone == () == wiring.apply(DeleteQueue("r"), 7).gone
    assert left(wiring) == {"new", "e"}


def test_bindings_to_exchanges_count_and_those_to_it_do_not():
    wiring = wired(exchange("e"), exchange("to"), DeclareQueue("q", {}), Bind("e", "q", "k", {}), link("e", "to"))
    wiring.apply(link("to", "e", "k"), 6)
    assert wiring.apply(DeleteQueue("q"), 7).gone == () and left(wiring) == {"e", "to"}
    outcome = wiring.apply(Unbind("e", "", "", "to"), 8)
    assert outcome.gone == ("e", "to"), "with the first goes the only binding of the other"


@pytest.mark.parametrize("count", [3, 3000])
def test_a_chain_of_them_goes_at_once(count: int):
    """None is too long for it: an exception would end every broker."""
    chain = [exchange(f"e{n}") for n in range(count)]
    links = [link(f"e{n}", f"e{n + 1}") for n in range(count - 1)]
    wiring = wired(*chain, *links, DeclareQueue("q", {}), Bind(f"e{count - 1}", "q", "", {}))
    outcome = wiring.apply(DeleteQueue("q"), 9)
    assert len(outcome.gone) == count and list(outcome.gone) == sorted(outcome.gone) and left(wiring) == set()


def test_it_is_nobodys_alternate_since_that_has_to_stay():
    wiring = wired(exchange("e"))
    for event in (exchange("f", "e"), DeclareQueue("q", {}, alternate="e")):
        refused = wiring.apply(event, 2)
        assert refused.code == NOT_ALLOWED and "an alternate has to stay" in refused.text


def test_a_restored_one_goes_as_well():
    wiring = wired(exchange("e"), DeclareQueue("q", {}), Bind("e", "q", "k", {}))
    again = Wiring.restore(wiring.snapshot())
    assert again.apply(DeleteQueue("q"), 4) == wiring.apply(DeleteQueue("q"), 4)
    assert left(again) == set() and again.digest() == wiring.digest()


# ---- through brokers


def declared(cluster: MemoryCluster, **arguments: Any) -> Any:
    client = cluster.client("b1")
    client.command("declare_queue", name="q")
    assert client.command("declare_exchange", name="e", arguments=arguments).code == ""
    client.command("bind", exchange="e", queue="q", key="k")
    return client


@pytest.mark.parametrize("broker", ["b1", "b3"])
def test_its_senders_end_at_every_broker(broker: str):
    cluster = MemoryCluster()
    admin = declared(cluster, **GOES)
    client = cluster.client(broker)
    client.send(AttachSender(1, "e", "k"), Transfer(1, 1, [b"1"]))
    assert client.take(Completed)
    assert admin.command("unbind", exchange="e", queue="q", key="k").code == ""
    (end,) = client.take(Detached)
    assert end.code == "not-found" and "was deleted, as nothing is bound to it any more" in end.text
    client.send(Transfer(1, 2, [b"2"]))
    assert not client.take(Completed)


def test_nobody_sends_to_an_internal_one_and_what_leads_to_it_does():
    cluster = MemoryCluster()
    client = declared(cluster, **{"manta.internal": True})
    client.send(AttachSender(1, "e", "k"))
    assert not client.take(Attached)
    (refused,) = client.take(Detached)
    assert refused.code == "not-allowed" and "send to an exchange that leads to it" in refused.text
    client.command("bind", exchange="amq.direct", to_exchange="e", key="k")
    client.send(AttachSender(2, "amq.direct", "k"), Transfer(2, 1, [b"1"]))
    assert client.command("queue", name="q").value["messages"] == 1


def test_declared_in_other_words_it_is_the_same():
    client = MemoryCluster().client("b1")
    declare = {"name": "e", "arguments": {"manta.internal": False, "mine": 1}}
    assert client.command("declare_exchange", **declare).value == {"changed": True}
    assert client.command("declare_exchange", name="e", arguments={"mine": 1}).value == {"changed": False}
    assert client.command("declare_exchange", name="e", arguments={"mine": 1, **GOES}).code == "exists"
    refused = client.command("declare_exchange", name="f", arguments={"manta.internal": "perhaps"})
    assert (refused.code, "give true" in refused.text) == ("invalid", True)
    refused = client.command("declare_exchange", name="f", arguments={"manta.auto-delete": True})
    assert "did you mean 'manta.auto_delete'?" in refused.text


def test_it_is_refused_while_a_member_would_not_keep_to_it():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    cluster.machines["b1"].cluster.versions.least = 7
    refused = client.command("declare_exchange", name="e", arguments=GOES)
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
    assert client.command("declare_exchange", name="e", arguments={"mine": 1}).code == ""
