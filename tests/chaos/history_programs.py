"""The rules of programs that begin anew: what a queue says that it had of a name; and how much was sent again, which the
other rules ask to come once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from .facts import Facts, queues_of_kinds
from .journal import COMPLETED, Resumption
from .kinds import BY_NAME, name


def _sent_again(facts: Facts) -> None:
    for queue, kind in queues_of_kinds(facts):
        for (of_queue, _), mine in facts.history.transfers.items() if kind.program else ():
            if of_queue == queue:
                facts.say.counts[f"sent again, of {name(queue)}"] += sum(each.times - 1 for each in mine.values())


def _goes_on(facts: Facts) -> None:
    """Who begins by a name hears of all that was complete before, of nothing that was not sent by then, and of nothing that
    does not come."""
    of_name: dict[tuple[str, str], list[Resumption]] = defaultdict(list)
    for one in facts.history.resumptions:
        of_name[one.queue, one.producer].append(one)
    for queue, kind in queues_of_kinds(facts):
        for (of_queue, producer), mine in facts.history.transfers.items() if kind.program == BY_NAME else ():
            for one in of_name[queue, producer] if of_queue == queue else ():
                facts.say.counts["name checks"] += 1
                before = [n for n, each in mine.items() if each.outcome == COMPLETED and each.done < one.asked]
                sent = [n for n, each in mine.items() if each.sent < one.t]
                where = f"{queue} says at {one.t:.3f} that it had {one.had} of {producer}"
                if one.had < max(before, default=0):
                    facts.say.found("name", f"{where}; {max(before)} was complete before {one.asked:.3f}")
                if one.had > max(sent, default=0):
                    facts.say.found("name", f"{where}, and {max(sent, default=0)} were sent by then")
                for number in mine:
                    if number <= one.had and (queue, producer, number) not in facts.of:
                        facts.say.found("lost", f"{where}; {number} was never delivered")


RULES: tuple[Callable[[Facts], None], ...] = (_sent_again, _goes_on)
