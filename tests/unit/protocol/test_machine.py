"""Of every machine: effects that were handed out stay as they were."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.machine import Flush, PeerUp, Received, Tick
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.wire.log_frames import Heartbeat


@pytest.mark.parametrize(
    "machine",
    [
        SequencerMachine(1, ["b1", "b2", "b3"]),
        BrokerMachine("b1", 1, ["b1", "b2", "b3"]),
        ReplicaMachine("b1.r0", "b1", 1),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_what_a_step_has_said_stays_as_it_was(machine: Any):
    nothing = machine.step(Tick(1))
    assert nothing == []
    newer, older = Heartbeat((9, 9), 1, 1), Heartbeat((8, 8), 1, 1)
    said = [machine.step(Received(peer, beat)) for peer, beat in (("sequencer", newer), ("sequencer2", older))]
    said += [machine.step(PeerUp("b1")), machine.step(Flush())]
    assert any(said)
    assert nothing == [], "a list that was handed out is the caller's"
