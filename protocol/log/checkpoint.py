"""A stream's checkpoint, as its keeper stands: what recovery begins with, instead of all that was written before; and
the first record of each life.

It speaks of a committed index that its owner has applied (`durable.md` 2). What the keeper holds behind that is written
again right behind the checkpoint, in the same write, so that a checkpoint of a small stream names no earlier record.
"""

from __future__ import annotations

from ..wire.records import CheckpointRecord, EntriesRecord, OpenedRecord
from .keeper import Keeper

ENTRY_BYTES = 512
"""When a checkpoint is due, an entry counts as so many bytes at least: who reads the stream back has to apply it again,
however small it is."""


def opening_of(keeper: Keeper, voters: list[str]) -> OpenedRecord:
    """What is written when `keeper`'s process has taken its stream; `voters`: as in `OpenedRecord`."""
    return OpenedRecord(keeper.life, keeper.log_inc, keeper.blank, voters, keeper.earlier)


def checkpoint_of(keeper: Keeper, outline: bytes) -> CheckpointRecord:
    """The checkpoint at the commit index; `outline` is what the entries up to there have made. No earlier record is
    named in it: `tail_of` must be written behind it."""
    index, durability = keeper.commit, keeper.durability
    ballot, seq = keeper.place(index)
    known = durability.known if durability is not None else index
    return CheckpointRecord(
        0, 0, keeper.life, keeper.log_inc, keeper.blank, index, ballot, seq, keeper.numbers, keeper.incs,
        keeper.voters, keeper.lives, max(known, index), outline, over=keeper.over,
        earlier=keeper.earlier,
    )  # fmt: skip


def tail_of(keeper: Keeper) -> EntriesRecord | None:
    """The entries held behind the commit index; None for none."""
    entries = keeper.entries(keeper.commit + 1, keeper.end)
    return EntriesRecord(keeper.commit + 1, keeper.commit, entries) if entries else None
