"""What deleted queues still held: none is gone before all of it has come to its alternate, what came late too, and whoever
has it deleted hears how much that is.

That each letter comes once, as it was, is judged in `alternates.py` and `deliveries.py`, as of all that dies.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Command, Reply
from mantamq.protocol.wire.deletion_events import Dissolve, Dissolved
from mantamq.protocol.wire.log_frames import Request

from .clients import Client
from .model import ModelQueue, Violation

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

LATE = 0.7
"""How likely somebody sends to a queue while its deletion is on its way."""
LATEST_US = 5_000


class Remains:
    """Attributes:
    letters: how many messages have gone to an alternate with their queue; late: how many of these came behind its end.
    """

    def __init__(self, world: World, watch: Watcher, story: Story, seed: int) -> None:
        self._world, self._watch, self._story = world, watch, story
        self._rng = random.Random(f"late messages of {seed}")
        self.letters = self.late = 0
        self._first: dict[str, int] = {}  # id of a queue -> how much was in it when it was deleted
        self._asked: dict[tuple[str, int], str] = {}  # (line, number of its command) -> name of a queue
        world.watch(sent={Command: self._asks, Reply: self._told, Request: self._orders})
        watch.on_wiring.append(self._wired)
        watch.on_commit.append(self._committed)

    # ---- the story

    def _orders(self, source: str, target: str, frame: Request) -> None:
        """While a deletion is on its way, who sends to the queue goes on."""
        for stream, part in frame.parts:
            event = events.decode_event(part) if stream == events.CLUSTER else None
            if isinstance(event, events.DeleteQueue) and event.aside and self._rng.random() < LATE:
                for _ in range(self._rng.choice([1, 3, 6])):
                    self._world.after(self._rng.randrange(LATEST_US), self._sends, event.name)

    def _sends(self, name: str) -> None:
        if not self._story.lives:
            return
        for client in list(self._world.clients.values()):
            if isinstance(client, Client) and not hasattr(client, "user") and client.alive and client.opened:
                for handle, link in client.links.items():
                    if link.target == name and not link.mode and link.open and link.next - len(link.completed) < 50:
                        client.transfer(handle, 1)

    # ---- what comes of it

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        if isinstance(event, Dissolve) and effective and len(model.dissolved) == 1:
            self._first[stream] = model.counts.get("deleted", 0)

    def _wired(self, event: events.AnyEvent) -> None:
        if not isinstance(event, Dissolved) or event.queue not in self._watch.emptied:
            return
        model = self._watch.models[event.queue]
        if model.live:
            raise Violation(f"{event.queue} is gone, and {sorted(model.live)[:5]} are in it: {list(model.batches)}")
        if event.letters != model.counts.get("deleted", 0):
            raise Violation(
                f"{event.queue} is gone with {event.letters} letters, and had {model.counts.get('deleted', 0)}"
            )
        self.letters += event.letters
        self.late += event.letters - self._first[event.queue]

    def _asks(self, source: str, target: str, frame: Command) -> None:
        if frame.name == "delete_queue":
            self._asked[source, frame.number] = frame.arguments["name"]

    def _told(self, source: str, target: str, frame: Reply) -> None:
        name = self._asked.pop((target, frame.number), None)
        said: Any = frame.value.get("dead_letters", 0) if name and isinstance(frame.value, dict) else 0
        if not said:
            return
        watch = self._watch
        every = [
            (self._first[id], watch.models[id]) for id in watch.wiring.every.get(name or "", ()) if id in self._first
        ]
        if not any(first <= said <= model.counts.get("deleted", 0) for first, model in every):
            raise Violation(
                f"{target} hears that {said} messages of {name} go to its alternate, and {every} had others"
            )


class OfTemporary:
    """Whether queues that go by themselves have alternates: of one story, with choices of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"alternates of what goes by itself, {seed}")

    def one(self) -> str:
        return self._rng.choice(["", "amq.fanout"])
