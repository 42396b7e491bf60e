"""Deliveries, settlements and completions, as clients see them, against the committed log (I6, I7, I10, I11, I13)."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, NamedTuple

from mantamq.protocol.errors import LIMIT, UNROUTABLE
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Disposed,
    Failed,
    Transfer,
)
from mantamq.protocol.wire.queue_frames import Consume, Deliver

from .afterlife import Afterlife
from .checkers import Watcher
from .deaths import alive
from .exchanges import looked_at
from .model import ModelQueue, Violation, each, each_run, with_notes
from .model_redirects import PREFIX as REDIRECTED
from .several_keys import keys_of
from .world import World


class _Said:
    """Numbers a sender has said, and those it has said more than once."""

    def __init__(self) -> None:
        self._last = 0
        self._twice: set[int] = set()

    def add(self, first: int, last: int) -> None:
        self._twice.update(range(first, min(last, self._last) + 1))
        self._last = max(self._last, last)

    def again(self, ranges: list[int]) -> bool:
        return all(number in self._twice for number in each(ranges))


class Out(NamedTuple):
    """Who has a message that was given out. Attributes: inc (of its broker's keeping of the queue: numbers of acquisitions
    begin anew with each process, and one life of a broker knows nothing of what another gave out before it was ordered);
    logged (its acquire is committed)."""

    broker: str
    inc: int
    acquisition: int
    logged: bool


class Deliveries:
    """Watches the edge between brokers and clients.

    Attributes:
        delivered: messages delivered so far.
        out: (queue id, position) -> who has it.
        afterlife: how queues go on that are deleted.
    """

    def __init__(self, world: World, watch: Watcher) -> None:
        self.world = world
        self.watch = watch
        self.afterlife = Afterlife(world, watch)
        self.delivered = 0
        self.refused = 0
        self.passing: set[str] = set()  # exchanges that come and go
        self.out: dict[tuple[str, int], Out] = {}
        self._senders: dict[tuple[str, int], tuple[str, str | None]] = {}
        self._named: dict[tuple[str, int], str] = {}  # (client, handle) of a sender with a name -> that, in the log
        self._sent: dict[tuple[str, int], dict[int, tuple[bytes, list[str]]]] = {}
        self._said: dict[str, _Said] = {}  # sender's name in the log -> its numbers
        self._unrouted: dict[bytes, str] = {}  # message that went to no queue -> who says so
        self._queue_of: dict[tuple[str, int], str] = {}  # (client, handle) of a receiver -> queue name
        self._consumed: dict[str, Consume] = {}  # broker -> the subscription it has just started
        self._sub_of: dict[tuple[str, int], Consume] = {}  # (client, handle) -> its subscription
        self._browsers: set[tuple[str, int]] = set()
        self._passing: dict[tuple[str, int], deque[Deliver]] = {}  # (broker, sub) -> deliveries on their way through it
        world.watch(
            sent={Deliver: self._deliver, Delivery: self._delivery, Completed: self._completed, Failed: self._failed,
                  Disposed: self._disposed, Transfer: self._transfer,
                  AttachSender: self._attach_sender, AttachReceiver: self._attach_receiver, Consume: self._consume,
                  Attached: self._attached},
        )  # fmt: skip
        world.deaths.append(self._died)
        watch.before_commit.append(self._before)
        watch.on_commit.append(self._after)

    def _died(self, name: str, machine: Any) -> None:
        """A broker that comes back numbers its subscriptions anew."""
        self._passing = {key: frames for key, frames in self._passing.items() if key[0] != name}

    # ---- receivers

    def _attach_receiver(self, source: str, target: str, frame: AttachReceiver) -> None:
        if frame.mode == "browse":
            self._browsers.add((source, frame.handle))
        self._queue_of[source, frame.handle] = frame.queue

    def _consume(self, source: str, target: str, frame: Consume) -> None:
        if frame.mode == "consume" and frame.queue in self.watch.wiring.lines:  # its turn has come
            found = self.world.machines[source].receivers.subs.get(frame.sub)
            if found is not None:  # else it has just gone
                self._sub_of[found[0].peer, found[1].handle] = frame
        else:
            self._consumed[source] = frame

    def _attached(self, source: str, target: str, frame: Attached) -> None:
        if frame.queue in self.watch.wiring.lines and (target, frame.handle) not in self._browsers:
            return
        if (target, frame.handle) in self._queue_of:
            self._sub_of[target, frame.handle] = self._consumed.pop(source)

    # ---- deliveries

    def _deliver(self, source: str, target: str, frame: Deliver) -> None:
        positions = each(frame.ranges)
        if frame.queue in self.watch.gone:
            self._passing.setdefault((target, frame.sub), deque()).append(frame)
            return
        model = self.watch.models.get(frame.queue)
        if len(positions) != len(frame.blobs):
            raise Violation(f"{frame.queue}: {len(positions)} positions and {len(frame.blobs)} messages")
        counts = dict(zip(frame.redelivered[::2], frame.redelivered[1::2], strict=True))
        for index, (position, blob) in enumerate(zip(positions, frame.blobs, strict=True)):
            if model is None or position not in model.place:
                raise Violation(f"K3 {frame.queue}: {position} is delivered before it is committed")
            if not model.given(position, blob, self.world.machines[source].queues[frame.queue].state.index):
                raise Violation(f"{frame.queue}: {position} is delivered with another message's body")
            if frame.acquisition:
                self._acquiring(source, target, model, position, counts.get(index), frame.acquisition)
        self._passing.setdefault((target, frame.sub), deque()).append(frame)

    def _acquiring(
        self, source: str, broker: str, model: ModelQueue, position: int, count: int | None, acquisition: int
    ) -> None:
        key, inc = (model.id, position), self.world.machines[source].queues[model.id].inc
        if inc <= model.out.get(broker, -1):
            return  # evicted, and does not know it yet: whoever gets this sees a flag when it comes again
        if model.owner != broker:
            raise Violation(f"Q1 {model.id}: {broker} delivers {position} while {model.owner!r} is the owner")
        if key in self.out:
            raise Violation(f"I10 {model.id}: {position} goes out at {broker} and is out at {self.out[key]}")
        gone = model.place[position] in ("accepted", "dead", "dead_lettering")
        if (
            gone and position not in model.pushed_out | model.expired | model.moved_out
        ):  # that its owner may not know yet
            raise Violation(f"I11 {model.id}: {position} is delivered, and is {model.place[position]}")
        if (count is not None) != (position in model.returned):
            raise Violation(f"{model.id}: {position} says that it came back: {count is not None}; not so the log")
        if (count or 0) != model.returned.get(position, 0):
            raise Violation(
                f"{model.id}: {position} says {count} deliveries before, the log {model.returned.get(position, 0)}"
            )
        self.out[key] = Out(broker, inc, acquisition, False)

    def _delivery(self, source: str, target: str, frame: Delivery) -> None:
        consume = self._sub_of[target, frame.handle]
        passing = self._passing.get((source, consume.sub))
        made = passing.popleft() if passing else None
        given = (consume.queue, frame.acquisition, frame.ranges, frame.blobs, frame.redelivered, frame.times)
        while passing and made is not None and self.watch.faulty and _content(made) != given:
            made = passing.popleft()  # lost with a replica, or said to a dead broker by one that lived a little longer
        if made is None or _content(made)[1:] != given[1:]:
            raise Violation(f"I10: {source} gives {target} {frame}; what its queue sent was {made}")
        if consume.queue != made.queue or made.queue.rpartition("#")[0] != self._queue_of[target, frame.handle]:
            raise Violation(f"{target} gets a message of {made.queue} on handle {frame.handle}")
        self.delivered += len(frame.blobs)

    # ---- the committed log

    def _before(self, stream: str, event: events.AnyEvent, model: ModelQueue) -> None:
        if isinstance(event, events.Own) and event.by and event.by == model.owner:
            for (queue, position), out in self.out.items():
                if queue == stream and out.broker == event.by and not out.logged:
                    raise Violation(f"B3 {stream}: {out.broker} hands over before its acquire of {position} is ordered")

    def _after(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        if isinstance(event, events.Evict | events.Rejoin | events.Return | events.Member):
            broker = event.voter if isinstance(event, events.Rejoin | events.Return) else event.broker
            if effective:
                self.out = {k: v for k, v in self.out.items() if k[0] != stream or v.broker != broker}
        elif isinstance(event, events.Acquire):
            if not effective and event.inc <= model.out.get(event.broker, -1):
                return
            if not effective:
                raise Violation(f"Q1 {stream}: {event} is void: {model.owner!r} holds grant {model.grant}")
            for acquisition, position in each_run(event.runs):
                out = self.out.get((stream, position))
                if out is None or out[:3] != (event.broker, event.inc, acquisition):
                    raise Violation(f"I10 {stream}: {position} is acquired by {event.broker}, delivered was {out}")
                if model.place[position] == ("held", *out[:3]):
                    self.out[stream, position] = out._replace(logged=True)
                else:
                    del self.out[stream, position]
        elif isinstance(event, events.Accept | events.Release | events.Reject | events.Modify):
            for acquisition, position in each_run(event.runs):
                if self.out.get((stream, position), ())[:3] == (event.broker, event.inc, acquisition):
                    del self.out[stream, position]
        elif isinstance(event, events.Enqueue) and "@" not in event.client:
            said = self._said.get(event.client)
            if not effective and not (said is not None and said.again(event.numbers)):
                raise Violation(f"I7 {stream}: numbers {event.numbers} of {event.client} are ordered twice")

    # ---- settlements

    def _disposed(self, source: str, target: str, frame: Disposed) -> None:
        client = self.world.clients.get(target)
        disposal = client.disposals.get((frame.handle, frame.number)) if client is not None else None
        if disposal is None:
            return
        name, kind, runs, stale = disposal
        model = self.watch.model_of(name)
        if model is None:
            return
        lost = set(each_run(frame.lost))
        if strange := lost - set(each_run(runs)) or len(lost) < len(each_run(frame.lost)):
            raise Violation(f"{target} settles {runs} and hears that this is lost, or hears it twice: {strange}")
        for acquisition, position in each_run(runs):
            key = (source, acquisition, position)
            if (acquisition, position) not in lost:
                if (acquisition, position) in stale and not self.watch.faulty:
                    raise Violation(
                        f"Q2 {model.id}: {target} settles {position} with a stale acquisition, and it counts"
                    )
                if kind not in model.settled.get(key, ()):
                    raise Violation(
                        f"I6 {model.id}: {target} hears that {kind} of {position} is done; not so in the log"
                    )
            elif position in model.pushed_out:
                self.watch.lost_to_a_ring += 1
            elif (acquisition, position) not in stale and key not in model.missed and source not in model.out:
                raise Violation(f"Q2 {model.id}: {target} held {position} and hears that its {kind} is lost")

    # ---- senders

    def _attach_sender(self, source: str, target: str, frame: AttachSender) -> None:
        self._senders[source, frame.handle] = (frame.exchange, frame.key)
        if frame.name:
            self._named[source.partition("~")[0], frame.handle] = f"{frame.name}!"
        self._sent[source, frame.handle] = {}

    def _transfer(self, source: str, target: str, frame: Transfer) -> None:
        exchange, key = self._senders[source, frame.handle]
        sent = self._sent[source, frame.handle]
        for index, blob in enumerate(frame.blobs):
            # The brokers need not agree on an exchange that comes and goes just now: see `routes.py`. Nor on a queue
            # that is redirected: see `redirects.py`.
            names = (
                []
                if exchange in self.passing or (not exchange and (key or "").startswith(REDIRECTED))
                else self.watch.wiring.route(
                    exchange,
                    keys_of(frame, index, key),
                    looked_at(exchange, frame, index),
                )
            )
            sent[frame.first + index] = (blob, [self.watch.wiring.ids[name] for name in names])
        # A user says it again, over another line, where it is not complete.
        said = self._said.setdefault(self._client(source, frame.handle), _Said())
        said.add(frame.first, frame.first + len(frame.blobs) - 1)

    def _nowhere(self, target: str, handle: int, ranges: list[int]) -> None:
        """A client hears that those went to no queue: so they never are in one."""
        for number in each(ranges):
            blob, _ = self._sent[target, handle][number]
            self._unrouted[blob] = f"{target} hears that {number} of {handle} went to no queue"

    def _failed(self, source: str, target: str, frame: Failed) -> None:
        if frame.code == UNROUTABLE:
            self._nowhere(target, frame.handle, frame.ranges)
        if frame.code == LIMIT:
            client = self._client(target, frame.handle)
            refused = {n for model in self.watch.models.values() for n in model.refused.get(client, ())}
            wrong = set(each(frame.ranges)) - refused
            if wrong and (wrong := wrong - self.afterlife.refused(client)):
                raise Violation(f"{target} hears that {sorted(wrong)} of {frame.handle} were refused, and no queue has")
            self.refused += len(each(frame.ranges))

    def _completed(self, source: str, target: str, frame: Completed) -> None:
        sent = self._sent[target, frame.handle]
        self._nowhere(target, frame.handle, frame.unroutable)
        exchange, _ = self._senders[target, frame.handle]
        client = self._client(target, frame.handle)
        for number in set(each(frame.ranges)) - set(each(frame.unroutable)):
            blob, ids = sent[number]
            # A queue bound behind it may have got it; of a queue that is deleted meanwhile that is unknown.
            arrived = self.watch.gone or any(blob in model.arrived for model in self.watch.models.values())
            if exchange and not ids and not arrived:
                raise Violation(f"{target} hears nothing of {number} of {frame.handle}, which no queue was bound for")
        for number in each(frame.ranges):
            blob, ids = sent[number]
            for id in ids:
                if id in self.watch.gone - self.watch.emptied:
                    continue
                model = self.watch.models.get(id)
                if model is None or blob not in model.arrived:
                    raise Violation(
                        f"I6: {target} hears that {number} of {frame.handle} is complete; it is not in {id}"
                    )
                if number in model.refused.get(client, ()):
                    raise Violation(f"{target} hears that {number} of {frame.handle} is complete; {id} has refused it")
                if model.off < model.at.get((client, number), 0) and (client, number) not in model.unjudged:
                    raise Violation(
                        f"{target} hears that {number} of {frame.handle} is complete; since it came {id} has held its "
                        "producers back all the time"
                    )

    def _client(self, line: str, handle: int) -> str:
        """The name under which a queue knows a sender."""
        client = line.partition("~")[0]
        return self._named.get((client, handle)) or f"{client}/{handle}"

    # ---- at the end

    def _may_yet_die(self, model: ModelQueue) -> Counter[bytes]:
        """Of a deleted queue: a replica may apply what has messages die before it hears of the deletion."""
        may = Counter(alive(with_notes(model, position)) for position in model.live)
        for _, late in deque(self.afterlife.committed(model.id), maxlen=1):
            may |= Counter(alive(with_notes(late, position)) for position in late.live)
            for blob, count in late.dead_lettered.items():
                may[alive(blob)] = max(may[alive(blob)], count - model.dead_lettered.get(blob, 0))
        return may

    def finish(self) -> None:
        """What has died is dead-lettered once (I13); what was sent is there once (I7)."""
        dead_lettered: Counter[bytes] = Counter()
        dead_lettering: Counter[bytes] = Counter()  # where a queue was deleted with its rejected messages half-way
        for model in self.watch.models.values():
            if model.relay:
                continue
            for blob, count in model.dead_lettered.items():
                dead_lettered[alive(blob)] += count
            if model.id in self.watch.gone:
                dead_lettering.update(self._may_yet_die(model))
        dead = self.watch.model_of("dead")
        copies: Counter[bytes] = Counter()
        for blob, count in dead.arrived.items() if dead is not None else ():
            copies[alive(blob)] += count
        if dead_lettered - copies or copies - dead_lettered - dead_lettering:
            raise Violation(
                f"I13: dead-lettered {dead_lettered - copies} without a copy, {copies - dead_lettered - dead_lettering} too often"
            )
        for model in self.watch.models.values():
            for blob in self._unrouted.keys() & model.arrived.keys():
                raise Violation(f"{self._unrouted[blob]}; it is in {model.id}")
            if model is not dead and any(count > 1 for count in model.arrived.values()):
                raise Violation(f"I7 {model.id}: a message is there twice")


def _content(frame: Deliver) -> tuple[Any, ...]:
    return frame.queue, frame.acquisition, frame.ranges, frame.blobs, frame.redelivered, frame.times
