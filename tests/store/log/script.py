"""A seeded story of a log: groups of records, a base that moves, spares, promises, restarts; and a judge of what is left.

The judge knows what was written and what was acknowledged, and nothing of how a log is made. Each record's payload begins
with a number of its own, so what is found is told by its content; places may change when a batch is written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from mantamq.protocol.errors import StoreError
from mantamq.store.files import Files
from mantamq.store.log.dump import dump
from mantamq.store.log.log import Log, Outgoing
from mantamq.store.log.reader import LogReader
from mantamq.store.log.recovery import open_log

FOLDER = "/store/messages"
LOG_ID = bytes(range(16))
CONTAINER_BYTES = 32 * 1024
STREAMS = ("orders", "invoices", "ü" * 20, "x" * 300)


class Wrong(AssertionError):
    """The log broke a rule."""


class Kept(NamedTuple):
    """A record as it was given."""

    kind: int
    stream: str
    payload: bytes


@dataclass
class Account:
    """What was done to a log, and what has to be there.

    Attributes:
        groups: all groups that were ever given to it, in order.
        said: how many of them were acknowledged.
        needed: place, among all records, of the first that is needed.
        lsns: place among all records -> LSN, as the running log or the last recovery has it.
        highest_lsn: that was ever given.
        kept_ballot: the highest that was noted when containers were freed.
    """

    groups: list[list[Kept]] = field(default_factory=list)
    said: int = 0
    needed: int = 0
    lsns: dict[int, int] = field(default_factory=dict)
    highest_lsn: int = 0
    kept_ballot: tuple[int, int] = (0, 0)

    def records(self, groups: int) -> list[Kept]:
        return [record for group in self.groups[:groups] for record in group]

    def wrote(self, lsns: list[int], count: int) -> None:
        """The newest group has these places; `count`: of all records with it."""
        rise(lsns, self.highest_lsn)
        self.highest_lsn = lsns[-1]
        self.lsns.update(zip(range(count - len(lsns), count), lsns, strict=True))

    def judge(self, files: Files, found: Any, folder: str = FOLDER) -> None:
        """Compare what a recovery has found with what has to be there; what is found counts from now on."""
        records = list(found)
        if found.damage:
            raise Wrong(f"damage where none is: {found.damage}")
        groups, first = self.matching([Kept(one.kind, one.stream, one.payload) for one in records])
        rise([one.lsn for one in records], 0)
        chained(records, found.base)
        self.groups, self.said = self.groups[:groups], groups
        self.lsns = {first + place: one.lsn for place, one in enumerate(records)}
        self.highest_lsn = max([self.highest_lsn, *self.lsns.values()])
        read_by_place(files, records, folder)

    def matching(self, got: list[Kept]) -> tuple[int, int]:
        """How many whole groups there are, and the place of the first record that is found."""
        for groups in range(self.said, len(self.groups) + 1):
            wanted = self.records(groups)
            first = len(wanted) - len(got)
            if 0 <= first <= max(self.needed, 0) and wanted[first:] == got:
                return groups, first
        raise Wrong(f"{len(got)} records found; {self.said} of {len(self.groups)} groups were acknowledged")


def rise(lsns: list[int], above: int) -> None:
    if any(b <= a for a, b in zip([above, *lsns], lsns, strict=False)):
        raise Wrong(f"places that do not rise: {above}, {lsns}")


def chained(records: list[Any], base: int) -> None:
    """Each record names its stream's record before, unless that is below the base."""
    newest: dict[str, int] = {}
    for one in records:
        if one.undo != newest.get(one.stream, 0) and (one.stream in newest or one.undo >= base):
            raise Wrong(f"{one.lsn} of {one.stream} names {one.undo}, not {newest.get(one.stream, 0)}")
        newest[one.stream] = one.lsn


def read_by_place(files: Files, records: list[Any], folder: str = FOLDER) -> None:
    """A reader and a dump find the same."""
    reader = LogReader(files, folder)
    for one in records:
        if (same := reader.read(one.lsn)).payload != one.payload or (same.stream, same.undo) != (one.stream, one.undo):
            raise Wrong(f"a reader finds something else at {one.lsn}")
        middle = len(one.payload) // 2
        if reader.piece(one.lsn, middle, 1) != one.payload[middle : middle + 1]:
            raise Wrong(f"a reader finds other bytes at {one.lsn}")
    reader.close()
    rows = [(row.lsn, row.stream, row.undo, row.size_bytes, row.time_us) for row in dump(files, folder)]
    if rows != [(one.lsn, one.stream, one.undo, len(one.payload), one.time_us) for one in records]:
        raise Wrong("a dump finds something else")


class Story:
    """One log's life under a seed. What may fail raises; `account` says what has to be there then."""

    def __init__(self, files: Files, seed: int, folder: str = FOLDER) -> None:
        self.files = files
        self.random = Random(seed)
        self.folder = folder
        self.account = Account()
        self.number = 0
        self.log: Log | None = None
        self.reader: LogReader | None = None
        self.passed: dict[int, bytes] = {}  # LSN -> payload of records that the base has passed

    def create(self) -> None:
        size = CONTAINER_BYTES
        self.log = Log.create(
            self.files, self.folder, container_bytes=size, containers=2, log_id=LOG_ID, least_bytes=size
        )

    def open(self) -> None:
        self.log = self.reader = None
        log, found = open_log(self.files, self.folder)
        self.account.judge(self.files, found, self.folder)
        if log.ballot < self.account.kept_ballot:
            raise Wrong(f"the promise {self.account.kept_ballot} is forgotten: {log.ballot}")
        self.log = log

    def group(self) -> list[Kept]:
        """Some records; now and then one that is larger than a container or two."""
        random, group = self.random, []
        for _ in range(random.choice([1, 1, 2, 3, 8])):
            self.number += 1
            size = random.choice([0, 1, 20, 300, 3000])
            if random.random() < 0.02:
                size = random.randrange(20_000, 80_000)
            body = b"%d:" % self.number + random.randbytes(size)
            group.append(Kept(random.randrange(1, 8), random.choice(STREAMS), body))
        return group

    def write(self) -> None:
        assert self.log
        account, group = self.account, self.group()
        account.groups.append(group)
        total = len(account.records(len(account.groups)))
        pieces = [Outgoing(one.kind, one.stream, pieces_of(one.payload, self.random)) for one in group]
        account.wrote(self.log.write(pieces, 1_000_000 + self.number), total)
        account.said = len(account.groups) - 1  # what was written before was flushed first
        if self.random.random() < 0.9:
            self.sync()

    def sync(self) -> None:
        assert self.log
        self.log.sync()
        self.account.said = len(self.account.groups)

    def free(self) -> None:
        """Nothing older than some records is needed any more."""
        assert self.log
        places = sorted(self.account.lsns)
        if places:
            place = self.random.choice(places[-40:])
            self.account.needed = max(self.account.needed, place)
            self.sync()
            self.keep_reader(places)
            used = self.log.used_bytes
            self.log.free_below(self.account.lsns[place])
            if self.log.used_bytes < used:
                self.account.kept_ballot = self.log.ballot
            self.account.lsns = {one: lsn for one, lsn in self.account.lsns.items() if one >= place}

    def keep_reader(self, places: list[int]) -> None:
        """A reader keeps a file open that may soon be another container."""
        records = self.account.records(len(self.account.groups))
        self.passed = {self.account.lsns[place]: records[place].payload for place in places[:20]}
        try:
            self.reader = self.reader or LogReader(self.files, self.folder)
            self.reader.read(self.account.lsns[places[0]])
        except OSError:
            self.reader = None

    def read_what_has_passed(self) -> None:
        """It finds what was there, or says that it is gone; never anything else."""
        for lsn, payload in self.passed.items() if self.reader else ():
            try:
                assert self.reader
                found = self.reader.read(lsn).payload
            except StoreError:
                continue
            except OSError:
                self.reader = None
                return
            if found != payload:
                raise Wrong(f"a reader finds {found[:20]} at {lsn}, where {payload[:20]} was")

    def steps(self, groups: int) -> Iterator[None]:
        """Live through so many groups."""
        for _ in range(groups):
            self.write()
            yield
            assert self.log
            chance = self.random.random()
            if chance < 0.15:
                self.free()
            elif chance > 0.9:
                self.read_what_has_passed()
            elif chance < 0.25:
                self.log.prove()
                self.account.said = len(self.account.groups)
            elif chance < 0.35:
                self.log.make_spare()
            elif chance < 0.4:
                self.log.note_ballot((self.number, 1))
            elif chance < 0.45:
                self.sync()
                self.log.close()
                self.open()
            yield


def pieces_of(payload: bytes, random: Random) -> list[bytes]:
    """The same bytes in some pieces, one to four."""
    cuts = sorted(random.randrange(len(payload) + 1) for _ in range(random.randrange(4)))
    return [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
