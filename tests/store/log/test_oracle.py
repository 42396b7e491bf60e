"""The log against an oracle in SQLite, and a dictionary of what stands where: any order of calls, kills and power cuts."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mantamq.store.log.containers import container_numbers
from mantamq.store.log.log import Log
from mantamq.store.log.reader import LogReader
from mantamq.store.log.recovery import open_log

from ..disks import SimulatedFiles
from .script import CONTAINER_BYTES, FOLDER, LOG_ID
from .sqlite_log import SqliteLog

RECORD = st.tuples(
    st.integers(0, 255), st.sampled_from(["a", "b", "", "long" * 80]), st.lists(st.binary(max_size=40), max_size=3)
)
BIG = st.tuples(st.just(2), st.just("a"), st.integers(3_000, 70_000).map(lambda size: [bytes(size), b"end"]))


class LogAndOracle(RuleBasedStateMachine):
    """The two, side by side.

    Attributes:
        places: LSN of the log -> row of the oracle.
        stands: LSN -> payload, of what is not freed.
        highest: LSN that was ever given.
        asked: row of the oracle, from which on everything is needed: the base that was asked for. The one that is durable
            may be lower.
    """

    @initialize(seed=st.integers(0, 1 << 16))
    def begin(self, seed: int) -> None:
        self.files = SimulatedFiles(seed)
        size = CONTAINER_BYTES
        self.log = Log.create(self.files, FOLDER, container_bytes=size, containers=2, log_id=LOG_ID, least_bytes=size)
        self.oracle = SqliteLog()
        self.places: dict[int, int] = {}
        self.stands: dict[int, bytes] = {}
        self.highest = 0
        self.asked = 0

    @rule(records=st.lists(RECORD, min_size=1, max_size=5), big=st.lists(BIG, max_size=1))
    def write(self, records: list[Any], big: list[Any]) -> None:
        group = [*records, *big]
        lsns, rows = self.log.write(group, 1), self.oracle.write(group)
        assert lsns == sorted(set(lsns)) and lsns[0] > self.highest
        self.highest = lsns[-1]
        self.places.update(zip(lsns, rows, strict=True))
        self.stands.update((lsn, b"".join(payload)) for lsn, (_, _, payload) in zip(lsns, group, strict=True))

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.oracle.sync()

    @rule()
    def prove(self) -> None:
        self.log.prove()
        self.oracle.sync()

    @rule()
    def make_spare(self) -> None:
        self.log.make_spare()

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def free_below(self, data: st.DataObject) -> None:
        lsn = data.draw(st.sampled_from(sorted(self.places)))
        self.asked = max(self.asked, self.places[lsn])
        oldest = self.oldest()
        self.log.sync()
        self.oracle.sync()
        self.log.free_below(lsn)
        if self.oldest() != oldest:  # the base is durable from here on, which may be above this one
            base = self.log.base
            self.oracle.free_below(self.asked)
            self.places = {one: row for one, row in self.places.items() if one >= base}
            self.stands = {one: payload for one, payload in self.stands.items() if one >= base}

    def oldest(self) -> int:
        """The container that the log begins with. What it takes on the disk may stay: the base may need a new one."""
        return container_numbers(self.files.list(FOLDER))[0]

    @rule(power=st.booleans())
    def restart(self, power: bool) -> None:
        self.files.crash() if power else self.files.kill()
        self.log, found = open_log(self.files, FOLDER)
        got = list(found)
        assert not found.damage
        assert self.compared(got)

    def compared(self, got: list[Any]) -> bool:
        """Whether what was found is what the oracle has, with or without what was not committed."""
        for kept in (True, False):
            wanted = self.oracle.recovered()
            mine = wanted[len(wanted) - len(got) :] if len(got) <= len(wanted) else []
            needed = [row for row in wanted if row[0] >= self.asked]
            if len(needed) <= len(got) and [row[1:4] for row in mine] == [one[1:4] for one in got]:
                self.oracle.crash(kept=True)
                self.places = {one.lsn: row[0] for one, row in zip(got, mine, strict=True)}
                self.stands = {one.lsn: one.payload for one in got}
                self.highest = max([self.highest, *self.places])
                if mine:  # a base that was asked for and not durable has to be asked for again
                    self.asked = mine[0][0]
                rows = {row: lsn for lsn, row in self.places.items()}
                for one, row in zip(got, mine, strict=True):
                    assert one.undo == rows[row[4]] if row[4] in rows else one.undo < got[0].lsn
                return True
            if kept:
                self.oracle.crash(kept=False)
        return False

    @invariant()
    def a_reader_finds_what_stands_there(self) -> None:
        if hasattr(self, "files") and self.stands:
            reader = LogReader(self.files, FOLDER)
            for lsn in list(self.stands)[-3:]:
                assert reader.read(lsn).payload == self.stands[lsn]


TestLogAndOracle = LogAndOracle.TestCase
TestLogAndOracle.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
