"""What is counted of a queue for its users, and decides nothing.

Each number is a function of the stream, so it is the same on every replica, and it travels in the snapshot. What can be
told from other numbers is not counted: an acquired message has been accepted, has come back, is gone or is still held,
so that acquires and what went out cost nothing where messages pass.

When the oldest message came is each replica's own word, a second or less too early: no event says what time it is.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from .batches import DELETED, DELIVERY_LIMIT, EXPIRED, MAXLEN
from .moves import MOVED
from .state import QueueState

STEP_MS = 1000
MOST_ARRIVALS = 1024


class Figures(NamedTuple):
    """Counts of messages, but for the bytes, since the queue was declared.

    Attributes:
        acquires: given to consumers, as often as they were. releases: came back from them, or since their broker ended.
        bytes_in, bytes_out: of the messages that came in, and of those that have gone; encoded.
        ring: went since others came, and the queue is full. last_value: a newer one of their key came.
        purged: by `purge`, or as the queue destroyed itself. subscriber: were rejected, and there is no alternate
            exchange. too_often: came back more often than they may, and there is none.
        duplicates: did not come in, since a message with their id had come lately.
        dead_expired, dead_too_often, dead_pushed_out, dead_deleted: were set aside for the alternate exchange since
            they had expired, had come back too often, had to make room, or were in it when it was deleted.
    """

    acquires: int
    releases: int
    bytes_in: int
    bytes_out: int
    ring: int
    last_value: int
    purged: int
    subscriber: int
    too_often: int
    dead_expired: int
    dead_too_often: int
    dead_pushed_out: int
    dead_deleted: int
    duplicates: int


def figures(state: QueueState) -> Figures:
    counted = state.tallies
    ring, last_value, purged = counted.ring, counted.last_value, counted.purged
    subscriber = state.discarded - state.refused - ring - last_value - purged - counted.too_often - counted.duplicates
    dead = [state.batches.died.get(cause, 0) for cause in (EXPIRED, DELIVERY_LIMIT, MAXLEN, DELETED)]
    # What an exchange sends on nobody has had: it has no alternate.
    set_aside = state.dead_lettered + state.dead_lettering.count + state.moved - state.batches.died.get(MOVED, 0)
    rejected = set_aside - sum(dead) if state.alternate else 0
    settled = state.accepted + rejected + subscriber
    acquires = settled + counted.releases + counted.revoked + state.acquired.messages()
    # A program before minor 8 has not counted: what it brought is not taken for less than nothing.
    out = max(0, counted.bytes_in - state.bytes)
    went = ring, last_value, purged, max(0, subscriber), counted.too_often
    expired, too_often, pushed_out, deleted = dead
    causes = expired, too_often, pushed_out, deleted, counted.duplicates
    return Figures(acquires, counted.releases, counted.bytes_in, out, *went, *causes)


def held_by(state: QueueState) -> dict[str, int]:
    """Broker -> how many messages its consumers hold."""
    found: dict[str, int] = {}
    for (broker, _, _), held in state.acquired.items():
        found[broker] = found.get(broker, 0) + held.count
    return found


def arrived(state: QueueState, now_ms: int) -> None:
    """Note when the messages came that have come since the last time. Called now and then, whatever came."""
    counted = state.tallies
    if state.next_position == counted.arrived_to:
        return
    arrivals = counted.arrivals
    if not arrivals or now_ms >= arrivals[-1][1] + STEP_MS:
        if len(arrivals) >= MOST_ARRIVALS:
            oldest = _oldest(state)
            del arrivals[: max(0, bisect_left(arrivals, (oldest + 1,)) - 1)]
            if len(arrivals) >= MOST_ARRIVALS // 2:
                del arrivals[1::2]
        arrivals.append((counted.arrived_to, now_ms))
    counted.arrived_to = state.next_position


def age_ms(state: QueueState, now_ms: int) -> int:
    """For how long the oldest message that is not gone has been in the queue; 0: there is none."""
    arrivals = state.tallies.arrivals
    if not state.blobs or not arrivals:
        return 0
    at = bisect_left(arrivals, (_oldest(state) + 1,)) - 1
    return max(0, now_ms - arrivals[max(0, at)][1])


def _oldest(state: QueueState) -> int:
    """The position of the oldest message that is not gone; the next one, if there is none."""
    there = state.available, state.dead_lettering, state.delayed.ranges, *state.acquired.values()
    held = [ranges.first for ranges in there if ranges]
    return min(held, default=state.next_position)
