"""The clients that go on while faults happen: one process each (`client.py`).

They are ordinary users of the public client. What each does is chosen by its own seed; what it did is in its journal,
written before it asks and after it knows. A connection may find another broker by itself, or not: if it says that it is
lost, or does not get anywhere for `PATIENCE_S`, the client leaves it and connects anew, and what was not answered is
unknown for ever.

A client goes on until its standard input ends, so none outlives who started it. A receiver that reads the line "drain"
accepts whatever comes from then on.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mantamq.client import Connection, MantaError, Message, Session, connect
from mantamq.client.errors import Full, ResourceLimitExceeded, Unavailable
from mantamq.client.tracing import traced

from . import body, kinds
from .journal import COMPLETED, DEAD, FAILED, REFUSED, SENT, UNKNOWN, Journal
from .receiving import Hand
from .traces import part_of_its_trace

PATIENCE_S = 10.0
"""How long an answer may be missing. Longer than any pause, so that both its ends are met; no promise of the cluster."""
BROWSE_S = 3 * PATIENCE_S
"""So long a browser may look at one queue: with credit for one message at a time thousands take a while."""
ANSWER_S = 0.5
CALL_S = 5.0
DECLARE_S = 10.0
WAIT_S = 0.2
CHOICES = (0.03, "release"), (0.05, "reject"), (0.08, ""), (0.1, "modify")
TRACED = 0.3
"""The share of senders' connections that are traced."""
MANY_DELIVERIES = 6
"""A message delivered this often is accepted, or it would go round for ever."""


class GivenUp(Exception):
    """Nothing was answered for `PATIENCE_S`."""


@dataclass(frozen=True)
class Task:
    """The task of a client.

    Attributes:
        client: its name. role: as in `client.ROLES`.
        journal: file of its own.
        addresses: file with the brokers' addresses, a JSON map; read again before every connection.
        prefer: which of them it tries first.
        rate: messages a second a sender sends, about.
        exchanges: its queues can be sent to by exchanges as well, see `declare`.
        producer: whose messages a program sends. life: of a program, from 1.
    """

    client: str
    role: str
    queues: list[str]
    journal: str
    addresses: str
    prefer: int
    seed: int
    rate: float = 100.0
    exchanges: bool = False
    producer: str = ""
    life: int = 0


class Client:
    """One client: connects, works, and connects anew, until it is told to stop."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.journal = Journal(Path(task.journal), task.client)
        self.random = random.Random(task.seed)
        self.stopping = threading.Event()
        self.draining = threading.Event()
        self._links = 0
        self._tries = task.prefer

    def run(self) -> None:
        """Work until told to stop. The last line of the journal says that it is whole."""
        threading.Thread(target=self._listen, daemon=True).start()
        while not self.stopping.is_set():
            try:
                with self._connected() as connection:
                    self.work(connection)
            except (MantaError, OSError, GivenUp) as error:
                print(f"{time.monotonic():.3f} {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                self.stopping.wait(WAIT_S)
        self.journal.write("done")

    def work(self, connection: Connection) -> None:
        raise NotImplementedError

    def name_link(self) -> str:
        self._links += 1
        return f"{self.task.client}/{self._links}"

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "drain":
                self.draining.set()
        self.stopping.set()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection to the preferred broker, or to the next when that one failed before."""
        addresses: dict[str, str] = json.loads(Path(self.task.addresses).read_text())
        turn = self._tries % len(addresses)
        self._tries += 1
        order = [addresses[broker] for broker in sorted(addresses)]
        with connect(order[turn:] + order[:turn], timeout=CALL_S) as connection:
            self._tries -= 1
            books = connection._conversation
            id, why = books._client, ""  # programs are not told theirs
            self.journal.write("connected", connection=id, broker=connection.broker, life=self.task.life)
            try:
                yield connection
            except BaseException as error:
                self._tries += 1
                why = f"{type(error).__name__}: {error}"
                raise
            finally:
                if books.failure is not None:  # also where nobody has asked anything of it since
                    why = f"{type(books.failure).__name__}: {books.failure}"
                self.journal.write("ended", connection=id, why=why, interruptions=connection.interruptions)


# ---- sending


@dataclass
class SendingLink:
    """A sender. Attributes: own: the producer's number of each that was put, 0 for those that nobody counts; the sender's
    own numbers begin at 1. by_key: it sends to an exchange that goes by the key. capacity: the sender's."""

    id: str
    queue: str
    sender: Any
    own: list[int]
    by_key: bool = False
    capacity: int = 0


@dataclass
class Burst:
    """Messages that were logged as sent and whose outcome is not logged."""

    link: SendingLink
    first: int
    last: int


class Sending(Client):
    """Sends numbered messages, in bursts, to all its queues; others that expire soon and nobody counts are among them.

    Attributes:
        fleeting: how many of these there are to each numbered one.
        time_outs: that its senders may have.
    """

    fleeting = 0.2
    time_outs: tuple[float | None, ...] = (None, 2.0, 60.0)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._numbers = dict.fromkeys(task.queues, 0)
        self._of_traces = random.Random(f"traces of {task.seed}")
        self._open: list[Burst] = []
        self._told: dict[tuple[str, int], str] = {}  # outcomes of single messages that were refused
        self._padding = self.random.randbytes(64 * 1024)

    def work(self, connection: Connection) -> None:
        links: list[SendingLink] = []
        broken = True
        try:
            self._perhaps_traced(connection)
            session = connection.session()
            for queue in self.task.queues:
                links.append(self._link(connection, session, queue))
            until = time.monotonic() + self.random.expovariate(1 / 20)
            while not self.stopping.is_set() and time.monotonic() < until:
                self._turn(links)
            broken = False
        finally:
            self._conclude(UNKNOWN)
            for link in links:
                self.journal.write("close", link=link.id, broken=broken)

    def _perhaps_traced(self, connection: Connection) -> None:
        if self._of_traces.random() < TRACED:
            traced(connection)

    def _link(self, connection: Connection, session: Session, queue: str) -> SendingLink:
        chance = self.random
        address = queue
        if self.task.exchanges:
            address = chance.choice((queue, queue, queue + BY_KEY, f"{queue}{BY_KEY}/{KEY}", f"{queue}{BY_KEY}/other"))
        capacity = self._capacity()
        if chance.random() < 0.3:
            sender = session.sender(address, capacity, chance.choice(self.time_outs), chance.random() < 0.5)
        else:
            sender = session.sender(address, capacity, mandatory=chance.random() < 0.3)
        link = SendingLink(self.name_link(), queue, sender, [0], address == queue + BY_KEY, capacity)
        self.journal.write(
            "open", link=link.id, queue=queue, role="sender", broker=connection.broker, capacity=capacity
        )  # fmt: skip
        return link

    def _capacity(self) -> int:
        return self.random.choices((1, 10, 1000), (1, 1, 2))[0]

    def _turn(self, links: list[SendingLink]) -> None:
        """A burst to one queue, or to a few at once, and all their completions."""
        sent = 0
        began = time.monotonic()
        for link in self.random.sample(links, min(len(links), self.random.choice((1, 1, 2, len(links))))):
            count = self.random.choice((1, 1, 2, 5, 20, 60))
            self._send(link, count)
            sent += count
        for burst in self._open:
            self._complete(burst.link)
        self._conclude(COMPLETED)
        self.stopping.wait(max(0.0, sent / self.task.rate * self.random.uniform(0.5, 1.5) - (time.monotonic() - began)))

    def _send(self, link: SendingLink, count: int) -> None:
        first = self._numbers[link.queue] + 1
        last = self._numbers[link.queue] = first + count - 1
        self.journal.write("send", link=link.id, first=first, last=last, outcome=SENT)
        self._open.append(Burst(link, first, last))
        kind = kinds.of(link.queue)
        for number in range(first, last + 1):
            size = 50_000 if self.random.random() < 0.002 else self.random.randrange(1200)
            text = body.write(link.queue, self.task.client, number, self._padding[:size])
            self._put(link, Message(text, **body.options(number, link.queue)), number)
            if self.random.random() < self.fleeting and (kind is None or kind.fleeting):
                text = body.write(link.queue, body.FLEETING, 0, b"")
                self._put(link, Message(text, ttl=self.random.uniform(0, 0.3)), 0)

    def _put(self, link: SendingLink, message: Message, number: int) -> None:
        with part_of_its_trace(number):
            self._put_it(link, message, number)

    def _put_it(self, link: SendingLink, message: Message, number: int) -> None:
        keys = self.random.choice(KEYS) if link.by_key else None
        kind = kinds.of(link.queue)
        if kind is not None and (delay := kind.delay(number)):
            by_clock = self.random.random() < 0.5  # which the brokers of this machine share
            self._insist(
                link,
                lambda: link.sender.send_later(
                    message, None if by_clock else delay, time.time() + delay if by_clock else None, keys, ANSWER_S
                ),
            )
        elif keys is None:
            self._insist(link, lambda: link.sender.send(message, timeout=ANSWER_S))
        else:
            self._insist(link, lambda: link.sender.send_to(message, keys, timeout=ANSWER_S))
        link.own.append(number)

    def _complete(self, link: SendingLink) -> None:
        self._insist(link, lambda: link.sender.sync(timeout=ANSWER_S))

    def _insist(self, link: SendingLink, call: Any) -> None:
        """Call until it succeeds; refusals of earlier messages are noted. Raises GivenUp, and what ended the link."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call()
            except MantaError as error:
                self._note(link, error)
                if time.monotonic() > until:
                    raise GivenUp(f"{link.id}: no completion for {PATIENCE_S:g} s") from error

    def _note(self, link: SendingLink, error: MantaError) -> None:
        """Note what an error says of earlier messages. Raises it where it ends the link."""
        numbers: list[int] | None = getattr(error, "numbers", None)
        if numbers is not None:
            outcome = UNKNOWN if isinstance(error, Unavailable) else FAILED
            if isinstance(error, ResourceLimitExceeded):
                outcome = REFUSED
            for at in range(0, len(numbers), 2):
                for number in range(numbers[at], numbers[at + 1] + 1):
                    self._told[link.id, link.own[number]] = outcome
        elif not isinstance(error, (TimeoutError, Full)):
            raise error

    def _conclude(self, outcome: str) -> None:
        """Log what is known of all open bursts, in runs."""
        for burst in self._open:
            first = burst.first
            for number in range(burst.first, burst.last + 1):
                mine = self._told.get((burst.link.id, number), outcome)
                following = self._told.get((burst.link.id, number + 1), outcome) if number < burst.last else ""
                if mine != following:
                    self.journal.write("send", link=burst.link.id, first=first, last=number, outcome=mine)
                    first = number + 1
        self._open.clear()
        self._told.clear()


# ---- receiving


class Receiving(Client):
    """Receives from all its queues, and accepts, releases, rejects, holds, closes, as its seed will have it."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._ids = iter(range(1, sys.maxsize))

    def work(self, connection: Connection) -> None:
        hands: list[Hand] = []
        broken = True
        try:
            for queue in self.task.queues:
                hands.append(self._hand(connection, queue))
            until = time.monotonic() + self.random.expovariate(1 / 25)
            while not self.stopping.is_set() and time.monotonic() < until:
                for index, hand in enumerate(hands):
                    self._turn(hand, 0.05 if index else 0.1)
                    if self.random.random() < 0.003:
                        hand.close()
                        hands[index] = self._hand(connection, hand.queue)
            for hand in hands:
                hand.settle("accept", list(hand.held))
                hand.close()
            broken = False
        finally:
            if broken:
                for hand in hands:
                    hand.lost()

    def _hand(self, connection: Connection, queue: str) -> Hand:
        capacity = self.random.choice((0, 1, 20, 100, 500, 500))
        bounds = capacity > 0 and self.random.random() < 0.3
        return Hand(self.journal, self.name_link, self._ids, connection, queue, capacity, bounds=bounds)

    def _turn(self, hand: Hand, timeout_s: float) -> None:
        """Fetch a few, settle a few, now and then wait for the answers."""
        chance = self.random.random
        for _ in range(self.random.choice((1, 5, 50))):
            if not hand.fetch(timeout_s):
                break
            timeout_s = 0.0
        if not self.draining.is_set() and chance() < 0.1:
            return  # hold what is there for a while
        self._settle(hand)
        if self.draining.is_set() or chance() < 0.7:
            hand.sync(PATIENCE_S, ANSWER_S, GivenUp)

    def _settle(self, hand: Hand) -> None:
        """Most are accepted; some go back, with a note or without, to their place or elsewhere; some are held on to."""
        chosen: dict[str, list[int]] = {"accept": [], "release": [], "reject": [], "modify": []}
        for id, held in hand.held.items():
            choice = "accept"
            if not self.draining.is_set() and held.count < MANY_DELIVERIES:
                draw = self.random.random()
                choice = next((name for below, name in self._choices(hand) if draw < below), "accept")
            if choice:
                chosen[choice].append(id)
        for choice, ids in chosen.items():
            if choice == "release" and (later := self._later(hand)):
                hand.settle(choice, ids, later)
            elif choice != "modify":
                hand.settle(choice, ids)
            elif ids:
                hand.modify(ids, uncounted=self.random.random() < 0.5, elsewhere=self._elsewhere(hand))

    def _choices(self, hand: Hand) -> tuple[tuple[float, str], ...]:
        """What else than accepting, and below which draw."""
        return CHOICES

    def _later(self, hand: Hand) -> float:
        """For so many seconds nobody is to get what it releases now; 0: for none."""
        return 0.0

    def _elsewhere(self, hand: Hand) -> bool:
        """Whether it is not to get again what it modifies now."""
        return False


class Alone(Receiving):
    """The only consumer of its queue: it accepts in order, early or late, and often stands still with a full window."""

    def _hand(self, connection: Connection, queue: str) -> Hand:
        capacity = self.random.choice((1, 10, 100))
        return Hand(self.journal, self.name_link, self._ids, connection, queue, capacity, alone=True)

    def _turn(self, hand: Hand, timeout_s: float) -> None:
        for _ in range(self.random.choice((1, 5, 50))):
            if not hand.fetch(timeout_s):
                break
            timeout_s = 0.0
        if not self.draining.is_set() and self.random.random() < 0.2:
            self.stopping.wait(self.random.choice((0.1, 0.5, 1.5)))  # longer than a broker keeps the lock for nothing
        ids = list(hand.held)
        count = len(ids) if self.draining.is_set() else self.random.randrange(len(ids) + 1)
        hand.settle("accept", ids[:count])
        if self.draining.is_set() or self.random.random() < 0.5:
            hand.sync(PATIENCE_S, ANSWER_S, GivenUp)


class Browsing(Client):
    """Looks at its queues from beginning to end, again and again, and takes nothing."""

    def work(self, connection: Connection) -> None:
        session = connection.session()
        until = time.monotonic() + self.random.expovariate(1 / 25)
        while not self.stopping.is_set() and time.monotonic() < until:
            for queue in self.task.queues:
                self._browse(connection, session, queue)
            self.stopping.wait(self.random.uniform(1, 5))

    def _browse(self, connection: Connection, session: Session, queue: str) -> None:
        link = self.name_link()
        kind = kinds.of(queue)
        wants = kinds.some_keys(kind, self.random) if kind is not None and kind.selected else []
        more: dict[str, Any] = {"wants": wants} if wants else {}
        self.journal.write("open", link=link, queue=queue, role="browser", broker=connection.broker, **more)
        began, seen, damaged, whole = time.monotonic(), list[tuple[int, str, int]](), False, False
        broken = True
        try:
            for message in self._messages(session, queue, kinds.selector(wants) if wants else None):
                found = body.read(message.body)
                if found.producer != body.FLEETING:
                    seen.append((message.position, found.producer, found.number))
                    damaged = damaged or found.damaged or not body.as_sent(message, found.number, queue)
                if self.stopping.is_set() or time.monotonic() > began + BROWSE_S:
                    break
            else:
                whole = True
            broken = False
        finally:
            more = {"damaged": True} if damaged else {}
            self.journal.write("browse", link=link, began=began, whole=whole and self._to_the_end, seen=seen, **more)
            self.journal.write("close", link=link, broken=broken)

    def _messages(self, session: Session, queue: str, selector: str | None) -> Iterator[Message]:
        capacity = self.random.choice((0, 1, 50, 1000))
        self._to_the_end = self.random.random() < 0.7
        if self._to_the_end:
            yield from session.browse(queue, capacity, selector)
            return
        with session.receiver(
            queue, capacity, mode="browse", timeout=0.2, selector=selector
        ) as receiver:  # for as long as something comes
            yield from receiver


# ---- queues

BY_KEY, OTHERS, KEY = ".by-key", ".others", "this"
"""Ends of the names of a queue's exchanges; the key by which the first finds it."""
KEYS = None, ["other"], [KEY], [KEY, KEY], [KEY, "other"], ["other", KEY, "none"]
"""What a message is sent by to such an exchange: its subject, or several keys at once; each comes once."""
RELAY = ".relay"
"""Of an exchange that the first leads to, and that leads to the queue as well and back: each message comes once."""


def declare(connection: Connection, queue: str, durable: bool = False) -> None:
    """A queue of the kind that its name says, with one for its dead letters, and with an exchange that finds it by a key,
    or by its alternate.

    In the half second after a start or a takeover one of a kind may be refused, as the README says.
    """
    kind = kinds.of(queue)
    until = time.monotonic() + DECLARE_S
    while True:
        try:
            return _declare(connection, queue, durable, kind.declared if kind else {})
        except Unavailable:
            if time.monotonic() > until:
                raise
            time.sleep(WAIT_S)


def _declare(connection: Connection, queue: str, durable: bool, declared: dict[str, Any]) -> None:
    connection.declare_queue(queue + DEAD, durable=durable)
    connection.declare_exchange(queue + DEAD, "fanout", durable=True)
    connection.bind(queue + DEAD, queue + DEAD)
    usual: dict[str, Any] = {"durable": durable, "alternate": queue + DEAD, "dead_letters": "rejected"}
    connection.declare_queue(queue, arguments={"chaos": 1}, **(usual | declared))
    for other in kinds.others(queue)[:-1]:
        connection.declare_queue(other, **usual)
    connection.declare_queue(queue, passive=True)
    connection.declare_exchange(queue + OTHERS, "headers")
    connection.bind(queue + OTHERS, queue, arguments={"x-match": "all"})
    connection.declare_exchange(queue + BY_KEY, "direct", alternate=queue + OTHERS, arguments={"chaos": 1})
    connection.declare_exchange(queue + BY_KEY, "direct", passive=True)
    connection.bind(queue + BY_KEY, queue, KEY)
    connection.declare_exchange(queue + RELAY, "fanout", internal=True, auto_delete=True)
    connection.bind(queue + RELAY, queue)
    connection.bind_exchange(queue + BY_KEY, queue + RELAY, KEY)
    connection.bind_exchange(queue + RELAY, queue + BY_KEY, arguments={"chaos": 1})


def delete(connection: Connection, queue: str) -> None:
    for name in (queue, *kinds.others(queue)):
        connection.delete_queue(name)
    for name in (queue + BY_KEY, queue + OTHERS, queue + DEAD):  # the last goes with its last binding, to the first
        connection.delete_exchange(name)


def drain(connection: Connection, journal: Journal, queues: list[str], until: float) -> list[str]:
    """Accept all that is in the queues, as a client of its own; returns those not seen empty at the time `until`.

    The clients have ended: what is there now is what they left, and all dead letters.
    """
    ids = iter(range(1, sys.maxsize))
    links = iter(range(1, sys.maxsize))
    left: list[str] = []
    dead = [name + DEAD for name in queues]
    for queue in [*queues, *(other for name in queues for other in kinds.others(name)[:-1]), *dead]:
        hand = Hand(journal, lambda: f"{journal.client}/{next(links)}", ids, connection, queue, 200)
        while not hand.seen_empty(connection) and time.monotonic() < until:
            while hand.fetch(0.1):
                if len(hand.held) >= 200:
                    break
            hand.settle("accept", list(hand.held))
            hand.sync(PATIENCE_S, ANSWER_S, GivenUp)
        empty = hand.seen_empty(connection)
        hand.close()
        if empty:
            journal.write("drained", queue=queue)
        else:
            left.append(queue)
    return left
