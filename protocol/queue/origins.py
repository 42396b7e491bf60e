"""Which client sent each message of a queue, for consumers that want none of their own connection's (`no_local`).

It costs no message anything: an `Enqueue` names its client already, for duplicates, and here is noted from which
position on it was another client than before. Only what dead letters bring is told message by message. A client is the
one that brokers know as such: its id, which is the same for all its senders, and at whatever broker takes over.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable

from ..ranges import RangeSet
from ..wire.events import Enqueue

NOBODY = ""
"""Of a message of which it is not known: it is no consumer's own."""
KNOWN = 10_000
"""So many clients' ids are remembered; then all are looked up anew."""
FORGET = 1_000
"""Runs of messages that are gone are forgotten when there are as many more of them as there are messages."""


class Origins:
    """Part of a queue's replicated state: from each of `_firsts` on, messages are of the client in `_names`.

    Attributes:
        client: of the last enqueue, as that has it: another one of the same needs no note. None: each does.
    """

    __slots__ = ("_firsts", "_known", "_names", "client")

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._names: list[str] = []
        self._known: dict[str, str] = {}  # a client as enqueues have it -> its id: one text for many runs
        self.client: str | None = None

    def came(self, first: int, count: int, event: Enqueue, live: Callable[[], RangeSet], kept: int) -> None:
        """The last `count` messages of an enqueue have positions from `first` on; `kept`, how many live."""
        if event.origin_of:
            self.client = None
            if len(event.origins) == 1 and event.origin_of == [0] * len(event.blobs):  # all are one's, a named sender's
                self._begins(first, event.origins[0])
            else:
                for position, origin in enumerate(origins_of(event)[-count:], first):
                    self._begins(position, origin)
        else:
            client = self.client = event.client
            origin = self._known.get(client)
            if origin is None:
                if len(self._known) >= KNOWN:
                    self._known.clear()
                origin = self._known[client] = client_in(client)
            self._begins(first, origin)
        if len(self._firsts) > 2 * kept + FORGET:
            self.assign(*self.told(live()))

    def _begins(self, first: int, origin: str) -> None:
        names = self._names
        if origin != (names[-1] if names else NOBODY):
            self._firsts.append(first)
            names.append(origin)

    def of(self, position: int) -> str:
        """The client that sent that message; `NOBODY`: that is not known."""
        at = bisect_right(self._firsts, position)
        return self._names[at - 1] if at else NOBODY

    def told(self, live: Iterable[tuple[int, int]]) -> tuple[list[str], list[int]]:
        """Of the messages that live: names, and flat ``[first position, which name, ...]``; each is of the one before
        it in that. Equal queues tell the same."""
        firsts, names = self._firsts, self._names
        found: dict[str, int] = {}
        runs: list[int] = []
        before = NOBODY
        for first, last in live:
            at = bisect_right(firsts, first) - 1
            while True:
                origin = names[at] if at >= 0 else NOBODY
                if origin != before:
                    runs += (max(first, firsts[at]) if at >= 0 else first, found.setdefault(origin, len(found)))
                    before = origin
                at += 1
                if at == len(firsts) or firsts[at] > last:
                    break
        return list(found), runs

    def assign(self, names: list[str], runs: list[int]) -> None:
        """Take over what was told."""
        self._firsts = array("Q", runs[::2])
        self._names = [names[which] for which in runs[1::2]]
        self.client = None


def client_in(client: str) -> str:
    """The client id in an `Enqueue.client`, which is of one of its senders."""
    id, _, handle = client.rpartition("/")
    return id if handle.isdigit() else NOBODY


def origins_of(event: Enqueue) -> list[str]:
    """Of each message of an enqueue that tells them apart."""
    names, which = event.origins, event.origin_of
    if len(which) != len(event.blobs):
        return [NOBODY] * len(event.blobs)
    return [names[one] if 0 <= one < len(names) else NOBODY for one in which]


def numbered(origins: Iterable[str]) -> tuple[list[str], list[int]]:
    """The other way: the names, and which of them each is; nothing where all are nobody's."""
    found: dict[str, int] = {}
    which = [found.setdefault(origin, len(found)) for origin in origins]
    return ([], []) if list(found) in ([], [NOBODY]) else (list(found), which)
