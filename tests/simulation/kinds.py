"""Which queues of a story are of another kind than plain, in whose words they are declared, and in which order their
messages go."""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.wire.queue_frames import Consume, Deliver

from . import alerts, deaths, delays, duplicates, lifetimes, timeouts
from .checkers import Watcher
from .deliveries import Deliveries
from .model import ModelQueue, Violation, each
from .modifies import Undeliverable
from .no_locals import others
from .selectors import wants
from .world import World

KINDS = 0.5
"""The share of stories in which queues may be of a kind."""
STAMPED = 0.08
"""The share of all queues that stamp their messages."""
DESTROYING = 0.15
"""The share of stories in which temporary queues may destroy themselves at their limits."""
LIMITS: tuple[dict[str, Any], ...] = (
    {"max_count": 1}, {"max_count": 3}, {"max_count": 20}, {"max_size": 120}, {"max_size": 300}, {"max_size": 2_000},
    {"max_count": 20, "max_size": 1_500},
)  # fmt: skip
FLOWS: tuple[dict[str, Any], ...] = (
    {"flow_stop_count": 5}, {"flow_stop_count": 12, "flow_resume_count": 2}, {"flow_stop_size": 900},
    {"flow_stop_count": 4, "flow_resume_count": 4, "flow_stop_size": 600, "flow_resume_size": 300},
)  # fmt: skip
"""Of queues without a limit."""
NO_FLOW: tuple[dict[str, Any], ...] = ({"flow_stop_count": 0, "flow_stop_size": 0},)
"""Of queues that refuse messages at their limits, and hold nobody back before."""
OTHERS: tuple[dict[str, Any], ...] = (
    {"priorities": 2}, {"priorities": 3}, {"priorities": 10}, {"max_priority": 3}, {"last_value_key": "c"},
    {"last_value_key": "nobody has it"}, {"group_key": "c"}, {"group_key": "c"}, {"group_key": "d"}, {"fair_key": "c"}, {"fair_key": "d"},
)  # fmt: skip
NAMES = {
    "max_count": ("qpid.max_count", "x-max-length"),
    "max_size": ("qpid.max_size", "x-max-length-bytes"),
    "priorities": ("qpid.priorities",),
    "max_priority": ("x-max-priority",),
    "last_value_key": ("qpid.last_value_queue_key",),
    "group_key": ("qpid.group_header_key",),
    "fair_key": ("manta.fair_key",),
    "sequence_key": ("qpid.queue_msg_sequence",),
    "delivery_limit": ("manta.delivery_limit", "x-delivery-limit"),
    "dead_letters": ("manta.dead_letters",),
    "dead_letter_key": ("manta.dead_letter_key", "x-dead-letter-routing-key"),
    "message_ttl_ms": ("x-message-ttl",),
    "consumer_timeout_ms": ("x-consumer-timeout",),
    **{name: (f"qpid.{name}",) for flow in (*FLOWS, *NO_FLOW) for name in flow},
    **alerts.NAMES,
    **duplicates.NAMES,
}
SHARES: tuple[dict[str, Any], ...] = ({}, {}, {"fairshare": 1}, {"fairshare": 2}, {"fairshare": 3, "fairshare-0": 1})
"""Of levels of priority."""
SHARE_NAMES = {
    "fairshare": ("qpid.fairshare", "x-qpid-fairshare"),
    "fairshare-0": ("qpid.fairshare-0", "x-qpid-fairshare-0"),
}
POLICIES = {
    "ring": (("qpid.policy_type", "ring"), ("x-overflow", "drop-head")),
    "reject": (("qpid.policy_type", "reject"), ("x-overflow", "reject-publish")),
    "ring-strict": (("qpid.policy_type", "ring-strict"),),
    "self-destruct": (("qpid.policy_type", "self-destruct"),),
    "dead-letter": (("qpid.policy_type", "dead-letter"), ("x-overflow", "dead-letter")),
}
Kind = dict[str, Any]
"""What a queue is declared with, by keywords of the client or, of `max_priority`, by the name of its setting."""


class Kinds:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"kinds of {seed}")
        self._sequences = random.Random(f"sequences of {seed}")
        self._any = self._rng.random() < KINDS
        self._shares = random.Random(f"shares of {seed}")
        self._destroyers = random.Random(f"queues of {seed} that destroy themselves")
        self._destroy = self._destroyers.random() < DESTROYING
        self._alerts = alerts.AlertChoices(seed)
        self._deaths = deaths.DeathChoices(seed)
        self._windows = duplicates.WindowChoices(seed)
        self._lifetimes = lifetimes.LifetimeChoices(seed)
        self._timeouts = timeouts.TimeoutChoices(seed)
        self._retries = delays.Retries(seed)

    def kind(self, alternate: str, fleeting: bool = False) -> Kind:
        """Of a new queue; empty: it is plain. `fleeting`: it may be deleted at any time, also by itself."""
        kind = self._windows.some(self._deaths.some(self._kind(fleeting), alternate))
        return self._timeouts.some(self._lifetimes.some(kind), fleeting) | self._retries.some()

    def _kind(self, fleeting: bool) -> Kind:
        if fleeting and any(LIMITS) and self._destroy and self._destroyers.random() < 0.7:
            return self._destroyers.choice(LIMITS) | {"overflow": "self-destruct"}
        rng, kind = self._rng, Kind()
        if self._any and rng.random() < 0.7:
            if rng.random() < 0.5:
                kind |= rng.choice(LIMITS)
            elif rng.random() < 0.4:
                kind |= rng.choice(FLOWS)
            if not kind or rng.random() < 0.3:
                kind |= rng.choice(OTHERS)
            if kind.keys() & {"priorities", "max_priority"}:
                kind |= self._shares.choice(SHARES)
            if kind.keys() & {"max_count", "max_size"}:
                plain = not kind.keys() & {name for other in OTHERS for name in other}
                kind["overflow"] = rng.choice(["ring", "reject", "reject", "ring-strict"][: 3 + plain])
                if kind["overflow"] == "reject" and rng.random() < 0.4:
                    kind |= rng.choice(NO_FLOW)
        if self._sequences.random() < STAMPED:
            kind["sequence_key"] = self._sequences.choice(["n", "x-d"])
        return kind | self._alerts.some()

    def spelled(self, kind: Kind) -> dict[str, Any]:
        """Arguments for a queue of this kind, in Qpid's words, in RabbitMQ's, or in some of both."""
        rng, arguments = self._rng, dict[str, Any]()
        for what, value in kind.items():
            if what == "overflow":
                continue
            if what in delays.NAMES:
                arguments[delays.NAMES[what]] = value
                continue
            if what in SHARE_NAMES:
                arguments[self._shares.choice(SHARE_NAMES[what])] = self._shares.choice([value, str(value)])
                continue
            if what in duplicates.NAMES:
                arguments[duplicates.NAMES[what][0]] = value
                continue
            number = isinstance(value, int) and rng.random() < 0.5
            arguments[rng.choice(NAMES[what])] = str(value) if number else value
        limited = any(what in kind for what in ("max_count", "max_size"))
        theirs = any(name.startswith("x-max-length") for name in arguments)
        overflow = kind.get("overflow", "")
        if limited and (overflow != ("ring" if theirs else "reject") or rng.random() < 0.5):
            policy, value = rng.choice(POLICIES[overflow])
            arguments[policy] = value
        return arguments

    def typed(self, kind: Kind) -> dict[str, Any]:
        """The same as keywords of the client."""
        untyped = {"max_priority", "fairshare-0", *alerts.NAMES}
        typed = lifetimes.in_seconds({what: value for what, value in kind.items() if what not in untyped})
        if arguments := {(SHARE_NAMES.get(what) or NAMES[what])[0]: kind[what] for what in kind if what in untyped}:
            typed["arguments"] = arguments
        return typed


class Orders:
    """Watches in which order an owner gives out what it has: of the highest level first, and there by position. What it
    could give and has not is of no higher level. A group is one consumer's at a time, and goes in its order.

    Attributes:
        judged: messages; lifted: of those, such as went before an older one that waits.
        turned: deliveries in which several values have had their turns.
        shared: deliveries whose levels were all as their shares had them.
        grouped: messages of groups of which the same consumer has had one out.
    """

    def __init__(self, world: World, watch: Watcher, deliveries: Deliveries, undeliverable: Undeliverable) -> None:
        self._undeliverable = undeliverable
        self.world = world
        self.watch = watch
        self.deliveries = deliveries
        self.judged = self.lifted = self.grouped = self.turned = self.shared = 0
        self._consumers: dict[tuple[str, str, int], int] = {}  # (queue, broker, acquisition) -> consumer there
        self._selectors: dict[tuple[str, int], str] = {}  # (replica, consumer) -> what it wants
        self._own: dict[tuple[str, int], str] = {}  # and whose messages it does not want
        world.watch(sent={Deliver: self._deliver}, arrived={Consume: self._comes})

    def _comes(self, source: str, target: str, frame: Consume) -> None:
        self._selectors[target, frame.sub] = frame.selector
        self._own[target, frame.sub] = frame.own

    def _deliver(self, source: str, target: str, frame: Deliver) -> None:
        model = self.watch.models.get(frame.queue)
        if model is None or not frame.acquisition or frame.queue in self.watch.gone:
            return
        given = each(frame.ranges)
        ranks = [(-model.level(position), position) for position in given]
        if ranks != sorted(ranks) and not model.fair and not model.shares:
            raise Violation(f"{frame.queue}: {source} gives {given} in the order of {ranks}")
        self.judged += len(given)
        hosted = self.world.machines[source].queues[frame.queue]
        if not (model.levels or model.group or model.fair) or hosted.inc <= model.out.get(target, -1):
            return
        away = {p for ranges in (hosted.dispatcher.taken, hosted.dispatcher.expiring) for p in each(ranges.flat())}
        waits = [p for p in each(hosted.state.available.flat()) if p not in away]
        if selector := self._selectors[source, frame.sub]:
            waits = [p for p in waits if wants(selector, model.blobs[p])]
        if own := self._own[source, frame.sub]:
            waits = [p for p in waits if others(own, model.blobs[p])]
        if refused := self._undeliverable.of(source, frame.sub):
            waits = [p for p in waits if p not in refused]
        if model.group:
            self._of_groups(target, frame, model, given, waits)
            return
        if model.fair:
            self._of_turns(frame, model, given, waits)
            return
        if model.shares:
            self._of_shares(hosted, frame, model, given, waits)
            return
        for position in waits:
            if model.level(position) > -ranks[-1][0]:
                raise Violation(f"{frame.queue}: {source} gives {given[-1]} while {position} of a higher level waits")
        self.lifted += sum(1 for position in given if any(other < position for other in waits))

    def _of_turns(self, frame: Deliver, model: ModelQueue, given: list[int], waits: list[int]) -> None:
        """Who waits still has had as many turns as any other, or one less; and each goes in its order."""
        turns: dict[str, list[int]] = {}
        for position in given:
            turns.setdefault(model.fair_of(position), []).append(position)
        for value, positions in turns.items():
            older = [p for p in waits if model.fair_of(p) == value and p < positions[-1]]
            if positions != sorted(positions) or older:
                raise Violation(f"{frame.queue}: {positions} of {value!r} go in this order, while {older} wait")
        most = max(map(len, turns.values()))
        for position in waits:
            if len(turns.get(model.fair_of(position), ())) < most - 1:
                raise Violation(f"{frame.queue}: {given} go, and {position} has had fewer turns")
        self.turned += len(turns) > 1

    def _of_shares(self, hosted: Any, frame: Deliver, model: ModelQueue, given: list[int], waits: list[int]) -> None:
        """Each level goes in its order; and where the owner has nothing else under way, by the shares, beginning where
        the stream has come to."""
        levels = [model.level(position) for position in given]
        behind = [model.level(position) for position in waits]
        goes: dict[int, list[int]] = {}
        first: dict[int, int] = {}  # level -> the oldest of it that waits
        for position, level in zip(given, levels, strict=True):
            goes.setdefault(level, []).append(position)
        for position, level in zip(waits, behind, strict=True):
            first[level] = min(position, first.get(level, position))
        mixed = {level for level, positions in goes.items() if positions != sorted(positions)}
        for position, level in zip(given, levels, strict=True):
            if level in mixed or first.get(level, position) < position:
                raise Violation(f"{frame.queue}: {position} goes before an older one of its level, among {given}")
        dispatcher, index = hosted.dispatcher, hosted.state.index
        if (
            each(dispatcher.taken.flat()) != sorted(given)
            or dispatcher.expiring.count
            or dispatcher.looks.left < dispatcher.looks.most
        ):
            return
        turn = model.turn_at.get(index, (len(model.shares) - 1, 0))
        due, _ = model.turns(turn, [*levels, *behind], len(given))
        if levels != due:
            raise Violation(f"{frame.queue}: levels {levels} go, and at {index} it is the turn of {turn}: {due}")
        self.shared += len(set(levels)) > 1

    def _of_groups(self, broker: str, frame: Deliver, model: ModelQueue, given: list[int], waits: list[int]) -> None:
        self._consumers[frame.queue, broker, frame.acquisition] = frame.sub
        groups = {model.group_of(position): position for position in given}
        for position in waits:
            if position < groups.get(model.group_of(position), 0):
                raise Violation(
                    f"{frame.queue}: {broker} gives {given} and passes over {position}, which is of one group"
                )
        for (queue, position), out in self.deliveries.out.items():
            if queue != frame.queue or model.group_of(position) not in groups:
                continue
            place = model.place[position]
            if place != ("held", *out[:3]) and (place != "available" or out.logged):
                continue  # gone, or back, and nobody has said so yet
            holder = out.broker, self._consumers.get((queue, out.broker, out.acquisition))
            if holder != (broker, frame.sub):
                raise Violation(
                    f"{frame.queue}: {given} go to consumer {frame.sub} of {broker}; {holder} holds {position}, of one group"
                )
            self.grouped += 1
