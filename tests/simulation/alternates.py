"""Where an exchange finds no queue, its alternate is asked: what comes so, and what has died, comes once and in order.

A message is in the queues that its exchange, or else the first of the alternates that finds any, is bound to, and in no
other. What one sender sends is in the order of its numbers in every queue, by whatever exchange it came. What is rejected
at one broker comes to the alternate as it was rejected: batch after batch, each in its order.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _bind, _declare_exchange, _declare_queue
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import AttachSender, Transfer

from . import exchanges
from .boxes import HEADERS
from .checkers import Watcher
from .deaths import shunned, wrong
from .defaults import roomy
from .model import ModelQueue, Violation, each, with_notes
from .model_redirects import PREFIX as REDIRECTED
from .several_keys import keys_of
from .world import World

if TYPE_CHECKING:
    from .users import User

GRAVE, PICKY, WIDE, NOBODYS = "grave", "picky", "wide", "nobodys"
FIXED = frozenset((PICKY, WIDE, NOBODYS, "topics", "everybody", "amq.direct", HEADERS))
"""Exchanges whose bindings stay as they are."""
SENT_TO = ((PICKY, "k"), (PICKY, "none"), (PICKY, None), (WIDE, "x.y"), (WIDE, None), (NOBODYS, ""))
RELAYED = frozenset(("numbered", "kept", "sifted"))
"""Exchanges with a queue of their own (`relays.py`), to which all goes that is sent to them."""
PIECES = 1 << 44
DECLARED: dict[str, Any] = {}
"""What queues are declared with besides: `DURABLE`, in stories in which brokers come back with their disks."""
DURABLE = {"durable": True}
PASSIVE = "nothing-of-that-name"


def declare_grave(user: User) -> None:
    """Rejected messages of q0 go to "dead" directly, those of others by the alternate's alternate."""
    user.ask(_declare_exchange(GRAVE, "direct", False, "amq.fanout", None, False))
    user.ask(_bind(GRAVE, "dead", "q0", None))


def declare(user: User, queues: list[str]) -> None:
    """An exchange that finds nothing, one that finds little, and one that asks it: the last looks at properties."""
    user.ask(_declare_exchange(NOBODYS, "fanout", False, "everybody", None, False))
    user.ask(_declare_exchange(PICKY, "direct", True, HEADERS, {"mine": 1}, False))
    user.ask(_bind(PICKY, queues[-1], "k", None))
    user.ask(_declare_exchange(WIDE, "topic", False, PICKY, None, False))
    user.ask(_bind(WIDE, queues[1], "x.y", None))


def declare_again(user: User, rng: random.Random) -> None:
    """An exchange that is there stays as it is, whichever client declares it again; a passive declare makes none."""
    name = rng.choice([PASSIVE, "dead"])
    user.ask(
        _declare_queue(
            name,
            user.world.durable("dead") or bool(DECLARED),
            "",
            roomy(user.world.limits.queue_bytes),
            name == PASSIVE or rng.random() < 0.5,
        )
    )
    user.ask(_declare_exchange(rng.choice([PICKY, PASSIVE]), "direct", True, "", {"mine": 1}, True))


class Alternates:
    """Watches senders and the committed log.

    Attributes:
        routed: messages that came to a queue by an exchange; dead_lettered: batches of rejected ones that came.
    """

    def __init__(self, world: World, watch: Watcher) -> None:
        self.watch = watch
        self.routed = self.dead_lettered = 0
        self._exchanges: dict[tuple[str, int], tuple[str, str | None]] = {}
        self._routes: dict[str, dict[int, list[str]]] = {}  # sender's name in the log -> number -> ids of its queues
        self._came: dict[
            tuple[str, str, int], list[bytes]
        ] = {}  # (queue, where it was rejected, batch) -> what has come
        self._last: dict[
            tuple[str, str], int
        ] = {}  # (queue, sender or broker that rejected) -> the last number or batch
        world.watch(sent={AttachSender: self._attaches, Transfer: self._transferred})
        watch.before_commit.append(self._committing)

    def _attaches(self, source: str, target: str, frame: AttachSender) -> None:
        self._exchanges[source, frame.handle] = frame.exchange, frame.key

    def _transferred(self, source: str, target: str, frame: Transfer) -> None:
        exchange, key = self._exchanges[source, frame.handle]
        if exchange not in FIXED | exchanges.FIXED | RELAYED:
            return
        routes = self._routes.setdefault(f"{source.partition('~')[0]}/{frame.handle}", {})
        for index in range(len(frame.blobs)):
            names = self.watch.wiring.route(
                exchange, keys_of(frame, index, key), exchanges.looked_at(exchange, frame, index)
            )
            routes[frame.first + index] = [self.watch.wiring.ids[name] for name in names]

    def _committing(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        if not isinstance(event, events.Enqueue):
            return
        if event.client.endswith("@"):
            return  # from an exchange's own queue: see `relays.py`
        if "@" in event.client:
            self._burying(stream, event, model)
            return
        seen, routes = model.seen.get(event.client, ()), self._routes.get(event.client)
        new = [number for number in each(event.numbers) if number not in seen]
        if not new:
            return
        last = self._last.get((stream, event.client), 0)
        if (new[0] <= last and not stream.startswith(REDIRECTED)) or new != sorted(new):
            raise Violation(f"{stream}: numbers {new[:5]} of {event.client} come behind {last}")
        self._last[stream, event.client] = max(last, new[-1])
        if routes is not None:
            self.routed += len(new)
            strays = [number for number in new if stream not in routes[number]]
            if strays:
                raise Violation(
                    f"{stream}: {strays[:5]} of {event.client} are here, and belong to {routes[strays[0]] or 'nobody'}"
                )

    def _burying(self, stream: str, event: events.Enqueue, model: ModelQueue) -> None:
        if model.seen.get(event.client):
            return
        source, _, name = event.client.rpartition("@")
        index = int(name) % PIECES  # a large batch comes in pieces
        known: Any = self.watch.models[source].batches.get(index) if source in self.watch.models else None
        if known is None:
            return  # a replica may apply it before anybody is told that it is committed
        if index in self.watch.models[source].targets:
            return  # moved: see `message_moves.py`
        broker, _ = known
        came = self._came.setdefault((stream, source, index), [])
        came += event.blobs
        self._are_letters(stream, self.watch.models[source], index, came)
        self.dead_lettered += 1
        if not broker:
            return  # whoever of several sees to it: such batches have no order among each other
        place = (stream, f"{source} {broker}")
        if index < self._last.get(place, 0):
            raise Violation(
                f"{stream}: batch {index} of {source}, rejected at {broker}, comes behind {self._last[place]}"
            )
        self._last[place] = index

    def _are_letters(self, stream: str, source: ModelQueue, index: int, came: list[bytes]) -> None:
        """What has come of a batch is what it began with, in its order."""
        _, positions = source.batches[index]
        cause = source.causes.get(index, "rejected")
        if len(came) > len(positions):
            raise Violation(f"{stream}: batch {index} of {source.id} is {len(positions)}, and {len(came)} have come")
        for position, letter in zip(positions, came, strict=False):
            if text := wrong(letter, source, position, cause, with_notes(source, position)):
                raise Violation(f"{stream}: what comes for {position} of {source.id} in batch {index} {text}")
            if stream.rpartition("#")[0] in shunned(letter):
                raise Violation(f"{stream}: {position} of {source.id} comes back by itself: {cause}")

    def finish(self) -> None:
        wiring = self.watch.wiring
        if PASSIVE in wiring.every or PASSIVE in wiring.exchanges:
            raise Violation(f"{PASSIVE} was only asked for, and is declared")
