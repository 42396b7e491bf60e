"""Queues are redirected, and are so no more, under their senders and consumers.

Where a message belongs is said by the log alone: as the wiring was up to the entry that its broker had applied when the
transfer came. It is in each queue where it belongs so, and in no other; one that was sent again, in those of either
time, unless there is there what was sent after it: then it is in one of them at least. What is complete is there.
"""

from __future__ import annotations

import random
from bisect import bisect
from typing import TYPE_CHECKING, Any, NamedTuple

from mantamq.client.management import _bind, _declare_exchange, _declare_queue, _end_redirect, _redirect_queue
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import AttachSender, Completed, Transfer

from .defaults import roomy
from .model import ModelQueue, Violation, each
from .model_redirects import PREFIX

if TYPE_CHECKING:
    from .boxes import Outbox
    from .checkers import Watcher
    from .users import Task, User
    from .workload import Story
    from .world import World

STORIES = 0.1
"""The share of stories with redirected queues."""
RATE = 0.12
"""How often somebody redirects, ends that, sends, or declares and deletes such a queue."""
MOST = 4
"""Of their queues at a time."""
ALL = "tr.all"
"""An exchange that leads to all of them, and to a queue that stays."""
REFUSED = ("not-allowed", "exists", "not-found")


class Leads(NamedTuple):
    """As it was from an index of the stream on: name of a queue -> its id; the same -> id of the one that gets what is
    sent to it; the queues that are bound to the exchange."""

    own: dict[str, str]
    by_name: dict[str, str]
    bound: frozenset[str]


class Redirected:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. redirected: messages that came to another queue than the one they were sent to.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"redirected queues of {seed}")
        self.some = self._rng.random() < STORIES
        self.redirected = 0
        self._world, self._watch = world, watch
        self._declared = 0
        self._begun = self._bound = False
        self._since, self._leads = [0], [Leads({}, {}, frozenset())]
        # (line, handle) -> exchange and key of a sender, whether it has a name, and its name in the log
        self._to: dict[tuple[str, int], tuple[str, str, bool, str]] = {}
        self._belongs: dict[tuple[str, int], dict[int, set[str]]] = {}  # the same -> number -> ids, as it was sent so
        self._ever: dict[str, dict[int, set[str]]] = {}  # sender's name in the log -> number -> ids, ever
        if self.some:
            world.watch(sent={AttachSender: self._attaches, Completed: self._completed}, arrived={Transfer: self._came})
            watch.on_wiring.append(self._wired)
            watch.before_commit.append(self._committing)

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        users = [user for user in story.users if user.opened and user.alive and user.reconnects]
        if not users:
            return
        user = rng.choice(users)
        wiring = self._watch.wiring
        here = sorted(name for name in wiring.ids if name.startswith(PREFIX))
        what = rng.random()
        if len(here) < 2 or (what < 0.1 and len(here) < MOST):
            self._declare(story, user)
        elif what < 0.4:
            self._ask(user, _redirect_queue(*rng.sample(here, 2)))
        elif what < 0.55:
            self._ask(user, _end_redirect(rng.choice([*wiring.redirects, *here])))
        elif what < 0.6:
            story.client().command("delete_queue", name=rng.choice(here))
        elif what < 0.9:
            by_exchange = rng.random() < 0.3 and self._bound
            target = ("", rng.choice(here)) if not by_exchange else (ALL, "")
            user.sender(*target, rng.choice([1, 5, 20]), 60, False)
        else:
            user.receiver(rng.choice(here), rng.choice([1, 20, 100]))
        if boxes := [box for user in users for box in user.outboxes.values() if box.open and self._ours(box)]:
            rng.choice(boxes).act(rng, 4)
        if rng.random() < 0.1:
            self._world.after(rng.randrange(20_000), user.cut)

    def _ours(self, box: Outbox) -> bool:
        return box.exchange == ALL or (not box.exchange and (box.target or "").startswith(PREFIX))

    def _declare(self, story: Story, user: User) -> None:
        self._declared += 1
        name = f"{PREFIX}{self._declared}"
        durable, few = story.declared_as(name).get("durable", False), roomy(self._world.limits.queue_bytes)
        story.deliveries.passing.add(ALL)
        first, self._begun = not self._begun, True

        def begin() -> Task:
            if first:
                yield from user.asked(_declare_exchange(ALL, "fanout", True, "", None, False))
                if not user.over:  # where it finds none, another broker than the one before might, for the same
                    self._bound = (yield from user.asked(_bind(ALL, story.queues[1], "", None))) is not None
            if user.over or (yield from user.asked(_declare_queue(name, durable, "", few, False))) is None:
                return
            story.temporary.append(name)
            if not user.over:
                yield from user.asked(_bind(ALL, name, "", None))

        user.start(begin())

    def _ask(self, user: User, ask: Any) -> None:
        def begin() -> Task:
            before = len(user.errors)
            yield from user.asked(ask)
            for what, error in user.errors[before:]:
                if what == ask.name and error.code in REFUSED:  # a chain, or somebody was faster
                    user.errors.remove((what, error))

        user.start(begin())

    # ---- where messages belong

    def _wired(self, event: events.AnyEvent) -> None:
        wiring = self._watch.wiring
        own = dict(wiring.ids)
        by_name = {name: own[wiring.redirects.get(name, name)] for name in own}
        bound = frozenset(queue for exchange, queue, _ in wiring.bindings if exchange == ALL)
        if (now := Leads(own, by_name, bound)) != self._leads[-1]:
            self._since.append(self._watch.commits[events.CLUSTER])
            self._leads.append(now)

    def _attaches(self, source: str, target: str, frame: AttachSender) -> None:
        if frame.exchange == ALL or (frame.exchange == "" and (frame.key or "").startswith(PREFIX)):
            client = f"{frame.name}!" if frame.name else f"{source.partition('~')[0]}/{frame.handle}"
            self._to[source, frame.handle] = frame.exchange, frame.key or "", frame.name != "", client

    def _came(self, source: str, target: str, frame: Transfer) -> None:
        place = source, frame.handle
        if place not in self._to or target not in self._world.brokers:
            return
        exchange, key, named, client = self._to[place]
        leads = self._leads[bisect(self._since, self._world.machines[target].keeper.commit) - 1]
        names = leads.bound if exchange else {key}
        own = {leads.own[name] for name in names if name in leads.own}
        ids = own if named else {leads.by_name[name] for name in names if name in leads.by_name}
        ever = self._ever.setdefault(client, {})
        for number in range(frame.first, frame.first + len(frame.blobs)):
            self._belongs.setdefault(place, {})[number] = ids
            ever.setdefault(number, set()).update(ids)
            self.redirected += not ids <= own

    def _committing(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        if stream.startswith(PREFIX):
            model.led = True
        if not isinstance(event, events.Enqueue) or event.client not in self._ever:
            return
        ever = self._ever[event.client]
        for number in each(event.numbers):
            if stream not in ever.get(number, ()):
                belongs = sorted(ever.get(number, ())) or "nobody"
                raise Violation(f"{stream}: {number} of {event.client} comes here, and belongs to {belongs}")

    def _completed(self, source: str, target: str, frame: Completed) -> None:
        belongs = self._belongs.get((target, frame.handle))
        if belongs is None:
            return
        client = self._to[target, frame.handle][-1]
        for number in set(each(frame.ranges)) - set(each(frame.unroutable)):
            ever = self._ever[client][number]
            there = {id for id in ever if id in self._watch.models and number in self._seen(id, client)}
            for id in belongs.get(number, set()) - self._watch.gone - there:
                behind = number < max(self._seen(id, client), default=0) and len(ever) > 1
                if not behind or not (there or ever & self._watch.gone):
                    raise Violation(f"{target} hears that {number} of {frame.handle} is complete; it is not in {id}")

    def _seen(self, id: str, client: str) -> set[int]:
        model = self._watch.models.get(id)
        return model.seen.get(client, set()) if model is not None else set()
