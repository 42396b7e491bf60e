"""Which receivers of a story have priorities, and that none is given what one of a higher priority could have had.

By what passes between a replica and its broker: credit that is granted and used up, releases that are on their way, and
what is settled. Whether a consumer could have had a message is judged where nothing but its credit decides that.
"""

from __future__ import annotations

import random

from mantamq.protocol.wire.client_frames import AttachReceiver
from mantamq.protocol.wire.queue_frames import (
    MODIFY,
    RELEASE,
    Cancel,
    Consume,
    Credit,
    Deliver,
    Drained,
    Settle,
    Settled,
)

from .checkers import Watcher
from .model import Violation, each
from .modifies import Undeliverable
from .no_locals import others
from .selectors import wants
from .world import World

STORIES = 0.4
"""The share of stories with such receivers."""
PRIORITIES = (-3, 0, 0, 5, 5, 100)


class _Consumer:
    """Attributes: credit; bounded, by bytes as well; releases, on their way; ready, once it need not wait for what it
    held elsewhere: as soon as it has been given something."""

    def __init__(self, frame: Consume) -> None:
        self.frame = frame
        self.credit = 0
        self.bounded = False
        self.releases: set[int] = set()
        self.ready = not frame.before


class Ranks:
    """Of one story; its choices are its own, so that they do not move those of others. `judged`: deliveries to consumers
    while one of a higher priority was there."""

    def __init__(self, world: World, watch: Watcher, seed: int, undeliverable: Undeliverable) -> None:
        self._undeliverable = undeliverable
        self._rng = random.Random(f"ranks of {seed}")
        self._some = self._rng.random() < STORIES
        self.judged = 0
        self._world, self._watch = world, watch
        self._of: dict[tuple[str, str], dict[int, _Consumer]] = {}  # (replica, queue) -> its consumers
        self._asked: dict[tuple[str, int], int] = {}  # (client, handle) -> the priority it has at every broker
        world.watch(
            sent={Deliver: self._gives, Drained: self._drained, Settled: self._settled, AttachReceiver: self._asks},
            arrived={Consume: self._comes, Credit: self._grants, Cancel: self._goes, Settle: self._settles},
        )

    def one(self) -> int:
        """Of a new receiver that consumes."""
        return self._rng.choice(PRIORITIES) if self._some else 0

    def _asks(self, source: str, target: str, frame: AttachReceiver) -> None:
        name = (source.partition("~")[0], frame.handle)
        if self._asked.setdefault(name, frame.priority) != frame.priority:
            raise Violation(f"{source} has priority {self._asked[name]} on {frame.handle}, and tells {target} {frame}")

    def _comes(self, source: str, target: str, frame: Consume) -> None:
        if frame.mode == "consume":
            self._of.setdefault((target, frame.queue), {})[frame.sub] = _Consumer(frame)

    def _grants(self, source: str, target: str, frame: Credit) -> None:
        one = self._of.get((target, frame.queue), {}).get(frame.sub)
        if one is not None:
            one.credit += frame.messages
            one.bounded = frame.bytes != -1

    def _goes(self, source: str, target: str, frame: Cancel) -> None:
        self._of.get((target, frame.queue), {}).pop(frame.sub, None)

    def _drained(self, source: str, target: str, frame: Drained) -> None:
        one = self._of.get((source, frame.queue), {}).get(frame.sub)
        if one is not None:
            one.credit = 0

    def _settles(self, source: str, target: str, frame: Settle) -> None:
        one = self._of.get((target, frame.queue), {}).get(frame.sub)
        if one is not None and frame.kind in (RELEASE, MODIFY):
            one.releases.add(frame.number)

    def _settled(self, source: str, target: str, frame: Settled) -> None:
        one = self._of.get((source, frame.queue), {}).get(frame.sub)
        if one is not None:
            one.releases.discard(frame.number)

    def _gives(self, source: str, target: str, frame: Deliver) -> None:
        there = self._of.get((source, frame.queue), {})
        one = there.get(frame.sub)
        if one is None:
            return
        given = each(frame.ranges)
        one.credit -= len(given)
        one.ready = True
        model = self._watch.models.get(frame.queue)
        if model is None or model.group:
            return
        for other in there.values():
            if other.frame.priority <= one.frame.priority:
                continue
            self.judged += 1
            selector = other.frame.selector
            refused = self._undeliverable.of(source, other.frame.sub)
            wanted = any(
                position not in refused
                and (not selector or wants(selector, model.blobs[position]))
                and others(other.frame.own, model.blobs[position])
                for position in given
            )
            if other.credit > 0 and not other.bounded and not other.releases and other.ready and wanted:
                raise Violation(
                    f"{source} gives {given} of {frame.queue} to {frame.sub}, of priority {one.frame.priority}, and "
                    f"{other.frame.sub} has {other.credit} of credit and priority {other.frame.priority}"
                )
