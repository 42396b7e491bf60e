"""What fails of a transfer one of whose queues is gone before all is decided. Pure."""

from __future__ import annotations

from collections.abc import Collection

from ..errors import LOST, NOT_FOUND
from ..ranges import RangeSet, pairs
from ..wire.events import Enqueue, decode_event
from .routing import Parts, without


def failure(
    numbers: list[int], parts: Parts, lost: Collection[str], gone: Collection[str]
) -> tuple[list[int], str, str]:
    """What fails of these numbers, as ranges, with its code and text.

    All does where one of the queues was lost, and what it held with it. Where one was deleted, that which went to no
    other does: an exchange's sender does not choose the queues, and what has come to another is not to be sent again.

    Args:
        parts: queue id -> what is ordered in it.
        lost, gone: ids of queues that were lost; that were deleted since they were empty.
    """
    for queue, _ in parts:
        if queue in lost:
            return numbers, LOST, lost_text(queue.rpartition("#")[0])
    deleted = [queue for queue, _ in parts if queue in gone]
    if not deleted:
        return [], "", ""
    name = deleted[0].rpartition("#")[0]
    text = f"queue {name!r} was deleted, since it was empty: declare it first"
    return _nowhere_else(numbers, parts, gone), NOT_FOUND, text


def lost_text(queue: str) -> str:
    """What is said of a queue of that name which was lost."""
    return (
        f"queue {queue!r} was lost: most of its replicas died with what they held, and it can never go on; declare it "
        "again to begin anew"
    )


def _nowhere_else(numbers: list[int], parts: Parts, gone: Collection[str]) -> list[int]:
    """Of these numbers those which went to queues that are gone, and to no other."""
    went, stay = RangeSet(), RangeSet()
    for queue, encoded in parts:
        event = decode_event(encoded)
        if isinstance(event, Enqueue):
            (went if queue in gone else stay).update(pairs(event.numbers))
    alone = RangeSet(without(went.flat(), stay))
    return [n for first, last in pairs(numbers) for part in alone.within(first, last) for n in part]
