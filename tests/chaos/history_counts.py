"""What brokers have counted of a queue, when it is drained, against what clients know: each is between what surely was so,
and that with all that nobody knows."""

from __future__ import annotations

from collections import Counter

from .facts import Facts, transfers_of
from .journal import ACCEPT, COMPLETED, FAILED, LOST, REFUSED, REJECT
from .kinds import BY_ID, of

NAMES = ("messages", "enqueued", "accepted", "dead_lettered", "discarded", "expired", "refused", "discarded_ring",
         "discarded_last_value", "discarded_purge", "discarded_subscriber", "discarded_too_often", "duplicates", "moved")  # fmt: skip
"""What is logged of it, as far as a broker says it."""

PARTS = (
    "refused",
    "discarded_ring",
    "discarded_last_value",
    "discarded_purge",
    "discarded_subscriber",
    "discarded_too_often",
    "duplicates",
)
"""Of what is discarded."""


def tallied(facts: Facts) -> None:
    """What came, and how it went: of queues to which nothing is sent that nobody counts."""
    for queue, told in facts.history.tallies.items():
        kind = of(queue)
        if kind is None:
            continue
        bounds = _bounds(facts, queue) if not (kind.fleeting or kind.roams) else {}
        went = sum(told.get(name, 0) for name in ("accepted", "dead_lettered", "discarded", "expired", "moved"))
        bounds["messages"] = (told["enqueued"] - went, told["enqueued"] - went)
        parts = sum(told.get(name, 0) for name in PARTS)
        bounds["discarded"] = (parts, parts)
        may = {"refused": kind.refuses, "discarded_last_value": kind.newest,
               "discarded_ring": kind.loses and not kind.newest, "duplicates": kind.program == BY_ID}  # fmt: skip
        bounds |= {name: (0, 0) for name in PARTS if not may.get(name)}
        for name, (least, most) in bounds.items():
            facts.say.counts["tally checks"] += 1
            if not least <= told.get(name, 0) <= most:
                between = f"{least}" if least == most else f"{least} to {most}"
                facts.say.found("tally", f"{queue} says {name}: {told.get(name, 0)}, and that is {between}; {told}")


def _bounds(facts: Facts, queue: str) -> dict[str, tuple[int, int]]:
    """Name -> least and most, by the clients' journals."""
    sure, perhaps = Counter[str](), Counter[str]()
    for (of_queue, _), mine in facts.history.transfers.items():
        for transfer in mine.values() if of_queue == queue else ():
            (sure if transfer.outcome in (COMPLETED, REFUSED) else perhaps)["enqueued"] += transfer.outcome != FAILED
            refuses = transfer.outcome == REFUSED
            (sure if refuses else perhaps)["refused"] += refuses or transfer.outcome not in (COMPLETED, FAILED)
    for (of_queue, _, _), deliveries in facts.of.items():
        for delivery in deliveries if of_queue == queue else ():
            if delivery.kind in (ACCEPT, REJECT) and delivery.outcome != LOST:
                name = "accepted" if delivery.kind == ACCEPT else "dead_lettered"
                (sure if delivery.outcome == COMPLETED else perhaps)[name] += 1
    names = ["enqueued", "refused", "accepted", "dead_lettered"]
    if (kind := of(queue)) is not None and kind.program == BY_ID:
        names.append("duplicates")
        _repeated(facts, queue, sure, perhaps)
    return {name: (sure[name], sure[name] + perhaps[name]) for name in names} | {"expired": (0, 0)}


def _repeated(facts: Facts, queue: str, sure: Counter[str], perhaps: Counter[str]) -> None:
    """What was sent again has come as well, and is none more."""
    for transfer in transfers_of(facts, queue):
        again = max(0, transfer.told - 1)
        facts.say.counts["duplicates counted"] += again
        for name in ("enqueued", "duplicates"):
            sure[name] += again
            perhaps[name] += transfer.times - 1 - again
