"""One connection of a user: what its books say goes on it as frames, and what comes on it goes to the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mantamq.client.books.requests import ReplySender, RequestSender
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    Blocked,
    Completed,
    Delivery,
    Dispose,
    Failed,
    Flow,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer

from .clients import Client
from .model import Violation, each_run
from .stops import nothing_comes

if TYPE_CHECKING:
    from .users import User


class Line(Client):
    """One connection of a user; the next broker gets another one.

    Attributes:
        blocked: by what has come on it, no transfer may leave.
    """

    def __init__(self, user: User, name: str, broker: str) -> None:
        self.user = user
        user.ledger.lines[name] = broker
        self._reader = FrameBuffer()
        self.blocked = False
        self._held: dict[int, int] = {}  # handle -> messages delivered and not settled on this line
        super().__init__(user.world, name, broker, greets=False)

    def outlives(self) -> bool:
        return True

    def hung_up(self, reason: str) -> None:
        self.user.gone(self, reason)

    def unread(self) -> None:
        raise Violation(f"{self.name} is not read any more: what it settles does not count, and it sends as it may")

    def write(self, data: bytes) -> None:
        """The frames of the books, as bytes: so nothing of theirs is shared with a reader."""
        for frame in self._reader.feed(data):
            if type(frame) is Open:
                self.world.post(self.name, self.broker, frame)
                continue
            if type(frame) is Transfer:
                if self.blocked:
                    raise Violation(f"{self.name} sends {frame.first} of {frame.handle}, and has heard that it may not")
                if not self._asks(frame.handle):
                    self.user.ledger.said(self, frame, self.user.outboxes[frame.handle])
            elif type(frame) is AttachReceiver and frame.handle in self.links:
                raise Violation(f"{self.name}: handle {frame.handle} is attached twice")
            self.send(frame)
            if type(frame) is Dispose:
                self._held[frame.handle] -= len(each_run(frame.runs))
            if type(frame) is Flow and frame.handle in self.user.inboxes:
                self.user.granted(self, frame)

    def _asks(self, handle: int) -> bool:
        """Whether questions or answers go by a sender: these are no user's own (`requests.py`)."""
        return isinstance(self.user.conversation._senders.get(handle), RequestSender | ReplySender)

    def bounded(self, handle: int, credit: int) -> None:
        """Messages delivered and not settled, with those that may still come, never exceed a capacity that bounds them."""
        inbox = self.user.inboxes.get(handle)
        if inbox is None or inbox.window != "unaccepted":
            return
        held = self._held.get(handle, 0)
        if held + credit > inbox.capacity:
            raise Violation(
                f"{self.name} holds {held} messages of {inbox.queue} that are not settled, and has {credit} of credit: "
                f"its window is {inbox.capacity}"
            )
        if held:
            self.user.ledger.count("unaccepted windows" if held < inbox.capacity else "unaccepted windows full")

    def receive(self, frame: Frame) -> None:
        if frame.__class__ is Delivery:
            assert isinstance(frame, Delivery)
            nothing_comes(self.user.inboxes.get(frame.handle), f"{self.broker} gives it {frame.ranges}")
            self._held[frame.handle] = self._held.get(frame.handle, 0) + len(frame.blobs)
            self.bounded(frame.handle, 0)
        if isinstance(frame, Opened | Blocked):
            self.blocked = frame.blocked if isinstance(frame, Opened) else frame.on
            if self.blocked:
                self.user.ledger.count("told to send nothing")
        if frame.__class__ is Completed or frame.__class__ is Failed:
            if not self._asks(frame.handle):  # type: ignore[union-attr]
                self.user.ledger.told(self.user.name, frame, self.user.outboxes[frame.handle])  # type: ignore[arg-type,union-attr]
        super().receive(frame)
        self.user.heard(self, frame)
