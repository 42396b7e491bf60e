"""The rules of `Move` and `Moved`: messages go on to another queue since an operator has ordered it.

They are batches as dead letters are: their places are kept until their copies are committed elsewhere, and any replica
finishes what another began. A batch of them has a target of its own, and what that does not take returns to its place.
"""

from __future__ import annotations

from typing import Protocol

from ..ranges import RangeSet, pairs
from ..wire.move_events import DISCARD, Move, Moved
from .applied import Applied
from .batches import Batches
from .fence import Fence
from .moves import MOVED, MoveProgress, MoveTarget
from .snapshot import Tallies


class _State(Protocol):
    """Of a `QueueState` what these rules need."""

    index: int
    moved: int
    owner: str
    grant: int
    available: RangeSet
    dead_lettering: RangeSet
    batches: Batches
    fence: Fence
    tallies: Tallies

    def set_aside(self, ranges: list[tuple[int, int]], cause: str, broker: str = "") -> Applied: ...

    def discard(self, ranges: list[tuple[int, int]]) -> int: ...

    def dequeue(self, positions: list[tuple[int, int]]) -> int: ...


def move(state: _State, event: Move) -> Applied:
    """The rule of `Move`."""
    moves = state.batches.moves
    stands = moves.get(event.token, MoveProgress(0, event.last))
    if event.after != stands.after or state.fence.is_out(event.broker, event.inc):
        return Applied(effective=False)
    if event.ranges and (event.broker, event.grant) != (state.owner, state.grant):
        return Applied(effective=False)
    chosen = [part for first, last in pairs(event.ranges) for part in state.available.within(first, last)]
    count = sum(last - first + 1 for first, last in chosen)
    moves.note(event.token, MoveProgress(event.upto, event.last, stands.taken + count, stands.back))
    if event.by == DISCARD:
        state.tallies.purged += state.discard(chosen)
        return Applied(positions=chosen)
    if chosen:
        moves.targets[state.index] = MoveTarget(event.token, event.exchange, event.key, event.by)
    return state.set_aside(chosen, MOVED, event.broker)


def moved(state: _State, event: Moved) -> Applied:
    """The rule of `Moved`: `positions` have returned, and `lost` says as runs, of no acquisition, what has gone."""
    moves, batch = state.batches.moves, RangeSet()
    batch.update(sorted(pairs(state.batches.end(event.batch))))
    target = moves.targets.pop(event.batch, None)
    back = [part for first, last in pairs(event.back) for part in batch.within(first, last)]
    for first, last in batch:
        state.dead_lettering.remove(first, last)
    for first, last in back:
        batch.remove(first, last)
        state.available.add(first, last)
    gone = list(batch)
    state.moved += state.dequeue(gone)
    if back:
        count = sum(last - first + 1 for first, last in back)
        state.batches.died[MOVED] -= count
        if target is not None and (stands := moves.get(target.token)) is not None:
            moves[target.token] = stands._replace(back=stands.back + count)
    return Applied(positions=back, lost=[number for part in gone for number in (0, *part)])
