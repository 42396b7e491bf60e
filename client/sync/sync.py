"""The synchronous client: `connect` and what it gives. Threads may share a connection.

The twin of `aio/aio.py`, on the same books. Calls run in the caller's thread under one lock per connection; a thread of
the connection's own reads. Not to be carried over a fork: connect anew in the child.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Literal, overload

from ...protocol.wire.client_frames import AttachReceiver, AttachSender
from ...protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE
from ..addresses import resolve
from ..aio.aio import _receiver_of
from ..books.abilities import DELAYS, MANDATORY, MODIFY, SEVERAL_KEYS
from ..books.asking import asking
from ..books.patience import SEND_TIMEOUT_S, checked, idle
from ..books.receiver import ReceiverCore
from ..books.reconnect import Reconnecting
from ..books.requests import REPLIES, ReplySender, to_reply
from ..books.sender import SenderCore
from ..errors import Busy, ConnectionLost, Empty, Full, LinkClosed, MantaError, Timeout, Unavailable
from ..management import _resolve, parse_address
from ..message import Message
from .driver import Driver


def connect(
    address: str | Iterable[str] | None = None, token: str = "", timeout: float = 10.0, brokers: int | None = None,
    reconnect_s: float = 30.0, heartbeat_ms: int = 500, on_reconnect: Callable[[Connection], None] | None = None,
    send_timeout_s: float | None = SEND_TIMEOUT_S, rescue: bool = False, data: str | None = None,
) -> Connection:  # fmt: skip
    """Connect to a broker; use it as a context manager.

    Args:
        address: None (this Ray cluster's nearest broker), "local" (an embedded cluster for this program's life),
            "host:port" (no Ray needed), or several of these, tried in turn.
        token: what the cluster asks its clients for.
        timeout: seconds to wait for the connection and for each answer (while there is a broker).
        brokers: size of the embedded cluster, where this starts it: a program has one. None: one broker, or as many as
            have a store in `data`.
        reconnect_s: how long to look for another member when the broker is lost; 0 does not look.
        heartbeat_ms: a broker that is silent for two heartbeats is lost. 0 for no heartbeats.
        send_timeout_s: how long nothing may complete of what is sent or settled, before whoever waits for it, or sends
            more, gets Unavailable; None: for ever. A sender may have its own.
        on_reconnect: called with the connection when another broker has taken over; in the connection's own thread, so
            it must not wait for the connection.
        rescue: only look (browse, ask), also at a broker that has lost the majority and serves nobody else. What is
            seen may be old: the last completed messages may be missing, others' accepts as well. What consumers hold,
            and can settle no more, is shown.
        data: directory in which an embedded cluster keeps its durable queues, for the next program that names it. None:
            it keeps all in memory.

    Raises:
        NoCluster, ConnectionLost, Unauthorized, Unavailable, Timeout, Invalid.
    """
    reconnecting = Reconnecting(reconnect_s, heartbeat_ms, on_reconnect, rescue)
    checked(send_timeout_s)
    addresses, token = resolve(address, token, brokers, data)
    failure: MantaError | None = None
    for one in addresses:
        try:
            return Connection(one, token, timeout, addresses, reconnecting, send_timeout_s)
        except (ConnectionLost, Timeout, Unavailable, Busy) as error:
            failure = error
    assert failure is not None
    raise failure


class Connection(Driver):
    """One connection to a broker, and to another member when that is lost: see `Driver` for its arguments."""

    def session(self) -> Session:
        """A new session; nothing is said to the broker before its first sender or receiver."""
        return Session(self)

    def request(self, address: str, body: Message | bytes | str, timeout_s: float | None = 10.0) -> Message:
        """Send a request and wait for its reply.

        Whoever receives it answers by `session.reply(message, body)`. Any number of requests may wait at once; their
        replies come to one queue that the connection has for itself, and go on coming when another broker takes over.

        Args:
            address: as of `session.sender`: "queue", "exchange/key", or "exchange" (the request's subject is its key).
            body: or a whole message, whose `correlation_id` and `reply_to` are the connection's. It expires with its
                time-out, so that nobody works at what nobody waits for, unless it has a `ttl` of its own.
            timeout_s: more than 0 seconds for all of it, or None to wait for ever.

        Returns:
            The reply; it is settled already.

        Raises:
            Timeout: no reply came in time; the request may have been done. One that comes later is dropped.
            NotFound: there is no such queue or exchange. Unroutable: no queue is bound there for it.
            ResourceLimitExceeded: the queue is full, and refuses it. TooLarge, Invalid: it cannot be sent.
            LinkClosed: the queue for the replies, or the exchange, was deleted meanwhile. ConnectionLost: the
                connection was closed, or no broker took over. Where the request was sent, it may have been done.
            NotAllowed: the broker is too old; or this is another event loop than the connection's.
        """
        return self._run(asking(self._conversation, self._pressed, address, body, timeout_s), timeout_s)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """Senders and receivers that are settled together."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._senders: list[Sender] = []
        self._receivers: list[Receiver] = []
        self._repliers: dict[str, Sender] = {}  # exchange -> by which replies go to it

    @overload
    def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        name: None = None,
    ) -> Sender: ...

    @overload
    def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        *,
        name: str,
    ) -> NamedSender: ...

    def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        name: str | None = None,
    ) -> Sender:
        """Open a sender to "queue", "exchange/key", or "exchange" (each message's subject is its key).

        Args:
            capacity: most messages sent and not complete; `send` waits while there are that many.
            send_timeout_s: as for `connect`, for this sender.
            mandatory: a message that goes to no queue fails with Unroutable, at a later `send` or at `sync`, as others
                that are refused; if not, it completes, and `sender.unroutable` counts it.
            name: of a sender to one queue, which keeps the numbers of its messages under it: a program that is started
                anew goes on behind `sender.last_completed`, and what it sends again does not come in twice. The last
                one to begin has the name: one that has it already ends (LinkClosed), at whatever broker.

        Raises:
            NotFound: there is no such queue or exchange.
            Invalid, NotAllowed: a name for more than one queue; or this broker knows none.
            Unavailable: with a name, the queue does not answer; or a member of the cluster is of an older version.
        """
        connection, conversation = self.connection, self.connection._conversation
        limit_s = conversation.limit_s if send_timeout_s == "connection" else checked(send_timeout_s)
        exchange, key = parse_address(address)
        keyed = False
        if mandatory:
            conversation.abilities.require(MANDATORY)
        if "/" not in address:
            keyed = connection._ask(_resolve(address)) == "exchange"
        if keyed:
            exchange = address
        named = conversation.abilities.name(name, keyed or exchange != "")
        return self._open(exchange, None if keyed else key, address, capacity, limit_s, mandatory, named=named)

    def _open(
        self, exchange: str, key: str | None, address: str, capacity: int, limit_s: float | None, mandatory: bool,
        kind: type[SenderCore] = SenderCore, named: str = "",
    ) -> Sender:  # fmt: skip
        connection, conversation = self.connection, self.connection._conversation
        with connection._lock:
            handle = conversation.attach(lambda h: AttachSender(h, exchange, key, 0, mandatory, named))
            _attached(connection, handle)
            core = conversation.sender(handle, address, key is None, capacity, limit_s, kind)
        sender = NamedSender(connection, core) if named else Sender(connection, core)
        self._senders.append(sender)
        return sender

    def receiver(
        self,
        queue: str,
        capacity: int = 1000,
        mode: str = "consume",
        accept: bool = True,
        window: Literal["unfetched", "unaccepted"] = "unfetched",
        timeout: float | None = None,
        selector: str | None = None,
        exclusive: bool = False,
        priority: int = 0,
        no_local: bool = False,
    ) -> Receiver:
        """Open a receiver.

        Args:
            capacity: messages the broker may send ahead; 0 fetches each on demand.
            mode: "consume", or "browse" to look without taking.
            accept: False: messages are gone when they are sent to us, nothing is settled.
            window: what the capacity bounds: "unfetched", messages that are here and not fetched; or "unaccepted",
                messages that are not settled, fetched or not, as AMQP's prefetch. Then nothing more comes to a
                receiver that holds that many: `fetch` and `get` say Empty, and why, until some are settled.
                Settling makes room at once; what was held at a broker that is lost takes up no room, it comes again.
            timeout: iterating ends when nothing came for this many seconds; None: not before the receiver is closed.
            selector: a condition in JMS's subset of SQL-92, as "n > 3 AND colour = 'red'": only messages for which it
                is true come, the others stay for other consumers. Names are properties, and fields of a message
                (subject, priority, message_id ...).
            exclusive: this receiver has the queue alone, in the whole cluster: no other consumes from it (others may
                browse) until this one is closed, or its connection or broker is gone. It stays so when another broker
                takes over.
            priority: of the consumers at one broker those with the highest one get all messages, as long as they have
                credit; the others get what is left. Brokers take turns all the same.
            no_local: nothing that this connection has sent itself, by any of its senders, before or after another
                broker has taken over; that stays for other consumers. It may have been sent before this was opened.

        Raises:
            NotFound: there is no such queue.
            Invalid: "unaccepted" where nothing is settled (browsing, `accept=False`), or with capacity 0; the selector
                is none, and at which column.
            NotAllowed: a selector or no_local where the queue has message groups and this is no browser; or the broker
                knows none.
            InUse: an exclusive receiver has the queue; or this one was to be exclusive, and others consume.
        """
        idle_s = idle(timeout)
        connection, conversation = self.connection, self.connection._conversation
        able, alone = conversation.abilities, conversation.claim(exclusive, mode)
        wanted, rank, others = able.selector(selector), able.priority(priority, mode), able.no_local(no_local)
        with connection._lock:
            handle = conversation.attach(
                lambda h: AttachReceiver(h, queue, mode, accept, [], wanted, alone, rank, no_local=others)
            )
            _attached(connection, handle)
            settles = accept and mode == "consume"
            core = conversation.receiver(handle, queue, capacity, settles, mode == "browse", window)
        receiver = Receiver(connection, core, idle_s)
        self._receivers.append(receiver)
        return receiver

    def browse(self, queue: str, capacity: int = 1000, selector: str | None = None) -> Generator[Message]:
        """Look at all messages of a queue, in order, without taking any: ``for message in session.browse("q")``.

        It ends where the queue ends: what was complete when it began is there (but for what others take meanwhile), and
        what is sent meanwhile as well. What consumers hold is not shown, unless the connection is for rescue. With a
        `selector`, as of `receiver`, only messages for which it is true.

        Raises:
            NotFound: there is no such queue.
            Deleted, ConnectionLost: the queue, or the connection, has ended. Timeout: as `get`.
        """
        receiver = self.receiver(queue, capacity, "browse", selector=selector)
        try:
            with receiver:
                while True:
                    try:
                        message = receiver.get()
                    except Empty:
                        return
                    yield message
        finally:
            self._receivers.remove(receiver)

    def acknowledge(self, message: Message | None = None) -> None:
        """Accept a message, or all that were fetched and not settled. Complete after `sync`."""
        with self.connection._lock:
            if message is not None:
                _receiver_of(message).settle(ACCEPT, message)
                return
            for receiver in self._receivers:
                for each in list(receiver._core.unsettled.values()):
                    receiver._core.settle(ACCEPT, each)

    def release(self, message: Message, delay: float | None = None) -> None:
        """Give a message back to its place in the queue, flagged redelivered.

        A receiver without a window (capacity 0) gets it again before what is behind it, unless another consumer has
        taken it first. With a window, what was sent ahead already comes before it.

        Args:
            delay: nobody gets it for so many seconds, whatever happens to this consumer meanwhile; then it is available
                in its place.

        Raises:
            Invalid: it is no delay. NotAllowed: it was settled already, or this broker is too old to delay it.
        """
        with self.connection._lock:
            if delay is None:
                _receiver_of(message).settle(RELEASE, message)
                return
            self.connection._conversation.abilities.require(DELAYS)
            _receiver_of(message).modify(message, True, delay=delay)

    def reject(self, message: Message) -> None:
        """Refuse a message: to the queue's alternate exchange, or discarded."""
        with self.connection._lock:
            _receiver_of(message).settle(REJECT, message)

    def modify(
        self,
        message: Message,
        failed: bool = False,
        undeliverable_here: bool = False,
        annotations: dict[str, Any] | None = None,
    ) -> None:
        """Give a message back to its place in the queue, with what is said of it: AMQP's *modified*.

        Args:
            failed: this was an attempt at delivery, so its delivery count rises, as by `release`.
            undeliverable_here: the receiver that fetched it does not get it again, as long as it lives, at whatever
                broker; other consumers may. In a queue with message groups the receiver ends instead, saying why.
            annotations: names and values for those who get it next: merged into `Message.annotations`, where a name
                that is there already gets the new value. They stay with the message, on every broker, in an alternate
                exchange's queues as well, and through a restart where the queue is durable; all those of one message
                together have at most 8 KiB: such as would make them more are left out.

        Raises:
            Invalid: annotations that cannot travel, or are too large. NotAllowed: it was settled already, or this
            broker is too old. LinkClosed: the receiver has ended; its messages are back in the queue.
        """
        with self.connection._lock:
            self.connection._conversation.abilities.require(MODIFY)
            _receiver_of(message).modify(message, failed, undeliverable_here, annotations)

    def reply(self, message: Message, body: Message | bytes | str) -> None:
        """Answer a message that asks for it: send `body` to its `reply_to`, with its correlation id (its `message_id`,
        where it has none). Complete after `sync`; to acknowledge the message is another matter.

        A reply for which there is no queue any more, since who has asked is gone, is dropped.

        Raises:
            Invalid: the message has no `reply_to`. NotFound: that names an exchange that is not there.
            Others as `Sender.send`.
        """
        exchange, key, reply = to_reply(message, body)
        replier = self._repliers.get(exchange)
        if replier is None or replier._core.failure is not None:
            limit_s = self.connection._conversation.limit_s
            replier = self._open(exchange, None, exchange, REPLIES, limit_s, False, ReplySender)
            self._repliers[exchange] = replier
        replier.send_to(reply, (key,))

    @property
    def lost(self) -> list[tuple[str, int]]:
        """(queue, position) of settlements that came too late: the messages were not ours any more. After a reconnect
        also of those on their way when the broker was lost: such a message may come again, flagged."""
        return [(r._core.queue, position) for r in self._receivers for position in r._core.lost]

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was sent and settled is complete. Raises as theirs do."""
        self._senders = [sender for sender in self._senders if not sender._closed]  # those have said it all
        for sender in self._senders:
            sender.sync(timeout)
        connection = self.connection
        for receiver in self._receivers:
            receiver.sync(timeout)
        with connection._lock:
            connection._conversation.check()

    def close(self) -> None:
        """Sync, then close all senders and receivers. Where the connection was closed there is nothing to do."""
        if self.connection._conversation.closed:
            return
        self.sync(self.connection.timeout)
        for link in (*self._senders, *self._receivers):
            link.close()


def _attached(connection: Connection, handle: int) -> None:
    conversation = connection._conversation
    try:
        connection._until(lambda: conversation.attached(handle), what="what opens a link")
    except BaseException:
        conversation.abandon(handle)
        raise


class Sender:
    """Sends to one address; made by `session.sender`."""

    def __init__(self, connection: Connection, core: SenderCore) -> None:
        self._core = core
        self._connection = connection
        self._lock = connection._lock
        self._put = core.put
        self._closed = False

    @property
    def unsettled(self) -> int:
        """Messages sent and not complete."""
        return self._core.unsettled

    @property
    def unroutable(self) -> int:
        """Messages complete that went to no queue, since none was bound where they were sent."""
        return self._core.unroutable

    @property
    def blocked(self) -> str:
        """Why what it has sent waits: a queue that is nearly full holds its producers back until its consumers have
        taken some, or the cluster all producers, since a member's memory or disk is, or it is behind; "" if neither. It
        goes on by itself."""
        return self._core.blocked

    def send(self, message: Message | bytes | str, timeout: float | None = None) -> None:
        """Send one message; waits only while capacity is used up.

        Raises:
            TooLarge, Invalid: this message cannot be sent.
            Full: capacity was used up for `timeout` seconds.
            NotFound, Unroutable, ResourceLimitExceeded, ...: earlier messages were refused (`error.numbers` are their
                ranges); it goes on.
            Unavailable: nothing has completed for the sender's time-out; this message was not taken.
            LinkClosed, Deleted, ConnectionLost: the sender has ended (a NotFound as well: its exchange is gone).
        """
        core = self._core
        with self._lock:
            if core.failure is not None or core.failures:
                core.check()
            connection = self._connection
            end = None if timeout is None else time.monotonic() + timeout
            while core.unsettled >= core.capacity or connection._pressed():
                core.flush()
                left = None if end is None else max(0.0, end - time.monotonic())
                if not connection._until_moving(core, lambda: core.ready() and not connection._pressed(), left):
                    raise Full(f"{core.why_full()} (after {timeout} s)")
                core.check()
            self._put(message)

    def send_to(self, message: Message | bytes | str, keys: Iterable[str], timeout: float | None = None) -> None:
        """Send one message to an exchange by several routing keys, in place of its subject: each queue that any of them
        finds gets it once. One for which none of them finds any goes to the exchange's alternate, or nowhere.

        Args:
            keys: 1 to 64 texts. The sender's address names no key: `session.sender("exchange")`.

        Raises:
            Invalid: these are no keys, or the sender's key is fixed. NotAllowed: this broker is too old.
            Others as `send`.
        """
        core, connection = self._core, self._connection
        with self._lock:
            core.check()
            connection._conversation.abilities.require(SEVERAL_KEYS)
            self._until_room(timeout)
            core.put_to(message, keys)

    def send_later(
        self,
        message: Message | bytes | str,
        delay: float | None = None,
        at: float | None = None,
        keys: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send one message that no consumer gets before its time. Until then it is in its queues, as safe as any other:
        it counts, it can be browsed, and its `ttl` runs from when it was sent; it may expire before it is due.

        Args:
            delay: for so many seconds from when a broker takes it.
            at: until then, in seconds since the epoch, by the brokers' clocks; a time that is past delays nothing.
            keys: as of `send_to`; None: it goes as by `send`.

        Raises:
            Invalid: these are no times; there are none, or two; or no keys. NotAllowed: this broker is too old.
            Others as `send`.
        """
        with self._lock:
            self._until_later_may_be_put(keys, timeout)
            self._core.put_later(message, delay, at, keys)

    def _until_later_may_be_put(self, keys: Iterable[str] | None, timeout: float | None) -> None:
        """Wait until one that is delayed, and has these keys, may be put; the lock is held. Raises as `send_later`."""
        self._core.check()
        self._connection._conversation.abilities.require(DELAYS)
        if keys is not None:
            self._connection._conversation.abilities.require(SEVERAL_KEYS)
        self._until_room(timeout)

    def _until_room(self, timeout: float | None) -> None:
        """Wait until one more may be put; the lock is held. Raises as `send`."""
        core, connection = self._core, self._connection
        end = None if timeout is None else time.monotonic() + timeout
        while core.full() or connection._pressed():
            core.flush()
            left = None if end is None else max(0.0, end - time.monotonic())
            if not connection._until_moving(core, lambda: core.ready() and not connection._pressed(), left):
                raise Full(f"{core.why_full()} (after {timeout} s)")
            core.check()

    def send_nowait(self, message: Message | bytes | str) -> None:
        """Send without waiting. Raises Full when capacity is used up, and as `send`."""
        self.send(message, timeout=0)

    def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent is complete, `timeout` seconds at most (None: as long as something completes).

        Raises:
            Timeout: not everything is complete in time; it may still complete.
            Unavailable: nothing has completed for the sender's time-out; it may still complete, and `sync` waits again.
            NotFound, ...: as `send`.
        """
        core = self._core
        with self._lock:
            core.flush()
            mark = core.sent
            if not self._connection._until_moving(core, lambda: core.settled(mark), timeout):
                raise core.late()
            core.check()

    def _outcome(self, messages: Iterable[Message]) -> list[int]:
        """Send, and wait for the outcome of these alone: threads may share a sender so. Which of them (0 the first) a
        queue has refused at its limit. Raises as `send` otherwise."""
        core, connection = self._core, self._connection
        numbers: list[int] = []

        def room() -> bool:
            return core.failure is not None or (core.unsettled < core.capacity and not connection._pressed())

        with self._lock:
            for message in messages:
                while not room():
                    core.flush()
                    connection._until_moving(core, room, None)
                if core.failure is not None:
                    break
                numbers.append(core.put_apart(message))
            core.flush()
            connection._until_moving(core, lambda: core.all_settled(numbers), None)
            return [numbers.index(number) for number in core.outcome(numbers)]

    def close(self) -> None:
        """Wait for what was sent, then end the sender, also when that raises (as `sync`)."""
        core = self._core
        try:
            if core.failure is None:
                if core.hopeless:
                    raise core.stalled()
                self.sync()
        finally:
            self._closed = True
            self._connection._detach(core.handle)

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            self.close()


class NamedSender(Sender):
    """A sender whose numbers its queue keeps under its name; made by `session.sender(queue, name=...)`."""

    @property
    def last_completed(self) -> int:
        """All messages up to this number are complete, or were refused: where a program that begins anew goes on."""
        return self._core.last_completed

    @property
    def repeated(self) -> int:
        """Messages that were sent under numbers which the queue had had when this sender began: they did not leave."""
        return self._core.repeated

    def send(self, message: Message | bytes | str, timeout: float | None = None, number: int | None = None) -> None:
        """Send one message, as `Sender.send`.

        Args:
            number: which message of this name's it is: rising, gaps do no harm. The one behind the last, unless given.
                What the queue has had under it is not sent again.

        Raises:
            Invalid: the number is none, or not above the last one; or none is given behind one that was sent again,
                and is not the last that the queue has had.
            LinkClosed: another sender of this name has begun.
        """
        if number is None and not self._core.behind:
            Sender.send(self, message, timeout)
            return
        with self._lock:
            self._core.check()
            self._until_room(timeout)
            if self._core.number(number):  # when it is put, and not before: several threads may wait for room
                self._core.put(message)

    def send_later(
        self,
        message: Message | bytes | str,
        delay: float | None = None,
        at: float | None = None,
        keys: Iterable[str] | None = None,
        timeout: float | None = None,
        number: int | None = None,
    ) -> None:
        """As `Sender.send_later`, under a number as `send`. What is sent again is delayed as it was the first time."""
        with self._lock:
            self._until_later_may_be_put(keys, timeout)
            if self._core.number(number):
                self._core.put_later(message, delay, at, keys)


class Receiver:
    """Receives from one queue; made by `session.receiver`.

    Iterating it fetches: it ends when nothing came for the receiver's `timeout`, and, without an error, when the
    receiver, its session or its connection is closed here; whatever else ends the receiver is raised, as by `fetch`.
    Messages that are iterated are to be settled like those that are fetched.
    """

    def __init__(self, connection: Connection, core: ReceiverCore, idle_s: float | None = None) -> None:
        self._core = core
        self._idle_s = idle_s
        self._closed = False
        self._connection = connection
        self._lock = connection._lock

    @property
    def available(self) -> int:
        """Messages that are here already."""
        return self._core.available

    def fetch_nowait(self) -> Message:
        """The next message that is here. Raises Empty when none is; LinkClosed, ConnectionLost."""
        with self._lock:
            return self._taken("no message is here yet: fetch with a timeout, or get() to ask the cluster")

    def fetch(self, timeout: float | None = None) -> Message:
        """The next message; waits `timeout` seconds, None for ever.

        Raises:
            Empty: none came in time.
            LinkClosed, Deleted, ConnectionLost: the receiver has ended.
        """
        core = self._core
        with self._lock:
            message = core.fetch()
            if message is not None:
                return message
            core.check()
            core.ask(1)
            try:
                if not self._connection._until(core.ready, timeout) and core.capacity == 0 and core.credit:
                    self._drain(True)  # take the asking back; what was on its way still counts
                return self._taken(f"no message came in {timeout} s{core.full}")
            finally:
                core.unask(1)

    def get(self, timeout: float | None = 0) -> Message:
        """The next message, or the certainty that the queue has none for us: Empty is the cluster's word. Whatever was
        complete before the call, at any broker, is found.

        Raises:
            Empty: the queue had nothing available, and nothing came within `timeout` seconds after that.
            Timeout: there is no word within the connection's `timeout`, since no majority is there, say.
        """
        messages = self.get_batch(1)
        if messages:
            return messages[0]
        if timeout == 0:
            raise Empty(f"the queue has no message available{self._core.full}")
        return self.fetch(timeout)

    def get_batch(self, count: int) -> list[Message]:
        """Up to `count` messages that the queue has for us now; fewer means it has no more. Whatever was complete
        before the call is found; Timeout as `get`: what was here stays here, to be fetched. A full window
        (`window="unaccepted"`) ends it as well."""
        core = self._core
        messages: list[Message] = []
        with self._lock:
            core.ask(count, now=False)
            try:
                while True:
                    while len(messages) < count and (message := core.fetch()) is not None:
                        messages.append(message)
                        core.unask(1)
                    if len(messages) == count:
                        return messages
                    core.check()
                    before = core.received
                    self._drain()
                    if not core.available and core.received == before:
                        core.check()
                        return messages
            except BaseException:
                core.keep(messages)
                raise
            finally:
                core.unask(count - len(messages))

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was settled is complete. Raises Timeout, Unavailable, ConnectionLost."""
        core = self._core
        with self._lock:
            core.flush()
            if not self._connection._until_moving(core, core.settled, timeout):
                raise Timeout("settlements are not complete in time; they may still complete")

    def flush(self) -> int | None:
        """Wait until all that the queue has for us, within the credit there is, has come: it is here to be fetched.

        Returns:
            How many messages then still waited in the queue, those that this receiver may not have among them; None
            where the broker is too old to say.

        Raises:
            Timeout: as `get`. LinkClosed, Deleted, ConnectionLost: the receiver has ended.
        """
        with self._lock:
            self._core.check()
            self._drain()
            self._core.check()
            return self._core.waits

    def stop(self) -> None:
        """Be sent nothing more until `start`. What was fetched may still be settled; what has come and was not fetched
        goes back to its place, flagged redelivered. Meanwhile `fetch` and `get` find nothing, and say so.

        Raises:
            Timeout: as `get`. LinkClosed, Deleted, ConnectionLost: the receiver has ended.
        """
        core = self._core
        with self._lock:
            core.check()
            mark = core.stop()
            self._connection._until(lambda: core.drained >= mark or core.failure is not None, what="stop()")
            core.check()
            core.give_back()

    def start(self) -> None:
        """Go on after `stop`."""
        with self._lock:
            self._core.check()
            self._core.start()

    def _complete(self) -> None:
        """Wait until what was settled by now is complete; later settlements of other threads are not waited for."""
        core = self._core
        with self._lock:
            numbers = core.under_way()
            self._connection._until_moving(core, lambda: core.complete(numbers), None)

    def _drain(self, giving_up: bool = False) -> None:
        core = self._core
        mark = core.drain(sure=not giving_up)
        # A caller that gives up need not wait for another broker: the credit went with the old one.
        self._connection._until(
            lambda: core.drained >= mark or core.failure is not None or (giving_up and not core.credit)
        )

    def _taken(self, empty: str) -> Message:
        message = self._core.fetch()
        if message is None:
            self._core.check()
            raise Empty(empty)
        return message

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                message = self.fetch(self._idle_s)
            except Empty:
                return
            except (LinkClosed, ConnectionLost):
                if self._closed or self._connection._conversation.closed:
                    return
                raise
            yield message

    def close(self) -> None:
        """End the receiver; what was fetched and not settled, or not fetched, goes back to its place."""
        self._closed = True
        if not self._lock.held:  # else a generator is finalised that browses: it has settled nothing
            with self._lock:
                self._core.flush()
        self._connection._detach(self._core.handle)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            self.close()
