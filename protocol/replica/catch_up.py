"""A replica's part in updates, as updater and as updatee; what they are made of is in `update.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..queue.dispatch import Looked
from ..queue.state import QueueState
from ..timing import UPDATE_RETRY_MS
from ..wire.events import ZERO
from ..wire.log_frames import Evicted, Update, UpdateFront, UpdateStart, UpdateTaken
from ..wire.queue_frames import Cancel, Cancelled, QueueCommand, QueueReply
from .hosted_queue import HostedQueue, Settling
from .update import PROCESS_BYTES_S, Pace, Updatee, Updater

if TYPE_CHECKING:
    from .machine import ReplicaMachine


class CatchUp:
    """Of one replica."""

    def __init__(self, machine: ReplicaMachine) -> None:
        self.machine = machine
        self._pace = Pace(PROCESS_BYTES_S)

    def ask_again(self, id: str, hosted: HostedQueue) -> None:
        """A blank replica whose update does not come: begin anew with another updater."""
        if not hosted.keeper.blank:
            self.machine.retire(f"{id}: its vote came back before its messages, and now its updater is gone")
            return
        hosted.update = None
        hosted.unapplied = []
        hosted.keeper.restore(UpdateStart(id, "", "", 0, ZERO, 0, {}, {}, None))
        hosted.state.restore(QueueState(id).outline())
        hosted.applied = 0
        hosted.retry_at = self.machine.now_ms + UPDATE_RETRY_MS
        self.machine.set_timer(id, hosted.retry_at)
        if self.machine.view.leader:
            self.machine.send(self.machine.view.leader, hosted.keeper.log_report())

    def give_to(self, frame: Update) -> None:
        """We are the updater."""
        hosted = self.machine.queues.get(frame.stream)
        if (
            hosted is None
            or hosted.keeper.blank
            or hosted.update is not None
            or frame.updatee not in self.machine.fellows
        ):
            return  # the updatee will ask again and get another
        self.machine.apply(hosted)
        hosted.updates[frame.updatee] = Updater(hosted.state, frame.updatee)
        self.machine.send(frame.updatee, hosted.keeper.update(self.machine.name, frame.updatee, hosted.state.outline()))
        self.machine.dirty[frame.stream] = None

    def started(self, frame: UpdateStart) -> None:
        hosted = self.machine.queues.get(frame.stream)
        if hosted is None or not hosted.keeper.blank or frame.index <= hosted.keeper.end:
            return  # we vote, or another updater's word came first and reaches as far
        hosted.restore(frame, self.machine.now_ms)
        for tag in hosted.overtaken(frame.numbers.get(self.machine.name), self.machine.inc):
            if isinstance(tag, Cancel):
                self.machine.send(self.machine.broker, Cancelled(frame.stream, tag.sub))
            elif isinstance(tag, QueueCommand):
                lost = {"error": "the replica of this queue has been brought up to date meanwhile: ask again"}
                self.machine.send(self.machine.broker, QueueReply(frame.stream, tag.number, lost))
            elif isinstance(tag, Looked):
                hosted.dispatcher.looked(tag)
            elif isinstance(tag, Settling):
                hosted.dispatcher.released(tag.releasing)
        self.fenced(hosted, hosted.state.evicted.get(self.machine.broker, -1))
        if self.machine.view.leader:
            self.machine.send(self.machine.view.leader, hosted.keeper.log_report())

    def fenced(self, hosted: HostedQueue, inc: int) -> None:
        """This broker is out of the queue up to incarnation `inc`. If that is beyond ours, all of the broker is out; it
        may be that its other streams never say so, because the sequencer has died."""
        if inc > hosted.inc:
            reason = f"{self.machine.broker} was evicted from {hosted.state.id}"
            self.machine.send(self.machine.broker, Evicted(reason))
        if inc >= hosted.inc:
            self.machine.retire(f"{self.machine.broker} is out of {hosted.state.id}: another incarnation takes over")

    def front(self, frame: UpdateFront) -> None:
        hosted = self.machine.queues.get(frame.stream)
        update = hosted.update if hosted is not None else None
        if hosted is None or update is None or update.updater != self.machine.sender or not update.take(frame):
            return
        self._take(frame.stream, update, sum(map(len, frame.blobs)))
        if update.until >= 0:
            hosted.needs_ack = True
            self.machine.dirty[frame.stream] = None
            self.machine.apply(hosted)

    def _take(self, id: str, update: Updatee, size: int) -> None:
        """Ask for more when it is due; at the end there is nothing to wait for."""
        now_ms = self.machine.now_ms
        at_ms = max(self._pace.next(now_ms, size), update.pace.next(now_ms, size))
        if at_ms > now_ms and update.until < 0:
            update.wait_ms = at_ms
            self.machine.set_timer(id, at_ms)
        else:
            self.machine.send(update.updater, UpdateTaken(id, update.chunk))

    def taken(self, frame: UpdateTaken) -> None:
        hosted = self.machine.queues.get(frame.stream)
        update = hosted.updates.get(self.machine.sender) if hosted is not None else None
        if hosted is not None and update is not None:
            update.taken = max(update.taken, frame.chunk)
            if update.done and update.taken == update.sent:
                del hosted.updates[self.machine.sender]
            else:
                self.machine.dirty[frame.stream] = None

    def joining(self, id: str, hosted: HostedQueue) -> bool:
        """A blank replica: whether it has its state, so that it may acknowledge and serve."""
        update = hosted.update
        if update is not None:
            if update.wait_ms > self.machine.now_ms:
                self.machine.set_timer(id, update.wait_ms)
            elif update.wait_ms:
                update.wait_ms = 0
                self.machine.send(update.updater, UpdateTaken(id, update.chunk))
            return False
        if hosted.keeper.end:
            return True
        if hosted.retry_at and self.machine.now_ms >= hosted.retry_at:
            self.ask_again(id, hosted)
        elif hosted.retry_at:
            self.machine.set_timer(id, hosted.retry_at)
        return False

    def next_chunks(self, hosted: HostedQueue) -> bool:
        """A chunk for each updatee that can take one; whether there is more to send at once."""
        more = False
        for update in hosted.updates.values():
            chunk = update.chunk()
            if chunk is not None:
                self.machine.send(update.updatee, chunk)
                more = True
        return more
