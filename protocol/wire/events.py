"""The events of a queue or of the cluster: the values that are ordered, replicated and applied.

Every event is one msgpack array, its first element the kind. Kinds are only ever added; a keeper that meets a newer
kind skips it (`new-cluster-design`, live upgrades). The sequencer never looks inside an event: it orders bytes.

*Ranges* are flat lists ``[first, last, first, last, ...]`` of inclusive positions; *runs* are flat lists
``[acquisition, first, last, ...]``. A message is known by queue and position; its position is its place among the
enqueues of the queue's stream, from 1. An *acquisition* is a number the acquiring broker's replica chose, rising within
its incarnation, so that a stale accept can never hit a later delivery (`sequencer.md` Q2).
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

import msgspec

from ..errors import BAD_FRAME, PeerError
from .deletion_events import Dissolve, Dissolved
from .event import Event
from .member_events import Evict, Member, Rejoin, Return, Supervise
from .move_events import Move, Moved
from .pattern_events import DropPattern, PutPattern
from .policy_events import Configure, DropPolicy, PutPolicy
from .redirect_events import Redirect
from .sender_events import Named
from .use_events import Condemn, Exclusive, InUse, Lift, Recount

Ballot = tuple[int, int]
"""``(counter, sequencer uid)``, totally ordered: the fencing token of `sequencer.md` section 1."""

ZERO: Ballot = (0, 0)
CLUSTER = "cluster"
"""Name of the cluster's own stream (wiring and membership); a queue's stream has its id, ``name#number``."""


class Start(Event, tag=1):
    """A sequencer's term begins (`sequencer.md` S3)."""

    ballot: Ballot


class Enqueue(Event, tag=2):
    """Messages join the tail, in order.

    Attributes:
        client: client id and sender they came from, for duplicate suppression; "" when there is none.
        numbers: ranges of the client's numbers, one number per blob.
        blobs: encoded messages, opaque to the cluster.
        expiry: flat ``[index, expires_ms, ...]`` for the messages that expire.
        traits: what the queue must know of each message (`queue/traits.py`), one value per blob; empty: nothing.
        origins, origin_of: of dead letters, which come from a queue: client ids, and per blob which of them sent it
            first. Empty: `client` did.
        at_ms: when the broker took the messages in, Unix ms by its clock; 0 from one before minor 9.
        delays: flat ``[index, due_ms, ...]`` for the messages that nobody gets before.
        judged: its broker waits for what the queue says of it, though the queue was declared without a limit: what
            comes without this is not refused at a limit that the queue has got since.
    """

    client: str
    numbers: list[int]
    blobs: list[bytes]
    expiry: list[int] = []
    traits: list[Any] = []
    origins: list[str] = []
    origin_of: list[int] = []
    at_ms: int = 0
    delays: list[int] = []
    judged: bool = False


class Acquire(Event, tag=3):
    """The owner gave messages to its consumers. Void unless `broker` holds `grant` (`sequencer.md` Q1)."""

    broker: str
    inc: int
    grant: int
    runs: list[int]
    accepted: bool = False
    """True for consumers that do not accept: acquired and dequeued at once."""


class Accept(Event, tag=4):
    """Acquired messages are done with: dequeue them. Runs the broker does not hold are *lost* (Q2)."""

    broker: str
    inc: int
    runs: list[int]


class Release(Event, tag=5):
    """Acquired messages return to their original positions.

    Attributes:
        redelivered: whether a consumer may have seen them: raises the delivery count and sets the redelivered flag.
        at_ms: when, Unix ms, since the queue may have looked at that (`queue/retries.py`) before its replica knew; 0 of
            earlier versions, in queues that did not.
    """

    broker: str
    inc: int
    runs: list[int]
    redelivered: bool = True
    at_ms: int = 0


class Reject(Event, tag=6):
    """Acquired messages are refused: to the alternate exchange, or discarded."""

    broker: str
    inc: int
    runs: list[int]


class Modify(Event, tag=16):
    """Acquired messages return to their original positions, as AMQP's *modified*: `annotations` are merged into those
    that their next consumers see.

    Attributes:
        redelivered: this was an attempt at delivery, as of `Release`.
        due_ms: nobody gets them before; 0: anybody may at once. at_ms: as of `Release`.
    """

    broker: str
    inc: int
    runs: list[int]
    redelivered: bool = False
    annotations: dict[str, Any] = {}
    due_ms: int = 0
    at_ms: int = 0


class Own(Event, tag=7):
    """The consume lock passes to `broker` ("": it becomes free) under `grant`.

    Counts only if `grant` is the current grant + 1 and either the lock is free or its holder itself hands over (`by` is
    then its broker id); so there is at most one grant per queue (I14).
    """

    broker: str
    grant: int
    by: str = ""


class Expire(Event, tag=8):
    """The clock as an event: messages in these ranges that are available and expired at `now_ms` are dequeued."""

    now_ms: int
    ranges: list[int]


class Due(Event, tag=17):
    """The clock as an event: messages in these ranges that are delayed, and due at `now_ms`, are available."""

    now_ms: int
    ranges: list[int]


class Purge(Event, tag=9):
    """Discard the available messages, at most `count` from the head; 0 means all, and those that are delayed."""

    count: int


class DeadLetterDone(Event, tag=10):
    """Rejected messages have reached the alternate exchange's queues: dequeue them here (`sequencer.md` section 3).

    Attributes:
        batch: index of the event that rejected them.
        wired: of an exchange's own queue: what goes on from here goes by the cluster's stream as it is there at least.
    """

    batch: int
    wired: int = 0


class DeclareQueue(Event, tag=32):
    """Create a queue; the same definition again is no change, another one is refused.

    Attributes:
        client: id of the client that has it for itself, "" for none (`wiring/exclusives.py`).
        broker, inc, life: where that client's connection is, and which of its connections it is.
    """

    name: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""
    client: str = ""
    broker: str = ""
    inc: int = 0
    life: int = 0


class DeleteQueue(Event, tag=33):
    """Delete a queue; if `broker` is not "", only while the `Condemn` of that broker, inc and number stands; if `id` is
    not "", only the queue of that id: it destroys itself, or, if `vacant` is not 0, nobody has used it since the event
    at that index of this stream (`wiring/vacancies.py`; one that goes only when it is empty has to be condemned, too);
    if `client` is not "", that client asks for it, and it is refused where another has the queue for itself. With
    `aside`, what is in it goes to its alternate exchange, if it has one for all that dies, before its stream ends
    (`wiring/dissolving.py`)."""

    name: str
    broker: str = ""
    inc: int = 0
    number: int = 0
    id: str = ""
    vacant: int = 0
    client: str = ""
    aside: bool = False


class DeclareExchange(Event, tag=34):
    name: str
    type: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""


class DeleteExchange(Event, tag=35):
    name: str


class Bind(Event, tag=36):
    """What `exchange` gets goes on to a queue; or, where that is "", to the exchange `to_exchange`. `client` as in
    `DeleteQueue`."""

    exchange: str
    queue: str
    key: str
    arguments: dict[str, Any]
    to_exchange: str = ""
    client: str = ""


class Unbind(Event, tag=37):
    exchange: str
    queue: str
    key: str
    to_exchange: str = ""
    client: str = ""


class FlowControl(Event, tag=39):
    """Cluster-wide flow control goes on or off for `member`'s sake, since it is behind (`design.md` 7).

    While it is on for any member, no broker completes a transfer. It goes off with an event of its own, or with the
    member's `Evict`; a `Start` takes it off for all: a new sequencer keeps a short log, and judges for itself.

    Attributes:
        reason: how far behind the member is, in words.
    """

    member: str
    on: bool
    reason: str = ""


class Lost(Event, tag=40):
    """The queue of id `queue` can never have a majority again, since most of its voters have lost their logs: it is
    gone with its bindings, and its clients hear so.

    Attributes:
        asked: an operator has ordered it (`queue reset`), since a voter may still have part of the queue.
        even_durable: the operator has said that it may be a durable one; without that none of those is dropped.
    """

    queue: str
    asked: bool = False
    even_durable: bool = False


AnyEvent = (
    Start
    | Enqueue
    | Acquire
    | Accept
    | Release
    | Reject
    | Own
    | Expire
    | Due
    | Purge
    | Move
    | Moved
    | DeadLetterDone
    | Dissolve
    | Dissolved
    | Evict
    | Rejoin
    | Return
    | DeclareQueue
    | DeleteQueue
    | DeclareExchange
    | DeleteExchange
    | Bind
    | Unbind
    | Member
    | FlowControl
    | Lost
    | InUse
    | Condemn
    | Lift
    | Recount
    | Exclusive
    | PutPolicy
    | Configure
    | DropPolicy
    | PutPattern
    | DropPattern
    | Redirect
    | Supervise
    | Modify
    | Named
)

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[int, msgspec.msgpack.Decoder[AnyEvent]] = {
    cls.__struct_config__.tag: msgspec.msgpack.Decoder(cls) for cls in AnyEvent.__args__
}


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One place in a stream's log.

    Attributes:
        ballot: the term that appended it.
        seq: its place in the total order of the cluster.
        origin, inc, number: the submitter that asked for it, its incarnation, and the number of its request.
        event: the encoded event.
    """

    ballot: Ballot
    seq: int
    origin: str
    inc: int
    number: int
    event: bytes


def encode_event(event: AnyEvent) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes) -> AnyEvent | None:
    """The event in `data`, or None for a kind newer than this program.

    Raises:
        PeerError: `bad-frame`, when the bytes are no event.
    """
    # The first element is the kind: a positive fixint up to 127, behind a one- or three-byte array header.
    try:
        kind = data[1] if data[0] & 0xF0 == 0x90 else data[3]
        decoder = _decoders.get(kind)
        return decoder.decode(data) if decoder else None
    except (IndexError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(BAD_FRAME, f"an event must be a msgpack array of its kind's fields: {error}") from None
