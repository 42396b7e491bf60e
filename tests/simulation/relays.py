"""Exchanges that number what goes through them, or keep the last: in which stories, and what must come of it.

All that is sent to such an exchange goes into a queue of its own; behind that, in that order, each queue that is bound
gets what it is bound for, once, and with its place there as number. A queue that is bound later begins no later than
with the last message that had come until then.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _bind, _bind_exchange, _declare_exchange
from mantamq.protocol.wire import events

from . import alternates
from .model import NUMBER, ModelQueue, Violation, as_sent, each, opened

if TYPE_CHECKING:
    from .checkers import Watcher
    from .users import User
    from .world import World

SHARE = 0.3
"""Of the stories."""
LATE = 0.02
"""How likely it is at each turn that a queue is bound late, if none has been."""
NUMBERED, KEPT, SIFTED, BEHIND = "numbered", "kept", "sifted", "behind"
"""A topic exchange that numbers, and leads to BEHIND; one for all that keeps the last; one that looks at properties,
numbers and keeps; one that gets what NUMBERED passes on."""
SENT_TO: tuple[tuple[str, str | None], ...] = (
    (NUMBERED, "x.y"), (NUMBERED, None), (NUMBERED, "x"), (KEPT, ""), (KEPT, None), (SIFTED, ""), (SIFTED, None),
)  # fmt: skip
AGAIN = 0
"""As batch of a `DeadLetterDone`: the last message goes on once more."""


class Relays:
    """Of one story; its choices are its own, so that a story without is as it was.

    Attributes:
        numbered: messages that came to a queue by such an exchange. first: those that a queue bound late began with.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"relays of {seed}")
        self.some = self._rng.random() < SHARE
        self.world = world
        self.watch = watch
        self.numbered = self.first = 0
        self._late = ""
        # (queue, relay) -> (number, message, when it expires, 0: never)
        self._came: dict[tuple[str, str], list[tuple[int, bytes, int]]] = {}
        self._since: dict[tuple[str, str], int] = {}  # (queue, relay) -> the last that had come when it was bound
        self._bound: set[str] = set()  # queues that were bound late, and have had no `AGAIN` yet
        if self.some:
            watch.before_commit.append(self._committing)
            watch.on_wiring.append(self._wired)

    # ---- the story

    def declare(self, user: User, queues: list[str]) -> None:
        if not self.some:
            return
        for name, type, sequence, initial in (
            (NUMBERED, "topic", True, False), (KEPT, "fanout", self._rng.random() < 0.5, True),
            (SIFTED, "headers", True, True),
        ):  # fmt: skip
            durable = self.world.durable(f"manta.exchange.{name}") or bool(alternates.DECLARED)
            user.ask(_declare_exchange(name, type, durable, "", None, False, sequence=sequence, initial=initial))
        user.ask(_declare_exchange(BEHIND, "fanout", True, "", None, False))
        user.ask(_bind(NUMBERED, queues[1], "x.#", None))
        user.ask(_bind_exchange(NUMBERED, BEHIND, "#", None))
        user.ask(_bind(BEHIND, queues[-1], "", None))
        user.ask(_bind(KEPT, queues[1], "", None))
        user.ask(_bind(SIFTED, queues[1], "", {"c": 1}))
        if len(queues) > 2:
            self._late = queues[-1]

    def senders(self, user: User) -> None:
        for exchange, key in self._rng.sample(SENT_TO, 4):
            user.sender(exchange, key, self._rng.choice([1, 5, 50]))

    def bind_late(self, user: User) -> bool:
        """Perhaps now: a queue is bound behind messages that have gone through."""
        if not self._late or self._rng.random() > LATE:
            return False
        user.ask(_bind(KEPT, self._late, "", None))
        self._late = ""
        return True

    # ---- what comes of it

    def _wired(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.Bind) and event.exchange == KEPT and event.queue in self.watch.wiring.ids:
            self._bound.add(self.watch.wiring.ids[event.queue])

    def _committing(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        if isinstance(event, events.DeadLetterDone) and event.batch == AGAIN and model.relay == KEPT:
            for queue in self._bound:
                self._since[queue, stream] = max(model.place, default=0)
            self._bound.clear()
        if not (isinstance(event, events.Enqueue) and event.client.endswith("@")):
            return
        came = self._came.setdefault((stream, event.client[:-1]), [])
        last = came[-1][0] if came else 0
        numbers = each(event.numbers)
        if numbers != sorted(set(numbers)):
            raise Violation(f"{stream}: from {event.client} come numbers {numbers[:8]}, which do not rise")
        ends = dict(zip(event.expiry[::2], event.expiry[1::2], strict=True))
        new = [
            (n, blob, ends.get(at, 0))
            for at, (n, blob) in enumerate(zip(numbers, event.blobs, strict=True))
            if n > last
        ]
        came += new
        self.numbered += len(new)

    def finish(self) -> None:
        """At rest: nothing is on its way, and each queue has had what it is bound for."""
        for id, model in self.watch.models.items():
            if not model.relay or id in self.watch.gone:
                continue
            if model.batches or len(model.live) > (1 if model.keeps else 0):
                raise Violation(f"I17 {id}: at rest {sorted(model.live)[:5]} are on their way, in {model.batches}")
            for queue in self.watch.wiring.ids.values():
                self._whole(queue, id, model, [number for number, _, _ in self._came.get((queue, id), [])])
        for (queue, relay), came in self._came.items():
            source = self.watch.models[relay]
            for number, blob, ends in came:
                if number not in source.blobs:
                    raise Violation(f"{queue}: number {number} has come from {relay}, which has never had it")
                if not same(blob, as_sent(source.blobs[number], number if source.numbers else 0)):
                    raise Violation(f"{queue}: number {number} of {relay} comes as another message than it went")
                if ends != source.expiry.get(number, 0):
                    raise Violation(
                        f"{queue}: number {number} of {relay} ends at {ends}, not {source.expiry.get(number)}"
                    )
        if not self.watch.faulty and (waiting := self._bound - self.watch.gone):
            raise Violation(f"{sorted(waiting)} were bound to {KEPT}, and nobody has asked for the last message")
        for (queue, relay), last in self._since.items():
            numbers = [number for number, _, _ in self._came.get((queue, relay), [])]
            if last and not {queue, relay} & self.watch.gone:
                self.first += 1
                if not numbers or numbers[0] > last:
                    raise Violation(f"{queue} was bound to {KEPT} behind number {last}, and begins with {numbers[:3]}")

    def _whole(self, queue: str, relay: str, source: ModelQueue, numbers: list[int]) -> None:
        """There is all that the queue is bound for; of what was bound late, from the first on."""
        wiring, name = self.watch.wiring, queue.rpartition("#")[0]
        since = 1 if source.relay != KEPT else (numbers or [max(source.place, default=0) + 1])[0]
        wanted = [
            number
            for number in sorted(source.blobs)
            if number >= since and name in wiring.onward(source.relay, *source.sent_by(number))
        ]
        if numbers != wanted:
            differ = sorted(set(wanted) ^ set(numbers))
            raise Violation(f"{queue}: of {relay} it has not what it is bound for, no more and no less: {differ[:5]}")


def same(blob: bytes, other: bytes) -> bool:
    """The same message, whatever of what is at its default is left out."""
    return blob == other or (bool(opened(blob)) and full(blob) == full(other))


def full(blob: bytes) -> list[Any]:
    fields = opened(blob)
    while len(fields) > 1 and fields[-1] in (None, False):
        fields.pop()
    return fields


def numbers_of(properties: dict[str, Any] | None) -> tuple[dict[str, Any] | None, int]:
    """A message's properties without its number, and that; 0: it has none."""
    if not properties or NUMBER not in properties:
        return properties, 0
    return {name: value for name, value in properties.items() if name != NUMBER}, properties[NUMBER]
