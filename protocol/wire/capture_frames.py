"""The frames between the tap, which keeps the event table, and its sources: the brokers and queue replicas.

Every source dials the tap and offers its streams; the tap asks one source for the facts of each stream. A fact says
what a committed event did, without the messages themselves.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from .frame import Frame


class FactsOffered(Frame):
    """To the tap: the source has facts about `stream`.

    Attributes:
        base: index up to which it has forgotten them.
        near: the source acts on commits, so it hears of them first: its times are the best.
    """

    stream: str
    base: int
    near: bool = False


class FactsWanted(Frame):
    """From the tap: send the facts of `stream` behind index `after`; -1: send no more of them."""

    stream: str
    after: int


class Facts(Frame):
    """Facts `first`, `first` + 1, ... of a stream, each encoded.

    Attributes:
        alternate: the queue's alternate exchange.
        after: the source goes on behind this index: the last it has told, or the one the tap has named. What is between
            that and `first` it has forgotten.
    """

    stream: str
    first: int
    facts: list[bytes]
    alternate: str = ""
    after: int = 0


class FactsKept(Frame):
    """From the tap, stream -> index.

    Attributes:
        seen: the tap has the facts up to here; the source may send more.
        kept: the facts up to here are safe, and the source may forget them.
    """

    seen: dict[str, int]
    kept: dict[str, int]


# ---- facts: one for each index of a stream


class EnqueueFact(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=1):
    """An enqueue that was effective: messages `first` to `last`, `bytes` of them.

    Attributes:
        dropped, aside: as in `Applied`. late: it came into a deleted queue. delays: position, and when it is due.
    """

    seq: int
    term: int
    time_us: int
    client: str
    number_first: int
    number_last: int
    first: int
    last: int
    bytes: int
    dropped: list[tuple[int, int, bool]] = []
    aside: list[tuple[int, int]] = []
    late: bool = False
    delays: list[tuple[int, int]] = []


class EventFact(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=2):
    """Any other event, and what it did (see `Applied` in `queue/state.py`).

    Attributes:
        event: encoded, without messages.
        queue: the queue's id, if the event is a declaration or deletion.
        dropped, aside: as in `Applied`. waits: as in `PutOff`.
        alternate: of a `Reject`, the alternate of the queue then, where it has become another one; else None.
    """

    seq: int
    term: int
    time_us: int
    event: bytes
    effective: bool = True
    positions: list[tuple[int, int]] = []
    lost: list[int] = []
    queue: str = ""
    dropped: list[tuple[int, int, bool]] = []
    aside: list[tuple[int, int]] = []
    waits: list[tuple[int, int]] = []
    alternate: str | None = None


class Observation(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="kind", tag=3):
    """A broker's or replica's own observation: the fields are those of `event_table.Row`."""

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
