"""Reading a log that is in use, to find rot while what it hides is still in memory (a scrub, as RAID and ZFS have it).

A pass is a scan from the base to the end. The writer goes on meanwhile, and may free what the pass comes to, so damage
is believed only when a second pass, begun when the first has ended, finds it as well. What the system's page cache
still has is not read from the disk: rot there is found by a later pass, or by the next opening.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ...protocol.errors import StoreError
from ..files import Files
from .scan import Scan
from .survey import Survey


def scrub(files: Files, folder: str) -> Iterator[int | tuple[int, int]]:
    """One pass over a log. Writes nothing, and needs no lock.

    Yields:
        Bytes that were read since the last yield; and, at the end, each damage, as (first, behind) LSNs.

    Raises:
        OSError: of the disk, which may have failed.
    """
    first = yield from _pass(files, folder)
    if first:
        again = yield from _pass(files, folder)
        yield from sorted(first & again)


def _pass(files: Files, folder: str) -> Generator[int, None, set[tuple[int, int]]]:
    try:
        survey = Survey(files, folder)
    except StoreError:
        return set()  # its writer has just begun another container
    try:
        scan = Scan(survey)
        for found in scan:
            yield len(found.payload)
    finally:
        survey.close()
    return {(damage.first, damage.end) for damage in scan.damage}
