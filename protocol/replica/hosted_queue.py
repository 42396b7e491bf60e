"""Everything a queue replica keeps for one queue: its stream, its state, its consumers, and what is to be said soon.

Two things here may wait, because nobody waits for them: acquires gather behind their deliveries, and acknowledgements
which the sequencer does not need at once gather until a message's way is over.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..lock.holder import LockHolder
from ..log.keeper import Keeper
from ..queue.dispatch import Dispatcher
from ..queue.state import QueueState
from ..ranges import RangeSet, runs
from ..wire.events import Entry
from ..wire.log_frames import UpdateStart
from ..wire.queue_frames import OwnerIs
from .update import Updatee, Updater

ACQUIRE_MS = 2
"""How long acquires may gather behind their deliveries. Nobody waits for them: only the holder of the lock delivers,
and it orders them before it settles anything or gives the lock up. So a consumer that settles at once costs one round
of ordering instead of two, and none of it competes with the delivery for a core."""
ACQUIRE_RUNS = 512
"""As many runs are enough for one event."""
ACK_MS = 2
"""How long an acknowledgement may wait that another one makes superfluous (see `Append.distinguished_learner`)."""


class Settling:
    """Settles gathered for one event. Attributes: runs (flat), tags (subscription id, its number, lost at once,
    acquisitions it named), releasing (ids of subscriptions that wait for it)."""

    __slots__ = ("releasing", "runs", "tags")

    def __init__(self) -> None:
        self.releasing: list[int] = []
        self.runs: list[int] = []
        self.tags: list[tuple[int, int, list[int], set[int]]] = []


class Asked(NamedTuple):
    """One event submitted: the number of its request, which part of that it is in its stream, and what to do when it
    applies."""

    number: int
    part: int
    tag: object


class HostedQueue:
    """Everything this replica keeps for one queue.

    Attributes:
        state: the replicated state; `applied` is how far into the stream it goes.
        mine: what to do when my own events apply, oldest first.
        inc: incarnation under which this broker keeps the queue.
        joined: no older incarnation of it has any say: it never had one, or our `Rejoin` has been applied.
    """

    __slots__ = (
        "ack_at",
        "acquire_at",
        "acquires",
        "acquires_accepted",
        "applied",
        "buried",
        "dispatcher",
        "distinguished_learner",
        "eager",
        "expiries",
        "in_pieces",
        "interested",
        "joined",
        "keeper",
        "lock",
        "mine",
        "needs_ack",
        "retry_at",
        "settling",
        "state",
        "unapplied",
        "unburied",
        "update",
        "updated",
        "updates",
    )  # fmt: skip

    def __init__(self, id: str, alternate: str, keeper: Keeper) -> None:
        self.state = QueueState(id, alternate)
        self.keeper = keeper
        self.joined = not keeper.blank
        self.dispatcher = Dispatcher(self.state)
        self.lock = LockHolder()
        self.applied = 0
        self.mine: deque[Asked] = deque()
        self.needs_ack = False  # to the sequencer
        self.ack_at = 0  # when it must be told at the latest
        self.distinguished_learner = ""  # who must be told first, and at once: peer name of another replica
        self.unapplied: list[Entry] = []  # committed, to be applied when the learner has been told
        self.eager = False  # as the sequencer knows it
        self.interested = False
        self.acquires: list[int] = []
        self.acquires_accepted: list[int] = []
        self.acquire_at = 0  # when what has gathered in those is ordered at the latest
        self.settling: dict[int, Settling] = {}
        self.expiries: list[tuple[int, int]] = []  # heap of (expires_ms, position)
        self.buried: dict[int, int] = {}  # batch whose copies have been asked for -> which piece of it is on its way
        self.in_pieces = 0  # the batch of which there are further pieces, 0 for none
        self.unburied: deque[int] = deque()  # batches that wait for those
        self.update: Updatee | None = None  # under way to us
        self.updates: dict[str, Updater] = {}  # under way from us, by peer
        self.updated: Updatee | None = None  # the last one to us
        self.retry_at = 0  # when a blank replica that hears of no update asks again

    @property
    def inc(self) -> int:
        return self.keeper.inc

    def owner_is(self) -> OwnerIs:
        return OwnerIs(self.state.id, self.state.owner, self.state.grant)

    def restore(self, frame: UpdateStart, now_ms: int) -> None:
        """Begin an update at its sync point."""
        self.keeper.restore(frame)
        self.state.restore(frame.state)
        self.applied = frame.index
        self.unapplied = []
        self.update = self.updated = Updatee(frame, self.state.live().count, now_ms)
        self.expiries = sorted((at_ms, position) for position, at_ms in self.state.expiry.items())

    def asked(self, number: int, tag: object) -> None:
        """An event of ours goes out with request `number`."""
        part = self.mine[-1].part + 1 if self.mine and self.mine[-1].number == number else 1
        self.mine.append(Asked(number, part, tag))

    def overtaken(self, seen: tuple[int, int, int] | None, inc: int) -> list[object]:
        """Tags of events of ours that an update has brought with it: how they ended is not known. `seen`: the last
        request of this process, incarnation `inc`, that is in the log, as in `log_frames.Numbers`."""
        gone: list[object] = []
        while seen is not None and seen[0] == inc and self.mine and self.mine[0][:2] <= seen[1:]:
            gone.append(self.mine.popleft().tag)
        return gone

    def whole(self, now_ms: int) -> bool:
        """Whether an update has just become complete: all is here that was not dequeued by what is committed."""
        update = self.update
        if update is None or update.until < 0 or self.keeper.commit < update.until:
            return False
        self.state.fill(update.blobs)
        update.end(now_ms)
        self.update = None
        return True

    def acquires_due(self, now_ms: int) -> bool:
        """Whether the acquires that have gathered are to be ordered now; sets `acquire_at` for the first that are
        not."""
        gathered = len(self.acquires) + len(self.acquires_accepted)
        if not gathered:
            return False
        if not self.acquire_at:
            self.acquire_at = now_ms + ACQUIRE_MS
        return gathered >= 3 * ACQUIRE_RUNS or now_ms >= self.acquire_at

    def report(self) -> dict[str, object]:
        state = self.state
        return {
            "messages": state.available.count + state.acquired_count,
            "available": state.available.count,
            "acquired": state.acquired_count,
            "dying": state.dying.count,
            "bytes": state.bytes,
            "owner": state.owner,
            "grant": state.grant,
            "handovers": state.handovers,
            "enqueued": state.enqueued,
            "dequeued": state.accepted + state.discarded + state.dead_lettered + state.expired,
            "accepted": state.accepted,
            "discarded": state.discarded,
            "dead_lettered": state.dead_lettered,
            "expired": state.expired,
            "consumers": len(self.dispatcher.subscriptions),
            "applied": self.applied,
            "blank": self.keeper.blank,
            "update": self.updated.report() if self.updated is not None else None,
        }


def claim(held: dict[int, RangeSet], wanted: list[int]) -> tuple[list[int], list[int], set[int]]:
    """Take runs out of what a subscription holds.

    Args:
        held: acquisition -> positions; what is taken is removed.
        wanted: runs.

    Returns:
        (the runs it held, those it did not, the acquisitions of the first).
    """
    good: list[int] = []
    lost: list[int] = []
    acquisitions: set[int] = set()
    for acquisition, first, last in runs(wanted):
        mine = held.get(acquisition)
        if mine is None:
            lost += (acquisition, first, last)
            continue
        if mine.covers(first, last):
            good += (acquisition, first, last)
        else:
            rest = RangeSet([first, last])
            for a, b in mine.within(first, last):
                good += (acquisition, a, b)
                rest.remove(a, b)
            for a, b in rest:
                lost += (acquisition, a, b)
        acquisitions.add(acquisition)
        mine.remove(first, last)
        if not mine.count:
            del held[acquisition]
    return good, lost, acquisitions
