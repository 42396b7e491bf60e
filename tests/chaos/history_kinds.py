"""The rules of queues that are of a kind, and of what consumers say of messages. As in `history.py`: nothing is concluded
but from what was logged before something and after it.

What a receiver *surely holds*: a message from its being logged until its settlement is asked for, if that was complete.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

from .facts import (
    LATE_S,
    Facts,
    Message,
    may_be_consumed,
    messages_of,
    name_of,
    place_of,
    queues_of_kinds,
    surely_later,
    transfers_of,
)  # fmt: skip
from .journal import (
    ACCEPT,
    COMPLETED,
    DEAD,
    DRAINER,
    FAILED,
    LOST,
    MODIFY,
    REFUSED,
    REJECT,
    RELEASE,
    Delivery,
    History,
    Transfer,
)  # fmt: skip
from .kinds import EACH, name, of

LEAST: dict[str, dict[str, int]] = {
    "groups": {"holding checks of groups": 20, "order across receivers, of groups": 50},
    "ring": {"ring: gone": 50, "fullness checks of ring": 50, "looks at ring": 10, "tally checks": 1},
    "limit": {
        "times producers were held back": 2,
        "looks at limit": 10,
        "withheld": 1,
        "fullness checks of limit": 50,
    },
    "levels": {"level checks": 20},
    "shares": {"share checks": 20},
    "last": {"last: gone": 20, "newest checks": 5},
    "fair": {"turn checks": 20},
    "single": {"order across receivers, of single": 50},
    "exclusive": {"order across receivers, of exclusive": 50},
    "stamped": {"stamp checks": 50},
    "selected": {"selector checks": 20},
    "named": {"name checks": 4, "sent again, of named": 10},
    "later": {"delay checks": 50, "checks of what waits for another try": 3},
    "dying": {
        "deaths, rejected": 5,
        "deaths, delivery_limit": 5,
        "deaths, expired": 5,
        "messages that came back from the dead": 10,
    },
    "moved": {"messages that were moved": 20},
    "once": {"sent again, of once": 50, "duplicates counted": 50},
}
"""Kind -> what must have been checked at least, where a round has such a queue."""


def least(history: History) -> dict[str, int]:
    """What must have been checked at least in this history, by the kinds of its queues."""
    queues = {queue for queue, _ in history.transfers}
    return {
        name: count
        for kind, counts in LEAST.items()
        if any(queue.endswith(f"-{kind}") for queue in queues)
        for name, count in counts.items()
    }


def surely_older(one: Transfer, other: Transfer) -> bool:
    """Whether, if both are in their queue, `one` is before `other`."""
    if one.link is other.link:
        return one.number < other.number
    return _there_by(one) < other.sent


def _there_by(transfer: Transfer) -> float:
    """When a message was in its queue, if it came at all: complete, or its sender has ended long since."""
    return transfer.done if transfer.outcome == COMPLETED else transfer.link.closed + LATE_S


# ---- who holds, and in which order


def _held_by_one(facts: Facts) -> None:
    """What belongs to one receiver at a time, a group or a whole queue, no two hold."""
    for queue, kind in queues_of_kinds(facts):
        if not kind.held_by_one:
            continue
        holds: dict[str, list[Delivery]] = defaultdict(list)
        for (_, _, number), deliveries in messages_of(facts, queue):
            key = kind.key(number) if kind.held_by_one == EACH else ""
            # A release is not told to be lost: so of what was released nothing is sure.
            holds[key] += [d for d in deliveries if d.outcome == COMPLETED and d.kind in (ACCEPT, REJECT, MODIFY)]
        for key, held in holds.items():
            longest: Delivery | None = None
            second: Delivery | None = None  # of another link
            for delivery in sorted(held, key=lambda d: d.t):
                mine = longest is not None and longest.link is delivery.link
                other = second if mine else longest
                if other is not None:
                    facts.say.counts[f"holding checks of {name(queue)}"] += 1
                    if delivery.t < other.asked:
                        what = f"group {key!r} of {queue}" if kind.held_by_one == EACH else queue
                        until = f"{place_of(other)} until {other.asked:.3f}"
                        facts.say.found("held by two", f"{what} is one receiver's: {until}; {place_of(delivery)}")
                if longest is None or delivery.asked > longest.asked:
                    longest, second = delivery, second if mine else longest
                elif not mine and (second is None or delivery.asked > second.asked):
                    second = delivery


def _in_order_across(facts: Facts) -> None:
    """What nobody had before is handed out in the queue's order, or each key's, level's, value's: whoever gets it."""
    for queue, kind in queues_of_kinds(facts):
        if not kind.ordered:
            continue
        by_key: dict[str, list[Delivery]] = defaultdict(list)
        for (_, _, number), deliveries in messages_of(facts, queue):
            by_key[kind.order(number)] += deliveries
        for deliveries in by_key.values():
            deliveries.sort(key=lambda d: -d.position)
            earliest: Delivery | None = None  # of those with a higher position
            on_link: dict[str, Delivery] = {}
            for delivery in deliveries:
                if delivery.new:
                    same = on_link.get(delivery.link.id)
                    for other in (earliest, same):
                        if other is None or other.position == delivery.position:
                            continue
                        facts.say.counts[f"order across receivers, of {name(queue)}"] += 1
                        if surely_later(delivery, other):
                            facts.say.found(
                                "order", f"in {queue}, {place_of(delivery)}, as new, after {place_of(other)}, behind it"
                            )
                            break
                if earliest is None or delivery.t < earliest.t:
                    earliest = delivery
                first = on_link.get(delivery.link.id)
                if first is None or delivery.order < first.order:
                    on_link[delivery.link.id] = delivery


# ---- what goes


def may_have_gone(facts: Facts, queue: str) -> Callable[[Transfer], bool]:
    """Whether a message can have left a ring, or given way to a newer one of its key."""
    kind = of(queue)
    assert kind is not None
    transfers = transfers_of(facts, queue)
    if kind.newest:
        of_key: dict[str, list[Transfer]] = defaultdict(list)
        for transfer in transfers:
            of_key[kind.key(transfer.number)].append(transfer)
        return lambda one: any(
            other is not one and not surely_older(other, one) for other in of_key[kind.key(one.number)]
        )
    done = sorted(map(_there_by, transfers))

    def enough(one: Transfer) -> bool:
        """Whether so many may have come behind it as there can be."""
        mine = facts.history.transfers[queue, one.producer]
        older, number = bisect_left(done, one.sent), one.number - 1
        while number in mine and mine[number].link is one.link:
            before = mine[number]
            if _there_by(before) < one.sent:
                break  # counted, and so are those before it
            older += before.outcome not in (FAILED, REFUSED)
            number -= 1
        return len(transfers) - older - 1 >= kind.most

    return enough


def _gone(facts: Facts) -> None:
    """From a ring, and from a queue of last values, only what is old goes."""
    say = facts.say
    for queue, kind in queues_of_kinds(facts):
        if not kind.loses:
            continue
        may, gone = may_have_gone(facts, queue), list[Transfer]()
        for transfer in transfers_of(facts, queue):
            message = (queue, transfer.producer, transfer.number)
            deliveries = facts.of.get(message, [])
            if any(map(may_be_consumed, deliveries)) or (transfer.outcome != COMPLETED and not deliveries):
                continue
            say.counts[f"{name(queue)}: gone"] += 1
            if not deliveries:
                gone.append(transfer)
            if not may(transfer):
                seen = "; ".join(map(str, deliveries)) or "never delivered"
                say.found("lost", f"{name_of(message)} is gone, and nothing can have taken its place: {seen}")
        if not kind.newest:
            _oldest_first(facts, queue, gone)


def lost_with_reason(facts: Facts) -> None:
    """Without faults, what a receiver could not settle had gone: from a ring; or a newer one of its key came while it was
    given out, before that had its place in the queue's order."""
    for queue, kind in queues_of_kinds(facts):
        if not kind.loses:
            continue
        may = may_have_gone(facts, queue)
        for message, deliveries in messages_of(facts, queue):
            transfer = facts.transfer(message)
            for delivery in deliveries:
                if delivery.outcome == LOST and transfer is not None and not may(transfer):
                    facts.say.found("uncalled for", f"{name_of(message)} cannot have gone, and was lost by {delivery}")


def _oldest_first(facts: Facts, queue: str, gone: list[Transfer]) -> None:
    """What is there at the end is newer than all that went."""
    last = max((transfer.sent for transfer in gone), default=0.0)
    numbers: dict[str, int] = defaultdict(int)
    for transfer in gone:
        numbers[transfer.link.id] = max(numbers[transfer.link.id], transfer.number)
    left = 0
    for message, deliveries in messages_of(facts, queue):
        transfer = facts.transfer(message)
        if transfer is None or deliveries[-1].link.client != DRAINER:
            continue
        left += 1
        facts.say.counts["ring end checks"] += 1
        older = transfer.outcome == COMPLETED and transfer.done < last
        if older or transfer.number < numbers[transfer.link.id]:
            facts.say.found("ring", f"{name_of(message)} is there at the end, and something newer has gone")
    kind = of(queue)
    if kind is not None and left > kind.most:
        facts.say.found("limit", f"{left} messages are left in {queue}, whose limit is {kind.most}")


def _newest(facts: Facts) -> None:
    """Of each key the newest waits: nobody gets, as new, one that was replaced before."""
    say = facts.say
    for queue, kind in queues_of_kinds(facts):
        if not kind.newest:
            continue
        of_key: dict[str, list[Transfer]] = defaultdict(list)
        for transfer in transfers_of(facts, queue):
            if transfer.outcome == COMPLETED:
                of_key[kind.key(transfer.number)].append(transfer)
        left: dict[str, Message] = {}
        for message, deliveries in messages_of(facts, queue):
            delivery, transfer = deliveries[0], facts.transfer(message)
            if not delivery.new or transfer is None:
                continue
            key, arrived = kind.key(message[2]), max(delivery.link.opened, delivery.since)
            for other in of_key[key]:
                say.counts["replaced checks"] += 1
                if other is not transfer and other.done < arrived and surely_older(transfer, other):
                    say.found(
                        "last value",
                        f"{name_of(message)} went to {delivery}; {other.number} of {other.producer} was complete at "
                        f"{other.done:.3f}, and has the same key {key!r}",
                    )
                    break
            if (
                delivery.link.client == DRAINER
                and transfer.outcome == COMPLETED
                and transfer.done < delivery.link.opened
            ):
                say.counts["newest checks"] += 1
                other = left.setdefault(key, message)
                if other != message:
                    say.found("last value", f"{name_of(message)} and {name_of(other)} have one key, and both waited")


# ---- what receivers say


def _selected(facts: Facts) -> None:
    """A selector lets nothing else through."""
    for delivery in facts.history.deliveries:
        kind = of(delivery.queue)
        if delivery.link.wants and kind is not None:
            facts.say.counts["selector checks"] += 1
            if kind.key(delivery.number) not in delivery.link.wants:
                facts.say.found("selector", f"{place_of(delivery)}, which wants {', '.join(delivery.link.wants)}")
    for browse in facts.history.browses:
        kind = of(browse.link.queue)
        for _, producer, number in browse.seen if browse.link.wants and kind is not None else ():
            facts.say.counts["browser's selector checks"] += 1
            if kind is not None and kind.key(number) not in browse.link.wants:
                facts.say.found(
                    "selector", f"{browse.link.id} sees {number} of {producer}, and wants {browse.link.wants}"
                )


def _stamped(facts: Facts) -> None:
    """A message has one number in its queue, and numbers rise from the head to the tail."""
    for queue, kind in queues_of_kinds(facts):
        if not kind.stamps:
            continue
        before: Delivery | None = None
        for deliveries in sorted(
            (found for _, found in messages_of(facts, queue)), key=lambda found: found[0].position
        ):
            facts.say.counts["stamp checks"] += len(deliveries)
            numbers = {delivery.stamp for delivery in deliveries}
            if len(numbers) > 1 or min(numbers) < 1:
                facts.say.found("stamp", f"{place_of(deliveries[0])}, and has the numbers {sorted(numbers)}")
            elif before is not None and before.stamp >= deliveries[0].stamp:
                last = f"{before.stamp}, and is before {deliveries[0].stamp}"
                facts.say.found("stamp", f"{place_of(before)}, and has the number {last}, {place_of(deliveries[0])}")
            before = deliveries[0]


def _stopped(facts: Facts) -> None:
    """A receiver that has stopped is sent nothing."""
    facts.say.counts["stops"] += sum(len(link.stops) for link in facts.history.links.values())
    for delivery in facts.history.deliveries:
        if delivery.stopped:
            facts.say.found("stopped", f"{place_of(delivery)}, which had stopped")


def _noted(facts: Facts) -> None:
    """A message has the notes with which it was given back, and no others; who does not want it again does not get it; and
    a delivery counts, unless its receiver says that it does not."""
    say = facts.say
    for message, deliveries in facts.of.items():
        source = facts.of.get((message[0].removesuffix(DEAD), *message[1:]), [])
        noted = {d.note: d for d in (*source, *deliveries) if d.kind == MODIFY and d.outcome != LOST}
        for delivery in deliveries:
            for note in delivery.notes:
                say.counts["note checks"] += 1
                if note not in noted or noted[note].asked > delivery.t:
                    say.found("note", f"{name_of(message)} came with {note!r}, which nobody noted, to {delivery}")
            for before in deliveries if len(deliveries) > 1 else ():
                back = before.kind in (RELEASE, MODIFY) and before.outcome == COMPLETED
                if before is delivery or not back or not surely_later(delivery, before):
                    continue
                where = f"{name_of(message)} went back from {before}, and came to {delivery}"
                say.counts["count checks of what went back"] += 1
                if delivery.count < before.count + (not before.uncounted):
                    say.found("count", where)
                if before.kind == MODIFY and before.note not in delivery.notes:
                    say.found("note", f"{where}, without {before.note!r}")
                if before.elsewhere and before.link is delivery.link:
                    say.found("elsewhere", f"{where}, which was not to get it again")


RULES: tuple[Callable[[Facts], None], ...] = (
    _held_by_one, _in_order_across, _gone, _newest, _selected, _stamped, _stopped, _noted,
)  # fmt: skip
