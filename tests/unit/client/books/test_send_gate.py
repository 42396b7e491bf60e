"""While a broker has no room for transfers they wait at the client, and all else that it says leaves."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.conversation import Conversation
from mantamq.client.books.send_gate import SendGate
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Blocked,
    Command,
    Completed,
    Detach,
    Detached,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.version import MINOR


class Line:
    """Books, and what they say."""

    def __init__(self, blocked: bool = False) -> None:
        self._buffer = FrameBuffer()
        self.said: list[Frame] = []
        self.books = Conversation("here:1", "", self._write, reconnects=True, client="c")
        self.books.open()
        self.greeted(blocked)

    def _write(self, data: bytes) -> None:
        self.said += self._buffer.feed(data)

    def hear(self, *frames: Frame) -> None:
        for frame in frames:
            self.books.feed(encode_frame(frame))

    def greeted(self, blocked: bool = False) -> None:
        self.hear(Opened("b1", {}, 1000, 1000, 1000, 0, MINOR, blocked))

    def sender(self) -> Any:
        handle = self.books.attach(lambda handle: AttachSender(handle, "", "q"))
        self.hear(Attached(handle))
        return self.books.sender(handle, "q", False, 10)

    def take(self) -> list[Frame]:
        said, self.said = self.said, []
        return said

    def numbers(self, core: Any) -> list[int]:
        """First numbers of the transfers of one sender, of what was said."""
        return [frame.first for frame in self.take() if isinstance(frame, Transfer) and frame.handle == core.handle]


def put(core: Any, count: int) -> None:
    for _ in range(count):
        core.put(b"m")
        core.flush()


def test_transfers_wait_and_all_else_goes_on():
    line = Line()
    one, two = line.sender(), line.sender()
    put(one, 1)
    assert line.numbers(one) == [1]
    line.hear(Blocked(True))
    put(one, 2)
    put(two, 1)
    line.books.command("queue", {"name": "q"})
    line.books.attach(lambda handle: AttachReceiver(handle, "q"))
    line.books.detach(one.handle)
    assert [type(frame) for frame in line.take()] == [Command, AttachReceiver]
    assert (one.unsettled, two.unsettled) == (3, 1)
    line.hear(Completed(1, [1, 1]), Blocked(False))
    assert [(type(frame), frame.handle, getattr(frame, "first", 0)) for frame in line.take()] == [
        (Transfer, 1, 2), (Transfer, 1, 3), (Transfer, 2, 1), (Detach, 1, 0),
    ]  # fmt: skip
    put(two, 1)
    assert line.numbers(two) == [2]


def test_what_a_sender_that_the_broker_has_ended_had_to_say_is_not_said():
    line = Line()
    one, two = line.sender(), line.sender()
    line.hear(Blocked(True))
    put(one, 1)
    put(two, 1)
    line.hear(Detached(one.handle, "deleted", "it is gone"), Blocked(False))
    assert [frame.handle for frame in line.take() if isinstance(frame, Transfer)] == [two.handle]


@pytest.mark.parametrize("blocked", [False, True])
def test_another_broker_gets_what_has_waited_when_it_has_room(blocked):
    line = Line()
    core = line.sender()
    put(core, 1)
    line.hear(Blocked(True))
    put(core, 2)
    line.books.interrupted()
    put(core, 1)
    line.take()
    line.books.begin("there:1")
    line.greeted(blocked)
    said = line.take()
    assert [type(frame) for frame in said if not isinstance(frame, Transfer)] == [Open, AttachSender]
    sent = [frame.first for frame in said if isinstance(frame, Transfer)]
    if blocked:
        assert sent == []
        line.hear(Blocked(False))
        sent = line.numbers(core)
    assert sent == [1, 2, 3, 4]


def test_who_is_greeted_without_room_sends_nothing_before_there_is_some():
    line = Line(blocked=True)
    core = line.sender()
    put(core, 2)
    assert line.numbers(core) == []
    line.hear(Blocked(False))
    assert line.numbers(core) == [1, 2]


def test_the_end_of_a_receiver_waits_for_no_sender():
    said: list[Frame] = []
    gate = SendGate(said.append)
    gate.begin(True)
    gate.send(Transfer(1, 1, [b"m"]))
    gate.detach(2)
    assert said == [Detach(2)]
