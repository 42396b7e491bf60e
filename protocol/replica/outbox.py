"""All that a hosted queue and its parts may know of their process, and ask of it: the seam around one queue.

The replica's machine is one; a unit test gives its own. Frames that are sent and led leave in the order of the calls.
"""

from __future__ import annotations

from typing import Protocol

from ..errors import PeerError
from ..wire.events import AnyEvent
from ..wire.frame import Frame
from ..wire.log_frames import LogReport


class QueueOutbox(Protocol):
    """Attributes:
    name: the replica's peer name; the origin of the events it submits.
    broker: the broker it belongs to.
    inc: incarnation of the process.
    now_ms: the time of the last tick.
    fellows: linked replicas of other brokers.
    dirty: ids of the queues that the next flush serves; a queue puts itself there.
    """

    name: str
    broker: str
    inc: int
    now_ms: int
    fellows: set[str]
    dirty: dict[str, None]

    def send(self, peer: str, frame: Frame) -> None: ...

    def lead(self, frame: Frame) -> None:
        """Send to the sequencer that leads, if it has this process's pledge; otherwise nothing is sent."""
        ...

    def report_log(self, report: LogReport) -> None:
        """Send to the sequencer that is followed, whether or not it has said that it leads."""
        ...

    def submit(self, stream: str, event: AnyEvent, patient: bool = False) -> int:
        """Put an event into the request that leaves at the end of the flush, which is `patient` if all its events are;
        returns the number of that request."""
        ...

    def set_timer(self, id: str, at_ms: int) -> None:
        """Have queue `id` served at that time."""
        ...

    def refuse(self, peer: str, error: PeerError) -> None:
        """Close the link to a peer that has broken a rule, after telling it which."""
        ...

    def retire(self, reason: str) -> None: ...
