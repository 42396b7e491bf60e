"""A receiver's books, without I/O: the prefetch window, what was fetched, and the gathering of single settlements.

Deliveries are kept as they came and become messages one by one as they are fetched. Settlements gather like sends do:
at once while none is on its way, else until the answer comes or enough are there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import msgspec

from ...protocol.errors import PeerError
from ...protocol.limits import ANNOTATIONS_BYTES, DEFAULT
from ...protocol.ranges import RangeSet, compress, melted, pairs
from ...protocol.wire.client_frames import Delivery, Detached, Dispose, Disposed, Flow
from ...protocol.wire.frame import Frame
from ...protocol.wire.message import decode
from ...protocol.wire.plain import check
from ...protocol.wire.queue_frames import ACCEPT, MODIFY, RELEASE, Modification
from ..errors import (
    ConnectionLost,
    Invalid,
    LinkClosed,
    MantaError,
    NotAllowed,
    TimedOut,
    Unavailable,
    again,
    link_ended,
)
from ..message import Message, undecodable
from .delays import delay_ms
from .moments import behind, each
from .patience import Patience

GATHER_SETTLEMENTS = 256
_encode = msgspec.msgpack.Encoder().encode
WINDOWS = "unfetched", "unaccepted"
"""A capacity bounds messages sent ahead and not fetched; or messages delivered and not settled, fetched or not.
There a settlement makes room when it is made, and is said before the credit that it makes room for: the broker never
counts more either. What was held at a lost broker is back in the queue, and takes up no room."""
_STALE, _STALE_SETTLED = -1, -2
"""In the place of the acquisition: the message was fetched over a connection that is lost; and was settled since."""
_UNSEEN = 0
"""In the place of a kind of settlement: released by the books themselves, before any caller has seen it."""
_GOES_BACK = frozenset((RELEASE, _UNSEEN))


class ReceiverCore:
    """One receiver. Not thread-safe: its owner serialises calls.

    Args:
        handle: its number on the connection.
        queue: the queue's name.
        capacity: the prefetch window in messages; 0 asks for each message when it is fetched.
        settles: whether messages must be settled.
        write: sends a frame.
        browse: whether it only looks.
        limit_s: how long no settlement may be answered while one is awaited; None: for ever.
        window: what the capacity bounds, see `WINDOWS`.
        most: the broker's limit of messages of credit.

    Attributes:
        available: messages delivered and not fetched.
        unsettled: position -> message fetched and not settled.
        lost: positions whose settlement came too late (it was another's message by then), or whose settlement was on
            its way when a broker was lost (the message may come again). A message that the books give back by
            themselves is not here, however late: its user has not settled it, and may have settled an earlier delivery
            of the same message in time.
        drained: how many drains were answered.
        waits: messages that waited in the queue, for whomever, when the last drain was answered; None: unknown.
        stopped: it is sent nothing; what it holds may be settled.
        received: messages delivered so far.
        asking: messages that waiting callers want; without a window the credit never exceeds it.
        credit: messages the broker may still send.
        before: what was held at the brokers that were lost, as in `AttachReceiver`.
        undeliverable: positions given back as undeliverable here, of the queue of id `queue_id`.
    """

    def __init__(
        self, handle: int, queue: str, capacity: int, settles: bool, write: Callable[[Frame], None],
        browse: bool = False, limit_s: float | None = None, window: str = "unfetched",
        most: int = DEFAULT.credit_messages,
    ) -> None:  # fmt: skip
        if type(capacity) is not int or capacity < 0:
            raise Invalid(f"a receiver's capacity is a number of messages, 0 or more, not {capacity!r}")
        if window not in WINDOWS:
            raise Invalid(f"a receiver's window is {' or '.join(map(repr, WINDOWS))}, not {window!r}")
        if window == "unaccepted" and not settles:
            raise Invalid(
                'window="unaccepted" bounds what is not settled, and messages of a browsing or non-accepting receiver '
                "are not settled: leave it away"
            )
        if window == "unaccepted" and not capacity:
            raise Invalid('window="unaccepted" needs a capacity of 1 or more: the messages that may be unsettled')
        self.handle = handle
        self.queue = queue
        self.capacity = capacity
        self._most = most
        self.available = 0
        self.unsettled: dict[int, Message] = {}
        self.lost: list[int] = []
        self.failure: MantaError | None = None
        self.drained = 0
        self.waits: int | None = None
        self.stopped = False
        self.drains = 0
        self.received = 0
        self.asking = 0
        self.credit = 0
        self.patience = Patience(limit_s)
        self.waiters = 0
        self.before: list[tuple[str, int, list[int]]] = []
        self.undeliverable = RangeSet()
        self.queue_id = ""  # which queue of that name it is, as far as brokers say
        self._modification: Modification | None = None  # with which what is modified is sent, at once
        self._drain_again = False  # somebody has asked since the drain that is under way began
        self._settles = settles
        self._by_fetch = capacity > 0 and window == "unfetched"  # fetching makes room
        self._by_settling = window == "unaccepted"
        self._returned: set[int] = set()  # of `unsettled`, what was held at a lost broker
        self._acquired = 0  # the last acquisition this broker has named
        self._browse = browse
        self._seen = 0  # a browser's last position
        self._resumed_after = 0  # where a browser had come to when its broker was lost
        self._write = write
        self._batches: deque[Delivery] = deque()
        self._kept: deque[Message] = deque()  # fetched by a caller that has given up: the next to be fetched
        self._current: Iterator[tuple[int, bytes, int]] = iter(())
        self._acquisition = 0
        self._redelivered: dict[int, int] = {}
        self._index = 0
        self._fetched = 0  # since the last credit
        self._replenish = max(1, capacity // 4)
        self._gathered: dict[int, list[int]] = {}
        self._count = 0
        self._disposed = 0  # number of the last settlement sent
        self._answered = 0  # how many settlements were answered
        self._disposing: dict[int, tuple[int, list[int]]] = {}  # number -> kind and runs that are on their way

    def open(self) -> None:
        if self.capacity:
            self._grant(self.capacity)

    def _grant(self, messages: int) -> None:
        if _GOES_BACK & self._gathered.keys() or self._by_settling:
            self.flush()  # what goes back, or makes room, comes before what there is room for
        self.credit += messages
        self._write(Flow(self.handle, messages))

    # ---- fetching

    def delivered(self, frame: Delivery) -> None:
        count = len(frame.blobs)
        self.received += count
        self.credit -= count
        self._acquired = frame.acquisition
        if self._browse:
            rest = self._unseen(frame)
            if rest is not frame:
                self._replenished(count - len(rest.blobs))
                count = len(rest.blobs)
                frame = rest
        if count:
            self._batches.append(frame)
            self.available += count
        if not self.capacity:
            self._shed()

    def _unseen(self, frame: Delivery) -> Delivery:
        """A browser begins anew at every broker; positions only rise, so it can go on where it was."""
        self._seen = max(self._seen, frame.ranges[-1])
        if frame.ranges[0] > self._resumed_after:
            return frame
        positions = [p for first, last in pairs(frame.ranges) for p in range(first, last + 1)]
        known = bisect_right(positions, self._resumed_after)
        again = [n for i, count in pairs(frame.redelivered) if i >= known for n in (i - known, count)]
        rest = compress(positions[known:]), frame.blobs[known:], again, behind(frame.times, known)
        return Delivery(frame.handle, 0, *rest)

    def fetch(self) -> Message | None:
        """The next message that is here, or None."""
        if not self.available:
            return None
        while True:
            found = next(self._current, None)
            if found is not None:
                break
            batch = self._batches.popleft()
            ranges = batch.ranges
            if len(ranges) == 2:
                positions: Iterator[int] = iter(range(ranges[0], ranges[1] + 1))
            else:
                positions = chain.from_iterable(range(first, last + 1) for first, last in pairs(ranges))
            self._current = zip(positions, batch.blobs, each(batch.times, len(batch.blobs)), strict=False)
            self._acquisition = batch.acquisition
            self._redelivered = dict(pairs(batch.redelivered)) if batch.redelivered else {}
            self._index = 0
        position, blob, at_ms = found
        try:
            message = decode(blob, Message)
        except PeerError:
            message = undecodable(blob)
        message.position = position
        message._acquisition = self._acquisition
        message._enqueued_ms = at_ms
        message._receiver = self
        if self._redelivered:
            message.delivery_count = self._redelivered.get(self._index, 0)
            message._acquired = self._index in self._redelivered
            self._index += 1
        self.available -= 1
        if self._settles:
            self.unsettled[position] = message
        if self._by_fetch:
            self._fetched += 1
            if self._fetched >= self._replenish:
                self._replenished(0)
        elif self._by_settling:
            self._returned.discard(position)
            if not self.available:
                self._widen()
        return message

    def keep(self, messages: list[Message]) -> None:
        """A caller that has fetched these gives up before it has seen them: they are the next to be fetched. What was
        fetched over a connection that is lost since comes again."""
        for message in messages:
            if self.unsettled.get(message.position) is message:
                del self.unsettled[message.position]
        self._returned.difference_update(message.position for message in messages)
        kept = [message for message in messages if message._acquisition >= 0]
        if kept and not (self._settles and self.failure is not None):
            self._kept.extendleft(reversed(kept))
            self.available += len(kept)
            self.fetch = self._fetch_kept  # type: ignore[method-assign]  # else no fetch asks whether there are any

    def _fetch_kept(self) -> Message:
        message = self._kept.popleft()
        if not self._kept:
            del self.fetch
        self.available -= 1
        if self._settles:
            self.unsettled[message.position] = message
        if self._by_settling and not self.available:
            self._widen()
        return message

    def _room(self) -> int:
        """How many more may be granted, beside the credit there is."""
        held = len(self.unsettled) - len(self._returned) if self._by_settling else 0
        return max(0, self.capacity - self.credit - self.available - held)

    def _widen(self) -> None:
        """Grant what settlements have made room for: not one by one, but always when else nothing could come."""
        room = self._room()
        if room and (room >= self._replenish or (not self.credit and not self.available)):
            if self.failure is None and self.drains == self.drained:
                self._grant(room)

    @property
    def full(self) -> str:
        """Why nothing more can come until it is started, or some are settled; "" when it can."""
        if self.stopped:
            return f"; the receiver of queue {self.queue!r} is stopped: start it"
        if not self._by_settling or self.credit or self.available or self._room():
            return ""
        return f"; its window is full: {self.capacity} messages of queue {self.queue!r} are not settled"

    def _replenished(self, skipped: int) -> None:
        """Grant what was fetched, or skipped, anew."""
        if not self.capacity:
            self._want()
            return
        self._fetched += skipped
        if self._fetched >= self._replenish and self.failure is None and self.drains == self.drained:
            self._grant(self._fetched)
            self._fetched = 0

    def ask(self, messages: int, now: bool = True) -> None:
        """A caller waits for `messages` more; `unask` when it does no longer. `now` False: a drain will ask."""
        self.asking += messages
        if now:
            self._want()

    def unask(self, messages: int) -> None:
        """A caller has got what it waited for, or has given up: credit and messages for nobody are given back."""
        self.asking -= messages
        if self.capacity or self.failure is not None:
            return
        if self.credit > 0 and self.credit + self.available > self.asking:
            self.drain(sure=False)
        self._shed()

    def _want(self) -> None:
        if not self.capacity and self.failure is None and self.drains == self.drained:
            missing = self._missing(self.credit)
            if missing:
                self._grant(missing)

    def _missing(self, credit: int) -> int:
        """Without a window: how many messages are to be asked for, beside this credit. Who wants more than a broker
        takes gets them in turns."""
        return max(0, min(self.asking - self.available, self._most) - credit)

    def _shed(self) -> None:
        """There is no window: messages nobody waits for any more go back, or other consumers would miss them."""
        if self._settles:
            while self.available > self.asking:
                message = self.fetch()
                if message is None:
                    break
                self._return(message)

    def drain(self, sure: bool = True) -> int:
        """Ask to be told when there is nothing more. One drain is under way at a time.

        Args:
            sure: the answer is to hold all that is complete by now, so it is not that of a drain asked for before;
                False: credit is only taken back.

        Returns:
            The count of `drained` that is the answer.
        """
        if self.drains == self.drained:
            if self._by_settling:
                more = self._room()
            else:
                more = 0 if self.capacity else self._missing(self.credit)
            self._say_drain(more, sure)
        elif sure:
            self._drain_again = True
            return self.drains + 1
        return self.drains

    def _say_drain(self, more: int, sure: bool) -> None:
        if _GOES_BACK & self._gathered.keys() or self._by_settling:
            self.flush()
        self.drains += 1
        self.credit += more
        self._write(Flow(self.handle, more, -1, True, sure))

    def on_drained(self, waits: int = -1) -> None:
        """The credit is gone: grant it anew, to the window or to those who still wait. `waits`: see `FlowDrained`."""
        self.drained += 1
        self.waits = None if waits < 0 else waits
        self.credit = 0
        if self.failure is not None:
            return
        if self._drain_again:
            self._drain_again = False
            self._fetched = 0
            self._say_drain(self._room() if self.capacity else self._missing(0), True)
        elif self.capacity:
            self._fetched = 0
            room = self._room()
            if room:
                self._grant(room)
        else:
            self._want()

    def stop(self) -> int:
        """Ask for nothing more, and take the credit back: see `drain` for what is returned."""
        if not self.stopped:
            self.stopped = True
            # In place of the methods: who is not stopped asks no question for it.
            self._grant = lambda messages: None  # type: ignore[method-assign]
            self._room = lambda: 0  # type: ignore[method-assign]
            self._missing = lambda credit: 0  # type: ignore[method-assign]
        return self.drain(sure=False)

    def give_back(self) -> None:
        """What has come, and was not fetched, goes back to its place; what need not be settled is ours."""
        while self._settles and (message := self.fetch()) is not None:
            self._return(message)
        self.flush()

    def _return(self, message: Message) -> None:
        """No caller has seen it: one who is told that this was lost would take that for a settlement of his."""
        self.settle(_UNSEEN, message)

    def start(self) -> None:
        """Go on."""
        if not self.stopped:
            return
        self.stopped = False
        del self._grant, self._room, self._missing
        if self.failure is None and self.drains == self.drained:
            self._fetched = 0
            if self.capacity:
                room = self._room()
                if room:
                    self._grant(room)
            else:
                self._want()

    # ---- settling

    def settle(self, kind: int, message: Message) -> None:
        """Accept, release or reject a fetched message.

        A message of a connection that is lost, or of a receiver that has held one for too long, is back in the queue:
        that is not raised, it is in `lost`.

        Raises:
            NotAllowed: it was settled already, or this receiver's messages are not settled.
            LinkClosed: the receiver has ended; its messages are back in the queue.
        """
        position = message.position
        if message._acquisition == _STALE:
            self._settle_stale(kind, message)
            return
        found = self.unsettled.pop(position, None)
        if found is not message:
            if found is not None:  # it came again since
                self.unsettled[position] = found
            if not self._settles:
                raise NotAllowed("messages of a browsing or non-accepting receiver are not settled")
            raise NotAllowed(f"message {position} of queue {self.queue!r} was settled already")
        if self.failure is not None:
            if isinstance(self.failure, ConnectionLost):
                self.check()
            if isinstance(self.failure, TimedOut):  # who settles late has done it all the same
                self.lost.append(position)
                return
            raise LinkClosed(f"message {position} is back in queue {self.queue!r}: its receiver has ended")
        runs = self._gathered.get(kind)
        if runs is None:
            self._gathered[kind] = [message._acquisition, position, position]
        elif runs[-1] == position - 1 and runs[-3] == message._acquisition:
            runs[-1] = position
        else:
            runs += (message._acquisition, position, position)
        self._count += 1
        if self._disposed == self._answered or self._count >= GATHER_SETTLEMENTS:
            self.flush()
        if self._by_settling:
            self._widen()

    def modify(
        self,
        message: Message,
        failed: bool,
        undeliverable_here: bool = False,
        annotations: dict[str, Any] | None = None,
        delay: object = 0,
    ) -> None:
        """Give a fetched message back with what is said of it; nobody gets it for `delay` seconds.

        Raises:
            Invalid: the annotations cannot travel, or are too large; it is no delay.
            NotAllowed, LinkClosed: as `settle`.
        """
        noted, wait_ms = _checked(annotations), delay_ms(delay)
        self.flush()
        self._modification = Modification(bool(failed), bool(undeliverable_here), noted, wait_ms)
        self.settle(MODIFY, message)
        self.flush()
        if undeliverable_here and message._acquisition > 0:
            self.undeliverable.add(message.position, message.position)

    def flush(self) -> None:
        """Send the settlements that have gathered."""
        if not self._gathered or self.failure is not None:
            return
        gathered, self._gathered = self._gathered, {}
        self._count = 0
        for kind, runs in gathered.items():
            if kind == ACCEPT and len(runs) > 3:  # in which order is all the same
                runs = melted(runs)
            self._disposed += 1
            self._disposing[self._disposed] = kind, runs
            said = self._modification if kind == MODIFY else None
            self._write(Dispose(self.handle, self._disposed, RELEASE if kind == _UNSEEN else kind, runs, said))

    def disposed(self, frame: Disposed) -> None:
        found = self._disposing.pop(frame.number, None)
        if found is None:
            return
        self._answered += 1  # in any order
        if found[0] != _UNSEEN:
            self._lose(frame.lost)
        if self._disposed == self._answered and self._gathered:
            self.flush()

    def settled(self) -> bool:
        return (self._disposed == self._answered and not self._gathered) or self.failure is not None

    def under_way(self) -> set[int]:
        """Flush; the numbers of the settlements that are not complete."""
        self.flush()
        return set(self._disposing)

    def complete(self, numbers: set[int]) -> bool:
        """Whether these are complete, or can be no more: later ones of others are not waited for."""
        return numbers.isdisjoint(self._disposing) or self.failure is not None

    def look(self, now: float) -> None:
        """Called by whoever waits for settlements."""
        self.patience.look(now, self.waiters > 0, self._answered)

    def stalled(self) -> Unavailable:
        """Why whoever waits must wait no longer."""
        return Unavailable(
            f"settlements of queue {self.queue!r} are not complete, and none has been answered for "
            f"{self.patience.still_s:.3g} s: see `mantamq doctor` for what stands still. They may still complete: "
            "`sync` waits again"
        )

    def _lose(self, runs: list[int]) -> None:
        for i in range(0, len(runs), 3):
            self.lost.extend(range(runs[i + 1], runs[i + 2] + 1))

    def _settle_stale(self, kind: int, message: Message) -> None:
        position = message.position
        if self.failure is not None:
            self.check()
        if self.unsettled.get(position) is message:  # else it came again, and that one is to be settled
            del self.unsettled[position]
            self._returned.discard(position)
        message._acquisition = _STALE_SETTLED
        if kind != RELEASE:
            self.lost.append(position)

    # ---- another broker

    def interrupted(self, broker: str = "") -> None:
        """The broker is lost. What can be settled no more is back in the queue, and will come again; what need not be
        settled is ours."""
        if broker and self._settles:
            self._note_before(broker)
        for message in self.unsettled.values():
            message._acquisition = _STALE
        self._returned = set(self.unsettled)
        self._lose_under_way()
        self._count = self._disposed = self._answered = 0
        if self._settles:
            self._drop()
        self._resumed_after = self._seen
        self.credit = 0

    def _lose_under_way(self) -> None:
        """Whether these settlements have counted nobody will say."""
        for kind, runs in (*self._disposing.values(), *self._gathered.items()):
            if kind not in _GOES_BACK:  # what was to go back has gone back
                self._lose(runs)
        self._disposing.clear()
        self._gathered.clear()

    def _note_before(self, broker: str) -> None:
        """Note the messages that the next broker must wait for, so that they come first and in their order."""
        held: dict[int, RangeSet] = {}
        for message in chain(self.unsettled.values(), self._kept):
            if message._acquisition > 0:
                held.setdefault(message._acquisition, RangeSet()).add(message.position, message.position)
        for position, *_ in self._current:
            held.setdefault(self._acquisition, RangeSet()).add(position, position)
        for batch in self._batches:
            for first, last in pairs(batch.ranges):
                held.setdefault(batch.acquisition, RangeSet()).add(first, last)
        known = [n for acquisition, parts in held.items() for part in parts for n in (acquisition, *part)]
        # All that is held for a receiver goes back at once; only who holds nothing may have been given unseen things.
        last = -1 if known else self._acquired
        known += [n for _, runs in self._disposing.values() for n in runs]
        known += [n for runs in self._gathered.values() for n in runs]
        earlier = [] if self._acquired else self.before  # what has come since came behind all that
        for visit in earlier:
            # A broker is named once: otherwise those visited in vain would crowd out the one that holds it all.
            if visit[0] == broker and last >= 0 and visit[1] >= 0:
                last, known = min(last, visit[1]), [*visit[2], *known]
                earlier = [one for one in earlier if one is not visit]
        self.before = [*earlier, (broker, last, known)]
        self._acquired = 0

    def attached(self, queue_id: str) -> None:
        """A broker says which queue it is: one that was declared anew meanwhile is seen from its beginning."""
        if queue_id and self.queue_id and queue_id != self.queue_id:
            self._seen = self._resumed_after = 0
            self.undeliverable = RangeSet()
        self.queue_id = queue_id or self.queue_id

    def resume(self) -> None:
        """Attached at another broker: ask for what is wanted."""
        self.credit = self._fetched = 0
        if self.drains != self.drained:
            self.credit = self._room() if self.capacity else self._missing(0)
            self._write(Flow(self.handle, self.credit, -1, True))
        elif self.capacity > self.available:
            self._grant(self._room())
        else:
            self._want()

    # ---- the end

    def _drop(self) -> None:
        self._batches.clear()
        self._current = iter(())
        self.available = 0
        if self._kept:
            self._kept.clear()
            del self.fetch

    def ended(self, failure: MantaError) -> None:
        self.failure = self.failure or failure
        if self._settles:  # what cannot be settled any more is back in the queue
            self._drop()

    def detached(self, frame: Detached) -> None:
        self.ended(link_ended(frame.code, frame.text))
        if isinstance(self.failure, TimedOut):
            self._lose_under_way()

    def ready(self) -> bool:
        return self.available > 0 or self.failure is not None

    def check(self) -> None:
        if self.failure is not None:
            raise again(self.failure)


def _checked(annotations: dict[str, Any] | None) -> dict[str, Any]:
    if annotations is None:
        return {}
    if not isinstance(annotations, dict) or not all(type(name) is str for name in annotations):
        raise Invalid(f"annotations are a dict of names to values, not {annotations!r}")
    try:
        check(annotations, "a message's annotations")
        size = len(encoded := _encode(annotations))
    except (PeerError, TypeError, OverflowError, ValueError, RecursionError) as error:
        raise Invalid(f"annotations hold bytes, text, numbers, lists and maps only: {error}") from None
    if size > ANNOTATIONS_BYTES:
        raise Invalid(f"annotations have at most {ANNOTATIONS_BYTES:,} bytes, these {size:,}: note less")
    return msgspec.msgpack.decode(encoded)  # the caller's may change
