"""The checker: reads the clients' logs, and nothing else, and says what no correct broker could have done.

What it may conclude, and from what. A transfer whose outcome is not known may have happened, once, or not. Order between
two processes is concluded only from intervals: an answer was logged before the other's question. A delivery was
*dispatched* at some unknown time before it was fetched; all that is known is that it arrived after `since` and after its
link was opened, that deliveries of one link were dispatched in the order they were fetched, and that a message's delivery
count never falls. So a delivery that merely *shows* late, after another consumer's accept, is no violation as long as it
can have been sent before and its own accept did not count.

The rules are the functions below; each counts the checks it really made, so that a run which checked nothing shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from . import (
    history_closings,
    history_counts,
    history_kinds,
    history_later,
    history_left,
    history_limits,
    history_programs,
    history_roaming,
)
from .facts import Facts, Message, Verdict, arranged, consumed, may_be_consumed, name_of, surely_later
from .journal import (
    ACCEPT,
    COMPLETED,
    DEAD,
    FAILED,
    LOST,
    MODIFY,
    NEVER,
    REFUSED,
    REJECT,
    RELEASE,
    SENT,
    UNKNOWN,
    Delivery,
    History,
    Transfer,
    read,
)  # fmt: skip
from .kinds import family
from .kinds import of as kind_of

MODIFIES = "modifications"


def check_files(paths: Iterable[Path], strict: bool = False, minimum: Mapping[str, int] | None = None) -> Verdict:
    """`check` of logs on disk; of each kind of queue in them so much must be checked as `history_kinds.LEAST` says."""
    history = read(paths)
    return check(history, strict, {**(minimum or {}), **history_kinds.least(history)})


def check(history: History, strict: bool = False, minimum: Mapping[str, int] | None = None) -> Verdict:
    """Judge a history.

    Args:
        strict: nothing went wrong in this run (no faults), so nothing may be unknown, lost or redelivered unasked.
        minimum: name of a count -> how many there must be at least; fewer is a violation (`vacuous`).
    """
    say = Verdict()
    _log(arranged(history, say))
    facts = arranged(history_roaming.others(history), say)
    for rule in (*RULES, *history_kinds.RULES, *history_limits.RULES, *history_left.RULES, *history_programs.RULES,
                 *history_later.RULES, history_counts.tallied):  # fmt: skip
        rule(facts)
    history_roaming.judge(history, say, (_accepted_once, _flagged, _counts_rise))
    history_closings.judge(history, say)
    if strict:
        _strict(facts, history)
    for name, least in (minimum or {}).items():
        if say.counts[name] < least:
            say.found("vacuous", f"only {say.counts[name]} of {name}, and {least} are the least that prove something")
    return say


# ---- the rules


def _log(facts: Facts) -> None:
    """The logs are whole and say nothing impossible; every queue was drained after all was sent."""
    history, say = facts.history, facts.say
    for text in history.wrong:
        say.found("log", text)
    killed = {link.client for link in history.links.values() if link.producer}  # what they knew the next one does
    killed |= {connection.client for connection in history.connections.values() if connection.life}
    for client in sorted(set(history.clients) - history.finished - killed):
        say.found("unfinished", f"the log of {client} has no last line: what it knew is missing")
    last: dict[str, float] = defaultdict(float)
    for (queue, _), mine in history.transfers.items():
        last[queue] = max([last[queue], *(transfer.sent for transfer in mine.values())])
    for delivery in history.deliveries:
        if delivery.kind == REJECT:
            dead = family(delivery.queue) + DEAD
            last[dead] = max(last[dead], delivery.asked)
    for queue in sorted(last):
        if history.drained.get(queue, 0.0) < last[queue]:
            say.found("undrained", f"queue {queue} was not seen empty after all was sent: nothing is known of loss")
    for (queue, _), mine in history.transfers.items():
        kind = kind_of(queue)
        unknown = "of who was killed" if kind is not None and kind.program else UNKNOWN
        for transfer in mine.values():
            say.counts["transfers " + (unknown if transfer.outcome in (SENT, UNKNOWN) else transfer.outcome)] += 1
    for delivery in history.deliveries:
        say.counts["deliveries"] += 1
        say.counts["redeliveries"] += delivery.count > 0
        if delivery.kind:
            outcome = UNKNOWN if delivery.outcome == SENT else delivery.outcome
            name = MODIFIES if delivery.kind == MODIFY else f"{delivery.kind}s"
            if outcome == LOST and _loses(delivery.queue):
                outcome = "of what has gone"
            say.counts[f"{name} {outcome}"] += 1
    for link in history.links.values():
        say.counts["links broken"] += link.broken and not link.producer


def _known(facts: Facts) -> None:
    """A delivered message was sent before, to this queue, was not refused, and is undamaged."""
    for message, deliveries in facts.of.items():
        source = message[0].removesuffix(DEAD)
        transfer = facts.transfer((source, *message[1:]))
        for delivery in deliveries:
            facts.say.counts["origin checks"] += 1
            where = f"{name_of(message)} delivered to {delivery}"
            if delivery.damaged:
                facts.say.found("damaged", where)
            elif delivery.of != source:
                facts.say.found("misrouted", f"{where}: it was sent to {delivery.of}")
            elif transfer is None or delivery.t < transfer.sent:
                facts.say.found("phantom", f"{where}: it was not sent{' before' if transfer else ''}")
            elif transfer.outcome in (FAILED, REFUSED):
                facts.say.found("phantom", f"{where}: the sender was told that it was refused")


def _not_lost(facts: Facts) -> None:
    """A completed transfer is delivered; whoever had it last accepted it, or may have. Where messages may go otherwise, see
    `history_kinds`."""
    say = facts.say
    for (queue, producer), mine in facts.history.transfers.items():
        if _loses(queue):
            continue
        for number, transfer in mine.items():
            message = (queue, producer, number)
            if transfer.outcome == COMPLETED:
                say.counts["loss checks"] += 1
                if message not in facts.of:
                    say.found("lost", f"{name_of(message)} was complete at {transfer.done:.3f} and was never delivered")
    for message, deliveries in facts.of.items():
        if _loses(message[0]):
            continue
        say.counts["vanishing checks"] += 1
        if not any(map(may_be_consumed, deliveries)):
            seen = "; ".join(map(str, deliveries))
            say.found("vanished", f"{name_of(message)} went back to its queue and never came again: {seen}")


def _loses(queue: str) -> bool:
    kind = kind_of(queue)
    return kind is not None and kind.loses


def _dead_lettered(facts: Facts) -> None:
    """The queue for dead letters has the rejected messages and no others."""
    say = facts.say
    for message, deliveries in facts.of.items():
        queue = message[0]
        if queue.endswith(DEAD):
            before = facts.of.get((queue.removesuffix(DEAD), *message[1:]), [])
            say.counts["dead letter checks"] += 1
            accepted = next((d for d in before if d.kind == ACCEPT and d.outcome == COMPLETED), None)
            if accepted is not None:
                say.found("accepted again", f"{name_of(message)} is a dead letter, and was accepted by {accepted}")
            elif not any(d.kind == REJECT and d.outcome != LOST and d.asked <= deliveries[0].t for d in before):
                say.found("phantom", f"{name_of(message)} is a dead letter, and nobody can have rejected it")
            continue
        rejected = next((d for d in deliveries if d.kind == REJECT and d.outcome == COMPLETED), None)
        if rejected is not None:
            say.counts["reject checks"] += 1
            if (queue + DEAD, *message[1:]) not in facts.of:
                say.found("lost", f"{name_of(message)} is no dead letter, and was rejected by {rejected}")


def _one_place(facts: Facts) -> None:
    """A message has one place in its queue, and a place one message."""
    at: dict[tuple[str, int], Message] = {}
    for message, deliveries in facts.of.items():
        places = {delivery.position for delivery in deliveries}
        facts.say.counts["place checks"] += len(deliveries)
        if len(places) > 1:
            facts.say.found("duplicate", f"{name_of(message)} is in its queue {len(places)} times, at {sorted(places)}")
        for place in places:
            other = at.setdefault((message[0], place), message)
            if other != message:
                facts.say.found("place", f"{name_of(message)} and {name_of(other)} are both at {place} of {message[0]}")


def _accepted_once(facts: Facts) -> None:
    """A message whose accept is complete was not, and will not be, anybody else's."""
    say = facts.say
    for message, deliveries in facts.of.items():
        for accepted in deliveries:
            if not consumed(accepted):
                continue
            say.counts["accept checks"] += 1
            for other in deliveries:
                if other is accepted:
                    continue
                say.counts["accept against another delivery"] += 1
                why = _after_accept(accepted, other)
                if why:
                    say.found("accepted again", f"{name_of(message)}, {why}: accepted by {accepted}; also {other}")
                elif other.t > accepted.answered:
                    say.counts["deliveries that showed late"] += 1


def _after_accept(accepted: Delivery, other: Delivery) -> str:
    """Why `other` cannot have been dispatched before a consumer's accept that counted, or ""."""
    if consumed(other):
        # Both accepts of a pair come by here: it is told once.
        return "two accepts are complete" if (accepted.t, id(accepted)) < (other.t, id(other)) else ""
    if other.count > accepted.count:
        return "it was requeued from a consumer whose accept is complete"
    if other.link is accepted.link:
        return "it came again on the same link" if other.order > accepted.order else ""
    if other.link.opened > accepted.answered:
        return "it was delivered on a link opened after the accept was complete"
    if other.since > accepted.answered:
        return "it arrived after the accept was complete"
    return ""


def _flagged(facts: Facts) -> None:
    """Of a message's deliveries only the first says that nobody had it before; and only what was given back uncounted comes
    without the redelivered flag."""
    say = facts.say
    for message, deliveries in facts.of.items():
        if len(deliveries) == 1:
            continue
        bare = [delivery for delivery in deliveries if delivery.new]
        say.counts["flag checks"] += len(deliveries) - 1
        if len(bare) > 1:
            say.found("not flagged", f"{name_of(message)} came as new to {' and to '.join(map(str, bare))}")
            continue
        for delivery in bare:
            for other in deliveries:
                if other is not delivery and surely_later(delivery, other):
                    say.found("not flagged", f"{name_of(message)} came as new to {delivery} after {other}")
                    break
        for delivery in deliveries:
            for other in deliveries if delivery.again else ():
                uncounted = other.kind == MODIFY and other.uncounted and other.outcome != LOST
                if other is not delivery and not uncounted and surely_later(delivery, other):
                    say.found("not flagged", f"{name_of(message)} came without a count to {delivery} after {other}")
                    break


def _counts_rise(facts: Facts) -> None:
    """On one link a message's delivery count never falls (it may stand: what an evicted owner had not yet acquired)."""
    for message, deliveries in facts.of.items():
        last: dict[str, Delivery] = {}
        for delivery in deliveries if len(deliveries) > 1 else ():
            before = last.get(delivery.link.id)
            if before is not None:
                facts.say.counts["count checks"] += 1
                if delivery.count < before.count:
                    facts.say.found("count", f"{name_of(message)} came to {delivery} after {before}")
            last[delivery.link.id] = delivery


def _in_order_of_places(facts: Facts) -> None:
    """Places follow sending: always on one link, else whenever one transfer was complete before the next was sent."""
    say = facts.say
    queues: dict[str, dict[int, Transfer]] = defaultdict(dict)
    for message, deliveries in facts.of.items():
        transfer = facts.transfer(message)
        if transfer is not None:
            queues[message[0]][deliveries[0].position] = transfer
    for queue, places in queues.items():
        highest: dict[str, Transfer] = {}
        latest: Transfer | None = None
        for place in sorted(places):
            transfer = places[place]
            before = highest.get(transfer.link.id)
            if before is not None:
                say.counts["place order checks"] += 1
                if transfer.number < before.number:
                    name = f"{transfer.number} of {transfer.producer}"
                    say.found("order", f"in queue {queue}, {name} is at {place}, behind {before.number} of one link")
            if before is None or transfer.number > before.number:
                highest[transfer.link.id] = transfer
            if latest is not None and transfer.outcome == COMPLETED:
                say.counts["real time checks"] += 1
                if transfer.done < latest.sent:
                    say.found(
                        "real time",
                        f"in queue {queue}, {transfer.number} of {transfer.producer} was complete at {transfer.done:.3f} "
                        f"and is behind {latest.number} of {latest.producer}, sent only at {latest.sent:.3f}",
                    )
            if latest is None or transfer.sent > latest.sent:
                latest = transfer


def _in_order_to_one(facts: Facts) -> None:
    """To one consumer, a producer's messages come in their order, redeliveries left out."""
    say = facts.say
    highest: dict[tuple[str, str, str], Delivery] = {}
    by_link: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in facts.history.deliveries:
        if delivery.new:
            by_link[delivery.link.id].append(delivery)
    for link, deliveries in by_link.items():
        deliveries.sort(key=lambda d: d.order)
        for delivery in deliveries:
            kind = kind_of(delivery.queue)
            key = (link, delivery.producer, kind.order(delivery.number) if kind else "")
            before = highest.get(key)
            if before is not None:
                say.counts["order checks"] += 1
                if delivery.number < before.number and _ordered(facts, delivery, before):
                    say.found(
                        "order",
                        f"{link} got {delivery.number} of {delivery.producer} after {before.number}, both as new",
                    )
            if before is None or delivery.number > before.number:
                highest[key] = delivery


def _in_order_to_the_only_one(facts: Facts) -> None:
    """A queue's only consumer that gives nothing back gets the messages in the queue's order, also where another broker
    has taken over: those it held at the last one come first (`Link.resumed`).

    A client that connects anew by itself is a second consumer as long as its old connection is not known to be over:
    so what the first broker of a connection gives is not looked at. Nor is what is perhaps the next one's (`unsure`).
    """
    say = facts.say
    links: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in facts.history.deliveries:
        if delivery.link.alone and delivery.link.resumed and not delivery.unsure:
            links[delivery.link.id].append(delivery)
    for link, deliveries in links.items():
        deliveries.sort(key=lambda d: d.order)
        for before, delivery in pairwise(deliveries):
            say.counts["only consumer checks"] += 1
            if delivery.position <= before.position:
                say.found(
                    "order",
                    f"{link} is the only consumer of {delivery.queue}, and gets {delivery.position} after {before.position}",
                )


def _ordered(facts: Facts, lower: Delivery, higher: Delivery) -> bool:
    """Whether the one with the lower number had to be first in the queue."""
    first = facts.transfer((lower.queue, lower.producer, lower.number))
    second = facts.transfer((higher.queue, higher.producer, higher.number))
    if first is None or second is None:
        return False
    return first.link is second.link or (first.outcome == COMPLETED and first.done < second.sent)


def _within_the_window(facts: Facts) -> None:
    """A link that bounds its unsettled messages is given no more."""
    for delivery in facts.history.deliveries:
        if delivery.over:
            facts.say.found("window", f"{delivery} of {delivery.queue} is more than its link was to be given")


def _browsed(facts: Facts) -> None:
    """A browser sees each message once, in the queue's order, as it was sent. Of a queue that nobody has taken anything
    from while it looked, it sees all that was complete when it began."""
    say = facts.say
    taken: dict[str, float] = {}  # queue -> when the first was taken
    for link in facts.history.links.values():
        if link.role == "receiver":
            taken[link.queue] = min(taken.get(link.queue, NEVER), link.opened)
    places = {(queue, *rest): deliveries[0].position for (queue, *rest), deliveries in facts.of.items()}
    for browse in facts.history.browses:
        queue, name = (
            browse.link.queue,
            f"{browse.link.id}, which browses {browse.link.queue} from {browse.began:.3f} on,",
        )
        if browse.damaged:
            say.found("damaged", f"{name} sees a damaged message")
        for before, after in pairwise(browse.seen):
            say.counts["browse order checks"] += 1
            if after[0] <= before[0]:
                say.found("browse", f"{name} sees {after} after {before}")
        for position, producer, number in browse.seen:
            transfer = facts.transfer((queue, producer, number))
            if transfer is None or transfer.sent > browse.t or transfer.outcome in (FAILED, REFUSED):
                say.found("phantom", f"{name} sees number {number} of {producer}, which was not sent, or refused")
            elif places.get((queue, producer, number), position) != position:
                say.found("place", f"{name} sees number {number} of {producer} at {position}; it is elsewhere")
        if browse.whole and browse.t < taken.get(queue, NEVER) and not _loses(queue):
            seen = {(producer, number) for _, producer, number in browse.seen}
            for (of, producer), mine in facts.history.transfers.items():
                for number, transfer in mine.items() if of == queue else ():
                    if transfer.done < browse.began and transfer.outcome == COMPLETED:
                        say.counts["browse loss checks"] += 1
                        if (producer, number) not in seen:
                            say.found("browse", f"{name} does not see number {number} of {producer}, complete before")


def _strict(facts: Facts, whole: History) -> None:
    """Without faults nothing is unknown, nothing breaks, and nothing comes twice unless somebody gave it back."""
    history, say = facts.history, facts.say
    for name in ("transfers unknown", "transfers failed", "accepts unknown", "accepts lost", "releases unknown",
                 "releases lost", "rejects unknown", "rejects lost", f"{MODIFIES} unknown", f"{MODIFIES} lost", "links broken"):  # fmt: skip
        if say.counts[name]:
            say.found("uncalled for", f"{say.counts[name]} {name}, and there were no faults")
    history_kinds.lost_with_reason(facts)
    history_roaming.expired_in_time(whole, say)
    closings: dict[str, list[tuple[float, float]]] = defaultdict(list)  # when what was not fetched went back
    for link in history.links.values():
        if link.role == "receiver" and link.closed != NEVER:
            closings[link.queue] += [*((t, t) for t in (link.closed, *link.stops)), *link.idles]
    for message, deliveries in facts.of.items():
        say.counts["strict checks"] += 1
        given_back = sum(d.kind in (RELEASE, MODIFY) or (not d.kind and d.link.closed != NEVER) for d in deliveries)
        last = deliveries[-1]
        transfer = facts.transfer(message)
        sent = transfer.sent if transfer else 0.0
        closed = sum(sent < t and began < last.t for began, t in closings[message[0]]) if last.count else 0
        if len(deliveries) > given_back + 1 or max(d.count for d in deliveries) > given_back + closed:
            seen = "; ".join(map(str, deliveries))
            say.found("uncalled for", f"{name_of(message)} was delivered again though nobody gave it back: {seen}")


RULES: tuple[Callable[[Facts], None], ...] = (
    _known, _not_lost, _dead_lettered, _one_place, _accepted_once, _flagged, _counts_rise, _in_order_of_places, _in_order_to_one,
    _in_order_to_the_only_one, _within_the_window, _browsed,
)  # fmt: skip
