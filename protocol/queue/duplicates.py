"""The last number a queue has seen of each client: a send repeated after a lost completion is applied once
(`sequencer.md` 3)."""

from __future__ import annotations

from collections.abc import Iterable

from ..ranges import pairs
from ..wire.events import Enqueue
from .named_senders import NamedSenders


class LastNumbers:
    """The last number per client, for at most `bound` clients; the one longest silent is forgotten first, and where it
    is a named sender, kept by `named`.

    Part of a queue's replicated state: the same calls in the same order give the same table.
    """

    __slots__ = ("_bound", "_last", "_named")

    def __init__(
        self, bound: int = 10_000, table: Iterable[tuple[str, int]] = (), named: NamedSenders | None = None
    ) -> None:
        self._bound = bound
        self._named = named or NamedSenders()
        self._last = _Table(table)
        self._last.kept = self._named.numbers

    def last(self, client: str) -> int:
        return self._last[client]

    def note(self, client: str, number: int) -> None:
        """`number` of `client` is applied."""
        last = self._last
        last.pop(client, None)  # re-inserted at the end: the dictionary's order is the order of last use
        last[client] = number
        if len(last) > self._bound:
            oldest = next(iter(last))
            self._named.keep(oldest, last.pop(oldest))

    def table(self) -> list[tuple[str, int]]:
        return list(self._last.items())


class _Table(dict[str, int]):
    """Client -> its last number. Attributes: kept, of those that are not in it any more; all others have had none."""

    kept: dict[str, int]

    def __missing__(self, client: str) -> int:
        return self.kept.get(client, 0)


def unseen(event: Enqueue, last: int) -> tuple[list[bytes], list[int]]:
    """The messages of a partly repeated enqueue whose numbers are above `last`, and when which of them expire."""
    numbers = [number for first, final in pairs(event.numbers) for number in range(first, final + 1)]
    fresh = [index for index, number in enumerate(numbers) if number > last]
    place = {index: new for new, index in enumerate(fresh)}
    expiry = [item for index, ms in pairs(event.expiry) if index in place for item in (place[index], ms)]
    return [event.blobs[index] for index in fresh], expiry
