"""An operator closes the connection of a client: of that one only, which hears why, and does not come back by itself.

Where its messages are then is for the other checkers: its client is gone, as one whose process has died.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mantamq.client.errors import NotFound
from mantamq.client.management import _close_connection
from mantamq.protocol.wire.link_frames import Refused

from .model import Violation
from .users import Task, User

if TYPE_CHECKING:
    from .workload import Story
    from .world import World

STORIES = 0.1
"""The share of stories with operators who do that."""
RATE = 0.02
ELSEWHERE = 0.1
"""How likely a broker is asked that has no such client, as far as one knows."""
WORDS = "closed by an operator"


class Closures:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. closed: connections that were.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._rng = random.Random(f"closures of {seed}")
        self.some = self._rng.random() < STORIES
        self.closed = 0
        self._world = world
        self._asked: set[str] = set()
        self._heard: dict[str, str] = {}  # user -> the line by which it has heard that it is closed
        if self.some:
            world.watch(sent={Refused: self._tells}, arrived={Refused: self._hears})

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        there = [user for user in story.users if user.alive and user.opened and user.line is not None]
        if len(there) < 3:
            return
        client = rng.choice(there)
        elsewhere = rng.random() < ELSEWHERE
        near = [user for user in there if (_broker(user) == _broker(client)) is not elsewhere and user is not client]
        if near:
            self._asked.add(client.name)
            operator = rng.choice(near)
            operator.start(self._run(operator, client))

    def _run(self, operator: User, client: User) -> Task:
        line, errors, there = operator.line, len(operator.errors), self._there(operator, client)
        yield from operator.asked(_close_connection(client.name, "for repair"))
        found = (error for _, error in operator.errors[errors:] if isinstance(error, NotFound))
        missed = any(f"no client {client.name!r}" in str(error) for error in found)
        if missed and operator.line is line and there and there == self._there(operator, client):
            raise Violation(f"{operator.name} hears that {client.name} is not at {_broker(client)}, where it is")

    def _there(self, operator: User, client: User) -> str:
        """The line by which a client is let in at the broker of an operator, "" for none."""
        machine = self._world.machines.get(_broker(operator))
        session = machine.connections.sessions.get(client.line.name) if machine is not None and client.line else None
        return session.peer if session is not None and session.client else ""

    def _tells(self, source: str, target: str, frame: Refused) -> None:
        if WORDS not in frame.text:
            return
        self.closed += 1
        if target.partition("~")[0] not in self._asked:
            raise Violation(f"{source} closes the connection of {target}, for which nobody has asked: {frame.text}")

    def has(self, line: str, text: str) -> bool:
        """Whether an operator had that connection closed, with that text."""
        return WORDS in text and line.partition("~")[0] in self._asked

    def _hears(self, source: str, target: str, frame: Refused) -> None:
        if WORDS in frame.text:
            self._heard[target.partition("~")[0]] = target

    def finish(self, story: Story) -> None:
        """At rest: who has heard it is gone, and has not come back."""
        for user in story.users:
            line = self._heard.get(user.name)
            if line is not None and not user.over:
                raise Violation(f"{user.state()}, and an operator has closed its connection {line}")


def _broker(user: User) -> str:
    return user.line.broker if user.line is not None else ""
