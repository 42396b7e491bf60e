"""The frames that open, keep alive and end a link: sent by the links themselves, unseen by machines. Kinds 1 to 7."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .frame import Frame


class Hello(Frame):
    """First frame of a dialled peer link, from the caller.

    Attributes:
        minor: minor version of the protocol (`version.py`); the major is in every frame's header.
        inc: incarnation of the process.
    """

    cluster: str
    name: str
    nonce: bytes
    minor: int = 0
    inc: int = 0


class Challenge(Frame):
    """Attributes:
    proof: HMAC-SHA256 under the cluster's secret of role, cluster, both names, both nonces, and both sides' versions
        and incarnations: the callee knows it too, and a proof cannot be reflected.
    minor, inc: the callee's, as in `Hello`.
    """

    nonce: bytes
    proof: bytes
    minor: int = 0
    inc: int = 0


class Proof(Frame):
    proof: bytes


class Welcome(Frame):
    name: str


class Refused(Frame):
    """The link or connection is about to close, and why."""

    code: str
    text: str


class Ping(Frame):
    pass


class Pong(Frame):
    pass
