"""Questions and orders of a broker to one queue in the order of its stream: to be purged, to send messages on, and how
it is.

Each command is an event, so the answer holds all that was complete before the question. A command whose event can no
longer apply here is answered all the same, as is one for a queue that is deleted before it could be asked. A copy whose
update has left out messages that went meanwhile cannot say how the queue was before they went: the question is asked
again, behind that.
"""

from __future__ import annotations

from typing import Protocol

from ..errors import NOT_FOUND
from ..queue.applied import Applied
from ..queue.dispatch import Dispatcher, DrainMark
from ..queue.groups import held_groups
from ..queue.named_senders import client_of
from ..queue.state import QueueState
from ..queue.statistics import held_by
from ..status.machines import QueueStatus
from ..wire.events import AnyEvent, Moved, Named, Purge
from ..wire.queue_frames import QueueCommand, QueueReply, SenderNamed
from .catch_up import CatchUp
from .consumers import QueueConsumers
from .moves import MoveJob, Moving
from .outbox import QueueOutbox
from .own_events import OwnEvents

GROUPS_TOLD = 1000
"""At most this many groups are told of a queue: those of which most is held."""
OVERTAKEN = "the replica of this queue has been brought up to date meanwhile: ask again"


class Asked(Protocol):
    """The queue that is asked."""

    state: QueueState
    catch_up: CatchUp
    dispatcher: Dispatcher

    def report(self) -> QueueStatus: ...


class Commands:
    """The commands of one queue. Attributes: moving, its moves."""

    __slots__ = ("_consumers", "_outbox", "_own", "moving")

    def __init__(self, own: OwnEvents, consumers: QueueConsumers, outbox: QueueOutbox, moving: Moving) -> None:
        self.moving = moving
        self._own = own
        self._consumers = consumers
        self._outbox = outbox

    def ask(self, frame: QueueCommand) -> None:
        if frame.name == "purge":
            self._own.submit(Purge(frame.argument), frame)
        elif frame.sender is not None:
            self._own.submit(frame.sender, frame)
        elif frame.move is not None:
            self._consumers.look(self.moving.asked(frame, frame.move))
        else:
            self._consumers.look(frame)

    def applied(self, tag: object, event: AnyEvent, done: Applied, queue: Asked) -> None:
        """The event of a command, or of a consumer's question, has applied."""
        if isinstance(tag, DrainMark):
            tag.applied(queue.dispatcher.subscriptions)
        elif isinstance(tag, MoveJob):
            self.moving.applied(tag, event, done)
        elif isinstance(tag, QueueCommand) and tag.name == "purge":
            self.purged(tag, done)
        elif isinstance(tag, QueueCommand) and tag.sender is not None:
            self.began(tag, queue.state.numbers.last(client_of(tag.sender.name)), done)
        elif isinstance(tag, QueueCommand):
            self.looked(tag, queue.state, queue.report(), queue.catch_up.whole)

    def happened(self, queue: str, event: AnyEvent, done: Applied) -> None:
        """Messages have been moved, or a named sender has begun, at whatever broker."""
        if isinstance(event, Moved):
            self.moving.ended(done.positions)
        elif isinstance(event, Named) and done.effective:
            self._outbox.send(self._outbox.broker, SenderNamed(queue, event.name, event.holder))

    def purged(self, command: QueueCommand, done: Applied) -> None:
        self.reply(command, {"purged": sum(last - first + 1 for first, last in done.positions)})

    def began(self, command: QueueCommand, last: int, done: Applied) -> None:
        """A named sender has: behind its last number, unless it is over (it has come back behind a later one)."""
        self.reply(command, {"last": last, "over": not done.effective})

    def overtaken(self, command: QueueCommand) -> None:
        """An update has brought its event with it, so how it ended is not known."""
        self.reply(command, {"error": OVERTAKEN})

    def unhosted(self) -> None:
        """The queue is deleted, and nothing more will apply."""
        for _, _, tag in self._own:
            if isinstance(tag, QueueCommand):
                self.reply(tag, {"purged": 0} if tag.name == "purge" else said_of_deleted(tag.queue))
        for command in self.moving.unhosted():
            self.reply(command, said_of_deleted(command.queue))

    def looked(self, command: QueueCommand, state: QueueState, report: QueueStatus, whole: bool) -> None:
        """How the queue is, and what its consumers hold, which is only told to those who ask.

        Args:
            whole: the state has all messages that it speaks of.
        """
        if not whole:
            self._consumers.look(command)
            return
        held: dict[str, object] = {"held_by": held_by(state)}
        if (groups := held_groups(state)) is not None:
            most = sorted(groups.items(), key=lambda one: (-one[1][0], one[0]))[:GROUPS_TOLD]
            held["groups"] = [{"group": group, "held": count, "owner": owner} for group, (count, owner) in most]
        self.reply(command, report.plain() | held)

    def reply(self, command: QueueCommand, value: dict[str, object]) -> None:
        self._outbox.send(self._outbox.broker, QueueReply(command.queue, command.number, value))


def said_of_deleted(queue: str) -> dict[str, object]:
    """The answer to a command for a queue, by its id, that is deleted."""
    return {"error": f"queue {queue.rpartition('#')[0]!r} was deleted: declare it first", "code": NOT_FOUND}
