"""The gathering of one queue's events: acquires behind their deliveries, and consumers' settlements.

Acquires may wait, since nothing depends on them but the settlements that quote them, a count, and the hand-over of the
lock: each of these orders what has gathered first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..queue.acquisitions import take_held
from ..range_columns import by_acquisition
from ..ranges import RangeSet, runs
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Accept, Acquire, AnyEvent, Modify, Reject, Release
from ..wire.queue_frames import ACCEPT, MODIFY, REJECT, RELEASE, Modification, Settle

ACQUIRE_RUNS = 512
"""As many runs are enough for one event."""

_BACK = (RELEASE, MODIFY)
_EVENTS = {ACCEPT: Accept, REJECT: Reject}
_encode = msgspec.msgpack.Encoder().encode


PATIENT = frozenset({Acquire, Accept})
"""The kinds of events that nobody waits for: a message that is accepted frees nothing that another consumer wants."""


class Settling:
    """Settlements of one kind, gathered for one event. Attributes: runs (flat), tags (subscription id, its number, runs
    lost at once, the runs that it still held), releasing (ids of subscriptions that wait for it), modification (of all
    of them)."""

    __slots__ = ("modification", "releasing", "runs", "tags")

    def __init__(self, modification: Modification | None = None) -> None:
        self.modification = modification
        self.releasing: list[int] = []
        self.runs: list[int] = []
        self.tags: list[tuple[int, int, list[int], list[int]]] = []


class Settlements:
    """Attributes:
    acquires: runs (flat) delivered to subscriptions that will settle them.
    acquires_accepted: runs delivered to subscriptions that will not: acquired is accepted.
    due_ms: when the acquires are ordered at the latest; 0 when none wait.
    """

    __slots__ = ("_acquire_ms", "_settling", "acquires", "acquires_accepted", "due_ms")

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._acquire_ms = timing.acquire_ms
        self.acquires: list[int] = []
        self.acquires_accepted: list[int] = []
        self.due_ms = 0
        self._settling: dict[int | tuple[bool, bytes], Settling] = {}

    def settle(self, frame: Settle, held: dict[int, RangeSet]) -> list[int]:
        """Gather what a subscription settles of what it holds; the runs that it gives back."""
        good, lost = claim(held, frame.runs)
        key = frame.kind if frame.modification is None else _key(frame.modification)
        settling = self._settling.get(key)
        if settling is None:
            settling = self._settling[key] = Settling(frame.modification)
        settling.runs += good
        settling.tags.append((frame.sub, frame.number, lost, good))
        if frame.kind in _BACK and good:
            settling.releasing.append(frame.sub)
            return good
        return []

    def anything(self) -> bool:
        return bool(self._settling or self.acquires or self.acquires_accepted)

    def gathered(self) -> Iterable[Settling]:
        """The settlements that wait to be ordered."""
        return self._settling.values()

    def due(self, now_ms: int) -> bool:
        """Whether what has gathered is to be ordered now; sets `due_ms` for the first acquires that are not."""
        if self._settling:
            return True
        if not self.acquires and not self.acquires_accepted:
            return False
        if not self.due_ms:
            self.due_ms = now_ms + self._acquire_ms
        return now_ms >= self.due_ms or len(self.acquires) + len(self.acquires_accepted) >= 3 * ACQUIRE_RUNS

    def events(
        self, broker: str, inc: int, grant: int, now_ms: int = 0
    ) -> list[tuple[AnyEvent | None, Settling | None]]:
        """Take all that has gathered, as events in an order that keeps every rule: acquires before the settlements that
        quote them. Where all that a `Settling` asks is lost there is no event, and its answer is due at once."""
        events: list[tuple[AnyEvent | None, Settling | None]] = []
        self.due_ms = 0
        if self.acquires:
            events.append((Acquire(broker, inc, grant, self.acquires), None))
            self.acquires = []
        if self.acquires_accepted:
            events.append((Acquire(broker, inc, grant, self.acquires_accepted, True), None))
            self.acquires_accepted = []
        if self._settling:
            settling, self._settling = self._settling, {}
            for kind, gathered in settling.items():
                event: AnyEvent | None = None
                if gathered.runs and (said := gathered.modification) is not None:
                    due_ms = said.delay_ms and now_ms + said.delay_ms
                    event = Modify(broker, inc, gathered.runs, said.failed, said.annotations, due_ms, now_ms)
                elif gathered.runs and kind == RELEASE:
                    event = Release(broker, inc, gathered.runs, at_ms=now_ms)
                elif gathered.runs:
                    event = _EVENTS[kind](broker, inc, gathered.runs)  # type: ignore[index]
                events.append((event, gathered))
        return events


def _key(said: Modification) -> tuple[bool, bytes]:
    """Equal for those that go as one event."""
    return said.failed, _encode([said.annotations, said.delay_ms])


def claim(held: dict[int, RangeSet], wanted: list[int]) -> tuple[list[int], list[int]]:
    """Take runs out of what a subscription holds.

    Args:
        held: acquisition -> positions; what is taken is removed.
        wanted: runs.

    Returns:
        (the runs it held, those it did not).
    """
    good: list[int] = []
    lost: list[int] = []
    for acquisition, firsts, lasts in by_acquisition(wanted):
        found, missing = take_held(held, acquisition, firsts, lasts)
        for first, last in found:
            good += (acquisition, first, last)
        for first, last in missing:
            lost += (acquisition, first, last)
    return good, lost


def common(some: list[int], others: list[int]) -> list[int]:
    """What is in both of two flat lists of runs, of which neither names a message twice."""
    found: list[int] = []
    for acquisition, first, last in runs(some):
        for other, a, b in runs(others):
            if acquisition == other and first <= b and a <= last:
                found += (acquisition, max(first, a), min(last, b))
    return found
