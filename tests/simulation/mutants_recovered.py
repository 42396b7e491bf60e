"""Bugs of what is on disk and comes back from it, planted on purpose, as in `mutants.py`; looked for in stories whose
brokers have stores, with more of what befalls disks."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.log import checkpoint
from mantamq.protocol.log.durability import Durability
from mantamq.protocol.replica.checkpoints import Checkpoints
from mantamq.protocol.store.owners import Owners
from mantamq.protocol.stored import queue as stored_queue
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.stored.queue import StoredQueue
from msgspec.structs import replace

from .planting import planted
from .world import World

Patch = pytest.MonkeyPatch


def applied_before_flush(patch: Patch) -> None:
    appended = Durability.appended

    def early(self: Any, *arguments: Any) -> int:
        appended(self, *arguments)
        return self.known

    patch.setattr(Durability, "appended", early)


def base_is_moved_before_the_move_is_flushed(patch: Patch) -> None:
    """A checkpoint says that it needs nothing of what is just being moved, while that is still where it was."""
    complete = Checkpoints.complete

    def hasty(self: Any, record: Any) -> Any:
        return replace(complete(self, record), low=max(self._upto, self.extents.low))

    patch.setattr(Checkpoints, "complete", hasty)
    patch.setattr(Checkpoints, "move", lambda self: None)


def a_checkpoint_stands_for_what_is_not_applied(patch: Patch) -> None:
    def over(self: Any) -> None:
        self._wanted = False
        self.checkpoints.under_way = True
        record = checkpoint.checkpoint_of(self.keeper, stored_queue._encode(self.state.snapshot()))
        index = min(self.keeper.end, record.index + 1)
        ballot, seq = self.keeper.place(index)
        record = replace(
            record, index=index, ballot=ballot, seq=seq, extents=self.checkpoints.extents.flat(),
            low=self.checkpoints.extents.low, live_bytes=self.state.bytes,
        )  # fmt: skip
        self.checkpoints.put(record, self.keeper.durability.checkpoint(record, self.checkpoints.checkpointed))

    patch.setattr(StoredQueue, "_write_checkpoint", over)


def numbers_are_not_stored(patch: Patch) -> None:
    """The last request of each origin is not in the checkpoint: a repeat would be carried out again."""
    patch.setattr(
        stored_queue,
        "checkpoint_of",
        lambda keeper, outline: replace(checkpoint.checkpoint_of(keeper, outline), numbers={}),
    )


def a_life_is_used_again(patch: Patch) -> None:
    """A broker that comes back says that it is the process it was."""
    start = World._start_broker

    def again(self: Any, broker: str) -> None:
        if self.stores is not None and broker in self.stores.disks:
            self._incs[broker] -= 10_000
        start(self, broker)

    patch.setattr(World, "_start_broker", again)
    take = Owners.take
    patch.setattr(Owners, "take", lambda self, peer, stream, life, opened: take(self, peer, stream, life, 0))


def an_emptied_disk_votes(patch: Patch) -> None:
    """A broker whose store is new begins as if there had never been another."""
    init = StoredBrokerMachine.__init__

    def born(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options | {"blank": False})

    patch.setattr(StoredBrokerMachine, "__init__", born)


ALL = planted(globals())
