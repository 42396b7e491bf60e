"""Queues that go with their last consumer: they come and are used and left, go in time, and no earlier.

When a queue is left the model knows from the log; the time from there until its deletion is the world's. Whether somebody is
attached to a queue that goes is judged in `conditions.py`, by what clients have heard.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _declare_queue
from mantamq.protocol.wire import events
from mantamq.protocol.wire.log_frames import Request

from .dissolved import OfTemporary
from .model import Violation
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

STORIES = 0.3
"""The share of stories with such queues."""
RATE = 0.1
"""How often somebody comes or goes for that alone."""
MOST = 4
"""Of them at a time."""
WAITS_S = (0, 0, 1, 1, 2)
WORDS = ({"auto_delete": True}, {"lifetime": "delete-if-unused-and-empty"}, {"lifetime": "delete-if-unused"})
IF_EMPTY = 0.3
"""How many, besides, go only when nothing is in them."""
PURGE = 0.02
"""How often one that was left with messages in it is emptied."""
HASTE = 0.5
"""How likely somebody comes while a deletion is on its way."""
SLACK_US = 1_000
"""Machines count milliseconds."""


class AutoDeletes:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any.
        gone: how many have gone by themselves. emptied: of those, such as had been left with messages in them.
            kept: how often one was left and somebody came again.
    """

    what, prefix = "auto deletes", "ta"

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"{self.what} of {seed}")
        self._words = random.Random(f"lifetimes by Qpid's words of {seed}")
        self.some = self._rng.random() < self._share()
        self.gone = self.kept = self.emptied = 0
        self._full: set[tuple[str, int]] = set()  # were left with messages, and go only without
        self._alternate = OfTemporary(seed)
        self._world, self._watch = world, watch
        self._names: list[str] = []
        self._declared = 0
        self._users: list[User] = []
        self._left_us: dict[tuple[str, int], int] = {}  # (queue id, index of the event) -> when it was left
        watch.on_wiring.append(self._wired)
        watch.on_vacant.append(self._goes)
        self._story: Story | None = None
        if self.some:
            world.watch(sent={Request: self._orders})

    # ---- which queues these are

    def _share(self) -> float:
        return STORIES

    def _typed(self) -> dict[str, Any]:
        wait = {"auto_delete_timeout_s": self._rng.choice(WAITS_S)}
        return wait | (WORDS[1] if self._words.random() < IF_EMPTY else self._words.choice(WORDS))

    def _left(self) -> dict[str, int]:
        """Queue id -> index of the event since which it is left."""
        return self._watch.wiring.vacated

    def _waits_us(self, arguments: dict[str, Any]) -> int:
        return arguments["qpid.auto_delete_timeout"] * 1_000_000

    # ---- the story

    def maybe(self, story: Story) -> None:
        """One of them is declared, used, or left; some users find another broker meanwhile."""
        rng = self._rng
        self._story = story
        if self._full and self._words.random() < PURGE:
            id, _ = self._words.choice(sorted(self._full))
            story.client().command("purge", name=id.rpartition("#")[0], count=self._words.choice([0, 0, 3]))
        if not self.some or rng.random() >= RATE:
            return
        here = [name for name in self._names if name in self._watch.wiring.ids]
        what = rng.random()
        if not here or (what < 0.25 and len(here) < MOST):
            self._declare(story)
        elif what < 0.65:
            self._use(story, rng.choice(here))
        else:
            self._leave(rng.choice(here))

    def _declare(self, story: Story) -> None:
        self._declared += 1
        name = f"{self.prefix}{self._declared}"
        user = story.user(True)
        more = story.declared_as(name)
        ask = _declare_queue(name, more.get("durable", False), self._alternate.one(), None, False, **self._typed())

        def begin() -> Task:
            yield lambda: user.opened or user.over
            if user.over or (yield from user.asked(ask)) is None:
                return
            # Nobody uses or deletes it before: a declaration that is asked again never makes another of that name.
            self._names.append(name)
            story.temporary.append(name)
            self._attach(user, name)

        user.start(begin())

    def _use(self, story: Story, name: str) -> None:
        if self._rng.random() < 0.4:
            story.client().attach_receiver(name)
        else:
            self._attach(story.user(True), name)

    def _attach(self, user: User, name: str) -> None:
        self._users.append(user)
        if self._rng.random() < 0.8:
            user.receiver(name, self._rng.choice([1, 20, 100]))
        sends, wiring = self._rng.random() < 0.5, self._watch.wiring
        if sends or (name in wiring.ids and wiring.goes_empty(name)):
            user.sender("", name, 20, 60, False)

    def _leave(self, name: str) -> None:
        """All its users leave it, or lose their brokers, or one does."""
        users = [user for user in self._users if user.alive and any(box.queue == name for box in user.inboxes.values())]
        if users and self._rng.random() < 0.4:
            users = [self._rng.choice(users)]
        how = self._rng.choice(["cut", "cut", "close", "leave"])
        for user in users:
            if how == "cut":
                user.cut()
            elif how == "leave":
                user.leave()
            else:
                for box in user.inboxes.values():
                    if box.open and box.queue == name:
                        user.start(user.close_receiver(box))
        for client in self._world.clients.values():
            for handle, link in () if isinstance(getattr(client, "user", None), User) else client.links.items():
                if link.target == name and link.mode == "consume" and link.open and not link.closing:
                    client.detach(handle)

    def _orders(self, source: str, target: str, frame: Request) -> None:
        """While a deletion is on its way somebody may come."""
        asked = [events.decode_event(part) for stream, part in frame.parts if stream == events.CLUSTER]
        for event in asked:
            if isinstance(event, events.DeleteQueue) and event.vacant and self._rng.random() < HASTE:
                self._world.after(self._rng.randrange(1_000), self._comes, event.name)

    def _comes(self, name: str) -> None:
        story = self._story
        here = [client for client in story.clients if client.opened and client.alive] if story is not None else []
        if here and story is not None and story.lives:
            self._rng.choice(here).attach_receiver(name)

    # ---- what comes of it

    def _wired(self, event: events.AnyEvent) -> None:
        vacated = self._left()
        now = {(id, index) for id, index in vacated.items()}
        self.kept += sum(id not in vacated and id not in self._watch.gone for id, _ in self._left_us.keys() - now)
        self._left_us = {left: self._left_us.get(left, self._world.now_us) for left in now}
        models = self._watch.models
        self._full = {
            left
            for left in now
            if left in self._full or (self._if_empty(left[0]) and left[0] in models and models[left[0]].live)
        }

    def _goes(self, id: str) -> None:
        """A queue is deleted since nobody uses it any more: by the log that is so, for long enough."""
        left = self._left()
        if id not in left:
            return
        self.gone += 1
        if self._if_empty(id):
            self._condemned(id)
            self.emptied += (id, left[id]) in self._full
        arguments = self._watch.wiring.defined[id.rpartition("#")[0]][0]
        left_us = self._left_us[id, left[id]]
        if self._world.now_us - left_us < self._waits_us(arguments) - SLACK_US:
            raise Violation(
                f"{id} goes {self._world.now_us - left_us} us after it was left: it is declared {arguments}"
            )

    def _if_empty(self, id: str) -> bool:
        return self._watch.wiring.goes_empty(id.rpartition("#")[0])

    def _condemned(self, id: str) -> None:
        """Whether nothing that is complete is in it is then judged in `conditions.py`."""
        stands = self._watch.wiring.condemned.get(id)
        if stands is None or not stands.if_unused or not stands.if_empty:
            raise Violation(f"{id} goes only when it is unused and empty: it is deleted, and condemned is {stands}")

    def over(self) -> bool:
        """At rest: what was left has gone, unless it goes only when it is empty, and is not."""
        models = self._watch.models
        return not [id for id in self._left() if not (self._if_empty(id) and id in models and models[id].live)]
