"""Bugs of brokers with stores, planted on purpose, as in `mutants.py`; looked for in stories whose brokers have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker import store_link
from mantamq.protocol.broker.store_link import StoredWiring
from mantamq.protocol.log.checkpoint import checkpoint_of
from mantamq.protocol.log.durability import RecordWriter
from mantamq.protocol.queue.batches import NOBODY
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.sequencer.order import Order
from mantamq.protocol.stored.hosting import Hosting
from mantamq.protocol.wire.events import Return, decode_event
from mantamq.protocol.wire.records import OpenedRecord, encode_record
from mantamq.store.log.containers import Containers
from mantamq.store.log.log import Log
from mantamq.store.log.survey import Survey
from msgspec.structs import replace

from ..store.disks import SimulatedFiles
from .planting import planted

Patch = pytest.MonkeyPatch


def hosting_is_the_applied_wiring(patch: Patch) -> None:
    """A queue whose declaration is not known as committed here counts as one that was never kept."""
    patch.setattr(Hosting, "queues", lambda self: [queue.id for queue in self._cluster.wiring.queues()])


def return_is_not_ordered(patch: Patch) -> None:
    """A broker that comes back with its log is never told that it is back."""
    append = Order.append

    def mute(self: Any, stream: Any, event: bytes) -> None:
        if type(decode_event(event)) is not Return:
            append(self, stream, event)

    patch.setattr(Order, "append", mute)


def blank_is_not_written(patch: Patch) -> None:
    """A log that does not vote yet comes back as one that does."""

    def encoded(record: Any) -> bytes:
        return encode_record(replace(record, blank=False) if isinstance(record, OpenedRecord) else record)

    patch.setattr(store_link, "encode_record", encoded)
    patch.setattr(store_link, "checkpoint_of", lambda *arguments: replace(checkpoint_of(*arguments), blank=False))


def others_are_heard_before_the_life_is_on_disk(patch: Patch) -> None:
    patch.setattr(StoredWiring, "opened", property(lambda self: True, lambda self, value: None), raising=False)


def last_batch_is_not_written_again(patch: Patch) -> None:
    find = Survey._find_end

    def found(self: Any) -> int:
        end = find(self)
        self.again = None
        return end

    patch.setattr(Survey, "_find_end", found)


def containers_are_freed_at_the_end(patch: Patch) -> None:
    """The base is moved to where the log ends, not to what is needed."""
    patch.setattr(Log, "free_below", _too_far(Log.free_below))


def _too_far(free_below: Callable[..., None]) -> Callable[..., None]:
    return lambda self, lsn: free_below(self, self.end)


def names_are_not_flushed(patch: Patch) -> None:
    """A container is renamed, and its folder not flushed."""
    take = Containers.take

    def hasty(self: Any, *arguments: Any) -> Any:
        sync, self._files.sync_folder = self._files.sync_folder, lambda path: None
        try:
            return take(self, *arguments)
        finally:
            self._files.sync_folder = sync

    patch.setattr(Containers, "take", hasty)


def the_disk_lies(patch: Patch) -> None:
    init = SimulatedFiles.__init__
    patch.setattr(
        SimulatedFiles, "__init__", lambda self, seed=0, **options: init(self, seed, **options | {"lies": True})
    )


def the_reserve_is_spent_on_bodies(patch: Patch) -> None:
    """A store that has no room is sent bodies all the same."""
    room = RecordWriter.room

    def deaf(self: Any, frame: Any) -> None:
        room(self, replace(frame, full=False))

    patch.setattr(RecordWriter, "room", deaf)


def who_comes_past_it_leaves_what_was_rejected(patch: Patch) -> None:
    """Of a broker that is out: whoever knew that it was to be finished may be gone."""

    def restored(self: Any, broker: str) -> None:
        for index, (of, _) in self._state.batches.items():
            if index and of in (NOBODY, broker):
                self.begin(index)

    patch.setattr(DeadLetters, "restored", restored)


OF_POWER = ("hosting_is_the_applied_wiring",)
"""Looked for where nodes lose power all at once (`losses.py`)."""


ALL = planted(globals())
