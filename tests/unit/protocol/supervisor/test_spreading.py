"""One host may fail: where actors begin and go, and what is said when it is not so."""

from __future__ import annotations

from collections import Counter

import pytest
from made_up_status import actors, named, plan
from mantamq.actors.supervisor.frail_hosts import critical_hosts, frail
from mantamq.protocol.status.members import AnyMember
from mantamq.protocol.supervisor.layout import (
    Node,
    astray,
    best,
    by_turns,
    emptiest,
    for_broker,
    for_ownership,
    for_sequencer,
    layout,
    uneven,
)
from msgspec.structs import replace


def node(host: str, number: int = 1) -> Node:
    return Node(f"{host}-{number}", host, {})


A, A2, B, C = node("a"), node("a", 2), node("b"), node("c")
MEMBERS = ["b1", "b2", "b3"]


def test_a_host_has_its_second_node_after_each_has_had_its_first() -> None:
    assert by_turns([A, A2, B, C]) == [A, B, C, A2]
    found = layout(MEMBERS, [A, A2, B, C])
    assert [found.brokers[broker].host for broker in MEMBERS] == ["a", "b", "c"]


@pytest.mark.parametrize("supervisor", ["a", "b", "c"])
def test_on_three_hosts_no_two_that_are_needed_to_heal_share_one(supervisor: str) -> None:
    found = layout(MEMBERS, [A, B, C], supervisor)
    assert len({found.sequencer.host, found.standby.host, supervisor}) == 3
    assert found.ownership.host not in (found.sequencer.host, supervisor)
    assert found.ownership2.host == supervisor


def test_on_two_hosts_the_sequencers_still_part_and_on_one_everything_has_its_place() -> None:
    found = layout(MEMBERS, [A, B], "a")
    assert {found.sequencer.host, found.standby.host} == {"a", "b"}
    assert {found.ownership.host, found.ownership2.host} == {"a", "b"}
    assert layout(MEMBERS, [A], "a").standby == A
    assert layout(MEMBERS, [B], "head").ownership == B


def test_what_is_shunned_last_is_put_up_with_first() -> None:
    assert best([A, B, C], ["a"], ["b"]) == C
    assert best([A, B], ["a"], ["b"]) == B
    assert best([A], ["a"]) == A


def test_who_comes_again_goes_where_it_was_unless_its_fellow_is_there() -> None:
    assert for_sequencer([A, A2, B], ["a"]) == B and for_sequencer([A], ["a"]) == A
    assert for_ownership([A, B], "b-1", ["a"]) == B and for_ownership([A, B, C], "b-1", ["b"]) == A
    assert for_broker([A, B, C], "c-1", []) == C and for_broker([A, B], "c-1", [("a-1", "a")]) == B


def test_sequencers_part_first_then_the_ownerships_then_brokers() -> None:
    pair, apart = {"x": "a", "y": "a"}, {"x": "a", "y": "b"}
    brokers = {"b1": "a", "b2": "a", "b3": "b"}
    assert astray(pair, pair, brokers, "abc", "x", "y") == ("y", "")
    assert astray(apart, pair, brokers, "abc", "x", "y") == ("x", "")
    assert astray(apart, apart, brokers, "abc", "x", "y") == ("b2", "c")
    assert astray(pair, pair, brokers, "a") is None, "there is no better place"


def test_one_more_broker_goes_to_the_host_with_the_fewest() -> None:
    assert emptiest([A, A2, B], [("a-1", "a"), ("b-1", "b"), ("b-1", "b")]) == A2
    assert emptiest([A, B], []) == A


@pytest.mark.parametrize(
    "brokers, move",
    [
        ({"b1": "a", "b2": "b", "b3": "c"}, None),
        ({"b1": "a", "b2": "a", "b3": "b"}, ("b2", "c")),
        ({"b1": "a", "b2": "a", "b3": "a"}, ("b3", "b")),
        ({"b1": "a", "b2": "a", "b3": "b", "b4": "c"}, None),  # two on one host cannot be helped
        ({"b1": "gone", "b2": "gone", "b3": "a"}, ("b2", "b")),
        ({}, None),
    ],
)
def test_who_moves_so_that_brokers_are_spread(brokers: dict[str, str], move: tuple[str, str] | None) -> None:
    assert uneven(brokers, ["a", "b", "c"]) == move


def test_moving_comes_to_an_end() -> None:
    brokers = {f"b{n}": "a" for n in range(1, 8)}
    for _ in range(10):
        if (move := uneven(brokers, "abc")) is None:
            break
        brokers[move[0]] = move[1]
    assert sorted(Counter(brokers.values()).values()) == [2, 2, 3]


def together(found: list[AnyMember], *names: str, host: str) -> None:
    for name in names:
        named(found, name).host = host


def test_a_host_with_a_majority_or_both_sequencers_is_named() -> None:
    found = actors(nodes=3)
    assert frail(plan(), found) == []
    together(found, "b1", "b2", host="10.0.0.0")
    assert frail(plan(), found) == [
        "host 10.0.0.0 may not fail now, since it carries b1 and b2, and a majority of the brokers is 2"
    ]
    together(found, "sequencer2", "sequencer3", host="10.0.0.0")
    assert frail(plan(), found)[0].endswith("it carries every sequencer (sequencer2 and sequencer3)")


def test_a_cluster_on_one_host_is_warned_of_only_where_there_were_or_are_more() -> None:
    found = actors()
    assert frail(plan(), found) == []
    assert len(frail(replace(plan(), hosts=3), found)) == 1
    assert len(frail(plan(), found, hosts=2)) == 1


def test_two_brokers_on_two_hosts_are_as_spread_as_they_can_be() -> None:
    assert frail(plan(2), actors(2, nodes=2)) == []


def test_quorum_critical_counts_hosts() -> None:
    found = actors(nodes=3)
    assert {name: a["reasons"] for name, a in critical_hosts(plan(), found).items()} == {
        "host 10.0.0.0": [], "host 10.0.0.1": [], "host 10.0.0.2": [],
    }  # fmt: skip
    together(found, "b1", "b2", host="10.0.0.0")
    answer = critical_hosts(plan(), found)["host 10.0.0.0"]
    assert answer["together"] == ["b1", "b2"] and "a majority of the brokers is 2" in answer["reasons"][0]
    assert critical_hosts(plan(), actors()) == {}
