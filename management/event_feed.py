"""The newest rows of the event table, asked for while somebody looks at them, and at no other time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..protocol.capture.event_table import LOG_KINDS, OBSERVED_KINDS, OF_MESSAGES
from ..protocol.errors import LocalError
from .view import Row

MOST = 200
"""So many rows are shown."""
PATIENCE_S = 3.0
ALL_KINDS = tuple(sorted((*LOG_KINDS, *OBSERVED_KINDS)))
NO_MESSAGES = tuple(kind for kind in ALL_KINDS if kind not in OF_MESSAGES)
"""The kinds of what happens to queues, clients, members: few, among those of messages."""


@runtime_checkable
class EventKeeper(Protocol):
    """A way to who keeps the event table. Both block, and raise LocalError where it does not answer."""

    def newest(self, kinds: Sequence[str], queue: str, count: int) -> list[dict[str, Any]]:
        """The newest rows, as `NewestRows.find` has them."""
        ...

    def note(self, stream: str, first: int, rows: list[list[Any]]) -> int:
        """Have rows of a stream written, from place `first` on, each once; up to which place they are on disk."""
        ...


def keeper_in(found: object) -> EventKeeper | None:
    """It, where it can be asked for rows."""
    return found if isinstance(found, EventKeeper) else None


def first_line(error: Exception) -> str:
    """What an error says, without what Ray adds to it."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


class EventsSeen(NamedTuple):
    """Attributes: rows: the newest first; why: they are not known, "" where they are."""

    rows: list[Row]
    why: str = ""


class EventFeed:
    """
    Args:
        keeper: who is asked; None: nobody can be.
        patience_s: so long an answer is waited for, in seconds.
    """

    def __init__(self, keeper: EventKeeper | None = None, patience_s: float = PATIENCE_S) -> None:
        self._keeper = keeper
        self._patience_s = patience_s
        self._asking = asyncio.Lock()

    async def newest(self, kinds: Sequence[str] = (), queue: str = "") -> EventsSeen:
        """The newest rows of these kinds, none for all, with `queue` in the name of what they are about."""
        if self._keeper is None:
            return EventsSeen([], "nobody can be asked from here")
        try:
            return EventsSeen(await asyncio.wait_for(self._asked(self._keeper, kinds, queue), self._patience_s))
        except TimeoutError:
            return EventsSeen([], f"no answer within {self._patience_s:g} s")
        except (LocalError, OSError) as error:
            return EventsSeen([], first_line(error))

    async def _asked(self, keeper: EventKeeper, kinds: Sequence[str], queue: str) -> list[Row]:
        # One at a time, however many look: who does not answer keeps one thread of this process waiting.
        async with self._asking:
            return await asyncio.to_thread(keeper.newest, list(kinds), queue, MOST)
