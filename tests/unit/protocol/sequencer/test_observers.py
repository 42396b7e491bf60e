"""Who watches a sequencer is told of what it orders of its own accord, and of nothing that was asked for."""

from __future__ import annotations

from mantamq.protocol.lock.duty import Duty
from mantamq.protocol.machine import OWNERSHIP, OWNERSHIP2
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.observers import SequencerObserver
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import CLUSTER, AnyEvent, DeclareQueue, Evict, Start, decode_event, encode_event
from mantamq.protocol.wire.log_frames import Request


class Seen(SequencerObserver):
    def __init__(self) -> None:
        self.events: list[tuple[str, AnyEvent | None]] = []

    def ordered(self, stream: str, event: bytes) -> None:
        self.events.append((stream, decode_event(event)))


def test_its_own_events_are_told_and_not_those_of_others():
    seen = Seen()
    machine = SequencerMachine(9, ["b1"], observers=[seen])
    machine.request("b1", Request("b1", 1, 1, [(CLUSTER, encode_event(DeclareQueue("q", {})))]))
    assert seen.events == [(CLUSTER, Start((1, 9)))]
    machine.keepers.evict("b1")
    assert [type(event) for _, event in seen.events] == [Start, Evict]


def test_another_ownership_on_duty_is_told_once():
    told: list[tuple[str, str, int]] = []
    duty = Duty(DEFAULT_TIMING, [lambda *passed: told.append(passed)])
    duty.answered(OWNERSHIP, 1000)
    late_ms = 1001 + DEFAULT_TIMING.suspect_ms
    duty.answered(OWNERSHIP2, late_ms)
    duty.look(late_ms)
    duty.look(late_ms)
    assert told == [(OWNERSHIP, OWNERSHIP2, 1 + DEFAULT_TIMING.suspect_ms)]
