"""Where bodies lie: extents against a dictionary by position, places of entries against a dictionary by index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import PeerError
from mantamq.protocol.ranges import RangeSet, compress
from mantamq.protocol.replica import extents as module
from mantamq.protocol.replica.extents import EntryPlaces, Extents
from mantamq.protocol.wire.events import ZERO, Enqueue, Entry, Purge, encode_event
from mantamq.protocol.wire.records import EntriesRecord, MessageRecord, StoreRecord


def enqueue(blobs: list[bytes]) -> Entry:
    return Entry(ZERO, 1, "b1", 1, 1, encode_event(Enqueue("", [], blobs)))


class Disk:
    """A log of records, and by position the body of each live message: what extents are to find."""

    def __init__(self) -> None:
        self.records: dict[int, StoreRecord] = {}
        self.bodies: dict[int, bytes] = {}
        self.extents = Extents()
        self.next_position = 1
        self.end = 64

    def put(self, record: StoreRecord) -> int:
        self.end += 8
        self.records[self.end] = record
        return self.end

    def enqueue(self, events: list[tuple[int, int]]) -> None:
        """One record; of each event: blobs that were applied before, and blobs that are new."""
        written = []
        for repeated, new in events:
            first = self.next_position
            self.next_position += new
            bodies = {position: b"%d" % position for position in range(first, first + new)}
            written.append((first, [b"again"] * repeated + list(bodies.values())))
            self.bodies |= bodies
        lsn = self.put(EntriesRecord(1, 0, [enqueue(blobs) for _, blobs in written]))
        for entry, (first, blobs) in enumerate(written):
            last = first + blobs.count(b"again") * -1 + len(blobs) - 1
            if last >= first:
                self.extents.enqueued(first, last, lsn, entry)

    def dequeue(self, share: int, rest: int) -> None:
        self.bodies = {position: body for position, body in self.bodies.items() if position % share != rest}

    def move(self, upto: int, most: int) -> None:
        """At most so many messages, from the head, out of what lies below `upto`."""
        spans: list[list[int]] = []
        moved: list[int] = []
        apart = True
        for first, last, lsn in list(self.extents.behind(0)):
            if lsn >= upto:
                apart = True
                continue
            live = [position for position in range(first, last + 1) if position in self.bodies]
            end = last if len(moved) + len(live) <= most else live[most - len(moved)] - 1
            if end >= first:
                moved += [position for position in live if position <= end]
                if apart:
                    spans.append([first, end])
                spans[-1][1] = end
                apart = False
            if end < last:
                break
        lsn = self.put(MessageRecord(compress(moved), [self.bodies[position] for position in moved]))
        for first, last in spans:
            self.extents.moved(first, last, lsn)

    @property
    def live(self) -> RangeSet:
        return RangeSet(compress(sorted(self.bodies)))

    def check(self) -> None:
        assert self.extents.read(self.live, self.records.get) == self.bodies
        assert Extents(self.extents.flat()).flat() == self.extents.flat()
        lsns = [lsn for _, _, lsn, _ in self.extents]
        assert self.extents.low == min(lsns, default=0)
        ends = [edge for first, last, _, _ in self.extents for edge in (first, last)]
        assert ends == sorted(ends)


steps = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=4)),
    st.tuples(st.just("dequeue"), st.integers(1, 6), st.integers(0, 5)),
    st.tuples(st.just("move"), st.integers(0, 400), st.integers(0, 12)),
    st.tuples(st.just("prune")),
)


@given(st.lists(steps, max_size=30))
def test_every_live_message_is_found_where_it_was_written_last(script):
    disk = Disk()
    for name, *args in script:
        if name == "prune":
            disk.extents.prune(disk.live)
            assert all(disk.live.within(first, last) for first, last, _, _ in disk.extents)
        elif name == "move":
            disk.extents.prune(disk.live)
            disk.move(*args)
        else:
            getattr(disk, name)(*args)
        disk.check()


def test_a_repeated_enqueue_gave_only_its_last_messages(monkeypatch):
    disk = Disk()
    disk.enqueue([(2, 3)])
    disk.check()
    exact = module._bodies

    def from_the_front(record, first, last, entry, lsn):
        event = module.decode_event(record.entries[entry].event)
        return dict(zip(range(first, last + 1), event.blobs, strict=False))

    monkeypatch.setattr(module, "_bodies", from_the_front)
    with pytest.raises(AssertionError):
        disk.check()
    assert exact(disk.records[disk.end], 1, 3, 0, disk.end) == disk.bodies


def test_dequeuing_costs_nothing_here_and_dead_extents_are_forgotten():
    disk = Disk()
    disk.enqueue([(0, 5), (0, 5)])
    assert len(disk.extents) == 2
    del disk.bodies[1]
    assert len(disk.extents) == 2
    disk.check()
    for position in range(2, 6):
        del disk.bodies[position]
    disk.extents.prune(disk.live)
    assert disk.extents.flat() == [6, 10, disk.end, 1]


def test_an_extent_moved_in_part_keeps_its_end():
    extents = Extents([1, 10, 100, 0, 11, 20, 200, 3])
    extents.moved(1, 4, 300)
    assert extents.flat() == [1, 4, 300, 0, 5, 10, 100, 0, 11, 20, 200, 3]
    extents.moved(5, 15, 400)
    assert extents.flat() == [1, 4, 300, 0, 5, 15, 400, 0, 16, 20, 200, 3]
    extents.dropped(1, 16)
    assert extents.flat() == [17, 20, 200, 3]
    assert list(extents.behind(19)) == [(17, 20, 200)]
    assert list(extents.behind(20)) == []


@pytest.mark.parametrize(
    "record",
    [
        None,
        MessageRecord([1, 1], [b"1"]),
        EntriesRecord(1, 0, []),
        EntriesRecord(1, 0, [enqueue([b"1"])]),
        EntriesRecord(1, 0, [Entry(ZERO, 1, "b1", 1, 1, encode_event(Purge(1)))]),
    ],
)
def test_a_record_that_is_not_what_the_extent_says_is_refused(record):
    with pytest.raises(PeerError, match="the record at 72"):
        Extents([1, 2, 72, 0]).read(RangeSet([1, 2]), {72: record}.get)


def test_a_live_message_in_no_extent_is_refused():
    with pytest.raises(PeerError, match="all 3 live messages, not 2"):
        Extents([1, 2, 72, 0]).read(RangeSet([1, 3]), {72: MessageRecord([1, 2], [b"1", b"2"])}.get)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), max_size=20), st.integers(0, 20))
def test_each_entry_lies_in_the_last_record_that_has_it_and_is_not_overruled(writes, taken):
    places = EntryPlaces()
    model: dict[int, tuple[int, int]] = {}
    for lsn, (first, count) in enumerate(writes, 1):
        first = min(first, max(model, default=0) + 1)
        places.wrote(first, count, lsn)
        model = {index: place for index, place in model.items() if index < first}
        model |= {first + number: (lsn, number) for number in range(count)}
    for index in range(taken, max(model, default=0) + 2):
        assert places.take(index) == model.get(index, (0, 0))
