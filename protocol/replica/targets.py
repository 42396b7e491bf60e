"""What a broker is told of moved messages that are on their way: each with the key by which it finds its queue."""

from __future__ import annotations

from ..queue.moves import MOVED, MoveTarget
from ..queue.origins import numbered
from ..queue.state import QueueState
from ..queue.time_to_live import by_senders
from ..queue.traits import header_of
from ..wire.move_events import HOME, TO_QUEUE, TO_SUBJECT
from ..wire.queue_frames import DeadLetter

DIED_IN = "manta.death_queue"
"""The property in which a dead letter says where it died."""


def to_target(state: QueueState, name: int, blobs: dict[int, bytes], target: MoveTarget) -> DeadLetter:
    """A piece of a batch of moved messages."""
    expiry = by_senders(state, list(blobs))
    return DeadLetter(
        state.id,
        name,
        target.exchange,
        list(blobs.values()),
        *numbered(list(map(state.origins.of, blobs))),
        keys=[[_key(state, blob, target)] for blob in blobs.values()],
        expiry=[item for at, position in enumerate(blobs) if position in expiry for item in (at, expiry[position])],
        cause=MOVED,
        positions=list(blobs),
        key=target.key if target.by == TO_QUEUE else "",
    )


def _key(state: QueueState, blob: bytes, target: MoveTarget) -> str:
    if target.by == TO_SUBJECT:
        return header_of(blob).subject or state.id.rpartition("#")[0]
    if target.by == HOME:
        home = (header_of(blob).properties or {}).get(DIED_IN)
        return home if isinstance(home, str) else ""
    return target.key
