"""Entries that a checkpoint stands for, read back for others: which of the records before it are the same log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, tuples
from made_up_logs import ONE, TWO, entries, entry
from mantamq.protocol.log import history, retained
from mantamq.protocol.log.history import read_history
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.retained import retained_entries
from mantamq.protocol.wire.events import Ballot, Entry
from mantamq.protocol.wire.log_frames import Fetch
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    CheckpointRecord,
    EntriesRecord,
    OpenedRecord,
    encode_record,
)

Line = tuple[int, Any]


def held(first: int, new: list[Entry]) -> Line:
    return ENTRIES, EntriesRecord(first, 0, new)


def checkpoint(index: int, ballot: Ballot = ONE) -> CheckpointRecord:
    return CheckpointRecord(0, 0, 1, 1, False, index, ballot, index, {}, {}, ["b1"], {}, index, b"state")


def records(*lines: Line) -> list[tuple[int, int, bytes]]:
    return [(lsn, kind, encode_record(record)) for lsn, (kind, record) in enumerate(lines, 100)]


def kept(index: int, *lines: Line, ballot: Ballot = ONE) -> list[Entry]:
    return list(retained_entries(records(*lines), checkpoint(index, ballot)).values())


@pytest.mark.timeout(30)
def test_each_record_is_looked_at_once_however_many_stand_before_it() -> None:
    """Where each message came alone, a stream has a record for each; the first version looked at all for each, which
    took minutes of this one."""
    count = 60_000
    assert len(kept(count, *(held(index, entries(index, index)) for index in range(1, count + 1)))) == count


def test_what_leads_to_the_checkpoint_is_kept():
    assert kept(4, held(1, entries(1, 2)), held(3, entries(3, 4))) == entries(1, 4)
    assert kept(4, held(2, entries(2, 6))) == entries(2, 4), "what stands behind it is written behind it"
    assert kept(4) == []
    assert kept(4, held(1, entries(1, 3))) == [], "the last ones came by an update"


def test_what_was_overruled_is_not():
    lines = held(1, entries(1, 6)), held(4, [entry(4, TWO)])
    assert kept(4, *lines, ballot=TWO) == [*entries(1, 3), entry(4, TWO)]


def a_wrong_term_is_left_out() -> None:
    """Entries 3 and 4 were overruled where this voter did not hear of it: an update has brought what they became."""
    assert kept(4, held(1, entries(1, 4)), ballot=TWO) == [], "an entry of the wrong term is retained"
    lines = held(1, entries(1, 4)), (CHECKPOINT, checkpoint(4, TWO)), held(5, entries(5, 6))
    assert kept(6, *lines) == entries(5, 6), "an entry of the wrong term is retained"


def test_a_wrong_term_is_left_out():
    a_wrong_term_is_left_out()


def test_a_wrong_term_that_is_retained_is_found(monkeypatch):
    monkeypatch.setattr(retained, "_verify", lambda found, record: None)
    with pytest.raises(AssertionError, match="wrong term"):
        a_wrong_term_is_left_out()


def test_another_log_of_the_stream_is_none_of_it():
    lines = held(1, entries(1, 3)), (OPENED, OpenedRecord(9, 9, True)), held(4, entries(4, 5))
    assert kept(5, *lines) == entries(4, 5)
    assert kept(5, held(1, entries(1, 3)), (OPENED, OpenedRecord(9, 1, False)), held(4, entries(4, 5))) == entries(1, 5)


def test_a_record_that_is_none_is_no_reason_to_stop():
    assert retained_entries([(100, ENTRIES, b"nonsense")], checkpoint(1)) == {}


def test_a_keeper_has_them_for_others():
    """It begins at its checkpoint, and hands out what stands before it."""
    lines = records((CHECKPOINT, checkpoint(5)), held(6, [entry(6)]))
    read = read_history(lines, records(held(2, entries(2, 5))))
    keeper = Keeper("q#1", "b1", 9, log_inc=1, opened=1, stored=True)
    assert keeper.resume(read) == []
    report = keeper.log_report()
    assert (report.have, report.commit, report.base) == (6, 5, 2)
    found = keeper.fetch(Fetch(keeper.promised, "q#1", 3, 6))
    assert found is not None and found.entries == entries(3, 6) and found.previous_ballot == ONE
    assert keeper.fetch(Fetch(keeper.promised, "q#1", 2, 6)) is None, "of the entry before it no ballot is known"
    alone = Keeper("q#1", "b1", 9, log_inc=1, opened=1, stored=True)
    alone.resume(history.read_history(lines))
    assert alone.base == 5


@given(lists(tuples(integers(1, 12), integers(1, 4)), max_size=12), integers(0, 12))
def test_a_log_read_from_anywhere_is_the_log_as_it_was(writes, start):
    """A voter is sent entries from some index on, each time of a newer term, and writes each down; what is read of that
    from any record on is what it held."""
    log: list[Entry] = []
    lines: list[Line] = []
    for term, (first, count) in enumerate(writes, 1):
        first = min(first, len(log) + 1)
        new = [entry(index, (term, 1)) for index in range(first, first + count)]
        log[first - 1 :] = new
        lines.append(held(first, new))
    if not log:
        return
    last = log[-1]
    found = retained_entries(records(*lines)[start:], checkpoint(len(log), last.ballot))
    assert list(found.values()) == [log[index - 1] for index in found]
    assert not found or list(found) == list(range(min(found), len(log) + 1))
    if not start:
        assert len(found) == len(log)
