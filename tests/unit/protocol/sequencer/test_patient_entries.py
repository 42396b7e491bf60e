"""Entries that nobody is kept waiting by: with whom they leave, and when they leave alone."""

from __future__ import annotations

from mantamq.protocol.machine import Flush, Multicast, Received, SetTimer, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import ZERO
from mantamq.protocol.wire.log_frames import Ack, Append, LogReport, Request, Results

PATIENCE_MS = DEFAULT_TIMING.patience_ms


class Led:
    """One sequencer and one keeper, which acknowledges when it is told to."""

    def __init__(self) -> None:
        self.machine = SequencerMachine(7, ["b1"])
        self.machine.step(Tick(1000))
        self.machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
        self.now_ms = 1000
        self.last: dict[str, int] = {}
        self.timers: list[int] = []
        assert self.flush() == [b""]

    def flush(self, at_ms: int = 0) -> list[bytes]:
        """What goes to the keeper at that time: each entry that is not the term's first as its event."""
        self.now_ms = at_ms or self.now_ms
        effects = [*self.machine.step(Tick(self.now_ms)), *self.machine.step(Flush())]
        self.timers += [effect.at_ms for effect in effects if isinstance(effect, SetTimer)]
        frames = [e.frame for e in effects if isinstance(e, Multicast) and isinstance(e.frame, Append)]
        return [entry.event if entry.origin else b"" for frame in frames for entry in frame.entries]

    def ask(self, event: bytes, patient: bool = False, origin: str = "o") -> None:
        number = self.last[origin] = self.last.get(origin, 0) + 1
        self.machine.step(Received(origin, Request(origin, 1, number, [("q#1", event)], patient)))

    def fed(self) -> Led:
        """Two messages have come, one after the other."""
        for at_ms in (1000, 1005):
            self.ask(b"message")
            assert self.flush(at_ms) == [b"message"]
        return self

    def ack(self, match: int) -> None:
        self.machine.step(Received("b1", Ack((1, 7), "q#1", "b1", match, match, eager=True)))


def test_an_accept_between_messages_leaves_with_the_next_one():
    led = Led().fed()
    led.ask(b"accept", patient=True)
    assert led.flush(1008) == []
    led.ask(b"message")
    assert led.flush(1010) == [b"accept", b"message"], "in the order in which they came"


def test_news_of_a_commit_does_not_take_it_along():
    led = Led().fed()
    led.ask(b"accept", patient=True)
    led.ack(3)
    assert led.flush(1007) == []
    assert led.machine.order.streams["q#1"].commit == 3


def test_it_leaves_alone_where_no_message_follows():
    led = Led().fed()
    led.ask(b"accept", patient=True)
    assert led.flush(1006) == [] and led.timers[-1] == 1006 + PATIENCE_MS
    assert led.flush(1006 + PATIENCE_MS - 1) == []
    assert led.flush(1006 + PATIENCE_MS) == [b"accept"]
    led.ack(4)
    led.ask(b"accept again", patient=True)
    assert led.flush(1007 + 2 * PATIENCE_MS) == [b"accept again"], "the last messages are long ago"


def test_it_waits_for_nothing_where_messages_come_seldom_or_never():
    led = Led()
    led.ask(b"accept", patient=True)
    assert led.flush() == [b"accept"]
    led.ask(b"message")
    assert led.flush(2000) == [b"message"]
    led.ask(b"accept", patient=True)
    assert led.flush(2001) == [b"accept"], "one message is no stream of them"
    for at_ms in (2002, 2003, 2004):
        led.ask(b"accept", patient=True)
        assert led.flush(at_ms) == [b"accept"], "accepts are not waited for"


def test_each_waits_from_when_it_came():
    led = Led().fed()
    led.ask(b"accept", patient=True)
    assert led.flush(1006) == []
    led.ask(b"message")
    assert led.flush(1010) == [b"accept", b"message"]
    led.ask(b"accept", patient=True)
    assert led.flush(1011) == []
    assert led.flush(1006 + PATIENCE_MS) == [], "the time of the one that has left is nothing to it"
    assert led.flush(1011 + PATIENCE_MS) == [b"accept"]


def test_a_repeat_is_answered_when_it_is_committed():
    led = Led().fed()
    led.ask(b"accept", patient=True, origin="r")
    assert led.flush(1006) == []
    led.machine.step(Received("r", Request("r", 1, 1, [("q#1", b"accept")], True)))
    assert led.flush(1006 + PATIENCE_MS) == [b"accept"]
    led.ack(4)
    (answer,) = [e.frame for e in led.machine.step(Flush()) if getattr(e, "peer", "") == "r"]
    assert answer == Results(1, [1])


def test_a_queue_that_is_deleted_is_not_waited_for():
    led = Led().fed()
    led.ask(b"accept", patient=True)
    assert led.flush(1006) == []
    led.machine.order.drop(led.machine.order.streams["q#1"])
    assert led.flush(1006 + PATIENCE_MS) == [] and not led.machine.order.patient.waiting
