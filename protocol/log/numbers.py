"""The last request number of each origin in one stream, until the origin's process is over (`durable.md` 7, S5).

An origin is a process that submits: a broker, one of its replicas, an Ownership. Numbers rise within an incarnation, so
a table of the last ones tells a repeat from a new request. The event that says that older processes of a broker are
over drops their numbers, at the same place of the stream in every table; what is remembered instead is one number for
each broker, and no request of an incarnation up to that is taken any more. The Ownerships need no such event: there are
two names of them, and a newer incarnation takes the older one's place in the table.
"""

from __future__ import annotations

from ..limits import INCARNATIONS_PER_BROKER
from ..machine import broker_of
from ..wire.events import AnyEvent, Entry, Evict, Member, Rejoin, Return
from ..wire.log_frames import Numbers


def note_number(numbers: Numbers, entry: Entry) -> None:
    """The next entry of an origin is in the log."""
    seen = numbers.get(entry.origin)
    parts = seen[2] + 1 if seen is not None and seen[1] == entry.number and seen[0] == entry.inc else 1
    numbers[entry.origin] = (entry.inc, entry.number, parts)


def drop_numbers(numbers: Numbers, over: dict[str, int], event: AnyEvent | None) -> None:
    """An event of the sequencer's own is in the log: it may say that processes of a broker are over.

    A broker's queues may be kept under incarnations later than the broker's own, by up to `INCARNATIONS_PER_BROKER`,
    and each of those may come back by itself while the broker lives: then nothing of the broker is over.

    Args:
        over: broker -> the newest incarnation of it whose numbers are dropped.
    """
    kind = type(event)
    if kind is Evict:
        broker, inc = event.broker, event.inc  # type: ignore[union-attr]
    elif kind is Rejoin:
        broker, inc = event.voter, event.inc - INCARNATIONS_PER_BROKER  # type: ignore[union-attr]
    elif kind is Return:
        broker, inc = event.voter, event.life - INCARNATIONS_PER_BROKER  # type: ignore[union-attr]
    elif kind is Member:
        broker, inc = event.broker, event.inc - INCARNATIONS_PER_BROKER * event.present  # type: ignore[union-attr]
    else:
        return
    for origin in [o for o, seen in numbers.items() if seen[0] <= inc and broker_of(o) == broker]:
        over[broker] = max(over.get(broker, 0), numbers.pop(origin)[0])


def is_over(over: dict[str, int], origin: str, inc: int) -> bool:
    """Whether a request of this incarnation is refused: its numbers are dropped, so it may be a repeat."""
    return inc <= over.get(broker_of(origin), -1)
