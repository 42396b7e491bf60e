"""Moves at the replica that a broker has asked for one: which messages go next, and how many have gone.

A move is many events of bounded size (`wire/move_events.py`), each a look at the next messages by their selector, so
that what else the queue does goes on between two of them; some batches of it are on their way at a time. A replica does
it while its broker has the consume lock, as a consumer's: so nothing goes that anybody was given. How far it is stands
in the queue's state. So an answer may come early, and the same move is asked for again, here or at another broker: it
goes on where it was. A move that finds nothing is ordered as well, without the lock: behind that, what another broker
chose for it is void, and "none" is true.
"""

from __future__ import annotations

from ..limits import DEFAULT, Limits
from ..lock.holder import LockHolder
from ..queue.applied import Applied
from ..queue.dispatch import Dispatcher
from ..queue.moves import MoveProgress
from ..queue.selector import selector
from ..queue.state import QueueState
from ..ranges import pairs
from ..wire.events import AnyEvent, Move
from ..wire.move_events import TO_QUEUE
from ..wire.queue_frames import MoveOrder, QueueCommand, QueueReply
from .consumers import QueueConsumers
from .dead_letters import DeadLetters
from .outbox import QueueOutbox
from .own_events import OwnEvents


class MoveJob:
    """One command. Attributes: waits, an event of it is under way; ranges, what that is to set aside; ready, it goes on
    as soon as this broker has the consume lock; before, so many had gone when it began, None: it has not begun."""

    __slots__ = ("before", "command", "order", "ranges", "ready", "waits")

    def __init__(self, command: QueueCommand, order: MoveOrder) -> None:
        self.command = command
        self.order = order
        self.waits = True
        self.ready = False
        self.ranges: list[int] = []
        self.before: int | None = None


class Moving:
    """The moves of one queue. Args: inc: incarnation under which the broker keeps it."""

    __slots__ = (
        "_consumers",
        "_dispatcher",
        "_inc",
        "_jobs",
        "_letters",
        "_limits",
        "_lock",
        "_outbox",
        "_own",
        "_state",
    )

    def __init__(
        self, state: QueueState, inc: int, consumers: QueueConsumers, dispatcher: Dispatcher, lock: LockHolder,
        letters: DeadLetters, own: OwnEvents, outbox: QueueOutbox, limits: Limits = DEFAULT,
    ) -> None:  # fmt: skip
        self._state = state
        self._inc = inc
        self._consumers = consumers
        self._dispatcher = dispatcher
        self._lock = lock
        self._letters = letters
        self._own = own
        self._outbox = outbox
        self._limits = limits
        self._jobs: list[MoveJob] = []

    def asked(self, command: QueueCommand, order: MoveOrder) -> MoveJob:
        """A broker asks: what is to come of it begins when an event that is asked for now has applied."""
        job = MoveJob(command, order)
        self._jobs.append(job)
        return job

    def applied(self, job: MoveJob, event: AnyEvent, done: Applied) -> None:
        """An event of the job has applied."""
        if type(event) is Move and done.aside:
            self._letters.begin(self._state.index)
        self._free(job)
        job.waits = False
        self.go_on()

    def ended(self, back: list[tuple[int, int]]) -> None:
        """A batch has come to its end, and these of it are back."""
        self._dispatcher.returned(back)
        self.go_on()

    def go_on(self) -> int:
        """Something has applied, or the lock has come here. Returns `Dispatcher.moving`."""
        for job in list(self._jobs):
            self._go_on(job)
        self._dispatcher.moving = 2 if any(job.ready for job in self._jobs) else int(bool(self._jobs))
        return self._dispatcher.moving

    def restored(self) -> None:
        """The state is another one: who asked asks again."""
        jobs, self._jobs = self._jobs, []
        self._dispatcher.moving = 0
        for job in jobs:
            self._free(job)
            self._answer(job, self._stands(job.order), True)

    def unhosted(self) -> list[QueueCommand]:
        """The queue is deleted: the commands that have no answer."""
        return [job.command for job in self._jobs]

    def _free(self, job: MoveJob) -> None:
        """What was to be set aside is, or can be given to consumers."""
        dispatcher = self._dispatcher
        freed, job.ranges = list(pairs(job.ranges)), []
        for first, last in freed:
            dispatcher.expiring.remove(first, last)
        dispatcher.returned(freed)

    def _stands(self, order: MoveOrder) -> MoveProgress:
        return self._state.batches.moves.get(order.token) or MoveProgress(0, self._state.next_position - 1)

    def _go_on(self, job: MoveJob) -> None:
        job.ready = False
        if job.waits:
            return
        order, stands, limits = job.order, self._stands(job.order), self._limits
        if job.before is None:
            job.before = stands.taken
        moved = stands.taken - stands.back
        refused = stands.back > 0 and order.by == TO_QUEUE
        waits = self._state.available.at_or_after(stands.after + 1)
        moves = self._state.batches.moves
        nothing = waits is None or waits[0] > stands.last
        ended = (nothing and order.token in moves) or refused or 0 < order.count <= moved
        under_way = moves.under_way(order.token)
        if ended or stands.taken - job.before >= limits.move_answered:
            if not under_way:
                self._jobs.remove(job)
                self._answer(job, stands, not ended)
        elif under_way < limits.move_batches:
            job.ready = not self._lock.held and not nothing
            if not job.ready:
                self._step(job, stands, order.count - moved if order.count else limits.move_messages)

    def _answer(self, job: MoveJob, stands: MoveProgress, more: bool) -> None:
        value = {"moved": stands.taken - stands.back, "left": stands.back, "more": more}
        self._outbox.send(self._outbox.broker, QueueReply(job.command.queue, job.command.number, value))

    def _step(self, job: MoveJob, stands: MoveProgress, most: int) -> None:
        self._consumers.gather()  # what was given to consumers here is ordered before
        order, dispatcher = job.order, self._dispatcher
        upto, job.ranges = self._chosen(order, stands, min(most, self._limits.move_messages))
        for first, last in pairs(job.ranges):
            dispatcher.expiring.add(first, last)
        job.waits = True
        if self._lock.held:
            self._lock.used()
        upto = max(upto, 1)  # of a queue that never had a message, too, it differs from where a move begins
        move = Move(
            order.token, self._outbox.broker, self._inc, self._lock.grant, stands.after, upto, stands.last, job.ranges,
            order.exchange, order.key, order.by,
        )  # fmt: skip
        self._own.submit(move, job)

    def _chosen(self, order: MoveOrder, stands: MoveProgress, most: int) -> tuple[int, list[int]]:
        """The next messages that go, at most so many: up to where was looked, and their ranges. Not what is on its way
        to a consumer, or expires, or is part of another move."""
        blobs, dispatcher = self._state.blobs, self._dispatcher
        taken, expiring = dispatcher.taken, dispatcher.expiring
        wanted = selector(order.selector) if order.selector else None
        looks, room = self._limits.move_looks, self._limits.move_bytes
        ranges: list[int] = []
        for first, last in self._state.available.since(stands.after + 1):
            if first > stands.last:
                break
            for position in range(first, min(last, stands.last) + 1):
                if not looks or not most or room <= 0:
                    return position - 1, ranges
                looks -= 1
                blob = blobs[position]
                if (taken.count and position in taken) or (expiring.count and position in expiring):
                    continue
                if wanted is not None and not wanted(blob):
                    continue
                most -= 1
                room -= len(blob)
                if ranges and ranges[-1] == position - 1:
                    ranges[-1] = position
                else:
                    ranges += (position, position)
        return stands.last, ranges
