"""Which processes are replaced at the same time, and where: on nodes that answer."""

from __future__ import annotations

from mantamq.actors.supervisor.reach import FRESH_S, TRIFLE_S, Reach
from mantamq.protocol.supervisor.layout import Node
from mantamq.protocol.supervisor.turns import Turns

H1, H2, H3 = (Node(f"n{number}", f"10.0.0.{number}", {}) for number in (1, 2, 3))


def waiting(*names: str) -> Turns:
    turns = Turns()
    for name in names:
        turns.add(name)
    return turns


def test_what_a_host_carried_is_replaced_at_once_and_not_one_by_one() -> None:
    turns = waiting("events", "b2", "ownership", "sequencer", "b3")
    assert turns.take() == ["sequencer", "ownership", "b2", "b3", "events"]
    assert turns.take() == [] and "b2" in turns and turns.due()


def test_a_broker_and_its_replicas_take_turns_and_so_do_sequencers() -> None:
    turns = waiting("b1.r0", "b1", "b1.r1", "sequencer", "sequencer2", "b2.r0")
    assert turns.take() == ["sequencer", "b1", "b2.r0"]
    turns.drop("b1.r0")  # it has gone with its broker
    turns.done("sequencer")
    assert turns.take() == ["sequencer2"]
    turns.done("b1")
    assert turns.take() == ["b1.r1"]


def test_who_failed_waits_for_the_next_round() -> None:
    turns = waiting("b1")
    assert turns.take() == ["b1"]
    turns.add("b1")  # once more
    turns.done("b1")
    turns.add("b2")
    assert turns.take(but={"b1"}) == ["b2"] and turns.names() == ["b1", "b2"]
    assert turns.take() == ["b1"]
    for name in ("b1", "b2"):
        turns.done(name)
    assert not turns.due() and turns.names() == []


class Nodes:
    """Ray's nodes, of which some run what they are given."""

    def __init__(self, *answering: str) -> None:
        self.answering = set(answering)
        self.asked: list[list[str]] = []
        self.now = 100.0
        self.reach = Reach(self.ask, lambda: self.now)

    def ask(self, nodes: list[str], timeout_s: float) -> set[str]:
        self.asked.append(nodes)
        assert timeout_s == TRIFLE_S
        return self.answering & set(nodes)


async def test_nothing_goes_to_a_host_that_does_not_answer() -> None:
    nodes = Nodes("n1", "n3")
    assert await nodes.reach.among([H1, H2, H3]) == [H1, H3]
    assert nodes.asked == [["n1", "n2", "n3"]]


async def test_a_node_with_an_actor_that_has_just_answered_is_not_asked() -> None:
    nodes = Nodes()
    nodes.reach.heard("n1")
    nodes.reach.heard("n2")
    assert await nodes.reach.among([H1, H2]) == [H1, H2] and nodes.asked == []
    nodes.now += FRESH_S
    nodes.reach.heard("n1")
    assert await nodes.reach.among([H1, H2]) == [H1] and nodes.asked == [["n2"]]


async def test_when_nobody_answers_ray_is_believed() -> None:
    assert await Nodes().reach.among([H1, H2]) == [H1, H2]
