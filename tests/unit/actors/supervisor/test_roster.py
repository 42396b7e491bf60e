"""Which brokers may join or leave, and when a change of the members is done."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_status import ORDERS, actors, alter, machine, plan, silence
from mantamq.actors.config import ClusterConfig
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.roster import may_leave
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.machines import StreamStatus
from mantamq.protocol.status.members import AnyMember
from mantamq.protocol.supervisor.change_deeds import Change
from mantamq.protocol.supervisor.changes import joined, left
from msgspec.structs import replace


def streams(found: list[AnyMember]) -> dict[str, StreamStatus]:
    return machine(found, "sequencer2").streams


def test_a_broker_may_leave_when_the_others_have_a_majority_of_everything() -> None:
    assert may_leave(plan(), actors(), "b3") == []
    assert may_leave(plan(2), actors(2), "b2") == []  # one alone is a majority of one
    assert may_leave(plan(1), actors(1), "b1") == [
        "b1 is the last broker: stop the cluster instead, with `mantamq down`"
    ]
    assert may_leave(plan(), actors(), "b9") == ["there is no broker 'b9' in this cluster: it has b1, b2, b3"]


def test_none_may_leave_while_another_is_down() -> None:
    found = actors()
    silence(found, "b2")
    [reason] = may_leave(plan(), found, "b3")
    assert reason.startswith("without b3: only b1 would be left, and a majority of the brokers is 2")
    assert may_leave(plan(), found, "b2") == []  # the one that is down may go


def test_none_may_leave_that_has_what_another_lacks() -> None:
    found = actors()
    streams(found)[ORDERS].blank = ["b2"]
    [reason] = may_leave(plan(), found, "b3")
    assert "queue orders: only b1 would be left, and a majority of the replicas is 2" in reason
    found = actors()
    streams(found)[ORDERS].ready = False
    assert "not recovered yet" in may_leave(plan(), found, "b3")[0]


def test_joined_when_it_votes_in_everything() -> None:
    found = actors(4)
    leading, newcomer = machine(found, "sequencer2"), machine(found, "b4")
    assert joined(leading, newcomer, "b4")[0]
    assert joined(None, newcomer, "b4")[1].text == "no sequencer leads"
    assert joined(leading, None, "b4")[1].text == "its process does not answer yet"
    assert joined(leading, replace(newcomer, blank=True), "b4")[1].text == "waiting for the wiring"
    done, stage = joined(leading, replace(newcomer, queues=2), "b4")  # one of which no sequencer has heard yet
    assert not done and (stage.done, stage.total) == (1, 2)


@pytest.mark.parametrize(
    "harm",
    [
        {"voters": ["b1", "b2", "b3"]},
        {"blank": ["b4"]},
        {"missing": ["b4"]},
        {"ready": False},
    ],
)
@pytest.mark.parametrize("name", ["cluster", ORDERS])
def test_not_joined_while_one_stream_lacks_it(name: str, harm: dict[str, Any]) -> None:
    found = actors(4)
    alter(streams(found)[name], **harm)
    done, stage = joined(machine(found, "sequencer2"), machine(found, "b4"), "b4")
    assert not done
    assert stage.text == ("waiting for the wiring" if name == "cluster" else "queues are brought up to date")


def test_left_when_the_wiring_has_another_majority() -> None:
    found = actors()
    leading = machine(found, "sequencer2")
    assert left(None, "b3")[1].text == "no sequencer leads"
    assert left(leading, "b3") == (False, left(leading, "b3")[1])
    streams(found)[ORDERS].voters = ["b1", "b2"]
    done, stage = left(leading, "b3")
    assert not done and (stage.done, stage.total) == (1, 2)
    streams(found)["cluster"].voters = ["b1", "b2"]
    assert left(leading, "b3")[0]
    streams(found)["cluster"].ready = False
    assert not left(leading, "b3")[0]
    del streams(found)["cluster"]
    assert not left(leading, "b3")[0]


def test_a_change_in_words() -> None:
    assert str(Change("r", "join", "b4")) == "broker b4 joins"
    assert str(Change("r", "leave", "b2")) == "broker b2 leaves"


def test_the_plan_follows_the_members() -> None:
    grown = Plan.of(3, ClusterConfig(client_port=5000)).joined_by("b4").joined_by("b4").left_by("b2")
    assert grown.members == ("b1", "b3", "b4")
    assert [grown.port(broker) for broker in grown.members] == [5000, 5002, 5003]
    assert Plan.of(3).port("b3") == 0
    with pytest.raises(LocalError, match="4 brokers' client ports cannot count up from 65533: name one of 1 to 65,532"):
        Plan.of(3, ClusterConfig(client_port=65533)).joined_by("b4")
