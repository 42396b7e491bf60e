"""The synchronous client's driver: it brings bytes in and out of a conversation, keeps its heartbeat, waits until
something holds in the books, and finds another broker when one is lost. Threads may share it: one lock guards all.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

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
from ..moves import MessageMoves
from ..patterns import Patterns
from .call_lock import CallLock
from .socket_thread import WAITING_BYTES, Wire


class Driver(KnownOfItself, MessageMoves, Patterns):
    """One connection to a broker, by "host:port", and to another member when that is lost.

    Args:
        given: more members to try then. reconnecting: whether, and how, to look for them.
        send_timeout_s: how long nothing may complete while it is awaited; None: for ever.

    Attributes:
        address: "host:port" of the broker.
    """

    def __init__(
        self, address: str, token: str = "", timeout: float = 10.0, given: Iterable[str] = (),
        reconnecting: Reconnecting = OFF, send_timeout_s: float | None = SEND_TIMEOUT_S,
    ) -> None:  # fmt: skip
        self.address = address
        self.timeout = timeout
        self._lock = CallLock()
        self._to_detach: deque[int] = deque()  # links that were closed where nobody may wait for the broker
        self._waiting = 0
        self._pid = os.getpid()
        self._wire: Wire = cast(Wire, None)
        self._conversation = Conversation(
            address, token, self._write, reconnecting.heartbeat_ms, reconnecting.reconnect_s > 0,
            limit_s=checked(send_timeout_s), rescue=reconnecting.rescue,
        )  # fmt: skip
        self._reconnecting = reconnecting
        self._search = Search([*given] or [address], reconnecting.reconnect_s, random.Random().random)
        self._seeking = False
        self._broken = False  # the link of the attempt under way broke
        try:
            self._wire = self._connected(address, timeout)
        except OSError as error:
            raise ConnectionLost(
                f"no broker answers at {address} ({error}): check the address, and `mantamq status`"
            ) from None
        self._wire.start()
        conversation = self._conversation
        try:
            with self._lock:
                conversation.open()
                self._until(lambda: conversation.opened is not None or conversation.failure is not None)
                conversation.check()
                self._start_beat()
        except MantaError:
            self._wire.close()
            raise
        except BaseException:  # Ctrl-C, say: nobody is going to have this connection
            with self._lock:
                conversation.farewell()
            self._wire.abort()
            raise

    # ---- driver

    def _write(self, data: bytes) -> None:
        self._check_process()
        self._wire.write(data)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise NotAllowed("a connection cannot be used after a fork: connect anew in the child process")

    def _pressed(self) -> bool:
        """Whether more than WAITING_BYTES wait for the socket, or for a broker's room: senders must wait then."""
        waiting = max(self._wire.waiting, self._conversation.gate.waiting_bytes)
        return waiting > WAITING_BYTES and self._conversation.failure is None

    def _eased(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def _received(self, wire: Wire, data: bytes) -> None:
        with self._lock:
            if wire is not self._wire:
                return
            conversation = self._conversation
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
                self._lock.notify_all()

    def _gone(self, wire: Wire, reason: str) -> None:
        with self._lock:
            if wire is not self._wire:
                return
            conversation = self._conversation
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
            self._lock.notify_all()
        if seek:
            self._seek(reason)  # the thread of the wire that is gone has nothing else to do

    def _start_beat(self) -> None:
        beat = self._conversation.beat
        self._wire.beat(beat.tick_s if beat is not None else LOOK_S, self._tick)

    def _tick(self) -> bool:
        with self._lock:
            while self._to_detach:
                self._conversation.detach(self._to_detach.popleft())
            self._conversation.look(time.monotonic())
        return self._conversation.tick()

    # ---- another broker

    def _seek(self, reason: str) -> None:
        """Look for a broker; in the thread of the one that is lost. Whatever ends that ends the connection: others wait
        for it."""
        try:
            self._search_on(reason)
        except BaseException as error:
            with self._lock:
                self._seeking = False
                self._conversation.lost_because(f"{reason}; and no other can be looked for: {error!r}")
                self._lock.notify_all()
            raise

    def _search_on(self, reason: str) -> None:
        conversation = self._conversation
        while True:
            with self._lock:
                step = self._search.next(time.monotonic())
                if step is None:
                    conversation.lost_because(reason, self._search.tried)
                else:
                    self._lock.wait_for(lambda: conversation.failure is not None, step[0])
                if conversation.failure is not None:
                    self._seeking = False
                    self._lock.notify_all()
                    return
            assert step is not None
            if self._attempt(*step[1:]):
                break
        self._reconnecting.tell(self)

    def _attempt(self, address: str, limit_s: float) -> bool:
        """Try one broker. Returns whether it took over."""
        conversation = self._conversation
        limit_s = min(limit_s, self.timeout)
        end = time.monotonic() + limit_s
        try:
            wire = self._connected(address, limit_s)
        except (OSError, ValueError):  # ValueError: a member's address is none
            return False
        with self._lock:
            self._wire = wire
            self._broken = False
            self.address = address
            try:
                wire.start()
            except RuntimeError:  # there is no room for another thread
                wire.forget()
                return False
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
            self._lock.notify_all()
        return True

    def _connected(self, address: str, limit_s: float) -> Wire:
        """Raises OSError: no broker is there, or this process has no room for another socket."""
        sock = socket.create_connection(split_host(address), limit_s)
        try:
            return Wire(sock, self._received, self._gone, self._eased)
        except BaseException:
            sock.close()
            raise

    def _await(self, predicate: Callable[[], bool], timeout: float | None) -> None:
        """Wait in the search, with the lock held, for `predicate` or the end of the attempt."""
        failed = self._conversation
        self._waiting += 1
        try:
            self._lock.wait_for(lambda: predicate() or self._broken or failed.failure is not None, timeout)
        finally:
            self._waiting -= 1

    def _until(
        self, predicate: Callable[[], bool], timeout: float | AnswerTime | None = AnswerTime.OWN, what: str = ""
    ) -> bool:
        """Wait, with the lock held, until `predicate` holds.

        Args:
            timeout: seconds; None for ever; or the connection's own, whose end raises Timeout.
            what: then, to what an answer is awaited, for the reader.

        Returns:
            False when `timeout` ended the wait.
        """
        if predicate():
            return True
        self._check_process()
        if timeout is not AnswerTime.OWN:
            return self._wait(predicate, timeout)
        conversation = self._conversation
        answering = Answering(self.timeout, conversation.limit_s, time.monotonic(), what)
        while True:
            greetings = conversation.greetings
            if self._wait(predicate, answering.slice_s(time.monotonic())):
                return True
            # Brokers answer in time; while there is none, or one is new, that time does not run.
            same = conversation.greetings == greetings and (conversation.online or not greetings)
            answering.check(same, self.address, time.monotonic())

    def _wait(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        self._waiting += 1
        try:
            return self._lock.wait_for(predicate, timeout)
        finally:
            self._waiting -= 1

    def _until_moving(
        self, link: SenderCore | ReceiverCore, predicate: Callable[[], bool], timeout: float | None
    ) -> bool:
        """Wait, with the lock held, until `predicate` holds; as long as things move in `link`.

        Args:
            timeout: seconds; None for as long as they do.

        Returns:
            False when `timeout` ended the wait.

        Raises:
            Unavailable: nothing has moved for the link's limit.
        """
        if predicate():
            return True
        self._check_process()
        now = time.monotonic()
        end = None if timeout is None else now + timeout
        patience = link.patience
        link.waiters += 1
        try:
            link.look(now)
            expired = patience.expired
            while True:
                if self._wait(predicate, patience.slice_s(None if end is None else end - now)):
                    return True
                now = time.monotonic()
                link.look(now)
                if patience.expired != expired:
                    raise link.stalled()
                if end is not None and now >= end:
                    return False
        finally:
            link.waiters -= 1

    def _ask(self, ask: _Ask[T]) -> T:
        conversation = self._conversation
        with self._lock:
            if ask.needs is not None:
                conversation.abilities.require(ask.needs)
            number = conversation.command(ask.name, ask.arguments)
            try:
                self._until(lambda: conversation.replied(number), what=ask.name)
                value = conversation.result(number)
            finally:
                conversation.forget(number)
        return ask.pick(value)

    def _run(self, steps: Steps, timeout_s: float | None) -> Any:
        """Run steps to their end, `timeout_s` seconds at most (None: for ever). What they return, or raise."""
        with self._lock:
            try:
                awaited = next(steps)
                end = None if timeout_s is None else time.monotonic() + timeout_s
                while True:
                    left = None if end is None else max(0.0, end - time.monotonic())
                    awaited = steps.send(self._until(awaited, left))
            except StopIteration as done:
                return done.value
            finally:
                steps.close()
                self._lock.notify_all()  # others may wait for a step

    def _detach(self, handle: int) -> None:
        """End a link, and wait until it has ended, where somebody may wait: in the middle of a call, and in the thread
        that reads, nobody may."""
        if self._lock.held or self._wire.reading:
            self._to_detach.append(handle)
            return
        conversation = self._conversation
        with self._lock:
            conversation.detach(handle)
            self._until(lambda: conversation.detached(handle))

    # ---- the user's

    def close(self) -> None:
        """Say what has gathered and end the connection; what was fetched and not settled is requeued.

        What was sent and is not complete may be lost, and is while the broker has no room for it: `sync` comes before.
        A signal's handler may call it in the middle of another call: it is done when that has ended.
        """
        if self._lock.held:
            threading.Thread(target=self.close, name="mantamq-close", daemon=True).start()
            return
        with self._lock:
            if self._conversation.failure is None:
                self._conversation.farewell()
            self._lock.notify_all()
        self._wire.close()
