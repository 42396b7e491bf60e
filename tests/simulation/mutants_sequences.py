"""Bugs of queues that stamp their messages, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from mantamq.protocol.queue import dispatch
from mantamq.protocol.queue.sequence import StampedBlobs
from mantamq.protocol.replica import hosted_queue
from mantamq.protocol.wire.message import with_property

Patch = pytest.MonkeyPatch


def each_replica_counts_what_it_delivers(patch: Patch) -> None:
    """So a message has another number when it comes again, and two have the same at two brokers."""
    numbers: dict[int, Any] = {}

    def stamped(self: Any, position: int) -> bytes:
        number = next(numbers.setdefault(id(self), count(1)))
        return with_property(self._state.blobs[position], self._name, number)

    patch.setattr(StampedBlobs, "__getitem__", stamped)


def the_stamp_counts_from_nought(patch: Patch) -> None:
    patch.setattr(
        StampedBlobs,
        "__getitem__",
        lambda self, position: with_property(self._state.blobs[position], self._name, position - 1),
    )


def a_queue_does_not_stamp(patch: Patch) -> None:
    patch.setattr(hosted_queue, "shown", lambda state, settings: state)


def the_stamp_is_not_weighed(patch: Patch) -> None:
    """A consumer gets more bytes than it has credit for."""
    weigh = dispatch.weigh

    def bare(blobs: Any, *args: Any) -> Any:
        return weigh(blobs._state.blobs if type(blobs) is StampedBlobs else blobs, *args)

    patch.setattr(dispatch, "weigh", bare)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
