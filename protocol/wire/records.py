"""The records of the store's logs: the vocabulary of a write-ahead log, of which the consensus entry is the chief word.

A log record *is* what was agreed on (`durable.md` 0, 3): an `Enqueue` entry's record holds the bodies, once. A record
on disk is framed by the log (`store/log/`): its kind, the stream it belongs to, and a payload, which is one of these
structs as a msgpack array. Kinds are only ever added, fields only ever appended with a default. All the records of a
stream, in the order of their LSNs, are the stream's history at this voter: recovery folds them (ARIES: redo only, since
an entry that is not committed is dropped by the next leader, never undone).

An *LSN* is a byte position in the endless log of the stream; 0 stands for none, since each log begins with a header.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from ..errors import BAD_FRAME, PeerError
from .events import Ballot, Entry
from .large import entries_payload
from .log_frames import Numbers


class StoreRecord(msgspec.Struct, array_like=True, frozen=True):
    """Base of all records' payloads. Its kind is in `RECORDS`."""


class OpenedRecord(StoreRecord):
    """A process has taken the stream, and keeps it from here on: the first record of each life.

    Attributes:
        life: its life; rises from one to the next.
        log_inc: incarnation of the log: that of the life in which it was born or last rejoined (K4).
        blank: the log does not vote: one before it was lost.
        voters: the voters with which the stream begins, where that is known.
        earlier: the lives before it that have kept this log, as in `LogReport`.
    """

    life: int
    log_inc: int
    blank: bool
    voters: list[str] = []
    earlier: list[int] = []


class EntriesRecord(StoreRecord):
    """Entries of one `Append`, from index `first` on. An index at or below the end of the log overrules all that it
    held from there on.

    Attributes:
        commit: every entry up to here was known committed when this was written.
    """

    first: int
    commit: int
    entries: list[Entry]


class MessageRecord(StoreRecord):
    """Live messages of a queue that were moved forward, or taken in an update: they count once a checkpoint names this
    record.

    Attributes:
        ranges: their positions, ``[first, last, ...]``.
        blobs: encoded messages, one for each position.
    """

    ranges: list[int]
    blobs: list[bytes]


class CheckpointRecord(StoreRecord):
    """The stream as of a committed index. It stands for all records before it but those it names.

    The first fields are all that the store itself reads of one: see `CheckpointHead`.

    Attributes:
        low: the least LSN named here; 0: none is named.
        live_bytes: bytes of the bodies it names.
        life, log_inc, blank: as in `OpenedRecord`, at the time of writing.
        index: everything up to here is applied in `outline` and `extents`; nothing behind it is.
        ballot, seq: of entry `index`.
        numbers, incs, voters: as in `LogReport`, as of `index`.
        lives: voter -> the life that returned last, as of `index`.
        commit: what was known committed at the time of writing.
        outline: what the entries have made, without bodies; encoded by the stream's owner, and nobody else's matter.
        extents: where the bodies of live messages are: flat ``[first, last, LSN, entry, ...]``: positions `first` to
            `last` lie in the record at that LSN, in its entry number `entry` (in a `MessageRecord`: always 0).
        behind: LSNs of earlier records with entries behind `index`.
        over: broker -> the incarnation up to which no request of it is taken any more, as of `index`.
        earlier: as in `OpenedRecord`, of `life`.
    """

    low: int
    live_bytes: int
    life: int
    log_inc: int
    blank: bool
    index: int
    ballot: Ballot
    seq: int
    numbers: Numbers
    incs: dict[str, int]
    voters: list[str]
    lives: dict[str, int]
    commit: int
    outline: bytes
    extents: list[int] = []
    behind: list[int] = []
    over: dict[str, int] = {}
    earlier: list[int] = []


class CheckpointHead(msgspec.Struct, array_like=True, frozen=True):
    """The first fields of a `CheckpointRecord`, read without the rest."""

    low: int
    live_bytes: int
    life: int
    log_inc: int
    blank: bool


class PromiseRecord(StoreRecord):
    """Nothing under a lower ballot is accepted any more, in no stream of this store (K1). It belongs to no stream, and
    is written to each log, so that neither log's damage can make the store forget it."""

    ballot: Ballot


class DroppedRecord(StoreRecord):
    """The stream is over (its queue was deleted): all its records are dead, this one too once they are gone."""


class ClosedRecord(StoreRecord):
    """The clean end of a life of the store. `shutdown`: the id of that stop, the same in all stores of the cluster."""

    shutdown: str = ""


OPENED, ENTRIES, MESSAGE, CHECKPOINT, PROMISE, DROPPED, CLOSED = range(1, 8)
RECORDS: dict[int, type[StoreRecord]] = {
    OPENED: OpenedRecord, ENTRIES: EntriesRecord, MESSAGE: MessageRecord, CHECKPOINT: CheckpointRecord,
    PROMISE: PromiseRecord, DROPPED: DroppedRecord, CLOSED: ClosedRecord,
}  # fmt: skip
"""Every record's kind: the number in its header on disk."""

_encode = msgspec.msgpack.Encoder().encode


def encode_record(record: StoreRecord) -> bytes:
    """The payload of a record. An entry's event is copied as it is, never encoded again."""
    if type(record) is EntriesRecord:
        return entries_payload(record.first, record.commit, record.entries)
    return _encode(record)


_decoders = {kind: msgspec.msgpack.Decoder(cls) for kind, cls in RECORDS.items()}
_head = msgspec.msgpack.Decoder(CheckpointHead)


def decode_record(kind: int, payload: bytes | memoryview) -> StoreRecord | None:
    """The record in `payload`, or None for a kind newer than this program.

    Raises:
        PeerError: `bad-frame`, when the bytes are no record of that kind.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        return None
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(
            BAD_FRAME, f"a {RECORDS[kind].__name__} must be a msgpack array of its fields: {error}"
        ) from None


def checkpoint_head(payload: bytes | memoryview) -> CheckpointHead:
    """What the store itself must know of a checkpoint: of a large one, the rest is passed over.

    Raises:
        PeerError: `bad-frame`.
    """
    try:
        return _head.decode(payload)
    except msgspec.DecodeError as error:
        raise PeerError(BAD_FRAME, f"a CheckpointRecord must be a msgpack array of its fields: {error}") from None
