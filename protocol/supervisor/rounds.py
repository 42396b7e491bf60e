"""In which order a supervisor asks the members how they are. Pure.

An answer takes some two milliseconds of a member's loop. Were all asked at the same moment, then once a second all
replicas of a queue would answer nobody else at once, and whatever is sent just then waits for it: the slowest messages
of a cluster that has little to do. So one is asked after the other, evenly spread over a round.
"""

from __future__ import annotations

from collections.abc import Collection

ROUND_MS = 1000


class Rounds:
    """`round_ms`: how long one round takes: how often each is asked."""

    def __init__(self, round_ms: int = ROUND_MS) -> None:
        self._round_ms = round_ms
        self._asked: dict[str, int] = {}  # name -> when
        self._next_ms = 0

    def due(self, names: Collection[str], now_ms: int) -> list[str]:
        """Those that are to be asked now: who was never asked before, at once; else, when it is time, the one that was
        asked the longest ago.

        Args:
            names: all that are to be asked; any other one is forgotten.
        """
        found = [name for name in names if name not in self._asked]
        self._asked = {name: self._asked.get(name, now_ms) for name in names}
        if not found and names and now_ms >= self._next_ms:
            found = [min(names, key=self._asked.__getitem__)]
        if found:
            self._asked.update(dict.fromkeys(found, now_ms))
            self._next_ms = now_ms + self._round_ms // len(names)
        return found

    def wait_ms(self, now_ms: int) -> int:
        """How long until the next may be asked."""
        return min(max(self._next_ms - now_ms, 1), self._round_ms)
