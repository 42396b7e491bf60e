"""Where a stream's records are: what is noted as they are flushed is what recovery notes, and what damage hurts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    CLOSED,
    DROPPED,
    ENTRIES,
    MESSAGE,
    OPENED,
    PROMISE,
    CheckpointRecord,
    ClosedRecord,
    DroppedRecord,
    EntriesRecord,
    MessageRecord,
    OpenedRecord,
    PromiseRecord,
    encode_record,
)

ENTRY = encode_record(EntriesRecord(1, 0, []))


def opened(life=5, blank=False):
    return encode_record(OpenedRecord(life, life, blank))


def checkpoint(low=0, live_bytes=0, extents=(), behind=(), life=5):
    return encode_record(
        CheckpointRecord(
            low, live_bytes, life, life, False, 9, (1, 1), 9, {}, {}, [], {}, 9, b"", list(extents), list(behind)
        )
    )


def test_a_stream_needs_all_from_its_first_record_on_until_it_has_a_checkpoint():
    index = LogIndex()
    index.note(100, OPENED, "q#1", opened())
    index.note(200, ENTRIES, "q#1", ENTRY, 100)
    place = index.streams["q#1"]
    assert (place.low, place.last, place.checkpoint, place.life, index.low) == (100, 200, 0, 5, 100)
    index.note(300, CHECKPOINT, "q#1", checkpoint(200, 50), 200)
    assert (place.low, place.last, place.checkpoint, place.live_bytes) == (200, 300, 300, 50 + place.checkpoint_bytes)
    index.note(400, CHECKPOINT, "q#1", checkpoint(), 300)
    assert (place.low, index.low) == (400, 400), "a checkpoint that names nothing needs itself"


def test_a_stream_that_was_dropped_needs_nothing():
    index = LogIndex()
    index.note(100, OPENED, "q#1", opened())
    index.note(200, OPENED, "q#2", opened())
    index.note(300, DROPPED, "q#1", encode_record(DroppedRecord()), 100)
    assert list(index.streams) == ["q#2"] and index.low == 200
    index.note(400, DROPPED, "q#2", encode_record(DroppedRecord()), 200)
    assert (index.low, index.live_bytes) == (None, 0)


def test_it_is_known_when_a_stream_may_need_less():
    index, moved = LogIndex(), []
    for n, (kind, payload) in enumerate(
        [(OPENED, opened()), (ENTRIES, ENTRY), (CHECKPOINT, checkpoint()), (DROPPED, encode_record(DroppedRecord()))]
    ):
        index.note(100 * (n + 1), kind, "q#1", payload)
        moved.append(index.moved)
        index.moved = False
    assert moved == [True, False, True, True]


def test_the_highest_promise_counts_and_the_last_record_says_whether_the_end_was_clean():
    index = LogIndex()
    index.note(100, PROMISE, "", encode_record(PromiseRecord((4, 2))))
    index.note(200, PROMISE, "", encode_record(PromiseRecord((3, 9))))
    index.note(300, CLOSED, "", encode_record(ClosedRecord("s1")))
    assert (index.promised, index.shutdown) == ((4, 2), "s1")
    index.note(400, OPENED, "q#1", opened())
    assert index.shutdown == ""


RECORDS = st.one_of(
    st.builds(lambda life, blank: (OPENED, opened(life, blank)), st.integers(1, 9), st.booleans()),
    st.just((ENTRIES, ENTRY)),
    st.just((MESSAGE, encode_record(MessageRecord([1, 1], [b"x"])))),
    st.builds(lambda low, live: (CHECKPOINT, checkpoint(low, live)), st.integers(0, 500), st.integers(0, 99)),
    st.just((DROPPED, encode_record(DroppedRecord()))),
)


@given(st.lists(st.tuples(RECORDS, st.sampled_from(["a#1", "b#1", "cluster"])), max_size=30))
def test_the_index_is_what_a_scan_of_the_records_from_its_low_says(written):
    """Whatever is below the least low may go: a scan of the rest finds the same streams, but for how far back the
    dropped ones reached."""
    index, records = LogIndex(), []
    for n, ((kind, payload), stream) in enumerate(written):
        lsn = 100 * (n + 1)
        undo = index.streams[stream].last if stream in index.streams else 0
        records.append((lsn, kind, stream, payload, undo))
        index.note(*records[-1])
    again = LogIndex()
    for record in records:
        if record[0] >= (index.low or 0):
            again.note(*record)
    for stream, place in index.streams.items():
        found = again.streams[stream]
        assert (found.low, found.last, found.checkpoint) == (place.low, place.last, place.checkpoint)
        if place.checkpoint or place.life:
            assert (found.life, found.blank) == (place.life, place.blank)
        assert not found.hurt
    assert set(again.streams) == set(index.streams)


# ---- damage


def damaged():
    """Stream a has its last record at 200, b at 300; from 400 to 600 nothing can be read."""
    index = LogIndex()
    index.note(100, OPENED, "a#1", opened())
    index.note(200, ENTRIES, "a#1", ENTRY, 100)
    index.note(300, OPENED, "b#1", opened())
    index.damaged(400, 600)
    return index


def hurt(index):
    return {stream for stream, place in index.streams.items() if place.hurt}


def test_a_stream_without_a_record_behind_the_damage_may_have_had_one_in_it():
    assert hurt(damaged()) == {"a#1", "b#1"}


def test_a_chain_that_leads_past_the_damage_is_whole():
    index = damaged()
    index.note(700, ENTRIES, "a#1", ENTRY, 200)
    assert hurt(index) == {"b#1"}
    index.note(800, ENTRIES, "b#1", ENTRY, 500)
    assert hurt(index) == {"b#1"}, "its chain leads into the damage"
    index.note(900, ENTRIES, "b#1", ENTRY, 800)
    assert hurt(index) == {"b#1"}, "what follows heals nothing"


@pytest.mark.parametrize(
    ("low", "extents", "behind", "whole"),
    [
        (0, [], [], True),
        (700, [1, 2, 700, 0], [], True),
        (300, [1, 2, 300, 0, 3, 3, 600, 0], [], True),
        (300, [1, 2, 300, 0, 3, 3, 500, 0], [], False),
        (500, [], [500], False),
        (400, [1, 1, 400, 0], [], False),
    ],
)
def test_a_checkpoint_behind_the_damage_heals_if_it_needs_nothing_in_it(low, extents, behind, whole):
    index = damaged()
    index.note(800, ENTRIES, "b#1", ENTRY, 500)
    index.note(900, CHECKPOINT, "b#1", checkpoint(low, 0, extents, behind), 800)
    assert ("b#1" not in hurt(index)) == whole


def test_a_stream_first_seen_behind_the_damage_is_hurt_if_it_began_in_it():
    index = damaged()
    index.note(700, ENTRIES, "c#1", ENTRY, 500)
    index.note(800, OPENED, "d#1", opened())
    assert hurt(index) == {"a#1", "b#1", "c#1"}
