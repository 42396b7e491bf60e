"""One receiver of a client, and the books that its journal needs: what is held, what was asked, what is known."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mantamq.client import Connection, Empty, MantaError, Message

from . import body
from .journal import COMPLETED, LOST, SENT, UNKNOWN, Journal
from .kinds import STAMP, roams, selector


@dataclass
class Held:
    """A message fetched and not settled. Attributes: count: deliveries before; generation: of the connection, then;
    unsure: a broker was lost while it was fetched, so it may be of that one or of the next."""

    message: Message
    count: int
    generation: int
    unsure: bool = False


@dataclass
class Asked:
    """A settlement on its way. Attributes: interruptions: of the connection before it was asked for."""

    id: int
    kind: str
    position: int
    interruptions: int


def judged(asked: list[Asked], lost: Counter[int], interruptions: int) -> Iterator[tuple[Asked, str]]:
    """The outcome of each settlement, in the order of deliveries, when all are answered or will never be.

    Args:
        lost: position -> how many of its settlements the session has told to be lost.
        interruptions: of the connection, by now.
    """
    interrupted = {one.position for one in asked if one.interruptions != interruptions}
    for one in sorted(asked, key=lambda one: one.id):
        if not lost[one.position]:
            yield one, COMPLETED
        elif one.position in interrupted:
            # Of one that was on its way when the broker was lost nobody knows whether it counted; nor, of two of one
            # message, which of them is told: an accept that was on its way is, and a release is not.
            yield one, UNKNOWN
        else:
            yield one, LOST  # of two deliveries of one message the earlier is lost
            lost[one.position] -= 1


class Hand:
    """A receiver with its journal.

    A connection that finds another broker by itself begins a new *generation*: its receivers then are links of another
    broker, and what was fetched before is back in its queue. The journal shows a new link.

    Args:
        name_link: gives each link its name.
        ids: gives each delivery its number.
        capacity: of the receiver.
        alone: nobody else receives from this queue.
        bounds: the capacity bounds what is not settled.
        wants: keys that a selector lets through; () for all.
        options: of the receiver, others.
    """

    def __init__(
        self, journal: Journal, name_link: Callable[[], str], ids: Iterator[int], connection: Connection, queue: str,
        capacity: int, alone: bool = False, bounds: bool = False, wants: Sequence[str] = (), **options: Any,
    ) -> None:  # fmt: skip
        self.journal = journal
        self.alone = alone
        self._bound = capacity if bounds else sys.maxsize
        self.queue = queue
        self.capacity = capacity
        self.held: dict[int, Held] = {}
        self._name_link = name_link
        self._ids = ids
        self._connection = connection
        self._asked: list[Asked] = []
        self._session = connection.session()
        self._checked = time.monotonic()
        if wants:
            options["selector"] = selector(wants)
        window = "unaccepted" if bounds else "unfetched"
        self.receiver = self._session.receiver(queue, capacity, window=window, **options)
        self._generation = self._interruptions()
        self.stopped = False
        self._wants = list(wants)
        self._known_lost = 0
        self._stale: Counter[int] = Counter()
        self._since = 0.0
        self._empty = False
        self.link = ""
        self._open()

    def _interruptions(self) -> int:
        return getattr(self._connection, "interruptions", 0)

    def _open(self, resumed: bool = False) -> None:
        self.link = self._name_link()
        values: dict[str, Any] = {"queue": self.queue, "role": "receiver", "broker": self._connection.broker}
        values["capacity"] = self.capacity
        if self.alone:
            values |= {"alone": True, "resumed": resumed}
        if self._wants:
            values["wants"] = self._wants
        self.journal.write("open", link=self.link, at=self._checked, **values)
        self._since = self._checked
        if self.stopped:
            self.journal.write("stop", link=self.link)

    def _renewed(self) -> None:
        """Look whether another broker has taken over. A moment at which none had yet is kept: links are not older."""
        moment, generation = time.monotonic(), self._interruptions()
        if generation != self._generation:
            self.journal.write("close", link=self.link, broken=True)
            self._generation = generation
            self._open(True)
        self._checked = moment

    def fetch(self, timeout_s: float) -> bool:
        """Fetch a message and log it; whether there was one."""
        self._renewed()
        self._empty = False
        moment = time.monotonic()
        try:
            message = self.receiver.fetch(timeout_s) if timeout_s else self.receiver.fetch_nowait()
        except Empty:
            if timeout_s:
                self._nothing_before(moment)
                if not self.capacity:
                    self.journal.write("idle", link=self.link, began=round(moment, 6))
            return False
        self._take(message)
        return True

    def _take(self, message: Message) -> None:
        found = body.read(message.body)
        if found.producer == body.FLEETING:
            self._session.acknowledge(message)
            return
        damaged = found.damaged or not body.as_sent(message, found.number, self.queue)
        id, count = next(self._ids), message.delivery_count
        more: dict[str, Any] = {"damaged": True} if damaged else {}
        if found.of != self.queue:
            more["of"] = found.of
        if not count and not message.first_acquirer:
            more["again"] = True
        if body.stamps(self.queue):
            more["stamp"] = (message.properties or {}).get(STAMP, 0)
        if roams(self.queue) and (death := body.died(message)):
            more["died"] = death
        if message.annotations:
            more["notes"] = sorted(message.annotations)
        unsure = self._interruptions() != self._generation
        if unsure:
            more["unsure"] = True
        held = sum(one.generation == self._generation for one in self.held.values())
        if held >= self._bound and not unsure:
            more["over"] = True
        self.journal.write(
            "deliver", link=self.link, id=id, position=message.position, producer=found.producer, number=found.number,
            count=count, since=round(self._since, 6), **more,
        )  # fmt: skip
        self.held[id] = Held(message, count, self._generation, unsure)

    def _nothing_before(self, moment: float) -> None:
        """Ask the cluster itself: once it says that there is nothing, all that was sent to us until then is here."""
        for message in self.receiver.get_batch(1):
            self._take(message)
            return
        self._since = max(self._since, moment)
        self._empty = True

    def seen_empty(self, connection: Connection) -> bool:
        """Whether the queue had nothing for us, we hold nothing, and it says itself that nothing is in it."""
        if not self._empty or self.held or self._asked:
            return False
        report = connection.queue(self.queue)
        return report["messages"] == 0 and report["acquired"] == 0

    def modify(self, ids: list[int], uncounted: bool, elsewhere: bool) -> None:
        """Give messages back, each with a note of its own: ask for it, as `settle`."""
        self._ask("modify", ids, {"uncounted": uncounted, "elsewhere": elsewhere})

    def settle(self, kind: str, ids: list[int], delay: float = 0.0) -> None:
        """Ask for settlements; their outcomes are known after `sync`. Args: delay: in seconds, of a release."""
        if ids:
            self._ask(kind, ids, {"delay": delay} if delay else {})

    def _ask(self, kind: str, ids: list[int], more: dict[str, Any]) -> None:
        self._renewed()
        generation = self._interruptions()
        stale = [id for id in ids if self.held[id].generation != generation]
        self.journal.write("settle", link=self.link, ids=ids, kind=kind, outcome=SENT, **more)
        held = [(id, self.held.pop(id)) for id in ids]
        asked = [(id, one) for id, one in held if id not in stale]
        self._asked += [Asked(id, kind, one.message.position, generation) for id, one in asked]
        unsure = [id for id, one in held if id in stale and one.unsure]
        if unsure:  # of the new broker perhaps: then it counts
            self._answer(kind, unsure, UNKNOWN)
            stale = [id for id in stale if id not in unsure]
        if stale:  # back in the queue since the broker was lost: the client does not even ask
            self._answer(kind, stale, LOST)
            self._stale.update(one.message.position for id, one in held if id in stale)
        ask = {"accept": self._session.acknowledge, "release": self._session.release, "reject": self._session.reject}
        for id, one in held:
            if kind == "modify":
                note = {f"{self.journal.client}.{id}": id}
                self._session.modify(one.message, not more["uncounted"], more["elsewhere"], note)
            elif more:
                self._session.release(one.message, more["delay"])
            else:
                ask[kind](one.message)

    def stop(self) -> None:
        """Be sent nothing more: the journal says so when the broker has."""
        self.receiver.stop()
        self._renewed()
        self.stopped = True
        self.journal.write("stop", link=self.link)

    def start(self) -> None:
        self._renewed()
        self.stopped = False
        self.journal.write("start", link=self.link)
        self.receiver.start()

    def sync(self, patience_s: float, answer_s: float, give_up: type[Exception]) -> None:
        """Wait for the outcomes of all that was asked for, and log them. Raises `give_up` when none comes."""
        until = time.monotonic() + patience_s
        while True:
            try:
                self._session.sync(answer_s)
                break
            except TimeoutError as error:
                if time.monotonic() > until:
                    raise give_up(f"{self.link}: no settlement was answered for {patience_s:g} s") from error
        self._conclude()

    def _conclude(self) -> None:
        asked, self._asked = self._asked, []
        told = self._session.lost
        interruptions = self._interruptions()  # read last: it changes before anything is told lost by it
        lost = Counter(position for _, position in told[self._known_lost :]) - self._stale
        self._stale.clear()
        self._known_lost = len(told)
        outcomes: dict[tuple[str, str], list[int]] = {}
        for one, outcome in judged(asked, lost, interruptions):
            outcomes.setdefault((one.kind, outcome), []).append(one.id)
        for (kind, outcome), ids in outcomes.items():
            self._answer(kind, ids, outcome)

    def _answer(self, kind: str, ids: list[int], outcome: str) -> None:
        self.journal.write("settle", link=self.link, ids=ids, kind=kind, outcome=outcome)

    def close(self) -> None:
        """Wait for all outcomes, then end the receiver; what is held goes back."""
        self.sync(10.0, 1.0, MantaError)
        # Before it is closed: what goes back may be another's before we hear that it is.
        self.journal.write("close", link=self.link, broken=False)
        self.receiver.close()

    def lost(self) -> None:
        """The connection is over: what was not answered is unknown."""
        outcomes: dict[str, list[int]] = {}
        for one in self._asked:
            outcomes.setdefault(one.kind, []).append(one.id)
        self._asked = []
        for kind, ids in outcomes.items():
            self._answer(kind, ids, UNKNOWN)
        self.journal.write("close", link=self.link, broken=True)
