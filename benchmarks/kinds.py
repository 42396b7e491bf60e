"""What a kind of queue costs: the same messages through a plain queue and one of each kind, one behind the other.

Every message has a priority, an id of its own and a header with one of a thousand values, also for the plain queue:
what a queue looks at is what differs. One that takes each id once is to carry 0.6 of the plain rate at least. The clock
runs until everything has left the queue, by whatever way: of a last-value queue most messages are replaced before
anybody has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..client import Empty, Message, connect, connect_async
from . import manta
from .processes import Consumed, Job, Produced, padding, run
from .results import Collection

KEYS = 1_000
PLAIN, REJECTED = "plain", "rejected"
DEAD = "dead"
"""Where dead letters go: an exchange, and its queue."""
KINDS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "priority": {"priorities": 10},
    "groups": {"group_key": "key"},
    "fair": {"fair_key": "key"},
    "last-value": {"last_value_key": "key"},
    "ring": {"max_count": 10_000_000, "overflow": "ring"},
    "full-ring": {"max_count": 500, "overflow": "ring"},
    "limited": {"max_count": 10_000_000},
    "rejected": {"alternate": DEAD},
    "by-id": {"dedupe_window_count": 100_000},
    "by-name": {},
    "held-back": {"flow_stop_count": 160, "flow_resume_count": 140},
}
"""Kind -> what its queue is declared with. A ring that is not full, and one that drops what nobody takes in time; a
limit and thresholds that are never reached; one of which everything is rejected, and goes to another queue; and one
that holds its producer back again and again: the thresholds that a limit of 200 brings."""
NAMED = "by-name"
"""A plain queue, whose sender has a name: 0.95 of the plain rate at least."""
TURNS = 4
"""So often has such a sender its turn: one turn differs from the next by more than what is to be seen here."""
SENDS_AHEAD = {"held-back": 225}
"""Kind -> the capacity of its sender, where it is not the plain queue's. What a sender may send ahead goes in between a
stop and the next: with a little less flow stops more often, with much less each stop costs more than it saves."""


async def produce(address: str, queue: str, count: int, capacity: int, name: str, ready: Any) -> Produced:
    async with connect_async(address) as connection:
        session = connection.session()
        sender = await (session.sender(queue, capacity, name=name) if name else session.sender(queue, capacity))
        pad = padding()
        properties = [{"key": f"key {number}"} for number in range(KEYS)]
        await ready()
        start = time.time()
        for number in range(count):
            body = manta.STAMP.pack(time.time()) + pad
            fields: dict[str, Any] = {"priority": number % 10, "message_id": f"{queue}-{number}"}
            await sender.send(Message(body, properties=properties[number % KEYS], **fields))
        await session.sync()
        return Produced(start, time.time(), count)


async def consume(address: str, queue: str, count: int, rejects: bool, ready: Any) -> Consumed:
    """Take and accept, or reject, until `count` messages have left the queue."""
    async with connect_async(address) as connection:
        session = connection.session()
        receiver = await session.receiver(queue, capacity=manta.WINDOW)
        taken = 0
        await ready()
        last = time.time()
        while True:
            try:
                message = await receiver.fetch(timeout=0.1)
            except Empty:
                await session.sync()
                if (await connection.queue(queue))["dequeued"] >= count:
                    return Consumed(last, taken, [0.0])
                continue
            taken += 1
            last = time.time()
            await (session.reject if rejects else session.acknowledge)(message)


def measure(addresses: list[str], count: int, into: Collection, say: Callable[[str], None]) -> None:
    """Add the throughput of each kind, in a cluster whose brokers are at these addresses; and that of the plain queue,
    also as what was beside each kind: turns a minute apart differ by a fifth."""
    say("kinds: what is loaded once")
    _turn(addresses, count, PLAIN)
    once = [kind for kind in KINDS if kind not in (PLAIN, NAMED)]
    for kind in [*once, *[NAMED] * TURNS]:
        say(f"kinds: {kind}, beside a plain one")
        plain, _ = _turn(addresses, count, PLAIN)
        rate, stops = _turn(addresses, count, kind)
        for workload, found in ((f"kind-{PLAIN}", plain), (beside(kind), plain), (f"kind-{kind}", rate)):
            into.add("manta", workload, "messages_per_s", "messages/s", found)
        if stops:
            into.add("manta", f"kind-{kind}", "flow_stops_per_s", "times/s", stops)


def beside(kind: str) -> str:
    """The workload of the plain queue whose turn came right before this kind's."""
    return f"kind-{PLAIN}-beside-{kind}"


def _turn(addresses: list[str], count: int, kind: str) -> tuple[float, float]:
    """Messages a second, and how often a second flow control went on."""
    with connect(addresses[0]) as connection:
        connection.declare_exchange(DEAD, "fanout")
        connection.declare_queue(DEAD)
        connection.bind(DEAD, DEAD)
        connection.declare_queue("of-a-kind", **KINDS[kind])
    ahead = SENDS_AHEAD.get(kind, manta.WINDOW)
    jobs = [
        Job(__name__, "produce", (addresses[0], "of-a-kind", count, ahead, NAMED if kind == NAMED else "")),
        Job(__name__, "consume", (addresses[1], "of-a-kind", count, kind == REJECTED)),
    ]
    produced, consumed = run(jobs)
    with connect(addresses[0]) as connection:
        stops = connection.queue("of-a-kind").get("flowStoppedCount", 0)
        connection.delete_queue("of-a-kind")
        connection.delete_queue(DEAD)
        connection.delete_exchange(DEAD)
    took_s = max(produced.end, consumed.end) - produced.start
    return count / took_s, stops / took_s
