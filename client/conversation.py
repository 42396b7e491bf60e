"""One connection's side of the conversation, without I/O: what to say, and what is known from what was heard.

The asyncio and the synchronous client are drivers around it: they bring frames in, carry bytes out, and wait until some
condition on these books holds. Not thread-safe: the driver serialises calls.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ..protocol.errors import PeerError
from ..protocol.frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Disposed,
    Failed,
    FlowDrained,
    Frame,
    Open,
    Opened,
    Ping,
    Pong,
    Refused,
    Reply,
)
from ..protocol.framing import FrameBuffer, encode_frame
from .errors import ConnectionLost, Invalid, LinkClosed, MantaError, again, error
from .receiving import ReceiverCore
from .sending import SenderCore


class Conversation:
    """The books of one connection.

    Args:
        address: the broker's "host:port", for errors.
        token: what the cluster asks clients for; "" for none.
        write: sends bytes.

    Attributes:
        opened: the broker's greeting, when it has come.
        token: what was presented (the handle `Queue` carries it along).
        failure: why the connection is over, when it is.
    """

    def __init__(self, address: str, token: str, write: Callable[[bytes], None]) -> None:
        self.address = address
        self.opened: Opened | None = None
        self.failure: MantaError | None = None
        self.replies: dict[int, Reply] = {}
        self.token = token
        self._write_bytes = write
        self._buffer = FrameBuffer()
        self._numbers = 0
        self._handles = 0
        self._asked: set[int] = set()
        self._senders: dict[int, SenderCore] = {}
        self._receivers: dict[int, ReceiverCore] = {}
        self._attaching: dict[int, Attached | Detached | None] = {}
        self._detaching: set[int] = set()

    # ---- in and out

    def write(self, frame: Frame) -> None:
        if self.failure is None:
            self._write_bytes(encode_frame(frame))

    def open(self) -> None:
        self.write(Open(uuid.uuid4().hex, self.token))

    def feed(self, data: bytes) -> None:
        """Take bytes from the broker.

        Raises:
            PeerError: they are no frames; the connection must be closed.
        """
        try:
            frames, breach = self._buffer.feed(data), None
        except PeerError as error:
            frames, breach = getattr(error, "frames", []), error
        for frame in frames:
            rule = _RULES.get(type(frame))
            if rule is not None:
                rule(self, frame)
        if breach is not None:
            raise breach

    def lost(self, failure: MantaError) -> None:
        """The connection is over: everything pending and later raises `failure`."""
        if self.failure is not None:
            return
        self.failure = failure
        for link in self.links():
            link.ended(failure)

    def lost_because(self, reason: str) -> None:
        self.lost(
            ConnectionLost(
                f"the broker at {self.address} cannot be reached any more ({reason}): what was not complete may or "
                "may not have happened; connect again, to another broker if need be"
            )
        )

    def check(self) -> None:
        if self.failure is not None:
            raise again(self.failure)

    # ---- commands

    def command(self, name: str, arguments: dict[str, Any]) -> int:
        self.check()
        self._numbers += 1
        self._asked.add(self._numbers)
        self.write(Command(self._numbers, name, arguments))
        return self._numbers

    def replied(self, number: int) -> bool:
        return number in self.replies or self.failure is not None

    def forget(self, number: int) -> None:
        """Nobody waits for this command any more."""
        self._asked.discard(number)
        self.replies.pop(number, None)

    def result(self, number: int) -> Any:
        """The value of a command that was answered.

        Raises:
            MantaError: what the broker said went wrong.
        """
        reply = self.replies.pop(number, None)
        self._asked.discard(number)
        if reply is None:
            self.check()
            raise LinkClosed("the command was given up")
        if reply.code:
            raise error(reply.code, reply.text)
        return reply.value

    # ---- attaching

    def attach(self, make: Callable[[int], AttachSender | AttachReceiver]) -> int:
        self.check()
        self._handles += 1
        self._attaching[self._handles] = None
        self.write(make(self._handles))
        return self._handles

    def attached(self, handle: int) -> bool:
        return self._attaching.get(handle) is not None or self.failure is not None

    def _attachment(self, handle: int) -> Attached:
        answer = self._attaching.pop(handle, None)
        # The connection may have ended after the answer came: a link made now would never hear of it.
        self.check()
        if not isinstance(answer, Attached):
            assert isinstance(answer, Detached)
            raise error(answer.code, answer.text)
        return answer

    def sender(self, handle: int, address: str, keyed: bool, capacity: int) -> SenderCore:
        """The sender whose attach was answered."""
        answer = self._attachment(handle)
        assert self.opened is not None
        core = SenderCore(handle, address, keyed, answer.headers, capacity, self.opened.message_bytes, self.write)
        self._senders[handle] = core
        return core

    def receiver(self, handle: int, queue: str, capacity: int, settles: bool) -> ReceiverCore:
        """The receiver whose attach was answered."""
        self._attachment(handle)
        assert self.opened is not None
        if capacity > self.opened.credit_messages:
            raise Invalid(f"a receiver's capacity is at most {self.opened.credit_messages}, not {capacity}")
        core = ReceiverCore(handle, queue, capacity, settles, self.write)
        self._receivers[handle] = core
        core.open()
        return core

    def detach(self, handle: int) -> None:
        if self.failure is None and (handle in self._senders or handle in self._receivers):
            self._detaching.add(handle)
            self.write(Detach(handle))

    def detached(self, handle: int) -> bool:
        return handle not in self._detaching or self.failure is not None

    def links(self) -> list[SenderCore | ReceiverCore]:
        """All open senders and receivers."""
        return [*self._senders.values(), *self._receivers.values()]

    # ---- hearing

    def _on_opened(self, frame: Opened) -> None:
        self.opened = frame

    def _on_refused(self, frame: Refused) -> None:
        refusal = error(frame.code, frame.text)
        if self.opened is None:
            self.lost(refusal)
            return
        lost = ConnectionLost(f"the broker at {self.address} ended the connection ({frame.code}: {frame.text})")
        lost.__cause__ = refusal
        self.lost(lost)

    def _on_ping(self, frame: Ping) -> None:
        self.write(Pong())

    def _on_reply(self, frame: Reply) -> None:
        if frame.number in self._asked:
            self.replies[frame.number] = frame

    def _on_attached(self, frame: Attached) -> None:
        if frame.handle in self._attaching:
            self._attaching[frame.handle] = frame

    def _on_detached(self, frame: Detached) -> None:
        handle = frame.handle
        if handle in self._attaching:
            self._attaching[handle] = frame
            return
        self._detaching.discard(handle)
        for links in (self._senders, self._receivers):
            link = links.pop(handle, None)
            if link is not None:
                if frame.code:
                    link.detached(frame)
                else:
                    link.ended(LinkClosed("this link was closed: open another one"))

    def _on_completed(self, frame: Completed | Failed) -> None:
        sender = self._senders.get(frame.handle)
        if sender is not None:
            sender.completed(frame)

    def _on_delivery(self, frame: Delivery) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.delivered(frame)

    def _on_disposed(self, frame: Disposed) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.disposed(frame)

    def _on_drained(self, frame: FlowDrained) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.on_drained()


_RULES: dict[type[Frame], Callable[[Conversation, Any], None]] = {
    Opened: Conversation._on_opened,
    Refused: Conversation._on_refused,
    Ping: Conversation._on_ping,
    Reply: Conversation._on_reply,
    Attached: Conversation._on_attached,
    Detached: Conversation._on_detached,
    Completed: Conversation._on_completed,
    Failed: Conversation._on_completed,
    Delivery: Conversation._on_delivery,
    Disposed: Conversation._on_disposed,
    FlowDrained: Conversation._on_drained,
}
