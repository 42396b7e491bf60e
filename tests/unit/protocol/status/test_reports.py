"""What each machine, and each part that is built alone, reports is its struct."""

from __future__ import annotations

from mantamq.actors.links.refusals import Refusals
from mantamq.actors.members.moves import Moves
from mantamq.actors.supervisor.losses import losses
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.capture.tap import TapMachine
from mantamq.protocol.lock.duty import Duty
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.status.cluster import LossStatus, SupervisorStatus
from mantamq.protocol.status.machines import (
    BrokerStatus,
    DutyStatus,
    OfficeStatus,
    SequencerStatus,
    StreamStatus,
    TapStatus,
)
from mantamq.protocol.status.members import MoveStatus, RefusedClientsStatus
from mantamq.protocol.supervisor.office import Commission, Office
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.wire.majority_frames import RESET, Waiting

THREE = ["b1", "b2", "b3"]


def test_machines() -> None:
    sequencer = SequencerMachine(7, THREE).report()
    assert type(sequencer) is SequencerStatus and sequencer.members == THREE and type(sequencer.duty) is DutyStatus
    broker = BrokerMachine("b1", 5, THREE).report()
    assert type(broker) is BrokerStatus and (broker.broker, broker.inc, broker.voters) == ("b1", 5, THREE)
    assert ReplicaMachine("b1.r0", "b1", 5).report() == {} == OwnershipMachine(1).report()
    assert TapMachine().report() == TapStatus(streams=0, untold=[], events=0, dropped=0)
    supervision = Supervision(Commission(2, "x", "supervisor2"), elected=False)
    assert supervision.report() == SupervisorStatus(name="supervisor2", number=2)


def test_parts() -> None:
    stream = Stream("q#1", THREE)
    assert stream.report() == StreamStatus(
        end=0, commit=0, ready=False, lag={}, blank=[], missing=THREE, voters=THREE, changing=[]
    )
    assert Duty().report(9) == DutyStatus(name="ownership", turn=0, silent_ms=0)
    assert Office().report() == OfficeStatus(name="", number=0)
    assert Refusals().report() == RefusedClientsStatus(count=0, last="")
    moves = Moves()
    moves.heard({"b1": "here:1"}, 1.0)
    moves.heard({"b1": "there:2"}, 2.0)
    assert moves.report(2.0) == {"b1": MoveStatus(before="here:1", address="there:2", at=2.0)}
    (loss,) = losses([Waiting("q#1", THREE, 2, ["b1"], ["b2"], {"b3": 7}, 9, RESET)])
    assert loss.report() == LossStatus(
        streams=["q#1"], here=["b1"], blank=["b2"], missing_ms={"b3": 7}, for_ms=9, for_good=True
    )
