"""The rules of limits, and of producers that are held back before them.

What is *surely in* a queue: a message from its being complete until its consumption is asked for, if that was complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable

from .facts import LATE_S, Facts, consumed, messages_of, queues_of_kinds, transfers_of
from .journal import COMPLETED, REFUSED, Link, Look
from .kinds import name, of


def _never_more(facts: Facts) -> None:
    """There are never more messages in a queue than its limit."""
    say = facts.say
    for queue, kind in queues_of_kinds(facts):
        if not kind.most:
            continue
        steps: list[tuple[float, int]] = []
        for message, deliveries in messages_of(facts, queue):
            gone = next((d.asked for d in deliveries if consumed(d)), None)
            transfer = facts.transfer(message)
            if gone is None or transfer is None:
                continue
            came = deliveries[0].t
            if transfer.outcome == COMPLETED:
                came = min(came, transfer.done)
            if came < gone:
                steps += [(came, 1), (gone, -1)]
        inside = 0
        for t, step in sorted(steps):
            inside += step
            say.counts[f"fullness checks of {name(queue)}"] += 1
            if inside > kind.most:
                say.found("limit", f"at {t:.3f} {inside} messages were in {queue}, whose limit is {kind.most}")
                break
        for look in facts.history.looks:
            if look.queue == queue:
                say.counts[f"looks at {name(queue)}"] += 1
                if look.messages > kind.most:
                    say.found("limit", f"at {look.t:.3f} {queue} says {look.messages}, and its limit is {kind.most}")


def _refused(facts: Facts) -> None:
    """Only a queue that may have been full refuses."""
    for (queue, producer), mine in facts.history.transfers.items():
        refused = [transfer for transfer in mine.values() if transfer.outcome == REFUSED]
        if not refused:
            continue
        kind = of(queue)
        if kind is None or not kind.refuses:
            facts.say.found("uncalled for", f"{queue} has no limit, and refused {len(refused)} of {producer}")
            continue
        sent = sorted(transfer.sent for transfer in transfers_of(facts, queue))
        gone = sorted(d.answered for _, deliveries in messages_of(facts, queue) for d in deliveries if consumed(d))
        for transfer in refused:
            facts.say.counts["refusal checks"] += 1
            most = bisect_left(sent, transfer.done) - bisect_right(gone, transfer.sent)
            if most < kind.most:
                facts.say.found(
                    "limit",
                    f"{queue} refused {transfer.number} of {producer} at {transfer.done:.3f}, and had {most} at most",
                )


def _held_back(facts: Facts) -> None:
    """Above its threshold a queue holds its producers back: what comes then is what they had under way at most, and none
    of it completes; below the other threshold it does not."""
    say = facts.say
    links: dict[str, list[Link]] = defaultdict(list)
    for link in facts.history.links.values():
        if link.role == "sender":
            links[link.queue].append(link)
    for queue, kind in queues_of_kinds(facts):
        if not kind.stop:
            continue
        looks = sorted((look for look in facts.history.looks if look.queue == queue), key=lambda look: look.t)
        say.counts["times producers were held back"] += max((look.stops for look in looks), default=0)
        for at, look in enumerate(looks):
            where = f"at {look.t:.3f} {queue} says {look.messages} messages"
            if not look.stopped:
                if look.messages > kind.stop:
                    say.found("flow", f"{where}, more than {kind.stop}, and does not hold its producers back")
                continue
            if look.messages < kind.resume:
                say.found("flow", f"{where}, fewer than {kind.resume}, and holds its producers back")
            before = next((other for other in reversed(looks[:at]) if other.stops < look.stops), None)
            since = before.began if before else 0.0
            most = kind.stop + sum(
                link.capacity
                for link in links[queue]
                if link.opened <= look.t and link.closed + (LATE_S if link.broken else 0.0) >= since
            )
            say.counts["overshoot checks"] += most < kind.most
            if look.messages > most:
                say.found("flow", f"{where}; what its senders may have under way makes {most}")
        _withheld(facts, queue, looks)


def _withheld(facts: Facts, queue: str, looks: list[Look]) -> None:
    """Between two looks that show one and the same stop, nothing completes that was sent since the first."""
    runs: dict[int, list[Look]] = defaultdict(list)
    for look in looks:
        if look.stopped:
            runs[look.stops].append(look)
    transfers = sorted(transfers_of(facts, queue), key=lambda transfer: transfer.sent)
    times = [transfer.sent for transfer in transfers]
    for first, last in ((run[0], run[-1]) for run in runs.values()):
        for transfer in transfers[bisect_right(times, first.t) : bisect_left(times, last.began)]:
            facts.say.counts["withheld"] += 1
            if transfer.outcome == COMPLETED and transfer.done < last.began:
                facts.say.found(
                    "flow",
                    f"{transfer.number} of {transfer.producer}, sent to {queue} at {transfer.sent:.3f}, was complete at "
                    f"{transfer.done:.3f}; producers are held back from {first.t:.3f} to {last.began:.3f}",
                )


RULES: tuple[Callable[[Facts], None], ...] = (_never_more, _refused, _held_back)
