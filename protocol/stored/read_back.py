"""What a shell that reads a stream back beside its loop gives its machine: of a GiB all that takes seconds is done."""

from __future__ import annotations

import msgspec

from ..errors import PeerError
from ..log.history import read_history
from ..log.store_link import Records
from ..machine import Loaded
from ..replica.body_cache import BodyCache
from ..wire.records import MESSAGE
from .old_bodies import old_bodies
from .outlines import needed, read_outline


def read_beside(stream: str, records: Records, before: Records) -> Loaded:
    """Of a queue the history, the outline, the messages of a log that does not vote any more, and of the records those
    that are still needed. `records` keeps the others, for the shell to free; what of them was copied is freed already.

    A log that does not vote may have an outline, too: it may turn out to have its vote back, and what came behind the
    checkpoint is of use if not.
    """
    try:
        history = read_history(records, before)
        outline = read_outline(history, records, freed=not history.blank)
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
    read_again = needed(history, records)
    kept = [record for record in records if read_again(record[0])]
    return Loaded(stream, kept, before=before, outline=outline, bodies=bodies, history=history)
