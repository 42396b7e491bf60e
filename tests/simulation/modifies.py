"""What consumers say of messages that they give back, in half of the stories; who is not given one again, and what the
next ones read.

A subscription that has given a message back as undeliverable to itself is never given it again (judged here, at the
replica, and at the user's receiver through all its brokers in `boxes.py`). A message is what was sent, with what was noted
on it in the order of the committed log.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.protocol.wire.queue_frames import Cancel, Consume, Deliver, Modification, Settle

from .model import Violation, each, each_run

if TYPE_CHECKING:
    from .world import World

SHARE = 0.5
"""Of the stories."""
INSTEAD = 0.8
"""In these, of what would be released."""
NOTES: tuple[dict[str, Any], ...] = (
    {}, {"a": 1}, {"a": 2, "b": "x"}, {"b": [None, {"c": b"y"}]}, {"a": "x" * 3_000}, {"c": "y" * 6_000},
)  # fmt: skip


class Modifies:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"modify, {seed}")
        self._some = self._rng.random() < SHARE

    def instead(self, here: bool) -> Modification | None:
        """What is said where a message is given back; None: it is released. `here`: it may be undeliverable here."""
        rng = self._rng
        if not self._some or rng.random() > INSTEAD:
            return None
        return Modification(rng.random() < 0.5, here and rng.random() < 0.6, rng.choice(NOTES))


class Undeliverable:
    """What each subscription has said it is not to be given. Attributes: judged (deliveries to such as said so)."""

    def __init__(self, world: World) -> None:
        self.judged = 0
        self._not: dict[tuple[str, int], set[int]] = {}  # (replica, subscription) -> positions
        self._held: dict[tuple[str, int], set[tuple[int, int]]] = {}
        world.watch(
            sent={Deliver: self._given}, arrived={Settle: self._settled, Consume: self._comes, Cancel: self._leaves}
        )
        world.deaths.append(self._died)

    def of(self, replica: str, sub: int) -> set[int]:
        return self._not.get((replica, sub), set())

    def _died(self, name: str, machine: Any) -> None:
        self._not = {key: positions for key, positions in self._not.items() if key[0] != name}
        self._held = {key: items for key, items in self._held.items() if key[0] != name}

    def _comes(self, source: str, target: str, frame: Consume) -> None:
        if frame.undeliverable:
            self._not[target, frame.sub] = set(each(frame.undeliverable))

    def _leaves(self, source: str, target: str, frame: Cancel) -> None:
        self._not.pop((target, frame.sub), None)
        self._held.pop((target, frame.sub), None)

    def _given(self, source: str, target: str, frame: Deliver) -> None:
        key = source, frame.sub
        positions = each(frame.ranges)
        if frame.acquisition:
            self._held.setdefault(key, set()).update((frame.acquisition, position) for position in positions)
        if refused := self._not.get(key):
            self.judged += 1
            if again := refused.intersection(positions):
                raise Violation(f"{source} gives {sorted(again)[:5]} to {frame.sub}, undeliverable to it by its word")

    def _settled(self, source: str, target: str, frame: Settle) -> None:
        held = self._held.get((target, frame.sub), set())
        items = held.intersection(each_run(frame.runs))
        held -= items
        if frame.modification is not None and frame.modification.undeliverable_here:
            self._not.setdefault((target, frame.sub), set()).update(position for _, position in items)
