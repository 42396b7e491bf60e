from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_wiring import bind, exchange, names, queue, wired
from mantamq.protocol.errors import EXISTS, IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND, LocalError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.wire.events import (
    AnyEvent,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Lost,
    Own,
    Unbind,
    decode_event,
    encode_event,
)
from mantamq.protocol.wiring.exchanges import LooksAtHeaders
from mantamq.protocol.wiring.wiring import Outcome, Wiring


def codes(wiring: Wiring, *events: AnyEvent) -> list[str]:
    return [wiring.apply(event, 100 + index).code for index, event in enumerate(events)]


# ---- declaring and deleting


def test_a_queue_declared_again_is_the_same_queue() -> None:
    wiring = wired(queue("orders", limit=5))
    again = wiring.apply(queue("orders", limit=5), 2)
    assert again == Outcome(queue=wiring.queue("orders"))
    assert not again.changed
    assert again.queue is not None and again.queue.id == "orders#1"


def test_an_alternate_that_is_not_named_again_is_not_asked_for() -> None:
    wiring = wired(
        exchange("spare", "fanout"), exchange("e", alternate="spare"), queue("q", "spare"), queue("plain"),
        exchange("bare"),
    )  # fmt: skip
    assert codes(wiring, queue("q"), exchange("e")) == ["", ""]
    assert [one.alternate for one in (wiring.queue("q"), wiring.exchange("e")) if one] == ["spare", "spare"]
    # Changing one and adding one stay refused.
    assert codes(wiring, queue("q", "amq.fanout"), exchange("e", alternate="amq.fanout")) == [EXISTS, EXISTS]
    assert codes(wiring, queue("plain", "spare"), exchange("bare", alternate="spare")) == [EXISTS, EXISTS]


def test_a_race_of_two_declares_ends_in_the_first_and_names_what_differs() -> None:
    wiring = wired(queue("orders", limit=5))
    before = wiring.snapshot()
    lost = wiring.apply(DeclareQueue("orders", {"limit": 6}, durable=True), 2)
    assert lost.code == EXISTS
    assert "limit" in lost.text and "durable=False" in lost.text and "alternate" not in lost.text
    assert not lost.changed and lost.queue is None
    assert wiring.snapshot() == before


def test_the_order_of_arguments_makes_no_difference_but_their_types_do() -> None:
    wiring = wired(DeclareQueue("orders", {"a": 1, "b": 2}))
    assert wiring.apply(DeclareQueue("orders", {"b": 2, "a": 1}), 2).code == ""
    assert wiring.apply(DeclareQueue("orders", {"b": 2, "a": True}), 3).code == EXISTS


def test_a_queue_deleted_and_declared_again_is_another() -> None:
    wiring = wired(queue("orders"), exchange("e"), bind("e", "orders", "k"))
    gone = wiring.apply(DeleteQueue("orders"), 4)
    assert gone.changed and gone.queue is not None and gone.queue.id == "orders#1"
    assert wiring.bindings() == []
    assert wiring.route("e", "k") == () and wiring.route("", "orders") == ()
    new = wiring.apply(queue("orders"), 5)
    assert new.queue is not None and new.queue.id == "orders#5"
    assert wiring.by_id("orders#1") is None and wiring.by_id("orders#5") == wiring.queue("orders")
    assert wiring.route("e", "k") == ()


def test_the_standard_exchanges_are_there_and_stay() -> None:
    wiring = Wiring()
    assert {e.name: e.type for e in wiring.exchanges()} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.topic": "topic",
        "amq.fanout": "fanout",
        "amq.match": "headers",
        "amq.headers": "headers",
    }
    assert codes(wiring, exchange("amq.topic", "topic"), exchange("", "direct")) == ["", ""]
    assert codes(wiring, exchange("amq.topic", "direct"), exchange("amq.mine", "direct")) == [EXISTS, NOT_ALLOWED]
    assert codes(wiring, DeleteExchange("amq.topic"), DeleteExchange("")) == [NOT_ALLOWED, NOT_ALLOWED]


def test_an_alternate_must_be_there_and_cannot_go_while_it_is_used() -> None:
    wiring = Wiring()
    assert codes(wiring, queue("q", "none"), exchange("e", alternate="none")) == [NOT_FOUND, NOT_FOUND]
    wiring = wired(exchange("spare", "fanout"), exchange("e", alternate="spare"), queue("q", "spare"))
    refused = wiring.apply(DeleteExchange("spare"), 9)
    assert refused.code == IN_USE and "e, q" in refused.text
    assert codes(wiring, DeleteExchange("e"), DeleteQueue("q"), DeleteExchange("spare")) == ["", "", ""]


def test_an_exchange_takes_its_bindings_with_it() -> None:
    wiring = wired(queue("q"), exchange("e"), bind("e", "q", "k"), DeleteExchange("e"), exchange("e"))
    assert wiring.bindings() == [] and wiring.route("e", "k") == ()


def test_what_is_not_there() -> None:
    wiring = wired(queue("q"), exchange("e"))
    assert (
        codes(
            wiring,
            DeleteQueue("x"),
            DeleteExchange("x"),
            bind("x", "q"),
            bind("e", "x"),
            Unbind("x", "q", ""),
            Unbind("e", "x", ""),
            Unbind("e", "q", "k"),
        )
        == [NOT_FOUND] * 7
    )
    assert codes(wiring, bind("", "q", "k"), Unbind("", "q", "q")) == [NOT_ALLOWED, NOT_ALLOWED]


@pytest.mark.parametrize("name", ["", "x" * (DEFAULT.name_chars + 1), "a\nb", "a\x00", "\x7f", "\ud800"])
def test_names_that_are_refused(name: str) -> None:
    outcome = Wiring().apply(queue(name), 1)
    assert outcome.code == INVALID and outcome.text
    if name:
        assert Wiring().apply(exchange(name), 1).code == INVALID


def test_other_invalid_definitions() -> None:
    wiring = wired(queue("q"), exchange("h", "headers"))
    assert (
        codes(
            wiring,
            exchange("e", "fan"),
            bind("h", "q", "", **{"x-match": "some"}),
            bind("h", "q", "", **{"x-match": ["all"]}),
            bind("h", "q", "k" * (DEFAULT.name_chars + 1)),
        )
        == [INVALID] * 4
    )


AWKWARD: list[Any] = [
    {1: "a number for a name"},
    {"a": 1, 2: "names of two kinds"},
    {b"bytes": 1},
    {(1, 2): "an array for a name"},
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    msgspec.msgpack.Ext(5, b"x"),
    [[{"deep": {3: 3}}]],
]


@pytest.mark.parametrize("value", AWKWARD, ids=[str(i) for i in range(len(AWKWARD))])
def test_values_that_cannot_be_compared_or_written_are_refused_and_raise_nothing(value: Any) -> None:
    """They come from one client; an exception would end every broker of the cluster."""
    wiring = wired(queue("q"), exchange("e"), exchange("h", "headers"))
    before = wiring.snapshot()
    events: list[AnyEvent] = [
        DeclareQueue("new", {"a": value}),
        DeclareQueue("q", {"a": value}),
        DeclareExchange("new", "topic", {"a": value}),
        DeclareExchange("e", "direct", {"a": value}),
        Bind("e", "q", "", {"a": value}),
        Bind("h", "q", "", {"a": value, "x-match": value}),
    ]
    for event in events:
        on_the_wire = decode_event(encode_event(event))
        assert on_the_wire is not None
        assert wiring.apply(on_the_wire, 9).code == INVALID
    assert wiring.snapshot() == before


def test_events_that_are_not_wiring_change_nothing() -> None:
    assert Wiring().apply(Own("b1", 1), 1) == Outcome()


# ---- routing


def test_the_default_exchange_knows_every_queue_by_its_name() -> None:
    wiring = wired(queue("a"), queue("b"))
    assert wiring.route("", "a") == ("a#1",)
    assert wiring.route("", "c") == ()


def test_direct_fanout_and_topic() -> None:
    wiring = wired(
        *(queue(name) for name in "cab"),
        *(exchange(type, type) for type in ("direct", "fanout", "topic")),
        bind("direct", "a", "k"), bind("direct", "b", "k"), bind("direct", "c", "other"),
        bind("fanout", "c", "x"), bind("fanout", "a", "y"), bind("fanout", "a", "z"),
        bind("topic", "a", "JFK.#"), bind("topic", "b", "#.late"), bind("topic", "a", "#.AA.*"),
    )  # fmt: skip
    assert names(wiring.route("direct", "k")) == ["a", "b"]
    assert names(wiring.route("direct", "none")) == []
    assert names(wiring.route("fanout", "anything")) == ["a", "c"]
    assert names(wiring.route("topic", "JFK.LAX.AA.late")) == ["a", "b"]
    assert names(wiring.route("topic", "EWR.LAX.UA")) == []
    assert wiring.route("nowhere", "k") == ()


def test_headers_all_any_and_what_takes_no_part() -> None:
    wiring = wired(
        *(queue(name) for name in ("all", "any", "presence", "empty-all", "empty-any")),
        bind("amq.match", "all", "", **{"origin": "JFK", "late": True, "x-note": "no part"}),
        bind("amq.match", "any", "", **{"x-match": "any", "origin": "JFK", "late": True}),
        bind("amq.match", "presence", "", **{"x-match": "all", "late": None}),
        bind("amq.match", "empty-all"),
        bind("amq.match", "empty-any", "", **{"x-match": "any"}),
    )

    def route(**headers: Any) -> list[str]:
        return names(wiring.route("amq.match", "", headers))

    assert route(origin="JFK", late=True) == ["all", "any", "empty-all", "presence"]
    assert route(origin="JFK") == ["any", "empty-all"]
    assert route(late=False) == ["empty-all", "presence"]
    assert route() == ["empty-all"]
    with pytest.raises(LooksAtHeaders):
        wiring.route("amq.match", "")


def test_the_same_binding_twice_is_one_and_unbind_takes_all_of_its_key() -> None:
    wiring = wired(queue("q"), exchange("h", "headers"), bind("h", "q", "k", a=1))
    assert not wiring.apply(bind("h", "q", "k", a=1), 4).changed
    assert wiring.apply(bind("h", "q", "k", a=2), 5).changed
    assert wiring.apply(bind("h", "q", "l", a=1), 6).changed
    assert len(wiring.bindings()) == 3
    assert wiring.apply(Unbind("h", "q", "k"), 7).changed
    assert [b.key for b in wiring.bindings()] == ["l"]


def test_what_no_queue_takes_goes_to_the_alternate_and_on() -> None:
    wiring = wired(
        queue("last"), queue("q"),
        exchange("three", "fanout"), exchange("two", "direct", "three"), exchange("one", "topic", "two"),
        bind("one", "q", "a.#"), bind("three", "last"),
    )  # fmt: skip
    assert names(wiring.route("one", "a.b")) == ["q"]
    assert names(wiring.route("one", "b")) == ["last"]
    wiring.apply(bind("two", "q", "b"), 90)
    assert names(wiring.route("one", "b")) == ["q"]


def test_a_ring_of_alternates_ends() -> None:
    """No client can make one; a damaged snapshot must not hang a broker."""
    ring = [["a", "direct", {}, False, "b"], ["b", "headers", {}, False, "a"]]
    wiring = Wiring.restore([[], ring, []])
    assert wiring.route("a", "k", {}) == ()
    assert wiring.needs_headers("a")


def test_needs_headers_looks_along_the_alternates() -> None:
    wiring = wired(exchange("plain"), exchange("one", "topic", "amq.match"), exchange("two", "fanout", "one"))
    assert wiring.needs_headers("amq.headers") and wiring.needs_headers("two")
    assert not wiring.needs_headers("plain") and not wiring.needs_headers("") and not wiring.needs_headers("nowhere")


# ---- replicas

small = st.sampled_from(["a", "b", "amq.topic", "", "x\n"])
values = st.sampled_from([1, True, "t", b"b", None, [1], {"n": 1}, {1: 1}])
arguments = st.dictionaries(
    st.sampled_from(["k", "x-match", "x-other", "manta.auto_delete", "qpid.exclusive-binding"]),
    values | st.just("any"),
    max_size=2,
)
keys = st.sampled_from(["", "k", "a.b", "a.#", "*.b", "#"])
kinds = st.sampled_from(["direct", "topic", "fanout", "headers", "odd"])
any_event = st.one_of(
    st.builds(DeclareQueue, small, arguments, st.booleans(), small),
    st.builds(DeleteQueue, small),
    st.builds(DeclareExchange, small, kinds, arguments, st.booleans(), small),
    st.builds(DeleteExchange, small),
    st.builds(Bind, small, small, keys, arguments),
    st.builds(Unbind, small, small, keys),
    st.builds(Bind, small, st.sampled_from(["", "", "", "a"]), keys, arguments, small),
    st.builds(Bind, small, st.just(""), keys, arguments, small),
    st.builds(Unbind, small, st.just(""), keys, small),
)


@settings(max_examples=300)
@given(
    log=st.lists(any_event, max_size=40), cut=st.integers(0, 40), routes=st.lists(st.tuples(small, keys), max_size=8)
)
def test_replicas_of_one_log_are_equal_however_they_came_to_it(
    log: list[AnyEvent], cut: int, routes: list[tuple[str, str]]
) -> None:
    """One applied all events; one read them off the wire; one was restored half-way. One was asked for routes between."""
    one, other = Wiring(), Wiring()
    late: Wiring | None = None
    for index, event in enumerate(log, 1):
        if index - 1 == cut:
            carried = msgspec.msgpack.decode(msgspec.msgpack.encode(one.snapshot()))
            late = Wiring.restore(carried)
        decoded = decode_event(encode_event(event))
        assert decoded is not None
        outcome = one.apply(event, index)
        assert (outcome.code == "") == (outcome.text == "")
        assert other.apply(decoded, index) == outcome
        if late is not None:
            assert late.apply(decoded, index) == outcome
        for place in routes:
            with suppress(LooksAtHeaders):
                one.route(*place)
    for replica in (other, late):
        if replica is not None:
            assert replica.snapshot() == one.snapshot()
            assert replica.digest() == one.digest()
            for name, key in routes:
                ids = replica.route(name, key, {})
                with suppress(LooksAtHeaders):
                    assert ids == one.route(name, key) == replica.route(name, key)
                assert ids == one.route(name, key, {})
                assert len(ids) == len(set(ids))
                assert all(one.by_id(id) is not None for id in ids)


def test_a_snapshot_keeps_bytes_and_travels() -> None:
    wiring = wired(DeclareQueue("q", {"a": b"\xff", "b": [1, {"c": None}]}, True, "amq.fanout"), exchange("e", "topic"))
    carried = msgspec.msgpack.decode(msgspec.msgpack.encode(wiring.snapshot()))
    assert Wiring.restore(carried).queue("q") == wiring.queue("q")
    assert wiring.snapshot() == carried


@pytest.mark.parametrize("snapshot", [[], [1, 2, 3], [[["q"]], [], []], [[], [], [["nowhere", "q", "", {}]]]])
def test_what_is_no_snapshot_is_refused(snapshot: list[Any]) -> None:
    with pytest.raises(LocalError, match="snapshot"):
        Wiring.restore(snapshot)


def test_a_durable_queue_is_not_lost_unless_an_operator_says_even_that():
    """Whatever a sequencer may believe: all brokers refuse it, alike."""
    wiring = Wiring()
    wiring.apply(DeclareQueue("lasting", {}, durable=True), 1)
    wiring.apply(DeclareQueue("passing", {}), 2)
    for event in (Lost("lasting#1"), Lost("lasting#1", asked=True)):
        assert not wiring.apply(event, 3).changed and wiring.queue("lasting")
    assert wiring.apply(Lost("passing#2"), 4).changed
    assert wiring.apply(Lost("lasting#1", True, even_durable=True), 5).changed and not wiring.queue("lasting")
