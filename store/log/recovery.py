"""Opening a log after whatever has ended the process that wrote it (`durable.md` 4).

In this order, and nothing is answered before the last step:

1. **fsync of the directory.** The names that are seen may be only in memory. Were they to vanish after a decision was
   made by them, a container that others point to would be missing.
2. **Survey**: where the log ends (`survey.py`). Nothing was written so far, so a `StoreError` leaves all as it is.
3. **A new container.** It says where the log before it ends, so whatever torn batch stands behind that is no part of
   the log any more, and no sector that was ever flushed is written again. If nothing proves that the last batch was
   flushed, the container begins with it, written again: after a failed or unfinished flush memory may show what the
   disk does not have, and asking the disk once more would be told that all is well. Batch and header are flushed
   before the rename.
4. Containers of which nothing counts any more become spares.

**Opened twice is opened once.** A second opening finds the same records. A container that has nothing but the batch
it was made with is not relied upon: that batch is written again, into another container, and the first becomes a
spare. So whatever a crash or a failed fsync of the directory does to its name, the log before it says all. A crash
before the rename leaves a spare, of which the next opening makes nothing. Where there is damage in the tail, the new
container says that the log ends *behind* it: so it is found again by every opening until the base has passed it, and
cannot be taken for a torn tail by the next.

**Places.** The records of a batch that was written again have new LSNs. Nobody knew the old ones: whatever was told
of them was a process of the same group, which has ended with the store (F1), and a record that names another's LSN
was written later than that. Undo that pointed into the same batch points to the new places.

It needs room for one container, that of a spare if there is one: spares are removed first, and made anew.

A number is given once the rename is durable; a log that is opened goes on at a higher one, so LSNs rise over
restarts. The base is that of the newest header, of a batch or a container; it may be lower than the one the dead
process had in memory, but never lower than what it has freed.
"""

from __future__ import annotations

from ..files import Files
from .containers import Containers
from .layout import (
    BATCH_HEAD,
    FIRST,
    PAGE,
    WHOLE,
    ZEROS,
    BatchHeader,
    ContainerHeader,
    append_record,
    pack_batch,
    pack_name,
    require_fast_checksums,
)
from .log import Log
from .scan import Scan
from .survey import Survey


def open_log(files: Files, folder: str) -> tuple[Log, Scan]:
    """Recover a log.

    Args:
        files: the file system; the caller holds the directory's lock.
        folder: of the log.

    Returns:
        The log, which can be written to when what was found has been read to the end; and what was found. The log goes
        on also where there is damage: what that means for a stream is its owner's to say.

    Raises:
        StoreError: `store-no-log`, `store-damaged`, `store-format` (see `Survey`), `store-checksum`.
        OSError: of the file system.
    """
    require_fast_checksums()
    files.sync_folder(folder)
    survey = Survey(files, folder)
    header, batch = _successor(survey)
    survey.close()
    containers = Containers(files, folder, header.size_bytes, header.spares)
    file = containers.take(header, batch)
    found = Survey(files, folder)
    containers.free([number for number in found.numbers[:-1] if not found.counts(number)])
    found.torn = survey.torn
    log = Log(containers, header, file)
    return log, Scan(found, log.chained)


def _successor(survey: Survey) -> tuple[ContainerHeader, list[bytes]]:
    """The header of the container the log goes on in, and the batch it begins with, if there is one."""
    number = survey.numbers[-1] + 1
    start = number * survey.size_bytes + PAGE
    batch = _moved(survey, survey.again, start) if survey.again else []
    ends = survey.before(survey.again.lsn if survey.again else survey.end)
    header = survey.newest._replace(
        number=number, base=survey.base, ballot=survey.ballot, ends=ends, proven=start + sum(map(len, batch))
    )
    return header, batch


def _moved(survey: Survey, batch: BatchHeader, lsn: int) -> list[bytes]:
    """A batch's bytes as they are at another place."""
    by = lsn - batch.lsn
    buffers, at = [b""], lsn + BATCH_HEAD
    for record in survey.records(batch) or ():
        within = record.undo >= batch.lsn
        undo = record.undo + by if within else record.undo
        name = pack_name(record.stream)
        at += append_record(buffers, record.kind, record.part, at, undo, name, [record.payload])
    group = lsn if batch.part in (WHOLE, FIRST) else batch.group
    buffers[0] = pack_batch(survey.newest.log_id, batch._replace(lsn=lsn, group=group, proven=lsn, base=survey.base))
    buffers.append(ZEROS[: -at % PAGE])
    return buffers
