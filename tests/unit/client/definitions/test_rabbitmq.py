"""RabbitMQ's definitions file: a real one of RabbitMQ 3.10.8, trimmed of hashes of passwords; and odd ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mantamq.client.definitions.declarations import LeftOut, Reading, name_of, what_of
from mantamq.client.definitions.rabbitmq import read_rabbitmq
from mantamq.client.definitions.reading import read_file
from mantamq.client.errors import Invalid
from mantamq.protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from mantamq.protocol.wire.policy_events import PutPolicy

FILE = (Path(__file__).parent / "rabbitmq.json").read_bytes()


def said_of(reading: Reading) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(what_of(one), name_of(one)): remarks for one, remarks in reading.wanted}


def test_a_real_file_comes_to_what_means_the_same_here() -> None:
    reading = read_file(FILE)
    declared = reading.declarations
    assert [one for one in declared if isinstance(one, DeclareExchange)] == [
        DeclareExchange("sessions", "direct", {"manta.auto_delete": True}, False, ""),
        DeclareExchange("regions", "headers", {}, True, ""),
        DeclareExchange("dead", "topic", {}, True, ""),
        DeclareExchange("unrouted", "fanout", {}, True, ""),
        DeclareExchange("orders", "topic", {}, True, "unrouted"),
    ]
    new = {
        "team": "sales", "x-dead-letter-routing-key": "orders.failed", "x-max-length": 100000,
        "x-overflow": "reject-publish",
    }  # fmt: skip
    assert [one for one in declared if isinstance(one, DeclareQueue)] == [
        DeclareQueue("prices", {"x-max-length-bytes": 1048576}, True, ""),
        DeclareQueue("orders.eu", {"x-delivery-limit": 5}, True, ""),
        DeclareQueue("kept", {"manta.auto_delete": True}, False, ""),
        DeclareQueue("orders.urgent", {"x-max-priority": 5}, True, ""),
        DeclareQueue("lazy", {"x-expires": 3600000}, True, ""),
        DeclareQueue("unrouted", {}, True, ""),
        DeclareQueue("orders.new", new, True, "dead"),
        DeclareQueue("workers", {"x-single-active-consumer": True}, True, ""),
        DeclareQueue("shard.1", {}, True, ""),
        DeclareQueue("orders.failed", {"x-message-ttl": 86400000}, True, ""),
    ]
    assert [one for one in declared if isinstance(one, Bind)] == [
        Bind("amq.topic", "prices", "prices.#", {}, ""),
        Bind("dead", "orders.failed", "orders.failed", {}, ""),
        Bind("orders", "", "#", {}, "audit"),
        Bind("orders", "orders.urgent", "order.*.urgent", {}, ""),
        Bind("orders", "orders.new", "order.new.#", {}, ""),
        Bind("regions", "orders.eu", "", {"region": "eu", "vat": 20, "x-match": "any"}, ""),
        Bind("sessions", "kept", "s1", {}, ""),
        Bind("unrouted", "unrouted", "", {}, ""),
    ]


def test_nothing_of_a_real_file_is_dropped_without_a_word() -> None:
    reading = read_file(FILE)
    assert {key: remarks for key, remarks in said_of(reading).items() if remarks} == {
        ("queue", "orders.eu"): ("x-queue-type='quorum': every queue is replicated here",),
        ("queue", "lazy"): (
            "x-dead-letter-exchange='': the default exchange is nobody's alternate here",
            "x-queue-mode='lazy': messages stay in memory here",
            "x-dead-letter-routing-key='orders.failed': there is no alternate exchange to which it leads",
        ),
        ("queue", "workers"): ("x-queue-type='classic': every queue is replicated here",),
        ("binding", "orders -> audit (#)"): (
            "exchange 'audit' is not in the file, as internal ones are in those of rabbitmqctl: declare it",
        ),
    }
    assert reading.left_out == [
        LeftOut(
            "exchange", "shards", "its type is x-consistent-hash, and here they are direct, topic, fanout, headers"
        ),
        LeftOut("queue", "history", "its type is stream, and here they are as classic and quorum"),
        LeftOut("binding", "audit -> history", "queue 'history' is not taken over"),
        LeftOut("binding", "shards -> shard.1 (10)", "exchange 'shards' is not taken over"),
    ]
    assert reading.passed_over == {
        "parameters": 1, "permissions": 2, "topic_permissions": 1, "users": 2,
        "queues of virtual host staging": 1,
    }  # fmt: skip


def test_policies() -> None:
    def policy(name: str, definition: Any, **more: Any) -> dict[str, Any]:
        return {"name": name, "pattern": "^q", "definition": definition, "priority": 1, **more}

    reading = of(
        exchanges=[{"name": "dead", "type": "fanout", "durable": True}],
        policies=[
            policy("limit", {"max-length": 10, "ha-mode": "all"}),
            policy("dead", {"max-length": 10, "dead-letter-exchange": "dead", "delivery-limit": 3}),
            policy("exchanges", {"alternate-exchange": "dead"}, **{"apply-to": "exchanges"}),
            policy("ahead", {"max-length": 10}) | {"pattern": "(?=q)"},
            policy("bare", []),
        ],
    )
    wanted = [one for one in reading.wanted if isinstance(one.declaration, PutPolicy)]
    assert [one.declaration for one in wanted] == [
        PutPolicy("limit", "^q", {"qpid.max_count": 10, "qpid.policy_type": "ring"}, 1),
        PutPolicy(
            "dead", "^q", {"qpid.max_count": 10, "qpid.policy_type": "dead-letter", "manta.delivery_limit": 3}, 1, False,
            "dead",
        ),
    ]  # fmt: skip
    assert wanted[0].remarks == ("ha-mode='all': it means nothing here",)
    assert {one.name: one.why.partition(":")[0] for one in reading.left_out} == {
        "exchanges": "it is applied to exchanges, and here policies are of queues",
        "ahead": "pattern '(?=q)', character 2",
        "bare": "nothing of it means the same here",
    }


def test_one_virtual_host_is_taken_at_a_time() -> None:
    reading = read_file(FILE, "staging")
    assert reading.declarations == [DeclareQueue("elsewhere", {}, True, "")]
    assert reading.passed_over["bindings of virtual host /"] == 10
    with pytest.raises(Invalid, match=r"no virtual host 'prod' in this file: choose with --vhost among /, staging"):
        read_file(FILE, "prod")


def of(**lists: list[dict[str, Any]]) -> Reading:
    """A file with these objects, which name no virtual host, as in the export of a single one."""
    return read_rabbitmq({"rabbit_version": "4.0.5", **lists}, "/")


def queue(**arguments: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {"name": "q", "durable": True, "auto_delete": False, "arguments": named}


@pytest.mark.parametrize(
    ("given", "kept", "said"),
    [
        ({"x_max_length": 0}, {}, "queue argument 'x-max-length' is 0: give a number of messages, at least 1"),
        ({"x_overflow": "drop-head"}, {}, "x-overflow='drop-head': without a limit nothing happens at it"),
        ({"x_max_length": 5, "x_overflow": "reject-publish-dlx"}, {"x-max-length": 5}, "'reject-publish-dlx'"),
        ({"x_unheard_of": [1]}, {}, "x-unheard-of=[1]: it means nothing here"),
        ({"x_max_priority": 0}, {}, "'x-max-priority' is 0"),
    ],
)
def test_an_argument_that_means_nothing_here_is_said(given: Any, kept: Any, said: str) -> None:
    ((one, remarks),) = of(queues=[queue(**given)]).wanted
    assert one == DeclareQueue("q", kept, True, "") and len(remarks) == 1 and said in remarks[0]


def test_the_type_of_a_queue_is_an_argument_or_a_field() -> None:
    assert of(queues=[queue() | {"type": "quorum"}]).left_out == []
    for one in (queue() | {"type": "stream"}, queue(x_queue_type="stream"), queue() | {"type": "MQTT-QoS-0"}):
        assert [left.name for left in of(queues=[one]).left_out] == ["q"]


def test_arguments_that_contradict_each_other_leave_a_queue_out() -> None:
    reading = of(queues=[queue(x_max_priority=3, x_max_length=5, x_overflow="drop-head") | {"name": "fine"},
                         {**queue(x_max_priority=3), "arguments": {"x-max-priority": 3, "qpid.group_header_key": "g"}}])  # fmt: skip
    assert [name_of(one) for one in reading.declarations] == ["fine"]
    assert [(left.name, "not two of them" in left.why) for left in reading.left_out] == [("q", True)]


def exchange(name: str, type: str = "topic", alternate: str | None = None, **flags: bool) -> dict[str, Any]:
    arguments = {} if alternate is None else {"alternate-exchange": alternate}
    return {"name": name, "type": type, "durable": True, "arguments": arguments, **flags}


def test_what_both_have_from_the_beginning_is_passed_over() -> None:
    names = ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"]
    binding = {"source": "", "destination": "q", "destination_type": "queue", "routing_key": "q", "arguments": {}}
    reading = of(exchanges=[exchange(name) for name in names], queues=[queue()], bindings=[binding])
    assert reading.declarations == [DeclareQueue("q", {}, True, "")] and reading.left_out == []
    reading = of(exchanges=[exchange("amq.rabbitmq.trace")], bindings=[binding | {"source": "amq.rabbitmq.log"}])
    assert [(left.what, left.name) for left in reading.left_out] == [
        ("exchange", "amq.rabbitmq.trace"), ("binding", "amq.rabbitmq.log -> q (q)"),
    ]  # fmt: skip


def test_an_exchange_keeps_its_flags_and_its_alternate_if_that_comes() -> None:
    reading = of(exchanges=[
        exchange("a", alternate="late", internal=True), exchange("b", alternate="odd"), exchange("odd", "x-random"),
        exchange("c", alternate=""), exchange("late", "fanout", auto_delete=True),
    ])  # fmt: skip
    assert reading.declarations == [
        DeclareExchange("late", "fanout", {"manta.auto_delete": True}, True, ""),
        DeclareExchange("a", "topic", {"manta.internal": True}, True, "late"),
        DeclareExchange("b", "topic", {}, True, ""),
        DeclareExchange("c", "topic", {}, True, ""),
    ]
    assert said_of(reading)["exchange", "b"] == ("alternate-exchange='odd': that exchange is not taken over",)
    assert said_of(reading)["exchange", "c"] == (
        "alternate-exchange='': the default exchange is nobody's alternate here",
    )
    reading = of(exchanges=[exchange("odd", "x-random")], queues=[queue(x_dead_letter_exchange="odd")])
    assert said_of(reading)["queue", "q"] == ("x-dead-letter-exchange='odd': that exchange is not taken over",)


def test_what_a_limit_pushes_out_goes_to_the_alternate_where_there_is_one() -> None:
    reading = of(exchanges=[exchange("dead")], queues=[
        queue(x_dead_letter_exchange="dead", x_max_length=5) | {"name": "a"},
        queue(x_dead_letter_exchange="dead", x_max_length=5, x_overflow="drop-head") | {"name": "b"},
        queue(x_dead_letter_exchange="dead", x_max_length=5, x_overflow="reject-publish") | {"name": "c"},
        queue(x_max_length=5, x_overflow="drop-head") | {"name": "d"},
    ])  # fmt: skip
    dead = {"x-max-length": 5, "qpid.policy_type": "dead-letter"}
    assert {one.name: one.arguments for one in reading.declarations if isinstance(one, DeclareQueue)} == {
        "a": dead, "b": dead, "c": {"x-max-length": 5, "x-overflow": "reject-publish"},
        "d": {"x-max-length": 5, "x-overflow": "drop-head"},
    }  # fmt: skip
    assert said_of(reading)["queue", "a"] == (
        "x-dead-letter-exchange='dead': dead letters go there by the queue's name as their key, not by their own",
    )


def test_how_long_what_comes_back_waits() -> None:
    times = {"x_delayed_retry_min": 5000, "x_delayed_retry_max": 9000}
    reading = of(queues=[
        queue(**times, x_delayed_retry_type="failed") | {"name": "a"},
        queue(**times, x_delayed_retry_type="all") | {"name": "b"},
        queue(**times, x_delayed_retry_type="returned") | {"name": "c"},
        queue(**times) | {"name": "d"},
    ])  # fmt: skip
    kept = {"x-delayed-retry-min": 5000, "x-delayed-retry-max": 9000}
    assert {one.name: one.arguments for one in reading.declarations if isinstance(one, DeclareQueue)} == {
        "a": kept | {"x-delayed-retry-type": "failed"}, "b": kept, "c": {}, "d": {},
    }  # fmt: skip
    said = said_of(reading)
    assert ("queue", "a") not in said or not said["queue", "a"]
    assert "give failed" in said["queue", "b"][0]
    assert said["queue", "d"] == tuple(
        f"{name}={value}: nothing waits, with x-delayed-retry-type='disabled'" for name, value in kept.items()
    )
    assert len(said["queue", "c"]) == 3


def test_a_ring_of_alternates_is_opened_and_said() -> None:
    reading = of(exchanges=[exchange("a", alternate="b"), exchange("b", alternate="a"), exchange("c", alternate="c")])
    assert [(one.name, one.alternate) for one in reading.declarations] == [("b", ""), ("a", "b"), ("c", "")]  # type: ignore[union-attr]
    assert said_of(reading)["exchange", "b"] == ("alternate-exchange='a': a ring of alternates, a -> b -> a",)
    assert said_of(reading)["exchange", "c"] == ("alternate-exchange='c': a ring of alternates, c -> c",)


def test_headers_that_begin_with_x_stay_where_they_are_looked_at() -> None:
    binding = {"source": "amq.headers", "destination": "q", "destination_type": "queue", "routing_key": ""}
    arguments = {"x-match": "all-with-x", "x-a": 1}
    reading = of(queues=[queue()], bindings=[
        binding | {"arguments": arguments}, binding | {"arguments": {"x-match": "all", "x-a": 1}},
    ])  # fmt: skip
    assert [(one.declaration.arguments, one.remarks) for one in reading.wanted[1:]] == [
        (arguments, ()), ({"x-match": "all"}, ("x-a=1: it means nothing here",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"queues": [queue(), queue()]}, "queues[1]: queue 'q' stands at queues[0] already"),
        ({"queues": [{"name": "q", "durable": 1}]}, "queues[0].durable is 1: give true or false"),
        ({"queues": [queue(x_dead_letter_exchange=5)]}, "queues[0].arguments.x-dead-letter-exchange is 5: give a text"),
        ({"queues": [queue(mine=2**64)]}, "queues[0].arguments.mine is 18446744073709551616"),
        ({"queues": "none"}, 'queues is "none": give a list of objects'),
        ({"exchanges": [{"name": "e"}]}, "exchanges[0].type is missing: give a text"),
        ({"bindings": [{"source": "e", "destination": "q"}]}, "bindings[0].destination_type is missing"),
        ({"bindings": [{"source": "e", "destination": "q", "destination_type": "file"}]}, "is 'file': give queue or"),
        ({"vhosts": ["/"]}, 'vhosts[0] is "/": give an object'),
    ],
)
def test_what_cannot_be_read_says_where(lists: Any, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        of(**lists)
    assert said in refused.value.text


def test_arguments_as_an_empty_list_are_none_as_older_ones_write_it() -> None:
    assert of(queues=[queue() | {"arguments": []}]).declarations == [DeclareQueue("q", {}, True, "")]


def test_a_users_map_that_looks_like_ours_stays_as_it_is() -> None:
    ((one, _),) = of(queues=[queue(mine={"$bytes": "AA=="})]).wanted
    assert one.arguments == {"mine": {"$bytes": "AA=="}}


def test_the_file_is_one_that_rabbitmqctl_has_written() -> None:
    assert json.loads(FILE)["rabbitmq_version"] == "3.10.8"
