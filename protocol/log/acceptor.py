"""The acceptor in brokers and replicas: promises, log reports, and requests to the sequencer that leads.

K1: a promise is given once per ballot, for all logs of the process. B1: requests without an answer are sent again to
each new leader, at its first heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..machine import Effect, Retire, Send
from ..wire.events import Ballot
from ..wire.frame import Frame
from ..wire.log_frames import Evicted, Fetch, Heartbeat, Nack, Prepare
from .keeper import Keeper
from .leader import LeaderView


class Acceptor:
    """Base of the machines that keep logs.

    Attributes:
        view: the leader that is followed, and the promised ballot.
        effects: the effects of this step so far.
    """

    def __init__(self) -> None:
        self.view = LeaderView()
        self.effects: list[Effect] = []
        self.now_ms = 0

    def keepers(self) -> Iterable[Keeper]:
        raise NotImplementedError

    def keeper_of(self, stream: str) -> Keeper | None:
        raise NotImplementedError

    def pledge(self) -> None:
        """Report all logs of this process to the leader."""
        raise NotImplementedError

    def attached(self) -> None:
        """A sequencer leads and has the log reports: send it the requests that have no answer yet."""
        raise NotImplementedError

    def send(self, peer: str, frame: Frame) -> None:
        self.effects.append(Send(peer, frame))

    def retire(self, reason: str, left: bool = False) -> None:
        self.effects.append(Retire(reason, left))

    def take(self) -> list[Effect]:
        """The effects gathered since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def lead(self, frame: Frame) -> None:
        """Send a frame to the leader, if it is attached; otherwise `pledge` and `attached` tell it later."""
        if self.view.attached:
            self.effects.append(Send(self.view.leader, frame))

    def follow(self, peer: str, ballot: Ballot) -> bool:
        """Whether `peer` may speak under `ballot`; promises it for all logs (K1)."""
        if not self.view.follow(peer, ballot, self.now_ms):
            self.send(peer, Nack(self.view.promised))
            return False
        for keeper in self.keepers():
            keeper.promise(ballot)
        return True

    def prepare(self, peer: str, frame: Prepare) -> None:
        if self.follow(peer, frame.ballot):
            self.pledge()

    def heartbeat(self, peer: str, frame: Heartbeat) -> None:
        view = self.view
        if not self.follow(peer, frame.ballot):
            return
        view.heard_ms = self.now_ms
        if not view.attached:
            view.attached = True
            self.pledge()
            self.attached()

    def fetch(self, peer: str, frame: Fetch) -> None:
        keeper = self.keeper_of(frame.stream)
        found = keeper.fetch(frame) if keeper is not None else None
        if found is not None:
            self.send(peer, found)

    def evicted(self, peer: str, frame: Evicted) -> None:
        if peer == self.view.leader:
            self.retire(frame.reason)
