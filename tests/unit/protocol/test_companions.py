"""Companions, with no machine beside them: each is given its own peer's inputs, and all of them ticks and flushes."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.companions import Companions
from mantamq.protocol.machine import Flush, PeerDown, PeerUp, Received, Send, Tick
from mantamq.protocol.wire.link_frames import Ping


class Toy:
    """Answers each input but a tick with a frame to its peer."""

    def __init__(self, peer: str) -> None:
        self.peer, self.due_ms = peer, 0
        self.given: list[Any] = []

    def step(self, input: Any) -> list[Any]:
        self.given.append(input)
        return [] if isinstance(input, Tick) else [Send(self.peer, Ping())]


def test_a_companion_hears_its_own_peer_only():
    one, other = Toy("events"), Toy("backup")
    companions = Companions([one, None, other])
    inputs = [PeerUp("backup"), Received("backup", Ping()), PeerDown("backup")]
    assert [companions.hear(input) for input in inputs] == [[Send("backup", Ping())]] * 3
    assert other.given == inputs and one.given == []
    assert companions.hear(PeerUp("b2.r0")) == [] and "b2.r0" not in companions


def test_each_companion_is_told_the_time_and_asked_at_a_flush():
    one, other = Toy("events"), Toy("backup")
    companions = Companions([one, other])
    companions.tick(Tick(7))
    assert companions.flush(Flush()) == [Send("events", Ping()), Send("backup", Ping())]
    assert one.given == other.given == [Tick(7), Flush()]


def test_most_machines_have_none():
    assert not Companions([]) and not Companions([None])
    assert Companions([]).flush(Flush()) == []
