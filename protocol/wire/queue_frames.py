"""The frames between a broker, its queue replicas and Ownership. Kinds 48 to 79."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

import msgspec

from .events import ZERO, Ballot, Named
from .frame import Frame

# ---- the consume lock: 48 to 55 (`design.md` section 5)


class Interest(Frame):
    """Broker `broker` has (or no longer has) a consumer with credit on queue id `queue`."""

    queue: str
    broker: str
    interested: bool


class OwnerIs(Frame):
    """An `own` event took effect: `broker` ("": no broker) now holds `grant`."""

    queue: str
    broker: str
    grant: int


class Void(Frame):
    """The `own` event that would have given `grant` to `broker` was void: that broker is out, and has not come back."""

    queue: str
    broker: str
    grant: int


class Contended(Frame):
    """To the holder of `grant`: when your slice has run and you have used it, hand over to `next` ("": keep it).

    Attributes:
        ballot, turn: under which the sender is on duty (`lock/duty.py`); a replica that has heard a later pair ignores
            the frame. An Ownership of an older version sends (0, 0), which always has effect.
    """

    queue: str
    grant: int
    next: str
    slice_ms: int
    ballot: Ballot = ZERO
    turn: int = 0


class Forget(Frame):
    """The queue is gone."""

    queue: str


# ---- a broker and its queue replicas: 56 to 79


class Host(Frame):
    """Host queue id `queue`; `alternate` is its alternate exchange, "" for none.

    Attributes:
        arguments: of the declaration; the replica reads its settings from them (`queue/settings.py`).
        inc: incarnation under which the replica keeps the queue: higher than any under which its broker kept it before.
        voters: the voters of the cluster stream when the queue was declared: its stream begins with them.
        ballot: the ballot that the broker has promised; the replica promises the same.
        blank: this broker may have kept the queue before and lost it: come back through an update (K4).
        durable: its stream is on disk, in the store of the broker (`durable.md` 3).
    """

    queue: str
    alternate: str
    arguments: dict[str, Any]
    ballot: Ballot = (0, 0)
    blank: bool = False
    inc: int = 0
    voters: list[str] = []
    durable: bool = False


class GiveUp(Frame):
    """To a replica: its broker leaves the cluster. The replica says `GivenUp` when it holds no lock and no message."""


class GivenUp(Frame):
    pass


class Hosted(Frame):
    queue: str


class Unhost(Frame):
    queue: str


class Consume(Frame):
    """Start subscription `sub` (a number unique within the broker's incarnation).

    Attributes:
        mode: "consume" (acquires), "browse", or "rescue": browse, and see what is acquired or rejected as well.
        accept: False: acquired is accepted (no settling).
        before: brokers that this consumer comes from, as (broker, acquisition, runs): it held these runs there, and may
            have been given more under later acquisitions than that (-1: no more than goes back together with the runs).
            It gets nothing until those messages are back in their places (`queue/resumption.py`). Broker "": any.
        selector: which messages it wants (`queue/selector.py`); "": all.
        priority: consumers of a higher one are served first, at this broker (`queue/ranks.py`).
        undeliverable: ranges of positions that it is not given: it has given them back as undeliverable to itself.
        own: the id of its client, whose messages it does not want (`queue/origins.py`); "": it may have all.
    """

    queue: str
    sub: int
    mode: str
    accept: bool
    before: list[tuple[str, int, list[int]]] = []
    selector: str = ""
    priority: int = 0
    undeliverable: list[int] = []
    own: str = ""


class Credit(Frame):
    """More credit (-1 bytes: unlimited). `drain`: use it now, report `Drained`, forget the rest.

    Attributes:
        sure: a drain covers every message complete when the drain was asked; False: every one the replica knows of.
    """

    queue: str
    sub: int
    messages: int
    bytes: int = -1
    drain: bool = False
    sure: bool = True


class Drained(Frame):
    """A drain's answer. `available`: messages that wait in the queue, for whomever, by what is known here."""

    queue: str
    sub: int
    available: int = -1


class Cancel(Frame):
    """End a subscription. `requeue`: release the messages it still holds, flagged redelivered."""

    queue: str
    sub: int
    requeue: bool


class Cancelled(Frame):
    queue: str
    sub: int


class HeldTooLong(Frame):
    """A consumer has held a message for longer than the queue lets it: end it."""

    queue: str
    sub: int


class Emptied(Frame):
    """To its broker: nothing is in a queue any more that goes only when it is empty (`wiring/vacancies.py`)."""

    queue: str


class Deliver(Frame):
    """Messages for a subscription.

    Attributes:
        acquisition: to be quoted when settling; 0 for browsers.
        ranges: their positions.
        blobs: as many encoded messages as there are positions.
        redelivered: flat ``[index, delivery count, ...]`` for those delivered before.
        times: flat ``[index, Unix ms, ...]``: that message, and those behind it up to the next, came into the queue
            then; 0, or nothing: it is not known.
    """

    queue: str
    sub: int
    acquisition: int
    ranges: list[int]
    blobs: list[bytes]
    redelivered: list[int] = []
    times: list[int] = []


ACCEPT, RELEASE, REJECT, MODIFY = 1, 2, 3, 4


class Modification(msgspec.Struct, array_like=True, frozen=True):
    """What a consumer says of messages that it gives back (AMQP's *modified*).

    Attributes:
        failed: it was an attempt at delivery: the delivery count rises.
        undeliverable_here: this consumer does not get them again, as long as it lives.
        annotations: merged into those that the next consumers see.
        delay_ms: nobody gets them for so long.
    """

    failed: bool = False
    undeliverable_here: bool = False
    annotations: dict[str, Any] = {}
    delay_ms: int = 0


class Settle(Frame):
    """Accept, release, reject or modify delivered messages; `number` rises by one per frame of a subscription.

    Attributes:
        kind: ACCEPT, RELEASE, REJECT or MODIFY.
        runs: flat ``[acquisition, first, last, ...]``.
        modification: with MODIFY, and only then.
    """

    queue: str
    sub: int
    number: int
    kind: int
    runs: list[int]
    modification: Modification | None = None


class Settled(Frame):
    """The settle is committed and applied. `lost`: runs that were not this subscription's to settle (stale)."""

    queue: str
    sub: int
    number: int
    lost: list[int]


class MoveOrder(msgspec.Struct, array_like=True, frozen=True):
    """Messages that are to go on, as in `move_events.Move`.

    Attributes:
        count: at most so many; 0: all that there are when it begins.
        selector: only those that it wants; "": all.
    """

    token: str
    exchange: str = ""
    key: str = ""
    by: str = ""
    count: int = 0
    selector: str = ""


class QueueCommand(Frame):
    """An order or question to one queue: name "stat" or "purge", "move" with its order, or "sender", who begins."""

    queue: str
    number: int
    name: str
    argument: int = 0
    move: MoveOrder | None = None
    sender: Named | None = None


class QueueReply(Frame):
    queue: str
    number: int
    value: dict[str, Any]


class SenderNamed(Frame):
    """From a replica to its broker: a sender of that name has begun (`Named`)."""

    queue: str
    name: str
    holder: str


class DeadLetter(Frame):
    """Messages to route through the alternate exchange; the answer is `DeadLettered`.

    Attributes:
        id: index of the event that set them aside: with "queue@id" as client the re-enqueue applies once, whichever
            replicas ask for it.
        origins, origin_of: who sent them, as in `Enqueue`.
        first: of an exchange's own queue: position of the first. They go on from that exchange, each under its position
            as number, so a queue has each once, whatever batch it comes in.
        cause, positions, counts: why, and from where in the queue each; how often each was delivered in vain, as
            in `Deliver.redelivered`. Of moved messages `keys` and `expiry` are given, too.
        key: by which they are routed; "": by the queue's name. Of moved messages the id of the queue they go to; "": by
            `keys`.
        keys: by which each is routed there, one or several. expiry: as in `Enqueue`. wired: by the cluster's stream as
            it is there at least.
    """

    queue: str
    id: int
    exchange: str
    blobs: list[bytes]
    origins: list[str] = []
    origin_of: list[int] = []
    first: int = 0
    keys: list[list[str]] = []
    expiry: list[int] = []
    wired: int = 0
    cause: str = ""
    positions: list[int] = []
    counts: list[int] = []
    key: str = ""


class DeadLettered(Frame):
    """`back`: positions, as ranges, of moved messages that nobody has taken."""

    queue: str
    id: int
    back: list[int] = []
