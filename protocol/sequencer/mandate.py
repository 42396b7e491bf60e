"""The supervisor in office, as a sequencer hears of it and tells Ownership; and whether the sequencer may be ended."""

from __future__ import annotations

from ..machine import is_ownership
from ..outbox import Outbox
from ..supervisor.office import Commission, Office
from ..wire.log_frames import Supervised
from .election import LEADING, Election
from .failure_detector import FailureDetector


class Mandate:
    """The supervisor's office, as one sequencer knows it.

    Attributes:
        office: shared with the actor, which takes orders by it.
    """

    def __init__(
        self, outbox: Outbox, election: Election, detector: FailureDetector, office: Office, linked: dict[str, None]
    ) -> None:
        self._outbox = outbox
        self._election = election
        self._detector = detector
        self.office = office
        self._linked = linked

    def needed(self, now_ms: int) -> str:
        """Why this sequencer may not end, whatever a supervisor that was cut off believes of it; "" if it may."""
        election = self._election
        leads = election.deposed is None and election.role == LEADING and self._detector.followed(now_ms)
        return "it leads, and a majority of the brokers follows it" if leads else ""

    def supervised(self, frame: Supervised) -> None:
        """A broker says who supervises; Ownership hears it from here."""
        if self.office.learns(Commission(frame.number, frame.id, frame.name), self._outbox.now_ms):
            for peer in self._linked:
                if is_ownership(peer):
                    self._outbox.send(peer, frame)
