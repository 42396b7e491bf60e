"""What a shell reads beside its loop: the machine is handed a deep queue as it is, and no record twice."""

from __future__ import annotations

import msgspec
from mantamq.protocol.log.history import read_history
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.stored.outlines import read_outline
from mantamq.protocol.stored.read_back import read_beside
from mantamq.protocol.wire.events import Acquire, Enqueue, Entry, Own, encode_event
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    MESSAGE,
    OPENED,
    CheckpointRecord,
    EntriesRecord,
    MessageRecord,
    OpenedRecord,
    encode_record,
)

EVENTS = [
    Own("b1", 1),
    Enqueue("", [], [b"gone", b"moved", b"also moved"]),
    Enqueue("", [], [b"four", b"five"]),
    Acquire("b1", 7, 1, [1, 1, 1], True),
]


def entry(number: int, event: object) -> Entry:
    return Entry((1, 1), number, "b1.r0", 7, number, encode_event(event))  # type: ignore[arg-type]


def as_written() -> tuple[QueueState, list[tuple[int, int, bytes]]]:
    """A queue, and the records that make it: LSN 100 the entry that brought two messages, 200 two that were moved, 300
    entries behind the checkpoint's index, 400 the checkpoint, 500 what came later."""
    state = QueueState("q#1", "")
    for event in EVENTS:
        state.apply(event)
    checkpoint = CheckpointRecord(
        100, state.bytes, 7, 7, False, len(EVENTS), (1, 1), 4, {}, {}, ["b1"], {}, len(EVENTS),
        msgspec.msgpack.encode(state.snapshot()), [2, 3, 200, 0, 4, 5, 100, 0], [300],
    )  # fmt: skip
    records = [
        (400, CHECKPOINT, checkpoint),
        (100, ENTRIES, EntriesRecord(3, 0, [entry(3, EVENTS[2])])),
        (200, MESSAGE, MessageRecord([2, 3], [b"moved", b"also moved"])),
        (300, ENTRIES, EntriesRecord(5, 4, [entry(5, Enqueue("", [], [b"six"]))])),
        (500, OPENED, OpenedRecord(9, 7, False)),
    ]
    return state, [(lsn, kind, encode_record(record)) for lsn, kind, record in records]


def test_the_queue_is_made_and_what_held_only_bodies_is_not_handed_on():
    state, records = as_written()
    found = read_beside("q#1", list(records), [])
    assert [lsn for lsn, _, _ in found.records] == [400, 300, 500]
    again = QueueState("q#1", "")
    again.restore(found.outline.snapshot)
    shown = again.blobs
    again.adopt(found.outline.blobs, found.outline.size)
    assert shown is again.blobs, "policies have been shown it"
    assert (again.digest(), again.bytes) == (state.digest(), state.bytes)
    whole, handed = read_history(records), read_history(found.records)
    assert (handed.entries, handed.end, handed.life) == (whole.entries, whole.end, whole.life) and handed.end == 5


def test_adopted_messages_are_those_that_are_filled_in():
    state, records = as_written()
    outline = read_outline(read_history(records), records)
    assert outline is not None
    filled = QueueState("q#1", "")
    filled.restore(outline.snapshot)
    filled.fill(outline.blobs)
    assert (filled.digest(), filled.bytes, list(filled.blobs)) == (state.digest(), outline.size, [2, 3, 4, 5])


def test_the_bytes_of_a_record_go_when_its_bodies_are_copied():
    state, records = as_written()
    read = list(records)
    outline = read_outline(read_history(records), read, freed=True)
    assert outline is not None and outline.blobs == dict(state.blobs)
    assert [lsn for lsn, _, payload in read if not payload] == [100, 200], "300 is of entries, too, that are to come"
    assert [record for record in read if record[2]] == [record for record in records if record[0] not in (100, 200)]


def test_a_queue_that_cannot_be_read_is_left_to_the_machine_with_all_its_records():
    _, records = as_written()
    without = [record for record in records if record[0] != 200]
    found = read_beside("q#1", without, [])
    assert found.outline is None and found.records is without
    assert read_beside("q#1", records[-1:], []).records == records[-1:]


def test_of_a_log_that_does_not_vote_the_messages_are_read_and_what_held_them_is_not_handed_on():
    opened = (100, OPENED, encode_record(OpenedRecord(9, 9, True)))
    brought = (200, MESSAGE, encode_record(MessageRecord([2, 3, 7, 7], [b"two", b"three", b"seven"])))
    found = read_beside("q#1", [opened, brought], [])
    assert (found.records, found.outline) == ([opened], None)
    assert found.bodies.bodies == {2: b"two", 3: b"three", 7: b"seven"}
    assert found.bodies.of([(1, 9)]).flat() == [2, 3, 7, 7]


def test_of_a_log_that_does_not_vote_what_came_behind_its_checkpoint_is_of_use_too():
    state, records = as_written()
    assert read_beside("q#1", list(records), []).bodies is None, "it votes"
    records[-1] = (500, OPENED, encode_record(OpenedRecord(9, 7, True)))
    records.append((600, MESSAGE, encode_record(MessageRecord([7, 7], [b"brought"]))))
    found = read_beside("q#1", list(records), [])
    assert found.outline is not None and [lsn for lsn, _, _ in found.records] == [400, 300, 500, 600]
    assert found.bodies.bodies == {**state.blobs, 7: b"brought"}
    assert all(found.bodies.bodies[position] is body for position, body in found.outline.blobs.items())
