"""The exceptions that a client raises, one for each kind of failure. A text names the broken rule and what to do."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any, ClassVar

from ..protocol import errors as codes


class MantaError(Exception):
    """Base of all errors of the client.

    Attributes:
        code: the stable code of the error.
        text: which rule was broken and what to do.
    """

    code: ClassVar[str] = codes.INTERNAL

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


class NotFound(MantaError):
    """There is no queue or exchange of that name."""

    code = codes.NOT_FOUND


class Exists(MantaError):
    """The name is declared already, with another definition."""

    code = codes.EXISTS


class Invalid(MantaError, ValueError):
    """An argument is not of the allowed form."""

    code = codes.INVALID


class Unauthorized(MantaError):
    """The token is not the cluster's."""

    code = codes.UNAUTHORIZED


class TooLarge(MantaError):
    """The message is larger than the broker takes."""

    code = codes.TOO_LARGE


class ResourceLimitExceeded(MantaError):
    """A queue is at its limit, or the message is larger than that: the queue has refused it."""

    code = codes.LIMIT


class ProtocolError(MantaError):
    """The two sides do not speak the same protocol."""

    code = codes.BAD_FRAME


class Unroutable(MantaError):
    """Messages of a mandatory sender went to no queue: none is bound there for them."""

    code = codes.UNROUTABLE


class NoStore(MantaError):
    """A queue cannot be durable: the cluster was started without a store."""

    code = codes.NO_STORE


class NotAllowed(MantaError):
    """The broker refuses this on principle."""

    code = codes.NOT_ALLOWED


class InUse(MantaError):
    """The queue or exchange is still used by others."""

    code = codes.IN_USE


class NotEmpty(MantaError):
    """The queue still has messages."""

    code = codes.NOT_EMPTY


class Busy(MantaError):
    """Too much is under way; try again."""

    code = codes.BUSY


class Unavailable(MantaError):
    """This broker cannot serve it now."""

    code = codes.UNAVAILABLE


class LinkClosed(MantaError):
    """The sender or receiver has ended; open another one."""

    code = codes.NOT_ALLOWED


class Deleted(LinkClosed):
    """The queue of this sender or receiver was deleted."""

    code = codes.DELETED


class Lost(Deleted):
    """The queue of this sender or receiver was lost: most of its replicas died with what they held, and it could never
    go on. Its name is free: declare it again to begin anew."""

    code = codes.LOST


class TimedOut(LinkClosed):
    """The receiver held a message for longer than its queue lets it: all that it held is back in the queue."""

    code = codes.TIMED_OUT


class Gone(Deleted, NotFound):
    """The exchange or queue of this sender or receiver is not there any more."""

    code = codes.NOT_FOUND


class ConnectionLost(MantaError, ConnectionError):
    """The broker cannot be reached any more. What was not complete may or may not have happened."""

    code = codes.UNAVAILABLE


class NoCluster(MantaError):
    """No running cluster was found."""

    code = codes.NOT_FOUND


class Timeout(MantaError, TimeoutError):
    """The broker did not answer in time; the outcome is unknown."""

    code = codes.UNAVAILABLE


class Empty(MantaError, queue.Empty):
    """No message came in time."""


class Full(MantaError, queue.Full):
    """The sender's capacity, or the queue's size, is used up.

    Attributes:
        left: of a batch, of which a part was added, the items that were not.
    """

    left: Sequence[Any] = ()


_CLASSES: tuple[type[MantaError], ...] = (
    NotFound, Exists, Invalid, Unauthorized, TooLarge, ProtocolError, NotAllowed, InUse, NotEmpty, Busy,
    Unroutable, NoStore, ResourceLimitExceeded,
)  # fmt: skip
BY_CODE: dict[str, type[MantaError]] = {
    **{cls.code: cls for cls in _CLASSES},
    codes.UNAVAILABLE: Unavailable,
    codes.DELETED: Deleted,
    codes.LOST: Lost,
    codes.TIMED_OUT: TimedOut,
    codes.WRONG_VERSION: ProtocolError,
    codes.INTERNAL: MantaError,
}


def again(failure: MantaError) -> MantaError:
    """A fresh exception like `failure`, so that raising it many times does not pile up one traceback."""
    copy = type(failure)(failure.text)
    copy.__cause__ = failure.__cause__
    return copy


def link_ended(code: str, text: str) -> MantaError:
    """Why the broker ended a sender or receiver: always a LinkClosed; where it is not of the exact class too, that is
    its cause."""
    failure = Gone(text) if code == codes.NOT_FOUND else error(code, text)
    if isinstance(failure, LinkClosed):
        return failure
    closed = LinkClosed(text)
    closed.__cause__ = failure
    return closed


def error(code: str, text: str) -> MantaError:
    """The exception for a code from the wire; unknown codes give the base class with the code in its text."""
    cls = BY_CODE.get(code)
    return cls(text) if cls is not None else MantaError(f"{code}: {text}")
