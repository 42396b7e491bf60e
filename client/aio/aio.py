"""The asyncio client: `connect_async` and what it gives.

Everything belongs to one event loop. `send`, `fetch`, `acknowledge` do not suspend while there is capacity or a message
is here; what they gather leaves in frames (see `books/sender.py`, `books/receiver.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, overload

from ...protocol.wire.client_frames import AttachReceiver, AttachSender
from ...protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE
from ..addresses import resolve
from ..books.abilities import DELAYS, MANDATORY, MODIFY, SEVERAL_KEYS
from ..books.asking import asking
from ..books.patience import SEND_TIMEOUT_S, checked, idle
from ..books.receiver import ReceiverCore
from ..books.reconnect import Reconnecting
from ..books.requests import REPLIES, ReplySender, to_reply
from ..books.sender import SenderCore
from ..errors import Busy, ConnectionLost, Empty, Full, Invalid, LinkClosed, MantaError, Timeout, Unavailable
from ..management import _resolve, parse_address
from ..message import Message
from .driver import AsyncDriver
from .unawaited import says_unawaited


class connect_async:
    """Connect to a broker, by ``async with connect_async(...) as connection`` or ``await connect_async(...)``.

    Args:
        address: None (this Ray cluster's nearest broker), "local" (an embedded cluster), "host:port", or several.
        token: what the cluster asks its clients for.
        timeout: seconds to wait for the connection and for each answer (while there is a broker).
        brokers: size of the embedded cluster, where this starts it: a program has one. None: one broker, or as many as
            have a store in `data`.
        reconnect_s: how long to look for another member when the broker is lost; 0 does not look.
        heartbeat_ms: a broker that is silent for two heartbeats is lost. 0 for no heartbeats.
        send_timeout_s: how long nothing may complete of what is sent or settled, before whoever waits for it, or sends
            more, gets Unavailable; None: for ever. A sender may have its own.
        on_reconnect: called in the event loop with the connection when another broker has taken over.
        rescue: only look, also at a broker that has lost the majority (`connect`).
        data: directory in which an embedded cluster keeps its durable queues; None: in memory.

    Raises (when awaited):
        NoCluster, ConnectionLost, Unauthorized, Unavailable, Timeout, Invalid.
    """

    def __init__(
        self, address: str | Iterable[str] | None = None, token: str = "", timeout: float = 10.0,
        brokers: int | None = None,
        reconnect_s: float = 30.0, heartbeat_ms: int = 500,
        on_reconnect: Callable[[AsyncConnection], None] | None = None, send_timeout_s: float | None = SEND_TIMEOUT_S,
        rescue: bool = False, data: str | None = None,
    ) -> None:  # fmt: skip
        reconnecting = Reconnecting(reconnect_s, heartbeat_ms, on_reconnect, rescue)
        self._arguments = (address, token, timeout, brokers, data, reconnecting, checked(send_timeout_s))
        self._connection: AsyncConnection | None = None

    def __await__(self) -> Generator[Any, None, AsyncConnection]:
        return self._connect().__await__()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(AsyncConnection, name) and not name.startswith("__"):
                raise AttributeError(
                    f"connect_async(...) is no connection, and has no {name!r}, before it is awaited: `connection = "
                    "await connect_async(...)`, or `async with connect_async(...) as connection`"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self) -> AsyncConnection:
        address, token, timeout, brokers, data, reconnecting, send_timeout_s = self._arguments
        if address is None or address == "local":
            addresses, token = await asyncio.to_thread(resolve, address, token, brokers, data)
        else:
            addresses, token = resolve(address, token, brokers, data)
        failure: MantaError | None = None
        for one in addresses:
            try:
                return await AsyncConnection._open(one, token, timeout, addresses, reconnecting, send_timeout_s)
            except (ConnectionLost, Timeout, Unavailable, Busy) as error:
                failure = error
        assert failure is not None
        raise failure


class AsyncConnection(AsyncDriver):
    """One connection to a broker, and to another member when that is lost.

    Methods that speak to the cluster are coroutines, here and in all that a connection gives; properties, `session()`
    and names in `_nowait` speak to nobody. A forgotten `await` is a RuntimeWarning that names the method, and nothing
    happens.
    """

    def session(self) -> AsyncSession:
        """A new session; nothing is said to the broker before its first sender or receiver."""
        return AsyncSession(self)

    async def request(self, address: str, body: Message | bytes | str, timeout_s: float | None = 10.0) -> Message:
        """As `Connection.request`."""
        steps = asking(self._conversation, lambda: self._pressed, address, body, timeout_s)
        return await self._run(steps, timeout_s)

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSession:
    """Senders and receivers that are settled together."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self._senders: list[AsyncSender] = []
        self._receivers: list[AsyncReceiver] = []
        self._repliers: dict[str, AsyncSender] = {}  # exchange -> by which replies go to it

    @overload
    async def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        name: None = None,
    ) -> AsyncSender: ...

    @overload
    async def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        *,
        name: str,
    ) -> AsyncNamedSender: ...

    @says_unawaited
    async def sender(
        self,
        address: str,
        capacity: int = 1000,
        send_timeout_s: float | Literal["connection"] | None = "connection",
        mandatory: bool = False,
        name: str | None = None,
    ) -> AsyncSender:
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
        connection = self.connection
        conversation = connection._conversation
        limit_s = conversation.limit_s if send_timeout_s == "connection" else checked(send_timeout_s)
        exchange, key = parse_address(address)
        keyed = False
        if mandatory:
            conversation.abilities.require(MANDATORY)
        if not exchange and "/" not in address:
            keyed = await connection._ask(_resolve(address)) == "exchange"
        if keyed:
            exchange = address
        named = conversation.abilities.name(name, keyed or exchange != "")
        return await self._open(exchange, None if keyed else key, address, capacity, limit_s, mandatory, named=named)

    async def _open(
        self, exchange: str, key: str | None, address: str, capacity: int, limit_s: float | None, mandatory: bool,
        kind: type[SenderCore] = SenderCore, named: str = "",
    ) -> AsyncSender:  # fmt: skip
        connection, conversation = self.connection, self.connection._conversation
        connection._check_loop()
        handle = conversation.attach(lambda h: AttachSender(h, exchange, key, 0, mandatory, named))
        await _attached(connection, handle)
        core = conversation.sender(handle, address, key is None, capacity, limit_s, kind)
        sender = AsyncNamedSender(connection, core) if named else AsyncSender(connection, core)
        self._senders.append(sender)
        return sender

    @says_unawaited
    async def receiver(
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
    ) -> AsyncReceiver:
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
        connection = self.connection
        conversation = connection._conversation
        able, alone = conversation.abilities, conversation.claim(exclusive, mode)
        wanted, rank, others = able.selector(selector), able.priority(priority, mode), able.no_local(no_local)
        connection._check_loop()
        handle = conversation.attach(
            lambda h: AttachReceiver(h, queue, mode, accept, [], wanted, alone, rank, no_local=others)
        )
        await _attached(connection, handle)
        settles = accept and mode == "consume"
        core = conversation.receiver(handle, queue, capacity, settles, mode == "browse", window)
        receiver = AsyncReceiver(connection, core, idle_s)
        self._receivers.append(receiver)
        return receiver

    async def browse(self, queue: str, capacity: int = 1000, selector: str | None = None) -> AsyncGenerator[Message]:
        """Look at all messages of a queue, in order, without taking any: ``async for message in session.browse("q")``.

        It ends where the queue ends: what was complete when it began is there (but for what others take meanwhile), and
        what is sent meanwhile as well. What consumers hold is not shown, unless the connection is for rescue. With a
        `selector`, as of `receiver`, only messages for which it is true.

        Raises:
            NotFound: there is no such queue.
            Deleted, ConnectionLost: the queue, or the connection, has ended. Timeout: as `get`.
        """
        receiver = await self.receiver(queue, capacity, "browse", selector=selector)
        try:
            async with receiver:
                while True:
                    try:
                        message = await receiver.get()
                    except Empty:
                        return
                    yield message
        finally:
            self._receivers.remove(receiver)

    async def acknowledge(self, message: Message | None = None) -> None:
        """Accept a message, or all that were fetched and not settled. Complete after `sync`."""
        if message is not None:
            _receiver_of(message).settle(ACCEPT, message)
            return
        for receiver in self._receivers:
            for each in list(receiver._core.unsettled.values()):
                receiver._core.settle(ACCEPT, each)

    async def release(self, message: Message, delay: float | None = None) -> None:
        """As `Session.release`."""
        if delay is None:
            _receiver_of(message).settle(RELEASE, message)
            return
        self.connection._conversation.abilities.require(DELAYS)
        _receiver_of(message).modify(message, True, delay=delay)

    async def reject(self, message: Message) -> None:
        """Refuse a message: to the queue's alternate exchange, or discarded."""
        _receiver_of(message).settle(REJECT, message)

    async def modify(
        self,
        message: Message,
        failed: bool = False,
        undeliverable_here: bool = False,
        annotations: dict[str, Any] | None = None,
    ) -> None:
        """As `Session.modify`."""
        self.connection._conversation.abilities.require(MODIFY)
        _receiver_of(message).modify(message, failed, undeliverable_here, annotations)

    async def reply(self, message: Message, body: Message | bytes | str) -> None:
        """As `Session.reply`."""
        exchange, key, reply = to_reply(message, body)
        replier = self._repliers.get(exchange)
        if replier is None or replier._core.failure is not None:
            limit_s = self.connection._conversation.limit_s
            replier = await self._open(exchange, None, exchange, REPLIES, limit_s, False, ReplySender)
            self._repliers[exchange] = replier
        await replier.send_to(reply, (key,))

    @property
    def lost(self) -> list[tuple[str, int]]:
        """(queue, position) of settlements that came too late: the messages were not ours any more. After a reconnect
        also of those on their way when the broker was lost: such a message may come again, flagged."""
        return [(r._core.queue, position) for r in self._receivers for position in r._core.lost]

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was sent and settled is complete. Raises as theirs do."""
        self._senders = [sender for sender in self._senders if not sender._closed]  # those have said it all
        for sender in self._senders:
            await sender.sync(timeout)
        for receiver in self._receivers:
            await receiver.sync(timeout)
        self.connection._conversation.check()

    async def close(self) -> None:
        """Sync, then close all senders and receivers. Where the connection was closed there is nothing to do."""
        if self.connection._conversation.closed:
            return
        await self.sync(self.connection.timeout)
        for link in (*self._senders, *self._receivers):
            await link.close()


async def _attached(connection: AsyncConnection, handle: int) -> None:
    conversation = connection._conversation
    try:
        await connection._until(lambda: conversation.attached(handle), what="what opens a link")
    except BaseException:
        conversation.abandon(handle)
        raise


def _receiver_of(message: Message) -> ReceiverCore:
    if not isinstance(message, Message):
        raise Invalid(f"what is settled is a message as it was received, not {type(message).__name__}")
    if message._receiver is None:
        raise Invalid("only a received message can be settled")
    return message._receiver


class AsyncSender:
    """Sends to one address; made by `session.sender`."""

    def __init__(self, connection: AsyncConnection, core: SenderCore) -> None:
        self._core = core
        self._connection = connection
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

    async def send(self, message: Message | bytes | str) -> None:
        """Send one message; waits only while capacity is used up.

        Raises:
            TooLarge, Invalid: this message cannot be sent.
            NotFound, Unroutable, ResourceLimitExceeded, ...: earlier messages were refused (`error.numbers` are their
                ranges); it goes on.
            Unavailable: nothing has completed for the sender's time-out; this message was not taken.
            LinkClosed, Deleted, ConnectionLost: the sender has ended (a NotFound as well: its exchange is gone).
        """
        core = self._core
        if core.failure is not None or core.failures:
            core.check()
        connection = self._connection
        # A loop: several tasks may wait, and one completion wakes them all.
        while core.unsettled >= core.capacity or connection._pressed:
            core.flush()
            await connection._until_moving(core, lambda: core.ready() and not connection._pressed, None)
            core.check()
        self._put(message)

    async def send_to(self, message: Message | bytes | str, keys: Iterable[str]) -> None:
        """As `Sender.send_to`."""
        core, connection = self._core, self._connection
        core.check()
        connection._conversation.abilities.require(SEVERAL_KEYS)
        await self._until_room()
        core.put_to(message, keys)

    async def send_later(
        self,
        message: Message | bytes | str,
        delay: float | None = None,
        at: float | None = None,
        keys: Iterable[str] | None = None,
    ) -> None:
        """As `Sender.send_later`."""
        await self._until_later_may_be_put(keys)
        self._core.put_later(message, delay, at, keys)

    async def _until_later_may_be_put(self, keys: Iterable[str] | None) -> None:
        """Wait until one that is delayed, and has these keys, may be put. Raises as `send_later`."""
        self._core.check()
        self._connection._conversation.abilities.require(DELAYS)
        if keys is not None:
            self._connection._conversation.abilities.require(SEVERAL_KEYS)
        await self._until_room()

    async def _until_room(self) -> None:
        """Wait until one more may be put. Raises as `send`."""
        core, connection = self._core, self._connection
        while core.full() or connection._pressed:
            core.flush()
            await connection._until_moving(core, lambda: core.ready() and not connection._pressed, None)
            core.check()

    def send_nowait(self, message: Message | bytes | str) -> None:
        """Send without waiting. Raises Full when capacity is used up, and as `send`."""
        core = self._core
        if core.failure is not None or core.failures:
            core.check()
        if core.unsettled >= core.capacity or self._connection._pressed:
            core.flush()
            raise Full(core.why_full())
        self._put(message)

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent is complete, `timeout` seconds at most (None: as long as something completes).

        Raises:
            Timeout: not everything is complete in time; it may still complete.
            Unavailable: nothing has completed for the sender's time-out; it may still complete, and `sync` waits again.
            NotFound, ...: as `send`.
        """
        core = self._core
        core.flush()
        mark = core.sent
        if not await self._connection._until_moving(core, lambda: core.settled(mark), timeout):
            raise core.late()
        self._core.check()

    async def _outcome(self, messages: Iterable[Message]) -> list[int]:
        """As `Sender._outcome`: tasks may share a sender so."""
        core, connection = self._core, self._connection
        numbers: list[int] = []

        def room() -> bool:
            return core.failure is not None or (core.unsettled < core.capacity and not connection._pressed)

        for message in messages:
            while not room():
                core.flush()
                await connection._until_moving(core, room, None)
            if core.failure is not None:
                break
            numbers.append(core.put_apart(message))
        core.flush()
        await connection._until_moving(core, lambda: core.all_settled(numbers), None)
        return [numbers.index(number) for number in core.outcome(numbers)]

    async def close(self) -> None:
        """Wait for what was sent, then end the sender, also when that raises (as `sync`)."""
        core = self._core
        try:
            if core.failure is None:
                if core.hopeless:
                    raise core.stalled()
                await self.sync()
        finally:
            self._closed = True
            await _detach(self._connection, core.handle)

    async def __aenter__(self) -> AsyncSender:
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.close()


class AsyncNamedSender(AsyncSender):
    """As `NamedSender`."""

    @property
    def last_completed(self) -> int:
        """As `NamedSender.last_completed`."""
        return self._core.last_completed

    @property
    def repeated(self) -> int:
        """As `NamedSender.repeated`."""
        return self._core.repeated

    def send(self, message: Message | bytes | str, number: int | None = None) -> CoroutineType[Any, Any, None]:
        """As `NamedSender.send`."""
        plain = number is None and not self._core.behind
        return AsyncSender.send(self, message) if plain else self._send_as(message, number)

    async def _send_as(self, message: Message | bytes | str, number: int | None) -> None:
        """A number is this message's when it is put, and not before: several tasks may wait for room."""
        self._core.check()
        await self._until_room()
        if self._core.number(number):
            self._core.put(message)

    async def send_later(
        self,
        message: Message | bytes | str,
        delay: float | None = None,
        at: float | None = None,
        keys: Iterable[str] | None = None,
        number: int | None = None,
    ) -> None:
        """As `NamedSender.send_later`."""
        await self._until_later_may_be_put(keys)
        if self._core.number(number):
            self._core.put_later(message, delay, at, keys)


class AsyncReceiver:
    """Receives from one queue; made by `session.receiver`.

    Iterating it fetches: it ends when nothing came for the receiver's `timeout`, and, without an error, when the
    receiver, its session or its connection is closed here; whatever else ends the receiver is raised, as by `fetch`.
    Messages that are iterated are to be settled like those that are fetched.
    """

    def __init__(self, connection: AsyncConnection, core: ReceiverCore, idle_s: float | None = None) -> None:
        self._core = core
        self._idle_s = idle_s
        self._closed = False
        self._connection = connection

    @property
    def connection(self) -> AsyncConnection:
        """The connection it belongs to."""
        return self._connection

    @property
    def available(self) -> int:
        """Messages that are here already."""
        return self._core.available

    def fetch_nowait(self) -> Message:
        """The next message that is here. Raises Empty when none is; LinkClosed, ConnectionLost."""
        message = self._core.fetch()
        if message is None:
            self._core.check()
            raise Empty("no message is here yet: fetch with a timeout, or get() to ask the cluster")
        return message

    async def fetch(self, timeout: float | None = None) -> Message:
        """The next message; waits `timeout` seconds, None for ever.

        Raises:
            Empty: none came in time.
            LinkClosed, Deleted, ConnectionLost: the receiver has ended.
        """
        core = self._core
        message = core.fetch()
        if message is not None:
            return message
        core.check()
        connection = self._connection
        end = None if timeout is None else connection._loop.time() + timeout
        core.ask(1)
        try:
            while True:  # several tasks may wait, and one message wakes them all
                left = None if end is None else max(0.0, end - connection._loop.time())
                ready = await connection._until(core.ready, left)
                if not ready and core.capacity == 0 and core.credit:
                    await self._drain(True)  # take the asking back; what was on its way still counts
                message = core.fetch()
                if message is not None:
                    return message
                core.check()
                if not ready:
                    raise Empty(f"no message came in {timeout} s{core.full}")
        finally:
            core.unask(1)

    async def get(self, timeout: float | None = 0) -> Message:
        """The next message, or the certainty that the queue has none for us: Empty is the cluster's word. Whatever was
        complete before the call, at any broker, is found.

        Raises:
            Empty: the queue had nothing available, and nothing came within `timeout` seconds after that.
            Timeout: there is no word within the connection's `timeout`, since no majority is there, say.
        """
        messages = await self.get_batch(1)
        if messages:
            return messages[0]
        if timeout == 0:
            raise Empty(f"the queue has no message available{self._core.full}")
        return await self.fetch(timeout)

    async def get_batch(self, count: int) -> list[Message]:
        """Up to `count` messages that the queue has for us now; fewer means it has no more. Whatever was complete
        before the call is found; Timeout as `get`: what was here stays here, to be fetched. A full window
        (`window="unaccepted"`) ends it as well."""
        core = self._core
        messages: list[Message] = []
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
                await self._drain()
                if not core.available and core.received == before:
                    core.check()
                    return messages
        except BaseException:
            core.keep(messages)
            raise
        finally:
            core.unask(count - len(messages))

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was settled is complete. Raises Timeout, Unavailable, ConnectionLost."""
        self._core.flush()
        if not await self._connection._until_moving(self._core, self._core.settled, timeout):
            raise Timeout("settlements are not complete in time; they may still complete")

    async def flush(self) -> int | None:
        """As `Receiver.flush`."""
        self._core.check()
        await self._drain()
        self._core.check()
        return self._core.waits

    async def stop(self) -> None:
        """As `Receiver.stop`."""
        core = self._core
        core.check()
        mark = core.stop()
        await self._connection._until(lambda: core.drained >= mark or core.failure is not None, what="stop()")
        core.check()
        core.give_back()

    async def start(self) -> None:
        """Go on after `stop`."""
        self._core.check()
        self._core.start()

    async def _complete(self) -> None:
        """As `Receiver._complete`."""
        core = self._core
        numbers = core.under_way()
        await self._connection._until_moving(core, lambda: core.complete(numbers), None)

    async def _drain(self, giving_up: bool = False) -> None:
        core = self._core
        mark = core.drain(sure=not giving_up)
        # A caller that gives up need not wait for another broker: the credit went with the old one.
        await self._connection._until(
            lambda: core.drained >= mark or core.failure is not None or (giving_up and not core.credit)
        )

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.fetch(self._idle_s)
        except Empty:
            raise StopAsyncIteration from None
        except (LinkClosed, ConnectionLost):
            if self._closed or self._connection._conversation.closed:
                raise StopAsyncIteration from None
            raise

    async def close(self) -> None:
        """End the receiver; what was fetched and not settled, or not fetched, goes back to its place."""
        self._closed = True
        self._core.flush()
        await _detach(self._connection, self._core.handle)

    async def __aenter__(self) -> AsyncReceiver:
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.close()


async def _detach(connection: AsyncConnection, handle: int) -> None:
    conversation = connection._conversation
    conversation.detach(handle)
    await connection._until(lambda: conversation.detached(handle))
