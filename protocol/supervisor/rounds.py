"""In which order a supervisor asks the members how they are. Pure.

An answer takes some two milliseconds of a member's loop. Were all asked at the same moment, then once a second all
replicas of a queue would answer nobody else at once, and whatever is sent just then waits for it: the slowest messages
of a cluster that has little to do. So one is asked after the other, evenly spread over a round.

Brokers are asked more often (`Timing.supervisor_round_ms`): their word counts for a short time only, and has to be
there all the time; it takes them less than a status does.
"""

from __future__ import annotations

from collections.abc import Collection

ROUND_MS = 1000


class Rounds:
    """Attributes:
    round_ms: how often each is asked. often_ms: how often those are whose word has to be fresh.
    """

    def __init__(self, round_ms: int = ROUND_MS, often_ms: int = ROUND_MS) -> None:
        self._round_ms = round_ms
        self._often_ms = often_ms
        self._asked: dict[str, int] = {}  # name -> when
        self._next_ms = 0

    def due(self, names: Collection[str], now_ms: int, often: Collection[str] = ()) -> list[str]:
        """Those that are to be asked now: who was never asked before, at once; else, when it is time, the one that
        has waited longest, by its own measure.

        Args:
            names: all that are to be asked; any other one is forgotten.
            often: those of them whose word has to be fresh.
        """
        found = [name for name in names if name not in self._asked]
        self._asked = {name: self._asked.get(name, now_ms) for name in names}
        every_ms = {name: self._often_ms if name in often else self._round_ms for name in names}
        if not found and names and now_ms >= self._next_ms:
            found = [max(names, key=lambda name: (now_ms - self._asked[name]) / every_ms[name])]
        if found:
            self._asked.update(dict.fromkeys(found, now_ms))
            self._next_ms = now_ms + int(1 / sum(1 / each_ms for each_ms in every_ms.values()))
        return found

    def wait_ms(self, now_ms: int) -> int:
        """How long until the next may be asked."""
        return min(max(self._next_ms - now_ms, 1), self._round_ms)
