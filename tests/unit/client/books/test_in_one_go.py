"""What a program puts before it waits for anything leaves together, where somebody can tell when that is."""

from __future__ import annotations

from mantamq.client.books.sender import GATHER_MESSAGES, SenderCore
from mantamq.protocol.wire.client_frames import Completed


class Program:
    """A sender whose program waits when the test says so."""

    def __init__(self):
        self.written = []
        self.sender = SenderCore(1, "q", False, False, 1000, 1 << 20, self.written.append)
        self._to_call = []
        self.sender.soon = self._to_call.append

    def put(self, count):
        for number in range(count):
            self.sender.put(b"%d" % number)

    def waits(self):
        called, self._to_call[:] = [*self._to_call], []
        for call in called:
            call()
        return [len(frame.blobs) for frame in self.written]


def test_what_is_put_in_one_go_is_one_frame():
    program = Program()
    program.put(10)
    assert not program.written
    assert program.waits() == [10]
    program.put(10)
    assert program.waits() == [10], "one is in flight: they gather until it completes"
    program.sender.completed(Completed(1, [1, 10]))
    assert program.waits() == [10, 10]
    program.sender.completed(Completed(1, [11, 20]))
    program.put(1)
    assert program.waits() == [10, 10, 1] and program.written[-1].first == 21


def test_a_frames_worth_waits_for_nobody():
    program = Program()
    program.put(GATHER_MESSAGES + 2)
    assert [len(frame.blobs) for frame in program.written] == [GATHER_MESSAGES]
    assert program.waits() == [GATHER_MESSAGES, 2], "what is put in one go leaves whole"


def test_what_was_said_by_a_flush_is_not_said_twice():
    program = Program()
    program.put(2)
    program.sender.flush()
    assert program.waits() == [2]


def test_who_cannot_tell_says_each_at_once():
    program = Program()
    program.sender.soon = None
    program.put(3)
    assert program.waits() == [1], "the others gather behind it"
