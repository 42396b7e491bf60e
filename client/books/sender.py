"""A sender's books, without I/O: numbers, capacity, and the gathering of single sends into frames.

Adaptive coalescing: while nothing is in flight a message leaves at once; while something is, messages gather until the
next completion comes or a frame's worth is there. Nobody waits on a timer, and a program that sends one message at a
time still puts batches on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ...protocol.errors import PeerError
from ...protocol.limits import DEFAULT, ROUTING_KEYS, too_large
from ...protocol.ranges import RangeSet, pairs, size, subtract
from ...protocol.wire.client_frames import Completed, Detached, Failed, Transfer
from ...protocol.wire.framing import check_depth
from ...protocol.wire.message import encode
from ...protocol.wire.transfer_parts import part
from ..errors import (
    Invalid,
    MantaError,
    ResourceLimitExceeded,
    Timeout,
    TooLarge,
    Unavailable,
    again,
    error,
    link_ended,
)
from ..message import Message
from .delays import later
from .patience import Patience

GATHER_MESSAGES = 128
GATHER_BYTES = 128 * 1024
_encode_headers = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(dict[str, Any]).decode


def _milliseconds(ttl: object) -> int:
    if isinstance(ttl, int | float) and 0 <= ttl < (1 << 48) / 1000:  # false for nan
        return int(ttl * 1000)
    raise Invalid(f"a message's ttl is 0 or more seconds, not {ttl!r}")


def _headers(properties: dict[str, Any] | None) -> dict[str, Any]:
    """Properties for a headers exchange; checked here, since the broker ends the connection over a bad one."""
    if not properties:
        return {}
    try:
        headers = _decode_headers(_encode_headers(properties))
        check_depth([headers], DEFAULT.depth)
    except (msgspec.MsgspecError, PeerError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Invalid(f"properties sent to a headers exchange are names and plain values: {problem}") from None
    return headers


class SenderCore:
    """One sender. Not thread-safe: its owner serialises calls.

    Args:
        handle: its number on the connection.
        address: what the user asked for, for errors.
        keyed: each message's subject is its routing key.
        headers: the exchange routes by properties.
        capacity: most messages sent and not complete.
        message_bytes: the broker's limit of one message.
        write: sends a transfer.
        next: number of its first message.
        limit_s: how long nothing may complete while something is awaited; None: for ever.

    Attributes:
        waiters: callers that wait for something to complete.
        unroutable: messages complete that went to no queue.
        unsettled: messages put and not complete.
        failure: set when the link has ended.
        held_back: names of queues that have what is under way wait until they have room.
        resumed: of a named sender: the queue had its messages up to this number when it was attached.
        repeated: messages put under such a number, which it has therefore not sent.
        behind: the last number that was given is below those that the queue had: what comes next must say which it is.
        stopped: why flow control is on in the whole cluster; "" while it is off, or not known.
        failures: (ranges of numbers, exception) of refused messages not yet told to the user.
        pending: number of its first message -> frame that is not complete, in order: what another broker must get.
    """

    def __init__(
        self, handle: int, address: str, keyed: bool, headers: bool, capacity: int, message_bytes: int,
        write: Callable[[Transfer], None], next: int = 1, limit_s: float | None = None,
    ) -> None:  # fmt: skip
        if type(capacity) is not int or capacity < 1:
            raise Invalid(f"a sender's capacity is a number of messages, at least 1, not {capacity!r}")
        self.handle = handle
        self.address = address
        self.capacity = capacity
        self.unsettled = 0
        self.unroutable = 0
        self.sent = next - 1  # number of the last message in a frame
        self.failure: MantaError | None = None
        self.held_back: list[str] = []
        self.stopped = ""
        self.failures: list[tuple[list[int], MantaError]] = []
        self.pending: dict[int, Transfer] = {}
        self._keyed = keyed
        self._with_headers = headers
        self._message_bytes = message_bytes
        self._write = write
        self.patience = Patience(limit_s)
        self.waiters = 0
        self.resumed = next - 1
        self.repeated = 0
        self.behind = False
        self._stalled_at = -1  # how many were complete when the time-out ran out
        self._flying = 0  # messages in frames on their way
        self._gather()
        self._done = RangeSet([1, next - 1] if next > 1 else ())

    def _gather(self) -> None:
        """Begin new columns. Those before belong to the frame they left in, which may be sent again: even an empty one
        that was filled later would change it."""
        self._blobs: list[bytes] = []
        self._keys: list[str] = []
        self._ttl: list[int] = []
        self._headers: list[dict[str, Any]] = []
        self._several: list[tuple[int, list[str]]] = []
        self._delays: list[tuple[int, int, bool]] = []
        self._bytes = 0

    def put(self, message: Message | bytes | str) -> None:
        """Take a message; the caller has seen to capacity.

        Raises:
            TooLarge, Invalid: this message cannot be sent; nothing else is disturbed.
        """
        if type(message) is not Message:
            message = Message(message)  # type: ignore[arg-type]
        try:
            blob = encode(message)
        except PeerError as problem:
            raise Invalid(problem.text) from None
        length = len(blob)
        if length > self._message_bytes:
            raise TooLarge(too_large(self._message_bytes, length))
        blobs = self._blobs
        # Everything is checked before anything is taken, so that the columns always fit together.
        ttl_ms = None if message.ttl is None else _milliseconds(message.ttl)
        subject = message.subject
        if self._keyed and subject is not None and not isinstance(subject, str):
            raise Invalid(f"a subject is the routing key here and must be a str, not {type(subject).__name__}")
        if self._with_headers:
            self._headers.append(_headers(message.properties))
        if self._keyed:
            self._keys.append(subject or "")
        if ttl_ms is not None:
            self._ttl += (len(blobs), ttl_ms)
        blobs.append(blob)
        self.unsettled += 1
        self._bytes += length
        if not self._flying or len(blobs) >= GATHER_MESSAGES or self._bytes >= GATHER_BYTES:
            self.flush()

    def number(self, number: int | None) -> bool:
        """The message that is put now is to have this number; False: its queue has had that, and nothing is to be put.
        Nobody else is to put anything in between.

        Args:
            number: None: the one behind the last.

        Raises:
            Invalid: it is none, or another was put under it or a higher one.
        """
        if number is None:
            if self.behind:
                raise Invalid(
                    f"give this message its number: the queue has had numbers up to {self.resumed}, the last that was "
                    "sent again is lower, and so nobody knows whether this one has been sent before"
                )
            return True
        if type(number) is not int or not 0 < number < 1 << 62:
            raise Invalid(f"a message's number is 1 or more, and below 2^62, not {number!r}")
        self.behind = number < self.resumed
        if number <= self.resumed:
            self.repeated += 1
            return False
        following = self.sent + len(self._blobs) + 1
        if number < following:
            raise Invalid(f"numbers rise: the next one is {following} or more, not {number}")
        if number > following:
            self.flush()
            self._done.add(following, number - 1)  # nothing is awaited under these
            self.sent = number - 1
        return True

    @property
    def last_completed(self) -> int:
        """All messages up to this number are complete, or refused."""
        first = self._done.at_or_after(1)
        return first[1] if first is not None and first[0] == 1 else 0

    def put_to(self, message: Message | bytes | str, keys: Iterable[str]) -> None:
        """Take a message as `put`, to be routed by each of these keys, and not by its subject.

        Raises:
            Invalid: the sender's key is fixed; or these are no keys, or too many.
        """
        several = list(dict.fromkeys(keys)) if not isinstance(keys, str) else [keys]
        if not self._keyed:
            raise Invalid(f"the key of a sender to {self.address!r} is fixed: name an exchange alone, to send by keys")
        if not 0 < len(several) <= ROUTING_KEYS or not all(type(key) is str for key in several):
            raise Invalid(f"a message is sent by 1 to {ROUTING_KEYS} keys, which are texts, not by {several!r:.100}")
        before, number = self._several, self.next_put
        before.append((len(self._blobs), several))  # first: it may leave at once
        try:
            self.put(message)
        except BaseException:
            self._not_put(number, before)
            raise

    def put_later(
        self, message: Message | bytes | str, delay: float | None, at: float | None, keys: Iterable[str] | None
    ) -> None:
        """Take a message as `put`, or as `put_to` if there are keys, that nobody gets before that.

        Raises:
            Invalid: these are no times; there are none, or two.
        """
        before, number = self._delays, self.next_put
        before.append((len(self._blobs), *later(delay, at)))  # first: it may leave at once
        try:
            self.put(message) if keys is None else self.put_to(message, keys)
        except BaseException:
            self._not_put(number, before)
            raise

    def _not_put(self, number: int, said: list[Any]) -> None:
        """Whatever has come in between: unless the message of that number is taken, the next one is not to have what
        was said of it last."""
        if self.next_put == number:
            said.pop()

    def put_apart(self, message: Message) -> int:
        """Take a message as `put`; its number, by which its caller gets its outcome for itself (`outcome`)."""
        number = self.next_put
        self.put(message)
        return number

    @property
    def next_put(self) -> int:
        """Number of the message that is put next."""
        return self.sent + len(self._blobs) + 1

    def flush(self) -> None:
        """Send what has gathered."""
        blobs = self._blobs
        if not blobs or self.failure is not None:
            return
        frame = Transfer(
            self.handle,
            self.sent + 1,
            blobs,
            self._keys if self._keyed else None,
            self._ttl,
            self._headers if self._with_headers else None,
            self._several,
            self._delays,
        )
        self.pending[frame.first] = frame
        self.sent += len(blobs)
        self._flying += len(blobs)
        self._gather()
        self._write(frame)

    def completed(self, frame: Completed | Failed) -> None:
        done = self._done
        before = done.count
        for first, last in pairs(frame.ranges):
            done.add(first, last)
            self._drop(first, last)
        count = done.count - before  # what is sent again in one frame may have been complete in part
        self._flying -= count
        self.unsettled -= count
        if isinstance(frame, Failed):
            self.failures.append((frame.ranges, error(frame.code, frame.text)))
        elif frame.unroutable:
            self.unroutable += size(frame.unroutable)
        if self._blobs:
            self.flush()

    def _drop(self, first: int, last: int) -> None:
        """Forget the frames of complete numbers."""
        pending = self.pending
        while first <= last:
            frame = pending.pop(first, None)
            if frame is None or first + len(frame.blobs) - 1 > last:
                break
            first += len(frame.blobs)
        else:
            return
        # A broker that completes frames in pieces.
        if frame is not None:
            pending[first] = frame
        covers = self._done.covers
        self.pending = {
            n: kept for n, kept in sorted(pending.items()) if not covers(n, n + len(kept.blobs) - 1)
        }  # fmt: skip

    def again(self) -> Iterator[Transfer]:
        """The transfers that another broker must get, without the messages that are complete or have failed. Those
        must not be sent once more: a queue bound meanwhile would get a message that was reported as refused."""
        for first, frame in self.pending.items():
            last = first + len(frame.blobs) - 1
            done = self._done.within(first, last)
            if not done:
                yield frame
            for a, b in subtract(first, last, done) if done else ():
                yield part(frame, a - first, b - first + 1)

    @property
    def by_several_keys(self) -> bool:
        """Whether any of what is not complete has several keys."""
        return bool(self._several) or any(frame.several for frame in self.pending.values())

    @property
    def delays(self) -> bool:
        """Whether any of what is not complete is delayed."""
        return bool(self._delays) or any(frame.delays for frame in self.pending.values())

    @property
    def next(self) -> int:
        """Number of the next transfer a broker must take: the first that is not complete."""
        return next(iter(self.pending), self.sent + 1)

    # ---- what does not complete

    def look(self, now: float) -> None:
        """Called now and then, with the time: notice that nothing completes any more. Who waits is told by
        `patience.expired`, who does not at the next send."""
        done = self._done.count
        if self.patience.look(now, self.unsettled > 0 or self.waiters > 0, done):
            self._stalled_at = done
            if not self.waiters:  # what was to be told of this before is old
                self.failures = [one for one in self.failures if type(one[1]) is not Unavailable]
                self.failures.append((self.open_numbers(), self.stalled()))

    @property
    def blocked(self) -> str:
        """Why what is under way waits: a queue holds its producers back, or the cluster all of them; "" if neither
        does, or nothing is under way."""
        if not self.unsettled or not (self.held_back or self.stopped):
            return ""
        if not self.held_back:
            return f"flow control of the cluster: {self.stopped}"
        return f"producer flow control: {', '.join(map(repr, self.held_back))} waits for its consumers"

    def open_numbers(self) -> list[int]:
        """The numbers that were sent and are not complete, as ranges."""
        flat: list[int] = []
        for first, frame in self.pending.items():
            last = first + len(frame.blobs) - 1
            flat += (n for edges in subtract(first, last, self._done.within(first, last)) for n in edges)
        return flat

    def stalled(self) -> Unavailable:
        """Why whoever waits must wait no longer."""
        why = f"{self.blocked}; or see" if self.blocked else "see"
        return Unavailable(
            f"{self.unsettled} messages to {self.address!r} are not complete, and none has completed for "
            f"{self.patience.still_s:.3g} s: {why} `mantamq doctor` for what stands still. They may still complete: "
            '`sync` waits again, `unsettled` counts them. If a majority is lost, browsing (mode="browse") still reads '
            "what is in a queue"
        )

    def late(self) -> Timeout:
        """Why whoever waits has waited as long as it wanted."""
        why = f" ({self.blocked})" if self.blocked else ""
        return Timeout(
            f"{self.unsettled:,} messages to {self.address!r} are not complete in time{why}; they may still complete"
        )

    @property
    def hopeless(self) -> bool:
        """Nothing has completed for the whole limit."""
        return self._stalled_at == self._done.count and self.unsettled > 0

    # ---- the end

    def ended(self, failure: MantaError) -> None:
        self.failure = self.failure or failure
        self._gather()
        self.pending = {}

    def detached(self, frame: Detached) -> None:
        self.ended(link_ended(frame.code, frame.text))

    def full(self) -> bool:
        return self.unsettled >= self.capacity

    def why_full(self) -> str:
        if self.blocked:
            return f"{self.blocked}: {self.unsettled} messages are sent and not complete"
        if self.unsettled >= self.capacity:
            return f"{self.unsettled} messages are sent and not complete: wait, or ask for more capacity"
        return "the broker reads too slowly or has no room now, or another one is looked for: wait"

    def ready(self) -> bool:
        """Whether a waiting send may go on (to succeed or to raise)."""
        return self.unsettled < self.capacity or self.failure is not None or bool(self.failures)

    def settled(self, number: int) -> bool:
        """Whether everything up to `number` is complete: later sends of others are not waited for."""
        return not number or self._done.covers(1, number) or self.failure is not None

    def all_settled(self, numbers: list[int]) -> bool:
        """Whether these are complete or refused, or can be no more."""
        return self.failure is not None or all(self._done.covers(number, number) for number in numbers)

    def outcome(self, numbers: list[int]) -> list[int]:
        """Of these numbers, all settled, the ones that a queue has refused at its limit. Nobody else is told of them.

        Raises:
            MantaError: one was refused for another reason, or the link has ended.
        """
        refused: list[int] = []
        others: list[tuple[list[int], MantaError]] = []
        wrong: MantaError | None = None
        for ranges, failure in self.failures:
            of = RangeSet(ranges)
            ours = [number for number in numbers if of.covers(number, number)]
            if type(failure) is ResourceLimitExceeded:
                refused += ours
            elif ours and type(failure) is not Unavailable:
                wrong = failure
            for number in ours:
                of.remove(number, number)
            if of:
                others.append((of.flat(), failure))
        self.failures = others
        if wrong is None and self.failure is not None:
            wrong = again(self.failure)
        if wrong is not None:
            raise wrong
        return refused

    def check(self) -> None:
        """Raise what the user has not been told yet."""
        while self.failures:
            ranges, failure = self.failures.pop(0)
            if type(failure) is Unavailable and not self.hopeless:
                continue  # some have completed since
            failure.numbers = ranges  # type: ignore[attr-defined]
            raise failure
        if self.failure is not None:
            raise again(self.failure)
