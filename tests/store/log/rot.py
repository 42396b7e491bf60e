"""A log at rest loses a bit, or the end of a file: what is found then, and what has to be told.

The rule for a healthy part: it is found. For the rest: no record is served that is not as it was written, and each that
is missing lies in a damage that is told, with its stream; by every opening. Only the last batch may vanish silently, as a
torn tail does, if nothing was written behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from mantamq.protocol.errors import StoreError
from mantamq.store.log.recovery import open_log

from ..disks import SimulatedFiles
from .script import CONTAINER_BYTES, FOLDER, Story, Wrong


class Row(NamedTuple):
    """A record by its place."""

    lsn: int
    kind: int
    stream: str
    payload: bytes


@dataclass
class Rest:
    """A log at rest.

    Attributes:
        image: its disk.
        rows: what it holds.
        sure: how many of them may not vanish.
        ends: up to which LSN each container counts.
    """

    image: Any
    rows: list[Row]
    sure: int

    @classmethod
    def after(cls, seed: int, groups: int, proven: bool) -> Rest:
        """What a story leaves; `proven`: something is written behind its last group."""
        files = SimulatedFiles(seed)
        story = Story(files, seed)
        story.create()
        for _ in story.steps(groups):
            pass
        assert story.log
        story.sync()
        if proven:
            story.write()
            story.sync()
            story.log.prove()
        before = len(story.account.records(len(story.account.groups) - (not proven)))
        wanted = story.account.records(len(story.account.groups))
        places = sorted(story.account.lsns)
        rows = [Row(story.account.lsns[place], *wanted[place]) for place in places if place >= story.account.needed]
        return cls(files.image(), rows, len([place for place in places if story.account.needed <= place < before]))

    def judge(self, harm: Any) -> bool:
        """Do harm to it, open it three times, and compare. Returns whether damage was told."""
        files = SimulatedFiles(0)
        files.put_back(self.image)
        harm(files)
        first = self.open(files)
        for restart in (files.kill, files.crash):
            restart()
            again = self.open(files)
            if again != first:
                raise Wrong(f"opened again it is another log: {again[1]}, not {first[1]}")
        return bool(first[1])

    def open(self, files: SimulatedFiles) -> tuple[list[tuple[int, str, bytes]], list[tuple[int, int, frozenset[str]]]]:
        try:
            log, found = open_log(files, FOLDER)
        except StoreError as refused:  # of the only container there is the header is gone: told as well
            return [], [(0, 0, frozenset([refused.code]))]
        got = list(found)
        damage = [(one.first, one.end, frozenset(one.streams)) for one in found.damage]
        here = {(one.kind, one.stream, one.payload) for one in got}
        wanted = {row[1:] for row in self.rows}
        if not here <= wanted:
            old = [one for one in here - wanted if int(one[2].split(b":")[0]) >= min(number(row) for row in self.rows)]
            if old:
                raise Wrong(f"{len(old)} records are served that nobody wrote")
        known = {one.stream for one in got}
        for row in self.rows[: self.sure]:
            if row[1:] not in here:
                covers = [streams for begin, end, streams in damage if begin <= row.lsn < end]
                if not covers:
                    raise Wrong(f"the record at {row.lsn} is missing and not told: {damage}")
                if row.stream in known and not any(row.stream in streams for streams in covers):
                    raise Wrong(f"the record at {row.lsn} of {row.stream} is missing, and only {covers} are told")
        log.close()
        return [(one.kind, one.stream, one.payload) for one in got], damage


def number(row: Row) -> int:
    return int(row.payload.split(b":")[0])


def some_harm(random: Random, files: SimulatedFiles) -> None:
    """A bit of a container turns over, or one of them loses its end, or is gone; mostly where something is. The newest
    is never gone: nothing could tell."""
    names = [name for name in files.list(FOLDER) if name[0] == "0"]
    path = f"{FOLDER}/{random.choice(names)}"
    if random.random() < 0.1 and not path.endswith(names[-1]):
        files.unlink(path)
        return
    content = files.open(path).pread(CONTAINER_BYTES, 0)
    used = max(len(content.rstrip(b"\0")), 1)
    if random.random() < 0.8:
        files.flip(path, random.randrange(used), random.randrange(8))
    else:
        files.shorten(path, random.randrange(CONTAINER_BYTES))
