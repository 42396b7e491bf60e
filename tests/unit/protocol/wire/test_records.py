"""The store's records: what is written is read back, golden bytes of format 1, and room for what comes later."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire import records
from mantamq.protocol.wire.events import Entry
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    PROMISE,
    RECORDS,
    CheckpointRecord,
    EntriesRecord,
    OpenedRecord,
    PromiseRecord,
    checkpoint_head,
    decode_record,
    encode_record,
)

from .test_framing import BY_TYPE

KINDS = st.sampled_from(sorted(RECORDS))


def record_of(kind):
    cls = RECORDS[kind]
    return st.builds(cls, **{name: BY_TYPE[cls.__annotations__[name]] for name in cls.__struct_fields__})


@given(record_of(ENTRIES))
def test_entries_are_written_as_any_record_is(record):
    assert encode_record(record) == msgspec.msgpack.encode(record)


@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), record_of(kind))))
def test_every_record_comes_back(pair):
    kind, record = pair
    assert decode_record(kind, encode_record(record)) == record
    assert decode_record(kind, memoryview(encode_record(record))) == record


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_an_entrys_event_is_on_disk_as_it_was_sent(events):
    entries = [Entry((3, 1), 10 + i, "b1", 7, i, event) for i, event in enumerate(events)]
    payload = encode_record(EntriesRecord(5, 4, entries))
    assert decode_record(ENTRIES, payload) == EntriesRecord(5, 4, entries)
    at = 0
    for event in events:
        at = payload.index(event, at) + len(event)


def test_golden_bytes():
    """What is on disk does not change by accident: these bytes are format 1's."""
    entry = Entry((2, 7), 9, "b1", 4, 3, b"\x92\x01\x00")
    assert encode_record(EntriesRecord(1, 0, [entry])).hex() == "930100919692020709a2623104 03c403920100".replace(
        " ", ""
    )
    assert encode_record(OpenedRecord(8, 6, True, ["b1"], [6, 7])).hex() == "950806c391a26231920607"
    assert encode_record(PromiseRecord((2, 7))).hex() == "91920207"


def test_the_store_reads_the_head_of_a_checkpoint_only():
    whole = CheckpointRecord(40, 99, 8, 7, True, 5, (1, 2), 3, {}, {}, ["b1"], {}, 5, b"outline", [1, 2, 40, 0], [70])
    head = checkpoint_head(encode_record(whole))
    assert (head.low, head.live_bytes, head.life, head.log_inc, head.blank) == (40, 99, 8, 7, True)
    assert tuple(CheckpointRecord.__struct_fields__[:5]) == tuple(type(head).__struct_fields__), "the same first fields"


def test_newer_kinds_and_newer_fields_are_passed_over():
    longer = msgspec.msgpack.encode([8, 6, True, ["b1"], [6], "more"])
    assert decode_record(OPENED, longer) == OpenedRecord(8, 6, True, ["b1"], [6])
    before = bytes.fromhex("940806c391a26231")
    assert decode_record(OPENED, before) == OpenedRecord(8, 6, True, ["b1"]), "without the lives before it"
    assert decode_record(OPENED, msgspec.msgpack.encode([8, 6, True])) == OpenedRecord(8, 6, True), "an older one"
    assert decode_record(99, b"\x90") is None


@pytest.mark.parametrize("kind", [CHECKPOINT, ENTRIES, OPENED, PROMISE])
@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x01", b"\x91\xa1x", b"\x92\x01\xd9"])
def test_bytes_that_are_no_record_are_refused(kind, payload):
    with pytest.raises(PeerError, match=RECORDS[kind].__name__):
        decode_record(kind, payload)


def test_a_head_that_is_none_is_refused():
    with pytest.raises(PeerError, match="CheckpointRecord"):
        checkpoint_head(b"\x91")


def test_kinds_are_the_seven_of_the_format():
    assert list(RECORDS) == [1, 2, 3, 4, 5, 6, 7]
    assert (records.MESSAGE, records.DROPPED, records.CLOSED) == (3, 6, 7)
