"""Entries, appends and keepers to test with; their ballots are ONE and TWO."""

from __future__ import annotations

from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.events import ZERO, Ballot, Entry
from mantamq.protocol.wire.log_frames import Append

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
