"""Queues that are deleted on a condition: `if_unused` deletes none that somebody is attached to, nor does the end of a last
consumer, and `if_empty` none with a message whose sender has heard, or hears later, that it is complete there.

What is sent again may go to another queue than before: a redirection has begun or ended meanwhile, or another queue has
that name now. So one message may have gone with one queue, and be complete in the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Completed, Detach, Detached

from .checkers import Watcher
from .model import Violation, each
from .world import World

BODY = re.compile(rb"([cu]\d+)/(\d+):(\d+)")
Number = tuple[str, int, int]
"""(client id, handle, number)"""
Teller = tuple[str, int]
"""A broker that says what is complete, and its incarnation."""


class Conditions:
    """Attributes: unused, empty: how many queues were deleted on that condition."""

    def __init__(self, world: World, watch: Watcher) -> None:
        self.world, self.watch = world, watch
        self.unused = self.empty = 0
        self._asked: dict[tuple[str, int], tuple[str, str]] = {}  # (line, handle) -> broker, queue; consumers
        self._attached: dict[tuple[str, int], tuple[str, str]] = {}  # those that have heard so -> broker, queue id
        self._direct: set[tuple[str, int]] = set()  # senders to one queue
        self._complete: dict[Number, Teller] = {}
        self._dead: dict[Number, set[str]] = {}  # went with these queues, which were deleted as empty
        self._as_empty: set[str] = set()  # ids of all queues that were
        world.watch(
            sent={AttachReceiver: self._asks, AttachSender: self._sends, Attached: self._hears, Detach: self._leaves,
                  Detached: self._ends, Completed: self._completed},
        )  # fmt: skip
        watch.on_condition.append(self._deleted)
        watch.on_vacant.append(self._was_left)

    def _client(self, line: str) -> str:
        user = getattr(self.world.clients.get(line), "user", None)
        return line if user is None else user.name

    def _asks(self, source: str, target: str, frame: AttachReceiver) -> None:
        if frame.mode == "consume":
            self._asked[source, frame.handle] = target, frame.queue

    def _sends(self, source: str, target: str, frame: AttachSender) -> None:
        if frame.exchange == "" and frame.key:
            self._direct.add((self._client(source), frame.handle))

    def _hears(self, source: str, target: str, frame: Attached) -> None:
        asked = self._asked.get((target, frame.handle))
        if asked is not None and asked[0] == source:
            known = self.world.machines[source].wiring.queue(asked[1])
            if known is not None:
                self._attached[target, frame.handle] = source, known.id

    def _leaves(self, source: str, target: str, frame: Detach) -> None:
        self._attached.pop((source, frame.handle), None)

    def _ends(self, source: str, target: str, frame: Detached) -> None:
        self._attached.pop((target, frame.handle), None)
        self._asked.pop((target, frame.handle), None)

    def _completed(self, source: str, target: str, frame: Completed) -> None:
        client = self._client(target)
        if (client, frame.handle) in self._direct:
            told = {(client, frame.handle, number) for number in each(frame.ranges)}
            teller = source, self.world.machines[source].inc
            dead = [number for number in sorted(told & self._dead.keys()) if not self._elsewhere(number, teller)]
            if dead:
                raise Violation(f"{target} hears that {dead} are complete: they went with a queue")
            self._complete.update(dict.fromkeys(told, teller))

    def _elsewhere(self, number: Number, teller: Teller) -> bool:
        """Whether a message that its sender has sent to a queue, and that went with it, is complete in another. Where it is
        complete is where that broker sent it last; and it must have come there, or another deletion has taken that queue,
        which asks nobody what is in it. What has come as a letter from elsewhere was complete before: it may not go."""
        for id in self._dead[number]:
            if any("@" in client for client, _ in _found(number, (e.event for e in self.watch.logs[id].values()))):
                return False
        for (*origin, _), asked in reversed(self.watch.asked.items()):
            for stream, parts in asked.items() if tuple(origin) == teller else ():
                for client, its_number in _found(number, parts):
                    if "@" not in client:
                        return stream not in self._dead[number] and self._has(stream, client, its_number)
        return False

    def _has(self, stream: str, client: str, number: int) -> bool:
        if stream in self.watch.gone and stream not in self._as_empty:
            return True
        model = self.watch.models.get(stream)
        return model is not None and number in model.seen.get(client, ())

    def _deleted(self, id: str, condemned: events.Condemn) -> None:
        if condemned.if_unused:
            self.unused += 1
            self._was_unused(id)
        if condemned.if_empty:
            self.empty += 1
            self._as_empty.add(id)
            self._was_empty(id)

    def _was_left(self, id: str) -> None:
        """Not so of a queue whose client has left it: lines that it has left may be taken for consumers still."""
        if id in self.watch.wiring.vacated or id in self.watch.wiring.unused:
            self._was_unused(id)

    def _was_unused(self, id: str) -> None:
        for (line, handle), (broker, queue) in self._attached.items():
            machine = self.world.machines.get(broker)
            if queue != id or machine is None or line not in machine.sessions:
                continue
            if machine.inc > self.watch.wiring.over.get(broker, -1):
                raise Violation(f"{id} is deleted as unused, and {line} is attached to it at {broker} by {handle}")

    def _was_empty(self, id: str) -> None:
        """By the replica that has applied most: the look that found it empty is among that."""
        hosted = [m.queues[id] for name, m in self.world.machines.items() if "." in name and id in m.queues]
        whole = [one for one in hosted if not one.keeper.blank and not one.updating]
        if not whole:
            return
        state = max(whole, key=lambda one: one.applied).state
        for position in [*state.available, *(p for held in state.acquired.values() for p in held)]:
            for first, last in [position] if isinstance(position, tuple) else [(position, position)]:
                for each_one in range(first, last + 1):
                    self._goes(id, state.blobs.get(each_one, b""))

    def _goes(self, id: str, blob: bytes) -> None:
        number = _number(blob)
        if number is not None and number[:2] in self._direct:
            self._dead.setdefault(number, set()).add(id)
            if number in self._complete and not self._elsewhere(number, self._complete[number]):
                raise Violation(f"{id} is deleted as empty, and has {number} in it, which is complete")


def _number(blob: bytes) -> Number | None:
    found = BODY.search(blob)
    return found and (found[1].decode(), int(found[2]), int(found[3]))


def _found(number: Number, parts: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    """Who has that message enqueued by some of these events, and under which number."""
    for event in map(events.decode_event, parts):
        if isinstance(event, events.Enqueue):
            for its_number, blob in zip(each(event.numbers), event.blobs, strict=True):
                if _number(blob) == number:
                    yield event.client, its_number
