"""The dump: filters, bodies by their persistence ids, and a log that is written meanwhile."""

from __future__ import annotations

import pytest
from mantamq.store.log.dump import DAMAGED, dump, dump_records, messages_in
from mantamq.store.log.layout import PAGE
from mantamq.store.log.log import Outgoing
from mantamq.store.log.recovery import open_log

from ..disks import SimulatedFiles
from .made_up_stores import CONTAINER_BYTES, DATA, QUEUE, TIME_US, blob, create, entries, make_store, write

FOLDER = f"{DATA}/b1/messages"


def test_rows_of_one_stream_and_from_one_place_on():
    files = SimulatedFiles()
    make_store(files, "b1")
    rows = list(dump(files, FOLDER))
    assert [row.stream for row in rows] == [QUEUE, "", QUEUE, QUEUE, QUEUE, QUEUE]
    assert list(dump(files, FOLDER, QUEUE)) == [row for row in rows if row.stream]
    assert list(dump(files, FOLDER, from_lsn=rows[3].lsn)) == rows[3:]
    assert rows[2].kind == "Message-Start + Enqueue" and rows[5].kind == "Message-Dequeue + Delete"


def test_the_persistence_id_is_where_the_body_begins():
    files = SimulatedFiles()
    log = create(files, FOLDER)
    from mantamq.protocol.wire.events import Enqueue
    from mantamq.protocol.wire.records import ENTRIES, MESSAGE, MessageRecord

    bodies = [b"short", b"s" * 300, b"L" * 70_000, b"again", b"again"]
    write(log, (ENTRIES, QUEUE, entries(1, Enqueue("c", [1, 2], [blob(one, "k") for one in bodies[:2]]))))
    write(log, (ENTRIES, QUEUE, entries(2, Enqueue("c", [3, 3], [blob(bodies[2])]))))
    write(log, (MESSAGE, QUEUE, MessageRecord([4, 5], [blob(one) for one in bodies[3:]])))
    found = [one for _, record in dump_records(files, FOLDER) if record for one in messages_in(record, CONTAINER_BYTES)]
    assert [one.body for one in found] == bodies
    assert [one.position for one in found] == [0, 0, 0, 4, 5]
    assert [one.header for one in found] == [{"subject": "k"}] * 2 + [{}] * 3
    assert [one.id == 0 for one in found] == [False, False, True, False, False], "the third goes over containers"
    for one in found:
        if one.id:
            container, at = divmod(one.id, CONTAINER_BYTES)
            with_it = files.open(f"{FOLDER}/{container:016d}.log", read_only=True)
            assert with_it.pread(len(one.body), at) == one.body
    assert len({one.id for one in found}) == 5


@pytest.mark.parametrize("reused", [False, True])
def test_what_is_freed_while_it_is_read_is_neither_damage_nor_an_error(reused):
    """Also where the container that is being read is written again meanwhile, under another number."""
    files = SimulatedFiles()
    log = create(files, FOLDER)
    lsns = [write(log, (2, QUEUE, entries(n, commit=0)), (2, "pad", entries(1)))[0] for n in range(1, 40)]
    size = 20_000
    for n in range(20):
        lsns += log.write([Outgoing(2, QUEUE, [bytes([n]) * size])], TIME_US)
        log.sync()
    reading = dump(files, FOLDER)
    seen = [next(reading) for _ in range(3)]
    log.free_below(lsns[-3])
    for n in range(20 if reused else 0):
        lsns += log.write([Outgoing(2, QUEUE, [bytes([n]) * size])], TIME_US)
        log.sync()
    rest = list(reading)
    assert DAMAGED not in [row.kind for row in seen + rest]
    assert rest[-1].lsn == lsns[-1] or reused, "what is written behind the end that was found is not looked for"
    assert [row.lsn for row in seen + rest] == sorted({row.lsn for row in seen + rest})


def test_damage_is_shown_where_it_touches_the_stream_asked_for():
    files = SimulatedFiles()
    make_store(files, "b1")
    rows = list(dump(files, FOLDER))
    (container,) = [name for name in files.list(FOLDER) if name[0] == "0"]
    files.flip(f"{FOLDER}/{container}", rows[3].lsn % CONTAINER_BYTES + 40, 3)
    assert DAMAGED in [row.kind for row in dump(files, FOLDER)]
    assert DAMAGED in [row.kind for row in dump(files, FOLDER, QUEUE)]
    assert DAMAGED not in [row.kind for row in dump(files, FOLDER, "other#9")]
    log, found = open_log(files, FOLDER)
    assert PAGE and list(found) and found.damage
    log.close()
