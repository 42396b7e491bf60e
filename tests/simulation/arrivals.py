"""When each message came into its queue: by the log, and by what is said of it each time it goes to somebody.

That a user's messages came after they were put, and before they were committed, the ledger looks at; here, that dead
letters came after they were rejected.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mantamq.protocol.wire import events
from mantamq.protocol.wire.queue_frames import Deliver

from .checkers import Watcher
from .model import ModelQueue, Violation, each

if TYPE_CHECKING:
    from mantamq.client import Message

    from .afterlife import Afterlife
    from .world import World


class Arrivals:
    """Attributes: judged (messages of which it was said)."""

    def __init__(self, world: World, watch: Watcher, afterlife: Afterlife) -> None:
        self.judged = 0
        self._world = world
        self._watch = watch
        self._afterlife = afterlife
        self._rejected: dict[str, int] = {}  # queue@index of a reject -> when it was committed, ms
        world.watch(sent={Deliver: self._given})
        watch.on_commit.append(self._committed)

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        now_ms = self._world.now_us // 1000
        if isinstance(event, events.Reject):
            self._rejected[f"{stream}@{model.index}"] = now_ms
        elif isinstance(event, events.Enqueue) and not self._rejected.get(event.client, 1) <= event.at_ms <= now_ms:
            raise Violation(f"{stream}: messages of {event.client} came at {event.at_ms}, by their broker")

    def _given(self, source: str, target: str, frame: Deliver) -> None:
        model = self._watch.models.get(frame.queue)
        if model is None or frame.queue in self._watch.gone:
            return
        starts = dict(zip(frame.times[::2], frame.times[1::2], strict=True))
        said = 0
        for index, position in enumerate(each(frame.ranges)):
            said = starts.get(index, said)
            self.judged += 1
            if said != model.came.get(position):
                raise Violation(
                    f"{frame.queue}: {source} says that {position} came at {said}, the log {model.came.get(position)}"
                )

    def read(self, user: str, queue: str, message: Message) -> None:
        """A user has a message of a queue of that name in hand."""
        times = {
            model.came[message.position]
            for id, model in self._watch.models.items()
            if id.rpartition("#")[0] == queue and message.position in model.came
        }
        said = message.enqueued_at
        if said is not None and round(said * 1000) not in times:
            # What came behind the deletion of its queue is read by users of brokers that have not heard of that yet.
            times |= self._late(queue, message.position)
        if said is None or round(said * 1000) not in times:
            raise Violation(f"{user} reads that {message.position} of {queue} came at {said}, by the log at {times}")

    def _late(self, queue: str, position: int) -> set[int]:
        """When it came into queues of that name that were deleted before that was committed, by their logs."""
        gone = [id for id in self._watch.gone if id.rpartition("#")[0] == queue]
        ends = [deque(self._afterlife.states(id), maxlen=1) for id in gone]
        return {model.came[position] for end in ends for model in end if position in model.came}
