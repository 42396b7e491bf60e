"""Last value: of each key only the newest message waits, as Qpid has it.

The new message goes to the tail, and the one before it goes, if it waits. One that a consumer holds stays his: if it
comes back when there is a newer one, it goes then. A message without the key has the empty key.
"""

from __future__ import annotations

from typing import Any

from ..wire.events import Due, Enqueue, Event, Evict, Member, Modify, Moved, Rejoin, Release, Return
from .applied import Applied
from .state import QueueState
from .traits import Trait, traits

FORGET = 1_000
"""Keys without a message are forgotten when there are as many more of them as there are messages."""


class LastValue:
    """Part of the state of a last-value queue."""

    __slots__ = ("_of_key", "_state", "_trait")

    events: tuple[type[Event], ...] = (Enqueue, Release, Evict, Rejoin, Return, Member, Modify, Due, Moved)
    one_by_one = False

    def __init__(self, state: QueueState, trait: Trait) -> None:
        self._state = state
        self._trait = trait
        self._of_key: dict[str, list[int]] = {}  # key -> positions that its messages have, rising; some may be gone

    def applied(self, event: Any, done: Applied, /) -> None:
        available, blobs = self._state.available, self._state.blobs
        old: list[int] = []
        if type(event) is Enqueue:
            for first, last in done.positions:
                for position, key in enumerate(traits(event, last - first + 1, self._trait), first):
                    before = self._newest(key)
                    if before in available:
                        old.append(before)
                    self._of_key.setdefault(key, []).append(position)
            if len(self._of_key) > 2 * len(blobs) + FORGET:
                self._of_key = {key: positions for key, positions in self._of_key.items() if self._newest(key)}
        else:
            for first, last in done.positions:
                old += (p for p in range(first, last + 1) if p in available and self._newest(self._trait(blobs[p])) > p)
        if old:
            gone = [(position, position) for position in sorted(old)]
            self._state.tallies.last_value += self._state.discard(gone)
            done.dropped += ((position, position, False) for position, _ in gone)

    def _newest(self, key: str) -> int:
        """The position of the newest message of a key that is not gone; 0: there is none."""
        blobs, positions = self._state.blobs, self._of_key.get(key)
        if not positions:
            return 0
        if len(positions) > 1 or positions[0] not in blobs:
            positions[:] = [position for position in positions if position in blobs]
        return positions[-1] if positions else 0

    def restored(self) -> None:
        self._of_key = {}
        for position, blob in sorted(self._state.blobs.items()):
            self._of_key.setdefault(self._trait(blob), []).append(position)
