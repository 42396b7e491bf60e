"""An operator closes the connection of a client: of that one only, which hears why in the operator's words, and does not
come back by itself.

Where its messages are then is for the other checkers: its client is gone, as one whose process has died.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mantamq.client.errors import ConnectionLost, NotAllowed, NotFound
from mantamq.client.management import _close_connection
from mantamq.protocol.wire.link_frames import Refused

from .lines import Line
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
HEARD_CHARS = 500
"""So much of a reason is told."""


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
        self._asked: dict[str, list[str]] = {}  # user -> what it may hear, by the reasons that operators have given
        self._reasons = 0
        self._heard: dict[str, tuple[str, str]] = {}  # user -> the line by which it was told that it is closed, and why
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
            reason = self._reason()
            said = reason[:HEARD_CHARS] or "no reason given"
            self._asked.setdefault(client.name, []).append(f"this connection was {WORDS}: {said}")
            operator = rng.choice(near)
            operator.start(self._run(operator, client, reason))

    def _reason(self) -> str:
        """No two are alike; some are more than is told, and now and then there is none."""
        self._reasons += 1
        if self._reasons % 8 == 3:
            return ""
        return f"repair {self._reasons}" + f", and of its disk {self._reasons}" * (30 * (self._reasons % 4 == 2))

    def _run(self, operator: User, client: User, reason: str) -> Task:
        line, errors, there = operator.line, len(operator.errors), self._there(operator, client)
        yield from operator.asked(_close_connection(client.name, reason))
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
        may_hear = self._asked.get(_user(target))
        if may_hear is None:
            raise Violation(f"{source} closes the connection of {target}, for which nobody has asked: {frame.text}")
        if frame.text not in may_hear:
            raise Violation(f"{source} tells {target} {frame.text!r}, and operators have said {may_hear}")

    def has(self, line: str, text: str) -> bool:
        """Whether an operator had that connection closed, with that text."""
        return WORDS in text and _user(line) in self._asked

    def _hears(self, source: str, target: str, frame: Refused) -> None:
        line = self._world.clients.get(target)
        if WORDS in frame.text and isinstance(line, Line) and line is line.user.line and not line.user.over:
            self._heard[line.user.name] = target, frame.text

    def finish(self, story: Story) -> None:
        """At rest: who has heard it is gone, has not come back, and its program was told why."""
        for user in story.users:
            if user.name not in self._heard:
                continue
            line, text = self._heard[user.name]
            if not user.over:
                raise Violation(f"{user.state()}, and an operator has closed its connection {line}")
            failure = user.conversation.failure
            if not isinstance(failure, ConnectionLost) or f"({NotAllowed.code}: {text})" not in failure.text:
                raise Violation(f"{line} was told {text!r}, and {user.name} hears {failure!r}")
            cause = failure.__cause__
            if not isinstance(cause, NotAllowed) or cause.text != text:
                raise Violation(f"{line} was told {text!r}, and {user.name} hears that it is for {cause!r}")


def _user(line: str) -> str:
    return line.partition("~")[0]


def _broker(user: User) -> str:
    return user.line.broker if user.line is not None else ""
