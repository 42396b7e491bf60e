"""What the checker says, and the history as its rules look at it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .journal import ACCEPT, COMPLETED, LOST, REJECT, Delivery, History, Transfer

Message = tuple[str, str, int]
"""Queue, producer, number."""


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
