"""The Ray-native handle: ``Queue("orders")`` in any task, actor or driver, with `ray.util.queue.Queue`'s methods.

``Queue()`` and ``Queue(5)`` are `ray.util.queue.Queue`'s: a queue without a name, for whoever is given the handle.

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
import uuid
import weakref
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from .addresses import find_or_start
from .aio.aio import AsyncConnection, AsyncReceiver, AsyncSender, AsyncSession, connect_async
from .errors import Empty, Exists, Full, Invalid, MantaError, NotFound
from .message import Message
from .sync.sync import Connection, Receiver, Sender, Session, connect

PICKLED = "application/x-python-pickle"
POLL_S = 0.01
NO_ACTOR = frozenset({
    "accelerator_type", "label_selector", "lifetime", "max_concurrency", "max_restarts", "max_task_retries", "memory",
    "num_cpus", "num_gpus", "object_store_memory", "placement_group", "placement_group_bundle_index",
    "placement_group_capture_child_tasks", "resources", "runtime_env", "scheduling_strategy",
})  # fmt: skip
"""Options of the actor that a queue of `ray.util.queue` is. Ours has no actor to place: they make no difference."""

_connections: dict[tuple[Any, str], Connection] = {}
_unnamed: list[tuple[Connection, str]] = []
"""Queues without a name that were made here: they go with this process, as Ray's do with whoever made them."""
_lock = threading.Lock()
_opening: dict[tuple[Any, str], threading.Lock] = {}
"""Who opens a connection has its lock: a cluster that does not answer holds up no handle of another."""
_handles: weakref.WeakSet[Queue] = weakref.WeakSet()
_async_connections: dict[tuple[Any, Any, str], asyncio.Task[AsyncConnection]] = {}


def _forget() -> None:
    """In a forked child the parent's connections are not ours: neither use nor close them."""
    global _lock
    _lock = threading.Lock()
    _connections.clear()
    _opening.clear()
    _unnamed.clear()
    _async_connections.clear()
    for handle in list(_handles):  # a thread of the parent may have been opening one
        handle._open_lock, handle._opened = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _where(addresses: tuple[str, ...] | None, token: str) -> tuple[Any, str]:
    """The addresses that `connect` takes."""
    if addresses is None:
        return find_or_start(token)
    return "local" if addresses == ("local",) else list(addresses), token


async def _async_connection(addresses: tuple[str, ...] | None, token: str) -> AsyncConnection:
    """This event loop's connection to a cluster, shared by its handles."""
    loop = asyncio.get_running_loop()
    found: tuple[Any, str] | None = None
    for key in [key for key in _async_connections if key[0].is_closed()]:
        del _async_connections[key]
    key = (loop, addresses, token)
    opening = _async_connections.get(key)
    if opening is not None and opening.done():
        if opening.cancelled() or opening.exception() is not None or opening.result().failed:
            opening = None
        elif addresses is None and opening.result()._seeking:
            found = await asyncio.to_thread(_elsewhere, opening.result(), token)
            if found is not None and _async_connections.get(key) is opening:
                opening = None
            else:  # or somebody else has opened another meanwhile
                opening = _async_connections.get(key)
    if opening is None:

        async def open() -> AsyncConnection:
            return await connect_async(*(found or await asyncio.to_thread(_where, addresses, token)))

        opening = _async_connections[key] = loop.create_task(open())
    return await asyncio.shield(opening)


def _connection(addresses: tuple[str, ...] | None, token: str) -> Connection:
    """This process's connection to a cluster."""
    key = (addresses, token)
    with _lock:
        opening = _opening.setdefault(key, threading.Lock())
    with opening:
        connection = _connections.get(key)
        found = _elsewhere(connection, token) if connection is not None and addresses is None else None
        if connection is None or connection.failed or found is not None:
            connection = connect(*(found or _where(addresses, token)))
            with _lock:
                first = not _connections
                _connections[key] = connection
            if first:
                atexit.register(_close_all)  # after what `connect` has registered, so that this comes before it
        return connection


def _elsewhere(connection: Connection | AsyncConnection, token: str) -> tuple[Any, str] | None:
    """Where the cluster is that the rule names now, when `connection` has lost its broker and it is another cluster:
    the old one would be looked for until its time is over. The old connection goes on doing so for whoever uses it."""
    if not connection._seeking:
        return None
    try:
        addresses, token = find_or_start(token, start=False)
    except (MantaError, OSError):
        return None
    known = {connection.address, *connection.members.values()}
    return None if known & set(addresses) else (addresses, token)


def _close_all() -> None:
    for connection, name in _unnamed:
        with contextlib.suppress(MantaError, OSError):
            if not connection.failed and not connection._seeking:  # a program's end does not wait for a broker
                connection.delete_queue(name)
    _unnamed.clear()
    for connection in _connections.values():
        with contextlib.suppress(MantaError, OSError):
            connection.close()
    _connections.clear()


@contextlib.contextmanager
def _as_ray() -> Generator[None]:
    """Where Ray is, Empty and Full are `ray.util.queue`'s as well."""
    try:
        yield
    except (Empty, Full) as error:
        if "ray" not in sys.modules:
            raise
        from .ray_errors import like_rays

        raise like_rays(error) from None


class Queue:
    """A queue of the cluster, as a picklable handle.

    Which cluster: the one at `address`; else the one of the Ray that this process has joined, and if there is none in
    it, one is started there that ends with this program (three brokers on three nodes or more, else one); without Ray
    the one that `mantamq up` has started here; and where there is no Ray at all, an embedded one.

    A handle may be used again after anything that it raised, also when its queue was deleted and declared again.

    An item may have 8 MiB when it is pickled, unless the cluster was started with another bound (`mantamq up
    --max-message-size`, `start_cluster(max_message_bytes=...)`); `put` refuses a larger one with `TooLarge`.

    Args:
        name: the queue's name. Without one it is a queue of its own, which is deleted when this process ends: give the
            handle to others. A number is `maxsize`, as in `ray.util.queue.Queue(5)`.
        maxsize: the queue's limit, for all handles and senders of the cluster: `put` waits while the queue has this
            many items, those that a consumer has taken and not settled too. 0 or less: as the queue is, without a
            limit if it is new. A queue that is there with another limit is not used.
        address: as for `connect`; None for the rule above.
        token: what the cluster asks its clients for.
        create: declare the queue if it is not there.
        confirm: `put` returns when the message is complete (held by a majority); False: when it is on its way, but
            where the queue has a limit, since only the queue knows whether there is room.
        actor_options: taken for programs written for `ray.util.queue`. "name" is the queue's name; what says where an
            actor is to run and with what makes no difference, since there is none; anything else is refused.

    Raises:
        NoCluster: there is no cluster by the rule above, and none can be started.
        Invalid: an option of an actor that would mean something else here.
        Exists: the queue is there, with another limit than `maxsize`.
    """

    def __init__(
        self, name: str | int = "", maxsize: int | Mapping[str, Any] | None = 0,
        address: str | Iterable[str] | None = None, token: str = "", create: bool = True, confirm: bool = True,
        actor_options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if isinstance(name, int):  # as `ray.util.queue.Queue` is called: maxsize, actor_options
            if maxsize is None or isinstance(maxsize, Mapping):
                actor_options = maxsize
            elif maxsize:
                raise TypeError(f"a queue's name is a str, not {name!r}")
            name, maxsize = "", name
        if not isinstance(maxsize, int):
            raise TypeError(f"maxsize is an int, not {maxsize!r}")
        name = _named(name, actor_options)
        self.name = name or f"unnamed-{uuid.uuid4().hex}"
        self.maxsize = maxsize
        self.confirm = confirm
        if isinstance(address, str):
            address = address.split(",")
        self._addresses: tuple[str, ...] | None = tuple(address) if address is not None else None
        self._token = token
        self._open_lock = threading.Lock()
        _handles.add(self)
        self._opened: tuple[Session, Sender, Receiver] | None = None
        self._async_links: dict[AsyncConnection, asyncio.Task[tuple[AsyncSession, AsyncSender, AsyncReceiver]]] = {}
        if create:
            connection = self._connected()
            self._declare(connection)
            if not name:
                _unnamed.append((connection, self.name))

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

    def _declare(self, connection: Connection) -> None:
        try:
            if self.maxsize > 0:
                connection.declare_queue(self.name, max_count=self.maxsize, overflow="reject", flow_stop_count=0)
            else:
                connection.declare_queue(self.name)
        except Exists:
            arguments = connection.queue(self.name)["arguments"]
            found = 0
            if arguments.get("qpid.policy_type") == "reject" and "qpid.max_size" not in arguments:
                found = int(arguments.get("qpid.max_count", 0))
            if self.maxsize > 0 and found != self.maxsize:
                text = f"queue {self.name!r} is there with {f'maxsize={found}' if found else 'no such limit'}"
                raise Exists(f"{text}: leave maxsize={self.maxsize} out to use it as it is, or delete it") from None
            self.maxsize = found

    def _connected(self) -> Connection:
        return _connection(self._addresses, self._token)

    def _links(self) -> tuple[Session, Sender, Receiver]:
        with self._open_lock:
            connection = self._connected()
            links = self._opened
            if links is None or links[0].connection is not connection or _ended(links):
                self._opened = None
                session = connection.session()
                sender = session.sender(f"/{self.name}", capacity=1000)
                # No window: a message prefetched here would be missing to the others who get.
                links = self._opened = session, sender, session.receiver(self.name, capacity=0)
            return links

    async def _links_async(self) -> tuple[AsyncSession, AsyncSender, AsyncReceiver]:
        connection = await _async_connection(self._addresses, self._token)
        opening = self._async_links.get(connection)
        if opening is not None and opening.done():
            if opening.cancelled() or opening.exception() is not None or _ended(opening.result()):
                opening = None
        if opening is None:

            async def open() -> tuple[AsyncSession, AsyncSender, AsyncReceiver]:
                session = connection.session()
                sender = await session.sender(f"/{self.name}", capacity=1000)
                return session, sender, await session.receiver(self.name, capacity=0)

            for old in [old for old in self._async_links if old.failed or old._loop.is_closed()]:
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
        return self.maxsize > 0 and not self._has_room(1)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; complete when this returns (see `confirm`).

        Raises:
            Full: the queue is at `maxsize`, and stays there for `timeout` seconds (at once if not `block`). The item is
                not added.
            ValueError: a negative timeout.
            NotFound: the queue was deleted.
        """
        limit = _limit(block, timeout)
        message = _packed(item)
        with _as_ray():
            _, sender, _ = self._links()
            if self.maxsize <= 0:
                sender.send(message)
                if self.confirm:
                    sender.sync()
                return
            end = None if limit is None else time.monotonic() + limit
            while sender._outcome([message]):
                while end is None or time.monotonic() < end:
                    time.sleep(POLL_S)
                    if self._has_room(1):
                        break
                else:
                    raise self._full()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next item.

        Raises:
            Empty: none came in `timeout` seconds (at once if not `block`).
            ValueError: a negative timeout.
            NotFound, Deleted: the queue was deleted, before or while this waited.
        """
        limit = _limit(block, timeout)
        with _as_ray():
            session, _, receiver = self._links()
            message = receiver.get(0) if limit == 0 else receiver.fetch(limit)
        session.acknowledge(message)
        self._make_room(receiver)
        return _unpacked(message)

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """`put`, without blocking the event loop. Cancelled while it waits, the item may or may not be added."""
        limit = _limit(block, timeout)
        message = _packed(item)
        with _as_ray():
            session, sender, receiver = await self._links_async()
            if self.maxsize <= 0:
                await sender.send(message)
                if self.confirm:
                    await sender.sync()
                return
            end = None if limit is None else time.monotonic() + limit
            await receiver._complete()  # what we have got ourselves has made room
            while await sender._outcome([message]):
                while end is None or time.monotonic() < end:
                    await asyncio.sleep(POLL_S)
                    if (await session.connection.queue(self.name))["messages"] < self.maxsize:
                        break
                else:
                    raise self._full()

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """`get`, without blocking the event loop. Cancelled while it waits, it takes nothing. Of a queue with a limit
        others may see the room that it makes a moment later."""
        limit = _limit(block, timeout)
        with _as_ray():
            session, _, receiver = await self._links_async()
            message = await (receiver.get(0) if limit == 0 else receiver.fetch(limit))
        await session.acknowledge(message)
        receiver._core.flush()  # the event loop may end now, as at the end of `asyncio.run`
        return _unpacked(message)

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items, or raise Full when they do not fit under `maxsize`. Where others add some at the same time, so
        that only a part fits, Full says how many are added, and `error.left` are the items that are not."""
        if not isinstance(items, Iterable):
            raise TypeError("Argument 'items' must be an Iterable")
        items = list(items)
        messages = [_packed(item) for item in items]
        _, sender, _ = self._links()
        if self.maxsize > 0:
            with _as_ray():
                if not self._has_room(len(messages)):
                    raise self._full()
                left = [items[index] for index in sender._outcome(messages)]
                if left:
                    added = f"{len(messages) - len(left)} of {len(messages)} items are added, others were faster"
                    failure = Full(f"queue {self.name!r} has its {self.maxsize} messages: {added}")
                    failure.left = left
                    raise failure
            return
        for message in messages:
            sender.send(message)
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
            with _as_ray():
                raise Empty(f"fewer than {num_items} items are in the queue ({len(messages)})")
        for message in messages:
            session.acknowledge(message)
        self._make_room(receiver)
        return [_unpacked(message) for message in messages]

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Delete the queue with what is in it, if it is there. The arguments are `ray.util.queue`'s and make no
        difference."""
        with contextlib.suppress(NotFound):
            self._connected().delete_queue(self.name)

    def _has_room(self, count: int) -> bool:
        """Whether so many items would have found room just now."""
        return int(self._connected().queue(self.name)["messages"]) + count <= self.maxsize

    def _make_room(self, receiver: Receiver) -> None:
        """Where there is a limit what we have got makes room before it is returned: also for others, whom we tell."""
        if self.maxsize > 0:
            with contextlib.suppress(MantaError, OSError):  # what we have got is ours
                receiver._complete()

    def _full(self) -> Full:
        return Full(f"queue {self.name!r} has its {self.maxsize} messages: get some, or wait longer")


def _restore(name: str, maxsize: int, addresses: tuple[str, ...], token: str, confirm: bool) -> Queue:
    return Queue(name, maxsize, addresses, token, create=False, confirm=confirm)


def _named(name: str, options: Mapping[str, Any] | None) -> str:
    """The queue's name by what it is called and by the options of an actor that it does not have.

    Raises:
        Invalid: an option that would mean something else here.
    """
    options = dict(options or {})
    given = options.pop("name", None)
    if options.pop("get_if_exists", True) is not True:
        raise Invalid("actor_options: 'get_if_exists' is always so here: a queue of that name is used if it is there")
    wrong = sorted(set(options) - NO_ACTOR)
    if wrong:
        raise Invalid(f"actor_options: {', '.join(map(repr, wrong))} is not for a queue of the cluster: leave it out")
    if given and name and given != name:
        raise Invalid(f"the queue is named twice: {name!r}, and {given!r} in actor_options")
    return name or given or ""


def _ended(links: tuple[Any, Sender | AsyncSender, Receiver | AsyncReceiver]) -> bool:
    """Whether a link is over, since its queue was deleted, say: another is opened for the next use."""
    return any(link._core.failure is not None for link in links[1:])


def _limit(block: bool, timeout: float | None) -> float | None:
    """How long to wait, in seconds; None for ever."""
    if not block:
        return 0
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout


def _packed(item: Any) -> Message:
    if type(item) is bytes:
        return Message(item)
    # Ray's pickler also takes lambdas and classes of __main__.
    pickler = sys.modules.get("ray.cloudpickle", pickle)
    return Message(pickler.dumps(item, protocol=5), content_type=PICKLED)


def _unpacked(message: Message) -> Any:
    return pickle.loads(message.body) if message.content_type == PICKLED else message.body
