"""How a link opens: who is calling, and do both ends know the cluster's secret?

Pure: frames in, frames out, so every wrong turn can be tested without a socket. A peer link opens like this (the
dialler left, the listener right); a client link opens with the client's own first frame, `Open`.

    Hello(cluster, name, nonce, minor, inc)  ->
                                             <-  Challenge(nonce, proof, minor, inc)
    Proof(proof)                             ->
                                             <-  Welcome(name)

`Hello` and `Challenge` also tell the protocol's minor version and the incarnation of who says it
(`protocol/wire/version.py`; the major is in every frame's header). Any minor is welcome; another cluster, or another
major, is refused with what to do about it.

A proof is an HMAC-SHA256 under the secret of *everything* said so far and of the role of who says it: caller and
callee by name, both nonces, versions and incarnations. So no proof can be sent back to where it came from (the
reflection attack), used on another link, or be that of another peer than the one that was meant to be called.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ...protocol.errors import INVALID, NOT_ALLOWED, UNAUTHORIZED, PeerError
from ...protocol.wire.client_frames import Open
from ...protocol.wire.frame import Frame
from ...protocol.wire.kinds import CLIENT_KINDS, KIND_OF, PEER_KINDS
from ...protocol.wire.link_frames import Challenge, Hello, Proof, Refused, Welcome
from ...protocol.wire.version import MINOR

NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that make a process part of a cluster. The secret never appears in a repr, a log or a name.

    Attributes:
        cluster: the cluster's id.
        secret: 32 random bytes, the same in every actor of the cluster.
        name: this process's peer name.
        inc: its incarnation.
        minor: of the protocol it speaks.
    """

    cluster: str
    secret: bytes = field(repr=False)
    name: str
    inc: int = 0
    minor: int = MINOR


class Opening(Protocol):
    """One side of an opening link.

    Attributes:
        kinds: frame kinds that may come now.
        open_kinds: frame kinds that may come once the link is open.
        peer: name of the other side once `done`, before that who it says to be; "" for a client, whom the host names.
        minor, inc: what it has said of its version and incarnation.
        passed_on: a frame that opened the link and that the host must see as well.
    """

    kinds: frozenset[int]
    open_kinds: frozenset[int]
    is_client: bool
    peer: str
    minor: int
    inc: int
    done: bool
    passed_on: Frame | None

    def start(self) -> list[Frame]: ...

    def receive(self, frame: Frame) -> list[Frame]:
        """The answer to `frame`.

        Raises:
            PeerError: the other side broke the handshake; the link must be closed with this.
        """
        ...


def _kinds(*classes: type[Frame]) -> frozenset[int]:
    return frozenset(KIND_OF[cls] for cls in classes)


def _proof(own: Credentials, role: str, hello: Hello, callee: str, challenge: Challenge) -> bytes:
    """`challenge`: all of it but its own proof counts."""
    said = (role, own.cluster, hello.name, callee, hello.nonce, challenge.nonce)
    versions = (hello.minor, hello.inc, challenge.minor, challenge.inc)
    return hmac.digest(own.secret, msgspec.msgpack.encode((*said, *versions)), "sha256")


class ClientOpening:
    """A client's side of the door: its first frame must be `Open`, which the host's machine judges."""

    kinds = _kinds(Open)
    open_kinds = CLIENT_KINDS
    is_client = True

    def __init__(self) -> None:
        self.peer = ""
        self.minor = self.inc = 0
        self.done = False
        self.passed_on: Frame | None = None

    def start(self) -> list[Frame]:
        return []

    def receive(self, frame: Frame) -> list[Frame]:
        self.passed_on = frame
        self.minor = getattr(frame, "minor", 0)
        self.done = True
        return []


class DialOpening:
    """The calling side.

    Args:
        own: who I am.
        callee: the peer name that must answer.
    """

    kinds = _kinds(Challenge, Welcome, Refused)
    open_kinds = PEER_KINDS
    is_client = False
    passed_on: Frame | None = None

    def __init__(self, own: Credentials, callee: str) -> None:
        self.peer = callee
        self.minor = self.inc = 0
        self.done = False
        self._own = own
        self._hello = Hello(own.cluster, own.name, secrets.token_bytes(NONCE_BYTES), own.minor, own.inc)
        self._challenged = False

    def start(self) -> list[Frame]:
        return [self._hello]

    def receive(self, frame: Frame) -> list[Frame]:
        own = self._own
        if type(frame) is Challenge and not self._challenged:
            if not hmac.compare_digest(frame.proof, _proof(own, "callee", self._hello, self.peer, frame)):
                raise PeerError(
                    UNAUTHORIZED,
                    f"whoever answered is not {self.peer} of this cluster: its proof of the secret is wrong",
                )
            self._challenged = True
            self.minor, self.inc = frame.minor, frame.inc
            return [Proof(_proof(own, "caller", self._hello, self.peer, frame))]
        if type(frame) is Welcome and self._challenged:
            self.done = True
            return []
        if type(frame) is Refused:
            raise PeerError(frame.code, f"{self.peer} refused this link: {frame.text}")
        raise PeerError(NOT_ALLOWED, f"a {type(frame).__name__} frame is out of place in the handshake")


class ListenOpening:
    """The called side.

    Args:
        own: who I am.
        admits: whether a peer of this name has any business here.
    """

    kinds = _kinds(Hello, Proof, Refused)
    open_kinds = PEER_KINDS
    is_client = False
    passed_on: Frame | None = None

    def __init__(self, own: Credentials, admits: Callable[[str], bool]) -> None:
        self.peer = ""
        self.minor = self.inc = 0
        self.done = False
        self._own = own
        self._admits = admits
        self._expected: bytes | None = None

    def start(self) -> list[Frame]:
        return []

    def receive(self, frame: Frame) -> list[Frame]:
        if type(frame) is Hello and self._expected is None:
            return self._hello(frame)
        if type(frame) is Proof and self._expected is not None:
            if not hmac.compare_digest(frame.proof, self._expected):
                raise PeerError(UNAUTHORIZED, "the proof is wrong: the caller does not know this cluster's secret")
            if not self._admits(self.peer):
                raise PeerError(NOT_ALLOWED, f"{self.peer!r} has no business with {self._own.name}")
            self.done = True
            return [Welcome(self._own.name)]
        if type(frame) is Refused:
            raise PeerError(frame.code, f"the caller hung up: {frame.text}")
        raise PeerError(NOT_ALLOWED, f"a {type(frame).__name__} frame is out of place in the handshake")

    def _hello(self, frame: Hello) -> list[Frame]:
        own = self._own
        self.peer, self.minor, self.inc = frame.name, frame.minor, frame.inc
        if frame.cluster != own.cluster:
            raise PeerError(
                UNAUTHORIZED,
                f"{own.name} here belongs to another cluster than {frame.cluster!r}: peers link within one cluster "
                "only; check the address, and stop what is left of a cluster that was started before",
            )
        if len(frame.nonce) != NONCE_BYTES:
            raise PeerError(INVALID, f"a nonce has {NONCE_BYTES} bytes, not {len(frame.nonce)}")
        challenge = Challenge(secrets.token_bytes(NONCE_BYTES), b"", own.minor, own.inc)
        self._expected = _proof(own, "caller", frame, own.name, challenge)
        proof = _proof(own, "callee", frame, own.name, challenge)
        return [Challenge(challenge.nonce, proof, own.minor, own.inc)]
