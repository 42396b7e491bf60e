"""What an operator changes in a cluster, with an account of who did what: whatever shows one acts by this alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from ..client import connect_async
from ..client.aio.aio import AsyncConnection
from ..client.errors import Invalid, MantaError, NotFound, Timeout
from ..client.moves import Moved
from . import messages
from .imports import Imported, import_into
from .messages import MessageSeen

T = TypeVar("T")
Deed = Callable[[AsyncConnection], Awaitable[T]]
Description = dict[str, Any]
PATIENCE_S = 30.0
"""So long a deed may take, and an import ten times as long."""
IMPORT_TIMES = 10
DONE = "done"
ONE_END = "a binding leads to a queue or to an exchange: name one of them"
TEXT_CHARS = 1000
"""So much of a long text is kept in an account."""


class Link(Protocol):
    """What deeds are done over: a `BrokerLink`, or a connection that somebody keeps."""

    async def ask(self, what: Callable[[AsyncConnection], Awaitable[T]]) -> T: ...


class Asker(NamedTuple):
    """Who wants something done. Attributes: name, as they have said it, or what they use; address, where they are."""

    name: str
    address: str


class Audit(NamedTuple):
    """The account of a deed, or of one that was refused.

    Attributes:
        time_s: when it was over; Unix time in seconds.
        who, address: of the one who wanted it.
        what: the deed, as the method of `Deeds` is called.
        arguments: what it was to be done with: plain values, without bodies of messages.
        outcome: `DONE`, what it came to, or why not: the error's class and text.
    """

    time_s: float
    who: str
    address: str
    what: str
    arguments: dict[str, Any]
    outcome: str


class Deeds:
    """All that an operator changes, through one connection.

    Every deed is told to `audit`, also one that is refused. What only looks is not, but `get`, which takes.

    All raise, besides what they say, the errors of `AsyncConnection` as they are: NotFound, Exists, Invalid, InUse,
    ConnectionLost and so on, of `MantaError`; and Timeout: it took longer than `patience_s`, and may still happen.

    Args:
        link: to a broker of the cluster.
        audit: is given the account of each deed. It must not raise.
        patience_s: so long a deed may take.
        answer_bytes: `get` and `browse` end with the message by which they have so many bytes of bodies.
        token: what clients must present.
    """

    def __init__(
        self, link: Link, audit: Callable[[Audit], None], patience_s: float = PATIENCE_S,
        answer_bytes: int = messages.MOST_BYTES, token: str = "",
    ) -> None:  # fmt: skip
        self._token = token
        self._link = link
        self._audit = audit
        self._patience_s = patience_s
        self._answer_bytes = answer_bytes

    # ---- queues

    async def declare_queue(
        self, who: Asker, name: str, durable: bool = False, alternate: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> bool | str:  # fmt: skip
        """As `Connection.declare_queue`: whether it is new, or, for the name "", the one that it got.

        Args:
            arguments: by brokers' names, "x-max-length" and so on.
        """
        what: dict[str, Any] = {"name": name, "durable": durable, "alternate": alternate}
        what |= {"arguments": dict(arguments or {})}
        return await self._done(who, "declare_queue", what, lambda to: to.declare_queue(**what))

    async def delete_queue(self, who: Asker, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """As `Connection.delete_queue`: how many messages go to the alternate."""
        what: dict[str, Any] = {"name": name, "if_unused": if_unused, "if_empty": if_empty}
        return await self._done(who, "delete_queue", what, lambda to: to.delete_queue(**what))

    async def purge(self, who: Asker, name: str, count: int = 0, selector: str = "") -> int:
        """As `Connection.purge`: how many messages are gone."""
        what: dict[str, Any] = {"name": name, "count": count, "selector": selector}
        return await self._done(who, "purge", what, lambda to: to.purge(**what))

    async def move(self, who: Asker, name: str, to: str, count: int = 0, selector: str = "") -> Moved:
        """As `Connection.move`: how many have gone, and how many no queue has taken."""
        what: dict[str, Any] = {"name": name, "to": to, "count": count, "selector": selector}
        return await self._done(who, "move", what, lambda to: to.move(**what))

    async def redrive(self, who: Asker, name: str, to: str = "", count: int = 0, selector: str = "") -> Moved:
        """As `Connection.redrive`: how many dead letters have gone back, and how many stay."""
        what: dict[str, Any] = {"name": name, "to": to, "count": count, "selector": selector}
        return await self._done(who, "redrive", what, lambda to: to.redrive(**what))

    # ---- messages

    async def publish(
        self, who: Asker, exchange: str, key: str, properties: Mapping[str, Any] | None = None, body: bytes = b""
    ) -> bool:
        """Send one message, and wait until it is complete.

        Args:
            exchange: "" for the default one, where `key` is the name of a queue.
            properties: by AMQP's names (`messages.message_of`).

        Returns:
            Whether a queue has it; if not, it went nowhere.

        Raises:
            NotFound: there is no such exchange. ResourceLimitExceeded, TooLarge: a queue, or the cluster, refuses it.
            Invalid: the message cannot be sent.
        """
        what: dict[str, Any] = {"exchange": exchange, "key": key, "bytes": len(body)}
        given, limit_s = properties or {}, self._patience_s
        return await self._done(
            who, "publish", what, lambda to: messages.publish(to, exchange, key, given, body, limit_s)
        )

    async def get(
        self, who: Asker, queue: str, count: int = 1, ack_mode: str = messages.REQUEUE, body_bytes: int | None = None
    ) -> list[MessageSeen]:
        """Take messages of a queue as a consumer does, and put them back, or not.

        Args:
            count: most of them, 1 to `messages.MOST`; fewer come where they are large, or there are no more.
            ack_mode: one of `messages.ACK_MODES`: "ack_requeue_true" and "reject_requeue_true": they go back, as a
                delivery in vain, which their queue counts; "ack_requeue_false": they are gone; "reject_requeue_false":
                they go to the alternate exchange, or are gone.
            body_bytes: so much of each body is told; None for all of it.

        Raises:
            NotFound: there is no such queue. Invalid: an argument has no such value. InUse: it is another's alone.
        """
        what: dict[str, Any] = {"queue": queue, "count": count, "ack_mode": ack_mode}
        most = self._answer_bytes
        return await self._done(who, "get", what, lambda to: messages.get(to, queue, count, ack_mode, body_bytes, most))

    async def browse(
        self, queue: str, count: int = 1, body_bytes: int | None = None, selector: str = ""
    ) -> list[MessageSeen]:
        """Look at the first messages of a queue that nobody holds, without taking any; else as `get`."""
        most = self._answer_bytes
        return await self._in_time(lambda to: messages.browse(to, queue, count, body_bytes, most, selector))

    # ---- exchanges and bindings

    async def declare_exchange(
        self, who: Asker, name: str, type: str = "direct", durable: bool = False, alternate: str = "",
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        """As `Connection.declare_exchange`: whether it is new."""
        given = dict(arguments or {})
        what: dict[str, Any] = {
            "name": name,
            "type": type,
            "durable": durable,
            "alternate": alternate,
            "arguments": given,
        }
        return await self._done(who, "declare_exchange", what, lambda to: to.declare_exchange(**what))

    async def delete_exchange(self, who: Asker, name: str) -> None:
        """As `Connection.delete_exchange`."""
        await self._done(who, "delete_exchange", {"name": name}, lambda to: to.delete_exchange(name))

    async def bind(
        self, who: Asker, exchange: str, queue: str = "", key: str = "", arguments: Mapping[str, Any] | None = None,
        to_exchange: str = "",
    ) -> bool:  # fmt: skip
        """Bind a queue, or the exchange `to_exchange`, as `Connection.bind` and `bind_exchange`: whether it is new."""
        what: dict[str, Any] = {"exchange": exchange, "queue": queue, "to_exchange": to_exchange, "key": key}
        what |= {"arguments": dict(arguments or {})}
        return await self._done(who, "bind", what, lambda to: _bind(to, **what))

    async def unbind(self, who: Asker, exchange: str, queue: str = "", key: str = "", to_exchange: str = "") -> None:
        """Undo `bind`, whatever arguments it had; of a queue, or of the exchange `to_exchange`."""
        what: dict[str, Any] = {"exchange": exchange, "queue": queue, "to_exchange": to_exchange, "key": key}
        await self._done(who, "unbind", what, lambda to: _unbind(to, **what))

    async def bindings(self) -> list[Description]:
        """As `Connection.bindings`."""
        return await self._in_time(lambda to: to.bindings())

    # ---- policies and definitions

    async def add_policy(
        self, who: Asker, name: str, pattern: str, arguments: Mapping[str, Any], priority: int = 0,
        operator: bool = False, alternate: str = "",
    ) -> bool:  # fmt: skip
        """As `Connection.add_policy`: whether it is new, or another one than before.

        Args:
            arguments: what it sets, by brokers' names: "x-max-length" and so on.
        """
        what: dict[str, Any] = {"name": name, "pattern": pattern, "priority": priority, "operator": operator}
        what |= {"alternate": alternate, "arguments": dict(arguments)}
        return await self._done(who, "add_policy", what, lambda to: to.add_policy(**what))

    async def delete_policy(self, who: Asker, name: str, operator: bool = False) -> None:
        """As `Connection.delete_policy`."""
        what: dict[str, Any] = {"name": name, "operator": operator}
        await self._done(who, "delete_policy", what, lambda to: to.delete_policy(name, operator))

    async def policies(self) -> list[Description]:
        """As `Connection.policies`."""
        return await self._in_time(lambda to: to.policies())

    async def import_definitions(self, who: Asker, text: bytes, vhost: str = "") -> Imported:
        """Declare what a file has, of ours or of RabbitMQ's, and the cluster has not. What is there stays.

        Args:
            text: the file. vhost: which one of RabbitMQ's virtual hosts, "" for "/".

        Raises:
            Invalid: it cannot be read; nothing was declared.
        """
        what: dict[str, Any] = {"bytes": len(text), "vhost": vhost}
        return await self._done(
            who, "import_definitions", what, lambda to: import_into(to, text, vhost), self._patience_s * IMPORT_TIMES
        )

    async def definitions(self) -> Description:
        """As `Connection.definitions`."""
        return await self._in_time(lambda to: to.definitions())

    # ---- connections

    async def close_connection(self, who: Asker, broker: str, client: str) -> None:
        """End the connection of a client to a broker: it does not come back by itself, and what it held goes back.

        Raises:
            NotFound: there is no such broker, or it has no such client.
        """
        what: dict[str, Any] = {"broker": broker, "client": client}
        reason = f"by {who.name} at the management page"
        await self._done(who, "close_connection", what, lambda to: self._closed(to, broker, client, reason))

    async def _closed(self, to: AsyncConnection, broker: str, client: str, reason: str) -> None:
        """Only the broker that has it can end it."""
        rows = (await to.statistics("brokers"))["brokers"]
        address = next((row.get("address", "") for row in rows if row["broker"] == broker), "")
        if not address:
            raise NotFound(f"there is no broker {broker!r} that takes clients: look where that client is now")
        async with connect_async(address, token=self._token, reconnect_s=0) as there:
            await there.close_connection(client, reason)

    # ---- each of them

    async def _done(
        self, who: Asker, what: str, arguments: dict[str, Any], deed: Deed[T], patience_s: float = 0.0
    ) -> T:
        """The outcome, which `audit` hears, whatever it is."""
        outcome = "given up: it may still happen"
        try:
            value = await self._in_time(deed, patience_s)
            outcome = _outcome(value)
        except MantaError as error:
            outcome = f"{type(error).__name__}: {error.text}"
            raise
        finally:
            kept = {name: _short(value) for name, value in arguments.items()}
            self._audit(Audit(time.time(), who.name, who.address, what, kept, outcome[:TEXT_CHARS]))
        return value

    async def _in_time(self, deed: Deed[T], patience_s: float = 0.0) -> T:
        seconds = patience_s or self._patience_s
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._link.ask(deed)
        except TimeoutError:
            if not limit.expired():
                raise  # the client's own
            text = f"the cluster did not do it within {seconds:g} s: it may still happen, look before you ask again"
            raise Timeout(text) from None


def _outcome(value: Any) -> str:
    """What a deed came to, in words."""
    if isinstance(value, Moved):
        return f"{DONE}: {value.moved} moved, {value.left} left"
    if isinstance(value, Imported):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in value.counts.items() if count)
        return f"{DONE}: {counts or 'nothing in it'}"
    if isinstance(value, list):
        return f"{DONE}: {len(value)} messages"
    return DONE if value is None else f"{DONE}: {value}"


def _short(value: Any) -> Any:
    """What is too long for an account as a text that begins like it."""
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}..."


async def _bind(
    to: AsyncConnection, exchange: str, queue: str, to_exchange: str, key: str, arguments: dict[str, Any]
) -> bool:
    if to_exchange and queue:
        raise Invalid(ONE_END)
    bind = to.bind_exchange if to_exchange else to.bind
    return await bind(exchange, to_exchange or queue, key, arguments)


async def _unbind(to: AsyncConnection, exchange: str, queue: str, to_exchange: str, key: str) -> None:
    if to_exchange and queue:
        raise Invalid(ONE_END)
    unbind = to.unbind_exchange if to_exchange else to.unbind
    await unbind(exchange, to_exchange or queue, key)
