"""A request under way: its submitter, what of it is not committed yet, and a part of it on its way into a stream."""

from __future__ import annotations

from typing import NamedTuple


class Origin:
    """A submitter: the last number taken of its newest incarnation, and where its answers go."""

    __slots__ = ("inc", "last", "peer", "unanswered")

    def __init__(self, peer: str, inc: int) -> None:
        self.peer = peer
        self.inc = inc
        self.last = 0
        self.unanswered: set[int] = set()


class Pending:
    """A request of which some parts are not committed yet."""

    __slots__ = ("left", "number", "origin", "patient")

    def __init__(self, origin: Origin, number: int, patient: bool = False) -> None:
        self.origin = origin
        self.number = number
        self.patient = patient
        self.left = 0


class Part(NamedTuple):
    """A part of a request on its way into a stream: of those `origin` asks for there, it is number `place`, from 1."""

    pending: Pending
    origin: str
    place: int
    event: bytes
