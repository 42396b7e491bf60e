"""Answers to drains, against the committed log: "nothing more" is said behind all that was there when it was asked.

A drain that is answered while credit is left says that nothing has been there for that subscription all the time since it
was asked: what was there then has been given to somebody, or has expired, or is being moved elsewhere. What came back
meanwhile, since another consumer released it, was not there when it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mantamq.protocol.replica.moves import MoveJob
from mantamq.protocol.wire import events
from mantamq.protocol.wire.queue_frames import Cancel, Consume, Credit, Deliver, Drained

from .checkers import Watcher
from .deliveries import Deliveries
from .model import Violation, each, each_run
from .modifies import Undeliverable
from .no_locals import others
from .selectors import wants
from .world import World

UNLIMITED = -1


class _Asked:
    """One subscription. Attributes: queue, browse, credit (messages left), bounded (its credit in bytes was ever limited),
    seen (the last position it was given), selector, own (whose messages it does not want), upto (what was committed when its drain was asked, None without
    one), still (of that what was there then, and has been ever since)."""

    def __init__(self, key: tuple[str, int], queue: str, browse: bool, selector: str, own: str) -> None:
        self.key = key
        self.queue = queue
        self.selector = selector
        self.own = own
        self.browse = browse
        self.credit = 0
        self.bounded = False
        self.seen = 0
        self.upto: int | None = None
        self.still: set[int] = set()


class Drains:
    """Watches replicas and their brokers.

    Attributes:
        judged: answers that said that there was nothing more; counted: of which the number was compared.
    """

    def __init__(self, world: World, watch: Watcher, deliveries: Deliveries, undeliverable: Undeliverable) -> None:
        self._undeliverable = undeliverable
        self.world = world
        self.watch = watch
        self.judged = self.counted = 0
        self._deliveries = deliveries
        self._subs: dict[tuple[str, int], _Asked] = {}  # (replica, number)
        self._acquired: dict[str, set[int]] = {}  # queue id -> positions that were ever acquired
        self._asking: dict[str, dict[tuple[str, int], _Asked]] = {}  # queue id -> those that drain now
        world.watch(
            sent={Deliver: self._given, Drained: self._answered},
            arrived={Consume: self._comes, Cancel: self._leaves, Credit: self._allows},
        )
        world.deaths.append(self._died)
        watch.on_commit.append(self._committed)

    def _died(self, name: str, machine: Any) -> None:
        for key in [key for key in self._subs if key[0] == name]:
            self._forget(key)

    def _forget(self, key: tuple[str, int]) -> None:
        sub = self._subs.pop(key, None)
        if sub is not None:
            self._asking.get(sub.queue, {}).pop(key, None)

    def _comes(self, source: str, target: str, frame: Consume) -> None:
        self._subs[target, frame.sub] = _Asked(
            (target, frame.sub), frame.queue, frame.mode != "consume", frame.selector, frame.own
        )

    def _leaves(self, source: str, target: str, frame: Cancel) -> None:
        self._forget((target, frame.sub))

    def _allows(self, source: str, target: str, frame: Credit) -> None:
        if (sub := self._subs.get((target, frame.sub))) is not None:
            sub.credit += frame.messages
            sub.bounded = sub.bounded or frame.bytes != UNLIMITED
            if frame.drain and frame.sure:
                model = self.watch.models.get(frame.queue)
                sub.upto = len(model.place) if model is not None else 0
                sub.still = self._there(frame.queue, sub, model.live if model is not None else ())
                self._asking.setdefault(frame.queue, {})[target, frame.sub] = sub

    def _given(self, source: str, target: str, frame: Deliver) -> None:
        if (sub := self._subs.get((source, frame.sub))) is not None:
            sub.credit -= len(frame.blobs)
            sub.seen = each(frame.ranges)[-1]
            if self._asking.get(frame.queue):
                self._look(frame.queue)

    def _answered(self, source: str, target: str, frame: Drained) -> None:
        sub = self._subs.get((source, frame.sub))
        if sub is None:
            return
        self._look(frame.queue)
        self._counted(source, target, frame)
        if sub.upto is not None and sub.credit > 0 and not sub.bounded and frame.queue not in self.watch.gone:
            self.judged += 1
            if sub.still:
                raise Violation(
                    f"{source} says that {frame.queue} has nothing more for {frame.sub}; what was committed up to "
                    f"{sub.upto} when it was asked has been there ever since: {sorted(sub.still)[:5]}"
                )
        sub.credit, sub.upto = 0, None
        self._asking.get(frame.queue, {}).pop((source, frame.sub), None)

    def _counted(self, replica: str, broker: str, frame: Drained) -> None:
        """Where a replica knows all that is committed, it says how many are available and not given out by it. What its
        broker gave out in an earlier life waits by the log, as for every other replica, until those acquires are ordered:
        a copy that is joining knows of none, and that it is back may not be committed itself."""
        model, hosted = self.watch.models.get(frame.queue), self.world.machines[replica].queues.get(frame.queue)
        known = hosted is not None and hosted.applied == self.watch.commits.get(frame.queue)
        if model is None or not known or hosted.inc <= model.out.get(broker, -1) or frame.queue in self.watch.gone:
            return
        out = self._deliveries.out
        by_it = broker, hosted.inc
        waits = [p for p in model.live if model.place[p] == "available" and out.get((frame.queue, p), ())[:2] != by_it]
        self.counted += 1
        if frame.available != len(waits):
            raise Violation(f"{replica} says that {frame.available} wait in {frame.queue}, and {waits} do")

    def _committed(self, stream: str, event: events.AnyEvent, model: Any, effective: bool) -> None:
        if isinstance(event, events.Acquire):
            acquired = self._acquired.setdefault(stream, set())
            acquired.update(position for _, position in each_run(event.runs))
        if self._asking.get(stream) and not isinstance(event, events.Enqueue):  # what comes takes nothing away
            self._look(stream)

    def _look(self, queue: str) -> None:
        for sub in self._asking.get(queue, {}).values():
            if sub.still:
                sub.still = self._there(queue, sub, sub.still)

    def _there(self, queue: str, sub: _Asked, among: Iterable[int]) -> set[int]:
        """Which of these positions the queue has for it now; of what was committed when it asked."""
        model = self.watch.models.get(queue)
        if model is None or sub.upto is None:
            return set()
        now_ms = self.world.now_us // 1000
        place, expiry, out = model.place, model.expiry, self._deliveries.out
        away: set[str] = set()  # groups of which somebody has a message
        if model.group and not sub.browse:
            away = {model.group_of(position) for of, position in out if of == queue}
        # A browser looks on behind what it does not want, and passes what somebody holds just then.
        passing = self._acquired.get(queue) if sub.browse and (sub.selector or sub.own) else None
        refused, moving = self._undeliverable.of(*sub.key), self._moving(sub.key[0], queue)
        return {
            position
            for position in among
            if position <= sub.upto
            and place[position] == "available"
            and (position not in expiry or expiry[position] > now_ms)
            and (position > sub.seen if sub.browse else (queue, position) not in out)
            and (not away or model.group_of(position) not in away)
            and (not sub.selector or wants(sub.selector, model.blobs[position]))
            and others(sub.own, model.blobs[position])
            and not (passing and position in passing)
            and position not in refused
            and position not in moving
        }

    def _moving(self, replica: str, queue: str) -> set[int]:
        """What this replica is about to move elsewhere: a move takes messages as a consumer does, before that is ordered,
        and the replica says what it takes only behind the answers to drains of the same turn."""
        machine = self.world.machines.get(replica)
        hosted = machine.queues.get(queue) if machine is not None else None
        jobs = [tag for _, _, tag in hosted.own if isinstance(tag, MoveJob)] if hosted is not None else []
        return {position for job in jobs for position in each(job.ranges)}
