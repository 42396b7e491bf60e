"""A stream's records read back: what overrules what, what a checkpoint stands for, and what counts of a blank log."""

from __future__ import annotations

import msgspec
from made_up_logs import ONE, TWO, entries, entry
from mantamq.protocol.log.checkpoint import checkpoint_of, opening_of
from mantamq.protocol.log.earlier import MOST_LIVES, lives_since
from mantamq.protocol.log.history import StreamHistory, read_history
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.events import ZERO, Entry, Member, Rejoin, Return, encode_event
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    CheckpointRecord,
    EntriesRecord,
    OpenedRecord,
    encode_record,
)


def history(*records):
    read = StreamHistory()
    for kind, record in records:
        read.read(kind, encode_record(record))
    return read


def opened(life, log_inc=1, blank=False):
    return OPENED, OpenedRecord(life, log_inc, blank, ["b1", "b2"])


def held(first, new, commit=0):
    return ENTRIES, EntriesRecord(first, commit, new)


def checkpoint(index, commit=0, life=1, blank=False):
    record = CheckpointRecord(
        0, 0, life, 1, blank, index, ONE, index, {"b1": (1, index, 1)}, {"b1": 1}, ["b1"], {}, commit or index, b"state"
    )
    return CHECKPOINT, record


def test_a_log_ends_where_its_last_record_does_and_overrules_what_was_before():
    read = history(opened(1), held(1, entries(1, 4), 1), held(3, [entry(3, TWO)], 2), opened(9))
    assert (read.end, read.commit, read.life, read.log_inc, read.voters) == (3, 2, 9, 1, ["b1", "b2"])
    assert list(read.entries.values()) == [*entries(1, 2), entry(3, TWO)]


def test_a_checkpoint_stands_for_what_is_before_it():
    read = history(opened(1), held(1, entries(1, 4), 3), checkpoint(3, 3), held(5, [entry(5)], 9))
    assert (read.base, read.base_ballot, read.base_seq, read.end, read.commit) == (3, ONE, 3, 5, 5)
    assert list(read.entries) == [4, 5]
    ahead = history(held(1, entries(1, 4), 3), checkpoint(7), held(8, [entry(8)]))
    assert (ahead.base, ahead.end, list(ahead.entries)) == (7, 8, [8])
    earlier = history(checkpoint(3), held(2, entries(2, 5)), held(5, [entry(5, TWO)]))
    assert list(earlier.entries.values()) == [entry(4), entry(5, TWO)], "a record that it names comes behind it"


def test_a_record_that_is_named_for_its_bodies_does_not_bring_back_what_was_overruled():
    """Entries 15 to 25 were in one record; 21 and 22 were overruled, and with them all behind, before the checkpoint."""
    behind = msgspec.structs.replace(checkpoint(22, 22)[1], extents=[1, 1, 64, 0], behind=[72])
    records = [
        (96, CHECKPOINT, behind),
        (64, ENTRIES, held(15, entries(15, 25), 20)[1]),
        (72, ENTRIES, held(23, [entry(23, TWO)], 22)[1]),
        (104, ENTRIES, held(24, [entry(24, TWO)], 23)[1]),
    ]
    read = read_history((lsn, kind, encode_record(record)) for lsn, kind, record in records)
    assert (read.base, read.end, list(read.entries.values())) == (22, 24, [entry(23, TWO), entry(24, TWO)])
    alone = read_history((lsn, kind, encode_record(record)) for lsn, kind, record in records[:2])
    assert (alone.base, alone.end, alone.commit) == (22, 22, 22), "overruled, and back"


def test_entries_behind_an_update_that_is_not_whole_do_not_count():
    unfinished = history(opened(5, 5, True), held(8, [entry(8)], 8))
    assert (unfinished.end, unfinished.commit, unfinished.blank) == (0, 0, True)
    whole = history(opened(5, 5, True), held(8, [entry(8)], 8), checkpoint(7, 8, 5, True), held(8, [entry(8)]))
    assert (whole.end, whole.commit, whole.blank) == (8, 8, True)


def test_a_log_that_is_born_again_has_nothing_of_the_one_before():
    read = history(opened(1), held(1, entries(1, 4), 3), opened(7, 7, True))
    assert (read.end, read.commit, read.life, read.blank) == (0, 0, 7, True)


def test_a_keeper_goes_on_where_its_records_end():
    voter = Keeper("q#1", "b1", 1)
    assert voter.resume(history(checkpoint(3, 4), held(4, entries(4, 6), 5))) == entries(4, 5)
    report = voter.log_report()
    assert (report.have, report.ballot, report.commit, report.base, report.blank) == (6, ONE, 5, 3, False)
    assert (report.numbers, report.voters, report.incs) == ({"b1": (1, 5, 1)}, ["b1"], {"b1": 1})
    empty = Keeper("q#1", "b1", 1)
    assert empty.resume(history(opened(2))) == [] and (empty.end, empty.end_ballot) == (0, ZERO)


def test_what_the_log_itself_says_of_voters_counts_again():
    own = [
        Entry(ONE, n, "", 0, 0, encode_event(event))
        for n, event in enumerate((Member("b3", 4, True), Rejoin("b1", 5)), 1)
    ]
    voter = Keeper("q#1", "b1", 5)
    voter.resume(history(opened(5, 5, True), held(1, own, 2)))
    assert (voter.blank, voter.voters, voter.incs) == (False, ["b1", "b2", "b3"], {"b3": 4, "b1": 5}), "it votes"
    waiting = Keeper("q#1", "b1", 5)
    waiting.resume(history(opened(5, 5, True), held(1, own, 1)))
    assert waiting.blank and waiting.log_report().voters == ["b1", "b2", "b3"]
    changing = Keeper("q#1", "b1", 5)
    changing.resume(history(opened(5, 5, False), held(1, own, 0)))
    assert (changing.log_report().change, changing._change) == (1, 1)


# ---- the lives that have kept it


def kept_by(life, *records):
    """The keeper of the next life, with what was written so far."""
    read = history(*records)
    keeper = Keeper("q#1", "b1", life, voters=read.voters, log_inc=read.log_inc, opened=read.life, stored=True)
    keeper.resume(read)
    return keeper


def test_a_log_says_all_the_lives_that_have_kept_it():
    records = [opened(1), held(1, entries(1, 4), 3)]
    for life, earlier in ((11, [1]), (21, [1, 11]), (31, [1, 11, 21])):
        keeper = kept_by(life, *records)
        assert (keeper.earlier, keeper.log_report().earlier) == (earlier, earlier)
        records.append((OPENED, opening_of(keeper, [])))
    keeper = kept_by(41, *records)
    records = [(CHECKPOINT, checkpoint_of(keeper, b"state"))]
    assert kept_by(51, *records).earlier == [1, 11, 21, 31, 41], "a checkpoint stands for the openings before it"
    assert kept_by(9, *records, opened(7, 7)).earlier == [7], "a log that is born again was nobody's before"


def test_lives_before_one_that_is_known_to_have_returned_are_of_no_use():
    assert lives_since(0, [1, 11, 21]) == [1, 11, 21] and lives_since(11, [1, 11, 21]) == [11, 21]
    many = list(range(1, 2000))
    kept = lives_since(0, many)
    assert len(kept) == MOST_LIVES and kept[0] == 1, "what is left out counts as a life that has not kept the log"
    assert kept[1:] == many[1 - MOST_LIVES :]
    event = Entry(ONE, 3, "", 0, 0, encode_event(Return("b1", 11)))
    returned = [opened(1), held(1, entries(1, 2), 2), opened(11), held(3, [event], 3)]
    assert kept_by(21, *returned).earlier == [11]
