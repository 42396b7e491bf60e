"""Where a hosted queue stands between knowing nothing and being its broker's full copy: its states and legal moves.

VSR calls the same way back normal, recovering and state transfer. Whether the copy votes is the keeper's to know
(`Keeper.blank`): its vote may come back, by a committed `Rejoin`, before an update has brought the last message. And
what a replica reports of a queue.
"""

from __future__ import annotations

from enum import Enum

from msgspec import UNSET

from ..log.keeper import Keeper
from ..queue.state import QueueState
from ..queue.statistics import age_ms, figures
from ..status.machines import QueueStatus, UpdateStatus


class Status(Enum):
    BLANK = "blank"
    """It holds nothing: an earlier incarnation of this broker may have held a log, and that log is lost. It waits for
    an updater, or for a log that reaches back to its beginning, and reports itself again every
    `Timing.update_retry_ms`. It neither acknowledges nor serves."""

    UPDATING = "updating"
    """An updater has sent its sync point: the state is here without its messages, which come from the back to the
    front. Entries committed meanwhile are kept and not applied. It neither acknowledges nor serves."""

    JOINING = "joining"
    """The state is whole. It applies, acknowledges, and serves browsers. It shows no interest in the consume lock and
    takes no grant: until the `Rejoin`, `Return` or `Member` event of this incarnation is applied, a grant to its
    broker may be an older incarnation's. A queue that comes back with its log begins here."""

    SERVING = "serving"
    """No older incarnation of this broker has any say in the queue: there never was one, or the event that ends it is
    applied. It asks for the lock and delivers. A queue that the cluster has just declared begins here, and this state
    has no end but that of the queue or of the process."""


MOVES: dict[Status, frozenset[Status]] = {
    # an updater's sync point has come; the log has come from its beginning
    Status.BLANK: frozenset({Status.UPDATING, Status.JOINING}),
    # the updater is gone; another updater's sync point reaches further; all messages are here
    Status.UPDATING: frozenset({Status.BLANK, Status.UPDATING, Status.JOINING}),
    # an updater's sync point reaches further than the log does; the event of this incarnation is applied
    Status.JOINING: frozenset({Status.UPDATING, Status.SERVING}),
    Status.SERVING: frozenset(),
}


def queue_status(
    state: QueueState,
    consumers: int,
    applied: int,
    keeper: Keeper,
    update: UpdateStatus | None,
    replica: str,
    judged: bool = False,
    now_ms: int = 0,
) -> QueueStatus:
    """How a queue is at one replica; `judged`: it may refuse messages, or hold its producers back."""
    counted = figures(state)
    return QueueStatus(
        messages=state.available.count + state.acquired.messages() + state.delayed.ranges.count,
        available=state.available.count,
        acquired=state.acquired.messages(),
        dead_lettering=state.dead_lettering.count,
        bytes=state.bytes,
        owner=state.owner,
        grant=state.grant,
        handovers=state.handovers,
        enqueued=state.enqueued,
        dequeued=state.accepted + state.discarded + state.dead_lettered + state.expired + state.moved,
        accepted=state.accepted,
        discarded=state.discarded,
        dead_lettered=state.dead_lettered,
        expired=state.expired,
        consumers=consumers,
        applied=applied,
        blank=keeper.blank,
        update=update,
        replica=replica,
        durable=True if keeper.durability is not None else UNSET,
        refused=state.refused if judged else UNSET,
        flow_stopped=state.flow_stopped if judged else UNSET,
        flow_stopped_count=state.flow_stopped_count if judged else UNSET,
        acquires=counted.acquires,
        releases=counted.releases,
        bytes_in=counted.bytes_in,
        bytes_out=counted.bytes_out,
        discarded_ring=counted.ring,
        discarded_last_value=counted.last_value,
        discarded_purge=counted.purged,
        discarded_subscriber=counted.subscriber,
        discarded_too_often=counted.too_often,
        dead_expired=counted.dead_expired,
        dead_too_often=counted.dead_too_often,
        dead_pushed_out=counted.dead_pushed_out,
        dead_deleted=counted.dead_deleted,
        dissolved=list(state.batches.dissolved) if state.batches.dissolved else UNSET,
        absent=sorted(state.fence.absent) if state.batches.dissolved else UNSET,
        duplicates=counted.duplicates,
        age_ms=age_ms(state, now_ms),
        delayed=state.delayed.ranges.count,
        moved=state.moved,
    )
