"""A durable queue's checkpoints and moves through power cuts; and each planted bug is found.

A queue is told a random stream of enqueues, some of them partly repeated, and of dequeues. Its records are flushed when
the disk likes; what is on disk is applied later, and the store frees what the last checkpoint on disk does not need. At
every step the power might go: what is on disk then, read with a few lines of this file, must make the queue as it was
at some index, not before the one that was applied.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from mantamq.protocol.errors import LocalError, PeerError
from mantamq.protocol.log.checkpoint import ENTRY_BYTES
from mantamq.protocol.queue.snapshot import QueueSnapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica import extents
from mantamq.protocol.replica.checkpoints import CHECKPOINT_BYTES, Checkpoints
from mantamq.protocol.replica.extents import Extents
from mantamq.protocol.wire.events import ZERO, Acquire, AnyEvent, Enqueue, Entry, Own, decode_event, encode_event
from mantamq.protocol.wire.records import CheckpointRecord, EntriesRecord, MessageRecord, StoreRecord, encode_record

MOVE_BYTES = 40


def head(index: int, outline: bytes = b"") -> CheckpointRecord:
    return CheckpointRecord(0, 0, 1, 1, False, index, ZERO, index, {}, {}, [], {}, index, outline)


class Owner:
    """One durable queue and its disk. `digests`: by index, of the queue as it should be."""

    def __init__(self, seed: int, kind: type[Checkpoints] = Checkpoints) -> None:
        self.random = random.Random(seed)
        self.state, self.exact = QueueState("q#1"), QueueState("q#1")
        self.digests = [self.exact.digest()]
        self.checkpoints = kind(self.state, move_bytes=MOVE_BYTES)
        self.log: list[Entry] = []
        self.written = 0  # of the log
        self.flushed = 0
        self.sent: list[list[tuple[StoreRecord, object]]] = []  # batches on their way to disk, and what each is for
        self.disk: dict[int, StoreRecord] = {}
        self.lsn = 64
        self.numbers = 0
        self.counts = dict.fromkeys(("moved", "checkpoints", "freed", "partly"), 0)
        self.order(Own("b1", 1, "b1"))

    # ---- the stream

    def order(self, event: AnyEvent) -> None:
        self.log.append(Entry(ZERO, len(self.log) + 1, "b1", 1, 1, encode_event(event)))
        self.exact.apply(event)
        self.digests.append(self.exact.digest())

    def enqueue(self) -> None:
        again = self.random.choice([0, 0, 1, 2])
        first = max(1, self.numbers + 1 - again)
        self.counts["partly"] += first <= self.numbers
        self.numbers += self.random.randint(1, 5)
        numbers = range(first, self.numbers + 1)
        blobs = [b"%d" % number * self.random.choice([1, 2, 9]) for number in numbers]
        self.order(Enqueue("c", [first, self.numbers], blobs))

    def dequeue(self) -> None:
        live = [position for first, last in self.exact.available for position in range(first, last + 1)]
        if live:
            gone = self.random.sample(live, self.random.randint(1, len(live)))
            runs = [number for position in sorted(gone) for number in (1, position, position)]
            self.order(Acquire("b1", 1, 1, runs, True))

    # ---- the disk

    def write(self) -> None:
        if self.written < len(self.log):
            record = EntriesRecord(self.written + 1, 0, self.log[self.written :])
            self.sent.append([(record, "entries")])
            self.written = len(self.log)

    def flush(self) -> None:
        """The oldest batch, as a whole."""
        if not self.sent:
            return
        batch = self.sent.pop(0)
        placed = []
        for record, use in batch:
            self.lsn += 8
            self.disk[self.lsn] = record
            placed.append((self.lsn, record, use))
        for lsn, record, use in placed:
            if isinstance(record, EntriesRecord):
                self.flushed = max(self.flushed, record.first + len(record.entries) - 1)
                self.checkpoints.wrote(record.first, len(record.entries), lsn, len(encode_record(record)))
            elif use == "move":
                self.counts["moved"] += 1
                self.checkpoints.moved(lsn)
            else:
                self.counts["checkpoints"] += 1
                self.checkpoints.checkpointed(lsn)
                self.free(record.low or lsn)  # type: ignore[attr-defined]

    def free(self, low: int) -> None:
        self.counts["freed"] += len(self.disk)
        self.disk = {lsn: record for lsn, record in self.disk.items() if lsn >= low}
        self.counts["freed"] -= len(self.disk)

    def apply(self) -> None:
        for entry in self.log[self.state.index : min(self.flushed, self.state.index + self.random.randint(0, 3))]:
            event = decode_event(entry.event)
            done = self.state.apply(event)
            self.checkpoints.applied(done.positions if isinstance(event, Enqueue) and done.effective else [])

    def ahead(self) -> None:
        if self.disk:
            self.checkpoints.ahead(self.random.choice(list(self.disk)) + 1)

    def work(self) -> None:
        """What a replica does for its checkpoint, behind other work."""
        checkpoints = self.checkpoints
        if checkpoints.due():
            checkpoints.begin()
        move = checkpoints.move()
        if move is not None:
            self.sent.append([(move, "move")])
        elif checkpoints.ready():
            record = checkpoints.complete(head(self.committed(), encode_record_of(self.state)))
            checkpoints.put(record, len(encode_record(record)))
            batch: list[tuple[StoreRecord, object]] = [(record, "checkpoint")]
            if record.index < self.written:  # what is behind it is written again, with it
                batch.append((EntriesRecord(record.index + 1, 0, self.log[record.index : self.written]), "entries"))
            self.sent.append(batch)

    def committed(self) -> int:
        return self.state.index

    # ---- coming back

    def recovered(self) -> QueueState:
        """The queue by what is on disk, with every entry there applied."""
        state = QueueState("q#1")
        found = [(lsn, record) for lsn, record in self.disk.items() if isinstance(record, CheckpointRecord)]
        last = 0
        if found:
            last, checkpoint = found[-1]
            state.restore(msgspec.msgpack.decode(checkpoint.outline, type=QueueSnapshot))
            assert state.index == checkpoint.index
            state.fill(Extents(checkpoint.extents).read(state.live(), self.disk.get))
            assert state.bytes == checkpoint.live_bytes, "what is on disk is another queue"
        log: dict[int, Entry] = {}
        for lsn, record in self.disk.items():
            if lsn > last and isinstance(record, EntriesRecord):
                log = {index: entry for index, entry in log.items() if index < record.first}
                log |= enumerate_from(record)
        while state.index + 1 in log:
            state.apply(decode_event(log[state.index + 1].event))
        return state

    def check(self) -> None:
        try:
            state = self.recovered()
        except PeerError as error:
            raise AssertionError(str(error)) from None
        assert state.index >= self.state.index, "what was applied is not on disk"
        assert state.digest() == self.digests[state.index], "what is on disk is another queue"
        assert all(extent[2] in self.disk for extent in self.checkpoints.extents), (
            "the next checkpoint names what is gone"
        )

    def run(self, steps: int = 120) -> None:
        deeds = [self.enqueue, self.enqueue, self.dequeue, self.write, self.flush, self.apply, self.ahead, self.work]
        for _ in range(steps):
            self.random.choice(deeds)()
            self.check()
        assert self.state.index <= self.flushed


def encode_record_of(state: QueueState) -> bytes:
    return msgspec.msgpack.encode(state.snapshot())


def enumerate_from(record: EntriesRecord) -> dict[int, Entry]:
    return dict(enumerate(record.entries, record.first))


def story(kind: type[Checkpoints] = Checkpoints, owner: type[Owner] = Owner, seeds: int = 60) -> dict[str, int]:
    counts: dict[str, int] = {}
    for seed in range(seeds):
        one = owner(seed, kind)
        one.run()
        counts = {name: counts.get(name, 0) + count for name, count in one.counts.items()}
    return counts


def test_what_is_on_disk_is_the_queue_as_it_was_whenever_the_power_goes():
    counts = story(seeds=100)
    assert min(counts.values()) > 100, counts  # the story has all of it


# ---- planted bugs


class TellsLowEarly(Checkpoints):
    """The base moves before the moves are on disk."""

    def ready(self) -> bool:
        return self.under_way and not self._put

    def complete(self, record):
        done = super().complete(record)
        return msgspec.structs.replace(done, low=max(done.low, self._upto))


class MovesOnce(TellsLowEarly):
    """Only the first record of moves is made."""

    def move(self):
        return None if self._cursor else super().move()

    def ready(self) -> bool:
        return Checkpoints.ready(self)


class SkipsTheEnd(Checkpoints):
    """What was enqueued since the checkpoint was begun counts as dead where it lies low."""

    def begin(self) -> None:
        super().begin()
        self._end = 1 << 62


class OverUnapplied(Owner):
    """A checkpoint speaks of all that is committed, applied or not."""

    def committed(self) -> int:
        return self.flushed


class Unchecked(Checkpoints):
    def complete(self, record):
        return msgspec.structs.replace(super().complete(head(self._state.index, record.outline)), index=record.index)


class ForgetsWhereTheyWent(MovesOnce):
    """The places before the moves are named."""

    def move(self):
        return Checkpoints.move(self)

    def moved(self, lsn: int) -> None:
        self._moving = None


class NotAgain(Checkpoints):
    """What is applied while a checkpoint is on its way stays where it was, before that checkpoint."""

    def applied(self, enqueued) -> None:
        super().applied(enqueued)
        self._since.clear()


@pytest.mark.parametrize("kind", [TellsLowEarly, MovesOnce, SkipsTheEnd, ForgetsWhereTheyWent, NotAgain])
def test_a_base_that_passes_what_is_needed_is_found(kind):
    with pytest.raises(AssertionError):
        story(kind)


def test_a_checkpoint_over_unapplied_entries_is_found():
    with pytest.raises(AssertionError):
        story(Unchecked, OverUnapplied)
    with pytest.raises(LocalError, match="applied up to there"):
        story(Checkpoints, OverUnapplied)


def test_extents_of_a_repeated_enqueue_off_by_the_repeats_are_found(monkeypatch):
    exact = extents._bodies

    def from_the_front(record, first, last, entry, lsn):
        if isinstance(record, MessageRecord):
            return exact(record, first, last, entry, lsn)
        event = decode_event(record.entries[entry].event)
        return dict(zip(range(first, last + 1), event.blobs, strict=False))  # type: ignore[union-attr]

    monkeypatch.setattr(extents, "_bodies", from_the_front)
    with pytest.raises(AssertionError, match="another queue"):
        story()


# ---- when


def test_a_checkpoint_is_due_when_much_was_written_since():
    one = Checkpoints(QueueState("q#1"))
    one.wrote(1, 1, 64, CHECKPOINT_BYTES)
    assert not one.due()
    one.wrote(2, 0, 72, 1)
    assert one.due()
    one.begin()
    assert not one.due() and one.move() is None and one.ready()
    one.put(head(0), CHECKPOINT_BYTES)
    assert not one.ready() and one.under_way
    one.checkpointed(80)
    assert not one.due() and not one.under_way
    one.wrote(3, 1, 88, 4 * CHECKPOINT_BYTES)
    assert not one.due()
    one.wrote(4, 0, 96, 1)
    assert one.due()


def test_small_entries_count_as_what_it_takes_to_apply_them_again():
    one = Checkpoints(QueueState("q#1"))
    one.wrote(1, CHECKPOINT_BYTES // ENTRY_BYTES, 64, 1)
    assert not one.due()
    one.wrote(CHECKPOINT_BYTES // ENTRY_BYTES + 1, 1, 72, 1)
    assert one.due()


def test_a_checkpoint_is_due_when_the_store_asks_and_the_last_one_needs_older_records():
    one = Checkpoints(QueueState("q#1"), low=500)
    one.ahead(500)
    assert not one.due()
    one.ahead(501)
    assert one.due()
    one.ahead(3)  # it has asked for more already
    assert one.due()
    one.begin()
    one.put(head(0), 10)
    one.checkpointed(600)
    one.ahead(600)
    assert not one.due()


def test_what_is_asked_for_above_the_end_of_the_log_is_met_by_one_checkpoint():
    """Else each would be below it and the next one due: the log would grow without end, by checkpoints alone."""
    owner = Owner(1)
    for _ in range(5):
        owner.enqueue()
        owner.write()
        owner.flush()
    while owner.state.index < owner.flushed:
        owner.apply()
    before = owner.counts["checkpoints"]
    owner.checkpoints.ahead(1 << 40)
    for _ in range(50):
        owner.work()
        owner.flush()
    assert owner.counts["checkpoints"] == before + 1 and not owner.checkpoints.due()
    owner.checkpoints.ahead(owner.lsn)
    assert owner.checkpoints.due(), "it is asked again, for what is there"


def test_what_is_applied_before_it_is_on_disk_is_an_error():
    state = QueueState("q#1")
    one = Checkpoints(state)
    done = state.apply(Enqueue("", [], [b"1"]))
    with pytest.raises(LocalError, match="K5"):
        one.applied(done.positions)


def test_the_store_is_told_of_live_bytes_when_they_have_changed_much():
    state = QueueState("q#1")
    one = Checkpoints(state)
    mib = 1024 * 1024
    told = []
    for size in (mib, mib + 1, 2 * mib, 3 * mib, 12 * mib, 15 * mib, 15 * mib + 1, 20 * mib, 0):
        state.bytes = size
        told.append(one.live_bytes())
    assert told == [None, mib + 1, None, 3 * mib, 12 * mib, None, 15 * mib + 1, 20 * mib, 0]
