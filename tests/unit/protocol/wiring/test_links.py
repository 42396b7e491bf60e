"""Exchanges that are bound to exchanges."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_wiring import bind, exchange, link, queues, to, wired
from mantamq.protocol.errors import INVALID, NOT_ALLOWED, NOT_FOUND
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.events import Bind, DeleteExchange, Unbind
from mantamq.protocol.wire.message import Header, encode
from mantamq.protocol.wire.queue_frames import REJECT
from mantamq.protocol.wiring.exchanges import LooksAtHeaders

from tests.unit.cluster_in_memory import MemoryCluster


def test_a_message_goes_on_under_its_key_where_a_queue_would_get_it():
    wiring = wired(
        *queues("q", "r"), exchange("a", "topic"), exchange("b"), exchange("c", "fanout"), link("a", "b", "x.#"),
        link("b", "c", "x.y"), bind("b", "q", "x"), bind("c", "r"),
    )  # fmt: skip
    assert [to(wiring, "a", key) for key in ("x", "x.y", "y")] == [["q"], ["r"], []]


def test_a_ring_ends_and_each_queue_has_it_once():
    wiring = wired(
        *queues("q", "r"), *(exchange(name, "fanout") for name in "abc"), link("a", "b"), link("b", "c"), link("c", "a"),
        link("a", "a"), *(bind(name, "q") for name in "abc"), bind("c", "r"),
    )  # fmt: skip
    assert [to(wiring, name, "k") for name in "abc"] == [["q", "r"]] * 3


def test_its_alternate_is_asked_only_where_no_queue_was_reached():
    wiring = wired(
        *queues("last", "q"), exchange("spare", "fanout"), bind("spare", "last"), exchange("on"), bind("on", "q", "k"),
        exchange("first", "fanout", "spare"), link("first", "on"),
    )  # fmt: skip
    assert to(wiring, "first", "k") == ["q"] and to(wiring, "first", "none") == ["last"]


def test_an_exchange_on_the_way_that_finds_nothing_passes_it_to_its_alternate():
    wiring = wired(
        *queues("last", "q"), exchange("spare", "fanout"), bind("spare", "last"), exchange("on", "direct", "spare"),
        exchange("first", "fanout"), link("first", "on"), bind("first", "q"),
    )  # fmt: skip
    assert to(wiring, "first", "k") == ["last", "q"]
    wiring.apply(bind("on", "q", "k"), 90)
    assert to(wiring, "first", "k") == ["q"]


def test_what_looks_at_headers_is_found_along_the_way():
    wiring = wired(
        *queues("q"), exchange("a", "topic"), exchange("b", "fanout"), link("a", "b", "x"), link("b", "a"),
        Bind("amq.match", "q", "", {"n": 1}),
    )  # fmt: skip
    assert not wiring.needs_headers("a") and to(wiring, "a", "x") == []
    wiring.apply(link("b", "amq.match"), 90)
    assert wiring.needs_headers("a") and wiring.needs_headers("b")
    assert to(wiring, "a", "x", {"n": 1}) == ["q"] and to(wiring, "a", "x", {"n": 2}) == []
    with pytest.raises(LooksAtHeaders):
        wiring.route("a", "x")
    assert to(wiring, "a", "y") == []


def test_bindings_from_a_headers_exchange_are_by_headers():
    wiring = wired(*queues("q"), exchange("b", "fanout"), bind("b", "q"), link("amq.match", "b", n=1))
    assert to(wiring, "amq.match", "", {"n": 1}) == ["q"] and to(wiring, "amq.match", "", {}) == []


@pytest.mark.parametrize("gone", ["a", "b"])
def test_it_goes_with_either_exchange(gone: str):
    wiring = wired(
        *queues("q"),
        exchange("a", "fanout"),
        exchange("b", "fanout"),
        bind("b", "q"),
        link("a", "b"),
        link("b", "a", "k"),
    )
    wiring.apply(DeleteExchange(gone), 90)
    assert wiring.links() == []
    wiring.apply(exchange(gone, "fanout"), 91)
    assert wiring.links() == [] and to(wiring, "a", "k") == []


def test_again_is_no_change_and_undone_it_is_gone():
    wiring = wired(*queues("b", "q"), exchange("a"), exchange("b"), bind("b", "q", "k"), link("a", "b", "k"))
    assert not wiring.apply(link("a", "b", "k"), 90).changed
    # A queue of the same name is another thing.
    assert wiring.apply(bind("a", "b", "k"), 91).changed and to(wiring, "a", "k") == ["b", "q"]
    assert wiring.apply(Unbind("a", "b", "k"), 92).changed and to(wiring, "a", "k") == ["q"]
    assert wiring.apply(Unbind("a", "", "k", "b"), 93).changed and to(wiring, "a", "k") == []
    assert wiring.apply(Unbind("a", "", "k", "b"), 94).code == NOT_FOUND


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (link("a", "x"), NOT_FOUND),
        (link("x", "a"), NOT_FOUND),
        (link("", "a"), NOT_ALLOWED),
        (Bind("a", "q", "", {}, "a"), INVALID),
        (Bind("a", "", "", {}), NOT_FOUND),
        (Bind("amq.match", "", "", {"x-match": "most"}, "a"), INVALID),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(event: Bind, code: str):
    wiring = wired(*queues("q"), exchange("a"))
    before = wiring.snapshot()
    outcome = wiring.apply(event, 9)
    assert outcome.code == code and outcome.text and wiring.snapshot() == before


# ---- through brokers


def message(body: bytes, **properties: Any) -> bytes:
    return encode(Header(body, properties=properties))  # type: ignore[arg-type]


def linked(cluster: MemoryCluster) -> Any:
    client = cluster.client("b1")
    client.command("declare_queue", name="q")
    client.command("bind", exchange="amq.match", queue="q", arguments={"n": 1})
    client.command("declare_exchange", name="news", type="topic")
    return client


@pytest.mark.parametrize("keys", [None, ["x.y", "x.y", "y"]])
def test_senders_that_were_there_before_it_looks_at_headers_need_not_send_them(keys: list[str] | None):
    """The broker finds them in the messages."""
    cluster = MemoryCluster()
    client = linked(cluster)
    client.send(AttachSender(1, "news", None if keys else "x.y"))
    assert not client.take(Attached)[-1].headers
    blobs = [message(b"yes", n=1), message(b"no", n=2), message(b"yes", n=1) if keys is None else b"raw"]
    client.send(Transfer(1, 1, blobs, keys))
    assert client.command("bind", exchange="news", to_exchange="amq.match", key="x.#").code == ""
    client.take(Completed)
    client.send(Transfer(1, 4, blobs, keys))
    (done,) = client.take(Completed)
    assert (done.ranges, done.unroutable) == ([4, 6], [5, 5] if keys is None else [5, 6])
    assert client.command("queue", name="q").value["messages"] == (2 if keys is None else 1)
    client.send(AttachSender(2, "news", "x"))
    assert client.take(Attached)[-1].headers


def test_rejected_messages_go_by_their_headers():
    cluster = MemoryCluster()
    client = linked(cluster)
    client.command("declare_exchange", name="grave", type="fanout")
    client.command("bind", exchange="grave", to_exchange="amq.match")
    client.command("declare_queue", name="work", alternate="grave")
    client.send(AttachSender(1, "", "work"), Transfer(1, 1, [message(b"yes", n=1), message(b"no", n=2)]))
    client.send(AttachReceiver(2, "work"))
    client.send(Flow(2, 10))
    (delivery,) = client.take(Delivery)
    client.send(Dispose(2, 1, REJECT, [delivery.acquisition, 1, 2]))
    cluster.pass_time(1)
    assert client.command("queue", name="q").value["messages"] == 1
    assert client.command("queue", name="work").value["messages"] == 0


def test_it_is_listed_and_refused_while_a_member_would_not_make_it():
    cluster = MemoryCluster()
    client = linked(cluster)
    cluster.machines["b1"].cluster.versions.least = 7
    refused = client.command("bind", exchange="news", to_exchange="amq.match", key="k")
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
    cluster.machines["b1"].cluster.versions.least = 8
    assert client.command("bind", exchange="news", to_exchange="amq.match", key="k").value == {"changed": True}
    row = {"exchange": "news", "queue": "", "key": "k", "arguments": {}, "to_exchange": "amq.match"}
    assert client.command("bindings").value[-1] == row
    assert client.command("unbind", exchange="news", to_exchange="amq.match", key="k").value == {"changed": True}
    assert row not in client.command("bindings").value
