"""An outbox for the parts of a hosted queue, built alone: what they ask for is kept, and nothing happens."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.events import AnyEvent
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import LogReport


class KeptOutbox:
    """The outbox of ``b1.r0``, incarnation 4; it has pledged itself to the leader ``sequencer``.

    Attributes:
        sent: (peer, frame) in order, since the last `take`.
        submitted: (stream, event) since the last `take`; patient: those that nobody waits for.
        number: of the request that is being gathered.
    """

    def __init__(self, now_ms: int = 1000) -> None:
        self.name, self.broker, self.inc = "b1.r0", "b1", 4
        self.now_ms = now_ms
        self.fellows = {"b2.r0", "b3.r0"}
        self.dirty: dict[str, None] = {}
        self.sent: list[tuple[str, Frame]] = []
        self.submitted: list[tuple[str, AnyEvent]] = []
        self.patient: list[AnyEvent] = []
        self.number = 1
        self.timers: dict[str, int] = {}
        self.retired = ""
        self.refused: list[tuple[str, PeerError]] = []

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))

    def lead(self, frame: Frame) -> None:
        self.send("sequencer", frame)

    def report_log(self, report: LogReport) -> None:
        self.send("sequencer", report)

    def submit(self, stream: str, event: AnyEvent, patient: bool = False) -> int:
        self.submitted.append((stream, event))
        if patient:
            self.patient.append(event)
        return self.number

    def set_timer(self, id: str, at_ms: int) -> None:
        self.timers[id] = at_ms

    def refuse(self, peer: str, error: PeerError) -> None:
        self.refused.append((peer, error))

    def retire(self, reason: str) -> None:
        self.retired = reason

    def take(self, kind: type[Any] | None = None) -> list[Any]:
        """What was sent, of one kind or all; and forget it."""
        sent, self.sent = self.sent, []
        return [frame for _, frame in sent if kind is None or type(frame) is kind]

    def events(self) -> list[AnyEvent]:
        """What was submitted; and forget it. The next is in another request."""
        submitted, self.submitted = self.submitted, []
        self.number += 1
        return [event for _, event in submitted]
