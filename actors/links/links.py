"""The one kind of link: a connection that carries frames, to a peer or to a client; TCP, or within one machine what
`near.py` has.

Reading: all the frames of one read go to the host as one batch. Writing: what is sent gathers in a list, and the host
writes each link once per loop iteration; so batches grow under load and nothing waits when idle. Both directions are
bounded: above a high-water mark the host is told (`link_pressure`) and reads less from those who cause the traffic; at
the hard limit the link is closed.

The life of a link: *opening* (see `handshake.py`; few bytes, little time), *open* (`link_up` ... `link_down`),
*closing* (what is written still leaves, what comes is thrown away, so that the other side can read why).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol, cast

from ...protocol.errors import BUSY, NOT_ALLOWED, UNAVAILABLE, PeerError
from ...protocol.limits import DEFAULT, Limits
from ...protocol.timing import DEFAULT_TIMING, Timing
from ...protocol.wire.frame import Frame
from ...protocol.wire.framing import HEADER, FrameBuffer, encode_frame
from ...protocol.wire.keepalive import Keepalive, Verdict
from ...protocol.wire.large import LARGE_BYTES
from ...protocol.wire.link_frames import Ping, Pong, Refused
from ...protocol.wire.version import MINOR, spoken
from .handshake import Opening
from .near import tune_near

log = logging.getLogger(__name__)

OPENING_BYTES = 4096
LINGER_S = 2.0
HIGH_WATER_BYTES = 4 * 1024 * 1024
HARD_LIMIT_BYTES = DEFAULT.member_frame_bytes
_OPENING_LIMITS = Limits(frame_bytes=OPENING_BYTES)
_OWN = frozenset({Ping, Pong, Refused})
_PING = encode_frame(Ping())
_PONG = encode_frame(Pong())


class LinkOwner(Protocol):
    """The owner of links. All calls come from the event loop; `link_down` comes once, after `link_up` only."""

    def link_up(self, link: Link) -> None: ...

    def link_frames(self, link: Link, frames: list[Frame]) -> None:
        """The frames of one read, in order."""
        ...

    def link_down(self, link: Link) -> None: ...

    def link_gone(self, peer: str) -> None:
        """No process listens any more where `peer`, to which there was a link, was dialled."""
        ...

    def link_dirty(self, link: Link) -> None:
        """The link has something to write: call `link.flush()` soon, once for all that gathers until then."""
        ...

    def link_pressure(self, link: Link, pressed: bool) -> None:
        """The other side reads too slowly (or reads well again)."""
        ...

    def link_refused(self, link: Link, reason: PeerError) -> None:
        """The link has ended before it was up: one of its sides does not take the other."""
        ...


_NO_BEAT = Keepalive(1000)  # takes the notes of links without a heartbeat; they are not read


class Link(asyncio.Protocol):
    """One connection.

    Args:
        host: whom to tell.
        opening: this side's part of the opening; decides what may come.
        limits: bounds of the frames. timing: how long it may take to be opened.
        hard_limit_bytes: most bytes that may wait to be written.

    Attributes:
        peer: the other side's name; the host sets it for clients.
        out: encoded frames that leave at the next `flush`; the caller who puts the first one there sees to that.
        minor, inc: the protocol's minor version that the other side speaks, and its incarnation, once it is up.
    """

    __slots__ = (
        "_beat", "_beat_timer", "_buffer", "_closing", "_deadline", "_gathers", "_hard_limit", "_head", "_held",
        "_host", "_limits", "_loop", "_opening", "_opening_s", "_patience_s", "_pressed", "_transport", "_up",
        "address", "inc", "is_client", "minor", "on_lost", "out", "peer", "reason",
    )  # fmt: skip

    def __init__(
        self,
        host: LinkOwner,
        opening: Opening,
        limits: Limits = DEFAULT,
        hard_limit_bytes: int = HARD_LIMIT_BYTES,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._opening_s = timing.opening_ms / 1000
        self.peer = opening.peer
        self.minor = self.inc = 0
        self.is_client = opening.is_client
        self.address = ""
        self.reason: PeerError | None = None
        self.on_lost: Callable[[], None] | None = None
        self._host = host
        self._opening: Opening | None = opening
        self._limits = limits
        self._hard_limit = hard_limit_bytes
        self._buffer = FrameBuffer(limits, opening.open_kinds)
        self._head = bytearray()
        self.out: list[bytes] = []
        self._held: set[str] = set()
        self._pressed = False
        self._closing = False
        self._gathers = False
        self._up = False
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._loop: asyncio.AbstractEventLoop = cast(asyncio.AbstractEventLoop, None)
        self._deadline: asyncio.TimerHandle | None = None
        self._beat = _NO_BEAT
        self._beat_timer: asyncio.TimerHandle | None = None
        self._patience_s = 0.0

    def __repr__(self) -> str:
        return f"Link({self.peer or '?'} at {self.address})"

    # ---- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        _tune(transport.get_extra_info("socket"))
        name = transport.get_extra_info("peername")
        self.address = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "this machine"
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._gathers = type(transport).__module__.startswith("uvloop")  # asyncio's own would copy, or not say `pause`
        self._deadline = self._loop.call_later(self._opening_s, self._too_slow)
        assert self._opening is not None
        self._say(self._opening.start())

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._beat.heard = True
        breach: PeerError | None = None
        try:
            if self._opening is not None:
                data = self._open(data)
                if not data or self._closing:
                    return
            frames = self._buffer.feed(data)
        except PeerError as error:
            frames = getattr(error, "frames", [])
            breach = error
        for frame in frames:
            if type(frame) in _OWN:
                frames = self._own(frames)
                break
        if frames and self._up:
            self._host.link_frames(self, frames)
        if breach is not None:
            self.close(breach.code, breach.text)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._stop_beat()
        self._down()
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        self._pressed = True
        if self._up:
            self._host.link_pressure(self, True)

    def resume_writing(self) -> None:
        self._pressed = False
        if self._up:
            self._host.link_pressure(self, False)

    # ---- called by the host

    def send(self, data: bytes) -> None:
        """Gather one encoded frame; it leaves at the next `flush`."""
        if not self.out:
            if self._closing:
                return
            self._host.link_dirty(self)
        self.out.append(data)

    def flush(self) -> None:
        """Write all that gathered, at once. At the hard limit the link is closed instead of growing."""
        out = self.out
        if not out:
            return
        self.out = []
        if self._closing or self._transport.is_closing():
            return  # lost, even if `connection_lost` has not been called yet
        if len(out) == 1:
            self._transport.write(out[0])
        elif self._gathers and max(map(len, out)) >= LARGE_BYTES:
            self._transport.writelines(out)
        else:
            self._transport.write(b"".join(out))
        self._beat.said = True
        if (
            self._pressed
            and not self._transport.is_closing()
            and (waiting := self._transport.get_write_buffer_size()) > self._hard_limit
        ):
            self.close(
                BUSY,
                f"{waiting} bytes wait to be read by {self.peer}, more than the {self._hard_limit} a link may hold: "
                "read faster or ask for less credit",
            )

    def hold(self, reason: str, held: bool) -> None:
        """Stop reading for `reason`, or drop that reason; the link is read when there is none."""
        if self._closing or self._transport.is_closing():
            return
        before = bool(self._held)
        if held:
            self._held.add(reason)
        else:
            self._held.discard(reason)
        if before != bool(self._held):
            if self._held:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def close(self, code: str = "", text: str = "") -> None:
        """End the link after what is written has left; with a code, the other side is told why."""
        if self._closing:
            return
        self._closing = True
        self._stop_beat()
        if self._transport.is_closing():  # lost already
            self._down()
            return
        if self._held:
            self._transport.resume_reading()
        out, self.out = self.out, []
        if code:
            self.reason = PeerError(code, text)
            if self.is_client and code == UNAVAILABLE:  # it is silent; or all are sent away, which is said once
                log.debug(
                    "client %(peer)s at %(address)s has to go: %(reason)s",
                    {"peer": self.who(), "address": self.address, "reason": text},
                )
            else:
                log.warning(
                    "link %(peer)s at %(address)s closed: %(code)s: %(reason)s",
                    {"peer": self.who(), "address": self.address, "code": code, "reason": text},
                )
            out.append(encode_frame(Refused(code, text)))
            if not self._up:
                self._host.link_refused(self, self.reason)
        if out:
            self._transport.write(b"".join(out))
        self._down()
        if self._deadline is not None:
            self._deadline.cancel()
        # Closing with unread bytes would reset the connection and lose the reason: end our half, and let the other
        # side end its own.
        if code and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._deadline = self._loop.call_later(LINGER_S, self._transport.abort)
        else:
            self._transport.close()

    def who(self) -> str:
        """Its other side's name; before that is proved, what it says to be, or its address."""
        claimed = self._opening.peer if self._opening is not None else ""
        return self.peer or (f"{claimed[:64]!r} at {self.address}" if claimed else self.address)

    def abort(self) -> None:
        """End the link now."""
        self._closing = True
        self._stop_beat()
        self._down()
        self._transport.abort()

    # ---- heartbeats

    def heartbeat(self, interval_ms: int, patience_ms: int = 0) -> None:
        """Speak at least every `interval_ms` from now on, and close the link after `patience_ms` of silence (0: two
        heartbeats). While the link is held it is not read, and silence means nothing. The other side must do so too."""
        self._stop_beat()
        if not self._closing:
            self._beat = Keepalive(interval_ms, patience_ms)
            self._patience_s = max(patience_ms, 2 * interval_ms) / 1000
            self._beat_timer = self._loop.call_later(self._beat.tick_s, self._on_beat)

    def _on_beat(self) -> None:
        beat = self._beat
        if self._held:
            beat.heard = True
        verdict = beat.tick()
        if verdict is Verdict.LOST:
            self.close(UNAVAILABLE, f"nothing was heard from {self.peer} for {self._patience_s:g} s")
            return
        self._beat_timer = self._loop.call_later(beat.tick_s, self._on_beat)
        if verdict is Verdict.PING:
            self.send(_PING)

    def _stop_beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None

    # ---- opening

    def _open(self, data: bytes) -> bytes:
        """Take the frames of the opening one by one; returns the bytes that follow it."""
        head = self._head
        head += data
        while (opening := self._opening) is not None:
            # A whole frame, or what is there of it: a breach shows in the header already.
            size = HEADER.size + HEADER.unpack_from(head)[1] if len(head) >= HEADER.size else len(head)
            frames = FrameBuffer(_OPENING_LIMITS, opening.kinds).feed(bytes(head[:size]))
            if len(head) < max(size, HEADER.size):
                return b""
            del head[:size]
            for frame in frames:
                self._say(opening.receive(frame))
            if opening.done:
                self._opened(opening)
        rest = bytes(head)
        head.clear()
        return rest

    def _opened(self, opening: Opening) -> None:
        self._opening = None
        if self._deadline is not None:
            self._deadline.cancel()
        self.peer, self.minor, self.inc = opening.peer, opening.minor, opening.inc
        if not self.is_client and self.minor != MINOR:
            log.warning(
                "link %(peer)s at %(address)s: it speaks protocol %(theirs)s, this is %(ours)s: each skips what only "
                "the other knows",
                {"peer": self.peer, "address": self.address, "theirs": spoken(self.minor), "ours": spoken()},
            )
        self._up = True
        self._host.link_up(self)
        if opening.passed_on is not None:
            self._host.link_frames(self, [opening.passed_on])

    def _too_slow(self) -> None:
        self.close(NOT_ALLOWED, f"a link must be opened within {self._opening_s:g} s")

    def _say(self, frames: list[Frame]) -> None:
        """Opening frames leave at once: the host does not know the link yet."""
        if frames and not self._transport.is_closing():
            self._transport.write(b"".join(map(encode_frame, frames)))

    # ---- the link's own frames

    def _own(self, frames: list[Frame]) -> list[Frame]:
        """Answer pings, heed a refusal; returns the frames that are the host's."""
        for frame in frames:
            if type(frame) is Ping:
                self.send(_PONG)
            elif type(frame) is Refused:
                self.reason = PeerError(frame.code, frame.text)
                log.warning(
                    "link %(peer)s at %(address)s was closed by its other side: %(reason)s",
                    {"peer": self.peer, "address": self.address, "reason": self.reason},
                )
        return [frame for frame in frames if type(frame) not in _OWN]

    def _down(self) -> None:
        if self._up:
            self._up = False
            self._host.link_down(self)


def _tune(sock: socket.socket) -> None:
    """No delay; and a peer that is silently gone is noticed within a minute even if nothing is sent."""
    if sock.family == socket.AF_UNIX:
        tune_near(sock)
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 20),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 60_000),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
