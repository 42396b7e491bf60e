"""Clients ask for the statistics of the cluster now and then; what they are told is true.

What is a function of a queue's stream is what the model has counted at some moment between question and answer. What a
broker alone knows is counted here a second time, from the frames that it is given and says, up to the moment at which it
was asked; the answer adds that up over the brokers that have answered, and names the others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Detach,
    Detached,
    Opened,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.statistics_frames import FellowsAsked, FellowTold

from .afterlife import Afterlife
from .checkers import Watcher
from .clients import Client
from .counts import IN_THE_MODEL
from .model import ModelQueue, Violation
from .patterns import PREFIX
from .world import World

SHARE = 0.5
"""Of the stories."""
RATE = 0.05
"""Of the turns of these."""
PARTS = ("queues", "exchanges", "brokers", "connections", "groups")
LINKS = "links"
"""Asked for beside these, by a choice of its own: so what else is asked for, and when, is as it was without."""
COUNTED = {
    **{f"discarded_{name}": IN_THE_MODEL[name] for name in ("ring", "last_value", "subscriber", "too_often")},
    "discarded_purge": IN_THE_MODEL["purged"],
    **{name: IN_THE_MODEL[name] for name in ("acquires", "releases", "bytes_in", "bytes_out")},
    **{name: IN_THE_MODEL[name] for name in ("dead_expired", "dead_too_often", "dead_pushed_out", "duplicates")},
}
"""Field of an answer -> what it is in the model."""
Moment = dict[str, Any]
Place = tuple[str, int]
"""(line, handle)"""


@dataclass(slots=True)
class Local:
    """What one broker knew when it was asked. Attributes: came (exchange -> messages), lines (client -> the line that it
    has come by last), by (line -> messages by the senders that it has), senders (line -> how many), consumers (name of a
    queue -> how many surely, and at most)."""

    came: Counter[str]
    lines: dict[str, str]
    by: Counter[str]
    senders: Counter[str]
    consumers: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Question:
    """Attributes: asker, the broker; members, of whom that one knew; told, whose answers have come, and when; local, what
    each knew when it was asked; moments, id of a queue -> how it has been since."""

    line: str
    parts: list[str]
    asker: str
    members: set[str]
    at_us: int
    told: dict[str, int] = field(default_factory=dict)
    local: dict[str, Local] = field(default_factory=dict)
    moments: dict[str, list[Moment]] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


class Figures:
    """Of one story; its choices are its own, so that they do not move those of others. Attributes: judged (answers)."""

    def __init__(self, world: World, watch: Watcher, afterlife: Afterlife, seed: int) -> None:
        self._afterlife = afterlife
        self.judged = 0
        self._rng = random.Random(f"statistics of {seed}")
        self._some = self._rng.random() < SHARE
        self._rng_of_links = random.Random(f"links of {seed}")
        self._world, self._watch = world, watch
        self._asked: dict[tuple[str, int], list[str]] = {}  # (line, number of the command) -> parts
        self._open: dict[tuple[str, int], Question] = {}
        self._last: dict[str, Question] = {}  # broker -> the question that it has just been given
        self._passed: dict[tuple[str, int, int], Question] = {}  # (asker, inc, number) of a question to all
        self._coming: dict[Place, str] = {}  # a sender that is not attached yet -> exchange
        self._senders: dict[Place, tuple[str, str]] = {}  # -> broker, exchange
        self._receivers: dict[Place, tuple[str, str, bool]] = {}  # -> broker, queue, whether it leaves
        self._let_in: set[Place] = set()  # receivers that have been attached
        self._came: dict[str, Counter[str]] = {}  # broker -> exchange -> messages
        self._lines: dict[str, dict[str, str]] = {}  # broker -> client -> line
        self._sent: Counter[Place] = Counter()
        if not self._some:
            return
        world.watch(
            sent={FellowsAsked: self._passes, Reply: self._answers, Attached: self._attached, Detached: self._ended,
                  Opened: self._opened},
            arrived={Command: self._question, FellowsAsked: self._hears, FellowTold: self._tells,
                     AttachSender: self._sender_comes, AttachReceiver: self._receiver_comes, Detach: self._leaves,
                     Transfer: self._transfer},
        )  # fmt: skip
        world.deaths.append(self._died)
        watch.on_commit.append(self._committed)

    def maybe(self, clients: list[Client]) -> None:
        """One of these asks, now and then."""
        if self._some and clients and self._rng.random() < RATE:
            client = self._rng.choice(clients)
            parts = self._rng.sample(PARTS, self._rng.randrange(len(PARTS) + 1))
            if parts and self._rng_of_links.random() < SHARE:
                parts.append(LINKS)
            self._asked[client.name, client.command("statistics", what=parts)] = parts or [*PARTS, LINKS]

    # ---- what each broker is given

    def _died(self, name: str, machine: Any) -> None:
        self._came.pop(name, None)
        self._lines.pop(name, None)
        self._last.pop(name, None)
        self._senders = {place: one for place, one in self._senders.items() if one[0] != name}
        self._receivers = {place: one for place, one in self._receivers.items() if one[0] != name}

    def _opened(self, source: str, target: str, frame: Opened) -> None:
        self._lines.setdefault(source, {})[target.partition("~")[0]] = target

    def _sender_comes(self, source: str, target: str, frame: AttachSender) -> None:
        self._coming[source, frame.handle] = frame.exchange

    def _attached(self, source: str, target: str, frame: Attached) -> None:
        self._let_in.add((target, frame.handle))
        exchange = self._coming.pop((target, frame.handle), None)
        if exchange is not None:
            self._senders[target, frame.handle] = (source, exchange)
            self._sent[target, frame.handle] = 0

    def _receiver_comes(self, source: str, target: str, frame: AttachReceiver) -> None:
        self._receivers[source, frame.handle] = (target, frame.queue, False)

    def _leaves(self, source: str, target: str, frame: Detach) -> None:
        self._senders.pop((source, frame.handle), None)
        if (one := self._receivers.get((source, frame.handle))) is not None:
            self._receivers[source, frame.handle] = (*one[:2], True)

    def _ended(self, source: str, target: str, frame: Detached) -> None:
        for known in (self._coming, self._senders, self._receivers):
            known.pop((target, frame.handle), None)

    def _transfer(self, source: str, target: str, frame: Transfer) -> None:
        one = self._senders.get((source, frame.handle))
        if one is not None and source not in self._world.closed:  # else its broker has ended that connection
            self._came.setdefault(target, Counter())[one[1]] += len(frame.blobs)
            self._sent[source, frame.handle] += len(frame.blobs)

    def _local(self, broker: str) -> Local:
        lines = dict(self._lines.get(broker, {}))
        local = Local(Counter(self._came.get(broker, {})), lines, Counter(), Counter(), {})
        for (line, handle), (at, _) in self._senders.items():
            if at == broker:
                local.by[line] += self._sent[line, handle]
                local.senders[line] += 1
        for (line, handle), (at, queue, leaves) in self._receivers.items():
            if at == broker:
                surely = not leaves and line in self._world.clients and line not in self._world.closed
                surely = surely and (
                    not queue.startswith(PREFIX) or (line, handle) in self._let_in
                )  # may have to be made
                least, most = local.consumers.get(queue, (0, 0))
                local.consumers[queue] = least + surely, most + 1
        return local

    # ---- questions and answers on their way

    def _question(self, source: str, target: str, frame: Command) -> None:
        parts = self._asked.get((source, frame.number))
        if frame.name != "statistics" or parts is None:
            self._last.pop(target, None)
            return
        members = set(self._world.machines[target].connections.addresses) | {target}
        asked = Question(source, parts, target, members, self._world.now_us, gone=frozenset(self._watch.gone))
        asked.local[target] = self._local(target)
        asked.moments = {id: [_moment(model)] for id, model in self._watch.models.items()}
        self._open[source, frame.number] = self._last[target] = asked

    def _passes(self, source: str, target: str, frame: FellowsAsked) -> None:
        if frame.asker == source and source in self._last:
            self._passed[source, frame.inc, frame.number] = self._last.pop(source)

    def _hears(self, source: str, target: str, frame: FellowsAsked) -> None:
        asked = self._passed.get((frame.asker, frame.inc, frame.number))
        if asked is not None and target != frame.asker and target in self._world.brokers:
            asked.local.setdefault(target, self._local(target))

    def _tells(self, source: str, target: str, frame: FellowTold) -> None:
        asked = self._passed.get((frame.asker, frame.inc, frame.number))
        if asked is not None and target == frame.asker:
            asked.told.setdefault(frame.broker, self._world.now_us)

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        if not self._open:
            return
        moment = _moment(model)
        for asked in self._open.values():
            if stream not in asked.moments:  # it had no event when it was asked, so it was blank until this one
                asked.moments[stream] = [_blank(stream)]
            asked.moments[stream].append(moment)

    def _answers(self, source: str, target: str, frame: Reply) -> None:
        asked = self._open.pop((target, frame.number), None)
        if asked is None or frame.code:
            return
        self.judged += 1
        told = frame.value
        if told.keys() != {*asked.parts, "silent"}:
            raise Violation(f"{target} asks for statistics of {asked.parts} and is told of {list(told)}")
        answered = self._who(asked, told["silent"])
        for part in told.keys() & _JUDGES.keys():
            _JUDGES[part](self, asked, answered, told[part])

    def _who(self, asked: Question, silent: list[str]) -> list[str]:
        """The brokers that have answered in time; the others are named, and nobody else."""
        if strange := set(silent) - asked.members | ({asked.asker} & set(silent)):
            raise Violation(f"{asked.asker} says that {strange} have not answered, whom it had not asked")
        limit_us = asked.at_us + DEFAULT_TIMING.question_ms * 1000
        for broker in sorted(asked.members - {asked.asker}):
            at_us = asked.told.get(broker)
            if at_us is None and broker not in silent:
                raise Violation(f"{asked.asker} names {silent}, and {broker} has not answered either")
            if at_us is not None and at_us < limit_us and broker in silent:
                raise Violation(f"{asked.asker} says that {broker} has not answered, which has")
        return sorted(asked.members - set(silent))

    # ---- what is said

    def _queues(self, asked: Question, answered: list[str], rows: list[Moment]) -> None:
        for row in rows:
            if "error" in row or row["id"] in asked.gone:
                continue
            moments = asked.moments.get(row["id"]) or [_blank(row["id"])]
            if not (_was(row, moments) or _was(row, self._later(row["id"]))):
                said = {name: row[name] for name in moments[-1]}
                raise Violation(f"{row['id']} was never as {asked.asker} says: {said}; at last {moments[-1]}")
            at = row["consumers_at"]
            if row["consumers"] != sum(at.values()) or not at.keys() <= set(answered):
                raise Violation(f"{row['id']} has {row['consumers']} consumers, at {at}, of those at {answered}")
            for broker in answered:
                least, most = asked.local[broker].consumers.get(row["name"], (0, 0))
                if not least <= at.get(broker, 0) <= most and row["id"] == self._watch.wiring.ids.get(row["name"]):
                    raise Violation(f"{row['id']} has {at} consumers; at {broker} there are {least} to {most}")

    def _later(self, id: str) -> Iterator[Moment]:
        """How a queue goes on that was deleted meanwhile, for whoever has not heard so."""
        return map(_moment, self._afterlife.states(id)) if id in self._watch.gone else iter(())

    def _exchanges(self, asked: Question, answered: list[str], rows: list[Moment]) -> None:
        for row in rows:
            came = sum(asked.local[broker].came[row["name"]] for broker in answered)
            if row["received"] != came or row["routed"] + row["unroutable"] != came or row["unroutable"] < 0:
                raise Violation(f"{came} messages came to {row['name']!r} at {answered}, as it is told {row}")

    def _brokers(self, asked: Question, answered: list[str], rows: list[Moment]) -> None:
        if sorted(row["broker"] for row in rows) != sorted(asked.members):
            raise Violation(f"{asked.asker} tells of brokers {rows}, not of {asked.members}")
        for row in rows:
            if ("error" in row) != (row["broker"] not in answered):
                raise Violation(f"{row['broker']} has an error, or not: answered have {answered}")
            if "error" not in row and row["received"] != (came := asked.local[row["broker"]].came.total()):
                raise Violation(f"{came} messages came to {row['broker']}, as it is told {row}")

    def _connections(self, asked: Question, answered: list[str], rows: list[Moment]) -> None:
        for row in rows:
            if row["broker"] not in answered or (row["why"] == "") != (row["state"] == "running"):
                raise Violation(f"{asked.asker} tells of a connection {row}; answered have {answered}")
            local = asked.local[row["broker"]]
            line = local.lines.get(row["client"], "")
            if (row["senders"], row["sent"]) != (local.senders[line], local.by[line]):
                raise Violation(
                    f"{line!r} has sent {local.by[line]} by {local.senders[line]} senders, as is told {row}"
                )

    def _links(self, asked: Question, answered: list[str], rows: list[Moment]) -> None:
        if strange := {row["broker"] for row in rows} - set(answered):
            raise Violation(f"{asked.asker} tells of links at {strange}; answered have {answered}")
        for broker in answered:
            local = asked.local[broker]
            mine = [row for row in rows if row["broker"] == broker]
            sent, senders, receivers = Counter[str](), Counter[str](), Counter[str]()
            for row in mine:
                if row["role"] == "sender":
                    sent[row["client"]] += row["sent"]
                    senders[row["client"]] += 1
                elif row["delivered"] < 0:
                    raise Violation(f"{asked.asker} tells of a receiver {row}")
                else:
                    receivers[row["queue"]] += 1
            for client in sorted({row["client"] for row in mine}):
                line = local.lines.get(client, "")
                told, known = (senders[client], sent[client]), (local.senders[line], local.by[line])
                if told != known:
                    raise Violation(f"{line!r} has {known} senders and messages at {broker}, as is told {told}")
            for queue, (least, most) in local.consumers.items():
                if not least <= receivers[queue] <= most:
                    raise Violation(f"{queue!r} has {least} to {most} receivers at {broker}, as is told {mine}")


_JUDGES = {
    "queues": Figures._queues, "exchanges": Figures._exchanges, "brokers": Figures._brokers,
    "connections": Figures._connections, LINKS: Figures._links,
}  # fmt: skip


def _was(row: dict[str, Any], moments: Iterable[Moment]) -> bool:
    return any(all(row[name] == value for name, value in moment.items()) for moment in moments)


def _blank(id: str) -> Moment:
    """A queue to which nothing has happened yet."""
    return _moment(ModelQueue(id, alternate=False))


def _moment(model: ModelQueue) -> Moment:
    """What an answer must say of a queue that is like this."""
    places, held = Counter(map(model.place.__getitem__, model.live)), Counter[str]()
    for place, count in places.items():
        if isinstance(place, tuple):
            held[place[1]] += count
    went = {name: model.went.get(how, 0) for name, how in
            (("accepted", "accepted"), ("discarded", "discarded"), ("dead_lettered", "dead"), ("expired", "expired"), ("moved", "moved"))}  # fmt: skip
    return {
        "available": places["available"], "acquired": held.total(), "held_by": dict(held),
        "messages": places["available"] + places["delayed"] + held.total(),
        "delayed": places["delayed"], "dead_lettering": places["dead_lettering"],
        "bytes": sum(map(len, model.live.values())), "enqueued": len(model.place), "owner": model.owner,
        "grant": model.grant, "dequeued": sum(went.values()), **went,
        **{name: model.counts.get(theirs, 0) for name, theirs in COUNTED.items()},
    }  # fmt: skip
