"""x-match all-with-x and any-with-x, as RabbitMQ has them: headers that begin with x- take part."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.wiring.definitions import Binding, ExchangeDefinition
from mantamq.protocol.wiring.exchanges import Exchange

from tests.unit.cluster_in_memory import MemoryCluster


def found(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    exchange = Exchange(ExchangeDefinition("h", "headers", {}))
    exchange.bind(Binding("h", "q", "", arguments))
    return bool(exchange.bound("", headers))


@pytest.mark.parametrize(
    ("match", "headers", "goes"),
    [
        ("all-with-x", {"x-from": "a", "n": 1}, True),
        ("all-with-x", {"x-from": "b", "n": 1}, False),
        ("all-with-x", {"n": 1}, False),
        ("all", {"n": 1}, True),
        ("any-with-x", {"x-from": "a"}, True),
        ("any-with-x", {"x-from": "b", "n": 2}, False),
        ("any", {"x-from": "a"}, False),
    ],
)
def test_headers_that_begin_with_x_take_part_where_it_is_asked_for(match: str, headers: dict[str, Any], goes: bool):
    assert found({"x-match": match, "x-from": "a", "n": 1}, headers) is goes


def test_x_match_itself_takes_no_part_and_a_name_that_only_begins_so_does():
    assert found({"x-match": "all-with-x"}, {}) and not found({"x-match": "any-with-x"}, {"x-match": "any-with-x"})
    assert not found({"x-match": "all-with-x", "x-matched": 1}, {})


def test_they_are_refused_elsewhere_as_they_were():
    client = MemoryCluster().client("b1")
    client.command("declare_queue", name="q")

    def code(**arguments: Any) -> tuple[str, str]:
        reply = client.command("bind", exchange="amq.match", queue="q", arguments=arguments)
        return reply.code, reply.text

    assert code(**{"x-match": "all-with-x", "x-from": "a"}) == ("", "")
    assert code(**{"x-match": "all", "x-from": "a"})[0] == "invalid"
    assert code(**{"x-match": "all-with-x", "qpid.from": "a"})[0] == "invalid"


@pytest.mark.parametrize(
    ("value", "meant"), [("all-with", "all-with-x"), ("anny", "any"), ("any_with_x", "any-with-x")]
)
def test_what_x_match_does_not_take_is_refused_with_the_nearest_that_it_does(value: str, meant: str):
    client = MemoryCluster().client("b1")
    client.command("declare_queue", name="q")
    refused = client.command("bind", exchange="amq.match", queue="q", arguments={"x-match": value})
    assert refused.code == "invalid" and refused.text.endswith(f"not {value!r}: did you mean {meant!r}?")


def test_it_is_refused_while_a_member_would_refuse_it():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    client.command("declare_queue", name="q")
    cluster.machines["b1"].cluster.versions.least = 7
    wanted = {"x-match": "any-with-x", "x-from": "a"}
    refused = client.command("bind", exchange="amq.match", queue="q", arguments=wanted)
    assert refused.code == "unavailable" and "a member of the cluster is of an older version" in refused.text
    assert client.command("bind", exchange="amq.match", queue="q", arguments={"x-match": "any", "n": 1}).code == ""
