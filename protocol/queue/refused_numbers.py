"""Which of its clients' numbers a queue has refused, so that a send that is repeated hears the same, at whatever
broker.

Part of a queue's replicated state, and bounded: a client repeats what it has not heard of, which is at most its
senders' capacity.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ranges import RangeSet


class RefusedNumbers:
    """Args:
    table: (client, its refused numbers as ranges).
    clients: of so many clients it is known; the one refused longest ago is forgotten first.
    repeated: a number that is so far below its client's last refused one is not repeated any more.
    """

    __slots__ = ("_clients", "_of", "_repeated")

    def __init__(
        self, table: Iterable[tuple[str, list[int]]] = (), clients: int = 10_000, repeated: int = 100_000
    ) -> None:
        self._clients = clients
        self._repeated = repeated
        self._of = {client: RangeSet(flat) for client, flat in table}

    def note(self, client: str, number: int) -> None:
        """`number` of `client` is refused."""
        numbers = self._of.pop(client, None) or RangeSet()
        self._of[client] = numbers  # at the end: the dictionary's order is that of the last refusal
        numbers.add(number, number)
        if numbers.first < number - self._repeated:
            numbers.remove(numbers.first, number - self._repeated)
        if len(self._of) > self._clients:
            del self._of[next(iter(self._of))]

    def within(self, client: str, first: int, last: int) -> list[tuple[int, int]]:
        """Of these numbers the refused ones."""
        numbers = self._of.get(client)
        return numbers.within(first, last) if numbers is not None else []

    def table(self) -> list[tuple[str, list[int]]]:
        return [(client, numbers.flat()) for client, numbers in self._of.items()]
