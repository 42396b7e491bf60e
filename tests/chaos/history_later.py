"""The rules of what is for later: nobody gets it before."""

from __future__ import annotations

from collections.abc import Callable

from .facts import Facts, messages_of, name_of, queues_of_kinds
from .journal import COMPLETED, MODIFY, RELEASE, Delivery
from .kinds import Kind

EARLY_S = 0.02
"""The brokers' clock counts milliseconds, and may be set right meanwhile; that of journals is not."""


def _not_early(facts: Facts) -> None:
    """What is sent for later is taken by a broker after it was asked to, and waits from then on."""
    for queue, kind in queues_of_kinds(facts):
        for message, deliveries in messages_of(facts, queue) if kind.later else ():
            delay, transfer = kind.delay(message[2]), facts.transfer(message)
            if not delay or transfer is None:
                continue
            facts.say.counts["delay checks"] += 1
            first = min(deliveries, key=lambda delivery: delivery.t)
            if first.t < transfer.sent + delay - EARLY_S:
                where = f"{name_of(message)}, sent at {transfer.sent:.3f} for {delay:g} s later"
                facts.say.found("early", f"{where}, came to {first}")


def _waits(kind: Kind, back: Delivery) -> float:
    """For how many seconds what went back surely waits. A release without a delay is not told to be lost: of what was
    released so nothing is sure."""
    if back.outcome != COMPLETED:
        return 0.0
    if back.kind == RELEASE:
        return back.delay
    return kind.retry(back.count) if back.kind == MODIFY and not back.uncounted else 0.0


def _not_back_early(facts: Facts) -> None:
    """What went back for later, or waits for another try, comes to nobody meanwhile. Its count has risen by then, so one of
    a higher count is one that was dispatched afterwards."""
    for queue, kind in queues_of_kinds(facts):
        for message, deliveries in messages_of(facts, queue) if kind.later else ():
            for back in deliveries:
                waits = _waits(kind, back)
                for other in deliveries if waits else ():
                    if other.count <= back.count:
                        continue
                    facts.say.counts["checks of what waits for another try"] += 1
                    if other.t < back.asked + waits - EARLY_S:
                        where = f"{name_of(message)} went back from {back}, at {back.asked:.3f}, for {waits:g} s"
                        facts.say.found("early", f"{where}, and came to {other}")


RULES: tuple[Callable[[Facts], None], ...] = (_not_early, _not_back_early)
