"""The clients' journals, written while faults happen: one JSON object per line, one file per client, and how it is read back.

Times are seconds of the machine's monotonic clock, the same for all processes of one machine. A client writes *before*
it asks for something (``sent``) and *after* it knows (every other outcome), so that the truth lies between the two.

    {"op": "open",    "t", "client", "link", "queue", "role": "sender" | "receiver" | "browser", "broker", "at"?,
                "capacity"?, "wants"?: [key, ...], "producer"?, "asked"?, "had"?}
    {"op": "send",    "t", "client", "link", "first", "last", "outcome": sent | completed | refused | failed | unknown}
    {"op": "deliver", "t", "client", "link", "id", "position", "producer", "number", "count", "since", "damaged"?, "of"?,
                "again"?, "unsure"?, "notes"?: [note, ...], "stamp"?, "died"?: [cause, deliveries, queue]}
    {"op": "settle",  "t", "client", "link", "ids", "kind": accept | release | reject | modify,
                "outcome": sent | completed | lost | unknown, "uncounted"?, "elsewhere"?, "delay"?}
    {"op": "stop",    "t", "client", "link"}, {"op": "start", ...}
    {"op": "idle",    "t", "client", "link", "began"}
    {"op": "look",    "t", "client", "queue", "began", "messages", "stopped", "stops"}
    {"op": "tally",   "t", "client", "queue", "counts": {name: number}}
    {"op": "roam",    "t", "client", "queue", "to", "began", "moved", "left"}
    {"op": "browse",  "t", "client", "link", "began", "whole": bool, "seen": [[position, producer, number], ...], "damaged"?}
    {"op": "close",   "t", "client", "link", "broken": bool}
    {"op": "connected", "t", "client", "connection", "broker", "life"}
    {"op": "ended",   "t", "client", "connection", "why", "interruptions"}
    {"op": "closing", "t", "client", "connection", "broker", "reason", "alone", "outcome": sent | completed | failed | unknown}
    {"op": "drained", "t", "client", "queue"}
    {"op": "done",    "t", "client"}

A producer is the client that sends, unless its link names another: then several clients, one after another or at once, send
the same messages of that producer's, some of them again. Where that is a name that the queue knows, the broker said at some
time since `asked` that it `had` those up to that number. Numbers count from 1 in each queue. `count` is how often the message was
delivered before, as it says itself (0: not redelivered). `since` is a moment at which the client held no fetched or
prefetched message of this link and had read its socket empty: the delivery arrived after it. `of` is the queue the body
names. `at` is a time before the link was really opened, when that is not `t`: a client that finds another broker by itself
tells only afterwards. A `browse` is told at its end: what was seen from the head of the queue on, in that order, and
whether the cluster has said that there was no more. `over`: more were held than the window that was asked for. What is rejected in queue q goes to queue q.dead, under the producer and number it had.

`refused`: the queue was at its limit. `again`: the message says that a consumer had it before, though its count is 0.
`unsure`: the broker was lost while it was fetched, and this is perhaps of the next one. What
is modified goes back with the note "client.id" of its delivery, and `notes` are those that a message comes with;
`uncounted`: its count is not to rise; `delay`: nobody is to get it for so many seconds; `elsewhere`: this receiver is not to get it again. `wants`: the keys that a
receiver's selector lets through. `stamp`: the message's number in its queue, in a queue that gives it one. `stop`: the receiver was told to stop, and has said that it has; `start`: it is told to go
on, before it is. `idle`: a receiver without a window has asked in vain; what comes too late goes back unseen. A `look` is what a broker says of a queue: messages in it, whether producers are held back, how often
they have been. `died`: what a dead letter, or what was one, says of its last death. A `roam` has had messages of the
queue go on to another, or back to where they died. A `tally` is what a broker has counted of a queue that is drained.

`connected`, `ended`: a connection, by its client id, from its first broker to its end, with what its user has heard of that,
"" where he ended it himself; `life`: of a program, 0 for none. A `closing` of it was asked of that broker by an operator,
and `failed` where the broker has no such client; `alone`: nothing else is done to the cluster in this run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .kinds import BY_NAME
from .kinds import DEAD as DEAD
from .kinds import of as of_kind

SENT, COMPLETED, FAILED, UNKNOWN, LOST = "sent", "completed", "failed", "unknown", "lost"
REFUSED = "refused"
ACCEPT, RELEASE, REJECT, MODIFY = "accept", "release", "reject", "modify"
CLOSED = "this connection was closed by an operator"
DRAINER = "drain"
"""The client that takes the messages left when all others have ended."""
NEVER = float("inf")


class Journal:
    """A client's log, written through at once: what a killed client had written stays."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, op: str, **values: Any) -> float:
        """Write one line; returns its time."""
        now = time.monotonic()
        line = {"op": op, "t": round(now, 6), "client": self.client, **values}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        return now

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True, eq=False)
class Link:
    """A sender or receiver from its opening to its end. Attributes: opened, closed: times; broken: it ended by itself;
    wants: the keys it selects, () for all; producer: whose messages it sends, where that is not the client's; stops: when it had stopped; idles: from when to when it asked in vain; stopped: it has not gone on."""

    id: str
    client: str
    queue: str
    role: str
    opened: float
    closed: float = NEVER
    broken: bool = False
    alone: bool = False
    resumed: bool = False
    capacity: int = 0
    wants: tuple[str, ...] = ()
    stops: list[float] = field(default_factory=list[float])
    idles: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    stopped: bool = False
    producer: str = ""


@dataclass(slots=True, eq=False)
class Transfer:
    """One message sent. Attributes: sent, done: times of asking and of knowing, the first ones of each; outcome: as far as it
    is known; times, told: how often it was sent, and told to be complete."""

    producer: str
    queue: str
    number: int
    link: Link
    sent: float
    outcome: str = SENT
    done: float = NEVER
    times: int = 1
    told: int = 0


@dataclass(slots=True, eq=False)
class Resumption:
    """What a broker said when a sender began by a name. Attributes: asked, t: times of it; had: the last number that the
    queue had of this name."""

    queue: str
    producer: str
    asked: float
    t: float
    had: int


@dataclass(slots=True, eq=False)
class Delivery:
    """One message handed to an application, and what it did with it.

    Attributes:
        order: its place among the deliveries of its link.
        again: it says that somebody had it before; unsure: perhaps the next link's; notes: that it came with; note: what it goes back with when it is
            modified. died: what it says of its last death: cause, after how many deliveries, queue. stopped: its link was not to be sent any. stamp: its number in its queue, 0 for none.
        kind: how it was settled, "" for not at all; asked, answered: the times of it; uncounted, elsewhere, delay: as
            that was asked for.
    """

    queue: str
    position: int
    producer: str
    number: int
    link: Link
    order: int
    t: float
    since: float
    count: int
    damaged: bool
    of: str
    over: bool = False
    again: bool = False
    unsure: bool = False
    notes: tuple[str, ...] = ()
    note: str = ""
    stopped: bool = False
    stamp: int = 0
    died: tuple[str, int, str] | None = None
    uncounted: bool = False
    elsewhere: bool = False
    delay: float = 0.0
    kind: str = ""
    outcome: str = ""
    asked: float = NEVER
    answered: float = NEVER

    @property
    def new(self) -> bool:
        """Whether it says that nobody had it before."""
        return not self.count and not self.again

    def __str__(self) -> str:
        settled = f", {self.kind} {self.outcome}" if self.kind else ", not settled"
        return f"{self.link.id} at {self.t:.3f} (delivered {self.count} times before{settled})"


@dataclass(slots=True, eq=False)
class Browse:
    """A look at a whole queue. Attributes: began, t: times of it; whole: there was no more; seen: (position, producer,
    number) in the order of seeing; damaged: of one of them."""

    link: Link
    began: float
    t: float
    whole: bool
    seen: list[tuple[int, str, int]]
    damaged: bool


@dataclass(slots=True, eq=False)
class Look:
    """What a broker said of a queue, at some time between `began` and `t`."""

    queue: str
    began: float
    t: float
    messages: int
    stopped: bool
    stops: int


@dataclass(slots=True, eq=False)
class Roam:
    """Messages of a queue were to go on. Attributes: to: "": to where they died; began, t: times of it; moved, left: how
    many have gone, and how many nobody took."""

    queue: str
    to: str
    began: float
    t: float
    moved: int
    left: int


@dataclass(slots=True, eq=False)
class Connected:
    """A connection of a client, from its beginning to its end. Attributes: id: its client id; broker: the first that it
    had; interruptions: how many it has lost; why: what its user has heard of its end, "" if that was his own wish."""

    id: str
    client: str
    broker: str
    life: int
    began: float
    ended: float = NEVER
    why: str = ""
    interruptions: int = 0

    @property
    def closed(self) -> bool:
        """Whether it has heard that an operator has closed it."""
        return CLOSED in self.why

    def __str__(self) -> str:
        return f"the connection {self.id} of {self.client}, which began at {self.broker} at {self.began:.3f},"


@dataclass(slots=True, eq=False)
class Closing:
    """A connection was to be closed by an operator. Attributes: asked, t: times of asking and of knowing."""

    connection: str
    broker: str
    reason: str
    alone: bool
    asked: float
    t: float = NEVER
    outcome: str = SENT


@dataclass
class History:
    """All clients' logs together.

    Attributes:
        transfers: (queue, producer) -> number -> transfer.
        deliveries, browses, looks, roams, resumptions: all, in the order of the files.
        drained: queue -> when it was last seen empty after everything. tallies: queue -> what was counted, then.
        connections: by client id. closings: all, in the order of the files.
        finished: clients whose log has its last line.
        wrong: what no honest client can have written, one sentence each.
        wholes: what stands for the links of a producer whose messages came by several.
    """

    transfers: dict[tuple[str, str], dict[int, Transfer]] = field(default_factory=dict[Any, Any])
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    browses: list[Browse] = field(default_factory=list[Browse])
    roams: list[Roam] = field(default_factory=list[Roam])
    looks: list[Look] = field(default_factory=list[Look])
    resumptions: list[Resumption] = field(default_factory=list[Resumption])
    links: dict[str, Link] = field(default_factory=dict[str, Link])
    drained: dict[str, float] = field(default_factory=dict[str, float])
    tallies: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    connections: dict[str, Connected] = field(default_factory=dict[str, Connected])
    closings: list[Closing] = field(default_factory=list[Closing])
    clients: dict[str, float] = field(default_factory=dict[str, float])
    finished: set[str] = field(default_factory=set[str])
    wrong: list[str] = field(default_factory=list[str])
    wholes: dict[str, Link] = field(default_factory=dict[str, Link])
    lines: int = 0


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of one log. A last line that is cut off is left out; any other that is no JSON raises ValueError."""
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)


def read(paths: Iterable[Path]) -> History:
    """The history of a run."""
    history = History()
    for path in sorted(paths):
        take(history, read_lines(path))
    return history


def take(history: History, lines: Iterable[dict[str, Any]]) -> None:
    """Add lines, each client's in the order it wrote them."""
    reader = _Reader(history)
    for line in lines:
        history.lines += 1
        try:
            reader.line(line)
        except (KeyError, TypeError, ValueError) as error:
            history.wrong.append(f"this line is no line of a log ({error!r}): {line}")


def _death(said: list[Any]) -> tuple[str, int, str]:
    cause, deliveries, queue = said
    return str(cause), int(deliveries), str(queue)


class _Reader:
    def __init__(self, history: History) -> None:
        self.history = history
        self.ids: dict[tuple[str, int], Delivery] = {}
        self.orders: dict[str, int] = {}
        self.wholes = history.wholes
        self.rules = {
            "open": self.open, "send": self.send, "deliver": self.deliver, "settle": self.settle, "close": self.close,
            "browse": self.browse, "drained": self.drained, "done": self.done, "stop": self.stop, "start": self.start,
            "idle": self.idle, "tally": self.tally,
            "look": self.look, "roam": self.roam,
            "connected": self.connected, "ended": self.ended, "closing": self.closing,
        }  # fmt: skip

    def line(self, line: dict[str, Any]) -> None:
        history, client, t = self.history, line["client"], line["t"]
        if t < history.clients.get(client, 0.0):
            self.wrong(line, "time runs backwards")
        if client in history.finished:
            self.wrong(line, "the log goes on after its last line")
        history.clients[client] = t
        self.rules[line["op"]](line, t)

    def wrong(self, line: dict[str, Any], why: str) -> None:
        self.history.wrong.append(f"{line['client']}: {why}: {line}")

    def link(self, line: dict[str, Any], role: str) -> Link:
        link = self.history.links[line["link"]]
        if link.role != role or link.client != line["client"]:
            self.wrong(line, f"this link is a {role}'s of {link.client}")
        return link

    def open(self, line: dict[str, Any], t: float) -> None:
        if line["link"] in self.history.links:
            self.wrong(line, "this link is open already")
        opened = min(t, line.get("at", t))
        self.history.links[line["link"]] = Link(
            line["link"], line["client"], line["queue"], line["role"], opened,
            alone=bool(line.get("alone")), resumed=bool(line.get("resumed")), capacity=line.get("capacity", 0),
            wants=tuple(line.get("wants", ())), producer=line.get("producer", ""),
        )  # fmt: skip
        if "had" in line:
            found = Resumption(line["queue"], line["producer"], line["asked"], t, line["had"])
            self.history.resumptions.append(found)

    def close(self, line: dict[str, Any], t: float) -> None:
        link = self.history.links[line["link"]]
        link.closed = min(link.closed, t)
        link.broken = link.broken or bool(line["broken"])

    def send(self, line: dict[str, Any], t: float) -> None:
        link = self.link(line, "sender")
        if link.producer:
            self.send_of(link, line, t)
            return
        mine = self.history.transfers.setdefault((link.queue, link.client), {})
        outcome = line["outcome"]
        if outcome not in (SENT, COMPLETED, REFUSED, FAILED, UNKNOWN):
            raise ValueError(outcome)
        for number in range(line["first"], line["last"] + 1):
            if outcome == SENT:
                if number != len(mine) + 1:
                    self.wrong(line, f"number {number} follows {len(mine)}")
                mine[number] = Transfer(link.client, link.queue, number, link, t)
                continue
            transfer = mine.get(number)
            if transfer is None:
                self.wrong(line, f"number {number} was not sent")
            elif transfer.link is not link or transfer.outcome != SENT:
                self.wrong(line, f"number {number} was {transfer.outcome} on {transfer.link.id}")
            else:
                transfer.outcome, transfer.done = outcome, t

    def send_of(self, link: Link, line: dict[str, Any], t: float) -> None:
        """Of a producer's whose messages several links send, and again: what any of them knows to be complete is."""
        outcome = line["outcome"]
        if outcome not in (SENT, COMPLETED, REFUSED, FAILED, UNKNOWN):
            raise ValueError(outcome)
        mine = self.history.transfers.setdefault((link.queue, link.producer), {})
        for number in range(line["first"], line["last"] + 1):
            transfer = mine.get(number)
            if outcome != SENT:
                if transfer is None:
                    self.wrong(line, f"number {number} was not sent")
                elif outcome == COMPLETED:
                    transfer.outcome, transfer.done = COMPLETED, min(transfer.done, t)
                    transfer.told += 1
            elif transfer is None:
                mine[number] = Transfer(link.producer, link.queue, number, self.whole(link, number), t)
            else:
                transfer.sent = min(transfer.sent, t)
                transfer.times += 1

    def whole(self, link: Link, number: int) -> Link:
        """The link in whose order this message is: a name's messages are in that of their numbers, whatever links they
        came by; of those that have ids only, who was first is not known."""
        kind = of_kind(link.queue)
        name = f"{link.queue}:{link.producer}"
        if kind is None or kind.program != BY_NAME:
            name += f":{number}"
        return self.wholes.setdefault(name, replace(link, id=name, closed=NEVER))

    def deliver(self, line: dict[str, Any], t: float) -> None:
        link = self.link(line, "receiver")
        order = self.orders[link.id] = self.orders.get(link.id, 0) + 1
        delivery = Delivery(
            link.queue, line["position"], line["producer"], line["number"], link, order, t, line["since"],
            line["count"], bool(line.get("damaged")), line.get("of") or link.queue, bool(line.get("over")),
            bool(line.get("again")), bool(line.get("unsure")), tuple(line.get("notes", ())),
            f"{link.client}.{line['id']}", link.stopped, line.get("stamp", 0),
            _death(line["died"]) if "died" in line else None,
        )  # fmt: skip
        if delivery.since > t or t > link.closed:
            self.wrong(line, "this delivery is out of its link's time")
        if (link.client, line["id"]) in self.ids:
            self.wrong(line, "the id of a delivery was used before")
        self.ids[link.client, line["id"]] = delivery
        self.history.deliveries.append(delivery)

    def settle(self, line: dict[str, Any], t: float) -> None:
        kind, outcome = line["kind"], line["outcome"]
        if kind not in (ACCEPT, RELEASE, REJECT, MODIFY) or outcome not in (SENT, COMPLETED, LOST, UNKNOWN):
            raise ValueError(f"{kind} {outcome}")
        for id in line["ids"]:
            delivery = self.ids[line["client"], id]
            if outcome == SENT:
                if delivery.kind:
                    self.wrong(line, f"delivery {id} was settled already")
                delivery.kind, delivery.outcome, delivery.asked = kind, SENT, t
                delivery.uncounted, delivery.elsewhere = bool(line.get("uncounted")), bool(line.get("elsewhere"))
                delivery.delay = line.get("delay", 0.0)
            elif delivery.kind != kind or delivery.outcome != SENT:
                self.wrong(line, f"the {kind} of delivery {id} was not asked for, or answered before")
            else:
                delivery.outcome, delivery.answered = outcome, t

    def stop(self, line: dict[str, Any], t: float) -> None:
        link = self.link(line, "receiver")
        link.stopped = True
        link.stops.append(t)

    def start(self, line: dict[str, Any], t: float) -> None:
        self.link(line, "receiver").stopped = False

    def idle(self, line: dict[str, Any], t: float) -> None:
        self.link(line, "receiver").idles.append((line["began"], t))

    def look(self, line: dict[str, Any], t: float) -> None:
        if line["began"] > t:
            self.wrong(line, "this look ends before it begins")
        look = Look(line["queue"], line["began"], t, line["messages"], line["stopped"], line["stops"])
        self.history.looks.append(look)

    def browse(self, line: dict[str, Any], t: float) -> None:
        link = self.link(line, "browser")
        seen = [(position, producer, number) for position, producer, number in line["seen"]]
        if not link.opened <= line["began"] <= t:
            self.wrong(line, "this browsing is out of its link's time")
        damaged = bool(line.get("damaged"))
        self.history.browses.append(Browse(link, line["began"], t, line["whole"], seen, damaged))

    def roam(self, line: dict[str, Any], t: float) -> None:
        self.history.roams.append(Roam(line["queue"], line["to"], line["began"], t, line["moved"], line["left"]))

    def connected(self, line: dict[str, Any], t: float) -> None:
        id = line["connection"]
        if id in self.history.connections:
            self.wrong(line, "this connection has begun already")
        self.history.connections[id] = Connected(id, line["client"], line["broker"], line["life"], t)

    def ended(self, line: dict[str, Any], t: float) -> None:
        connection = self.history.connections[line["connection"]]
        connection.ended, connection.why, connection.interruptions = t, line["why"], line["interruptions"]

    def closing(self, line: dict[str, Any], t: float) -> None:
        if line["outcome"] == SENT:
            one = Closing(line["connection"], line["broker"], line["reason"], line["alone"], t)
            self.history.closings.append(one)
        else:
            one = self.history.closings[-1]  # one is asked for after the other
            one.t, one.outcome = t, line["outcome"]

    def tally(self, line: dict[str, Any], t: float) -> None:
        self.history.tallies[line["queue"]] = line["counts"]

    def drained(self, line: dict[str, Any], t: float) -> None:
        self.history.drained[line["queue"]] = t

    def done(self, line: dict[str, Any], t: float) -> None:
        self.history.finished.add(line["client"])
