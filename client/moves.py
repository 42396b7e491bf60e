"""Messages that go on from a queue, as an operator orders: purge, move, reroute, redrive, for both twins.

A large move is asked for piece by piece under one token, of which the queue knows how far it is: so no answer takes
long, and after another broker has taken the connection over it goes on where it was, and no message goes twice.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from .books.abilities import MOVES
from .errors import Invalid, MantaError
from .management import AsyncManagement, Management, _Ask, parse_address  # pyright: ignore[reportPrivateUsage]


class Moved(NamedTuple):
    """Attributes: moved, so many messages are at home where they were sent, and gone from their queue; left, so many
    were to go and are still there, since no queue took them."""

    moved: int
    left: int


_MOST = 2**63 - 1
TOLD = "were moved"


def _counted(count: int) -> int:
    """That many messages, or as many as can be asked for, which is more than there ever are. Raises Invalid."""
    if type(count) is int and count >= 0:
        return min(count, _MOST)
    raise Invalid(f"a count of messages is a whole number, 0 for all of them, not {count!r}")


def _selecting(selector: str) -> str:
    """Raises Invalid: it is no text."""
    if isinstance(selector, str):
        return selector
    raise Invalid(f'a selector is a text such as "colour = \'red\'", or "" for all messages, not {selector!r}')


class _Move:
    """One move, piece by piece. Attributes: done, what it has come to so far."""

    def __init__(self, name: str, by: str, count: int, selector: str, exchange: str = "", key: str = "") -> None:
        self._what: dict[str, Any] = {"name": name, "token": uuid.uuid4().hex, "exchange": exchange, "key": key}
        self._what |= {"by": by, "count": _counted(count), "selector": _selecting(selector)}
        self.done = Moved(0, 0)

    @property
    def ask(self) -> _Ask[Any]:
        return _Ask("move", self._what, lambda value: value, MOVES)

    def more(self, value: dict[str, Any]) -> bool:
        """An answer has come: whether to ask again."""
        self.done = Moved(int(value["moved"]), int(value["left"]))
        return bool(value["more"])

    def failed(self, error: MantaError) -> None:
        """It has come to an end early: its user hears how far it was."""
        if self.done.moved and TOLD not in error.text:
            error.text += f"; {self.done.moved:,} messages {TOLD} before"
            error.args = (error.text,)


def _purge(name: str, count: int) -> _Ask[int]:
    return _Ask("purge", {"name": name, "count": _counted(count)}, lambda value: int(value["purged"]))


def _discard(name: str, count: int, selector: str) -> _Move:
    return _Move(name, "discard", count, selector)


def _to(name: str, to: str, count: int, selector: str) -> _Move:
    exchange, key = parse_address(to) if isinstance(to, str) else ("", "")
    if not exchange and not key:
        raise Invalid(f"name the queue, the exchange, or the exchange/key that the messages go to: it is not {to!r}")
    return _Move(name, "", count, selector, exchange, key)


def _reroute(name: str, exchange: str, count: int, selector: str) -> _Move:
    return _Move(name, "subject", count, selector, exchange)


def _redrive(name: str, to: str, count: int, selector: str) -> _Move:
    return _Move(name, "home", count, selector) if to == "" else _to(name, to, count, selector)


class MessageMoves(Management):
    """Messages that wait in a queue go on, or go. What consumers hold stays theirs.

    Each goes once, in the order of the queue, whoever dies meanwhile: a queue keeps the place of a message until it is
    complete where it goes to. What comes while a move is under way is not part of it. Where one raises Unavailable,
    ConnectionLost or Timeout part of it may be done: asked again it goes on with what is still there.
    """

    def _move_all(self, move: _Move) -> Moved:
        try:
            while move.more(self._ask(move.ask)):
                pass
        except MantaError as error:
            move.failed(error)
            raise
        return move.done

    def purge(self, name: str, count: int = 0, selector: str = "") -> int:
        """Discard available messages, at most `count` from the head (0: all), of those that `selector` wants, as of
        `Session.receiver`. Returns how many. Raises NotFound; Invalid: it is no selector."""
        if not _selecting(selector):
            return self._ask(_purge(name, count))
        return self._move_all(_discard(name, count, selector)).moved

    def move(self, name: str, to: str, count: int = 0, selector: str = "") -> Moved:
        """Have messages of a queue go on to another, with their headers, priority and what is left of their ttl.

        Args:
            to: a queue; an exchange, to which each goes by its subject, or, without one, by the name of the queue that
                it leaves; or "exchange/key".
            count: at most so many, the first ones; 0: all that there are.
            selector: only those that it wants, as of `Session.receiver`.

        Returns:
            How many have gone, and are complete where they went; and how many no queue behind an exchange has taken.

        Raises:
            NotFound: there is no such queue, or nothing of the name `to`: nothing is moved. Or the queue they go to was
                deleted meanwhile: the text says how many had gone; what it did not take is back in its place, as what
                comes back from a consumer.
            ResourceLimitExceeded: the queue they go to is at its limit; likewise.
            Invalid: it is the same queue; it is no selector. NotAllowed: it is an exchange's own queue, or the exchange
                is internal; or the broker is of an older version. Unavailable: so is a member of the cluster.
            InUse: the queue is exclusive to another connection.
        """
        return self._move_all(_to(name, to, count, selector))

    def reroute(self, name: str, exchange: str = "", count: int = 0, selector: str = "") -> Moved:
        """Have messages of a queue go on to its alternate exchange, or to another, by the routing key that they have:
        their subject, or, without one, the name of the queue.

        Raises:
            Invalid: the queue has no alternate, and none is named. And as `move`.
        """
        return self._move_all(_reroute(name, exchange, count, selector))

    def redrive(self, name: str, to: str = "", count: int = 0, selector: str = "") -> Moved:
        """Have dead letters go back, each to the queue in which it died, or all `to` another one. One that takes each
        message id once takes them though it knows theirs.

        Returns:
            How many have gone; and how many stay, since they came from a queue that is not there any more, that is at
            its limit, or from none.

        Raises:
            As `move`.
        """
        return self._move_all(_redrive(name, to, count, selector))


class AsyncMessageMoves(AsyncManagement):
    """As `MessageMoves`, awaited."""

    async def _move_all(self, move: _Move) -> Moved:
        try:
            while move.more(await self._ask(move.ask)):
                pass
        except MantaError as error:
            move.failed(error)
            raise
        return move.done

    async def purge(self, name: str, count: int = 0, selector: str = "") -> int:
        """As `Connection.purge`."""
        if not _selecting(selector):
            return await self._ask(_purge(name, count))
        return (await self._move_all(_discard(name, count, selector))).moved

    async def move(self, name: str, to: str, count: int = 0, selector: str = "") -> Moved:
        """As `Connection.move`."""
        return await self._move_all(_to(name, to, count, selector))

    async def reroute(self, name: str, exchange: str = "", count: int = 0, selector: str = "") -> Moved:
        """As `Connection.reroute`."""
        return await self._move_all(_reroute(name, exchange, count, selector))

    async def redrive(self, name: str, to: str = "", count: int = 0, selector: str = "") -> Moved:
        """As `Connection.redrive`."""
        return await self._move_all(_redrive(name, to, count, selector))
