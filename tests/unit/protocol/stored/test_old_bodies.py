"""What is used of the messages of a log that does not vote any more."""

from __future__ import annotations

from mantamq.protocol.stored.old_bodies import old_bodies
from mantamq.protocol.wire.records import MESSAGE, MessageRecord, encode_record


def test_a_record_whose_ranges_are_none_is_not_used_and_harms_no_other():
    records = [MessageRecord([1, 1, 2], [b"odd", b"odd"]), MessageRecord([4, 5], [b"four", b"five"])]
    written = [(lsn, MESSAGE, encode_record(record)) for lsn, record in enumerate(records, 1)]
    assert old_bodies(written) == {4: b"four", 5: b"five"}
