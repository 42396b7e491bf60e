"""The synchronous client: `connect` and what it gives. Threads may share a connection.

The twin of `aio.py`, on the same books. Calls run in the caller's thread under one lock per connection; a thread of the
connection's own reads. Not to be carried over a fork: connect anew in the child.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from ..protocol.errors import PeerError
from ..protocol.frames import ACCEPT, REJECT, RELEASE, AttachReceiver, AttachSender
from .addresses import resolve, split_host
from .aio import _receiver_of
from .conversation import Conversation
from .errors import (
    Busy,
    ConnectionLost,
    Empty,
    Full,
    MantaError,
    NotAllowed,
    ProtocolError,
    Timeout,
    Unavailable,
)
from .management import Management, parse_address
from .message import Message
from .receiving import ReceiverCore
from .reconnect import OFF, Reconnecting, Search
from .sending import SenderCore
from .wire import WAITING_BYTES, Wire


def connect(
    address: str | Iterable[str] | None = None, token: str = "", timeout: float = 10.0, brokers: int = 1,
    reconnect_s: float = 30.0, heartbeat_ms: int = 500, on_reconnect: Callable[[Connection], None] | None = None,
) -> Connection:  # fmt: skip
    """Connect to a broker; use it as a context manager.

    Args:
        address: None (this Ray cluster's nearest broker), "local" (an embedded cluster for this program's life),
            "host:port" (no Ray needed), or several of these, tried in turn.
        token: what the cluster asks its clients for.
        timeout: seconds to wait for the connection and for each answer (while there is a broker).
        brokers: size of an embedded cluster.
        reconnect_s: how long to look for another member when the broker is lost; 0 does not look.
        heartbeat_ms: a broker that is silent for two heartbeats is lost. 0 for no heartbeats.
        on_reconnect: called with the connection when another broker has taken over; in the connection's own thread, so
            it must not wait for the connection.

    Raises:
        NoCluster, ConnectionLost, Unauthorized, Unavailable, Timeout, Invalid.
    """
    reconnecting = Reconnecting(reconnect_s, heartbeat_ms, on_reconnect)
    addresses, token = resolve(address, token, brokers)
    failure: MantaError | None = None
    for one in addresses:
        try:
            return Connection(one, token, timeout, addresses, reconnecting)
        except (ConnectionLost, Timeout, Unavailable, Busy) as error:
            failure = error
    assert failure is not None
    raise failure


class Connection(Management):
    """One connection to a broker, by "host:port", and to another member when that is lost.

    Args:
        given: more members to try then. reconnecting: whether, and how, to look for them.

    Attributes:
        address: "host:port" of the broker.
    """

    def __init__(
        self, address: str, token: str = "", timeout: float = 10.0, given: Iterable[str] = (),
        reconnecting: Reconnecting = OFF,
    ) -> None:  # fmt: skip
        self.address = address
        self.timeout = timeout
        self.lock = threading.Condition(threading.Lock())
        self._waiting = 0
        self._pid = os.getpid()
        self._wire: Wire = cast(Wire, None)
        self.conversation = Conversation(
            address, token, self._write, reconnecting.heartbeat_ms, reconnecting.reconnect_s > 0
        )
        self._reconnecting = reconnecting
        self._search = Search([*given] or [address], reconnecting.reconnect_s, random.random)
        self._seeking = False
        self._broken = False  # the link of the attempt under way broke
        try:
            sock = socket.create_connection(split_host(address), timeout)
        except OSError as error:
            raise ConnectionLost(
                f"no broker answers at {address} ({error}): check the address, and `mantamq status`"
            ) from None
        self._wire = Wire(sock, self._received, self._gone, self._eased)
        self._wire.start()
        conversation = self.conversation
        try:
            with self.lock:
                conversation.open()
                self.until(lambda: conversation.opened is not None or conversation.failure is not None)
                conversation.check()
                self._start_beat()
        except MantaError:
            self._wire.close()
            raise

    # ---- driver

    def _write(self, data: bytes) -> None:
        self._check_process()
        self._wire.write(data)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise NotAllowed("a connection cannot be used after a fork: connect anew in the child process")

    def pressed(self) -> bool:
        """Whether so much waits to be written that senders must wait."""
        return self._wire.waiting > WAITING_BYTES and self.conversation.failure is None

    def _eased(self) -> None:
        with self.lock:
            self.lock.notify_all()

    def _received(self, wire: Wire, data: bytes) -> None:
        with self.lock:
            if wire is not self._wire:
                return
            conversation = self.conversation
            try:
                conversation.feed(data)
            except PeerError as error:
                text = f"the broker at {self.address} broke the protocol: {error}"
                if conversation.online or not conversation.searchable:
                    conversation.lost(ProtocolError(text))
                    wire.close()
                else:
                    conversation.leave = text
            if conversation.leave:
                wire.abort()
            if self._waiting:
                self.lock.notify_all()

    def _gone(self, wire: Wire, reason: str) -> None:
        with self.lock:
            if wire is not self._wire:
                return
            conversation = self.conversation
            reason = conversation.leave or reason
            seek = False
            if self._seeking:
                self._broken = True
                conversation.interrupted()
            elif conversation.searchable:
                self._seeking = seek = True
                self._search.lost(time.monotonic(), self.broker, self.address, conversation.members)
                conversation.interrupted()
            else:
                conversation.lost_because(reason)
            self.lock.notify_all()
        if seek:
            self._seek(reason)  # the thread of the wire that is gone has nothing else to do

    def _start_beat(self) -> None:
        conversation = self.conversation
        if conversation.beat is not None:
            self._wire.beat(conversation.beat.tick_s, conversation.tick)

    # ---- another broker

    def _seek(self, reason: str) -> None:
        conversation = self.conversation
        while True:
            with self.lock:
                step = self._search.next(time.monotonic())
                if step is None:
                    conversation.lost_because(reason, self._search.tried)
                else:
                    self.lock.wait_for(lambda: conversation.failure is not None, step[0])
                if conversation.failure is not None:
                    self._seeking = False
                    self.lock.notify_all()
                    return
            assert step is not None
            if self._attempt(*step[1:]):
                break
        self._reconnecting.tell(self)

    def _attempt(self, address: str, limit_s: float) -> bool:
        """Try one broker. Returns whether it took over."""
        conversation = self.conversation
        limit_s = min(limit_s, self.timeout)
        end = time.monotonic() + limit_s
        try:
            sock = socket.create_connection(split_host(address), limit_s)
        except (OSError, ValueError):  # ValueError: a member's address is none
            return False
        with self.lock:
            wire = self._wire = Wire(sock, self._received, self._gone, self._eased)
            self._broken = False
            self.address = address
            wire.start()
            conversation.begin(address)
            self._await(lambda: conversation.online, end - time.monotonic())
            if conversation.online and not self._broken:
                self._start_beat()
                self._await(lambda: conversation.whole, self.timeout)
            if self._broken or not conversation.whole or conversation.failure is not None:
                conversation.interrupted()
                wire.abort()
                return False
            self._seeking = False
            conversation.reconnects += 1
            self._search.found(time.monotonic())
            self.lock.notify_all()
        return True

    def _await(self, predicate: Callable[[], bool], timeout: float | None) -> None:
        """Wait in the search, with the lock held, for `predicate` or the end of the attempt."""
        failed = self.conversation
        self._waiting += 1
        try:
            self.lock.wait_for(lambda: predicate() or self._broken or failed.failure is not None, timeout)
        finally:
            self._waiting -= 1

    def until(self, predicate: Callable[[], bool], timeout: float | None = -1.0) -> bool:
        """Wait, with the lock held, until `predicate` holds.

        Args:
            timeout: seconds; None for ever; -1 the connection's own, whose end raises Timeout.

        Returns:
            False when `timeout` ended the wait.
        """
        if predicate():
            return True
        self._check_process()
        limit = self.timeout if timeout == -1.0 else timeout
        conversation = self.conversation
        while True:
            greetings = conversation.greetings
            self._waiting += 1
            try:
                done = self.lock.wait_for(predicate, limit)
            finally:
                self._waiting -= 1
            if done or timeout != -1.0:
                return done
            # Brokers answer in time; while there is none, or one is new, that time does not run.
            if conversation.greetings == greetings and (conversation.online or not greetings):
                raise Timeout(f"the broker at {self.address} did not answer within {limit:g} s; the outcome is unknown")

    def _command(self, name: str, arguments: dict[str, Any], pick: Callable[[Any], Any] | None = None) -> Any:
        conversation = self.conversation
        with self.lock:
            number = conversation.command(name, arguments)
            try:
                self.until(lambda: conversation.replied(number))
                value = conversation.result(number)
            finally:
                conversation.forget(number)
        return pick(value) if pick is not None else value

    # ---- the user's

    @property
    def broker(self) -> str:
        """The id of the broker this is (or was last) connected to."""
        opened = self.conversation.opened
        return opened.broker if opened is not None else ""

    @property
    def members(self) -> dict[str, str]:
        """Broker id to "host:port" of every member, as the cluster said last."""
        return dict(self.conversation.members)

    @property
    def reconnects(self) -> int:
        """How often another broker (or the same again) has taken over."""
        return self.conversation.reconnects

    def session(self) -> Session:
        return Session(self)

    def close(self) -> None:
        """Say what has gathered and end the connection; what was fetched and not settled is requeued."""
        with self.lock:
            if self.conversation.failure is None:
                for link in self.conversation.links():
                    link.flush()
                self.conversation.lost(ConnectionLost("this connection was closed: connect again"))
            self.lock.notify_all()
        self._wire.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """Senders and receivers that are settled together.

    Attributes:
        lost: (queue, position) of settlements that came too late: the messages were not ours any more. After a
            reconnect also of those on their way when the broker was lost: such a message may come again, flagged.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._senders: list[Sender] = []
        self._receivers: list[Receiver] = []

    def sender(self, address: str, capacity: int = 1000) -> Sender:
        """Open a sender to "queue", "exchange/key", or "exchange" (each message's subject is its key).

        Raises:
            NotFound: there is no such queue or exchange.
        """
        connection, conversation = self.connection, self.connection.conversation
        exchange, key = parse_address(address)
        keyed = False
        if "/" not in address:
            keyed = connection._command("resolve", {"name": address})["kind"] == "exchange"
        if keyed:
            exchange = address
        with connection.lock:
            handle = conversation.attach(lambda h: AttachSender(h, exchange, None if keyed else key))
            _attached(connection, handle)
            sender = Sender(connection, conversation.sender(handle, address, keyed, capacity))
        self._senders.append(sender)
        return sender

    def receiver(self, queue: str, capacity: int = 1000, mode: str = "consume", accept: bool = True) -> Receiver:
        """Open a receiver.

        Args:
            capacity: messages the broker may send ahead; 0 fetches each on demand.
            mode: "consume", or "browse" to look without taking.
            accept: False: messages are gone when they are sent to us, nothing is settled.

        Raises:
            NotFound: there is no such queue.
        """
        connection, conversation = self.connection, self.connection.conversation
        with connection.lock:
            handle = conversation.attach(lambda h: AttachReceiver(h, queue, mode, accept))
            _attached(connection, handle)
            core = conversation.receiver(handle, queue, capacity, accept and mode == "consume", mode == "browse")
        receiver = Receiver(connection, core)
        self._receivers.append(receiver)
        return receiver

    def acknowledge(self, message: Message | None = None) -> None:
        """Accept a message, or all that were fetched and not settled. Complete after `sync`."""
        with self.connection.lock:
            if message is not None:
                _receiver_of(message).settle(ACCEPT, message)
                return
            for receiver in self._receivers:
                for each in list(receiver.core.unsettled.values()):
                    receiver.core.settle(ACCEPT, each)

    def release(self, message: Message) -> None:
        """Give a message back to its place in the queue."""
        with self.connection.lock:
            _receiver_of(message).settle(RELEASE, message)

    def reject(self, message: Message) -> None:
        """Refuse a message: to the queue's alternate exchange, or discarded."""
        with self.connection.lock:
            _receiver_of(message).settle(REJECT, message)

    @property
    def lost(self) -> list[tuple[str, int]]:
        return [(r.core.queue, position) for r in self._receivers for position in r.core.lost]

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was sent and settled is complete. Raises what a sender failed of; Timeout."""
        for sender in self._senders:
            sender.sync(timeout)
        connection = self.connection
        for receiver in self._receivers:
            receiver.sync(timeout)
        with connection.lock:
            connection.conversation.check()

    def close(self) -> None:
        """Sync, then close all senders and receivers."""
        self.sync(self.connection.timeout)
        for link in (*self._senders, *self._receivers):
            link.close()


def _attached(connection: Connection, handle: int) -> None:
    conversation = connection.conversation
    try:
        connection.until(lambda: conversation.attached(handle))
    except BaseException:
        conversation.abandon(handle)
        raise


class Sender:
    """Sends to one address. Attributes: core (its books)."""

    def __init__(self, connection: Connection, core: SenderCore) -> None:
        self.core = core
        self._connection = connection
        self._lock = connection.lock
        self._put = core.put

    @property
    def unsettled(self) -> int:
        """Messages sent and not complete."""
        return self.core.unsettled

    def send(self, message: Message | bytes | str, timeout: float | None = None) -> None:
        """Send one message; waits only while capacity is used up.

        Raises:
            TooLarge, Invalid: this message cannot be sent.
            Full: capacity was used up for `timeout` seconds.
            NotFound, ...: earlier messages were refused (`error.numbers` are their ranges); the sender goes on.
            LinkClosed, Deleted, ConnectionLost: the sender has ended.
        """
        core = self.core
        with self._lock:
            if core.failure is not None or core.failures:
                core.check()
            connection = self._connection
            if core.unsettled >= core.capacity or connection.pressed():
                core.flush()
                if not connection.until(lambda: core.ready() and not connection.pressed(), timeout):
                    raise Full(f"{core.why_full()} (after {timeout} s)")
                core.check()
            self._put(message)

    def send_nowait(self, message: Message | bytes | str) -> None:
        """Send without waiting. Raises Full when capacity is used up, and as `send`."""
        self.send(message, timeout=0)

    def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent is complete. Raises as `send`; Timeout."""
        core = self.core
        with self._lock:
            core.flush()
            mark = core.sent
            if not self._connection.until(lambda: core.settled(mark), timeout):
                raise Timeout(f"{core.unsettled} messages are not complete in time; they may still complete")
            core.check()

    def close(self) -> None:
        """Wait for what was sent, then end the sender."""
        if self.core.failure is None:
            self.sync()
        _detach(self._connection, self.core.handle)

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            self.close()


class Receiver:
    """Receives from one queue. Attributes: core (its books)."""

    def __init__(self, connection: Connection, core: ReceiverCore) -> None:
        self.core = core
        self._connection = connection
        self._lock = connection.lock

    @property
    def available(self) -> int:
        """Messages that are here already."""
        return self.core.available

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
        core = self.core
        with self._lock:
            message = core.fetch()
            if message is not None:
                return message
            core.check()
            core.ask(1)
            try:
                if not self._connection.until(core.ready, timeout) and core.capacity == 0 and core.credit:
                    self._drain(True)  # take the asking back; what was on its way still counts
                return self._taken(f"no message came in {timeout} s")
            finally:
                core.unask(1)

    def get(self, timeout: float | None = 0) -> Message:
        """The next message, or the certainty that the queue has none for us: Empty is the cluster's word.

        Raises:
            Empty: the queue had nothing available, and nothing came within `timeout` seconds after that.
        """
        messages = self.get_batch(1)
        if messages:
            return messages[0]
        if timeout == 0:
            raise Empty("the queue has no message available")
        return self.fetch(timeout)

    def get_batch(self, count: int) -> list[Message]:
        """Up to `count` messages that the queue has for us now; fewer means it has no more."""
        core = self.core
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
            finally:
                core.unask(count - len(messages))

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was settled is complete. Raises Timeout, ConnectionLost."""
        core = self.core
        with self._lock:
            core.flush()
            if not self._connection.until(core.settled, timeout):
                raise Timeout("settlements are not complete in time; they may still complete")

    def _drain(self, giving_up: bool = False) -> None:
        core = self.core
        mark = core.drain()
        # Whoever gives up need not wait for another broker: the credit went with the old one.
        self._connection.until(
            lambda: core.drained >= mark or core.failure is not None or (giving_up and not core.credit)
        )

    def _taken(self, empty: str) -> Message:
        message = self.core.fetch()
        if message is None:
            self.core.check()
            raise Empty(empty)
        return message

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield self.fetch()

    def close(self) -> None:
        """End the receiver; what was fetched and not settled, or not fetched, goes back to its place."""
        with self._lock:
            self.core.flush()
        _detach(self._connection, self.core.handle)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ConnectionLost):
            self.close()


def _detach(connection: Connection, handle: int) -> None:
    conversation = connection.conversation
    with connection.lock:
        conversation.detach(handle)
        connection.until(lambda: conversation.detached(handle))
