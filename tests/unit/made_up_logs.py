"""Entries, appends and keepers to test with; their ballots are ONE and TWO."""

from __future__ import annotations

import msgspec
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.events import ZERO, Ballot, DeclareQueue, Entry, encode_event
from mantamq.protocol.wire.log_frames import Append
from mantamq.protocol.wire.records import CheckpointRecord, EntriesRecord, encode_record
from mantamq.protocol.wiring.snapshot import ClusterOutline
from mantamq.protocol.wiring.wiring import Wiring

ONE: Ballot = (1, 7)
TWO: Ballot = (2, 3)


def entry(index: int, ballot: Ballot = ONE) -> Entry:
    return Entry(ballot, index, "b1", 1, index, b"%d of %d" % (index, ballot[0]))


def entries(first: int, last: int, ballot: Ballot = ONE) -> list[Entry]:
    return [entry(index, ballot) for index in range(first, last + 1)]


def append(
    previous: int,
    new: list[Entry],
    commit: int = 0,
    *,
    ballot: Ballot = ONE,
    previous_ballot: Ballot | None = None,
    trim: int = 0,
) -> Append:
    known = previous_ballot or (ballot if previous else ZERO)
    return Append(ballot, "q#1", previous, known, commit, trim, new)


def keeper(end: int = 0, commit: int = 0) -> Keeper:
    """A keeper that holds entries of ballot ONE up to `end`."""
    made = Keeper("q#1", "b1")
    committed, refusal = made.append(append(0, entries(1, end), commit))
    assert refusal is None and committed == entries(1, commit)
    return made


def cluster_checkpoint(index: int, low: int = 0) -> bytes:
    """A checkpoint of the cluster stream, in which each entry has declared a queue."""
    wiring = Wiring()
    for number in range(1, index + 1):
        wiring.apply(DeclareQueue(f"q{number}", {}, durable=True), number)
    outline = msgspec.msgpack.encode(ClusterOutline(wiring.snapshot(), {}))
    return encode_record(
        CheckpointRecord(low, 0, 1, 1, False, index, (1, 1), index, {}, {}, ["b1"], {}, index, outline)
    )


def declarations(first: int, last: int) -> bytes:
    """The record of those entries."""
    made = [Entry((1, 1), i, "b1", 1, i, encode_event(DeclareQueue(f"q{i}", {}))) for i in range(first, last + 1)]
    return encode_record(EntriesRecord(first, first - 1, made))
