"""The rules of what is left at the end of a round, where one client drains a queue in the order of its kind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from .facts import Facts, messages_of, place_of, queues_of_kinds
from .journal import COMPLETED, DRAINER, Delivery
from .kinds import Kind


def _drained(facts: Facts, queue: str) -> list[tuple[Delivery, bool]]:
    """What the drainer was given, in that order; and whether it surely was there from its beginning, and could be had."""
    found: list[tuple[Delivery, bool]] = []
    for message, deliveries in messages_of(facts, queue):
        for delivery in deliveries:
            if delivery.link.client == DRAINER:
                transfer = facts.transfer(message)
                there = transfer is not None and transfer.outcome == COMPLETED and transfer.done < delivery.link.opened
                found.append((delivery, there and delivery.new))
    return sorted(found, key=lambda pair: pair[0].t)


def _by_level(facts: Facts) -> None:
    """What is left goes by level, the highest first."""
    for queue, kind in queues_of_kinds(facts):
        if not kind.levels:
            continue
        if kind.share:
            _by_shares(facts, queue, kind)
            continue
        sure = [delivery for delivery, there in _drained(facts, queue) if there]
        for before, after in pairwise(sure):
            facts.say.counts["level checks"] += 1
            if kind.level(before.number) < kind.level(after.number):
                facts.say.found("level", f"in {queue}, {place_of(after)}, of a higher level, after {place_of(before)}")


def _by_shares(facts: Facts, queue: str, kind: Kind) -> None:
    """Of what is left, so many of a level go at once at most, where another level waits."""
    drained = _drained(facts, queue)
    last_of = {kind.level(delivery.number): at for at, (delivery, there) in enumerate(drained) if there}
    run, level = 0, -1
    for at, (delivery, _) in enumerate(drained):
        run = run + 1 if kind.level(delivery.number) == level else 1
        level = kind.level(delivery.number)
        others = [other for other, until in last_of.items() if other != level and until > at]
        facts.say.counts["share checks"] += bool(others)
        if others and run > kind.share:
            facts.say.found("turn", f"in {queue}, {place_of(delivery)}: the {run}th of its level, and {others} wait")


def _by_turns(facts: Facts) -> None:
    """Of what is left, the values take turns."""
    for queue, kind in queues_of_kinds(facts):
        if not ("fair_key" in kind.declared and kind.values):
            continue
        drained = _drained(facts, queue)
        last_of = {kind.key(delivery.number): at for at, (delivery, there) in enumerate(drained) if there}
        since: dict[str, set[str]] = {}  # value -> those that had a turn since it had one
        for at, (delivery, _) in enumerate(drained):
            value = kind.key(delivery.number)
            had = since.get(value)
            for other, until in last_of.items() if had is not None else ():
                if other != value and until > at:
                    facts.say.counts["turn checks"] += 1
                    if other not in had:
                        facts.say.found(
                            "turn", f"in {queue}, {place_of(delivery)}: {value!r} again, and {other!r} waits"
                        )
            for others in since.values():
                others.add(value)
            since[value] = set()


RULES: tuple[Callable[[Facts], None], ...] = (_by_level, _by_turns)
