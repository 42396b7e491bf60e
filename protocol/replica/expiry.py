"""The clock's say, made ready to become an event: which messages of a queue have expired and can go."""

from __future__ import annotations

import heapq

from .hosted_queue import HostedQueue

RANK_MS = 100
"""Un-owned queues are swept by the first broker; each next one waits this much longer, in case it is gone."""
HELD_MS = 1000
"""How long to wait before looking again at one that is with a consumer: it expires if it comes back."""


def expired(hosted: HostedQueue, broker: str, rank: int, now_ms: int) -> tuple[list[int], int]:
    """What this broker is to let expire now: the owner does it, or for an un-owned queue the first that is there.

    Returns:
        (ranges of positions, marked as expiring; when to look again in ms, 0 for not before something changes).
    """
    state, heap = hosted.state, hosted.expiries
    if state.owner and state.owner != broker:
        while heap and heap[0][1] not in state.expiry:
            heapq.heappop(heap)
        return [], 0
    wait_ms = 0 if state.owner else rank * RANK_MS
    due: list[int] = []
    waiting: list[tuple[int, int]] = []
    while heap and (heap[0][1] not in state.expiry or heap[0][0] + wait_ms <= now_ms):
        expires_ms, position = heapq.heappop(heap)
        if position not in state.expiry:
            continue
        if position in state.available and position not in hosted.dispatcher.taken:
            due.append(position)
        else:
            waiting.append((expires_ms + HELD_MS, position))
    for item in waiting:
        heapq.heappush(heap, item)
    for position in due:
        hosted.dispatcher.expiring.add(position, position)
    ranges = [edge for position in sorted(due) for edge in (position, position)]
    return ranges, heap[0][0] + wait_ms if heap else 0


def note_expiry(hosted: HostedQueue, positions: list[tuple[int, int]]) -> None:
    """Messages have come, of which some expire."""
    expiry = hosted.state.expiry
    for first, last in positions:
        for position in range(first, last + 1):
            if position in expiry:
                heapq.heappush(hosted.expiries, (expiry[position], position))
