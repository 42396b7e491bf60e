"""A durable queue at one replica: what it shows is on disk, and what is on disk brings it back.

Its stream is a write-ahead log, and its checkpoint an outline of the state with the places of the bodies
(`durable.md` 2, 3). Entries are acknowledged, and committed ones applied, when they are on disk; where they lie there
is noted as they are applied, so that a checkpoint can say it. Checkpoints and the moves before them are made behind
other work, one record at a time.
"""

from __future__ import annotations

from collections import deque

import msgspec

from ..log.checkpoint import checkpoint_of, opening_of, tail_of
from ..log.durability import Promises, RecordWriter
from ..log.history import StreamHistory
from ..queue.applied import Applied
from ..ranges import RangeSet, compress, pairs
from ..replica.checkpoints import MOVE_BYTES, Checkpoints
from ..replica.hosted_queue import HostedQueue
from ..replica.rearranging import rearrange
from ..replica.status import Status
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import AnyEvent, Enqueue, Entry
from ..wire.log_frames import LogReport, UpdateFront
from ..wire.records import MESSAGE, OPENED, MessageRecord, encode_record
from .acknowledgements import StoredAcknowledgements
from .outlines import Outline

_encode = msgspec.msgpack.Encoder().encode


FOUND_RECORDS = 4
"""So many records of messages that were here already are on their way to disk at a time."""
FOUND_MESSAGES = 8192
"""Most messages that are taken for one of them."""


class StoredQueue(HostedQueue):
    """Attributes:
    checkpoints: where the messages lie on disk, and when that is written down.
    """

    __slots__ = (
        "_blank", "_bodies", "_brought", "_chunks", "_found", "_more", "_unreported", "_wanted", "_writer",
        "checkpoints",
    )  # fmt: skip

    acks: StoredAcknowledgements

    def stored(self, writer: RecordWriter, promises: Promises, timing: Timing = DEFAULT_TIMING) -> None:
        """It writes to the store from now on. Its keeper's durability must be there."""
        durability = self.keeper.durability
        assert durability is not None
        durability.told, durability.placed = self._told, self._placed
        self.acks = StoredAcknowledgements(self.keeper, self._outbox, timing, promises)
        self.checkpoints = Checkpoints(self.state)
        self._writer = writer
        self._blank = self.keeper.blank  # on disk it does not vote
        self._chunks = 0  # of an update, on their way to disk
        self._brought = RangeSet()  # positions that the update under way has brought
        self._found: deque[tuple[int, int]] = deque()  # ranges that were here already, to be written anew
        self._bodies: dict[int, bytes] = {}  # which has those
        self._more = False  # more is on disk than is followed up on
        self._unreported = False  # a leader asked, and it could not speak
        self._wanted = False  # a checkpoint, at once

    def resume(self, outline: Outline | None, history: StreamHistory, committed: list[Entry]) -> None:
        """Go on with what an earlier life has kept; `committed` is behind the checkpoint, and applied when the stream
        is open."""
        checkpoint = history.checkpoint
        if outline is not None and checkpoint is not None:
            self.state.restore(outline.snapshot)
            self.state.adopt(outline.blobs, outline.size)
            rearrange(self, self._outbox, self.keeper)
            self.applied = checkpoint.index
            self.expiries.restart()
            size = len(checkpoint.outline) + 8 * len(checkpoint.extents)
            self.checkpoints = Checkpoints(self.state, outline.extents, checkpoint.low, size)
        for place in history.places:
            self.checkpoints.wrote(*place)
        self._unapplied = committed

    # ---- what is on disk

    def _placed(self, first: int, count: int, lsn: int, size: int) -> None:
        self.checkpoints.wrote(first, count, lsn, size)

    def _told(self) -> None:
        self._more = True
        self._outbox.dirty[self.id] = None

    def _follow_up(self) -> None:
        """More of the log is on disk, or what an update has brought."""
        self._more = False
        keeper = self.keeper
        if self._unreported and not self._speechless():
            self._unreported = False
            self._outbox.report_log(keeper.log_report())
        committed = keeper.wrote()
        if committed:
            self._unapplied += committed
        self.acks.wrote()
        if not self.acks.learner:
            self.apply()

    def _applied(self, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        self.checkpoints.applied(done.positions if type(event) is Enqueue and done.effective else [])
        super()._applied(entry, event, done)
        if self._blank and not self.keeper.blank:  # else it would come back without the vote that it has used
            self._blank, self._wanted = False, True

    # ---- updates

    def restored(self) -> None:
        """Of the log so far nothing counts, and no message is on disk."""
        super().restored()
        self.checkpoints = Checkpoints(self.state)
        self._chunks = 0
        self._writer.put_ahead(OPENED, self.id, encode_record(opening_of(self.keeper, [])), lambda lsn: None)
        self._brought = RangeSet()
        found, self._bodies = self.catch_up.found
        self._found = deque(found)
        self._bring_found()

    def update_front(self, peer: str, frame: UpdateFront) -> None:
        before = self.catch_up.chunks
        super().update_front(peer, frame)
        if self.catch_up.chunks != before:
            self._wanted = True
            positions = (position for first, last in pairs(frame.ranges) for position in range(first, last + 1))
            self._bring(dict(zip(positions, frame.blobs, strict=True)))

    def _bring_found(self) -> None:
        """Write what was found here under the new log, a few records at a time: it may be gigabytes."""
        while self._found and self._chunks < FOUND_RECORDS:
            self._bring(self._next_found())
        if not self._found:
            self._bodies = {}

    def _next_found(self) -> dict[int, bytes]:
        """The next messages, for one record."""
        found, bodies, size = self._found, dict[int, bytes](), 0
        while found and size < MOVE_BYTES and len(bodies) < FOUND_MESSAGES:
            position, last = found.popleft()
            bodies[position] = self._bodies[position]
            size += len(bodies[position])
            if position < last:
                found.appendleft((position + 1, last))
        return bodies

    def _bring(self, bodies: dict[int, bytes]) -> None:
        """Write what an update has brought, or found here: it counts with the checkpoint at the end."""
        positions: list[int] = []
        size = 0
        for position in sorted(bodies):
            if position not in self._brought:
                positions.append(position)
                size += len(bodies[position])
                self._brought.add(position, position)
            if size > MOVE_BYTES:
                self._bring_record(positions, bodies)
                positions, size = [], 0
        if positions:
            self._bring_record(positions, bodies)

    def _bring_record(self, positions: list[int], bodies: dict[int, bytes]) -> None:
        checkpoints, ranges = self.checkpoints, compress(positions)
        self._chunks += 1

        def on_disk(lsn: int) -> None:
            for first, last in pairs(ranges):
                checkpoints.extents.moved(first, last, lsn)
            if checkpoints is self.checkpoints:
                self._chunks -= 1
                self._outbox.dirty[self.id] = None

        record = MessageRecord(ranges, [bodies[position] for position in positions])
        self._writer.put(MESSAGE, self.id, encode_record(record), on_disk, grows=True)

    # ---- what it says

    def log_report(self) -> LogReport | None:
        """A voter says nothing while what an update has brought is not on disk."""
        self._unreported = self._speechless()
        return None if self._unreported else self.keeper.log_report()

    def _speechless(self) -> bool:
        """It votes, and what an update has brought is not on disk: it can say neither that it has it nor that not."""
        keeper, durability = self.keeper, self.keeper.durability
        return durability is not None and not durability.whole and not keeper.blank

    # ---- serving

    def serve(self) -> bool:
        if self._more:
            self._follow_up()
        if self._found:
            self._bring_found()
        more = super().serve()
        if self._wanted or self.checkpoints.under_way or self.checkpoints.due():
            self._checkpoint()
        return more

    def _checkpoint(self) -> None:
        """Do the next piece of a checkpoint: one record of moves, or at last the checkpoint, when nothing committed is
        unapplied."""
        checkpoints = self.checkpoints
        if self._chunks or self._found or self.catch_up.status not in (Status.JOINING, Status.SERVING):
            return
        if not checkpoints.under_way:
            self._wanted = False
            checkpoints.begin()
        move = checkpoints.move()
        if move is not None:
            self._writer.put_ahead(MESSAGE, self.id, encode_record(move), lambda lsn: self._moved(checkpoints, lsn))
        elif checkpoints.ready() and self.applied == self.keeper.commit:
            self._write_checkpoint()

    def close(self) -> None:
        """This life ends: write down how the queue is now, if it is whole, and all of what is committed is applied."""
        whole = self.catch_up.status in (Status.JOINING, Status.SERVING) and not (self._chunks or self._found)
        if whole and self.applied == self.keeper.commit and not self.checkpoints.on_its_way:
            self._write_checkpoint()

    def _moved(self, checkpoints: Checkpoints, lsn: int) -> None:
        checkpoints.moved(lsn)
        self._outbox.dirty[self.id] = None

    def _write_checkpoint(self) -> None:
        checkpoints, keeper, durability = self.checkpoints, self.keeper, self.keeper.durability
        assert durability is not None
        record = checkpoints.complete(checkpoint_of(keeper, _encode(self.state.snapshot())))
        checkpoints.put(record, durability.checkpoint(record, checkpoints.checkpointed))
        tail = tail_of(keeper)
        if tail is not None:
            durability.tail(tail)
