"""Queues that one user has for itself: others are refused all but to send to it, and it goes when its user has gone, in time.

Whose a queue is its name says; where its user is by the log, the model knows.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _declare_queue
from mantamq.protocol.errors import IN_USE, NOT_FOUND, UNAVAILABLE
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, Command, Reply

from .clients import Client
from .lines import Line
from .model import Violation
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

STORIES = 0.3
"""The share of stories with such queues."""
RATE = 0.1
"""How often somebody comes, goes or tries for that alone."""
MOST = 4
"""Of them at a time."""
WAITS_S = (0, 1, 1, 2)
SLACK_US = 1_000
"""Machines count milliseconds."""
PREFIX = "tx"
KEPT = {"declare_queue": "name", "delete_queue": "name", "purge": "name", "bind": "queue", "unbind": "queue"}
"""Commands that only its user may give -> the argument with the queue's name."""


def user_of(queue: str) -> str:
    """The name of the user that has a queue for itself, "" for none."""
    return queue.partition(".")[2] if queue.startswith(PREFIX) else ""


class OwnQueues:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any.
        gone: how many have gone since their users had. refused: what others have wanted of them.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"own queues of {seed}")
        self._words = random.Random(f"own queues by Qpid's words of {seed}")
        self.some = self._rng.random() < STORIES
        self.gone = self.refused = 0
        self._world, self._watch = world, watch
        self._declared = 0
        self._names: list[str] = []
        self._users: dict[str, User] = {}  # queue -> whose it is
        self._parted_us: dict[tuple[str, int], int] = {}  # (queue id, index of the event) -> when its user had gone
        self._asked: dict[tuple[str, int], tuple[str, str]] = {}  # (line, number of a command) -> queue, command
        self._attaching: dict[tuple[str, int], str] = {}  # (line, handle) -> queue
        self._free: set[str] = set()  # names that another one has declared anew, when its user's queue had gone
        if self.some:
            watch.on_wiring.append(self._wired)
            watch.on_vacant.append(self._goes)
            world.watch(
                sent={Command: self._asks, Reply: self._answers, AttachReceiver: self._comes, Attached: self._is_let_in}
            )

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        here = [name for name in self._names if name in self._watch.wiring.ids]
        what = rng.random()
        if not here or (what < 0.3 and len(here) < MOST):
            self._declare(story)
        elif what < 0.6:
            self._try(story, rng.choice(here))
        elif what < 0.85:
            self._users[rng.choice(here)].cut()
        else:
            self._users[rng.choice(here)].leave()

    def _declare(self, story: Story) -> None:
        self._declared += 1
        user = story.user(True)
        name = f"{PREFIX}{self._declared}.{user.name}"
        self._users[name] = user
        typed: dict[str, Any] = self._words.choice([{"exclusive": True}, {"lifetime": "delete-on-close"}])
        typed |= {"auto_delete_timeout_s": self._rng.choice(WAITS_S)}

        def begin() -> Task:
            yield lambda: user.opened or user.over
            durable = story.declared_as(name).get("durable", False)
            if user.over or (yield from user.asked(_declare_queue(name, durable, "", None, False, **typed))) is None:
                return
            self._names.append(name)
            if self._rng.random() < 0.7 and not user.over:
                user.receiver(name, self._rng.choice([1, 20]))

        user.start(begin())

    def _try(self, story: Story, name: str) -> None:
        """Another one sends to it, which it may, or wants something of it."""
        rng, client = self._rng, story.client()
        match rng.choice(["send", "consume", "browse", *KEPT]):
            case "send":
                client.attach_sender("", name)
            case "consume" | "browse" as mode:
                client.attach_receiver(name, mode)
            case "bind" | "unbind" as what:
                client.command(what, exchange="amq.direct", queue=name, key="mine")
            case what:
                client.command(what, name=name)

    def leave(self) -> None:
        """At rest nobody else can empty them: their users go."""
        for user in self._users.values():
            if user.alive:
                user.leave()

    def over(self) -> bool:
        return not self._watch.wiring.clients

    # ---- what comes of it

    def _wired(self, event: events.AnyEvent) -> None:
        now = set(self._watch.wiring.parted.items())
        self._parted_us = {parted: self._parted_us.get(parted, self._world.now_us) for parted in now}

    def _goes(self, id: str) -> None:
        """It is deleted since its user has gone: by the log that is so, for long enough, unless that has closed."""
        wiring, name = self._watch.wiring, id.rpartition("#")[0]
        if id not in wiring.parted or name not in self._users:  # or it is for somebody's answers (`requests.py`)
            return
        self.gone += 1
        if self._users[name].over:
            return
        wait_us = wiring.defined[name][0]["qpid.auto_delete_timeout"] * 1_000_000
        since_us = self._world.now_us - self._parted_us[id, wiring.parted[id]]
        if since_us < wait_us - SLACK_US:
            raise Violation(f"{id} goes {since_us} us after its user had gone, who has not closed: {wait_us}")

    def _client(self, line: str) -> str:
        client: Client | None = self._world.clients.get(line)
        return client.user.name if isinstance(client, Line) else line

    def _is_anothers(self, queue: str, source: str) -> bool:
        return user_of(queue) not in ("", self._client(source)) and queue not in self._free

    def _asks(self, source: str, target: str, frame: Command) -> None:
        queue = frame.arguments.get(KEPT.get(frame.name, ""), "")
        if self._is_anothers(queue, source):
            self._asked[source, frame.number] = queue, frame.name

    def _answers(self, source: str, target: str, frame: Reply) -> None:
        queue, what = self._asked.pop((target, frame.number), ("", ""))
        if (
            what == "declare_queue"
            and not frame.code
            and self._watch.wiring.ids.get(queue, "") not in self._watch.wiring.clients
        ):
            self._free.add(queue)  # the log has it so
            return
        # Unavailable: its broker was cut off, and has not seen how it ended.
        if queue and frame.code not in (IN_USE, NOT_FOUND, UNAVAILABLE):
            raise Violation(f"{target} is answered {frame} to {what} of {queue}, which is another's")
        self.refused += bool(queue)

    def _comes(self, source: str, target: str, frame: AttachReceiver) -> None:
        if self._is_anothers(frame.queue, source):
            self._attaching[source, frame.handle] = frame.queue

    def _is_let_in(self, source: str, target: str, frame: Attached) -> None:
        if queue := self._attaching.get((target, frame.handle)):
            raise Violation(f"{target} is let in to {queue}, which is another's")
