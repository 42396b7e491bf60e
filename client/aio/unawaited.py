"""What `session.sender(...)` and `session.receiver(...)` of asyncio give before they are awaited.

It is a coroutine like any other, but for this: a sender has a `send`, and so has every coroutine, for itself. A
forgotten `await` would end in "can't send non-None value to a just-started coroutine".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ParamSpec, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")
Opens = Callable[P, Coroutine[Any, Any, T]]


def says_unawaited(method: Opens[P, T]) -> Opens[P, T]:
    """Have what this `async def` gives say that it is not awaited yet, where it is used as what it will be."""

    @functools.wraps(method)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Unawaited[T]:
        return Unawaited(method(*args, **kwargs), method.__name__)

    return opening


class Unawaited(Coroutine[Any, Any, T]):
    """A coroutine that will give a sender or a receiver.

    Args:
        coroutine: does the work, and warns when nobody ever awaits it.
        kind: "sender" or "receiver", as the session's method is called.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], kind: str) -> None:
        self._coroutine = coroutine
        self._kind = kind

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any = None, *more: Any, **named: Any) -> Any:
        """Go on, as asyncio has a coroutine do.

        Raises:
            TypeError: it is given something, as a sender would be.
        """
        if value is not None or more or named:
            raise TypeError(self._not_yet("send"))
        return self._coroutine.send(None)

    def throw(self, *wrong: Any) -> Any:
        return cast(Any, self._coroutine).throw(*wrong)

    def close(self) -> None:
        self._coroutine.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(self._not_yet(name))

    def _not_yet(self, name: str) -> str:
        kind = self._kind
        return (
            f"session.{kind}(...) is no {kind}, and has no {name!r}, before it is awaited: `{kind} = await "
            f"session.{kind}(...)`"
        )
