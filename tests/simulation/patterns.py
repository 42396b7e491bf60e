"""Patterns come and go, and users attach to names that nobody has declared: what is made is what the pattern of the
name said at some time since the user asked, it is made for somebody who asked, and nobody is refused without cause.

Brokers hear of patterns and queues one after the other, so what is right is asked of all that was so between the oldest
of what any broker knew when the user asked and the newest when it is answered.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from mantamq.client.patterns import _add_pattern, _delete_pattern
from mantamq.protocol.wire import events
from mantamq.protocol.wire.pattern_events import DropPattern, PutPattern

from .boxes import Inbox, Outbox
from .model import ModelWiring, Violation
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story
    from .world import World

STORIES = 0.05
"""The share of stories with patterns."""
RATE = 0.2
"""How often somebody puts or drops one, or attaches for that alone."""
PREFIX = "tp"
NAMES = tuple(f"{PREFIX}{number}" for number in range(1, 5))
PATTERNS = ("^tp", "^tp[12]", "^tp.*[0-3]$", "p1|p4", "^tp(1|3)+$", "^none$")
MADE: tuple[dict[str, Any], ...] = ({}, {}, {"max_count": 50, "overflow": "ring"}, {"delivery_limit": 40})
CAUSES = frozenset({"not-found", "unavailable", "deleted", "lost", "connection-lost", "link-closed"})
"""Why an attach may fail; of the first it is judged whether that is so."""


class Time(NamedTuple):
    """What was so from an index of the cluster stream on. Attributes: patterns; queues, exchanges: that are there."""

    index: int
    patterns: tuple[PutPattern, ...]
    queues: frozenset[str]
    exchanges: frozenset[str]

    def makes(self, name: str) -> PutPattern | None:
        fit = [one for one in self.patterns if re.search(one.pattern, name)]
        first = sorted(fit, key=lambda one: one.name)
        return max(first, key=lambda one: one.priority) if first else None


@dataclass
class Ask:
    """Somebody wants to attach. Attributes: since: index up to which every broker had applied then; greetings: how
    many brokers its user had come to; over: nothing can be made for it any more."""

    user: User
    name: str
    exchange: bool
    since: int
    greetings: int
    over: bool = False


class Patterns:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. made: how many queues and exchanges have been made. refused: attaches that were.
    """

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"patterns of {seed}")
        self.some = self._rng.random() < STORIES
        self.made = self.refused = 0
        self._world, self._watch = world, watch
        self._index = 0
        self._patterns: dict[str, PutPattern] = {}
        self._times = [Time(0, (), frozenset(), frozenset())]
        self._asks: list[Ask] = []
        if self.some:
            watch.on_wiring.append(self._wired)

    # ---- the story

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        users = [user for user in story.users if user.opened and user.alive and user.reconnects]
        if not users:
            return
        user, what = rng.choice(users), rng.random()
        if what < 0.25 or not self._patterns:
            ask: Any = self._put(story)
        elif what < 0.32:
            ask = _delete_pattern(rng.choice("abc"))
        elif what < 0.42:
            story.client().command("delete_queue", name=rng.choice(NAMES))
            return
        else:
            name = rng.choice(NAMES)
            for one in rng.sample(users, min(len(users), rng.choice([1, 1, 2, 3]))):
                self._attach(story, one, name)
            return

        def begin() -> Task:
            yield from user.asked(ask)

        user.start(begin())

    def _put(self, story: Story) -> Any:
        rng = self._rng
        durable = story.declared_as(PREFIX).get("durable", False)
        queue, exchange = {"durable": durable} | rng.choice(MADE), {"type": "fanout"}
        wanted = (None, exchange) if rng.random() < 0.15 else (queue, None)
        return _add_pattern(rng.choice("abc"), rng.choice(PATTERNS), rng.randrange(3), *wanted)

    def _attach(self, story: Story, user: User, name: str) -> None:
        rng = self._rng
        how = rng.choice(["send", "send", "receive", "receive", "browse", "exchange"])
        brokers = [machine for broker in self._world.brokers if (machine := self._world.machines.get(broker))]
        since = min((machine.keeper.commit for machine in brokers), default=0)
        ask = Ask(user, name, how == "exchange", since, user.conversation.greetings)
        self._asks.append(ask)
        box: Inbox | Outbox
        if how == "send":
            user.sender("", name, 20, 60, False)
            box = list(user.outboxes.values())[-1]
        elif how == "exchange":
            story.deliveries.passing.add(name)
            user.sender(name, "x", 20, 60, False)
            box = list(user.outboxes.values())[-1]
        else:
            user.receiver(name, rng.choice([1, 20, 100]), "browse" if how == "browse" else "consume")
            box = list(user.inboxes.values())[-1]

        def wait() -> Task:
            yield lambda: box.core is not None or bool(box.code)
            self._judge(ask, box.code)

        user.start(wait())
        if rng.random() < 0.15:
            self._world.after(rng.randrange(20_000), user.cut)

    # ---- what comes of it

    def _wired(self, event: events.AnyEvent) -> None:
        self._index += 1
        if isinstance(event, events.DeclareQueue | events.DeclareExchange) and event.name.startswith(PREFIX):
            self._is_made(event)
        if isinstance(event, PutPattern):
            self._patterns[event.name] = event
        elif isinstance(event, DropPattern):
            self._patterns.pop(event.name, None)
        queues = frozenset(name for name in self._watch.wiring.ids if name.startswith(PREFIX))
        exchanges = frozenset(name for name in self._watch.wiring.exchanges if name.startswith(PREFIX))
        now = Time(self._index, tuple(self._patterns.values()), queues, exchanges)
        if now[1:] != self._times[-1][1:]:
            self.made += len(queues - self._times[-1].queues) + len(exchanges - self._times[-1].exchanges)
            self._times.append(now)

    def _between(self, since: int) -> list[Time]:
        """All that was so since an index, what was so then included."""
        before = [time for time in self._times if time.index <= since][-1:]
        return before + [time for time in self._times if time.index > since]

    def _is_made(self, event: events.DeclareQueue | events.DeclareExchange) -> None:
        exchange = isinstance(event, events.DeclareExchange)
        open = [ask for ask in self._asks if not ask.over and ask.name == event.name and ask.exchange is exchange]
        if not open:
            raise Violation(f"{event} is made for nobody who has asked for that and waits")
        since = min(self._since(ask) for ask in open)
        said = ModelWiring._said(event.arguments), event.durable
        for time in self._between(since):
            one = time.makes(event.name)
            if one is not None and (one.makes == "exchange") is exchange and said == (one.arguments, one.durable):
                return
        raise Violation(f"{event} is made by none of the patterns that were there since {since}: {self._patterns}")

    def _since(self, ask: Ask) -> int:
        """Whoever has come to another broker meanwhile may have found one that knew less."""
        return ask.since if ask.user.conversation.greetings == ask.greetings and not self._world.standby else 0

    def _judge(self, ask: Ask, code: str) -> None:
        # A broker that its user has left, or that was told to end the connection, may still see to it.
        conversation = ask.user.conversation
        here = ask.user.line is not None and conversation.failure is None
        ask.over = here and conversation.greetings == ask.greetings
        times, name = self._between(self._since(ask)), ask.name
        if not code:
            if not any(name in (time.exchanges if ask.exchange else time.queues) for time in times):
                raise Violation(f"{ask.user.name} is attached to {name}, which was not there since index {ask.since}")
            return
        self.refused += 1
        if code not in CAUSES:
            raise Violation(f"{ask.user.name} is refused at {name} by {code}")
        if code != "not-found":
            return
        there = [name in (time.exchanges if ask.exchange else time.queues) for time in times]
        went = any(was and not now for was, now in pairwise(there))
        makes = "exchange" if ask.exchange else "queue"
        wanting = any(
            not now
            and (name in time.queues | time.exchanges or (one := time.makes(name)) is None or one.makes != makes)
            for now, time in zip(there, times, strict=True)
        )
        if not went and not wanting:
            raise Violation(f"{ask.user.name} is told that there is no {makes} {name}, which a pattern makes: {times}")
