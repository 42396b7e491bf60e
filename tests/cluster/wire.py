"""A client made of one blocking socket: says exactly the frames, or the bytes, that it is told to."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

import msgspec
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Flow,
    Open,
    Opened,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame

F = TypeVar("F", bound=Frame)
WAIT_S = 10.0


class RawClient:
    """One connection to `address` ("host:port"); opened at once unless `open` is False."""

    def __init__(self, address: str, token: str = "", open: bool = True, name: str = "") -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), WAIT_S)
        self.opened: Opened | None = None
        self._buffer = FrameBuffer()
        self._frames: list[Frame] = []
        self._commands = 0
        if open:
            self.say(Open(name, token))
            self.opened = self.hear(Opened)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, *frames: Frame | bytes) -> None:
        """Send frames, or plain bytes; what the other side has closed already takes nothing."""
        data = b"".join(frame if isinstance(frame, bytes) else encode_frame(frame) for frame in frames)
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def next(self) -> Frame | None:
        """The next frame; None at the end of the stream."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames += self._buffer.feed(data)
        return self._frames.pop(0)

    def hear(self, kind: type[F]) -> F:
        """The next frame of this kind, passing over others."""
        while (frame := self.next()) is not None:
            if isinstance(frame, kind):
                return frame
        raise AssertionError(f"the connection ended before a {kind.__name__} came")

    def command(self, name: str, /, **arguments: object) -> object:
        """The value of the reply to a command that must succeed."""
        self._commands += 1
        self.say(Command(self._commands, name, arguments))
        reply = self.hear(Reply)
        assert reply.number == self._commands
        assert not reply.code, f"{name}: {reply.code}: {reply.text}"
        return reply.value

    def send(self, queue: str, bodies: list[bytes], handle: int = 1) -> None:
        """Attach a sender, send, and wait until all is complete."""
        self.say(AttachSender(handle, "", queue))
        self.hear(Attached)
        self.say(Transfer(handle, 1, [msgspec.msgpack.encode([body]) for body in bodies]))
        left = len(bodies)
        while left:
            ranges = self.hear(Completed).ranges
            left -= sum(last - first + 1 for first, last in zip(ranges[::2], ranges[1::2], strict=True))

    def receive(self, queue: str, count: int, handle: int = 2) -> list[tuple[bytes, int]]:
        """Attach a receiver and take `count` messages without settling them: (body, times delivered before) each."""
        self.say(AttachReceiver(handle, queue))
        self.hear(Attached)
        self.say(Flow(handle, count))
        found: list[tuple[bytes, int]] = []
        while len(found) < count:
            delivery = self.hear(Delivery)
            flags = dict(zip(delivery.redelivered[::2], delivery.redelivered[1::2], strict=True))
            for index, blob in enumerate(delivery.blobs):
                found.append((msgspec.msgpack.decode(blob)[0], flags.get(index, 0)))
        return found

    def vanish(self) -> None:
        """Go without a word: the connection is reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
