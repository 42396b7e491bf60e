"""What may leave a connection's senders: nothing while the broker has no room (`Blocked`), and all of it when it has.

What is not let out waits here, in order; its sender keeps it as pending, so another broker gets it from there. Senders
wait while much is here (`socket_thread.WAITING_BYTES`), as they do for a socket: a capacity counts messages only.
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
        waiting_bytes: of the messages that wait.
        changed: called when that has changed.
    """

    def __init__(self, write: Callable[[Frame], None]) -> None:
        self.blocked = False
        self.waiting_bytes = 0
        self.changed: Callable[[], object] = lambda: None
        self._write = write
        self._waiting: list[Transfer | Detach] = []

    def send(self, frame: Transfer) -> None:
        if self.blocked:
            self._waiting.append(frame)
            self.waiting_bytes += sum(map(len, frame.blobs))
            self.changed()
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
            self.waiting_bytes = 0
            for frame in waiting:
                if frame.handle in senders:
                    self._write(frame)
            self.changed()

    def begin(self, blocked: bool = False) -> None:
        """The link is gone, or another broker has greeted us: whoever has something to say says it anew."""
        self.blocked = blocked
        self._waiting.clear()
        self.waiting_bytes = 0
        self.changed()
