"""What the checker says, and the history as its rules look at it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from .journal import ACCEPT, COMPLETED, FAILED, LOST, REFUSED, REJECT, Delivery, History, Transfer
from .kinds import Kind, of

Message = tuple[str, str, int]
"""Queue, producer, number."""
LATE_S = 30.0
"""So long after its end a sender that broke off may still have messages on their way."""


@dataclass(frozen=True)
class Violation:
    """Attributes: rule: which one broke; text: what was seen."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass
class Verdict:
    """Attributes: violations; counts: how many checks of each kind were made, and how much of each kind was seen."""

    violations: list[Violation] = field(default_factory=list[Violation])
    counts: Counter[str] = field(default_factory=Counter[str])

    def found(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, text))

    @property
    def rules(self) -> set[str]:
        """The rules that broke."""
        return {violation.rule for violation in self.violations}


@dataclass
class Facts:
    """The history, arranged. Attributes: of: message -> its deliveries, in the order of logged time."""

    history: History
    of: dict[Message, list[Delivery]]
    say: Verdict

    def transfer(self, message: Message) -> Transfer | None:
        queue, producer, number = message
        return self.history.transfers.get((queue, producer), {}).get(number)


def arranged(history: History, say: Verdict) -> Facts:
    """The facts of a history, about which nothing is said yet."""
    of: dict[Message, list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        of[delivery.queue, delivery.producer, delivery.number].append(delivery)
    for deliveries in of.values():
        if len(deliveries) > 1:
            deliveries.sort(key=lambda d: d.t)
    return Facts(history, of, say)


def name_of(message: Message) -> str:
    queue, producer, number = message
    return f"message {number} of {producer} in {queue}"


def may_be_consumed(delivery: Delivery) -> bool:
    return delivery.kind in (ACCEPT, REJECT) and delivery.outcome != LOST


def consumed(delivery: Delivery) -> bool:
    return delivery.kind in (ACCEPT, REJECT) and delivery.outcome == COMPLETED


def surely_later(delivery: Delivery, other: Delivery) -> bool:
    """Whether `delivery` was certainly dispatched, or at least arrived, after `other`."""
    if delivery.link is other.link:
        return delivery.order > other.order
    return max(delivery.link.opened, delivery.since) > other.t


def queues_of_kinds(facts: Facts) -> Iterator[tuple[str, Kind]]:
    """The queues that are no plain ones, with what they are."""
    for queue in sorted({queue for queue, _ in facts.history.transfers}):
        kind = of(queue)
        if kind is not None:
            yield queue, kind


def transfers_of(facts: Facts, queue: str) -> list[Transfer]:
    """What came into the queue, or may have."""
    return [
        transfer
        for (of_queue, _), mine in facts.history.transfers.items()
        for transfer in (mine.values() if of_queue == queue else ())
        if transfer.outcome not in (FAILED, REFUSED)
    ]


def messages_of(facts: Facts, queue: str) -> Iterator[tuple[Message, list[Delivery]]]:
    """What was delivered of a queue."""
    for message, deliveries in facts.of.items():
        if message[0] == queue:
            yield message, deliveries


def place_of(delivery: Delivery) -> str:
    """A delivery, with what it is of."""
    return f"{delivery.number} of {delivery.producer} at {delivery.position} went to {delivery}"
