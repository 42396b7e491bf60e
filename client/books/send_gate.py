"""What may leave a connection's senders: nothing while the broker has no room (`Blocked`), and all of it when it has.

What is not let out waits here, in order; its sender keeps it as pending, so another broker gets it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ...protocol.wire.client_frames import Detach, Transfer
from ...protocol.wire.frame import Frame


class SendGate:
    """Args:
        write: sends a frame, or forgets it where no broker is there.

    Attributes:
        blocked: the broker has no room: transfers wait, and all else goes on.
    """

    def __init__(self, write: Callable[[Frame], None]) -> None:
        self.blocked = False
        self._write = write
        self._waiting: list[Transfer | Detach] = []

    def send(self, frame: Transfer) -> None:
        if self.blocked:
            self._waiting.append(frame)
        else:
            self._write(frame)

    def detach(self, handle: int) -> None:
        """The end of a sender or receiver, behind what it has sent."""
        frame = Detach(handle)
        if any(waiting.handle == handle for waiting in self._waiting):
            self._waiting.append(frame)
        else:
            self._write(frame)

    def tell(self, blocked: bool, senders: Container[int]) -> None:
        """The broker's word; `senders`: handles of those that it has not ended."""
        self.blocked = blocked
        if not blocked:
            waiting, self._waiting = self._waiting, []
            for frame in waiting:
                if frame.handle in senders:
                    self._write(frame)

    def begin(self, blocked: bool = False) -> None:
        """The link is gone, or another broker has greeted us: whoever has something to say says it anew."""
        self.blocked = blocked
        self._waiting.clear()
