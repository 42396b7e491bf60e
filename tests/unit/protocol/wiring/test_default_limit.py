"""The limit of queues that name none: in the declaration, and only what clients have given must agree."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.errors import EXISTS, INVALID, PeerError
from mantamq.protocol.wire.events import DeclareQueue
from mantamq.protocol.wiring.arguments import check
from mantamq.protocol.wiring.wiring import Wiring

MARK = "manta.by_default"


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ({}, {"qpid.max_size": 5000, "qpid.policy_type": "reject", MARK: ["qpid.max_size", "qpid.policy_type"]}),
        ({"mine": 1}, {"mine": 1, "qpid.max_size": 5000, "qpid.policy_type": "reject",
                       MARK: ["qpid.max_size", "qpid.policy_type"]}),
        ({"x-overflow": "drop-head"}, {"qpid.max_size": 5000, "qpid.policy_type": "ring", MARK: ["qpid.max_size"]}),
        ({"qpid.flow_stop_size": "0"}, {"qpid.flow_stop_size": 0, "qpid.max_size": 5000, "qpid.policy_type": "reject",
                                        MARK: ["qpid.max_size", "qpid.policy_type"]}),
        ({"x-max-length": "7"}, {"qpid.max_count": 7, "qpid.policy_type": "ring"}),
        ({"qpid.max_size": 9000}, {"qpid.max_size": 9000, "qpid.policy_type": "reject"}),
    ],
)  # fmt: skip
def test_who_names_no_limit_has_the_clusters(given: dict[str, Any], ordered: dict[str, Any]) -> None:
    assert check("queue", given, 5000) == ordered


def test_what_contradicts_it_is_refused_and_says_where_the_limit_comes_from() -> None:
    with pytest.raises(PeerError, match=r"above the limit of 5000: .*no limit has 5,000 bytes.*--queue-limit") as error:
        check("queue", {"qpid.flow_stop_size": 6000}, 5000)
    assert error.value.code == INVALID
    with pytest.raises(PeerError, match=r"there is no queue argument 'manta\.by_default'"):
        check("queue", {MARK: []}, 5000)


def wired(given: dict[str, Any], limit: int) -> Wiring:
    wiring = Wiring()
    assert wiring.apply(DeclareQueue("q", check("queue", given, limit)), 1).changed
    return wiring


@pytest.mark.parametrize("first", [0, 5000, 7000])
@pytest.mark.parametrize("then", [0, 5000, 7000])
@pytest.mark.parametrize("given", [{}, {"mine": 1}, {"qpid.priorities": 3}])
def test_a_cluster_goes_on_with_another_default_and_its_queues_are_the_same(
    given: dict[str, Any], first: int, then: int
) -> None:
    wiring = Wiring.restore(wired(given, first).snapshot())
    before = wiring.queues()
    outcome = wiring.apply(DeclareQueue("q", check("queue", given, then)), 2)
    assert (outcome.code, outcome.changed, wiring.queues()) == ("", False, before)


@pytest.mark.parametrize("limit", [0, 5000])
def test_what_clients_give_must_still_agree(limit: int) -> None:
    for one, other in (({}, {"qpid.max_size": 5000}), ({}, {"qpid.max_count": 1}), ({"mine": 1}, {})):
        for given, again in ((one, other), (other, one)):
            outcome = wired(given, limit).apply(DeclareQueue("q", check("queue", again, limit)), 2)
            assert outcome.code == EXISTS
