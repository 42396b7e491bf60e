"""Requests to the sequencer, each kept until it is answered: unanswered ones are sent again to each new leader.

Rule B1 of `sequencer.md`. A broker, a queue replica and Ownership each have a `Submitter`. It knows nothing of links
and leaders: its host sends the requests it returns, and sends `unanswered` again when a sequencer has begun to lead.
"""

from __future__ import annotations

from ..wire.log_frames import Request, Results


class Submitter:
    """The requests of one process.

    Args:
        origin: name of the process.
        inc: incarnation of the process. Numbers begin at 1 with each incarnation.

    Attributes:
        unanswered: number -> request, in the order in which they were made.
    """

    __slots__ = ("_last", "_parts", "_patient", "inc", "origin", "unanswered")

    def __init__(self, origin: str, inc: int) -> None:
        self.origin = origin
        self.inc = inc
        self.unanswered: dict[int, Request] = {}
        self._last = 0
        self._parts: list[tuple[str, bytes]] = []
        self._patient = True

    def gather(self, stream: str, event: bytes, patient: bool = False) -> int:
        """Put an event into the request that is being gathered, which is `patient` if all its events are; returns the
        number that request will have."""
        self._parts.append((stream, event))
        if not patient:
            self._patient = False
        return self._last + 1

    def gathered(self) -> Request | None:
        """The request of all gathered events, to be sent now; None if there are none."""
        if not self._parts:
            return None
        parts, self._parts = self._parts, []
        patient, self._patient = self._patient, True
        return self.request(parts, patient)

    def request(self, parts: list[tuple[str, bytes]], patient: bool = False) -> Request:
        """A separate request, to be sent now: (stream, encoded event) pairs."""
        self._last += 1
        request = self.unanswered[self._last] = Request(self.origin, self.inc, self._last, parts, patient)
        return request

    def answered(self, frame: Results) -> list[Request]:
        """The requests that this frame answers for the first time; none if it is for an earlier incarnation."""
        if frame.inc != self.inc:
            return []
        take = self.unanswered.pop
        return [request for number in frame.numbers if (request := take(number, None)) is not None]
