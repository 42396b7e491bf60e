"""Stores that no broker wrote: three members, a durable queue with messages, and whatever befell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mantamq.protocol.wire.events import (
    CLUSTER,
    Accept,
    DeclareQueue,
    Enqueue,
    Entry,
    Event,
    Member,
    Return,
    encode_event,
)
from mantamq.protocol.wire.message import FIELDS, encode
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    MESSAGE,
    OPENED,
    PROMISE,
    CheckpointRecord,
    EntriesRecord,
    MessageRecord,
    OpenedRecord,
    PromiseRecord,
    StoreRecord,
    encode_record,
)
from mantamq.store.files import Files
from mantamq.store.identity import open_store
from mantamq.store.log.log import Log, Outgoing

DATA = "/data"
CLUSTER_ID = "5d1e6a0c9f3b"
CONTAINER_BYTES = 32 * 1024
TIME_US = 1_764_000_000_000_000
MEMBERS = ("b1", "b2", "b3")
QUEUE = "orders#1"
STORE_ID = "0b8bdf18-903a-4a54-a5c1-b6e3a279913a"


@dataclass
class Plain:
    """A message with nothing but a body and a subject."""

    body: bytes
    subject: str | None = None

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return False if name == "durable" else None
        raise AttributeError(name)


def blob(body: bytes, subject: str | None = None) -> bytes:
    return encode(Plain(body, subject))


def entries(first: int, *events: Event, commit: int = -1, seq: int = 0) -> EntriesRecord:
    """A record of entries of the first term, the voters' changes the sequencer's own; by default all of them are known committed."""
    made = [
        Entry((1, 7), seq + at, "", 0, 0, encode_event(event))
        if isinstance(event, Member | Return)
        else Entry((1, 7), seq + at, "b1", 1, at, encode_event(event))
        for at, event in enumerate(events, first)
    ]
    return EntriesRecord(first, commit if commit >= 0 else first + len(made) - 1, made)


def write(log: Log, *records: tuple[int, str, StoreRecord], time_us: int = TIME_US) -> list[int]:
    """A group of records, flushed."""
    lsns = log.write([Outgoing(kind, stream, [encode_record(record)]) for kind, stream, record in records], time_us)
    log.sync()
    return lsns


def create(files: Files, folder: str, container_bytes: int = CONTAINER_BYTES) -> Log:
    made = {"container_bytes": container_bytes, "containers": 2, "log_id": folder[-16:].rjust(16).encode()}
    return Log.create(files, folder, least_bytes=container_bytes, **made)


def make_store(files: Files, broker: str, data: str = DATA, bodies: int = 3, release: bool = True) -> Any:
    """A store with a declared queue, in which `bodies` messages are, one of them moved and one accepted."""
    directory = open_store(files, data, broker)
    life = directory.begin(TIME_US // 1000, cluster=CLUSTER_ID, store=STORE_ID, node=f"host-{broker}")
    tx, messages = create(files, f"{data}/{broker}/tx"), create(files, f"{data}/{broker}/messages")
    opened = OpenedRecord(life, life, False, list(MEMBERS))
    promise = PromiseRecord((1, 7))
    write(tx, (OPENED, CLUSTER, opened), (PROMISE, "", promise))
    write(tx, (ENTRIES, CLUSTER, entries(1, DeclareQueue("orders", {}, True))), time_us=TIME_US + 1)
    write(messages, (OPENED, QUEUE, opened), (PROMISE, "", promise))
    sent = [blob(b"body %d of %s" % (number, broker.encode()), "news") for number in range(1, bodies + 1)]
    write(messages, (ENTRIES, QUEUE, entries(1, Enqueue("c", [1, bodies], sent), seq=10)), time_us=TIME_US + 2)
    moved = write(messages, (MESSAGE, QUEUE, MessageRecord([1, 1], sent[:1])), time_us=TIME_US + 3)
    checkpoint = CheckpointRecord(
        moved[0], 10, life, life, False, 1, (1, 7), 11, {}, {}, list(MEMBERS), {}, 1, b"", [1, 1, moved[0], 0]
    )
    write(messages, (CHECKPOINT, QUEUE, checkpoint), time_us=TIME_US + 4)
    write(messages, (ENTRIES, QUEUE, entries(2, Accept("b1", 1, [1, 1, 1]), seq=10)), time_us=TIME_US + 5)
    tx.close()
    messages.close()
    if release:
        directory.release()
    return directory
