"""What a supervisor does when a broker joins or leaves, step by step, and what the next one takes up."""

from __future__ import annotations

import pytest
from made_up_status import broker, sequencer, stream
from mantamq.protocol.status.machines import SequencerStatus
from mantamq.protocol.supervisor.change_deeds import (
    JOIN,
    LEAVE,
    Begin,
    BrokerDrained,
    Change,
    DismissBroker,
    Dismissed,
    DrainBroker,
    Fell,
    ForgetBroker,
    Forgotten,
    Hide,
    Introduce,
    Looked,
    Refuse,
    Resumed,
    Return,
    StartBroker,
    Started,
    Tell,
    Told,
    Undo,
    Undone,
)
from mantamq.protocol.supervisor.changes import ENDED_KEPT, Changes
from mantamq.protocol.supervisor.rebalance import DONE, WAIT, Rebalance, onwards
from mantamq.protocol.supervisor.rebalance import LEAVE as GO
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import CLUSTER

JOINS, LEAVES = Change("r1", JOIN, "b4", "n4"), Change("r2", LEAVE, "b4")


def leading(*voters: str) -> SequencerStatus:
    one = stream(list(voters))
    return sequencer(list(voters), streams={CLUSTER: one, "q#1": one})


def looked(voters: str = "b1 b2 b3", known: bool = True, serving: bool = False, inc: int = 4) -> Looked:
    report = broker(voters.split(), "b4") if known else None
    return Looked(leading(*voters.split()), report, known, known, serving, inc)


def begun(change: Change) -> Changes:
    machine = Changes()
    assert machine.step(Begin(change)) == [Tell()]
    assert machine.step(Told(True)) == []
    return machine


def test_a_newcomer_begins_when_a_majority_knows_its_processes() -> None:
    machine = Changes()
    assert machine.step(Begin(JOINS)) == [Tell()]
    machine.step(Told(False))
    assert machine.step(looked(known=False)) == [Tell()] and "majority" in machine.under_way()
    machine.step(Told(True))
    assert machine.step(looked(known=False)) == [StartBroker("b4", "n4")]
    assert machine.step(Started()) == [Tell()]
    assert machine.step(Told(False)) == []
    assert machine.step(looked()) == [Tell()], "it does not begin yet"
    assert machine.step(Told(True)) == [Introduce("b4")]
    assert machine.step(looked()) == [] and machine.stage.text == "waiting for the wiring"
    assert machine.step(looked("b1 b2 b3 b4")) == [], "clients do not know it yet"
    assert machine.step(looked("b1 b2 b3 b4", serving=True)) == [Tell()]
    assert machine.ended == {"r1": ("b4", "")} and machine.change is None


def test_a_newcomer_that_does_not_start_is_undone_and_asked_again_nothing_begins() -> None:
    machine = begun(JOINS)
    machine.step(looked(known=False))
    assert machine.step(Started("no host")) == [Undo("b4")]
    assert machine.step(looked(known=True)) == [Undo("b4")], "not done the first time"
    assert machine.step(Undone()) == [Tell()]
    broker, why = machine.ended["r1"]
    assert broker == "b4" and why.endswith("the cluster is as it was: no host")
    assert machine.step(Begin(JOINS)) == []


def test_one_change_at_a_time_but_a_newcomer_that_has_begun_may_go_again() -> None:
    machine = begun(JOINS)
    (refused,) = machine.step(Begin(Change("r2", LEAVE, "b2"), True))
    assert type(refused) is Refuse and "members change one at a time" in refused.why
    assert type(machine.step(Begin(LEAVES, False))[0]) is Refuse
    assert machine.step(Begin(LEAVES, True)) == [Tell()]
    assert machine.change == LEAVES and "was removed" in machine.ended["r1"][1]


def test_who_leaves_is_forgotten_when_the_others_say_in_order_that_it_is_out() -> None:
    machine = begun(LEAVES)
    assert machine.step(looked("b1 b2 b3 b4", serving=True)) == [Hide("b4"), DrainBroker("b4")]
    machine.step(BrokerDrained(4))
    assert machine.step(looked("b1 b2 b3 b4")) == []
    assert machine.step(looked("b1 b2 b3 b4", inc=5)) == [DrainBroker("b4")], (
        "another process of it, which does not know"
    )
    assert machine.step(looked("b1 b2 b3")) == [DismissBroker("b4")]
    assert machine.step(Dismissed(False)) == []
    assert machine.step(Dismissed(True)) == [ForgetBroker("b4")]
    assert machine.step(Forgotten()) == [Tell()] and machine.ended["r2"] == ("b4", "")


@pytest.mark.parametrize("spared", [True, False])
def test_who_dies_while_it_leaves_comes_back_only_if_it_is_needed(spared: bool) -> None:
    machine = begun(LEAVES)
    assert machine.step(Fell(leading("b1", "b4"), spared)) == ([] if spared else [Return("b4")])
    assert machine.step(looked("b1 b4")) == ([DismissBroker("b4")] if spared else [DrainBroker("b4")])
    assert machine.step(Fell(leading("b1"), False)) == []


def test_the_next_supervisor_goes_on_wherever_it_stood() -> None:
    machine = Changes()
    machine.step(Resumed(JOINS, {"r0": ("b3", "")}))
    assert machine.known("r0") and machine.known("r1") and "a new supervisor goes on with it" in machine.under_way()
    assert machine.step(looked()) == [Tell()], "a majority is to know that this one goes on"
    machine.step(Told(True))
    assert machine.step(looked(known=False)) == [StartBroker("b4", "n4")]
    assert machine.step(looked("b1 b2 b3 b4", serving=True)) == [Tell()]


def test_old_ends_are_forgotten() -> None:
    machine = Changes()
    for number in range(ENDED_KEPT + 5):
        machine.step(Begin(Change(str(number), LEAVE, "b4")))
        machine.step(Forgotten())
    assert len(machine.ended) == ENDED_KEPT and not machine.known("0")


def test_what_is_astray_is_moved_when_all_has_been_whole_for_a_while_or_at_once_when_asked_for() -> None:
    one = Rebalance()
    assert not one.ripe(1000, True, True) and not one.ripe(1000 + DEFAULT_TIMING.settled_ms - 1, True, True)
    assert not one.ripe(1000 + DEFAULT_TIMING.settled_ms, True, False), "something is missing: from the beginning"
    assert not one.ripe(2000 + DEFAULT_TIMING.settled_ms, True, True) and one.ripe(
        2000 + 2 * DEFAULT_TIMING.settled_ms, True, True
    )
    assert one.ripe(1, True, True, wanted=True) and not one.ripe(1, False, True, wanted=True)


def test_who_moves_leaves_when_another_has_joined() -> None:
    moving, before, after = ("b2", 3), ["b1", "b2", "b3"], ["b1", "b2", "b3", "b4"]
    assert onwards(moving, after, True, True) == WAIT and onwards(moving, after, False, False) == WAIT
    assert onwards(moving, after, False, True) == GO
    assert onwards(moving, before, False, True) == DONE, "nobody came"
    assert onwards(moving, ["b1", "b3", "b4"], False, False) == DONE
