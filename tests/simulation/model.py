"""A plain model of a queue and of the wiring, written from the meaning of the events and from nothing else.

Slow and obvious, one message at a time. `sequencer.md` Q1 to Q4 are followed to the letter: what is void has no effect
here; whether it should have been in the log at all is the checkers' question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

import msgspec
from mantamq.protocol.wire import events
from mantamq.protocol.wire.deletion_events import Dissolve, Dissolved
from mantamq.protocol.wire.redirect_events import Redirect

from .model_policies import ModelPolicies
from .model_redirects import ModelRedirects

MOST_NOTED = 8 * 1024
"""Bytes of all that is noted on one message."""
DEFAULTS: list[Any] = [b"", None, None, None, None, None, None, False, None, None]
"""Of the fields that senders set."""
NUMBER = "qpid.msg_sequence"
"""The property in which a message has its number in an exchange that numbers."""
GONE = ("accepted", "discarded", "dead", "expired", "moved")
WAITING = ("available", "delayed")
"""Where messages are that nobody holds."""


class Violation(AssertionError):
    """An invariant of `sequencer.md` section 6 does not hold."""


def each(flat: list[int]) -> list[int]:
    """Every number of flat ranges."""
    if len(flat) == 2:
        return list(range(flat[0], flat[1] + 1))
    return [n for i in range(0, len(flat), 2) for n in range(flat[i], flat[i + 1] + 1)]


def ruled(queue: ModelQueue, arguments: dict[str, Any]) -> None:
    """Make a queue keep to what policies can change, in whatever spelling."""
    found = [
        next((float(arguments[name]) for name in names if name in arguments), inf)
        for names in (("qpid.max_count", "x-max-length"), ("qpid.max_size", "x-max-length-bytes"))
    ]
    queue.most = found[0], found[1]
    theirs = any(name.startswith("x-max-length") for name in arguments)
    said = arguments.get("qpid.policy_type") or arguments.get("x-overflow") or ("drop-head" if theirs else "reject")
    queue.full = {"drop-head": "ring", "reject-publish": "reject"}.get(said, said)
    queue.flow = {}
    for what, limit in zip(("count", "size"), queue.most, strict=True):
        stop, resume = arguments.get(f"qpid.flow_stop_{what}"), arguments.get(f"qpid.flow_resume_{what}")
        if stop is None and limit != inf and queue.full == "reject":
            stop, default = int(limit) * 80 // 100, int(limit) * 70 // 100
        else:
            stop = int(stop or 0)
            default = stop * 70 // 80
        if stop:
            queue.flow[what] = stop, int(resume) if resume is not None else max(1, default)
    queue.all_die = queue.alternate and arguments.get("manta.dead_letters") == "all"
    queue.tries = int(arguments.get("manta.delivery_limit") or arguments.get("x-delivery-limit") or 0)
    queue.retry = [int(seconds * 1000) for seconds in arguments.get("manta.retry_delay_s", [])]
    if step_ms := arguments.get("x-delayed-retry-min"):
        most_ms = arguments.get("x-delayed-retry-max", inf)
        queue.retry = [int(min(step_ms * count, most_ms)) for count in range(1, 500)]
    queue.lives = int(arguments["x-message-ttl"]) if "x-message-ttl" in arguments else None


def declared(queue: ModelQueue, arguments: dict[str, Any]) -> None:
    """Make a queue what it is declared to be, in whatever spelling."""
    queue.arguments = arguments
    ruled(queue, arguments)
    most_count, most_size = queue.most
    refuses = most_size < inf or (most_count < inf and queue.full not in ("ring", "dead-letter"))
    queue.has_a_say = refuses or bool(queue.flow)
    if "x-max-priority" in arguments:
        queue.levels = {priority: priority for priority in range(int(arguments["x-max-priority"]) + 1)}
        queue.without = 0
    elif "qpid.priorities" in arguments:
        queue.levels = QPID_LEVELS[int(arguments["qpid.priorities"])]
        queue.without = 4
    if queue.levels is not None:
        of_all = arguments.get("qpid.fairshare", 0)
        shares = [
            int(arguments.get(f"qpid.fairshare-{level}", of_all)) or inf
            for level in range(max(queue.levels.values()) + 1)
        ]
        if min(shares) < inf:
            queue.shares, queue.turn = shares, (len(shares) - 1, 0)
    queue.key = arguments.get("qpid.last_value_queue_key", "")
    queue.group = arguments.get("qpid.group_header_key", "")
    queue.fair = arguments.get("manta.fair_key", "")
    queue.stamps = arguments.get("qpid.queue_msg_sequence", "")
    if window := {"manta.dedupe_window_s", "manta.dedupe_window_count"} & arguments.keys():
        queue.window_ms = 1000 * int(arguments["manta.dedupe_window_s"]) if "manta.dedupe_window_s" in window else inf
        queue.window = int(arguments.get("manta.dedupe_window_count", 100_000))
    queue.relay = arguments.get("manta.exchange", "")
    queue.numbers, queue.keeps = "manta.exchange_sequence" in arguments, "manta.exchange_initial" in arguments


QPID_LEVELS: dict[int, dict[int, int]] = {
    2: dict(enumerate([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])),
    3: dict(enumerate([0, 0, 0, 0, 1, 2, 2, 2, 2, 2])),
    10: dict(enumerate(range(10))),
}
"""Levels of a queue -> priority -> level, as AMQP 0-10 has them."""


OPENED = 16_384
"""So many messages are remembered as they were read: the same is looked at again and again."""


def opened(blob: bytes) -> list[Any]:
    """The fields of a message, in a list of the caller's own; of what is none, nothing."""
    return [*_fields(blob)]


@lru_cache(maxsize=OPENED)
def _fields(blob: bytes) -> list[Any]:
    try:
        fields = msgspec.msgpack.decode(blob)
    except ValueError:
        return []
    return fields if isinstance(fields, list) else []


@lru_cache(maxsize=OPENED)
def priority_of(blob: bytes) -> int | None:
    """What a message says of its priority, None: nothing."""
    fields = _fields(blob)
    return fields[4] if len(fields) > 4 and isinstance(fields[4], int) else None


@lru_cache(maxsize=OPENED)
def header_of(blob: bytes, name: str) -> str:
    """A property of a message as text; "": it has none."""
    fields = _fields(blob)
    headers = fields[2] if len(fields) > 2 and isinstance(fields[2], dict) else {}
    value = headers.get(name, "")
    return str(value) if isinstance(value, str | int | float) else ""


def id_of(blob: bytes) -> Any:
    """The id of a message with its type; None: it has none."""
    fields = opened(blob)
    id = fields[9] if len(fields) > 9 and isinstance(fields[0], bytes) else None
    return None if id is None else repr(id)


def as_sent(blob: bytes, number: int = 0) -> bytes:
    """A message of an exchange's own queue as it was sent, or goes on with its number."""
    blob = msgspec.msgpack.decode(blob)[2]
    fields = opened(blob)
    if not number or not fields or not isinstance(fields[0], bytes):
        return blob
    fields += [None] * (3 - len(fields))
    fields[2] = {**(fields[2] or {}), NUMBER: number}
    return msgspec.msgpack.encode(fields)


def noted(notes: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """What is on a message with more noted on it."""
    both = {**notes, **more}
    return both if not notes or len(msgspec.msgpack.encode(both)) <= MOST_NOTED else notes


def with_notes(model: ModelQueue, position: int, index: int | None = None) -> bytes:
    """A message as whoever gets it next must read it, from a replica that has applied the stream up to `index`; what no
    user has put has no place for notes."""
    blob, notes = model.blobs[position], model.notes.get(position)
    if notes and index is not None:
        notes = next((then for at, then in reversed(model.notes_at[position]) if at <= index), None)
    fields = opened(blob)
    if not notes or not fields or not isinstance(fields[0], bytes):
        return blob
    before = fields[10] if len(fields) > 10 else {}
    return msgspec.msgpack.encode([*fields[:10], *DEFAULTS[len(fields[:10]) :], {**before, **notes}])


def each_run(flat: list[int]) -> list[tuple[int, int]]:
    """Every (acquisition, position) of flat runs."""
    if len(flat) == 3:
        return [(flat[0], n) for n in range(flat[1], flat[2] + 1)]
    return [(flat[i], n) for i in range(0, len(flat), 3) for n in range(flat[i + 1], flat[i + 2] + 1)]


@dataclass
class ModelQueue:
    """One queue.

    Attributes:
        place: position -> "available", "delayed", ("held", broker, inc, acquisition), "dead_lettering", or how it went (one of `GONE`).
        returned: position -> how often it came back flagged; 0: it came back, and was never delivered by what is said.
        seen: client -> the numbers it has had applied.
        arrived: blob -> how many copies were enqueued.
        settled: (broker, acquisition, position) -> the verbs that settled it (one per incarnation of the broker).
        missed: (broker, acquisition, position) which an acquire named and did not get.
    """

    id: str
    alternate: bool
    all_die: bool = False  # what expires goes to the alternate, too, and what is in it when it is deleted
    dissolved: list[str] = field(default_factory=list)  # the brokers that know that it is deleted
    retry: list[int] = field(default_factory=list)  # for how many ms what comes back waits, the first time and so on
    tries: int = 0  # how often a message may come back after a delivery; 0: as often as it does
    causes: dict[int, str] = field(default_factory=dict)  # index of a batch that nobody rejected -> why it is one
    given_up: set[int] = field(default_factory=set)  # positions that came back too often, and are discarded
    expired: set[int] = field(default_factory=set)  # positions that went to the alternate so, or by a deletion
    place: dict[int, object] = field(default_factory=dict)
    blobs: dict[int, bytes] = field(default_factory=dict)
    expiry: dict[int, int] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)  # position -> until when it is delayed, or was last
    returned: dict[int, int] = field(default_factory=dict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    arrived: dict[bytes, int] = field(default_factory=dict)
    dead_lettered: dict[bytes, int] = field(default_factory=dict)
    settled: dict[tuple[str, int, int], set[str]] = field(default_factory=dict)
    missed: set[tuple[str, int, int]] = field(default_factory=set)
    owner: str = ""
    grant: int = 0
    live: dict[int, bytes] = field(default_factory=dict)  # what is not gone, with its message
    absent: set[str] = field(default_factory=set)  # evicted and not back
    index: int = 0
    batches: dict[int, tuple[str, list[int]]] = field(default_factory=dict)  # index of an event -> (broker, positions)
    went: dict[str, int] = field(default_factory=dict)  # how messages went -> how many
    out: dict[str, int] = field(default_factory=dict)  # broker -> incarnation that is evicted
    most: tuple[float, float] = (inf, inf)  # messages, and bytes with 64 for each, of a ring
    arguments: dict[str, Any] = field(default_factory=dict)  # that it is declared with
    full: str = "ring"  # what happens at that: "ring", "ring-strict", "reject", "self-destruct", "dead-letter"
    unjudged: set[tuple[str, int]] = field(default_factory=set)  # what came from brokers that did not wait for its word
    unaware: set[str] = field(default_factory=set)  # brokers that have not said yet that they know that it may refuse
    has_a_say: bool = False  # what it refuses is refused
    configured: int = 0  # the index of the cluster's stream since which it is as policies have made it
    destroyed: bool = False  # it has destroyed itself: nothing comes in any more
    flow: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # "count", "size" -> more than: stop, less than: resume
    stopped: bool = False  # producers are held back
    stops: int = 0  # how often that has begun
    off: int = 0  # index of the last event behind which they were not
    holders: dict[str, str] = field(default_factory=dict)  # name -> the sender that has it
    refused: dict[str, set[int]] = field(default_factory=dict)  # client -> its numbers that did not come in
    at: dict[tuple[str, int], int] = field(default_factory=dict)  # (client, number) -> index at which it was applied
    pushed_out: set[int] = field(default_factory=set)  # positions that a ring has dropped
    came: dict[int, int] = field(default_factory=dict)  # position -> when its broker took it in, ms
    levels: dict[int, int] | None = None  # priority -> level, of a queue that has them
    without: int = 0  # the priority of a message that has none
    shares: list[float] = field(default_factory=list)  # by level, how many of it go in one turn; empty: by level alone
    turn: tuple[int, int] = (0, 0)  # the level whose turn it is, and how many of it have gone
    turn_at: dict[int, tuple[int, int]] = field(default_factory=dict)  # index -> the turn behind it
    lives: int | None = None  # how long its messages live, ms
    fair: str = ""  # the header whose values take turns
    stamps: str = ""  # the header in which messages come with their numbers
    group: str = ""  # the header by which messages are of groups
    notes: dict[int, dict[str, Any]] = field(default_factory=dict)  # position -> what consumers noted on it
    notes_at: dict[int, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)  # from which index on
    key: str = ""  # the header of which each value has one message, the last
    window: int = 0  # among so many ids before it a message's must not be; 0: nobody looks at ids
    window_ms: float = 0  # nor in so many ms before it
    recent: list[tuple[Any, float]] = field(default_factory=list)  # (id, when it came), of what came in
    late: float = 0  # the latest time by which anything came
    relay: str = ""  # the exchange whose own queue it is
    numbers: bool = False  # that exchange numbers what goes through it
    keeps: bool = False  # and this one keeps the last
    through: int = 0  # the last position that has gone on
    led: bool = False  # what is sent to it may come into another, or what is sent to another into it
    again: bool = False  # the last is to go on once more
    targets: dict[int, events.Move] = field(default_factory=dict)  # index of a batch -> the move it is of
    stands: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)  # move -> behind, last, taken, back
    moved_out: set[int] = field(default_factory=set)  # positions that a move has set aside, once or more often
    foreign: set[str] = field(default_factory=set)  # clients by which moved messages come
    named: set[str] = field(default_factory=set)  # of these, those by whose moves this queue is named
    counts: dict[str, int] = field(
        default_factory=dict
    )  # what happened to messages, or to bytes -> how often, how many

    def count(self, what: str, how_many: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + how_many

    def apply(self, event: events.AnyEvent) -> bool:
        """Apply a committed event; False when it was void."""
        done = self._apply(event)
        if type(event) is not events.Enqueue:
            self._outdated()
        if type(event) is events.Moved and self.full in ("ring", "ring-strict", "dead-letter"):
            self._push_out(WAITING)  # others have come meanwhile
        self._hold_back()
        if self.shares:
            self.turn_at[self.index] = self.turn
        return done

    def _inside(self) -> list[int]:
        """What counts for its limits: a rejected message has left it."""
        return [position for position in self.live if self.place[position] != "dead_lettering"]

    def _hold_back(self) -> None:
        inside = self._inside() if self.flow else []
        levels = {"count": len(inside), "size": sum(len(self.live[p]) + 64 for p in inside)}
        if not self.stopped:
            self.stopped = any(levels[what] > stop for what, (stop, _) in self.flow.items())
            self.stops += self.stopped
        else:
            self.stopped = not all(levels[what] < resume for what, (_, resume) in self.flow.items())
        if not self.stopped:
            self.off = self.index

    def _apply(self, event: events.AnyEvent) -> bool:
        self.index += 1
        match event:
            case events.Enqueue():
                return self._enqueue(event)
            case events.Acquire():
                return self._acquire(event)
            case events.Accept() | events.Release() | events.Reject() | events.Modify():
                self._settle(event)
            case events.Own():
                held_on = self.owner and event.by != self.owner
                if event.grant != self.grant + 1 or held_on or event.broker in self.absent:
                    return False
                self.owner, self.grant = event.broker, event.grant
            case events.Expire():
                for position in each(event.ranges):
                    if self.place[position] in WAITING and self.expiry.get(position, 1 << 60) <= event.now_ms:
                        if self.all_die:
                            self.expired.add(position)
                            self._die(position, "expired")
                        else:
                            self._go(position, "expired")
            case events.Due():
                for position in each(event.ranges):
                    if self.place.get(position) == "delayed" and self.due[position] <= event.now_ms:
                        self.place[position] = "available"
            case events.Purge():
                what = ("available",) if event.count else WAITING
                waiting = sorted(p for p in self.live if self.place[p] in what)
                for position in waiting[: event.count or None]:
                    self.count("purged")
                    self._go(position, "discarded")
            case Dissolve():
                return self._dissolve(event.broker)
            case events.Named():
                if event.again and self.holders.get(event.name, event.holder) != event.holder:
                    return False
                self.holders[event.name] = event.holder
            case events.Configure():
                return self._configure(event)
            case events.Move():
                return self._move(event)
            case events.Moved():
                self._moved(event)
            case events.DeadLetterDone():
                gone = self.batches.pop(event.batch, ("", []))[1]
                for position in gone:
                    if not (self.keeps and position == gone[-1]):
                        self._go(position, "dead")
                if self.relay:
                    self.through = max([self.through, *gone])
                    self._send_on(event.batch == 0)
            case events.Evict():
                return self._evict(event)
            case events.Member():
                if not event.present and self.owner == event.broker and event.inc > self.out.get(event.broker, -1):
                    self.owner, self.grant = "", self.grant + 1  # it has delivered nothing since it gave all back
                done = self._evict(events.Evict(event.broker, event.inc - event.present))
                if event.present and event.inc > self.out.get(event.broker, -1):
                    self.absent.discard(event.broker)
                return done
            case events.Rejoin():
                done = self._evict(events.Evict(event.voter, event.inc - 1))
                if event.inc > self.out.get(event.voter, -1):
                    self.absent.discard(event.voter)
                return done
            case events.Return():
                done = self._evict(events.Evict(event.voter, event.life - 1))
                if event.life > self.out.get(event.voter, -1):
                    self.absent.discard(event.voter)
                return done
            case _:
                pass
        return True

    def _configure(self, event: events.Configure) -> bool:
        """Policies have made something else of it: from here on it keeps to that."""
        if self.dissolved or self.destroyed:
            return False
        if event.since and not self.has_a_say:
            self.has_a_say, self.unaware = True, set(event.brokers)
        if event.since:
            self.unaware.discard(event.broker)
        if event.index <= self.configured:
            return False
        self.configured, self.alternate = event.index, bool(event.alternate)
        ruled(self, event.arguments)
        if self.full in ("ring", "dead-letter"):
            self._push_out()
        return True

    def _move(self, event: events.Move) -> bool:
        behind, _, taken, back = self.stands.get(event.token, (0, 0, 0, 0))
        if event.after != behind or event.inc <= self.out.get(event.broker, -1):
            return False
        if event.ranges and (event.broker, event.grant) != (self.owner, self.grant):
            return False  # who finds nothing takes nothing from the owner's consumers
        chosen = [p for p in each(event.ranges) if self.place.get(p) == "available"]
        self.stands[event.token] = event.upto, event.last, taken + len(chosen), back
        for position in chosen:
            self.moved_out.add(position)
            if event.by == "discard":
                self.count("purged")
                self._go(position, "discarded")
            else:
                self.place[position] = "dead_lettering"
        if chosen and event.by != "discard":
            self.batches[self.index] = event.broker, chosen
            self.targets[self.index] = event
            self.causes[self.index] = "moved"
        return True

    def _moved(self, event: events.Moved) -> None:
        _, batch = self.batches.pop(event.batch, ("", []))
        move, back = self.targets.pop(event.batch, None), set(each(event.back))
        for position in batch:
            if position in back:
                self.place[position] = "available"
            else:
                self._go(position, "moved")
        if move is not None and (stands := self.stands.get(move.token)) is not None:
            self.stands[move.token] = (*stands[:3], stands[3] + len(back & set(batch)))
        if self.dissolved:
            self._all_go()

    def _evict(self, event: events.Evict) -> bool:
        if event.inc <= self.out.get(event.broker, -1):
            return False
        self.out[event.broker] = event.inc
        self.absent.add(event.broker)
        if self.owner == event.broker:
            self.owner = ""
            self.grant += 1
            for position in self.live:
                if self.place[position] == "available":
                    self.returned[position] = max(1, self.returned.get(position, 0))
        back: list[int] = []
        for position in self.live:
            match self.place[position]:
                case ("held", event.broker, int(inc), _) if inc <= event.inc:
                    self.count("released")
                    self.place[position] = "available"
                    self.returned[position] = self.returned.get(position, 0) + 1
                    back.append(position)
        for position in back:  # what is there already keeps to what the limit was then
            self._tried(position)
        return True

    def _dissolve(self, broker: str) -> bool:
        """It is deleted: whatever it has goes to the alternate, and so does what still comes."""
        if broker in self.dissolved or not self.all_die:
            return False
        self.dissolved.append(broker)
        self._all_go()
        return True

    def _all_go(self) -> None:
        for position in sorted(self._inside()):
            self.expired.add(position)
            self._die(position, "deleted")

    def _tried(self, position: int) -> None:
        """A message is back: it may have been so too often."""
        if self.tries and self.returned.get(position, 0) > self.tries:
            if self.alternate:
                self._die(position, "delivery_limit")
            else:
                self.count("back too often")
                self.given_up.add(position)
                self._go(position, "discarded")

    def _die(self, position: int, cause: str) -> None:
        """A message is set aside for the alternate, by an event that does not reject it."""
        self.place[position] = "dead_lettering"
        self.expiry.pop(position, None)
        self.causes[self.index] = cause
        self.count(cause)
        self.batches.setdefault(self.index, ("", []))[1].append(position)

    def _go(self, position: int, how: str) -> None:
        if how == "dead":
            blob = with_notes(self, position)
            self.dead_lettered[blob] = self.dead_lettered.get(blob, 0) + 1
        self.place[position] = how
        self.went[how] = self.went.get(how, 0) + 1
        self.count("bytes out", len(self.live.pop(position)))

    def _enqueue(self, event: events.Enqueue) -> bool:
        expiry = dict(zip(event.expiry[::2], event.expiry[1::2], strict=True))
        delays = dict(zip(event.delays[::2], event.delays[1::2], strict=True))
        seen = self.seen.setdefault(event.client, set())
        before = len(self.place)
        for index, (number, blob) in enumerate(zip(each(event.numbers), event.blobs, strict=True)):
            knows = event.judged or not self.configured  # its broker knew that it may be refused
            if not knows:  # also where it comes again: that broker waits for no word of it
                self.unjudged.add((event.client, number))
            ordered = self.led or event.client.endswith(("@", "!"))
            if number in seen or (ordered and number < max(seen, default=0)):
                continue  # from an exchange's own queue, under a name, or redirected, nothing comes behind what came after
            seen.add(number)
            position = len(self.place) + 1
            self.at[event.client, number] = self.index
            self.came[position] = event.at_ms
            twice = self._came_before(blob, event.at_ms)
            if twice and event.client not in self.named:
                self.place[position], self.blobs[position] = "discarded", blob
                self.went["discarded"] = self.went.get("discarded", 0) + 1
                self.count("come before")
                self.pushed_out.add(position)
                self.arrived[blob] = self.arrived.get(blob, 0) + (event.client not in self.foreign)
                continue
            if knows and self.unaware <= self.absent and (self.destroyed or self._too_much(blob)):
                if self.full == "self-destruct" and not self.destroyed:
                    self.destroyed = True
                    for waiting in self._inside():
                        self.pushed_out.add(waiting)
                        self.count("purged")
                        self._go(waiting, "discarded")
                self.place[position], self.blobs[position] = "discarded", blob
                self.went["discarded"] = self.went.get("discarded", 0) + 1
                self.refused.setdefault(event.client, set()).add(number)
                self.pushed_out.add(position)
                self.arrived[blob] = self.arrived.get(blob, 0) + (event.client not in self.foreign)
                continue
            self.place[position] = "available"
            if not twice:
                self._comes(blob)
            self.count("bytes in", len(blob))
            self.blobs[position] = self.live[position] = blob
            plain = as_sent(blob) if self.relay else blob
            self.arrived[plain] = self.arrived.get(plain, 0) + (event.client not in self.foreign)
            if self.relay:
                self.place[position] = "dead_lettering"
            ends = [expiry[index]] if index in expiry else []
            if self.lives is not None:
                ends.append(event.at_ms + self.lives)
            if ends:
                self.expiry[position] = min(ends)
            if index in delays:
                self.place[position], self.due[position] = "delayed", delays[index]
            self._replace(position)
            self._push_out()
        if self.dissolved:
            self._all_go()
        self._send_on(False)
        return len(self.place) > before

    def _came_before(self, blob: bytes, at_ms: float) -> bool:
        """Whether a message's id is among those that came lately: the last so many of them, in the last so many ms."""
        if not self.window:
            return False
        self.late = max(self.late, at_ms)
        recent = [id for id, when in self.recent[-self.window :] if when > self.late - self.window_ms]
        return id_of(blob) is not None and id_of(blob) in recent

    def _comes(self, blob: bytes) -> None:
        if self.window and id_of(blob) is not None:
            self.recent.append((id_of(blob), self.late))

    def _send_on(self, again: bool) -> None:
        """All that is in an exchange's own queue goes on, one batch behind the other."""
        self.again = self.again or (again and self.keeps and bool(self.live))
        new = any(position > self.through for position in self.live)
        if self.relay and not self.batches and (new or self.again):
            self.batches[self.index] = "", sorted(self.live)
            self.again = False

    def sent_by(self, position: int) -> tuple[list[str], dict[str, Any]]:
        """The keys that a message of an exchange's own queue was sent with, and its properties."""
        _, keys, blob = msgspec.msgpack.decode(self.blobs[position])
        fields = opened(blob)
        headers = fields[2] if len(fields) > 2 and isinstance(fields[0], bytes) else None
        return keys, headers if isinstance(headers, dict) else {}

    def _too_much(self, blob: bytes) -> bool:
        """Whether a message may not come in: it is larger than the limit, or there is no room, and none can be made."""
        if len(blob) + 64 > self.most[1]:
            return True
        if self.full in ("ring", "dead-letter") or self.most == (inf, inf):
            return False
        inside = sorted(self._inside())
        sizes = [len(self.live[p]) + 64 for p in inside]
        while len(inside) + 1 > self.most[0] or sum(sizes) + len(blob) + 64 > self.most[1]:
            if self.full in ("reject", "self-destruct") or self.place[inside[0]] not in WAITING:
                return True
            del inside[0], sizes[0]
        return False

    def _push_out(self, where: tuple[str, ...] = ()) -> None:
        """The oldest leave a ring that is too full, be they held or not, or those that are there; what is rejected has
        left it."""
        while self.most != (inf, inf) and self.full not in ("reject", "self-destruct"):
            inside = self._inside()
            if len(inside) <= self.most[0] and sum(len(self.live[p]) + 64 for p in inside) <= self.most[1]:
                return
            if where or self.full == "dead-letter":
                inside = [p for p in inside if self.place[p] in (where or WAITING)]
                if not inside:
                    return
            oldest = min(inside, key=lambda p: (self.level(p), p))
            self.pushed_out.add(oldest)
            if self.full == "dead-letter":
                self._die(oldest, "maxlen")
                continue
            self.count("pushed out")
            self._go(oldest, "discarded")

    def given(self, position: int, blob: bytes, index: int) -> bool:
        """Whether a message may come so to a consumer: as it was sent, with what was noted on it, and with its number
        where the queue stamps."""
        sent = with_notes(self, position, index)
        fields = opened(sent)
        if not self.stamps or not fields or type(fields[0]) is not bytes:
            return blob == sent
        fields += [None] * (3 - len(fields))
        fields[2] = dict(fields[2] or {}, **{self.stamps: position})
        return opened(blob) == fields

    def level(self, position: int) -> int:
        """Of a message; 0 in a queue that has no levels."""
        if self.levels is None:
            return 0
        priority = priority_of(self.blobs[position])
        if priority is None:
            priority = self.without
        return self.levels[min(max(priority, 0), max(self.levels))]

    def turns(self, turn: tuple[int, int], waiting: list[int], most: int) -> tuple[list[int], tuple[int, int]]:
        """Of what waits, by its levels: of which levels so many messages go, one after the other; and the turn then."""
        gone, left = [], list(waiting)
        while left and len(gone) < most:
            level, used = turn
            if level in left and used < self.shares[level]:
                left.remove(level)
                gone.append(level)
                turn = level, used + 1
            else:
                turn = (level or len(self.shares)) - 1, 0
        return gone, turn

    def fair_of(self, position: int) -> str:
        return self._header(position, self.fair)

    def group_of(self, position: int) -> str:
        return self._header(position, self.group)

    def key_of(self, position: int) -> str:
        return self._header(position, self.key)

    def _header(self, position: int, name: str) -> str:
        return header_of(self.blobs[position], name)

    def _replace(self, new: int) -> None:
        """The last value of a key takes the place of one that waits."""
        if self.key:
            for position in sorted(self.live):
                if position < new and self.place[position] == "available" and self.key_of(position) == self.key_of(new):
                    self.count("replaced")
                    self._go(position, "discarded")

    def _outdated(self) -> None:
        """What has come back goes, if there is a newer value by now."""
        if self.key:
            for position in [p for p in self.live if self.place[p] == "available"]:
                if any(newer > position and self.key_of(newer) == self.key_of(position) for newer in self.live):
                    self.count("replaced")
                    self._go(position, "discarded")

    def _acquire(self, event: events.Acquire) -> bool:
        if event.broker != self.owner or event.grant != self.grant or event.inc <= self.out.get(event.broker, -1):
            return False
        if self.shares:
            gone = [p for _, p in each_run(event.runs) if self.place[p] == "available"]
            self.turn = self.turns(self.turn, [self.level(p) for p in gone], len(gone))[1]
        for acquisition, position in each_run(event.runs):
            if self.place[position] != "available":
                self.missed.add((event.broker, acquisition, position))
                continue
            self.count("acquired")
            if event.accepted:
                self._go(position, "accepted")
            else:
                self.place[position] = ("held", event.broker, event.inc, acquisition)
        return True

    def _settle(self, event: events.Accept | events.Release | events.Reject | events.Modify) -> None:
        name = type(event).__name__
        dead_lettering: list[int] = []
        back: list[int] = []
        for acquisition, position in each_run(event.runs):
            if self.place.get(position) != ("held", event.broker, event.inc, acquisition):
                continue
            self.settled.setdefault((event.broker, acquisition, position), set()).add(name)
            if type(event) is events.Accept:
                self._go(position, "accepted")
            elif isinstance(event, events.Release | events.Modify):
                self.count("released")
                self.place[position] = "available"
                if event.redelivered or isinstance(event, events.Modify):
                    self.returned[position] = self.returned.get(position, 0) + event.redelivered
                back.append(position)
                if isinstance(event, events.Modify) and event.annotations:
                    self.notes[position] = noted(self.notes.get(position, {}), event.annotations)
                    self.notes_at.setdefault(position, []).append((self.index, self.notes[position]))
                if isinstance(event, events.Modify) and event.due_ms:
                    self.place[position], self.due[position] = "delayed", event.due_ms
            elif self.alternate:
                self.place[position] = "dead_lettering"
                dead_lettering.append(position)
            else:
                self.count("rejected for good")
                self._go(position, "discarded")
        if dead_lettering:
            self.batches[self.index] = event.broker, dead_lettering
        for position in back:
            self._tried(position)
            if self.retry and event.redelivered and self.place[position] == "available":
                wait_ms = [*self.retry, *self.retry[-1:] * self.returned[position]][self.returned[position] - 1]
                if wait_ms:
                    self.place[position], self.due[position] = "delayed", event.at_ms + wait_ms


def apart(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the cluster keeps to."""
    return {name: value for name, value in arguments.items() if name.startswith(("qpid.", "x-", "manta."))
            and not name.startswith("manta.by_")}  # fmt: skip


class ModelWiring:
    """Queues, exchanges and bindings by name: what the cluster stream says is there.

    Attributes:
        ids: queue name -> its id now.
        defined: queue name -> its definition now.
        every: queue name -> all ids it ever had.
        born: queue id -> its definition when it was declared.
        said: queue id -> index of an event -> what policies have made of its arguments by that.
    """

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.defined: dict[str, tuple[Any, ...]] = {}
        self.every: dict[str, list[str]] = {}
        self.born: dict[str, tuple[Any, ...]] = {}
        self.said: dict[str, dict[int, dict[str, Any]]] = {}
        self.own: dict[str, dict[str, Any]] = {}  # queue name -> the arguments that it was declared with
        self.alternates: dict[str, str] = {}  # exchange -> who gets what it finds no queue for
        self.exchanges = {"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.headers": "headers",
                          "amq.match": "headers", "amq.topic": "topic"}  # fmt: skip
        self.bindings: set[tuple[str, str, str]] = set()
        self.arguments: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.links: dict[tuple[str, str, str], dict[str, Any]] = {}  # (exchange, to which exchange, key) -> arguments
        self.stamps: dict[str, str] = {}  # queue name -> the header in which its messages have had their numbers
        self.relays: dict[str, str] = {}  # exchange -> the queue that it has for itself
        self.sole: set[str] = set()  # exchanges whose bindings are all exclusive
        self.fleeting: set[str] = set()  # exchanges that go with the last of their bindings
        self.users: dict[tuple[str, str], int] = {}  # (queue id, broker) -> incarnation
        self.condemned: dict[str, events.Condemn] = {}  # queue id -> by what
        self.alone: dict[str, events.InUse] = {}  # queue id -> by what one consumer has it alone
        self.lines: dict[str, list[events.InUse]] = {}  # queue id -> who waits for a turn, and who has it
        self.over: dict[str, int] = {}  # broker -> the incarnation up to which nothing counts
        self.policies = ModelPolicies()
        self.redirects = ModelRedirects()
        # Id of a queue that goes with its last consumer -> index of the event with which that has gone
        self.vacated: dict[str, int] = {}
        self.unused: dict[str, int] = {}  # id of a queue that expires -> index of the event since which nobody uses it
        self.expired: set[str] = set()  # queues that expire, by the last event
        # Id of a queue that one client has for itself -> where that is: broker, incarnation, connection; "": nowhere
        self.connected: dict[str, tuple[str, int, int]] = {}
        self.newest: dict[str, int] = {}  # such a queue -> the latest connection of its client
        self.parted: dict[str, int] = {}  # such a queue -> index of the event with which its client has gone
        self.clients: dict[str, str] = {}  # such a queue -> its client
        # Id of a deleted queue that is not empty yet -> its definition
        self.dissolving: dict[str, tuple[Any, ...]] = {}

    def apply(self, event: events.AnyEvent, index: int) -> None:
        had, used = self._bound(), self._used()
        self._apply(event, index)
        self.redirects.left(self.ids)
        there = {id for name, id in self.ids.items() if self.defined[name][0].get("manta.auto_delete")}
        self._connections(event, index)
        self.vacated |= dict.fromkeys(used - self._used(), index)
        self.vacated = {id: at for id, at in self.vacated.items() if id in there - self._used()}
        self._idle(event, used, index)
        while gone := self.fleeting & had - self._bound():
            had = self._bound()
            for name in gone:
                self._apply(events.DeleteExchange(name), index)

    def _idle(self, event: events.AnyEvent, used: set[str], index: int) -> None:
        """`used`: the queues that had consumers before the event."""
        expire = {id for name, id in self.ids.items() if "x-expires" in self.defined[name][0]}
        begun = used - self._used()
        if isinstance(event, events.PutPolicy | events.DropPolicy):
            begun |= expire - self.expired
        self.expired = expire
        if isinstance(event, events.DeclareQueue) and event.name in self.ids and self._agrees(event):
            if self.clients.get(self.ids[event.name], event.client) == event.client:
                begun.add(self.ids[event.name])
        self.unused |= dict.fromkeys(begun, index)
        self.unused = {id: at for id, at in self.unused.items() if id in expire - self._used()}

    def _agrees(self, event: events.DeclareQueue) -> bool:
        arguments, durable, alternate = self.defined[event.name]
        said = (self._said(arguments), durable)
        return said == (self._said(event.arguments), event.durable) and event.alternate in ("", alternate)

    @staticmethod
    def _said(arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments that a client has given: what was filled in has its names beside it."""
        note = arguments.get("manta.by_policy", {}).get("given", {})
        besides = ("manta.by_default", "manta.by_policy", *arguments.get("manta.by_default", ()))
        return {name: value for name, value in arguments.items() if name not in besides} | note

    def _connect(self, id: str, at: tuple[str, int, int], index: int) -> None:
        """A queue's client has come, or is told to be there still; a process that is out tells nothing."""
        now, newest = self.connected.get(id), self.newest.get(id, 0)
        same = now is not None and now[:2] == at[:2]
        if at[1] > self.over.get(at[0], -1) and (at[2] > newest or (at[2] == newest and (same or now is None))):
            self.connected[id], self.newest[id] = at, at[2]
            self.parted.pop(id, None)
        elif now is None:
            self.parted.setdefault(id, index)

    def _connections(self, event: events.AnyEvent, index: int) -> None:
        if isinstance(event, events.Exclusive) and event.queue in self.clients:
            now = self.connected.get(event.queue)
            if event.on:
                if now is not None or event.inc > self.over.get(event.broker, -1):
                    self._connect(event.queue, (event.broker, event.inc, event.life), index)
            elif now is not None and now[:2] == (event.broker, event.inc):
                del self.connected[event.queue]
                self.parted[event.queue] = index
        for id, (broker, inc, _) in list(self.connected.items()):
            if inc <= self.over.get(broker, -1):
                del self.connected[id]
                self.parted[id] = index
        for id in self.clients.keys() - set(self.ids.values()):
            for known in (self.clients, self.connected, self.newest, self.parted):
                known.pop(id, None)

    def _used(self) -> set[str]:
        """Ids of the queues that have consumers."""
        return {id for id, _ in self.users}

    def _bound(self) -> set[str]:
        """The exchanges that have bindings."""
        return {place[0] for place in (*self.bindings, *self.links)} if self.fleeting else set()

    def _apply(self, event: events.AnyEvent, index: int) -> None:
        match event:
            case events.DeclareQueue() if event.name in self.ids:
                if (mine := self.clients.get(self.ids[event.name])) and self._agrees(event) and mine == event.client:
                    self._connect(self.ids[event.name], (event.broker, event.inc, event.life), index)
            case events.DeclareQueue():
                named = not event.alternate or event.alternate in self.exchanges.keys() - self.fleeting
                if event.name not in self.ids and named:
                    self.ids[event.name] = f"{event.name}#{index}"
                    self.every.setdefault(event.name, []).append(self.ids[event.name])
                    has = self.policies.onto(event.name, event.arguments)
                    self.own[event.name] = event.arguments
                    self.defined[event.name] = (has, event.durable, event.alternate)
                    self.born[self.ids[event.name]] = self.defined[event.name]
                    if event.client:
                        self.clients[self.ids[event.name]] = event.client
                        self._connect(self.ids[event.name], (event.broker, event.inc, event.life), index)
                    if "qpid.queue_msg_sequence" in event.arguments:
                        self.stamps[event.name] = event.arguments["qpid.queue_msg_sequence"]
            case events.PutPolicy() | events.DropPolicy():
                self._policies(event, index)
            case Redirect():
                self.redirects.apply(event, self.ids, self.clients, set(self.relays.values()))
            case events.Condemn():
                self.condemn(event)
            case events.InUse() | events.Lift() | events.Evict() | events.Rejoin() | events.Return() | events.Member():
                self.used(event)
            case events.DeleteQueue() | events.Bind() | events.Unbind() if self._refused(event):
                pass
            case events.DeleteQueue():
                if not self.deletes(event) or event.name in self.relays.values():
                    return
                self.used(event)
                if self.stays(event):
                    self.dissolving[self.ids[event.name]] = self.defined[event.name]
                if self.ids.pop(event.name, None):
                    del self.defined[event.name]
                    self.bindings = {binding for binding in self.bindings if binding[1] != event.name}
            case Dissolved():
                self.dissolving.pop(event.queue, None)
            case events.Lost() if event.queue in self.dissolving:
                del self.dissolving[event.queue]
            case events.Lost():
                for name in [name for name, id in self.ids.items() if id == event.queue]:
                    for exchange in [one for one, relay in self.relays.items() if relay == name]:
                        del self.relays[exchange]
                        self.apply(events.DeleteExchange(exchange), index)
                    self.apply(events.DeleteQueue(name), index)
            case events.DeclareExchange():
                named = not event.alternate or event.alternate in self.exchanges
                relay = f"manta.exchange.{event.name}" if {NUMBER, "qpid.ive"} & event.arguments.keys() else ""
                named = named and (not relay or relay in self.ids)
                if event.name not in self.exchanges and named and event.alternate not in self.fleeting:
                    if relay:
                        self.relays[event.name] = relay
                    self.exchanges[event.name] = event.type
                    if event.arguments.get("qpid.exclusive-binding"):
                        self.sole.add(event.name)
                    if event.arguments.get("manta.auto_delete"):
                        self.fleeting.add(event.name)
                    if event.alternate:
                        self.alternates[event.name] = event.alternate
            case events.DeleteExchange():
                used = [
                    *self.alternates.values(),
                    *(one[2] for one in (*self.defined.values(), *self.dissolving.values())),
                ]
                if event.name not in used and self.exchanges.pop(event.name, None):
                    self.alternates.pop(event.name, None)
                    self.relays.pop(event.name, None)
                    self.fleeting.discard(event.name)
                    self.sole.discard(event.name)
                    self.bindings = {binding for binding in self.bindings if binding[0] != event.name}
                    self.links = {link: how for link, how in self.links.items() if event.name not in link[:2]}
            case events.Bind() if event.to_exchange:
                if event.exchange in self.exchanges and event.to_exchange in self.exchanges:
                    self._displace(event)
                    self.links[event.exchange, event.to_exchange, event.key] = event.arguments
            case events.Unbind() if event.to_exchange:
                self.links.pop((event.exchange, event.to_exchange, event.key), None)
            case events.Bind():
                if event.exchange in self.exchanges and event.queue in self.ids:
                    self._displace(event)
                    place = (event.exchange, event.queue, event.key)
                    self.bindings.add(place)
                    self.arguments[place] = event.arguments
            case events.Unbind():
                self.bindings.discard((event.exchange, event.queue, event.key))
            case _:
                pass

    def _policies(self, event: events.PutPolicy | events.DropPolicy, index: int) -> None:
        """A policy comes, changes or goes, and queues have what policies say now."""
        self.policies.apply(event)
        for name, (had, *rest) in self.defined.items():
            has = self.policies.onto(name, self.own[name])
            self.defined[name] = (has, *rest)
            if apart(has) != apart(had):
                self.said.setdefault(self.ids[name], {})[index] = apart(has)

    def _refused(self, event: events.DeleteQueue | events.Bind | events.Unbind) -> bool:
        """Whether it is asked by a client, and another has the queue for itself."""
        name = event.name if isinstance(event, events.DeleteQueue) else event.queue
        return event.client != "" and self.clients.get(self.ids.get(name, ""), event.client) != event.client

    def _displace(self, event: events.Bind) -> None:
        """A binding that is exclusive has its key alone."""
        if event.exchange in self.sole or event.arguments.get("qpid.exclusive-binding"):
            there, key = event.exchange, event.key
            self.bindings = {place for place in self.bindings if (place[0], place[2]) != (there, key)}
            self.links = {link: how for link, how in self.links.items() if (link[0], link[2]) != (there, key)}

    def condemn(self, event: events.Condemn) -> None:
        used = event.if_unused and any(id == event.queue for id, _ in self.users)
        if event.queue in self.ids.values() and event.queue not in self.condemned and not used and self._counts(event):
            self.condemned[event.queue] = event

    def deletes(self, event: events.DeleteQueue) -> bool:
        """Whether a deletion on a condition has effect."""
        if event.id:
            since = [self.parted.get(event.id), self.unused.get(event.id)]
            if event.broker or not self.goes_empty(event.name):
                since.append(self.vacated.get(event.id))
            left = not event.vacant or event.vacant in since
            if self.ids.get(event.name) != event.id or not left or not event.broker:
                return self.ids.get(event.name) == event.id and left
        stands = self.condemned.get(self.ids.get(event.name, ""))
        asked = (event.broker, event.inc, event.number)
        return not event.broker or (stands is not None and (stands.broker, stands.inc, stands.number) == asked)

    def goes_empty(self, name: str) -> bool:
        """Whether a queue goes with its last consumer only when nothing is in it."""
        arguments = self.defined[name][0] if name in self.defined else {}
        return arguments.get("qpid.lifetime-policy", "") == "delete-if-unused-and-empty"

    def stays(self, event: events.DeleteQueue) -> bool:
        """Whether a queue that is deleted so goes on until all that is in it has gone to its alternate."""
        arguments, _, alternate = self.defined.get(event.name, ({}, False, ""))
        return bool(event.aside and alternate and arguments.get("manta.dead_letters") == "all")

    def used(self, event: events.AnyEvent) -> None:
        """Which brokers use which queue, and which queue is condemned."""
        match event:
            case events.InUse() if event.place:
                self._lined_up(event)
            case events.InUse():
                stands = self.condemned.get(event.queue)
                if not event.on:
                    if self._counts(event):
                        self.users.pop((event.queue, event.broker), None)
                elif event.queue in self.ids.values() and self._counts(event) and not (stands and stands.if_unused):
                    if self._comes(event):
                        self.users[event.queue, event.broker] = event.inc
                self.alone = {id: one for id, one in self.alone.items() if (id, one.broker) in self.users}
            case events.Lift():
                stands = self.condemned.get(event.queue)
                if stands and (stands.broker, stands.inc, stands.number) == (event.broker, event.inc, event.number):
                    del self.condemned[event.queue]
            case events.DeleteQueue():
                gone = self.ids.get(event.name, "")
                self.condemned.pop(gone, None)
                self.users = {user: inc for user, inc in self.users.items() if user[0] != gone}
                self.alone.pop(gone, None)
                self.lines.get(gone, []).clear()
            case events.Evict():
                self._over(event.broker, event.inc)
            case events.Rejoin():
                self._over(event.voter, event.inc - 1)
            case events.Return():
                self._over(event.voter, event.life - 1)
            case events.Member():
                self._over(event.broker, event.inc - event.present)
            case _:
                pass

    def _lined_up(self, event: events.InUse) -> None:
        stands = self.condemned.get(event.queue)
        if event.queue not in self.ids.values() or not self._counts(event):
            return
        line = self.lines.setdefault(event.queue, [])
        if not event.on:
            line[:] = [one for one in line if (one.broker, one.place) != (event.broker, event.place)]
        elif not (stands and stands.if_unused) and event not in line:
            mine = [one for one in line if one.claim == event.claim and event.life]
            if not mine:
                line.append(event)
            elif mine[0].life < event.life:
                line[line.index(mine[0])] = event
        self._of_lines(event.queue)

    def _of_lines(self, id: str) -> None:
        self.users = {user: inc for user, inc in self.users.items() if user[0] != id}
        self.users |= {(id, one.broker): one.inc for one in self.lines[id]}

    def _comes(self, event: events.InUse) -> bool:
        """Whether a consumer comes to a queue that one may have alone."""
        there = [user for user in self.users if user[0] == event.queue]
        had = self.alone.get(event.queue)
        if had is not None and had != event:
            if not event.claim or event.claim != had.claim or event.life <= had.life:
                return False
            self.users.pop((event.queue, had.broker))
        elif event.claim and had is None and there:
            return False
        if event.claim:
            self.alone[event.queue] = event
        return True

    def _counts(self, event: events.InUse | events.Condemn) -> bool:
        return event.inc > self.over.get(event.broker, -1)

    def _over(self, broker: str, inc: int) -> None:
        inc = self.over[broker] = max(inc, self.over.get(broker, -1))
        self.users = {user: at for user, at in self.users.items() if user[1] != broker or at > inc}
        self.alone = {id: one for id, one in self.alone.items() if (id, one.broker) in self.users}
        for line in self.lines.values():
            line[:] = [one for one in line if one.broker != broker or one.inc > inc]
        self.condemned = {
            id: stands for id, stands in self.condemned.items() if stands.broker != broker or stands.inc > inc
        }

    def route(self, exchange: str, keys: list[str], headers: dict[str, Any] | None = None) -> list[str]:
        """Names of the queues a message goes to, by any of its keys. Where an exchange finds none, its alternate is
        asked."""
        if exchange in self.relays:
            return [self.relays[exchange]]
        return self.onward(exchange, keys, headers)

    def onward(self, exchange: str, keys: list[str], headers: dict[str, Any] | None = None) -> list[str]:
        """The same of what has come through the exchange's own queue, where it has one."""
        names = self._by_any(exchange, keys, headers or {})
        asked = [exchange]
        while not names and exchange in self.alternates and self.alternates[exchange] not in asked:
            exchange = self.alternates[exchange]
            asked.append(exchange)
            names = self._by_any(exchange, keys, headers or {})
        return names

    def _by_any(self, exchange: str, keys: list[str], headers: dict[str, Any]) -> list[str]:
        return sorted({name for key in keys for name in self._everywhere(exchange, key, headers)})

    def _everywhere(self, exchange: str, key: str, headers: dict[str, Any]) -> list[str]:
        """What an exchange finds, and all those that it leads to: more and more of them, until there are no others."""
        reached, names = {exchange}, set[str]()
        while True:
            further = set(reached)
            for name in reached:
                if name in self.relays and name != exchange:
                    names.add(self.relays[name])
                    continue
                names.update(self._found(name, key, headers))
                led = {there for (here, there, pattern), how in self.links.items() if here == name
                       and (_has(how, headers) if (kind := self.exchanges[name]) == "headers" else _matches(kind, pattern, key))}  # fmt: skip
                further |= led
                if name != exchange and not led and not self._found(name, key, headers) and name in self.alternates:
                    further.add(self.alternates[name])
            if further == reached:
                return sorted(names)
            reached = further

    def _found(self, exchange: str, key: str, headers: dict[str, Any]) -> list[str]:
        if exchange == "":
            return [key] if key in self.ids else []
        kind = self.exchanges.get(exchange, "")
        if kind == "headers":
            places = [place for place in self.bindings if place[0] == exchange]
            return sorted({place[1] for place in places if _has(self.arguments[place], headers)})
        return sorted(
            {queue for name, queue, pattern in self.bindings if name == exchange and _matches(kind, pattern, key)}
        )


def _has(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    wanted = [headers.get(name) == value for name, value in arguments.items() if name != "x-match"]
    return any(wanted) if arguments.get("x-match") in ("any", "any-with-x") else all(wanted)


def _matches(kind: str, pattern: str, key: str) -> bool:
    if kind == "topic":
        return _topic(pattern.split("."), key.split("."))
    return kind == "fanout" or pattern == key


def _topic(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_topic(pattern[1:], words[i:]) for i in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _topic(pattern[1:], words[1:])
