"""A receiver's books, without I/O: the prefetch window, what was fetched, and the gathering of single settlements.

Deliveries are kept as they came and become messages one by one as they are fetched. Settlements gather like sends do:
at once while none is on its way, else until the answer comes or enough are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from ..protocol.frames import RELEASE, Delivery, Detached, Dispose, Disposed, Flow, Frame
from ..protocol.ranges import pairs
from .errors import ConnectionLost, Invalid, LinkClosed, MantaError, NotAllowed, again, link_ended
from .message import Message, decode

GATHER_SETTLEMENTS = 256


class ReceiverCore:
    """One receiver. Not thread-safe: its owner serialises calls.

    Args:
        handle: its number on the connection.
        queue: the queue's name.
        capacity: the prefetch window in messages; 0 asks for each message when it is fetched.
        settles: whether messages must be settled.
        write: sends a frame.

    Attributes:
        available: messages delivered and not fetched.
        unsettled: position -> message fetched and not settled.
        lost: positions whose settlement came too late (it was another's message by then).
        drained: how many drains were answered.
        received: messages delivered so far.
        asking: messages that waiting callers want; without a window the credit never exceeds it.
        credit: messages the broker may still send.
    """

    def __init__(self, handle: int, queue: str, capacity: int, settles: bool, write: Callable[[Frame], None]) -> None:
        if capacity < 0:
            raise Invalid(f"a receiver's capacity is 0 or more, not {capacity}")
        self.handle = handle
        self.queue = queue
        self.capacity = capacity
        self.available = 0
        self.unsettled: dict[int, Message] = {}
        self.lost: list[int] = []
        self.failure: MantaError | None = None
        self.drained = 0
        self.drains = 0
        self.received = 0
        self.asking = 0
        self.credit = 0
        self._settles = settles
        self._write = write
        self._batches: deque[Delivery] = deque()
        self._current: Iterator[tuple[int, bytes]] = iter(())
        self._acquisition = 0
        self._redelivered: dict[int, int] = {}
        self._index = 0
        self._fetched = 0  # since the last credit
        self._replenish = max(1, capacity // 4)
        self._gathered: dict[int, list[int]] = {}
        self._count = 0
        self._disposed = 0  # number of the last settlement sent
        self._answered = 0  # how many settlements were answered

    def open(self) -> None:
        if self.capacity:
            self._grant(self.capacity)

    def _grant(self, messages: int) -> None:
        self.credit += messages
        self._write(Flow(self.handle, messages))

    # ---- fetching

    def delivered(self, frame: Delivery) -> None:
        self._batches.append(frame)
        count = len(frame.blobs)
        self.available += count
        self.received += count
        self.credit -= count
        self._shed()

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
            self._current = zip(positions, batch.blobs, strict=False)
            self._acquisition = batch.acquisition
            self._redelivered = dict(pairs(batch.redelivered)) if batch.redelivered else {}
            self._index = 0
        position, blob = found
        message = decode(blob)
        message.position = position
        message.acquisition = self._acquisition
        message.receiver = self
        if self._redelivered:
            message.delivery_count = self._redelivered.get(self._index, 0)
            self._index += 1
        self.available -= 1
        if self._settles:
            self.unsettled[position] = message
        if self.capacity:
            self._fetched += 1
            if self._fetched >= self._replenish and self.failure is None and self.drains == self.drained:
                self._grant(self._fetched)
                self._fetched = 0
        return message

    def ask(self, messages: int, now: bool = True) -> None:
        """A caller waits for so many messages; `unask` when it does no longer. `now` False: a drain will ask."""
        self.asking += messages
        if now:
            self._want()

    def unask(self, messages: int) -> None:
        """A caller has got what it waited for, or has given up: credit and messages for nobody are given back."""
        self.asking -= messages
        if self.capacity or self.failure is not None:
            return
        if self.credit > 0 and self.credit + self.available > self.asking:
            self.drain()
        self._shed()

    def _want(self) -> None:
        if not self.capacity and self.failure is None and self.drains == self.drained:
            missing = self.asking - self.credit - self.available
            if missing > 0:
                self._grant(missing)

    def _shed(self) -> None:
        """Without a window, messages nobody waits for any more go back, or other consumers would miss them."""
        if not self.capacity and self._settles:
            while self.available > self.asking:
                message = self.fetch()
                if message is None:
                    break
                self.settle(RELEASE, message)

    def drain(self) -> int:
        """Ask to be told when there is nothing more, joining a drain that is under way.

        Returns:
            The count of `drained` that is the answer.
        """
        if self.drains == self.drained:
            self.drains += 1
            more = 0 if self.capacity else max(0, self.asking - self.credit - self.available)
            self.credit += more
            self._write(Flow(self.handle, more, -1, True))
        return self.drains

    def on_drained(self) -> None:
        """The credit is gone: grant it anew, to the window or to those who still wait."""
        self.drained += 1
        self.credit = 0
        if self.failure is not None:
            return
        if self.capacity:
            self._fetched = 0
            if self.available < self.capacity:
                self._grant(self.capacity - self.available)
        else:
            self._want()

    # ---- settling

    def settle(self, kind: int, message: Message) -> None:
        """Accept, release or reject a fetched message.

        Raises:
            NotAllowed: it was settled already, or this receiver's messages are not settled.
            LinkClosed: the receiver has ended; its messages are back in the queue.
        """
        position = message.position
        if self.unsettled.pop(position, None) is None:
            if not self._settles:
                raise NotAllowed("messages of a browsing or non-accepting receiver are not settled")
            raise NotAllowed(f"message {position} of queue {self.queue!r} was settled already")
        if self.failure is not None:
            if isinstance(self.failure, ConnectionLost):
                self.check()
            raise LinkClosed(f"message {position} is back in queue {self.queue!r}: its receiver has ended")
        runs = self._gathered.get(kind)
        if runs is None:
            self._gathered[kind] = [message.acquisition, position, position]
        elif runs[-1] == position - 1 and runs[-3] == message.acquisition:
            runs[-1] = position
        else:
            runs += (message.acquisition, position, position)
        self._count += 1
        if self._disposed == self._answered or self._count >= GATHER_SETTLEMENTS:
            self.flush()

    def flush(self) -> None:
        """Send the settlements that have gathered."""
        if not self._gathered or self.failure is not None:
            return
        gathered, self._gathered = self._gathered, {}
        self._count = 0
        for kind, runs in gathered.items():
            self._disposed += 1
            self._write(Dispose(self.handle, self._disposed, kind, runs))

    def disposed(self, frame: Disposed) -> None:
        self._answered += 1  # in any order, each once
        lost = frame.lost
        for i in range(0, len(lost), 3):
            self.lost.extend(range(lost[i + 1], lost[i + 2] + 1))
        if self._disposed == self._answered and self._gathered:
            self.flush()

    def settled(self) -> bool:
        return (self._disposed == self._answered and not self._gathered) or self.failure is not None

    # ---- the end

    def ended(self, failure: MantaError) -> None:
        self.failure = self.failure or failure
        if self._settles:  # what cannot be settled any more is back in the queue
            self._batches.clear()
            self._current = iter(())
            self.available = 0

    def detached(self, frame: Detached) -> None:
        self.ended(link_ended(frame.code, frame.text))

    def ready(self) -> bool:
        return self.available > 0 or self.failure is not None

    def check(self) -> None:
        if self.failure is not None:
            raise again(self.failure)
