"""A broker's part in who supervises the cluster: it answers a supervisor that asks for the office, has the number of
the one that a majority takes ordered, and tells the sequencers and its replicas (`supervisor/office.py`)."""

from __future__ import annotations

from collections.abc import Collection

from ..log.outbox import FollowerOutbox
from ..machine import Supervises
from ..supervisor.office import Commission, Office
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Supervise
from ..wire.log_frames import Supervised
from .cluster_state import ClusterState
from .requests import Requests


class Investiture:
    """Args: replicas: names of the connected replicas.

    Attributes:
        office: what is known of the supervisor here; shared with the actor's other parts.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        replicas: Collection[str],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.office = Office(timing)
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._replicas = replicas
        self._ordering = 0  # the supervisor's number that this broker has asked to have ordered

    def asked(self, input: Supervises) -> None:
        """A supervisor asks whether it is the one, or wants to be."""
        office, now_ms = self.office, self._outbox.now_ms
        one, before = Commission(input.number, input.id, input.name), office.holder
        if not input.elected:
            office.stands(one, now_ms)
        elif office.confirms(one, now_ms):
            if one.number > max(self._cluster.wiring.supervisor.number, self._ordering):
                self._ordering = one.number
                self._requests.order(Supervise(*one), lambda outcome: None)
        if office.holder[:2] != before[:2]:
            self._tell_all()

    def tell(self, peers: list[str]) -> None:
        holder = self.office.holder
        if holder.number:
            for peer in peers:
                self._outbox.send(peer, Supervised(*holder))

    def ordered(self) -> None:
        """The cluster stream may name another supervisor now."""
        if self.office.ordered(self._cluster.wiring.supervisor, self._outbox.now_ms):
            self._tell_all()

    def _tell_all(self) -> None:
        self.tell([*self._outbox.view.linked, *self._replicas])
