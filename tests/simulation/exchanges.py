"""Which stories have exchanges of more kinds, what is bound to them, and who sends to them.

What comes by them is judged as what comes by others: `deliveries.py` knows what must be in a queue, `alternates.py` what may.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _bind, _bind_exchange, _declare_exchange
from mantamq.protocol.wire.client_frames import Attached, AttachSender, Detached, Transfer

from .model import Violation, opened

if TYPE_CHECKING:
    from .clients import Client
    from .users import User
    from .world import World

SHARE = 0.35
"""Of the stories."""
MARKED = "marked"
"""A headers exchange that looks at headers which begin with x-, too."""
FRONT, ROUND, BACK = "front", "round", "back"
"""Bound to each other in a ring."""
HOLLOW, EMPTY, PASSING, LATE = "hollow", "empty", "passing", "late"
"""Leads to EMPTY and BACK, and its alternate to all; nothing is bound to that; of what it leads to the alternate has some;
leads to MARKED, which is bound to it when its senders are there."""
INNER = "inner"
"""Nobody sends to it."""
SOLE = "sole"
"""Of each key the last binding counts."""
FIXED = frozenset((MARKED, FRONT, ROUND, BACK, HOLLOW, PASSING, LATE, SOLE))
"""Exchanges whose bindings stay as they are."""
SENT_TO: tuple[tuple[str, str | None], ...] = (
    (MARKED, ""), (MARKED, None), (FRONT, None), (FRONT, "x.y"), (ROUND, "x"), (BACK, "x.y"), (BACK, "y"), (HOLLOW, "k"),
    (HOLLOW, "x"), (HOLLOW, "none"), (PASSING, ""),
    (SOLE, "k"), (SOLE, None),
)  # fmt: skip


class Exchanges:
    """Of one story; its choices are its own, so that they do not move those of others. It watches who is let in to INNER.

    Attributes:
        some: the story has any.
        kept_out: senders that wanted to send there.
    """

    def __init__(self, seed: int, world: World) -> None:
        self._rng = random.Random(f"exchanges of {seed}")
        self.some = self._rng.random() < SHARE
        self.kept_out = 0
        self._passing: dict[str, str] = {}  # exchange -> a queue that it may be bound to
        self._inner: set[tuple[str, int]] = set()  # (client, handle) of those who want to send to INNER
        if self.some:
            world.watch(sent={AttachSender: self._attaches, Attached: self._attached, Detached: self._refused})

    def _attaches(self, source: str, target: str, frame: AttachSender) -> None:
        if frame.exchange == INNER:
            self._inner.add((source, frame.handle))

    def _attached(self, source: str, target: str, frame: Attached) -> None:
        if (target, frame.handle) in self._inner:
            raise Violation(f"{source} lets {target} send to {INNER}, which is internal")

    def _refused(self, source: str, target: str, frame: Detached) -> None:
        self.kept_out += (target, frame.handle) in self._inner

    def declare(self, user: User, queues: list[str]) -> None:
        if not self.some:
            return
        user.ask(_declare_exchange(MARKED, "headers", False, "", None, False))
        user.ask(_bind(MARKED, queues[1], "", {"x-match": "all-with-x", "x-d": "x", "c": 1}))
        user.ask(_bind(MARKED, queues[-1], "2", {"x-match": "any-with-x", "x-d": "y", "d": "x"}))
        for name, type, alternate in (
            (FRONT, "topic", ""), (ROUND, "fanout", ""), (BACK, "direct", ""), (EMPTY, "fanout", ""),
            (HOLLOW, "direct", "everybody"), (PASSING, "fanout", ""), ("sieve", "direct", "everybody"), (LATE, "topic", ""),
        ):  # fmt: skip
            user.ask(_declare_exchange(name, type, self._rng.random() < 0.5, alternate, None, False))
        user.ask(_declare_exchange(INNER, "fanout", False, "", None, False, internal=True))
        user.ask(_bind(INNER, queues[-1], "", None))
        user.ask(_bind_exchange(FRONT, INNER, "x", None))
        user.ask(_bind(FRONT, queues[1], "x.#", None))
        user.ask(_bind(BACK, queues[-1], "x.y", None))
        user.ask(_bind(BACK, queues[1], "x", None))
        user.ask(_bind_exchange(FRONT, ROUND, "*.y", None))
        user.ask(_bind_exchange(FRONT, ROUND, "#.z", None))
        user.ask(_bind_exchange(ROUND, BACK, "", None))
        user.ask(_bind_exchange(BACK, FRONT, "x.y", None))
        user.ask(_bind_exchange(BACK, BACK, "y", None))
        user.ask(_bind_exchange(HOLLOW, EMPTY, "k", None))
        user.ask(_bind_exchange(HOLLOW, BACK, "x", None))
        user.ask(_bind_exchange(PASSING, "sieve", "", None))
        user.ask(_bind_exchange(PASSING, EMPTY, "", None))
        user.ask(_bind(LATE, queues[1], "x.y", None))
        user.ask(_declare_exchange(SOLE, "direct", False, "", None, False))
        user.ask(_bind_exchange(SOLE, "everybody", "k", None))
        for key in ("k", "x"):
            user.ask(_bind(SOLE, queues[1], key, None))
        for key in ("k", "y"):
            user.ask(_bind(SOLE, queues[-1], key, {"qpid.exclusive-binding": True}))

    def passing(self) -> bool:
        """Whether it is time for an exchange to come or go."""
        return self.some and self._rng.random() < 0.1

    def pass_by(self, client: Client, queues: list[str], there: set[str]) -> None:
        """Exchanges come and go that are bound to each other, and have senders. `there`: gets the names of all that
        there ever were."""
        rng = self._rng
        chance = rng.random()
        if len(self._passing) < 2 or (chance < 0.3 and len(self._passing) < 6):
            name, queue = f"y{len(there)}", rng.choice(queues[1:])
            self._passing[name] = queue
            there.add(name)
            type, fleeting = rng.choice(["direct", "topic", "fanout", "headers"]), rng.random() < 0.6
            arguments = {"manta.auto_delete": True} if fleeting else {}
            if type == "direct" and rng.random() < 0.5:
                arguments["qpid.exclusive-binding"] = True
            client.command("declare_exchange", name=name, type=type, arguments=arguments)
            if rng.random() < 0.7:
                client.command("bind", exchange=name, queue=queue, key="x")
                client.attach_sender(name, "x")
            return
        one, other = rng.choice(list(self._passing)), rng.choice(list(self._passing))
        if chance < 0.45:
            del self._passing[one]
            client.command("delete_exchange", name=one)
        elif chance < 0.55:
            client.command("unbind", exchange=one, to_exchange=other, key="x")
        elif chance < 0.65:
            client.command("unbind", exchange=one, queue=self._passing[one], key="x")
        elif chance < 0.75:
            client.attach_sender(one, "x")
        elif chance < 0.8:
            client.attach_sender(INNER, "x")
        else:
            client.command("bind", exchange=one, to_exchange=other, key=rng.choice(["x", "x", "#"]))

    def senders(self, user: User) -> None:
        """Of a user who has no other."""
        for exchange, key in [*self._rng.sample(SENT_TO, 3), (LATE, self._rng.choice([None, "x", "x.y"]))]:
            user.sender(exchange, key, self._rng.choice([1, 5, 50]), None, self._rng.random() < 0.3)

    def declare_late(self, user: User) -> None:
        user.ask(_bind_exchange(LATE, MARKED, "x.*", None))
        user.ask(_bind_exchange(LATE, MARKED, "x", None))


def looked_at(exchange: str, frame: Transfer, index: int) -> dict[str, Any] | None:
    """The properties by which that message of a transfer goes: a broker finds them in it, if its client sends none."""
    if frame.headers is not None:
        return frame.headers[index]
    if exchange != LATE:
        return None
    fields = [*opened(frame.blobs[index]), None, None]
    return fields[2] if isinstance(fields[2], dict) else None
