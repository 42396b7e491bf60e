"""A socket with a reading thread: the synchronous client's driver.

Sends leave from the caller's own thread, without a hand-over: what the socket does not take at once is left to the
thread. The thread reads, and wakes whoever waits.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

READ_BYTES = 256 * 1024
WAITING_BYTES = 8 * 1024 * 1024
"""While more than this waits to be written, or for a broker's room (`send_gate.py`), senders wait."""
ENDLESS = 1 << 62
CLOSE_S = 2.0
"""How long an end waits for the broker to have read what was written."""
_AT_ONCE = 64  # buffers of one sendmsg


def tune(sock: socket.socket) -> None:
    """No delay; and a broker's machine that is silently gone is noticed within a minute."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000),
    ):  # fmt: skip
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Wire:
    """A connected socket.

    Args:
        received: called in the thread with bytes that came.
        gone: called once in the thread when the connection ended, with the reason.
        eased: called in the thread when what waits has fallen to `WAITING_BYTES` again.

    Attributes:
        waiting: bytes the socket has not taken; endless once the connection has ended.
    """

    def __init__(
        self, sock: socket.socket, received: Callable[[Wire, bytes], None], gone: Callable[[Wire, str], None],
        eased: Callable[[], None],
    ) -> None:  # fmt: skip
        sock.setblocking(False)
        tune(sock)
        self._sock = sock
        self._received = received
        self._gone = gone
        self._eased = eased
        self.waiting = 0
        self._lock = threading.Lock()
        self._left: deque[bytes | memoryview] = deque()  # what the socket has not taken, in order
        self._closing = False
        self._aborted = False
        self._close_at = 0.0  # when the broker's end is not waited for any more; 0: everything may still be written
        self._ended = False
        self._tick: Callable[[], bool] | None = None
        self._tick_s = 0.0
        self._tick_at = 0.0
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="mantamq-wire", daemon=True)

    @property
    def reading(self) -> bool:
        """Whether this is the thread that reads: nothing comes while it waits."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._thread.start()

    def forget(self) -> None:
        """Give the sockets back, where the thread could not begin."""
        for sock in (self._sock, self._wake_read, self._wake_write):
            with contextlib.suppress(OSError):
                sock.close()

    def beat(self, tick_s: float, tick: Callable[[], bool]) -> None:
        """Call `tick` in the thread every `tick_s` seconds, each time after what has come was read; False from it ends
        the connection."""
        self._tick_s = tick_s
        self._tick_at = time.monotonic() + tick_s
        self._tick = tick
        self._wake()

    def write(self, data: bytes) -> None:
        """Send bytes: at once as far as the socket takes them, the rest from the thread."""
        with self._lock:
            if self._ended:
                return
            if self._left:
                self._left.append(data)
                self.waiting += len(data)
                return
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                return  # the thread notices and tells
            if sent < len(data):
                self._left.append(memoryview(data)[sent:])
                self.waiting += len(data) - sent
                self._wake()

    def close(self) -> None:
        """End the connection when what was written has left and the broker has read it, or after `CLOSE_S`."""
        with self._lock:
            self._closing = True
            ended = self._ended
        self._wake()
        if not ended and not self.reading and self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def abort(self) -> None:
        """End the connection; what waits is thrown away."""
        with self._lock:
            self._aborted = True
            self._left.clear()
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_write.send(b"x")

    def _run(self) -> None:
        reason = "it closed the connection"
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._sock, selectors.EVENT_READ)
                selector.register(self._wake_read, selectors.EVENT_READ)
                while self._turn(selector):
                    pass
        except OSError as error:
            reason = str(error)
        except BaseException as error:  # whoever waits is told, whatever it is
            reason = f"this client broke: {error!r}"
            raise
        finally:
            with self._lock:
                self._ended = True
                self._left.clear()
                self.waiting = ENDLESS
            self.forget()
            self._gone(self, reason)

    def _turn(self, selector: selectors.BaseSelector) -> bool:
        limit_s = max(0.0, self._tick_at - time.monotonic()) if self._tick is not None else None
        if self._close_at:
            limit_s = max(0.0, self._close_at - time.monotonic())
        for key, events in selector.select(limit_s):
            if key.fileobj is self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    self._wake_read.recv(4096)
            elif events & selectors.EVENT_READ:
                try:
                    data = self._sock.recv(READ_BYTES)
                except BlockingIOError:
                    continue
                if not data:
                    return False
                if not self._close_at:
                    self._received(self, data)
        if self._tick is not None and time.monotonic() >= self._tick_at:
            # From now, not from when it was due: after a pause, what came meanwhile is read before the next.
            self._tick_at = time.monotonic() + self._tick_s
            if not self._tick():
                return False
        with self._lock:
            before = self.waiting
            if self._left:
                self._write_left()
            eased = before > WAITING_BYTES >= self.waiting
            if self._aborted or (self._close_at and time.monotonic() >= self._close_at):
                return False
            if self._closing and not self._left and not self._close_at:
                # Closed with bytes that nobody has read, the socket would throw away what the broker has not read yet.
                self._sock.shutdown(socket.SHUT_WR)
                self._tick = None
                self._close_at = time.monotonic() + CLOSE_S
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._left else 0)
        selector.modify(self._sock, wanted)
        if eased:
            self._eased()
        return True

    def _write_left(self) -> None:
        left = self._left
        try:
            sent = self._sock.sendmsg(list(islice(left, _AT_ONCE)))
        except BlockingIOError:
            return
        self.waiting -= sent
        while sent:
            head = left[0]
            if sent < len(head):
                left[0] = memoryview(head)[sent:]
                return
            sent -= len(head)
            left.popleft()
