"""The frames between the tap, which keeps the event table, and those who tell it what was committed.

Every broker and every queue replica dials the tap and offers its streams; the tap asks one of them to tell each stream.
What they tell is facts: what an event did, without the messages themselves.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from .frame import Frame


class FactsOffered(Frame):
    """To the tap: facts about `stream` are here.

    Attributes:
        base: those up to here are not any more.
        near: it acts on commits, so it hears of them first: its times are the best.
    """

    stream: str
    base: int
    near: bool = False


class FactsWanted(Frame):
    """From the tap: tell `stream` from behind `after` on; -1: no more of it."""

    stream: str
    after: int


class Facts(Frame):
    """Facts `first`, `first` + 1, ... of a stream, each encoded.

    Attributes:
        alternate: the queue's alternate exchange.
    """

    stream: str
    first: int
    facts: list[bytes]
    alternate: str = ""


class FactsKept(Frame):
    """From the tap, stream -> index.

    Attributes:
        seen: what it has been told; more may come.
        kept: what is safe, and may be forgotten.
    """

    seen: dict[str, int]
    kept: dict[str, int]


# ---- facts: an index of a stream has one


class EnqueueFact(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=1):
    """An enqueue that was effective: messages `first` to `last`, `bytes` of them."""

    seq: int
    term: int
    time_us: int
    client: str
    number_first: int
    number_last: int
    first: int
    last: int
    bytes: int


class EventFact(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=2):
    """Any other event, and what it did (see `queue.Applied`).

    Attributes:
        event: encoded, without messages.
        queue: of a declaration or deletion: the queue's id.
    """

    seq: int
    term: int
    time_us: int
    event: bytes
    effective: bool = True
    positions: list[tuple[int, int]] = []
    lost: list[int] = []
    queue: str = ""


class Observation(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=3):
    """What a broker or replica saw for itself: the fields are those of `event_table.Row`."""

    seq: int
    term: int
    time_us: int
    what: str
    broker: str
    queue: str = ""
    client: str = ""
    inc: int = 0
    first: int = 0
    last: int = 0
    grant: int = 0
    value: int = 0
    detail: str = ""


Fact = EnqueueFact | EventFact | Observation

encode_fact = msgspec.msgpack.Encoder().encode
decode_fact = msgspec.msgpack.Decoder(Fact).decode
