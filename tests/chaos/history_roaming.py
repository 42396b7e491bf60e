"""The rules of messages that go on from queue to queue, and back: as dead letters, by an operator's word.

A message *stays* in a queue at one place, and may stay several times, in the same queue too. Within a stay the rules of
`history.py` hold. All its stays together are one message: one accept ends the last of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from .facts import Facts, Verdict
from .history_later import EARLY_S
from .journal import ACCEPT, COMPLETED, DEAD, FAILED, LOST, REFUSED, REJECT, Delivery, History, Transfer
from .kinds import AWAY, Kind, family, of, roams
from .kinds import others as beside

EXPIRED_S = 2.0
"""So long after its time nobody gets a message: a second, and what a machine with much to do takes."""
Roamers = dict[tuple[str, int], list[Delivery]]
"""Producer and number -> all deliveries, from whatever queue."""


def others(history: History) -> History:
    """The history without messages that go on to other queues."""
    return replace(
        history,
        transfers={key: mine for key, mine in history.transfers.items() if not roams(key[0])},
        deliveries=[delivery for delivery in history.deliveries if not roams(delivery.queue)],
        browses=[browse for browse in history.browses if not roams(browse.link.queue)],
    )


def judge(history: History, say: Verdict, within: Iterable[Callable[[Facts], None]]) -> None:
    """Judge those that do. Args: within: the rules that hold within a stay."""
    found: dict[str, Roamers] = defaultdict(lambda: defaultdict(list))
    stays: dict[tuple[str, str, int], list[Delivery]] = defaultdict(list)
    for delivery in sorted(history.deliveries, key=lambda delivery: delivery.t):
        if roams(delivery.queue):
            found[family(delivery.queue)][delivery.producer, delivery.number].append(delivery)
            stay = f"{delivery.queue} at {delivery.position}"
            stays[stay, delivery.producer, delivery.number].append(delivery)
    for rule in within:
        rule(Facts(history, stays, say))
    _one_place(stays, say)
    for queue in sorted({queue for queue, _ in history.transfers if roams(queue)} | found.keys()):
        kind = of(queue)
        assert kind is not None
        sent = {
            (producer, number): transfer
            for (of_queue, producer), mine in history.transfers.items()
            for number, transfer in (mine.items() if of_queue == queue else ())
        }
        _drained(history, queue, sent, say)
        for message, deliveries in found[queue].items():
            name = f"message {message[1]} of {message[0]} in {queue}"
            _known(name, queue, sent.get(message), deliveries, say)
            _accepted(name, deliveries, say)
            for delivery in deliveries:
                _died(name, queue, kind, sent.get(message), delivery, deliveries, say)
        _not_lost(queue, sent, found[queue], say)
        _moved(history, queue, found[queue], say)


def _drained(history: History, queue: str, sent: dict[tuple[str, int], Transfer], say: Verdict) -> None:
    """All queues to which they may have gone were seen empty, in the end."""
    last = max([0.0, *(transfer.sent for transfer in sent.values())])
    for other in beside(queue):
        if history.drained.get(other, 0.0) < last:
            say.found("undrained", f"queue {other} was not seen empty after all was sent: nothing is known of loss")


def _one_place(stays: Iterable[tuple[str, str, int]], say: Verdict) -> None:
    at: dict[str, tuple[str, int]] = {}
    for stay, *message in stays:
        other = at.setdefault(stay, (message[0], message[1]))
        say.counts["place checks"] += 1
        if other != tuple(message):
            say.found("place", f"messages {message} and {other} are both in {stay}")


def _known(name: str, queue: str, transfer: Transfer | None, deliveries: list[Delivery], say: Verdict) -> None:
    """What comes was sent before, to this queue, was not refused, and is undamaged."""
    for delivery in deliveries:
        say.counts["origin checks"] += 1
        where = f"{name} delivered to {delivery} from {delivery.queue}"
        if delivery.damaged:
            say.found("damaged", where)
        elif delivery.of != queue:
            say.found("misrouted", f"{where}: it was sent to {delivery.of}")
        elif transfer is None or delivery.t < transfer.sent or transfer.outcome in (FAILED, REFUSED):
            say.found("phantom", f"{where}: it was not sent before, or refused")


def _accepted(name: str, deliveries: list[Delivery], say: Verdict) -> None:
    """Once it is accepted it is gone, from wherever."""
    for accepted in deliveries:
        if accepted.kind != ACCEPT or accepted.outcome != COMPLETED:
            continue
        say.counts["accept checks of what goes on"] += 1
        for other in deliveries:
            if other is accepted or (other.queue, other.position) == (accepted.queue, accepted.position):
                continue
            both = other.kind == ACCEPT and other.outcome == COMPLETED and accepted.answered <= other.answered
            later = other.link.opened > accepted.answered or other.since > accepted.answered
            if both or later or (other.link is accepted.link and other.order > accepted.order):
                where = f"from {accepted.queue} at {accepted.position} by {accepted}; also from {other.queue} at"
                say.found("accepted again", f"{name} was accepted {where} {other.position} by {other}")


def _not_lost(queue: str, sent: dict[tuple[str, int], Transfer], found: Roamers, say: Verdict) -> None:
    """What was complete comes, and somebody accepts it, or may have: what is a dead letter is drained at last, too."""
    for (producer, number), transfer in sent.items():
        if transfer.outcome == COMPLETED:
            say.counts["loss checks"] += 1
            if (producer, number) not in found:
                name = f"message {number} of {producer} in {queue}"
                say.found("lost", f"{name} was complete at {transfer.done:.3f} and was never delivered")
    for (producer, number), deliveries in found.items():
        say.counts["vanishing checks"] += 1
        if not any(each.kind == ACCEPT and each.outcome != LOST for each in deliveries):
            seen = "; ".join(f"{each.queue} at {each.position}: {each}" for each in deliveries)
            say.found("vanished", f"message {number} of {producer} in {queue} was accepted by nobody: {seen}")


def _died(
    name: str, queue: str, kind: Kind, transfer: Transfer | None, delivery: Delivery, deliveries: list[Delivery],
    say: Verdict,
) -> None:  # fmt: skip
    """A dead letter says why it died, and it may have been so; who has come back too often does not come again."""
    where = f"{name} came to {delivery} from {delivery.queue}"
    if kind.attempts and delivery.queue == queue and delivery.count > kind.attempts:
        say.found("attempts", f"{where}, and {kind.attempts} times are the most that it comes back")
    if delivery.died is None:
        if delivery.queue.endswith(DEAD):
            say.found("cause", f"{where}, and says nothing of its death")
        return
    cause, times, at = delivery.died
    say.counts[f"deaths, {cause}"] += 1
    say.counts["messages that came back from the dead"] += delivery.queue == queue
    if cause == "rejected":
        asked = (each.asked for each in deliveries if each.kind == REJECT and each.outcome != LOST)
        may = any(t <= delivery.t for t in asked)
    elif cause == "delivery_limit":
        may = kind.attempts > 0 and times > kind.attempts
    else:
        lives = kind.lives(delivery.number)
        may = cause == "expired" and lives > 0 and transfer is not None
        may = may and transfer is not None and delivery.t >= transfer.sent + lives - EARLY_S
    if not may or at not in (queue, queue + AWAY):
        say.found("cause", f"{where}, and cannot have died in {at} by {cause} after {times} deliveries")


def expired_in_time(history: History, say: Verdict) -> None:
    """Without faults, nobody gets what has expired long since, unless it has died since then and was redriven."""
    for delivery in history.deliveries:
        kind = of(delivery.queue)
        if kind is None or not kind.roams or delivery.died or not (lives := kind.lives(delivery.number)):
            continue
        transfer = history.transfers.get((delivery.queue, delivery.producer), {}).get(delivery.number)
        if transfer is not None and transfer.outcome == COMPLETED:
            say.counts["expiry checks"] += 1
            if delivery.since > transfer.done + lives + EXPIRED_S:
                sent = f"message {delivery.number} of {delivery.producer}, complete at {transfer.done:.3f}"
                say.found("expired", f"{sent}, lives {lives:g} s, and came to {delivery}, after {delivery.since:.3f}")


def _moved(history: History, queue: str, found: Roamers, say: Verdict) -> None:
    """What an operator has had go on: all that was to."""
    for roam in history.roams:
        if family(roam.queue) != queue:
            continue
        say.counts["messages that went on"] += roam.moved
        if roam.left:
            say.found("left", f"at {roam.t:.3f} {roam.left} messages stayed in {roam.queue}, where nothing refuses any")
    for deliveries in found.values():
        say.counts["messages that were moved"] += any(delivery.queue.endswith(AWAY) for delivery in deliveries)
