"""The frames between the processes that keep logs and their broker's store: 73 to 79, 55 and 34 (`durable.md` 3).

They stay inside a broker's group of processes: links ``b1 -> b1.store`` and ``b1.r0 -> b1.store``. The store writes
records and says when they are on disk; it does not know what they mean. LSNs are those of the stream's own log.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .events import Ballot
from .frame import Frame


class Take(Frame):
    """The sender's `life` keeps `stream` from now on; the answer is `Taken`, or `Ousted`."""

    stream: str
    life: int


class Taken(Frame):
    """What the store has of a stream that its sender has taken: read it, then write an `OpenedRecord`.

    Attributes:
        life: the taker's, as in `Take`.
        opened: the life before it, by the records; 0: there are none.
        log_inc: incarnation of the log, as it was.
        blank: the log did not vote, by its last `OpenedRecord` or checkpoint; entries behind that may say otherwise.
        promised: the highest ballot that this store has promised (K1).
        checkpoint: LSN of the stream's last checkpoint; 0: it has none.
        last: LSN of its last record. From there each record's undo pointer leads to the one before, back to the
            checkpoint, or to the first record.
        hurt: a part of it cannot be read, or may be missing: it must not vote, and is no more than a cache.
        streams: of the cluster stream: the queues of which the store has records.
    """

    stream: str
    life: int
    opened: int
    log_inc: int
    blank: bool
    promised: Ballot
    checkpoint: int = 0
    last: int = 0
    hurt: bool = False
    streams: list[str] = []


class Write(Frame):
    """Write these records, in this order, and say when they are on disk.

    Attributes:
        number: counts the sender's writes on this link, from 1.
        records: (kind, stream, payload), as in `records.py`.
        live_bytes: stream -> bytes of its live bodies, where that has changed much since it was told last.
    """

    number: int
    records: list[tuple[int, str, bytes]]
    live_bytes: dict[str, int] = {}


class Written(Frame):
    """On disk: all writes of the receiver up to `number`.

    Attributes:
        lsns: where each record is, of all the writes since the last `Written`, in order; 0: it was dropped, since
            another life has the stream (`Ousted` came before this).
    """

    number: int
    lsns: list[int]


class Ousted(Frame):
    """Life `life`, of another process, keeps `stream`: nothing that the receiver writes of it counts any more. End."""

    stream: str
    life: int


class Ahead(Frame):
    """The oldest container of `log` should go: write what is needed from before LSN `upto` again, and a checkpoint that
    names the new places."""

    log: str
    upto: int


class Room(Frame):
    """Space on the store's disk, told when `pressed` or `full` changes.

    Attributes:
        left_bytes: what may be written before the reserve is begun; below 0: what the reserve lacks already.
        pressed: the reserve is begun: nothing new should be ordered but what frees space.
        full: half of the reserve is gone: no record that brings bodies may be written.
    """

    left_bytes: int
    pressed: bool = False
    full: bool = False


class Expected(Frame):
    """The broker knows all that was complete: of these queues its store may have had records from earlier lives, and of
    no others. Said once in a life.

    Attributes:
        streams: ids of the durable queues that there are.
    """

    streams: list[str]


class Happened(Frame):
    """To the broker: what happened in its store, for the event table (`Observation`).

    Attributes:
        what: a kind of row.
        queue: id of the queue's stream; "" where it is about none, or about the cluster stream.
        value, detail: by kind, as in `event_table.Row`.
    """

    what: str
    queue: str = ""
    value: int = 0
    detail: str = ""
