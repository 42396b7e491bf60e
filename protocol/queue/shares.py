"""Fair shares (Qpid's fairshare): of a level so many messages go, then the next lower one has its turn, and behind the
lowest the highest again; so what is urgent goes first, and the rest is not starved. A level of which nothing waits has
no turn.

Whose turn it is, and how much of it is used, is counted in the stream, by what is acquired: another owner of the
consume lock goes on where the last one was. An owner itself is ahead of that by what it has given and not seen applied.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..ranges import RangeSet
from ..wire.events import Acquire, Enqueue, Event
from .applied import Applied
from .priority import ByPriority, LevelLine
from .state import QueueState
from .traits import Trait

Turn = tuple[int, int]
"""(the level whose turn it is, how much of its share is used)"""


class Shares:
    """Args:
    shares: of each level, the lowest first; 0 for as many as there are.
    """

    __slots__ = ("_shares", "first")

    def __init__(self, shares: tuple[int, ...]) -> None:
        self._shares = shares
        self.first: Turn = (len(shares) - 1, 0)

    def next(self, level: int) -> int:
        return level - 1 if level else len(self._shares) - 1

    def room(self, turn: Turn, most: int) -> int:
        """How much of its share is left, at most `most`."""
        share = self._shares[turn[0]]
        return min(most, share - turn[1]) if share else most

    def after(self, turn: Turn, gone: dict[int, int]) -> Turn:
        """The turn once so many messages of these levels have gone, in the order that they must; `gone` is used up."""
        level, used = turn
        while gone:
            count = gone.get(level, 0)
            if not count or not (room := self.room((level, used), count)):
                level, used = self.next(level), 0
                continue
            if not self._shares[level]:
                del gone[level]
                continue
            if len(gone) == 1:  # all other turns are passed over
                return level, (used + count - 1) % self._shares[level] + 1
            used += room
            if room < count:
                gone[level] = count - room
            else:
                del gone[level]
        return level, used


class ByShares(ByPriority):
    """The order of a queue whose levels have shares, and part of its state."""

    __slots__ = ("_ahead", "_shares", "_turn")

    events: tuple[type[Event], ...] = (Enqueue, Acquire)

    def __init__(self, state: QueueState, trait: Trait, shares: tuple[int, ...]) -> None:
        super().__init__(state, trait)
        self._shares = Shares(shares)
        self._turn = self._shares.first
        self._ahead = 0
        """So many messages were given here and not seen acquired: with none it is the stream's turn."""

    def applied(self, event: Any, done: Applied, /) -> None:
        if type(event) is Enqueue:
            super().applied(event, done)
            return
        gone = Counter[int]()
        for first, last in done.positions:
            gone.update(map(self._available.part_of, range(first, last + 1)))
        self._ahead -= gone.total()
        if gone:
            self._state.turn = self._shares.after(self._state.turn or self._shares.first, gone)
        if self._ahead <= 0:
            self.idle()

    def restored(self) -> None:
        super().restored()
        self.idle()

    # ---- the order

    def idle(self) -> None:
        """What was given and is void, or is gone, the stream does not count."""
        self._turn = self._state.turn or self._shares.first
        self._ahead = 0

    def next(self, place: Any, /) -> tuple[int, int] | None:
        """Of the level whose turn it is one message."""
        if isinstance(place, int):
            return super().next(place)
        parts, turn = self._available.parts, self._turn
        for _ in range(self._shares.first[0] + 2):  # at last its own turn again
            waiting = parts.get(turn[0])
            if waiting is not None and self._shares.room(turn, 1):
                if (found := waiting.at_or_after(place.get(turn[0], 1))) is not None:
                    return found[0], found[0]
            turn = self._shares.next(turn[0]), 0
        return None

    def behind(self, place: Any, last: int, given: bool = False, /) -> Any:
        if given and not isinstance(place, int):
            return self.given(place, [(last, last)])
        return super().behind(place, last)

    def several(self, place: Any, most: int, taken: RangeSet, /) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        levels = self._available.parts.items()
        lines = {level: LevelLine(waiting, place.get(level, 1), taken) for level, waiting in levels}
        level, used = self._turn
        while lines and most:
            line, room = lines.get(level), self._shares.room((level, used), most)
            if line is None or not room:
                level, used = self._shares.next(level), 0
                continue
            count = line.head(room, found)
            if count < room:
                del lines[level]
            used += count
            most -= count
        return found

    def given(self, place: Any, parts: list[tuple[int, int]], /) -> Any:
        gone = Counter[int]()
        for first, last in parts:
            gone[self._available.part_of(last)] += last - first + 1
        self._ahead += gone.total()
        self._turn = self._shares.after(self._turn, gone)
        return super().given(place, parts)
