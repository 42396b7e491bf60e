"""What the parts of one follower ask for during a step: frames to peers, frames to the leader, the end of the process.

A follower is a process that keeps logs and follows a sequencer: a broker or a replica. Its parts share one outbox, so
the effects of a step stand in one list, in the order in which they were asked for.
"""

from __future__ import annotations

from ..errors import PeerError
from ..machine import Close, Effect, Retire, Send
from ..timing import DEFAULT_TIMING, Timing
from ..wire.frame import Frame
from .leader import LeaderView


class FollowerOutbox:
    """Attributes:
    view: the leader that is followed, and the promised ballot.
    effects: the effects of this step so far.
    now_ms: the time of the last tick.
    """

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self.view = LeaderView(timing)
        self.effects: list[Effect] = []
        self.now_ms = 0

    def send(self, peer: str, frame: Frame) -> None:
        self.effects.append(Send(peer, frame))

    def lead(self, frame: Frame) -> None:
        """Send a frame to the leader, if it is attached; otherwise its sender asks again when a leader is."""
        if self.view.attached:
            self.effects.append(Send(self.view.leader, frame))

    def refuse(self, peer: str, error: PeerError) -> None:
        """Close the link to a peer that has broken a rule, after telling it which."""
        self.effects.append(Close(peer, error.code, error.text))

    def retire(self, reason: str, left: bool = False) -> None:
        self.effects.append(Retire(reason, left))

    def take(self) -> list[Effect]:
        """The effects gathered since the last call."""
        effects, self.effects = self.effects, []
        return effects
