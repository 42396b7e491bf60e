"""Who supervises the cluster: what a sequencer hears of it, and tells Ownership; and whether it may be ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..machine import is_ownership
from ..supervisor.office import Commission
from ..wire.frame import Frame
from ..wire.log_frames import Supervised
from .election import LEADING

if TYPE_CHECKING:
    from .machine import SequencerMachine


class Mandate:
    """Of one sequencer."""

    def __init__(self, machine: SequencerMachine) -> None:
        self.machine = machine

    def needed(self, now_ms: int) -> str:
        """Why this sequencer may not end, whatever somebody who was cut off believes of it; "" if it may."""
        machine = self.machine
        leads = machine.deposed is None and machine.election.role == LEADING and machine.detector.followed(now_ms)
        return "it leads, and a majority of the brokers follows it" if leads else ""

    def supervised(self, frame: Supervised) -> None:
        """A broker says who supervises; Ownership hears it from here."""
        machine = self.machine
        if machine.office.learns(Commission(frame.number, frame.id, frame.name), machine.now_ms):
            for peer in machine.linked:
                if is_ownership(peer):
                    machine.send(peer, frame)


CHARGES: dict[type[Frame], Callable[[SequencerMachine, str, Any], None]] = {
    Supervised: lambda machine, peer, frame: machine.mandate.supervised(frame),
}
