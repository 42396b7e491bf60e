"""How long flow control is on, by the beats of the sequencer that leads."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mantamq.protocol.wire import events
from mantamq.protocol.wire.log_frames import Heartbeat

from .flows import Flows
from .model import Violation
from .world import World


def patience() -> int:
    """In beats."""
    timing = World(random.Random(1)).timing
    return timing.backlog_patience_ms // timing.heartbeat_ms


def beaten(number: int, every_us: int) -> None:
    """Flow control is on for b3 from the first of so many beats on."""
    world = World(random.Random(1), replicas=1)
    log = {1: events.Entry((1, 1), 1, "", 0, 0, events.encode_event(events.FlowControl("b3", True, "behind")))}
    watch: Any = SimpleNamespace(logs={events.CLUSTER: log}, commits={events.CLUSTER: 1})
    flows = Flows(world, watch, lambda: 0)
    for beat in range(1, number + 1):
        world.now_us += every_us
        frame = SimpleNamespace(ballot=(1, 1), number=beat, sure=beat)
        flows._beaten("sequencer", cast(Heartbeat, frame))


def test_flow_control_that_is_on_for_too_many_beats_is_a_violation() -> None:
    beaten(patience() + 10, 250_000)
    with pytest.raises(Violation, match="I17: flow control is on for"):
        beaten(patience() + 20, 250_000)


def test_beats_that_are_sent_early_do_not_count() -> None:
    beaten(patience() + 20, 125_000)
