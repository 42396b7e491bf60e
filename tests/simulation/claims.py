"""Which receivers of a story are to have their queue alone, and that nobody is beside one that has.

By what clients are told, and by nothing of the product's: from `Attached` to the end that a client says or hears, or to the
end of its connection, a consumer is there. A broker that is out by the log does not count; nor does a line that its user
has left for another broker. There its receiver has the queue still, unless by the log another came between; and where it
was it gets nothing more.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from mantamq.protocol.errors import IN_USE
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, Delivery, Detach, Detached

from .checkers import Watcher
from .clients import Client
from .lines import Line
from .model import Violation
from .world import World

STORIES = 0.25
"""The share of stories with such receivers."""
SHARE = 0.4
"""Of their receivers that consume."""
RATE = 0.04
"""How often somebody comes for that alone."""


class _There(NamedTuple):
    """A consumer that has heard that it is attached. Attributes: id, the queue's; inc, the broker's."""

    broker: str
    inc: int
    id: str
    alone: bool


class Claims:
    """Of one story; its choices are its own, so that they do not move those of others. `some`: it has any; `tried`: how
    often queues were somebody's alone at its end."""

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self.rng = random.Random(f"claims of {seed}")
        self.some = self.rng.random() < STORIES
        self.tried = 0
        self._world, self._watch = world, watch
        self._asked: dict[tuple[str, int], AttachReceiver] = {}
        self._there: dict[tuple[str, int], _There] = {}
        self._had: dict[str, str] = {}  # a user's exclusive receiver -> the id of the queue that is still its own
        world.watch(
            sent={AttachReceiver: self._asks, Attached: self._comes, Detach: self._leaves, Detached: self._ends,
                  Delivery: self._gets},
        )  # fmt: skip
        watch.on_wiring.append(self._ordered)

    def one(self) -> bool:
        """Of a new receiver."""
        return self.some and self.rng.random() < SHARE

    def due(self) -> bool:
        """Whether somebody comes now for that alone."""
        return self.some and self.rng.random() < RATE

    # ---- who is there

    def holders(self, alone: bool = True) -> list[tuple[Client, int]]:
        """Lines and handles of the consumers that are there; those that have their queue alone, or all."""
        found = [place for place, one in self._there.items() if (one.alone or not alone) and self._valid(place, one)]
        return [(self._world.clients[line], handle) for line, handle in sorted(found)]

    def alone(self, line: Client, handle: int) -> bool:
        return self._there[line.name, handle].alone

    def queue(self, line: Client, handle: int) -> str:
        return self._there[line.name, handle].id.rpartition("#")[0]

    def client(self, line: Client) -> str:
        """Its id, the same on all lines of a user."""
        return line.user.name if isinstance(line, Line) else line.name

    def _valid(self, place: tuple[str, int], one: _There) -> bool:
        line, machine = self._world.clients.get(place[0]), self._world.machines.get(one.broker)
        if line is None or machine is None or machine.inc != one.inc or place[0] not in machine.sessions:
            return False
        if isinstance(line, Line) and line.user.line is not line:
            return False
        return one.inc > self._watch.wiring.over.get(one.broker, -1) and one.id not in self._watch.gone

    # ---- what is said

    def _asks(self, source: str, target: str, frame: AttachReceiver) -> None:
        if frame.mode == "consume":
            self._asked[source, frame.handle] = frame

    def _comes(self, source: str, target: str, frame: Attached) -> None:
        asked = self._asked.get((target, frame.handle))
        if asked is None:
            return
        came = _There(source, self._world.machines[source].inc, frame.queue, asked.exclusive > 0)
        place = (target, frame.handle)
        if self._valid(place, came):
            for other, one in self._there.items():
                if one.id == came.id and other != place and (one.alone or came.alone) and self._valid(other, one):
                    self._beside(place, came, other, one)
        self._there[place] = came
        if came.alone and self._valid(place, came):
            self._had[self._name(*place)] = came.id

    def _name(self, line: str, handle: int) -> str:
        """A receiver, on whatever line."""
        return f"{line.partition('~')[0]}/{handle}"

    def _ordered(self, event: events.AnyEvent) -> None:
        """Who else comes by the log ends what was one receiver's."""
        if type(event) is events.InUse and event.on and (event.queue, event.broker) in self._watch.wiring.users:
            self._had = {name: id for name, id in self._had.items() if id != event.queue or name == event.claim}

    def _gets(self, source: str, target: str, frame: Delivery) -> None:
        one, machine = self._there.get((target, frame.handle)), self._world.machines[source]
        if one is not None and one.alone:
            now = machine.wiring.uses.claims.get(one.id)
            if now is not None and now.broker != source:
                raise Violation(f"{target} gets messages of {one.id} at {source}, which knows it is {now}")

    def _beside(self, place: tuple[str, int], came: _There, other: tuple[str, int], one: _There) -> None:
        if self._name(*place) == self._name(*other):
            return  # it has come back
        raise Violation(f"{place} comes to {came.id} at {came.broker}, alone {came.alone}, beside {other}: {one}")

    def _leaves(self, source: str, target: str, frame: Detach) -> None:
        self._there.pop((source, frame.handle), None)
        self._had.pop(self._name(source, frame.handle), None)

    def _ends(self, source: str, target: str, frame: Detached) -> None:
        self._there.pop((target, frame.handle), None)
        self._asked.pop((target, frame.handle), None)
        line = self._world.clients.get(target)
        if isinstance(line, Line) and line.user.line is line:
            id = self._had.pop(self._name(target, frame.handle), None)
            if frame.code == IN_USE and id is not None and id not in self._watch.gone:
                raise Violation(f"{target} has had {id} alone all the time, and is refused it: {frame.text}")
