"""Small event tables to ask questions of: what real queues did, made by their machine without a cluster."""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.capture.event_rows import rows
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import (
    CLUSTER,
    Accept,
    Acquire,
    AnyEvent,
    DeadLetterDone,
    Enqueue,
    Entry,
    Evict,
    Expire,
    Member,
    Own,
    Purge,
    Reject,
    Rejoin,
    Release,
    Start,
)

SECOND = 1_000_000
MINUTE = 60 * SECOND


def observed(kind: str, time_us: int, broker: str, term: int, seq: int, **fields: Any) -> Row:
    """A row that a broker saw for itself, when it had applied all up to this committed event."""
    return Row(term=term, seq=seq, part=-1, time_us=time_us, kind=kind, broker=broker, **fields)


class History:
    """A cluster's committed events, applied one after another.

    Attributes:
        rows: the event table so far.
        now_us: time of the next event; raise it at will.
    """

    def __init__(self, start_us: int = 10 * MINUTE, step_us: int = 1000) -> None:
        self.rows: list[Row] = []
        self.now_us = start_us
        self.step_us = step_us
        self.seq = 0
        self.term = (1, 7)
        self.queues: dict[str, QueueState] = {}
        self.acquisition = 0

    def queue(self, id: str, alternate: str = "", max_count: int = 0) -> QueueState:
        """The queue; a new one is a ring if it may hold only so many messages."""
        if id not in self.queues:
            state = self.queues[id] = QueueState(id, alternate)
            settings = QueueSettings(alternate, max_count, overflow="ring")
            for policy in policies_of(state, settings).of_state:
                state.include(policy)
        return self.queues[id]

    def do(self, id: str, event: AnyEvent) -> Applied:
        """The next committed event; of stream `id`, or of the cluster's own."""
        self.seq += 1
        self.now_us += self.step_us
        entry = Entry(self.term, self.seq, "", 0, 0, b"")
        if id == CLUSTER:
            done, alternate = Applied(), ""
        else:
            queue = self.queue(id)
            done, alternate = queue.apply(event), queue.alternate
        for row in rows(id, entry, event, done, self.now_us, alternate=alternate):
            self.add(row)
        return done

    def add(self, row: Row) -> None:
        self.rows.append(row._replace(row=len(self.rows) + 1))

    # ---- short forms

    def term_starts(self, counter: int, uid: int) -> None:
        self.term = (counter, uid)
        self.do(CLUSTER, Start(self.term))

    def member(self, broker: str, present: bool = True, inc: int = 1) -> None:
        self.do(CLUSTER, Member(broker, inc, present))

    def enqueue(self, id: str, count: int, client: str = "", first_number: int = 0, size: int = 10) -> Applied:
        numbers = [first_number, first_number + count - 1] if client else []
        return self.do(id, Enqueue(client, numbers, [b"x" * size] * count))

    def own(self, id: str, broker: str) -> None:
        queue = self.queue(id)
        self.do(id, Own(broker, queue.grant + 1, queue.owner))

    def acquire(self, id: str, first: int, last: int, accepted: bool = False) -> int:
        """By the lock's holder; returns the acquisition."""
        self.acquisition += 1
        queue = self.queue(id)
        self.do(id, Acquire(queue.owner, 1, queue.grant, [self.acquisition, first, last], accepted))
        return self.acquisition

    def accept(self, id: str, broker: str, acquisition: int, first: int, last: int) -> None:
        self.do(id, Accept(broker, 1, [acquisition, first, last]))

    def release(self, id: str, broker: str, acquisition: int, first: int, last: int, redelivered: bool = True) -> None:
        self.do(id, Release(broker, 1, [acquisition, first, last], redelivered))

    def reject(self, id: str, broker: str, acquisition: int, first: int, last: int) -> None:
        self.do(id, Reject(broker, 1, [acquisition, first, last]))


def random_history(seed: int, steps: int = 400, queues: int = 3) -> History:
    """Anything brokers may do, in any order: batches, releases, rejects, expiry, evictions, void events."""
    chance = random.Random(seed)
    history = History(step_us=chance.choice([5_000, 100_000]))
    history.term_starts(1, 7)
    names = [f"q{n}#{n}" for n in range(1, queues + 1)]
    for n, name in enumerate(names):
        history.queue(name, "dead" if n % 2 else "", 1_000 if n == 2 else 0)
    incs = {"b1": 1, "b2": 1, "b3": 1}
    numbers: dict[str, int] = {}

    def held(queue: QueueState) -> list[tuple[str, int, int, int, int]]:
        return [(*holder, first, last) for holder, ranges in queue.acquired.items() for first, last in ranges]

    for _ in range(steps):
        id = chance.choice(names)
        queue = history.queue(id)
        event: Any
        match chance.choices(range(10), [6, 2, 6, 6, 2, 2, 3, 0.4, 3, 1])[0]:
            case 0:
                client, count = chance.choice(["", f"{id}/c1", f"{id}/c2"]), chance.choice([1, 2, 50, 700])
                at = numbers.get(client, 0) + 1
                numbers[client] = at + count - 1
                expiry = [0, 1 + history.now_us // 1000 + 5] if chance.random() < 0.6 else []
                event = Enqueue(client, [at, at + count - 1] if client else [], [b"x" * 9] * count, expiry)
            case 1:
                event = Own(chance.choice([*incs, ""]), queue.grant + 1, queue.owner)
            case 2:
                if not queue.available or not queue.owner:
                    continue
                history.acquisition += 1
                first = queue.available.first
                runs = [history.acquisition, first, first + chance.choice([0, 1, 30, 900])]
                event = Acquire(queue.owner, incs[queue.owner], queue.grant, runs, chance.random() < 0.1)
            case 3 | 4 | 5 as which:
                ours = held(queue)
                if not ours:
                    continue
                broker, inc, acquisition, first, last = chance.choice(ours)
                last = min(last, first + chance.choice([0, 3, 1000]))
                run = [acquisition, first, last + chance.choice([0, 0, 2])]
                event = {3: Accept, 4: Release, 5: Reject}[which](broker, inc, run)
            case 6:
                event = Expire(history.now_us // 1000, [1, queue.next_position])
            case 7:
                event = Purge(chance.choice([1, 5]))
            case 8:
                if not queue.dead_lettering:
                    continue
                event = DeadLetterDone(chance.choice([*queue.batches]))
            case _:
                broker = chance.choice([*incs])
                rejoins = chance.random() < 0.3  # without a word of its end
                for name in names:
                    if not rejoins:
                        history.do(name, Evict(broker, incs[broker]))
                    history.do(name, Rejoin(broker, incs[broker] + 1))
                incs[broker] += 1
                history.member(broker, True, incs[broker])
                continue
        history.do(id, event)
    return history


def busy_history(minutes: int = 20, seed: int = 1) -> History:
    """An afternoon as it might be: three brokers, three queues, waves of messages, a failover in the middle, poison."""
    chance = random.Random(seed)
    history = History(start_us=1_760_000_000 * SECOND, step_us=150)
    history.term_starts(1, 7101)
    brokers = ["b1", "b2", "b3"]
    incs = dict.fromkeys(brokers, 1)
    for broker in brokers:
        history.member(broker)
    weights = {"orders#1": 90, "mail#2": 40, "billing#3": 12}
    for id in weights:
        history.queue(id, "dead" if id == "mail#2" else "")
        history.own(id, "b1")
    begin = history.now_us
    out: list[tuple[int, str, str, int, int, int, int]] = []  # due, queue, broker, inc, acquisition, first, last
    alive = list(brokers)
    number = 0

    def settle(now: int) -> None:
        for one in [one for one in out if one[0] <= now]:
            out.remove(one)
            _, id, broker, inc, acquisition, first, last = one
            draw = chance.random()
            kind = Accept if draw > 0.03 else Release if draw > 0.008 else Reject
            history.do(id, kind(broker, inc, [acquisition, first, last]))

    for second in range(minutes * 60):
        history.now_us = max(history.now_us, begin + second * SECOND)
        if second == minutes * 36:  # b2 falls, and the sequencer with it
            history.now_us += 2_700_000
            history.term_starts(2, 7102)
            alive.remove("b2")
            for id in weights:
                history.do(id, Evict("b2", 1))
            out[:] = [one for one in out if one[2] != "b2"]
            history.member("b2", present=False)
        if second == minutes * 36 + 45:
            incs["b2"] = 2
            history.member("b2", inc=2)
            for id in weights:
                history.do(id, Rejoin("b2", 2))
            alive.append("b2")
        wave = 1 + 0.8 * (second % 400 < 120)
        for id, weight in weights.items():
            queue = history.queue(id)
            history.enqueue(id, max(1, int(chance.gauss(weight * wave, weight / 5))), f"c/{id}", number + 1, size=200)
            number += 1000
            if chance.random() < {"orders#1": 0.3, "mail#2": 0.1}.get(id, 0.02) or queue.owner not in alive:
                history.own(id, chance.choice(alive))
            history.now_us += chance.randrange(200, 60_000)
            left = int(weight * 1.35)
            while queue.available and left > 0:
                first, last = next(iter(queue.available))
                last = min(last, first + left - 1)
                left -= last - first + 1
                history.acquisition += 1
                runs = [history.acquisition, first, last]
                history.do(id, Acquire(queue.owner, incs[queue.owner], queue.grant, runs))
                due = history.now_us + int(chance.lognormvariate(12.2, 0.7))
                out.append((due, id, queue.owner, incs[queue.owner], *runs))  # type: ignore[arg-type]
            for batch in list(queue.batches):
                history.do(id, DeadLetterDone(batch))
        settle(history.now_us)
        if chance.random() < 0.02:
            stop = observed(
                "flow_off", history.now_us, chance.choice(alive), 1, history.seq, queue="orders#1", value=40_000
            )
            history.add(stop)
    return history
