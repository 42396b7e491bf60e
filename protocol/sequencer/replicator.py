"""Log replication: a stream's keepers are sent the entries they lack, in one frame for all that stand at one place."""

from __future__ import annotations

from ..limits import Limits
from ..machine import Effect, Multicast
from ..wire.events import CLUSTER
from ..wire.log_frames import Append
from .order import Order
from .progress import Progress
from .stream import Stream


def replicate(order: Order, stream: Stream, effects: list[Effect], limits: Limits) -> None:
    """Send each keeper what it lacks; keepers at the same place share one frame."""
    if not stream.voters:
        return  # no keeper that knows them has reported; a blank one is told them first
    groups: dict[int, list[Progress]] = {}
    due = order.lazy.pop(stream.name, 0) is None and not order.lazy_at_ms
    # Eager ones first: usually the owner is, and a consumer waits for it.
    eager: list[Progress] = []
    patient: list[Progress] = []
    for keeper in stream.keepers.values():
        (eager if keeper.eager else patient).append(keeper)
    rank = 0  # among those that vote
    for keeper in eager + patient:
        if keeper.updating:
            continue
        behind = keeper.next <= stream.sendable
        uninformed = keeper.sent_commit < stream.commit
        if keeper.eager or due:
            told = behind or uninformed
        else:
            told = behind and rank <= len(stream.voters) // 2
        rank += keeper.voting
        if told:
            groups.setdefault(keeper.next, []).append(keeper)
        elif behind or uninformed:
            order.lazy[stream.name] = None
    alone = len(eager) == 1 and eager[0].voting and stream.name != CLUSTER and not stream.change
    learner = eager[0].peer if alone else ""
    for start, keepers in groups.items():
        while True:
            stop, complete = _batch_end(order, stream, start, keepers, limits)
            log = stream.log
            previous = start - 1
            frame = Append(
                order.ballot,
                stream.name,
                previous,
                stream.ballot_at(previous),
                stream.commit,
                stream.base,
                [log[i] for i in range(start, stop + 1)],
                learner,
                len(stream.voters) // 2 if learner else 0,
                stream.first_voters() if not previous else [],
            )
            # The learner last: it has to wait for another one's acknowledgement anyway.
            effects.append(Multicast([keeper.peer for keeper in reversed(keepers)], frame))
            for keeper in keepers:
                keeper.next = stop + 1
                keeper.sent_commit = stream.commit
            start = stop + 1
            if complete or start > stream.sendable:
                break


def _batch_end(order: Order, stream: Stream, start: int, keepers: list[Progress], limits: Limits) -> tuple[int, bool]:
    """Index of the last entry for an Append from `start`, and whether the keepers get no more for now."""
    if start > stream.sendable:
        return stream.sendable, True
    size, most, window = stream.size, limits.append_bytes, limits.keeper_window_bytes
    if stream.total - size[stream.held] <= min(most, window):  # as long as no keeper lacks much
        return stream.sendable, False
    before = size.get(start - 1, size.get(start, 0))
    slowest = min(keeper.match for keeper in keepers)
    if size[start] - size.get(slowest, size[start]) > window:
        order.dirty[stream.name] = None  # its acknowledgements re-open the window
        return start - 1, True
    if size[stream.sendable] - before <= most:
        return stream.sendable, False
    stop = start
    while stop < stream.sendable and size[stop + 1] - before <= most:
        stop += 1
    return stop, False
