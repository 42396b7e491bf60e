"""A client's conversation with its broker, protocol-neutral: what it has attached, what it may send, what it must keep.

The native listener hands it `frames` 96 to 113 as they come; a listener for another protocol translates to the same
values. Nothing here knows the wire, the sequencer or a queue's inside: it checks what the client claims, keeps the
books, and raises `PeerError` naming the rule that a claim breaks. Errors marked *fatal* end the connection; others
end one sender, receiver or command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..errors import INVALID, NOT_FOUND, TOO_LARGE, PeerError
from ..limits import ANNOTATIONS_BYTES, ROUTING_KEYS, Limits, too_large
from ..queue.resumption import Before
from ..ranges import pairs, size
from ..wire.client_frames import AttachReceiver, AttachSender, Dispose, Flow, Transfer
from ..wire.queue_frames import ACCEPT, MODIFY, REJECT, RELEASE, Credit

MOST_MS = 1 << 48
BEFORE = 16
"""At most this many earlier brokers of a receiver count: it may pass by several in vain while one holds what it had."""
_encode = msgspec.msgpack.Encoder().encode


class Traffic:
    """What senders have sent to one exchange at this broker. Attributes: received, messages; unroutable, those of them
    that went to no queue."""

    __slots__ = ("received", "unroutable")

    def __init__(self) -> None:
        self.received = self.unroutable = 0


class SenderLink:
    """Attributes: exchange, key (None: per message), next (the next number it must use), client (its name for duplicate
    suppression), mandatory (what goes to no queue fails), ended (the broker has told its client that it is over, and
    says nothing of it any more), route and route_version (the cached route of a fixed key and the wiring it was found
    in), kinds (that route, where one of its queues must know something of each message; `route` is empty then), each
    (each message has a route of its own, by its headers; both are empty then), received (messages that came by it),
    name (of a named sender, "" of others), origin (then its client), queue (then its queue's id), traffic (all that
    came to its exchange)."""

    __slots__ = ("client", "each", "ended", "exchange", "handle", "key", "kinds", "mandatory", "name", "next", "origin",
                 "queue", "received", "route", "route_version", "traffic")  # fmt: skip

    def __init__(
        self, handle: int, exchange: str, key: str | None, client: str, next: int = 1, mandatory: bool = False
    ) -> None:
        self.handle = handle
        self.mandatory = mandatory
        self.exchange = exchange
        self.key = key
        self.client = client
        self.next = next
        self.ended = False
        self.route: tuple[str, ...] = ()
        self.kinds: tuple[str, ...] = ()
        self.each = False
        self.route_version = -1
        self.received = 0
        self.name = self.origin = self.queue = ""
        self.traffic = Traffic()


class AttachedAs(NamedTuple):
    """How a receiver was attached. Attributes: mode, "consume" or "browse"; accept, whether it settles; priority;
    selector; alone, whether it is to have the queue alone."""

    mode: str = "consume"
    accept: bool = True
    priority: int = 0
    selector: str = ""
    alone: bool = False


AS_USUAL = AttachedAs()


class ReceiverLink:
    """Attributes: queue (its id), replica (the peer that hosts it), sub (the broker's number for the subscription),
    credit (messages it may still be sent), granted (messages of credit that it has been given, without those that it
    was not sent as it drained), settled (number of its last dispose), closing (what it holds is on its way back, and
    `Detached` follows), waits (its grants of credit, while it is not attached yet), asked (how it was attached)."""

    __slots__ = ("asked", "closing", "credit", "granted", "handle", "queue", "replica", "settled", "sub", "waits")

    def __init__(self, handle: int, queue: str, replica: str, sub: int) -> None:
        self.handle = handle
        self.queue = queue
        self.replica = replica
        self.sub = sub
        self.credit = self.granted = 0
        self.settled = 0
        self.closing = False
        self.waits: list[Credit] | None = None
        self.asked = AS_USUAL

    def drained(self) -> None:
        """It gets nothing more for the credit that it has."""
        self.granted -= self.credit
        self.credit = 0


class Session:
    """One connection's books.

    Args:
        peer: the connection's name.
        limits: the bounds it must keep.

    Attributes:
        client: the client's own id, set when it has opened.
        rescue: it only looks, also where there is no majority.
        leaving: the client has said that it closes its connection.
        minor: minor version of the protocol that the client speaks.
        life: which of the client's connections it is, from 1; 0 where it does not say.
        address: where the client is, "host:port"; "": it does not come by TCP.
        since_ms: Unix time at which it came.
        making: handle -> what attaches it when what it names has been declared.
        opening: lets the client in when this broker knows the wiring as it does; None: nothing is waited for.
    """

    def __init__(self, peer: str, limits: Limits) -> None:
        self.peer = peer
        self.limits = limits
        self.client = ""
        self.rescue = self.leaving = False
        self.minor = self.life = self.since_ms = 0
        self.address = ""
        self.senders: dict[int, SenderLink] = {}
        self.receivers: dict[int, ReceiverLink] = {}
        self.making: dict[int, AttachSender | AttachReceiver] = {}
        self.completed: dict[int, list[int]] = {}  # handle -> numbers to tell, as ranges
        self.unroutable: dict[int, list[int]] = {}  # handle -> which of them went to no queue, as ranges
        self.ended: dict[int, None] = {}  # handles that ended by themselves, oldest first
        self._next: dict[int, int] = {}  # handle of a sender that was detached -> its next number, oldest first
        self.opening: Callable[[], None] | None = None
        self._least = 1  # above the numbers of all handles that `_next` has forgotten

    # ---- opening and attaching

    def heartbeat(self, asked_ms: int, patience_ms: int) -> tuple[int, int]:
        """The heartbeat and the patience that are agreed, in milliseconds; 0 for none."""
        if asked_ms <= 0:
            return 0, 0
        shortest, longest = self.limits.heartbeat_ms
        interval_ms = min(max(asked_ms, shortest), longest)
        return interval_ms, max(2 * interval_ms, min(patience_ms, self.limits.patience_ms))

    def check_handle(self, handle: int) -> None:
        """Raises PeerError (fatal) when `handle` cannot be attached."""
        if handle in self.senders or handle in self.receivers or handle in self.making:
            raise PeerError(INVALID, f"handle {handle} is attached already: use a new one or detach it first")
        if len(self.senders) + len(self.receivers) + len(self.making) >= self.limits.handles:
            raise PeerError(INVALID, f"a connection has at most {self.limits.handles} senders and receivers")

    def add_sender(
        self, handle: int, exchange: str, key: str | None, asked: int = 0, mandatory: bool = False
    ) -> SenderLink:
        """Attach a sender whose numbers go on where those of the handle's last sender ended, or at `asked` if that is
        more: were they to go back, queues would take new messages for repeats."""
        if asked >= 1 << 62:
            raise PeerError(INVALID, f"transfers' numbers are below 2^62, next is {asked}")
        next = max(asked, self._next.pop(handle, self._least))
        link = self.senders[handle] = SenderLink(handle, exchange, key, f"{self.client}/{handle}", next, mandatory)
        return link

    def remove_sender(self, handle: int) -> SenderLink | None:
        """End a sender; None when there is none of that handle."""
        link = self.senders.pop(handle, None)
        if link is not None and link.next > 1:
            self._next[handle] = link.next
            if len(self._next) > self.limits.handles:
                self._least = max(self._least, self._next.pop(next(iter(self._next))))
        return link

    def end(self, handle: int) -> None:
        """The broker has detached a handle by itself: a `Detach` may be crossing that. At most as many handles are
        remembered as a client can have had attached when it sent one."""
        self.ended.pop(handle, None)
        self.ended[handle] = None
        if len(self.ended) > self.limits.handles:
            del self.ended[next(iter(self.ended))]

    def crossed(self, handle: int) -> bool:
        """Whether a `Detach` of `handle` has crossed our `Detached`, which answers it."""
        return self.ended.pop(handle, self) is None

    def before(self, frame: AttachReceiver) -> Before:
        """What a receiver says it held elsewhere.

        Raises:
            PeerError: fatal, the runs are malformed.
        """
        for _, _, runs in frame.before:
            if len(runs) % 3 or any(runs[i + 1] > runs[i + 2] for i in range(0, len(runs), 3)):
                raise PeerError(INVALID, "runs are acquisition, first and last position, first not above last")
        return frame.before[-BEFORE:]

    def undeliverable(self, frame: AttachReceiver) -> list[int]:
        """What a receiver has given back as undeliverable to itself.

        Raises:
            PeerError: fatal, these are no ranges of positions.
        """
        flat = frame.undeliverable
        if len(flat) % 2 or any(not 0 < first <= last for first, last in pairs(flat)):
            raise PeerError(
                INVALID, "what is undeliverable is ranges of positions, first and last, first not above last"
            )
        return flat

    def add_receiver(self, handle: int, queue: str, replica: str, sub: int) -> ReceiverLink:
        link = self.receivers[handle] = ReceiverLink(handle, queue, replica, sub)
        return link

    # ---- sending

    def transfer(self, frame: Transfer) -> SenderLink | None:
        """Check a transfer; its sender, or None when the sender has been detached (what crossed on the way is dropped).

        Raises:
            PeerError: fatal, the transfer breaks a rule of the conversation.
        """
        link = self.senders.get(frame.handle)
        if link is None:
            return None
        count = len(frame.blobs)
        if not link.next <= frame.first < 1 << 62:
            raise PeerError(INVALID, f"transfers' numbers never go back: expected {link.next}, got {frame.first}")
        if not 0 < count <= self.limits.transfer_messages:
            raise PeerError(INVALID, f"a transfer has 1 to {self.limits.transfer_messages} messages, not {count}")
        if link.key is None and frame.keys is None:
            raise PeerError(INVALID, "a sender without a key must send one key per message")
        for column in (frame.keys, frame.headers):
            if column is not None and len(column) != count:
                raise PeerError(INVALID, f"a column must have one value per message: {count}, not {len(column)}")
        if frame.several:
            _check_several(frame, link, self.limits)
        if len(frame.ttl) % 2:
            raise PeerError(INVALID, "ttl is a list of index and milliseconds by turns")
        link.next = frame.first + count
        link.received += count
        link.traffic.received += count
        return link

    def expiry(self, frame: Transfer, now_ms: int) -> list[int]:
        """The transfer's times to live as times of expiry, `now_ms` being now.

        Raises:
            PeerError: fatal, an index or a time is out of range.
        """
        expiry: list[int] = []
        for index, ttl_ms in pairs(frame.ttl):
            if not 0 <= index < len(frame.blobs) or not 0 <= ttl_ms < 1 << 48:
                raise PeerError(INVALID, "ttl needs an index into the transfer and a time of 0 to 2^48 milliseconds")
            expiry += (index, now_ms + ttl_ms)
        return expiry

    def oversized(self, frame: Transfer) -> PeerError | None:
        """Why the transfer's messages are too large, or None. Not fatal: the numbers fail, the sender goes on."""
        largest = max(map(len, frame.blobs))
        if largest <= self.limits.message_bytes:
            return None
        return PeerError(TOO_LARGE, too_large(self.limits.message_bytes, largest))

    def complete(self, handle: int, first: int, last: int) -> None:
        """Numbers ``first..last`` of a sender are complete: to be told at the next flush."""
        ranges = self.completed.get(handle)
        if ranges is None:
            self.completed[handle] = [first, last]
        elif ranges[-1] == first - 1:
            ranges[-1] = last
        else:
            ranges += (first, last)

    def went_nowhere(self, handle: int, ranges: list[int]) -> None:
        """Those numbers, which are complete, went to no queue."""
        self.unroutable.setdefault(handle, []).extend(ranges)

    def withdraw(self, handle: int) -> None:
        """What is complete of a sender is not told: it is over."""
        self.completed.pop(handle, None)
        self.unroutable.pop(handle, None)

    # ---- receiving

    def flow(self, frame: Flow) -> ReceiverLink | None:
        """Check a credit grant and book it.

        Raises:
            PeerError: fatal, the credit is negative or absurd.
        """
        link = self.receivers.get(frame.handle)
        if link is None:
            return None
        if frame.messages < 0 or frame.bytes < -1:
            raise PeerError(
                INVALID, f"credit must not be negative (bytes may be -1 for no limit), got {frame.messages}"
            )
        if link.credit + frame.messages > self.limits.credit_messages or frame.bytes > 1 << 48:
            raise PeerError(INVALID, f"a receiver holds at most {self.limits.credit_messages} messages of credit")
        link.credit += frame.messages
        link.granted += frame.messages
        return link

    def dispose(self, frame: Dispose) -> ReceiverLink | None:
        """Check a settlement.

        Raises:
            PeerError: fatal, the frame is malformed; a stale or duplicate settlement is no error but *lost*.
        """
        link = self.receivers.get(frame.handle)
        if link is None:
            return None
        if frame.kind not in (ACCEPT, RELEASE, REJECT):
            _check_modification(frame)
        if frame.number != link.settled + 1:
            raise PeerError(INVALID, f"settlements must be numbered without gaps: expected {link.settled + 1}")
        runs = frame.runs
        if len(runs) % 3 or any(runs[i + 1] > runs[i + 2] for i in range(0, len(runs), 3)):
            raise PeerError(INVALID, "settlement runs are acquisition, first and last position, first not above last")
        link.settled += 1
        return link

    def delivered(self, link: ReceiverLink, ranges: list[int]) -> None:
        link.credit -= size(ranges)


def _check_several(frame: Transfer, link: SenderLink, limits: Limits) -> None:
    if link.key is not None:
        raise PeerError(INVALID, f"this sender's key is {link.key!r}: several keys are for senders without one")
    keys = 0
    for index, several in frame.several:
        keys += len(several)
        if not (
            0 <= index < len(frame.blobs) and 0 < len(several) <= ROUTING_KEYS and keys <= limits.transfer_messages
        ):
            raise PeerError(
                INVALID,
                f"several keys need an index into the transfer and 1 to {ROUTING_KEYS} keys, of which it has at most "
                f"{limits.transfer_messages}",
            )


def _check_modification(frame: Dispose) -> None:
    said = frame.modification
    if frame.kind != MODIFY or said is None:
        text = f"a settlement accepts (1), releases (2), rejects (3) or modifies (4, and says how), not {frame.kind}"
        raise PeerError(INVALID, text)
    if not 0 <= said.delay_ms < MOST_MS:
        raise PeerError(INVALID, f"a delay is a time of 0 to 2^48 milliseconds, not {said.delay_ms}")
    if said.annotations and (size := len(_encode(said.annotations))) > ANNOTATIONS_BYTES:
        raise PeerError(INVALID, f"annotations have at most {ANNOTATIONS_BYTES:,} bytes, not {size:,}: note less")


def not_attached(handle: int) -> PeerError:
    return PeerError(NOT_FOUND, f"handle {handle} is not attached: attach a sender or receiver first")
