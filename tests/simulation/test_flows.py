"""How long flow control is on, by the beats of the sequencer that leads."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mantamq.protocol.wire import events
from mantamq.protocol.wire.log_frames import Heartbeat, Request
from msgspec.structs import replace

from .flows import Flows
from .model import Violation
from .world import World


def patience() -> int:
    """In beats."""
    timing = World(random.Random(1)).timing
    return timing.backlog_patience_ms // timing.heartbeat_ms


def switched(index: int, member: str, on: bool) -> events.Entry:
    return events.Entry((1, 1), index, "", 0, 0, events.encode_event(events.FlowControl(member, on, "behind" * on)))


def beaten(number: int, every_us: int, off_for: str = "", at: int = 0) -> None:
    """Flow control is on for b3 from the first of so many beats on. Between two of them it is off for another member, or
    for b3, and on again."""
    world = World(random.Random(1), replicas=1)
    log = {1: switched(1, "b3", True)}
    watch: Any = SimpleNamespace(logs={events.CLUSTER: log}, commits={events.CLUSTER: 1})
    flows = Flows(world, watch, lambda: 0)
    for beat in range(1, number + 1):
        world.now_us += every_us
        if beat == at:
            log.update({2: switched(2, off_for, False), 3: switched(3, off_for, True)})
            watch.commits[events.CLUSTER] = 3
        frame = SimpleNamespace(ballot=(1, 1), number=beat, sure=beat)
        flows._beaten("sequencer", cast(Heartbeat, frame))


def test_flow_control_that_is_on_for_too_many_beats_is_a_violation() -> None:
    beaten(patience() + 10, 250_000)
    with pytest.raises(Violation, match="I17: flow control is on for"):
        beaten(patience() + 20, 250_000)


def test_beats_that_are_sent_early_do_not_count() -> None:
    beaten(patience() + 20, 125_000)


def test_who_has_caught_up_between_two_beats_has_its_window_anew() -> None:
    beaten(patience() + 20, 250_000, off_for="b3", at=10)
    with pytest.raises(Violation, match="since beat 10 of"):
        beaten(patience() + 30, 250_000, off_for="b3", at=10)


def test_another_that_catches_up_gives_it_no_new_window() -> None:
    with pytest.raises(Violation, match="since beat 1 of"):
        beaten(patience() + 20, 250_000, off_for="b2", at=10)


def lifted(match: int, **more: Any) -> None:
    """A sequencer lifts flow control for b3, which holds so many of ten entries."""
    world = World(random.Random(1), replicas=1)
    world.limits = replace(world.limits, backlog_entries=10)
    flows = Flows(world, cast(Any, SimpleNamespace(logs={}, commits={})), lambda: 0)
    keeper = SimpleNamespace(match=match, kept_from=0)
    stream = SimpleNamespace(
        name="q#1", ready=True, gone=set(), held=0, commit=10, size=range(11), voters=["b3"], keepers={"b3": keeper}
    )
    backlog = SimpleNamespace(on={"b3": 0}, passed=set())
    machine = SimpleNamespace(
        backlog=backlog, order=SimpleNamespace(streams={"q#1": stream}), evictions=SimpleNamespace(absent=set())
    )
    flows._lifts("sequencer", machine)
    for name, value in more.items():
        setattr(machine.evictions if name == "absent" else backlog if name == "passed" else stream, name, value)
    backlog.on = {}
    flows._lifts("sequencer", machine)


def test_flow_control_is_lifted_for_nobody_who_is_still_behind() -> None:
    lifted(match=8)
    for more in ({}, {"keepers": {}}):
        with pytest.raises(Violation, match="I17: sequencer lifts flow control for b3"):
            lifted(match=1, **more)


def test_flow_control_is_lifted_for_who_is_given_up_or_out() -> None:
    lifted(match=1, keepers={}, passed={("q#1", "b3")})
    lifted(match=1, absent={"b3"})
    lifted(match=1, gone={"b3"})


@pytest.mark.parametrize("stopped,for_ms,free", [(True, 40, False), (True, 20_000, True), (False, 40, True)])
def test_what_goes_on_by_itself_is_free_in_the_step_in_which_flow_control_goes_off(
    stopped: bool, for_ms: int, free: bool
) -> None:
    """Messages of a deleted queue, say, wait for that, and leave in one batch, before the end of the step is seen."""
    world = World(random.Random(1), replicas=1)
    flows = Flows(world, cast(Any, SimpleNamespace(logs={}, commits={})), lambda: 0)
    flows._stopped_ms["b1"] = 0
    world.now_us = for_ms * 1000
    world.machines["b1"] = cast(Any, SimpleNamespace(wiring=SimpleNamespace(flow=SimpleNamespace(stopped=stopped))))
    letter = events.encode_event(events.Enqueue("q#1@1", [1, 1], [b"dead"]))
    flows._goes_on("b1", "sequencer", Request("b1", 1, 1, [("dead#2", letter)]))
    assert flows._freely == {("b1", 1, 1): free}
