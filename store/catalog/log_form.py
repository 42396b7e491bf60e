"""The catalogue in the transaction log itself: each save is one record there, whole.

For those who want no SQL: nothing can be asked of it but by `mantamq store dump`, and a wiring that is large is written
whole each time (`durable.md` 2).
"""

from __future__ import annotations

from typing import Protocol

from ...protocol.errors import PeerError
from ...protocol.wire.records import CHECKPOINT, CheckpointRecord, decode_record, encode_record
from .refusals import damaged


class RecordLog(Protocol):
    """Where the records go: the transaction log's `CheckpointRecord`s of the cluster stream."""

    def append(self, payload: bytes) -> None:
        """Write a record; when this returns it is flushed. An error of the log is final."""
        ...

    def last(self) -> bytes | None:
        """The payload of the last record that was flushed, if there is one."""
        ...


class LogCatalog:
    """Args:
    log: the store's, which is locked and belongs to it: there is nobody else to keep out.
    """

    def __init__(self, log: RecordLog) -> None:
        self._log = log

    def load(self) -> CheckpointRecord | None:
        """As `Catalog.load`."""
        payload = self._log.last()
        return None if payload is None else decoded(payload)

    def save(self, checkpoint: CheckpointRecord) -> None:
        """As `Catalog.save`. What the log raises is the log's."""
        self._log.append(encode_record(checkpoint))

    def close(self) -> None:
        """The log is its owner's."""


def decoded(payload: bytes) -> CheckpointRecord:
    """The checkpoint in a record.

    Raises:
        StoreError: `catalog-damaged`, there is none in it.
    """
    try:
        checkpoint = decode_record(CHECKPOINT, payload)
    except PeerError as error:
        raise damaged("the checkpoint of the wiring in the transaction log", error.text) from None
    assert type(checkpoint) is CheckpointRecord
    return checkpoint
