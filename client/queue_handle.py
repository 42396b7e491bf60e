"""The Ray-native handle: ``Queue("orders")`` in any task, actor or driver, with `ray.util.queue.Queue`'s methods.

A handle is a name and an address, so it pickles to a few bytes; each process opens one connection per cluster when it
is first used. Objects other than bytes are pickled *by the client* and unpickled by the client that gets them: share
such a queue only among programs that trust each other. The cluster never unpickles anything.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from .aio import AsyncConnection, AsyncReceiver, AsyncSender, AsyncSession, connect_async
from .errors import Empty, Full, MantaError
from .message import Message
from .sync import Connection, Receiver, Sender, Session, connect

PICKLED = "application/x-python-pickle"
POLL_S = 0.01

_connections: dict[tuple[Any, str], Connection] = {}
_lock = threading.Lock()


_async_connections: dict[tuple[Any, Any, str], asyncio.Task[AsyncConnection]] = {}


def _forget() -> None:
    """In a forked child the parent's connections are not ours: neither use nor close them."""
    global _lock
    _lock = threading.Lock()
    _connections.clear()
    _async_connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _where(addresses: tuple[str, ...] | None) -> Any:
    """What `connect` takes."""
    return "local" if addresses == ("local",) else list(addresses) if addresses else None


async def _async_connection(addresses: tuple[str, ...] | None, token: str) -> AsyncConnection:
    """This event loop's connection to a cluster, shared by its handles."""
    loop = asyncio.get_running_loop()
    for key in [key for key in _async_connections if key[0].is_closed()]:
        del _async_connections[key]
    key = (loop, addresses, token)
    opening = _async_connections.get(key)
    if opening is not None and opening.done():
        if opening.cancelled() or opening.exception() is not None or opening.result().failed:
            opening = None
    if opening is None:

        async def open() -> AsyncConnection:
            return await connect_async(_where(addresses), token)

        opening = _async_connections[key] = loop.create_task(open())
    return await asyncio.shield(opening)


def _connection(addresses: tuple[str, ...] | None, token: str) -> Connection:
    """This process's connection to a cluster."""
    key = (addresses, token)
    with _lock:
        connection = _connections.get(key)
        if connection is None or connection.failed:
            if not _connections:
                atexit.register(_close_all)
            connection = _connections[key] = connect(_where(addresses), token)
        return connection


def _close_all() -> None:
    for connection in _connections.values():
        with contextlib.suppress(MantaError, OSError):
            connection.close()
    _connections.clear()


class Queue:
    """A queue of the cluster, as a picklable handle.

    An item may have 8 MiB when it is pickled, unless the cluster was started with another bound (`mantamq up
    --max-message-size`, `start_cluster(max_message_bytes=...)`); `put` refuses a larger one with `TooLarge`.

    Args:
        name: the queue's name.
        maxsize: `put` waits while the queue has so many messages; 0 for no bound. Checked before a put, so several
            putters at once may pass it by a few.
        address: as for `connect`; None is the cluster of this Ray cluster.
        token: what the cluster asks its clients for.
        create: declare the queue if it is not there.
        confirm: `put` returns when the message is complete (held by a majority); False: when it is on its way.
    """

    def __init__(
        self, name: str, maxsize: int = 0, address: str | Iterable[str] | None = None, token: str = "",
        create: bool = True, confirm: bool = True,
    ) -> None:  # fmt: skip
        self.name = name
        self.maxsize = maxsize
        self.confirm = confirm
        if isinstance(address, str):
            address = address.split(",")
        self._addresses: tuple[str, ...] | None = tuple(address) if address is not None else None
        self._token = token
        self._open_lock = threading.Lock()
        self._session: Session | None = None
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._async_links: dict[AsyncConnection, asyncio.Task[tuple[AsyncSession, AsyncSender, AsyncReceiver]]] = {}
        if create:
            self._connected().declare_queue(name)

    def __reduce__(self) -> tuple[Any, ...]:
        # The members' addresses travel with the handle, so that it works where no Ray is initialised yet.
        addresses, token = self._addresses, self._token
        if addresses is None or addresses == ("local",):
            connection = self._connected()
            addresses, token = tuple(connection.members.values()), connection.token
        return _restore, (self.name, self.maxsize, addresses, token, self.confirm)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    # ---- opening

    def _connected(self) -> Connection:
        return _connection(self._addresses, self._token)

    def _links(self) -> tuple[Session, Sender, Receiver]:
        with self._open_lock:
            connection = self._connected()
            if self._session is None or self._session.connection is not connection:
                self._session = connection.session()
                self._sender = self._session.sender(f"/{self.name}", capacity=1000)
                # No window: a message prefetched here would be missing to the others who get.
                self._receiver = self._session.receiver(self.name, capacity=0)
            assert self._sender is not None and self._receiver is not None
            return self._session, self._sender, self._receiver

    async def _links_async(self) -> tuple[AsyncSession, AsyncSender, AsyncReceiver]:
        connection = await _async_connection(self._addresses, self._token)
        opening = self._async_links.get(connection)
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):

            async def open() -> tuple[AsyncSession, AsyncSender, AsyncReceiver]:
                session = connection.session()
                sender = await session.sender(f"/{self.name}", capacity=1000)
                return session, sender, await session.receiver(self.name, capacity=0)

            for old in [old for old in self._async_links if old.failed]:
                del self._async_links[old]
            opening = self._async_links[connection] = asyncio.get_running_loop().create_task(open())
        return await asyncio.shield(opening)

    # ---- ray.util.queue.Queue's methods

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many messages wait to be got."""
        return int(self._connected().queue(self.name)["available"])

    def qsize(self) -> int:
        return self.size()

    def empty(self) -> bool:
        return self.size() == 0

    def full(self) -> bool:
        return self.maxsize > 0 and self.size() >= self.maxsize

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; complete when this returns (see `confirm`).

        Raises:
            Full: the queue is at `maxsize`, and stays there for `timeout` seconds (at once if not `block`).
            ValueError: a negative timeout.
        """
        _check_timeout(timeout)
        if self.maxsize:
            self._wait_for_room(1, timeout if block else 0)
        _, sender, _ = self._links()
        sender.send(_packed(item))
        if self.confirm:
            sender.sync()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next item.

        Raises:
            Empty: none came in `timeout` seconds (at once if not `block`).
            ValueError: a negative timeout.
        """
        _check_timeout(timeout)
        session, _, receiver = self._links()
        message = receiver.fetch(timeout) if block and timeout != 0 else receiver.get(0)
        session.acknowledge(message)
        return _unpacked(message)

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """`put`, without blocking the event loop. Cancelled while it waits, the item may or may not be added."""
        _check_timeout(timeout)
        _, sender, receiver = await self._links_async()
        if self.maxsize:
            loop = asyncio.get_running_loop()
            limit = timeout if block else 0
            end = None if limit is None else loop.time() + limit
            while (await receiver.connection.queue(self.name))["available"] >= self.maxsize:
                if end is not None and loop.time() >= end:
                    raise Full(f"queue {self.name!r} has its {self.maxsize} messages: get some, or wait longer")
                await asyncio.sleep(POLL_S)
        await sender.send(_packed(item))
        if self.confirm:
            await sender.sync()

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """`get`, without blocking the event loop. Cancelled while it waits, it takes nothing."""
        _check_timeout(timeout)
        session, _, receiver = await self._links_async()
        message = await (receiver.fetch(timeout) if block and timeout != 0 else receiver.get(0))
        await session.acknowledge(message)
        return _unpacked(message)

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items, or raise Full when they do not fit under `maxsize`."""
        if not isinstance(items, Iterable):
            raise TypeError("Argument 'items' must be an Iterable")
        items = list(items)
        if self.maxsize:
            self._wait_for_room(len(items), 0)
        _, sender, _ = self._links()
        for item in items:
            sender.send(_packed(item))
        if self.confirm:
            sender.sync()

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take `num_items` items, or raise Empty (and take none) when there are fewer."""
        if not isinstance(num_items, int):
            raise TypeError("Argument 'num_items' must be an int")
        if num_items < 0:
            raise ValueError("'num_items' must be nonnegative")
        session, _, receiver = self._links()
        messages = receiver.get_batch(num_items)
        if len(messages) < num_items:
            for message in messages:
                session.release(message)
            receiver.sync()  # they are back before the caller looks again
            raise Empty(f"fewer than {num_items} items are in the queue ({len(messages)})")
        for message in messages:
            session.acknowledge(message)
        return [_unpacked(message) for message in messages]

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Delete the queue with what is in it. The arguments are `ray.util.queue`'s and make no difference."""
        self._connected().delete_queue(self.name)

    def _wait_for_room(self, count: int, timeout: float | None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while self.size() + count > self.maxsize:
            if end is not None and time.monotonic() >= end:
                raise Full(f"queue {self.name!r} has its {self.maxsize} messages: get some, or wait longer")
            time.sleep(POLL_S)


def _restore(name: str, maxsize: int, addresses: tuple[str, ...], token: str, confirm: bool) -> Queue:
    return Queue(name, maxsize, addresses, token, create=False, confirm=confirm)


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")


def _packed(item: Any) -> Message:
    if type(item) is bytes:
        return Message(item)
    # Ray's pickler also takes lambdas and classes of __main__.
    pickler = sys.modules.get("ray.cloudpickle", pickle)
    return Message(pickler.dumps(item, protocol=5), content_type=PICKLED)


def _unpacked(message: Message) -> Any:
    return pickle.loads(message.body) if message.content_type == PICKLED else message.body
