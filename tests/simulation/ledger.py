"""Messages that users put, and the answers they are told, one by one: nothing is changed, lost or said otherwise the second time.

Shares no code with the client books: numbers are counted here, and blobs are opened by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from mantamq.client import Message
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Completed, Failed, Transfer
from mantamq.protocol.wire.framing import encode_frame

from .arrivals import Arrivals
from .checkers import Watcher
from .deaths import living
from .delays import Delays
from .duplicates import MessageIds
from .model import ModelQueue, Violation, as_sent, each
from .modifies import Modifies
from .relays import numbers_of
from .several_keys import SeveralKeys
from .stops import Stops
from .world import World

if TYPE_CHECKING:
    from .afterlife import Afterlife
    from .boxes import Inbox, Outbox
    from .lines import Line

FIELDS = ("body", "subject", "properties", "ttl", "priority", "correlation_id", "reply_to", "durable", "content_type",
          "message_id")  # fmt: skip
Sender = tuple[str, int]
"""(client id, handle)"""


@dataclass(slots=True)
class Put:
    """A message as its user put it. Attributes: fields (in the order of `FIELDS`), at_us (when), keys (by which it goes; none:
    by its subject), delay (ms, and whether that is since the epoch)."""

    fields: tuple[Any, ...]
    at_us: int
    keys: list[str]
    delay: tuple[int, bool] | None = None

    @property
    def ttl_ms(self) -> int | None:
        ttl = self.fields[3]
        return None if ttl is None else int(ttl * 1000)


class Ledger:
    """Args: credit (what a line and handle may still be sent, by what was said there), padding (bytes that some messages have more).

    Attributes: arrivals (when messages came), modifies (what is said of what is given back), counts (what has been seen, how often: a checker that sees nothing proves nothing), lines (every
    connection of a user -> its broker)."""

    def __init__(
        self,
        world: World,
        watch: Watcher,
        afterlife: Afterlife,
        credit: Callable[[str, int], int],
        padding: tuple[int, ...] = (10,),
    ) -> None:
        self.world, self.watch, self.credit, self.padding = world, watch, credit, padding
        self.arrivals = Arrivals(world, watch, afterlife)
        self.modifies = Modifies(0)
        self.stops = Stops(0)
        self.several = SeveralKeys(0)
        self.ids = MessageIds(0)
        self.delays = Delays(0)
        self.counts: dict[str, int] = {}
        self.lines: dict[str, str] = {}  # line -> its broker
        self._put: dict[Sender, dict[int, Put]] = {}
        self._bodies: dict[bytes, Put] = {}
        self._said: dict[tuple[str, int, int], tuple[bytes, int]] = {}  # (client, handle, first number) -> said first
        self._done: dict[Sender, set[int]] = {}
        self._nowhere: dict[Sender, int] = {}  # how many are complete that went to no queue
        self._taken: dict[str, set[int]] = {}  # queue id -> positions that were ever acquired
        self._from: dict[Sender, int] = {}  # the highest number said on the connection before the last
        watch.on_commit.append(self._committed)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # ---- sending

    def put(
        self, sender: Outbox, number: int, message: Message, keys: list[str], delay: tuple[int, bool] | None = None
    ) -> None:
        fields = tuple(getattr(message, name) for name in FIELDS)
        put = Put(fields, self.world.now_us, keys, delay)
        if not self.unsettled(sender.key):
            sender.stall.moved()
        self._put.setdefault(sender.key, {})[number] = put
        self._bodies[fields[0]] = put

    def said(self, line: Line, frame: Transfer, sender: Outbox) -> None:
        """A transfer leaves: each number is the message that was put under it, said as it was said first."""
        client, handle = key = (line.user.name, frame.handle)
        data = encode_frame(frame), len(frame.blobs)
        first = self._said.setdefault((client, handle, frame.first), data)
        if first is not data:
            self.count("said again")
            left = range(frame.first + data[1], frame.first + first[1])  # how they ended is known
            if first[0] != data[0] and not (left and self._done[sender.key].issuperset(left[:1])):
                raise Violation(
                    f"{client}: transfer {frame.first} of {handle} is said again, and not as it was said first"
                )
        ttl = dict(zip(frame.ttl[::2], frame.ttl[1::2], strict=True))
        puts = self._put[key]
        several, later = dict(frame.several), {index: (ms, since) for index, ms, since in frame.delays}
        for index, blob in enumerate(frame.blobs):
            put = puts.get(frame.first + index)
            fields = _fields(blob)
            if put is None or fields != put.fields:
                raise Violation(f"{client}: number {frame.first + index} of {handle} leaves as {fields}, put was {put}")
            if ttl.pop(index, None) != put.ttl_ms:
                raise Violation(
                    f"{client}: number {frame.first + index} of {handle} leaves with another's ttl: {frame.ttl}"
                )
            if later.pop(index, None) != put.delay:
                raise Violation(
                    f"{client}: number {frame.first + index} of {handle} leaves with the delays {frame.delays}"
                )
            if several.pop(index, []) != put.keys:
                raise Violation(
                    f"{client}: number {frame.first + index} of {handle} leaves by other keys: {frame.several}"
                )
            if sender.keyed and (frame.keys is None or frame.keys[index] != (put.fields[1] or "")):
                raise Violation(f"{client}: number {frame.first + index} of {handle} leaves by another's key")
            if sender.headers and (frame.headers is None or frame.headers[index] != (put.fields[2] or {})):
                raise Violation(f"{client}: number {frame.first + index} of {handle} leaves with another's properties")
        if ttl:
            raise Violation(f"{client}: transfer {frame.first} of {handle} has a ttl for nobody: {frame.ttl}")

    def told(self, client: str, frame: Completed | Failed, sender: Outbox) -> None:
        """How numbers ended: each is told once, by whatever broker."""
        done = self._done.setdefault(sender.key, set())
        ranges = each(frame.ranges)
        if not done.isdisjoint(ranges):
            raise Violation(
                f"{client}: it is told twice how {sorted(done.intersection(ranges))} of {frame.handle} ended"
            )
        done.update(ranges)
        sender.stall.moved()
        if isinstance(frame, Completed) and frame.unroutable:
            if sender.mandatory:
                raise Violation(f"{client}: {frame.handle} is mandatory, and {frame} completes what went to no queue")
            self._nowhere[sender.key] = self._nowhere.get(sender.key, 0) + len(each(frame.unroutable))

    def undelayable(self, sender: Sender, numbers: list[int], code: str) -> bool:
        """Whether those were refused since they were delayed, and came to an exchange that keeps its order."""
        puts = self._put[sender]
        exchanges = any(name.startswith("manta.exchange.") for name in self.watch.wiring.every)
        return code == "not-allowed" and exchanges and all(puts[number].delay for number in each(numbers))

    def unroutable(self, sender: Sender) -> int:
        return self._nowhere.get(sender, 0)

    def open_numbers(self, sender: Sender, upto: int) -> set[int]:
        """Of the numbers up to there, those that nothing is known of."""
        put = {number for number in self._put.get(sender, ()) if number <= upto}
        return put.difference(self._done.get(sender, ()))

    def unsettled(self, sender: Sender) -> int:
        """How many messages were put and are not complete."""
        return len(self._put.get(sender, ())) - len(self._done.get(sender, ()))

    # ---- in the log

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        if isinstance(event, events.Enqueue):
            sender, _, handle = event.client.rpartition("/")
            puts = self._put.get((sender, int(handle))) if sender else None
            if puts is not None:
                self._enqueued(stream, event, puts, not model.relay)
        elif isinstance(event, events.Acquire):
            taken = self._taken.setdefault(stream, set())
            taken.update(each([n for i in range(0, len(event.runs), 3) for n in event.runs[i + 1 : i + 3]]))

    def _enqueued(self, stream: str, event: events.Enqueue, puts: dict[int, Put], plain: bool) -> None:
        expiry = dict(zip(event.expiry[::2], event.expiry[1::2], strict=True))
        delays = dict(zip(event.delays[::2], event.delays[1::2], strict=True))
        for index, (number, blob) in enumerate(zip(each(event.numbers), event.blobs, strict=True)):
            put = puts[number]
            ms, since_epoch = put.delay or (0, False)
            due_ms = ms if since_epoch else event.at_ms + ms
            if delays.get(index, 0) != (due_ms if due_ms > event.at_ms and put.delay else 0):
                raise Violation(
                    f"{stream}: number {number} of {event.client} is due at {delays.get(index)}, not {due_ms}"
                )
            if _fields(blob if plain else as_sent(blob))[0] != put.fields[0]:
                raise Violation(f"{stream}: number {number} of {event.client} is another message")
            at_ms, ttl_ms = expiry.get(index), put.ttl_ms
            if (at_ms is None) != (ttl_ms is None):
                raise Violation(f"{stream}: number {number} of {event.client} has ttl {ttl_ms}, and expires at {at_ms}")
            now_ms = self.world.now_us // 1000
            if not put.at_us // 1000 <= event.at_ms <= now_ms:
                raise Violation(f"{stream}: number {number} of {event.client} came at {event.at_ms}, by its broker")
            if at_ms is not None and ttl_ms is not None and not put.at_us // 1000 <= at_ms - ttl_ms <= now_ms:
                raise Violation(f"{stream}: number {number} of {event.client} has ttl {ttl_ms}, and expires at {at_ms}")

    # ---- receiving

    def got(self, inbox: Inbox, message: Message) -> None:
        """A message is in its user's hands: every field is as it was put."""
        self.count("fetched")
        if message.annotations:
            self.count("annotated")
        self.arrivals.read(inbox.user.name, inbox.queue, message)
        put = self._bodies.get(message.body)
        if put is None:
            if message.properties != {"mantamq.undecodable": True} and message.body not in self._put_raw():
                raise Violation(f"{inbox.user.name} gets {message}, which no user has put")
            return
        fields, wanted = tuple(getattr(message, name) for name in FIELDS), put.fields
        properties, number = numbers_of(message.properties)
        died, properties = properties, living(properties)
        if number or len(died or ()) != len(properties):
            self.count("numbered" if number else "died")
            fields, wanted = (*fields[:2], properties, *fields[3:]), (*wanted[:2], wanted[2] or {}, *wanted[3:])
        name = self.watch.wiring.stamps.get(inbox.queue)
        if name:
            self.count("stamped")
            wanted = (*wanted[:2], {**(wanted[2] or {}), name: message.position}, *wanted[3:])
        if fields != wanted:
            raise Violation(f"{inbox.user.name} gets {fields}, put was {wanted}")

    def _put_raw(self) -> tuple[bytes, ...]:
        return ()

    def never_taken(self, model: ModelQueue) -> set[int]:
        """Positions that are there and have never been acquired: whoever browses must have seen them."""
        taken = self._taken.get(model.id, set())
        return {position for position in model.live if model.place[position] == "available" and position not in taken}


def _fields(blob: bytes) -> tuple[Any, ...]:
    """The fields of a blob, those left out at their defaults."""
    values = _decode(blob)
    return (*values, *DEFAULTS[len(values) :])


DEFAULTS = (b"", None, None, None, None, None, None, False, None, None)
_decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[Any]).decode
