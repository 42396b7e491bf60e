"""What members write to a disk that has no room (`durable.md` 6, case 2).

- I33: whoever has heard that its store has no room sends it no further entries that bring bodies, until it hears that
  there is some. What frees space is written all the same: bodies are moved forward, and what stands behind a checkpoint
  is written again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgpack
from mantamq.protocol.wire import events
from mantamq.protocol.wire.store_frames import Room, Taken, Write

from .disk_parser import ENTRIES
from .model import Violation
from .stores import Stores


class FullDisks:
    """Watches what is sent to the stores of a world.

    Attributes:
        counts: how much was seen: a checker that saw nothing has proved nothing.
    """

    def __init__(self, stores: Stores) -> None:
        self.counts: Counter[str] = Counter()
        self._world = stores.world
        self._heard_us: dict[str, int] = {}  # process -> when it heard that there is no room
        self._ends: dict[tuple[str, str], int] = {}  # (process, stream) -> up to which entry it has written
        self._stored: dict[tuple[str, str], int] = {}  # (store, stream) -> the same, by whichever process
        stores.world.watch(sent={Write: self._writes}, arrived={Room: self._hears, Taken: self._takes})
        stores.world.deaths.append(lambda name, machine: self._heard_us.pop(name, None))

    def _hears(self, source: str, target: str, frame: Room) -> None:
        if not frame.full:
            self._heard_us.pop(target, None)
        elif target not in self._heard_us:
            self.counts["full"] += 1
            self._heard_us[target] = self._world.now_us

    def _takes(self, source: str, target: str, frame: Taken) -> None:
        """It goes on where another process of its broker was, which wrote all that the store has."""
        if not frame.blank:
            self._ends[target, frame.stream] = self._stored.get((source, frame.stream), 0)

    def _writes(self, source: str, target: str, frame: Write) -> None:
        # What was handed out in the same step, before it heard, is on its way.
        full = self._heard_us.get(source, self._world.now_us) < self._world.now_us
        for kind, stream, payload in frame.records:
            if kind != ENTRIES:
                continue
            first, _commit, entries = msgpack.unpackb(payload)
            end = self._ends.get((source, stream), 0)
            self._ends[source, stream] = self._stored[target, stream] = first + len(entries) - 1
            self.counts["written"] += full
            if full and any(_brings(entry) for entry in entries[max(0, end + 1 - first) :]):
                raise Violation(f"I33: {source} writes new bodies of {stream} to {target}, which has no room")


def _brings(entry: Any) -> bool:
    _ballot, _seq, origin, _inc, _number, event = entry
    return bool(origin) and isinstance(events.decode_event(event), events.Enqueue)
