"""Three kinds of wrong: ours (`LocalError`), the peer's (`PeerError`) and a directory's (`StoreError`).

A `LocalError` is a defect of this program: it ends a test loudly. A `PeerError` is something the other side did: it
fails one command or closes one connection, and its text names the rule that was broken and what to do. Its `code` is
what travels on the wire; `mantamq.client.errors` gives each code an exception class. A `StoreError` is what a directory
of durable data is found to be: it refuses that directory, in the same words, and changes nothing in it.
"""

from __future__ import annotations


class LocalError(Exception):
    """This program broke its own rule. Never caused by a peer's bytes."""


class PeerError(Exception):
    """The peer broke a rule.

    Args:
        code: one of the codes below, stable on the wire.
        text: which rule, and what to do about it.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class StoreError(Exception):
    """A directory of durable data cannot be used as it is. Nothing in it was changed (`durable.md` 4).

    Args:
        code: in words, as `store-locked`.
        text: which rule was broken, and what to do about it.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


NOT_FOUND = "not-found"
EXISTS = "exists"
INVALID = "invalid"
UNAUTHORIZED = "unauthorized"
TOO_LARGE = "too-large"
BAD_FRAME = "bad-frame"
WRONG_VERSION = "wrong-version"
NOT_ALLOWED = "not-allowed"
IN_USE = "in-use"
NOT_EMPTY = "not-empty"
DELETED = "deleted"
LOST = "lost"
BUSY = "busy"
UNAVAILABLE = "unavailable"
UNROUTABLE = "unroutable"
LIMIT = "resource-limit-exceeded"
NO_STORE = "no-store"
TIMED_OUT = "consumer-timeout"
INTERNAL = "internal"

STORE_LOCKED = "store-locked"
STORE_CHECKSUM = "store-checksum"
STORE_DAMAGED = "store-damaged"
STORE_FORMAT = "store-format"
STORE_GONE = "store-gone"
STORE_NOT_EMPTY = "store-not-empty"
STORE_NO_LOG = "store-no-log"
STORE_RECOVERING = "store-recovering"
STORE_UNUSABLE = "store-unusable"
NOT_OUR_STORE = "not-our-store"
