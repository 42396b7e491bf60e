"""What a log holds, a row for each record, under the names that the store's first design gave to kinds of records.

The persistence id of a message (CLFS: the LSN of its Message-Start) is the LSN of the byte where its body begins; it is
computed here and stored nowhere (`durable.md` 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..files import Files
from .layout import require_fast_checksums
from .scan import Damage, Found, Scan
from .survey import Survey

DAMAGED = "(damaged)"
_NAMES = {
    1: "(stream begins)",
    2: "Entries",
    3: "Message-Start (moved)",
    4: "(checkpoint)",
    5: "(promise)",
    6: "(stream is dropped)",
    7: "(clean end)",
}


class DumpRow(NamedTuple):
    """A record as `mantamq store dump` shows it, or LSNs that are damaged.

    Attributes:
        lsn: where it begins.
        kind: its name, or `DAMAGED`.
        stream: whose it is; of damage the streams it may touch.
        undo: LSN of the stream's record before, 0 for none.
        size_bytes: of the payload; of the damage.
        time_us: when it was ordered, microseconds since 1970; 0 for damage.
    """

    lsn: int
    kind: str
    stream: str
    undo: int
    size_bytes: int
    time_us: int


def dump(files: Files, folder: str) -> Iterator[DumpRow]:
    """The records of a log from its base to its end, and then what is damaged. Writes nothing and needs no lock; of a
    log that is being written, the last batch may be missing.

    Args:
        files: the file system.
        folder: of the log.

    Raises:
        StoreError: see `Survey`.
    """
    require_fast_checksums()
    scan = Scan(Survey(files, folder))
    for found in scan:
        yield DumpRow(found.lsn, _kind(found), found.stream, found.undo, len(found.payload), found.time_us)
    for damage in scan.damage:
        yield _damage(damage)


def _kind(found: Found) -> str:
    return _NAMES.get(found.kind, f"(kind {found.kind})")


def _damage(damage: Damage) -> DumpRow:
    return DumpRow(damage.first, DAMAGED, ", ".join(sorted(damage.streams)), 0, damage.end - damage.first, 0)
