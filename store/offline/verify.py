"""Is a store as it was written? Every record is read and verified (an offline scrub).

Checked are each record's checksum and place, the chain of each stream, that every record is one of its kind, that all
that a stream's last checkpoint names is there, and the catalogue. A torn tail is no damage: any crash leaves one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from ...protocol.errors import STORE_DAMAGED, PeerError, StoreError
from ...protocol.store.host import TX
from ...protocol.store.index import LogIndex, StreamPlace
from ...protocol.wire.records import CheckpointRecord, decode_record
from ..catalog.catalog import FILE as CATALOG_FILE
from ..catalog.catalog import IN_LOG, read_catalog
from ..files import Files
from ..identity import LOCK, StoreState, read_identity, unusable
from ..log.layout import require_fast_checksums
from ..log.reader import LogReader
from ..log.scan import Scan
from ..log.survey import Survey
from .inventory import LOGS

PROGRESS_EVERY = 256
"""Records between two words on how far it is."""


class ReadingProgress(NamedTuple):
    """How far the reading of a log is, in bytes of `total_bytes`."""

    log: str
    done_bytes: int
    total_bytes: int


class Verified(NamedTuple):
    """A log, or a catalogue, that was read to its end.

    Attributes:
        part: the log's name, or "catalogue".
        records: number of those that are as they were written.
        streams: number of streams that they are of.
        torn: it ends in a group that was never acknowledged.
        wrong: all that is wrong, each in words.
        note: worth knowing, and not wrong.
    """

    part: str
    records: int = 0
    streams: int = 0
    torn: bool = False
    wrong: tuple[str, ...] = ()
    note: str = ""


def verify(files: Files, folder: str, connect: str = "", catalog: str = "") -> Iterator[ReadingProgress | Verified]:
    """Read a store whole. Writes nothing and takes no lock.

    Args:
        files: the file system.
        folder: the store's.
        connect, catalog: where its catalogue is, as in `open_catalog`.

    Yields:
        `ReadingProgress` now and then, and a `Verified` for each log and for the catalogue.

    """
    try:
        require_fast_checksums()
        own = read_identity(files, folder)
        if own.status is StoreState.EMPTY:
            yield Verified("store", note="empty")
            return
        for log in LOGS:
            if files.exists(f"{folder}/{log}"):
                yield from _log(files, folder, log)
            elif own.status is not StoreState.JOINING and not own.counts_as_empty:
                yield Verified(log, wrong=(f"{folder}/{log} is not there: put it back, or empty {folder}",))
        yield _catalog(files, folder, own.store, connect, catalog)
    except StoreError as error:
        yield Verified("store", wrong=(error.text,))
    except OSError as error:
        yield Verified("store", wrong=(unusable(error, folder).text,))


def _log(files: Files, folder: str, log: str) -> Iterator[ReadingProgress | Verified]:
    where = f"{folder}/{log}"
    while True:
        try:
            yield from _scanned(files, where, log)
            return
        except FileNotFoundError:
            if not files.holder(f"{folder}/{LOCK}"):
                raise
        except StoreError as error:
            yield Verified(log, wrong=(error.text,))
            return


def _scanned(files: Files, where: str, log: str) -> Iterator[ReadingProgress | Verified]:
    survey = Survey(files, where)
    scan, index, count, wrong = Scan(survey), LogIndex(), 0, list[str]()
    total = survey.end - survey.base
    for found in scan:
        count += 1
        if count % PROGRESS_EVERY == 0:
            yield ReadingProgress(log, found.lsn - survey.base, total)
        try:
            decode_record(found.kind, found.payload)
            index.note(found.lsn, found.kind, found.stream, found.payload, found.undo)
        except PeerError as error:
            wrong.append(f"the record at {found.lsn} of {found.stream or 'the store'} is none: {error.text}")
    base = _base(files, where)  # of a store in use it has moved: what was freed meanwhile is no damage
    for damage in scan.damage:
        if damage.end > base:
            streams = ", ".join(sorted(damage.streams)) or "a stream that no other record is of"
            wrong.append(f"damage at {damage.first} to {damage.end} ({damage.end - damage.first:,} bytes) in {streams}")
    if not scan.damage:
        wrong += _unnamed(files, where, index, base)
    yield ReadingProgress(log, total, total)
    yield Verified(log, count, len(index.streams), scan.torn, tuple(wrong))


def _base(files: Files, where: str) -> int:
    survey = Survey(files, where)
    survey.close()
    return survey.base


def _unnamed(files: Files, where: str, index: LogIndex, base: int) -> Iterator[str]:
    """What checkpoints name and is not there. Where a store is in use a checkpoint may have been replaced meanwhile."""
    reader = LogReader(files, where)
    try:
        for stream, place in index.streams.items():
            if place.checkpoint >= base and place.checkpoint:
                yield from _of_checkpoint(reader, stream, place)
    finally:
        reader.close()


def _of_checkpoint(reader: LogReader, stream: str, place: StreamPlace) -> Iterator[str]:
    try:
        at = reader.read(place.checkpoint)
        record = decode_record(at.kind, at.payload)
        if not isinstance(record, CheckpointRecord):
            raise StoreError(STORE_DAMAGED, f"the record at {place.checkpoint} is no checkpoint")
        for lsn in sorted({*record.behind, *record.extents[2::4]}):
            named = reader.read(lsn)
            if named.stream != stream:
                raise StoreError(STORE_DAMAGED, f"the record at {lsn} is of {named.stream}")
    except (StoreError, PeerError) as error:
        yield f"the checkpoint of {stream} at {place.checkpoint} names what is not there: {error.text}"


def _catalog(files: Files, folder: str, store: str, connect: str, catalog: str) -> Verified:
    part = "catalogue"
    if connect == IN_LOG or (not connect and not files.exists(f"{folder}/{CATALOG_FILE}")):
        return Verified(part, note=f"none in SQL: the wiring is in the log {TX}")
    try:
        found = read_catalog(connect, folder, UUID(store), catalog)
    except ValueError:
        return Verified(part, wrong=(f"the store's id {store!r} is none: see to store.json",))
    except StoreError as error:
        return Verified(part, wrong=(error.text,))
    return Verified(part, note="never saved yet" if found is None else f"the wiring up to entry {found.index:,}")
