"""When each message of a queue came, to the millisecond: by the clock of the broker that took it from its sender.

An enqueue's messages have one time, and enqueues of one millisecond share it: so times are kept, and told, by the run
of positions, and a queue pays by the enqueue, not by the message. Enqueues of members before minor 9 bring no time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable

from ..ranges import RangeSet, pairs

SPARE = 1024
"""Runs of messages that are gone are forgotten when there are this many more runs than twice the messages."""
UNKNOWN = 0


class EnqueueTimes:
    """Part of a queue's replicated state.

    Args:
        flat: ``[position, Unix ms, ...]``, by rising position: the message there, and those behind it up to the next,
            came then; 0: nobody has said when.
        spare: of runs that may be of messages that are gone.
    """

    __slots__ = ("_firsts", "_last", "_spare", "_times")

    def __init__(self, flat: Iterable[int] = (), spare: int = SPARE) -> None:
        self._spare = spare
        self.assign([*flat])

    def assign(self, flat: list[int]) -> None:
        """Be what a new one of these would be."""
        self._firsts = array("q", [1])
        self._times = array("q", [UNKNOWN])
        self._last = UNKNOWN
        for first, at_ms in pairs(flat):
            self._begin(first, at_ms)

    def came(self, first: int, at_ms: int, messages: int, live: Callable[[], RangeSet]) -> None:
        """The messages from position `first` on came at this time. `messages`: how many are in the queue with them;
        `live`: where those are."""
        if at_ms == self._last:
            return
        self._begin(first, at_ms)
        if len(self._firsts) > 2 * messages + self._spare:
            self.assign(self.flat(live(), first))

    def _begin(self, first: int, at_ms: int) -> None:
        self._last = at_ms
        if self._firsts[-1] == first:
            self._times[-1] = at_ms
        else:
            self._firsts.append(first)
            self._times.append(at_ms)

    def flat(self, live: RangeSet, end: int) -> list[int]:
        """The times of these messages, as given to a new one; equal for equal queues, whatever they have forgotten.
        `end`: a position behind which nothing lives but what came last."""
        firsts, times = self._firsts, self._times
        flat, said = list[int](), UNKNOWN
        for first, last in live:
            at = bisect_right(firsts, first) - 1
            while at < len(firsts) and firsts[at] <= last:
                if times[at] != said:
                    said = times[at]
                    flat += (max(first, firsts[at]), said)
                at += 1
        if said != self._last:
            flat += (end, self._last)  # what comes next at that time begins no run
        return flat

    def column(self, parts: list[tuple[int, int]]) -> list[int]:
        """Flat ``[index, Unix ms, ...]`` of messages at these positions, by their index in `parts`: that one and those
        behind it up to the next came then. Nothing is said of the first ones if their time is not known."""
        firsts, times = self._firsts, self._times
        if len(parts) == 1 and parts[0][0] >= firsts[-1]:
            return [0, self._last] if self._last else []
        flat, said, index = list[int](), UNKNOWN, 0
        low, high = 1, 0  # the run that was said last
        for first, last in parts:
            if not (low <= first and last < high):
                at = bisect_right(firsts, first) - 1
                while at < len(firsts) and firsts[at] <= last:
                    if times[at] != said:
                        said = times[at]
                        flat += (index + max(0, firsts[at] - first), said)
                    at += 1
                low, high = firsts[at - 1], firsts[at] if at < len(firsts) else last + 1
            index += last - first + 1
        return flat
