"""The asyncio client's driver: it brings bytes in and out of a conversation, keeps its heartbeat, waits until something
holds in the books, and finds another broker when one is lost. Everything belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Self, cast

from ...protocol.errors import PeerError
from ..addresses import split_host
from ..books.asking import Steps
from ..books.conversation import Conversation
from ..books.known import KnownOfItself
from ..books.patience import LOOK_S, SEND_TIMEOUT_S, Answering, AnswerTime, checked
from ..books.receiver import ReceiverCore
from ..books.reconnect import OFF, Reconnecting, Search
from ..books.sender import SenderCore
from ..errors import ConnectionLost, MantaError, NotAllowed, ProtocolError
from ..management import T, _Ask
from ..moves import AsyncMessageMoves
from ..patterns import AsyncPatterns
from ..sync.socket_thread import CLOSE_S, WAITING_BYTES, tune

PATIENCE_MS = 10_000
"""How long a broker is asked to bear this client's silence: an application may keep its event loop busy for a while."""


OTHER_LOOP = "a connection belongs to the event loop that it was made in: connect anew in this one"


class _Protocol(asyncio.Protocol):
    def __init__(self, connection: AsyncDriver) -> None:
        self._connection = connection
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WAITING_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            tune(sock)

    def pause_writing(self) -> None:
        self._connection._choke(self, True)

    def resume_writing(self) -> None:
        self._connection._choke(self, False)

    def data_received(self, data: bytes) -> None:
        self._connection._received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        self._connection._gone(self, str(exc) if exc else "it closed the connection")

    async def end(self) -> None:
        """End the connection when what was written has left and the broker has read it, or after `CLOSE_S`."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        try:
            # Closed with bytes that nobody has read, the socket would throw away what the broker has not read yet.
            transport.write_eof()
            async with asyncio.timeout(CLOSE_S):
                await self._ended.wait()
        except (TimeoutError, OSError):
            pass  # what is still to be written leaves while the event loop runs
        finally:
            transport.close()


class AsyncDriver(KnownOfItself, AsyncMessageMoves, AsyncPatterns):
    """One connection to a broker, and to another member when that is lost.

    Attributes:
        address: "host:port" of the broker.
    """

    def __init__(
        self, address: str, token: str, timeout: float, given: Iterable[str] = (), reconnecting: Reconnecting = OFF,
        send_timeout_s: float | None = SEND_TIMEOUT_S,
    ) -> None:  # fmt: skip
        self.address = address
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._pressed = False  # no broker, or more than WAITING_BYTES wait for the socket or a broker's room
        self._choked = False
        self._protocol = _Protocol(self)
        self._conversation = Conversation(
            address, token, self._write, reconnecting.heartbeat_ms, reconnecting.reconnect_s > 0, PATIENCE_MS,
            checked(send_timeout_s), reconnecting.rescue,
        )  # fmt: skip
        self._conversation.gate.changed = self._press
        self._reconnecting = reconnecting
        self._search = Search([*given] or [address], reconnecting.reconnect_s, random.Random().random)
        self._seeking: asyncio.Task[None] | None = None
        self._broken = False  # the link of the attempt under way broke
        self._beat: asyncio.TimerHandle | None = None
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @classmethod
    async def _open(
        cls, address: str, token: str = "", timeout: float = 10.0, given: Iterable[str] = (),
        reconnecting: Reconnecting = OFF, send_timeout_s: float | None = SEND_TIMEOUT_S,
    ) -> Self:  # fmt: skip
        """Connect to the broker at "host:port" and greet it; `given` are more members to try when it is lost."""
        connection = cls(address, token, timeout, given, reconnecting, send_timeout_s)
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
            await connection._until(lambda: conversation.opened is not None or conversation.failure is not None)
            conversation.check()
        except MantaError:
            connection._protocol.transport.close()
            raise
        except BaseException:  # it was cancelled, say: nobody is going to have this connection
            conversation.farewell()
            connection._protocol.transport.abort()
            raise
        connection._start_beat()
        return connection

    # ---- driver

    def _write(self, data: bytes) -> None:
        if self._loop.is_closed():  # its socket would take this all the same, and nobody hear the answer
            raise NotAllowed(OTHER_LOOP)
        self._protocol.transport.write(data)

    def _received(self, protocol: _Protocol, data: bytes) -> None:
        conversation = self._conversation
        if protocol is not self._protocol or conversation.closed:
            return
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

    def _choke(self, protocol: _Protocol, choked: bool) -> None:
        if protocol is self._protocol:
            self._choked = choked
            self._press()
            self._notify()

    def _press(self) -> None:
        """Senders must wait, or need not any more."""
        conversation = self._conversation
        full = self._choked or conversation.gate.waiting_bytes > WAITING_BYTES
        self._pressed = conversation.failure is None and (full or not conversation.online)

    def _leave(self) -> None:
        protocol = self._protocol
        protocol.transport.abort()
        self._gone(protocol, self._conversation.leave)

    def _gone(self, protocol: _Protocol, reason: str) -> None:
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
        self._beat = self._loop.call_later(beat.tick_s if beat is not None else LOOK_S, self._on_beat)

    def _stop_beat(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _on_beat(self) -> None:
        self._beat = None
        self._conversation.look(self._loop.time())
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
                await self._until(lambda: conversation.online or self._broken or conversation.failure is not None, None)
        except (OSError, TimeoutError, ValueError):  # ValueError: a member's address is none
            if protocol.transport is not None:
                protocol.transport.abort()
            conversation.interrupted()
            return False
        self._start_beat()
        over = await self._until(
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

    async def _until(
        self, predicate: Callable[[], bool], timeout: float | AnswerTime | None = AnswerTime.OWN, what: str = ""
    ) -> bool:
        """Wait until `predicate` holds, checked after everything that comes in.

        Args:
            timeout: seconds; None for ever; or the connection's own, whose end raises Timeout.
            what: then, to what an answer is awaited, for the reader.

        Returns:
            False when `timeout` ended the wait.
        """
        if predicate():
            return True
        if timeout is not AnswerTime.OWN:
            return await self._wait(predicate, timeout)
        conversation = self._conversation
        answering = Answering(self.timeout, conversation.limit_s, self._loop.time(), what)
        while True:
            greetings = conversation.greetings
            if await self._wait(predicate, answering.slice_s(self._loop.time())):
                return True
            # Brokers answer in time; while there is none, or one is new, that time does not run.
            same = conversation.greetings == greetings and (conversation.online or not greetings)
            answering.check(same, self.address, self._loop.time())

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise NotAllowed(OTHER_LOOP)

    async def _wait(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        self._check_loop()
        future = self._loop.create_future()
        waiter = (predicate, future)
        self._waiters.append(waiter)
        handle = None
        if timeout is not None:
            handle = self._loop.call_later(max(0.0, timeout), _expire, future)
        try:
            await future
            return True
        except TimeoutError:
            return predicate()
        finally:
            if handle is not None:
                handle.cancel()
            self._waiters.remove(waiter)

    async def _until_moving(
        self, link: SenderCore | ReceiverCore, predicate: Callable[[], bool], timeout: float | None
    ) -> bool:
        """Wait until `predicate` holds; as long as things move in `link`.

        Args:
            timeout: seconds; None for as long as they do.

        Returns:
            False when `timeout` ended the wait.

        Raises:
            Unavailable: nothing has moved for the link's limit.
        """
        if predicate():
            return True
        now = self._loop.time()
        end = None if timeout is None else now + timeout
        patience = link.patience
        link.waiters += 1
        try:
            link.look(now)
            expired = patience.expired
            while True:
                if await self._wait(predicate, patience.slice_s(None if end is None else end - now)):
                    return True
                now = self._loop.time()
                link.look(now)
                if patience.expired != expired:
                    raise link.stalled()
                if end is not None and now >= end:
                    return False
        finally:
            link.waiters -= 1

    async def _ask(self, ask: _Ask[T]) -> T:
        self._check_loop()
        conversation = self._conversation
        if ask.needs is not None:
            conversation.abilities.require(ask.needs)
        number = conversation.command(ask.name, ask.arguments)
        try:
            await self._until(lambda: conversation.replied(number), what=ask.name)
            value = conversation.result(number)
        finally:
            conversation.forget(number)
        return ask.pick(value)

    async def _run(self, steps: Steps, timeout_s: float | None) -> Any:
        """As of the synchronous twin."""
        loop = self._loop
        self._check_loop()
        try:
            awaited = next(steps)
            end = None if timeout_s is None else loop.time() + timeout_s
            while True:
                left = None if end is None else max(0.0, end - loop.time())
                awaited = steps.send(await self._until(awaited, left))
        except StopIteration as done:
            return done.value
        finally:
            steps.close()
            self._notify()  # others may wait for a step

    # ---- the user's

    async def close(self) -> None:
        """Say what has gathered and end the connection; what was fetched and not settled is requeued.

        What was sent and is not complete may be lost, and is while the broker has no room for it: `sync` comes before.
        """
        self._check_loop()
        conversation = self._conversation
        if conversation.failure is None:
            conversation.farewell()
        self._stop_beat()
        if self._seeking is not None:
            self._seeking.cancel()
        self._press()
        self._notify()
        await self._protocol.end()


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
