"""Toy observers of one replica or broker: one counts, one writes down, one has a companion that talks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mantamq.protocol.broker.observers import BrokerObserver
from mantamq.protocol.machine import Received, Send
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.observers import QueueObserver
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import pairs
from mantamq.protocol.replica.observers import ReplicaObserver


class QueueCounter(QueueObserver):
    """Statistics of one queue: it overrides only what it counts."""

    def __init__(self, totals: Counter[str]) -> None:
        self._totals = totals

    def applied(self, index: int, entry: Any, event: Any, done: Any) -> None:
        self._totals[type(event).__name__] += 1

    def delivered(self, frame: Any) -> None:
        self._totals["delivered"] += sum(last - first + 1 for first, last in pairs(frame.ranges))


class ReplicaCounter(ReplicaObserver):
    """Statistics of one replica: all its queues into one book."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()

    def hosted(self, state: QueueState, dispatcher: Dispatcher) -> QueueObserver:
        self.totals["queues"] += 1
        return QueueCounter(self.totals)


class BrokerCounter(BrokerObserver):
    """Statistics of one broker."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()

    def applied(self, index: int, entry: Any, event: Any, outcome: Any) -> None:
        self.totals[type(event).__name__] += 1

    def client_opened(self, client: str) -> None:
        self.totals["clients"] += 1

    def client_ended(self, client: str, code: str) -> None:
        self.totals["clients"] -= 1


class QueueRecorder(QueueObserver):
    """All that one queue's observers are told, as words."""

    def __init__(self, book: list[tuple[Any, ...]], id: str) -> None:
        self._book, self._id = book, id

    def applied(self, index: int, entry: Any, event: Any, done: Any) -> None:
        self._book.append((self._id, "applied", index, type(event).__name__, done.effective))

    def delivered(self, frame: Any) -> None:
        self._book.append((self._id, "delivered", *frame.ranges))

    def consumer_came(self, sub: int) -> None:
        self._book.append((self._id, "came", sub))

    def consumer_went(self, sub: int) -> None:
        self._book.append((self._id, "went", sub))

    def interest(self, shown: bool) -> None:
        self._book.append((self._id, "interest", shown))

    def handing_over(self, broker: str) -> None:
        self._book.append((self._id, "to", broker))

    def gone(self) -> None:
        self._book.append((self._id, "gone"))


class ReplicaRecorder(ReplicaObserver):
    def __init__(self) -> None:
        self.book: list[tuple[Any, ...]] = []

    def hosted(self, state: QueueState, dispatcher: Dispatcher) -> QueueObserver:
        return QueueRecorder(self.book, state.id)


class BrokerRecorder(BrokerObserver):
    """All that a broker's observers are told, as words."""

    def __init__(self) -> None:
        self.book: list[tuple[Any, ...]] = []

    def applied(self, index: int, entry: Any, event: Any, outcome: Any) -> None:
        self.book.append(("applied", index, type(event).__name__, outcome.changed))

    def client_opened(self, client: str) -> None:
        self.book.append(("opened", client))

    def client_ended(self, client: str, code: str) -> None:
        self.book.append(("ended", client, code))

    def reading_paused(self, paused: bool) -> None:
        self.book.append(("paused", paused))

    def members_moved(self, addresses: dict[str, str]) -> None:
        self.book.append(("moved", *sorted(addresses)))

    def store_opened(self, before: int, blank: bool, entries: int, took_ms: int) -> None:
        self.book.append(("store", before, blank, entries))

    def store_happened(self, what: str, queue: str, value: int, detail: str) -> None:
        self.book.append(("happened", what, queue))

    def disk_pressed(self, pressed: bool) -> None:
        self.book.append(("pressed", pressed))


class Talker:
    """A companion that answers each frame of its peer, and wants a flush at `due_ms`."""

    def __init__(self, peer: str = "events", due_ms: int = 0) -> None:
        self.peer, self.due_ms = peer, due_ms
        self.given: list[Any] = []

    def step(self, input: Any) -> list[Any]:
        self.given.append(input)
        return [Send(self.peer, input.frame)] if isinstance(input, Received) else []


class ReplicaTalker(ReplicaCounter):
    def __init__(self, talker: Talker) -> None:
        super().__init__()
        self._talker = talker

    @property
    def companion(self) -> Talker:
        return self._talker


class BrokerTalker(BrokerCounter):
    def __init__(self, talker: Talker) -> None:
        super().__init__()
        self._talker = talker

    @property
    def companion(self) -> Talker:
        return self._talker
