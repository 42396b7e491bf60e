"""What goes in pieces when it is large: in some stories everything is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mantamq.protocol.broker import routing, transfers
from mantamq.protocol.replica import dead_letters
from mantamq.protocol.sequencer import election, replicator

_LARGE = (
    (replicator, "APPEND_BYTES"),
    (election, "FETCH_BYTES"),
    (dead_letters, "PIECE_BYTES"),
    (routing, "REQUEST_BYTES"),
    (transfers, "REQUEST_BYTES"),
)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """A frame that goes in pieces has no more bytes than `size`, or one thing in it; but never more than usual."""
    usual = [(module, name, getattr(module, name)) for module, name in _LARGE]
    for module, name, value in usual:
        setattr(module, name, min(size, value))
    try:
        yield
    finally:
        for module, name, value in usual:
            setattr(module, name, value)
