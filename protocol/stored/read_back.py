"""What a shell that reads a stream back beside its loop gives its machine: of a GiB all that takes seconds is done."""

from __future__ import annotations

import msgspec

from ..errors import PeerError
from ..log.history import read_history
from ..log.store_link import Records
from ..machine import Loaded
from ..replica.body_cache import BodyCache
from ..wire.records import MESSAGE, CheckpointRecord, decode_record
from .old_bodies import old_bodies
from .outlines import read_outline


def read_beside(stream: str, records: Records, before: Records) -> Loaded:
    """Of a queue the history, the outline, the messages of a log that does not vote any more, and of the records those
    that are still needed. `records` keeps the others, for the shell to free.

    A log that does not vote may have an outline, too: it may turn out to have its vote back, and what came behind the
    checkpoint is of use if not.
    """
    try:
        history = read_history(records, before)
        outline = read_outline(history, records)
    except (PeerError, msgspec.DecodeError):
        return Loaded(stream, records, before=before)  # the machine will find that, too
    bodies = None
    if history.blank:
        found = old_bodies(records)
        if outline is not None:
            found.update(outline.blobs)  # the very same: each is held once
        bodies = BodyCache(found)
    if outline is None:
        if bodies is None:
            return Loaded(stream, records, before=before, history=history)
        kept = [record for record in records if record[1] != MESSAGE]
        return Loaded(stream, kept, before=before, bodies=bodies, history=history)
    lsn, kind, payload = records[0]
    checkpoint = decode_record(kind, payload)
    behind = set(checkpoint.behind if isinstance(checkpoint, CheckpointRecord) else ())
    needed = [record for record in records if record[0] >= lsn or record[0] in behind]
    return Loaded(stream, needed, before=before, outline=outline, bodies=bodies, history=history)
