"""What the sequencer sends to the keepers of a stream: in pieces, within a window, and when."""

from __future__ import annotations

from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import Flush, Multicast, Received, SetTimer, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import ZERO
from mantamq.protocol.wire.log_frames import Ack, Append, LogReport, Request
from sequencer_in_memory import Order


def test_a_large_backlog_goes_out_in_pieces():
    order = Order(limits=Limits(append_bytes=100))
    for number in range(1, 8):
        order.request(number, b"x" * 40)
    order.request(8, b"y" * 500)
    appends = [effect.frame for effect in order.machine.step(Flush()) if isinstance(effect, Multicast)]
    assert [len(frame.entries) for frame in appends] == [3, 2, 2, 1, 1]  # a start is small
    assert [frame.previous for frame in appends] == [0, 3, 5, 7, 8]


def test_a_keeper_that_acknowledges_nothing_is_sent_no_more_than_its_window():
    machine = SequencerMachine(7, ["b1"], limits=Limits(keeper_window_bytes=100, append_bytes=40))
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    for number in range(1, 11):
        machine.step(Received("o", Request("o", 1, number, [("q#1", b"x" * 40)])))

    def sent() -> int:
        frames = [effect.frame for effect in machine.step(Flush()) if isinstance(effect, Multicast)]
        return sum(len(entry.event) for frame in frames for entry in frame.entries)

    assert 60 < sent() <= 100
    assert sent() == 0
    machine.step(Received("b1", Ack((1, 7), "q#1", "b1", 2, 0)))
    assert sent() == 40, "what was acknowledged makes room for as much"


def test_one_that_does_not_act_on_commits_hears_of_them_a_little_later():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.step(Tick(1000))
    machine.step(Flush())
    machine.step(Received("b1", Ack((1, 7), "q#1", "b1", 1, 0, eager=True)))
    machine.step(Received("b2", Ack((1, 7), "q#1", "b2", 1, 0, eager=False)))
    said = machine.step(Flush())
    assert [effect.peers for effect in said if isinstance(effect, Multicast)] == [["b1"]]
    assert SetTimer(1000 + DEFAULT_TIMING.lazy_ms) in said
    machine.step(Tick(1000 + DEFAULT_TIMING.lazy_ms - 1))
    assert machine.step(Flush()) == []
    machine.step(Tick(1000 + DEFAULT_TIMING.lazy_ms))
    (told,) = machine.step(Flush())
    assert isinstance(told, Multicast) and told.peers == ["b2"]
    assert isinstance(told.frame, Append) and told.frame.commit == 1
