"""What an import finds in a cluster already, and what the cluster would say to the rest."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.definitions.comparison import DIFFERS, NEW, UNCHANGED, Comparison, Finding, spelled
from mantamq.client.definitions.declarations import Declaration
from mantamq.client.definitions.rehearsal import Rehearsal
from mantamq.protocol.wire.events import Bind, DeclareExchange, DeclareQueue

ALONE = {"qpid.exclusive-binding": True}


def finding(one: Declaration, *there: Declaration) -> Finding:
    return Comparison(there).finding(one)


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (DeclareQueue("q", {}), DeclareQueue("q", {})),
        (DeclareQueue("q", {"x-max-length": 5}), DeclareQueue("q", {"qpid.max_count": 5, "qpid.policy_type": "ring"})),
        (DeclareQueue("q", {"qpid.max_count": "5"}), DeclareQueue("q", {"qpid.max_count": 5, "qpid.policy_type": "reject"})),
        (DeclareQueue("q", {"x-overflow": "drop-head"}), DeclareQueue("q", {"qpid.policy_type": "ring"})),
        (DeclareQueue("q", {"x-of-tomorrow": 1}), DeclareQueue("q", {"x-of-tomorrow": 1})),
        (DeclareQueue("q", {"mine": {"b": 1, "a": 2}}), DeclareQueue("q", {"mine": {"a": 2, "b": 1}})),
        (DeclareExchange("e", "topic", {"manta.internal": True}, True), DeclareExchange("e", "topic", {"manta.internal": True}, True)),
        (DeclareExchange("amq.topic", "topic", {"a": 1}), DeclareQueue("q", {})),
        (Bind("e", "q", "k", {"a": 1}), Bind("e", "q", "k", {"a": 1})),
        (Bind("e", "", "k", {}, "f"), Bind("e", "", "k", {}, "f")),
    ],
)  # fmt: skip
def test_what_is_there_is_unchanged(wanted: Declaration, there: Declaration) -> None:
    assert finding(wanted, there) == (UNCHANGED, "")


@pytest.mark.parametrize(
    ("wanted", "there", "why"),
    [
        (DeclareQueue("q", {}, True), DeclareQueue("q", {}), "there it has durable=False (not True)"),
        (DeclareQueue("q", {}), DeclareQueue("q", {}, False, "e"), "there it has alternate='e' (not '')"),
        (DeclareQueue("q", {"a": 1}), DeclareQueue("q", {"b": 2}), "there it has no a (not 1), b=2 (not without it)"),
        (DeclareQueue("q", {"a": 1}), DeclareQueue("q", {"a": True}), "there it has a=True (not 1)"),
        (
            DeclareExchange("e", "topic", {}),
            DeclareExchange("e", "fanout", {}),
            "there it has type='fanout' (not 'topic')",
        ),
        (DeclareExchange("amq.topic", "direct", {}), DeclareQueue("q", {}), "there it has type='topic' (not 'direct')"),
    ],
)
def test_what_differs_is_said(wanted: Declaration, there: Declaration, why: str) -> None:
    assert finding(wanted, there) == (DIFFERS, why)


def test_a_queue_and_an_exchange_may_share_a_name() -> None:
    assert finding(DeclareQueue("a", {}), DeclareExchange("a", "topic", {})).outcome == NEW


@pytest.mark.parametrize(
    "one",
    [Bind("e", "q", "k", {"a": 1}), Bind("e", "q", "j", {}), Bind("f", "q", "k", {}), Bind("e", "", "k", {}, "q")],
)
def test_bindings_are_told_apart_by_all_they_have(one: Bind) -> None:
    assert finding(one, Bind("e", "q", "k", {})).outcome == NEW


def test_an_exclusive_binding_takes_nobodys_place() -> None:
    there = Bind("e", "q", "k", {})
    why = "there the key is bound to q, whose place it would take"
    assert finding(Bind("e", "r", "k", ALONE), there) == (DIFFERS, why)
    assert finding(Bind("e", "r", "k", {}), DeclareExchange("e", "direct", ALONE), there) == (DIFFERS, why)
    assert finding(Bind("e", "r", "k", {}), Bind("e", "q", "k", ALONE)).outcome == NEW
    assert finding(Bind("e", "r", "other", ALONE), there).outcome == NEW
    known = Comparison([])
    known.note(there)
    assert known.finding(Bind("e", "r", "k", ALONE)).outcome == DIFFERS


def test_arguments_are_spelled_as_a_broker_orders_them() -> None:
    assert spelled("queue", {"x-max-length": "7"}) == {"qpid.max_count": 7, "qpid.policy_type": "ring"}
    assert spelled("queue", {"x-max-length": -1, "a": 1}) == {"x-max-length": -1, "a": 1}


THERE: list[Declaration] = [
    DeclareExchange("numbers", "topic", {"qpid.msg_sequence": True}),
    DeclareExchange("passing", "topic", {"manta.auto_delete": True}),
    DeclareQueue("q", {"x-of-tomorrow": 1}),
    Bind("numbers", "q", "k", {}),
]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (DeclareQueue("new", {}), ""),
        (
            DeclareQueue("new", {}, True),
            "queue 'new' cannot be durable: this cluster has no store: start it with --data",
        ),
        (DeclareQueue("new", {}, False, "none"), "there is no exchange 'none' to be the alternate"),
        (DeclareQueue("new", {}, False, "passing"), "an alternate has to stay"),
        (DeclareQueue("new", {"qpid.priorities": 99}), "give 1 to 10 levels"),
        (DeclareQueue("manta.exchange.e", {}), "names that begin with manta.exchange. are exchanges' own"),
        (DeclareExchange("new", "topic", {"qpid.ive": True}), ""),
        (DeclareExchange("new", "odd", {}), "an exchange's type is one of"),
        (DeclareExchange("amq.new", "topic", {}), "names that begin with amq. are the standard's own"),
        (Bind("numbers", "", "k", {}, "passing"), ""),
        (Bind("amq.topic", "none", "k", {}), "there is no queue 'none'"),
        (Bind("amq.headers", "q", "k", {"x-match": "most"}), "x-match is all, any"),
        (Bind("amq.topic", "q", "k", ALONE), "qpid.exclusive-binding is of direct exchanges"),
        (Bind("numbers", "", "k", {}, "numbers"), "would get back what it has sent on"),
    ],
)
def test_a_rehearsal_says_what_the_cluster_would(one: Declaration, why: str) -> None:
    found = Rehearsal(THERE, stored=False).refusal(one)
    assert why in found if why else found == ""


def test_what_was_rehearsed_is_there_for_what_follows() -> None:
    rehearsal = Rehearsal([], stored=True)
    steps: list[Any] = [
        DeclareExchange("late", "fanout", {}), DeclareExchange("e", "topic", {}, False, "late"),
        DeclareQueue("q", {}, True, "e"), Bind("e", "q", "k", {}), Bind("e", "", "k", {}, "late"),
    ]  # fmt: skip
    assert [rehearsal.refusal(one) for one in steps] == [""] * 5
    assert "there is no queue 'r'" in rehearsal.refusal(Bind("e", "r", "k", {}))
