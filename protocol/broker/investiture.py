"""A broker's part in who supervises the cluster: it answers who asks for the office, has the number of the one that a
majority takes ordered, and tells the sequencers and its replicas (`supervisor/office.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..machine import Supervises
from ..supervisor.office import Commission
from ..wire.events import Supervise
from ..wire.log_frames import Supervised

if TYPE_CHECKING:
    from .machine import BrokerMachine


class Investiture:
    """Of one broker."""

    def __init__(self, machine: BrokerMachine) -> None:
        self.machine = machine
        self._ordering = 0  # the supervisor's number that we have asked to have ordered

    def asked(self, input: Supervises) -> None:
        """A supervisor asks whether it is the one, or wants to be."""
        machine, office = self.machine, self.machine.office
        one, before = Commission(input.number, input.id, input.name), office.holder
        if not input.elected:
            office.stands(one, machine.now_ms)
        elif office.confirms(one, machine.now_ms):
            if one.number > max(machine.wiring.supervisor.number, self._ordering):
                self._ordering = one.number
                machine.wiring_request(Supervise(*one), lambda outcome: None)
        if office.holder[:2] != before[:2]:
            self.tell([*machine.view.linked, *machine.placement.replicas])

    def tell(self, peers: list[str]) -> None:
        if self.machine.office.holder.number:
            for peer in peers:
                self.machine.send(peer, Supervised(*self.machine.office.holder))

    def ordered(self) -> None:
        """The cluster stream may name another one now."""
        machine = self.machine
        if machine.office.ordered(machine.wiring.supervisor, machine.now_ms):
            self.tell([*machine.view.linked, *machine.placement.replicas])
