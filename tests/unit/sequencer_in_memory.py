"""One sequencer with real keepers of one stream, in memory."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, Multicast, PeerDown, Received, Retire, SetTimer
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.wire.events import Entry
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Append, Request

MEMBERS = ["b1", "b2", "b3"]


class Order:
    """A sequencer with real keepers; `away` ones hear nothing. A member is its own peer."""

    def __init__(self, members: list[str] = MEMBERS, stream: str = "q#1", limits: Limits = DEFAULT) -> None:
        self.machine = SequencerMachine(7, members, limits=limits)
        self.stream = stream
        self.keepers = {name: Keeper(stream, name) for name in members}
        self.applied: dict[str, list[Entry]] = {name: [] for name in members}
        self.away: set[str] = set()
        self.said: list[tuple[str, Frame]] = []  # to others than keepers
        for name in members:
            self.tell(name, self.keepers[name].log_report())

    def tell(self, peer: str, frame: Frame) -> None:
        """One frame, and its answer if it has one at once."""
        self.carry_out(self.machine.step(Received(peer, frame)))

    def request(self, number: int, *events: bytes, inc: int = 1, origin: str = "o", stream: str = "") -> None:
        parts = [(stream or self.stream, event) for event in events]
        self.tell(origin, Request(origin, inc, number, parts))

    def carry_out(self, effects: list[Any]) -> list[tuple[str, Frame]]:
        """Deliver to the keepers; returns the keepers' answers."""
        answers: list[tuple[str, Frame]] = []
        for effect in effects:
            if isinstance(effect, SetTimer | Retire):
                continue
            peers = effect.peers if isinstance(effect, Multicast) else [effect.peer]
            for peer in peers:
                if not isinstance(effect.frame, Append):
                    self.said.append((peer, effect.frame))
                elif effect.frame.stream == self.stream and peer not in self.away:
                    one = self.keepers[peer]
                    committed, refusal = one.append(effect.frame)
                    self.applied[peer] += committed
                    answers.append((peer, refusal or one.ack(one.commit)))
        return answers

    def settle(self) -> list[tuple[str, Frame]]:
        """Until nobody has anything to say. Returns what others than keepers were told."""
        for _ in range(100):
            answers = self.carry_out(self.machine.step(Flush()))
            if not answers:
                break
            for peer, frame in answers:
                self.tell(peer, frame)
        else:
            raise AssertionError("they never stop talking")
        said, self.said = self.said, []
        return said

    def leave(self, name: str) -> None:
        self.away.add(name)
        self.machine.step(PeerDown(name))

    def events(self, name: str) -> list[bytes]:
        """What a keeper has applied, without the term's start."""
        return [one.event for one in self.applied[name] if one.origin]
