"""Bindings of a direct exchange that take the place of all others of their key."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_wiring import queues, to, wired
from mantamq.protocol.errors import INVALID
from mantamq.protocol.wire.client_frames import AttachSender, Transfer
from mantamq.protocol.wire.events import Bind, DeclareExchange
from mantamq.protocol.wiring.wiring import Wiring

from tests.unit.cluster_in_memory import MemoryCluster

ALONE = {"qpid.exclusive-binding": True}
QUEUES = queues("q", "r", "s")


def bind(queue: str, key: str = "k", exchange: str = "amq.direct", **arguments: Any) -> Bind:
    return Bind(exchange, queue, key, arguments)


def found(wiring: Wiring, key: str = "k", exchange: str = "amq.direct") -> list[str]:
    return to(wiring, exchange, key)


def test_it_takes_the_place_of_all_others_of_its_key_and_of_no_more():
    wiring = wired(*QUEUES, bind("q"), bind("r", mine=1), bind("r", "l"), Bind("amq.direct", "", "k", {}, "amq.fanout"))
    wiring.apply(Bind("amq.fanout", "q", "", {}), 8)
    assert found(wiring) == ["q", "r"]
    assert wiring.apply(bind("s", **ALONE), 9).changed
    assert found(wiring) == ["s"] and found(wiring, "l") == ["r"] and wiring.links() == []


def test_others_may_come_behind_it_until_it_is_bound_again():
    wiring = wired(*QUEUES, bind("q", **ALONE), bind("r"))
    assert found(wiring) == ["q", "r"]
    assert wiring.apply(bind("q", **ALONE), 9).changed and found(wiring) == ["q"]
    assert not wiring.apply(bind("q", **ALONE), 10).changed and found(wiring) == ["q"]


def test_an_exchange_may_be_declared_so_for_all_of_its_own_also_those_to_exchanges():
    wiring = wired(*QUEUES, DeclareExchange("e", "direct", ALONE), bind("q", exchange="e"), bind("r", exchange="e"))
    assert found(wiring, exchange="e") == ["r"]
    wiring.apply(Bind("e", "", "k", {}, "amq.fanout"), 9)
    assert found(wiring, exchange="e") == [] and [link.queue for link in wiring.links()] == ["amq.fanout"]
    again = Wiring.restore(wiring.snapshot())
    assert again.apply(bind("s", exchange="e"), 10).changed and found(again, exchange="e") == ["s"]


@pytest.mark.parametrize("type", ["fanout", "topic", "headers"])
def test_other_exchanges_have_none(type: str):
    wiring = wired(*QUEUES, bind("q", exchange="amq." + type))
    before = wiring.snapshot()
    for event in (DeclareExchange("e", type, ALONE), bind("r", exchange="amq." + type, **ALONE)):
        refused = wiring.apply(event, 9)
        assert refused.code == INVALID and "is of direct exchanges" in refused.text
    assert wiring.snapshot() == before


def test_an_exchange_that_goes_with_its_last_binding_stays_when_it_is_displaced():
    wiring = wired(
        *QUEUES, DeclareExchange("e", "direct", ALONE | {"manta.auto_delete": True}), bind("q", exchange="e")
    )
    assert wiring.apply(bind("r", exchange="e"), 9).gone == () and found(wiring, exchange="e") == ["r"]


def test_through_brokers():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    for name in "qr":
        client.command("declare_queue", name=name)
    client.command("bind", exchange="amq.direct", queue="q", key="k")
    sender = cluster.client("b2")
    sender.send(AttachSender(1, "amq.direct", "k"), Transfer(1, 1, [b"1"]))
    assert client.command("bind", exchange="amq.direct", queue="r", key="k", arguments=ALONE).value == {"changed": True}
    sender.send(Transfer(1, 2, [b"2"]))
    assert [client.command("queue", name=name).value["messages"] for name in "qr"] == [1, 1]
    odd = client.command("bind", exchange="amq.direct", queue="q", arguments={"qpid.exclusive-binding": "perhaps"})
    assert odd.code == "invalid" and "give true" in odd.text
    cluster.machines["b1"].cluster.versions.least = 7
    for refused in (
        client.command("bind", exchange="amq.direct", queue="q", key="k", arguments=ALONE),
        client.command("declare_exchange", name="e", arguments=ALONE),
    ):
        assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
