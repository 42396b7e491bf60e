"""Bugs of what a sequencer fetches, and of queues that are lost, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.sequencer.recovery import Recovery

Patch = pytest.MonkeyPatch


def first_piece_is_taken_for_all(patch: Patch) -> None:
    """A log that comes in pieces is adopted when the first has come."""
    adopted = Recovery.adopted
    fetched = Recovery.fetched

    def hasty(self: Any, peer: str, frame: Any) -> None:
        stream = self._order.streams.get(frame.stream)
        if stream is None or stream.ready or stream.asked != peer or frame.ballot != self._order.ballot:
            return
        after = frame.first + len(frame.entries)
        if after > stream.asked_for:
            fetched(self, peer, frame)
            return
        stream.asked = ""
        _, best = next(voice for voice in stream.reports.values() if voice[0] == peer)
        adopted(self, stream, best, frame)

    patch.setattr(Recovery, "fetched", hasty)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
