"""The asyncio client: `connect_async` and what it gives.

Everything belongs to one event loop. `send`, `fetch`, `acknowledge` do not suspend while there is capacity or a message
is here; what they gather leaves in frames (see `sending.py`, `receiving.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any, cast

from ..protocol.errors import PeerError
from ..protocol.frames import ACCEPT, REJECT, RELEASE, AttachReceiver, AttachSender
from .addresses import resolve, split_host
from .conversation import Conversation
from .errors import Busy, ConnectionLost, Empty, Full, Invalid, MantaError, ProtocolError, Timeout, Unavailable
from .management import Management, parse_address
from .message import Message
from .receiving import ReceiverCore
from .reconnect import OFF, Reconnecting, Search
from .sending import SenderCore
from .wire import WAITING_BYTES, tune

PATIENCE_MS = 10_000
"""How long a broker is asked to bear this client's silence: an application may keep its event loop busy for a while."""


class connect_async:
    """Connect to a broker, by ``async with connect_async(...) as connection`` or ``await connect_async(...)``.

    Args:
        address: None (this Ray cluster's nearest broker), "local" (an embedded cluster), "host:port", or several.
        token: what the cluster asks its clients for.
        timeout: seconds to wait for the connection and for each answer (while there is a broker).
        brokers: size of an embedded cluster.
        reconnect_s: how long to look for another member when the broker is lost; 0 does not look.
        heartbeat_ms: a broker that is silent for two heartbeats is lost. 0 for no heartbeats.
        on_reconnect: called in the event loop with the connection when another broker has taken over.

    Raises (when awaited):
        NoCluster, ConnectionLost, Unauthorized, Unavailable, Timeout, Invalid.
    """

    def __init__(
        self, address: str | Iterable[str] | None = None, token: str = "", timeout: float = 10.0, brokers: int = 1,
        reconnect_s: float = 30.0, heartbeat_ms: int = 500,
        on_reconnect: Callable[[AsyncConnection], None] | None = None,
    ) -> None:  # fmt: skip
        reconnecting = Reconnecting(reconnect_s, heartbeat_ms, on_reconnect)
        self._arguments = (address, token, timeout, brokers, reconnecting)
        self._connection: AsyncConnection | None = None

    def __await__(self) -> Generator[Any, None, AsyncConnection]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self) -> AsyncConnection:
        address, token, timeout, brokers, reconnecting = self._arguments
        if address is None or address == "local":
            addresses, token = await asyncio.to_thread(resolve, address, token, brokers)
        else:
            addresses, token = resolve(address, token, brokers)
        failure: MantaError | None = None
        for one in addresses:
            try:
                return await AsyncConnection.open(one, token, timeout, addresses, reconnecting)
            except (ConnectionLost, Timeout, Unavailable, Busy) as error:
                failure = error
        assert failure is not None
        raise failure


class _Protocol(asyncio.Protocol):
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WAITING_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            tune(sock)

    def pause_writing(self) -> None:
        self._connection.choked(self, True)

    def resume_writing(self) -> None:
        self._connection.choked(self, False)

    def data_received(self, data: bytes) -> None:
        self._connection.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.gone(self, str(exc) if exc else "it closed the connection")


class AsyncConnection(Management):
    """One connection to a broker, and to another member when that is lost. All methods of `Management` are awaited.

    Attributes:
        address: "host:port" of the broker.
    """

    def __init__(
        self, address: str, token: str, timeout: float, given: Iterable[str] = (), reconnecting: Reconnecting = OFF
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self.pressed = False  # no broker, or so much waits to be written that senders must wait
        self._choked = False
        self._protocol = _Protocol(self)
        self._conversation = Conversation(
            address, token, self._write, reconnecting.heartbeat_ms, reconnecting.reconnect_s > 0, PATIENCE_MS
        )
        self._reconnecting = reconnecting
        self._search = Search([*given] or [address], reconnecting.reconnect_s, random.random)
        self._seeking: asyncio.Task[None] | None = None
        self._broken = False  # the link of the attempt under way broke
        self._beat: asyncio.TimerHandle | None = None
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @classmethod
    async def open(
        cls, address: str, token: str = "", timeout: float = 10.0, given: Iterable[str] = (),
        reconnecting: Reconnecting = OFF,
    ) -> AsyncConnection:  # fmt: skip
        """Connect to the broker at "host:port" and greet it; `given` are more members to try when it is lost."""
        connection = cls(address, token, timeout, given, reconnecting)
        host, port = split_host(address)
        try:
            async with asyncio.timeout(timeout):
                await connection._loop.create_connection(lambda: connection._protocol, host, port)
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(
                f"no broker answers at {address} ({error or 'no answer in time'}): check the address, and `mantamq "
                "status`"
            ) from None
        conversation = connection._conversation
        conversation.open()
        try:
            await connection.until(lambda: conversation.opened is not None or conversation.failure is not None)
            conversation.check()
        except MantaError:
            connection._protocol.transport.close()
            raise
        connection._start_beat()
        return connection

    # ---- driver

    def _write(self, data: bytes) -> None:
        self._protocol.transport.write(data)

    def received(self, protocol: _Protocol, data: bytes) -> None:
        if protocol is not self._protocol:
            return
        conversation = self._conversation
        try:
            conversation.feed(data)
        except PeerError as error:
            text = f"the broker at {self.address} broke the protocol: {error}"
            if conversation.online or not conversation.searchable:
                conversation.lost(ProtocolError(text))
                protocol.transport.close()
            else:
                conversation.leave = text
        if conversation.leave:
            self._leave()
        elif self._seeking is not None:
            self._press()
        self._notify()

    def choked(self, protocol: _Protocol, choked: bool) -> None:
        if protocol is self._protocol:
            self._choked = choked
            self._press()
            self._notify()

    def _press(self) -> None:
        conversation = self._conversation
        self.pressed = conversation.failure is None and (self._choked or not conversation.online)

    def _leave(self) -> None:
        protocol = self._protocol
        protocol.transport.abort()
        self.gone(protocol, self._conversation.leave)

    def gone(self, protocol: _Protocol, reason: str) -> None:
        if protocol is not self._protocol:
            return
        conversation = self._conversation
        reason = conversation.leave or reason
        self._stop_beat()
        if self._seeking is not None:
            self._broken = True
            conversation.interrupted()
        elif conversation.searchable:
            self._search.lost(self._loop.time(), self.broker, self.address, conversation.members)
            conversation.interrupted()
            self._seeking = self._loop.create_task(self._seek(reason))
        else:
            conversation.lost_because(reason)
        self._press()
        self._notify()

    # ---- heartbeats

    def _start_beat(self) -> None:
        self._stop_beat()
        beat = self._conversation.beat
        if beat is not None:
            self._beat = self._loop.call_later(beat.tick_s, self._on_beat)

    def _stop_beat(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _on_beat(self) -> None:
        self._beat = None
        if self._conversation.tick():
            self._start_beat()
        else:
            self._leave()

    # ---- another broker

    async def _seek(self, reason: str) -> None:
        conversation = self._conversation
        while True:
            step = self._search.next(self._loop.time())
            if step is None:
                conversation.lost_because(reason, self._search.tried)
                break
            wait_s, address, limit_s = step
            if wait_s:
                await asyncio.sleep(wait_s)
            if await self._attempt(address, limit_s):
                break
        self._seeking = None
        self._press()
        self._notify()
        if conversation.failure is None:
            self._reconnecting.tell(self)

    async def _attempt(self, address: str, limit_s: float) -> bool:
        """Try one broker. Returns whether the search is over."""
        conversation = self._conversation
        protocol = self._protocol = _Protocol(self)
        self._broken = self._choked = False
        try:
            host, port = split_host(address)
            async with asyncio.timeout(min(limit_s, self.timeout)):
                await self._loop.create_connection(lambda: protocol, host, port)
                self.address = address
                conversation.begin(address)
                await self.until(lambda: conversation.online or self._broken or conversation.failure is not None, None)
        except (OSError, TimeoutError, ValueError):  # ValueError: a member's address is none
            if protocol.transport is not None:
                protocol.transport.abort()
            conversation.interrupted()
            return False
        self._start_beat()
        over = await self.until(
            lambda: conversation.whole or self._broken or conversation.failure is not None, self.timeout
        )
        if conversation.failure is not None:
            return True
        if self._broken or not over:
            self._stop_beat()
            protocol.transport.abort()
            conversation.interrupted()
            return False
        conversation.reconnects += 1
        self._search.found(self._loop.time())
        return True

    def _notify(self) -> None:
        if self._waiters:
            for predicate, future in self._waiters:
                if not future.done() and predicate():
                    future.set_result(None)

    async def until(self, predicate: Callable[[], bool], timeout: float | None = -1.0) -> bool:
        """Wait until `predicate` holds, checked after everything that comes in.

        Args:
            timeout: seconds; None for ever; -1 the connection's own, whose end raises Timeout.

        Returns:
            False when `timeout` ended the wait.
        """
        if predicate():
            return True
        limit = self.timeout if timeout == -1.0 else timeout
        conversation = self._conversation
        while True:
            greetings = conversation.greetings
            future = self._loop.create_future()
            waiter = (predicate, future)
            self._waiters.append(waiter)
            handle = None
            if limit is not None:
                handle = self._loop.call_later(max(0.0, limit), _expire, future)
            try:
                await future
                return True
            except TimeoutError:
                if predicate():
                    return True
            finally:
                if handle is not None:
                    handle.cancel()
                self._waiters.remove(waiter)
            if timeout != -1.0:
                return False
            # Brokers answer in time; while there is none, or one is new, that time does not run.
            if conversation.greetings == greetings and (conversation.online or not greetings):
                text = f"the broker at {self.address} did not answer within {limit:g} s; the outcome is unknown"
                raise Timeout(text)

    async def _command(self, name: str, arguments: dict[str, Any], pick: Callable[[Any], Any] | None = None) -> Any:
        conversation = self._conversation
        number = conversation.command(name, arguments)
        try:
            await self.until(lambda: conversation.replied(number))
            value = conversation.result(number)
        finally:
            conversation.forget(number)
        return pick(value) if pick is not None else value

    # ---- the user's

    @property
    def broker(self) -> str:
        """The id of the broker this is (or was last) connected to."""
        opened = self._conversation.opened
        return opened.broker if opened is not None else ""

    @property
    def members(self) -> dict[str, str]:
        """Broker id to "host:port" of every member, as the cluster said last."""
        return dict(self._conversation.members)

    @property
    def reconnects(self) -> int:
        """How often another broker (or the same again) has taken over."""
        return self._conversation.reconnects

    @property
    def failed(self) -> bool:
        """Whether the connection is over."""
        return self._conversation.failure is not None

    def session(self) -> AsyncSession:
        return AsyncSession(self)

    async def close(self) -> None:
        """Say what has gathered and end the connection; what was fetched and not settled is requeued."""
        conversation = self._conversation
        if conversation.failure is None:
            for link in conversation.links():
                link.flush()
            conversation.lost(ConnectionLost("this connection was closed: connect again"))
        self._stop_beat()
        if self._seeking is not None:
            self._seeking.cancel()
        if self._protocol.transport is not None:
            self._protocol.transport.close()
        self._press()
        self._notify()

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


class AsyncSession:
    """Senders and receivers that are settled together.

    Attributes:
        lost: (queue, position) of settlements that came too late: the messages were not ours any more. After a
            reconnect also of those on their way when the broker was lost: such a message may come again, flagged.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self._senders: list[AsyncSender] = []
        self._receivers: list[AsyncReceiver] = []

    async def sender(self, address: str, capacity: int = 1000) -> AsyncSender:
        """Open a sender to "queue", "exchange/key", or "exchange" (each message's subject is its key).

        Raises:
            NotFound: there is no such queue or exchange.
        """
        connection = self.connection
        conversation = connection._conversation
        exchange, key = parse_address(address)
        keyed = False
        if not exchange and "/" not in address:
            kind = (await connection._command("resolve", {"name": address}))["kind"]
            keyed = kind == "exchange"
        if keyed:
            exchange = address
        handle = conversation.attach(lambda h: AttachSender(h, exchange, None if keyed else key))
        await _attached(connection, handle)
        sender = AsyncSender(connection, conversation.sender(handle, address, keyed, capacity))
        self._senders.append(sender)
        return sender

    async def receiver(
        self, queue: str, capacity: int = 1000, mode: str = "consume", accept: bool = True
    ) -> AsyncReceiver:
        """Open a receiver.

        Args:
            capacity: messages the broker may send ahead; 0 fetches each on demand.
            mode: "consume", or "browse" to look without taking.
            accept: False: messages are gone when they are sent to us, nothing is settled.

        Raises:
            NotFound: there is no such queue.
        """
        connection = self.connection
        conversation = connection._conversation
        handle = conversation.attach(lambda h: AttachReceiver(h, queue, mode, accept))
        await _attached(connection, handle)
        core = conversation.receiver(handle, queue, capacity, accept and mode == "consume", mode == "browse")
        receiver = AsyncReceiver(connection, core)
        self._receivers.append(receiver)
        return receiver

    def acknowledge(self, message: Message | None = None) -> None:
        """Accept a message, or all that were fetched and not settled. Complete after `sync`."""
        if message is not None:
            _receiver_of(message).settle(ACCEPT, message)
            return
        for receiver in self._receivers:
            for each in list(receiver.core.unsettled.values()):
                receiver.core.settle(ACCEPT, each)

    def release(self, message: Message) -> None:
        """Give a message back to its place in the queue."""
        _receiver_of(message).settle(RELEASE, message)

    def reject(self, message: Message) -> None:
        """Refuse a message: to the queue's alternate exchange, or discarded."""
        _receiver_of(message).settle(REJECT, message)

    @property
    def lost(self) -> list[tuple[str, int]]:
        return [(r.core.queue, position) for r in self._receivers for position in r.core.lost]

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was sent and settled is complete. Raises what a sender failed of; Timeout."""
        for sender in self._senders:
            await sender.sync(timeout)
        for receiver in self._receivers:
            await receiver.sync(timeout)
        self.connection._conversation.check()

    async def close(self) -> None:
        """Sync, then close all senders and receivers."""
        await self.sync(self.connection.timeout)
        for link in (*self._senders, *self._receivers):
            await link.close()


async def _attached(connection: AsyncConnection, handle: int) -> None:
    conversation = connection._conversation
    try:
        await connection.until(lambda: conversation.attached(handle))
    except BaseException:
        conversation.abandon(handle)
        raise


def _receiver_of(message: Message) -> ReceiverCore:
    if message.receiver is None:
        raise Invalid("only a received message can be settled")
    return message.receiver


class AsyncSender:
    """Sends to one address. Attributes: core (its books)."""

    def __init__(self, connection: AsyncConnection, core: SenderCore) -> None:
        self.core = core
        self._connection = connection
        self._put = core.put

    @property
    def unsettled(self) -> int:
        """Messages sent and not complete."""
        return self.core.unsettled

    async def send(self, message: Message | bytes | str) -> None:
        """Send one message; waits only while capacity is used up.

        Raises:
            TooLarge, Invalid: this message cannot be sent.
            NotFound, ...: earlier messages were refused (`error.numbers` are their ranges); the sender goes on.
            LinkClosed, Deleted, ConnectionLost: the sender has ended.
        """
        core = self.core
        if core.failure is not None or core.failures:
            core.check()
        connection = self._connection
        # A loop: several tasks may wait, and one completion wakes them all.
        while core.unsettled >= core.capacity or connection.pressed:
            core.flush()
            await connection.until(lambda: core.ready() and not connection.pressed, None)
            core.check()
        self._put(message)

    def send_nowait(self, message: Message | bytes | str) -> None:
        """Send without waiting. Raises Full when capacity is used up, and as `send`."""
        core = self.core
        if core.failure is not None or core.failures:
            core.check()
        if core.unsettled >= core.capacity or self._connection.pressed:
            core.flush()
            raise Full(core.why_full())
        self._put(message)

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent is complete. Raises as `send`; Timeout."""
        core = self.core
        core.flush()
        mark = core.sent
        if not await self._connection.until(lambda: core.settled(mark), timeout):
            raise Timeout(f"{self.core.unsettled} messages are not complete in time; they may still complete")
        self.core.check()

    async def close(self) -> None:
        """Wait for what was sent, then end the sender."""
        if self.core.failure is None:
            await self.sync()
        await _detach(self._connection, self.core.handle)

    async def __aenter__(self) -> AsyncSender:
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.close()


class AsyncReceiver:
    """Receives from one queue. Attributes: core (its books)."""

    def __init__(self, connection: AsyncConnection, core: ReceiverCore) -> None:
        self.core = core
        self._connection = connection

    @property
    def connection(self) -> AsyncConnection:
        return self._connection

    @property
    def available(self) -> int:
        """Messages that are here already."""
        return self.core.available

    def fetch_nowait(self) -> Message:
        """The next message that is here. Raises Empty when none is; LinkClosed, ConnectionLost."""
        message = self.core.fetch()
        if message is None:
            self.core.check()
            raise Empty("no message is here yet: fetch with a timeout, or get() to ask the cluster")
        return message

    async def fetch(self, timeout: float | None = None) -> Message:
        """The next message; waits `timeout` seconds, None for ever.

        Raises:
            Empty: none came in time.
            LinkClosed, Deleted, ConnectionLost: the receiver has ended.
        """
        core = self.core
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
                ready = await connection.until(core.ready, left)
                if not ready and core.capacity == 0 and core.credit:
                    await self._drain(True)  # take the asking back; what was on its way still counts
                message = core.fetch()
                if message is not None:
                    return message
                core.check()
                if not ready:
                    raise Empty(f"no message came in {timeout} s")
        finally:
            core.unask(1)

    async def get(self, timeout: float | None = 0) -> Message:
        """The next message, or the certainty that the queue has none for us: Empty is the cluster's word.

        Raises:
            Empty: the queue had nothing available, and nothing came within `timeout` seconds after that.
        """
        messages = await self.get_batch(1)
        if messages:
            return messages[0]
        if timeout == 0:
            raise Empty("the queue has no message available")
        return await self.fetch(timeout)

    async def get_batch(self, count: int) -> list[Message]:
        """Up to `count` messages that the queue has for us now; fewer means it has no more."""
        core = self.core
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
        finally:
            core.unask(count - len(messages))

    async def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was settled is complete. Raises Timeout, ConnectionLost."""
        self.core.flush()
        if not await self._connection.until(self.core.settled, timeout):
            raise Timeout("settlements are not complete in time; they may still complete")

    async def _drain(self, giving_up: bool = False) -> None:
        core = self.core
        mark = core.drain()
        # Whoever gives up need not wait for another broker: the credit went with the old one.
        await self._connection.until(
            lambda: core.drained >= mark or core.failure is not None or (giving_up and not core.credit)
        )

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        return await self.fetch()

    async def close(self) -> None:
        """End the receiver; what was fetched and not settled, or not fetched, goes back to its place."""
        self.core.flush()
        await _detach(self._connection, self.core.handle)

    async def __aenter__(self) -> AsyncReceiver:
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.close()


async def _detach(connection: AsyncConnection, handle: int) -> None:
    conversation = connection._conversation
    conversation.detach(handle)
    await connection.until(lambda: conversation.detached(handle))
