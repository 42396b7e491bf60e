"""The store's door: one process per broker that writes for all of that broker's keepers, and flushes for them together.

It knows records and streams, and nothing of what they mean. A keeper's process takes its streams, writes to them, and
is told when what it wrote is on disk; whatever it acknowledges waits for that (K5). What is decided here: whose writes
count (`owners.py`), what is flushed together (`groups.py`), when the old end of a log goes (`tail.py`), where damage is
in it as well (`swallowed.py`), and whether there is room (`space.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import LocalError
from ..machine import Flush, Measured, PeerDown, PeerUp, Received, Send, SetTimer, Stop, Stopped, Tick
from ..status.stores import StoreLogStatus, StoreStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, ZERO, Ballot
from ..wire.frame import Frame
from ..wire.records import (
    CHECKPOINT,
    CLOSED,
    DROPPED,
    PROMISE,
    ClosedRecord,
    PromiseRecord,
    decode_record,
    encode_record,
)
from ..wire.store_frames import Ahead, Expected, Ousted, Take, Taken, Write
from .groups import Group, Groups, Writer, answers
from .host import (
    MESSAGES,
    TX,
    Advance,
    Cataloged,
    Commit,
    Committed,
    DiskSpace,
    Overdue,
    Recovered,
    Rotten,
    StoreEffect,
    StoreInput,
    log_of,
)
from .index import LogIndex, StreamPlace
from .news import News
from .owners import Owners
from .space import Space
from .tail import LogTail

GROUP_BYTES = 8 * 1024 * 1024
_TOLD = (CHECKPOINT, DROPPED)
RESERVE_BYTES = 256 * 1024 * 1024


class StoreMachine:
    """One broker's store.

    Args:
        name: its peer name, ``b1.store``.
        timing: the cluster's.
        group_bytes: a group commit takes no further write once it has so much.
        reserve_bytes: kept for what frees space on a full disk.

    Attributes:
        promised: the highest ballot promised by any process of this store's broker (K1).
        owners: who keeps which stream.
    """

    def __init__(
        self, name: str, timing: Timing = DEFAULT_TIMING, group_bytes: int = GROUP_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:  # fmt: skip
        self.name = name
        self.promised: Ballot = ZERO
        self.owners = Owners()
        self._quiet_ms = timing.store_quiet_ms
        self._groups = Groups(group_bytes)
        self._space = Space(reserve_bytes)
        self._news = News(name, self._send)
        self._indexes: dict[str, LogIndex] = {}
        self._tails: dict[str, LogTail] = {}
        self._unproven: dict[str, int] = {}  # log -> since when its last batch is the last, and proven by none
        self._timer_ms = 0  # when those are looked at, 0: they are not waited for
        self._writers: dict[str, Writer] = {}  # the linked processes
        self._stop: Stop | None = None
        self._stopped = False
        self._closed = False  # the record that ends this life is on its way
        self._early: list[Received] = []  # came before the logs were open
        self._effects: list[StoreEffect] = []
        self._now_ms = self._now_us = 0
        self._rules: dict[type, Callable[[Any], None]] = {
            Received: self._received, Flush: self._flush, Tick: self._tick, Committed: self._committed,
            PeerUp: self._peer_up, PeerDown: self._peer_down, Recovered: self._recovered, DiskSpace: self._measured,
            Stop: self._begin_stop, Cataloged: self._cataloged, Overdue: self._overdue, Rotten: self._rotten,
            Measured: self._news.measured,
        }  # fmt: skip

    # ---- the door

    def step(self, input: StoreInput) -> list[StoreEffect]:
        rule = self._rules.get(type(input))
        if rule is not None:
            rule(input)
        effects, self._effects = self._effects, []
        return effects

    def _send(self, peer: str, frame: Frame) -> None:
        self._effects.append(Send(peer, frame))

    def _tick(self, tick: Tick) -> None:
        self._now_ms = tick.now_ms
        self._now_us = tick.now_us or tick.now_ms * 1000

    def _received(self, input: Received) -> None:
        frame = input.frame
        if self._stop is not None:
            return  # nothing comes behind the end
        if not self._tails:
            self._early.append(input)
        elif type(frame) is Write:
            self._write(input.peer, frame)
        elif type(frame) is Take:
            self._take(input.peer, frame)
        elif type(frame) is Expected:
            self._tails[MESSAGES].swallowed.expect(frame.streams)

    # ---- links

    def _peer_up(self, input: PeerUp) -> None:
        self._writers[input.peer] = Writer(input.peer)
        if self._space.short:
            self._send(input.peer, self._space.room)
        self._news.linked(input.peer, True)

    def _peer_down(self, input: PeerDown) -> None:
        """A keeper's process is gone, or will end as its link is gone; what it has sent is written all the same."""
        if (writer := self._writers.pop(input.peer, None)) is not None:
            writer.linked = False
        self._news.linked(input.peer, False)
        self._early = [one for one in self._early if one.peer != input.peer]
        for stream in self.owners.gone(input.peer):
            self._tails[log_of(stream)].forget(stream)

    # ---- beginning

    def _recovered(self, input: Recovered) -> None:
        for log, found in input.logs.items():
            self._indexes[log] = found.index
            own = [CLUSTER] if log == TX else None
            self._tails[log] = LogTail(found.index, found.base, found.end, found.container_bytes, own)
            self.promised = max(self.promised, found.promised, found.index.promised)
        self._news.recovered(input.logs, input.took_us)
        early, self._early = self._early, []
        for one in early:
            self._received(one)

    # ---- streams

    def _take(self, peer: str, frame: Take) -> None:
        stream = frame.stream
        place = self._indexes[log_of(stream)].streams.get(stream)
        before = self.owners.by_stream.get(stream)
        highest = self.owners.take(peer, stream, frame.life, place.life if place is not None else 0)
        if highest:
            self._send(peer, Ousted(stream, highest))
            return
        if before is not None and before.peer != peer:
            self._send(before.peer, Ousted(stream, frame.life))
        self._tails[log_of(stream)].forget(stream)
        if not self._groups.wait(stream, peer, frame.life):
            self._taken(stream, peer, frame.life)

    def _taken(self, stream: str, peer: str, life: int) -> None:
        """Tell a taker what there is, once all that the one before wrote is on disk."""
        if self.owners.by_stream.get(stream) != (peer, life):
            return  # another has taken it meanwhile
        log = log_of(stream)
        place = self._indexes[log].streams.get(stream)
        hurt = place.hurt if place is not None else self._tails[log].swallowed.may_have(stream)
        self._send(peer, _found(stream, life, place, hurt, self.promised, self._queues(stream)))

    def _queues(self, stream: str) -> list[str]:
        """Whoever keeps the cluster stream is told which queues there are records of."""
        return list(self._indexes[MESSAGES].streams) if stream == CLUSTER else []

    # ---- writes

    def _write(self, peer: str, frame: Write) -> None:
        writer = self._writers.get(peer)
        if writer is None or frame.number <= writer.number:
            return  # a repeat: what it says is written, or on its way
        writer.number = frame.number
        dropped: set[str] = set()
        for kind, stream, payload in frame.records:
            if stream:
                if not self.owners.may_write(peer, stream):
                    dropped.add(stream)
            elif kind == PROMISE:
                promise = decode_record(kind, payload)
                if isinstance(promise, PromiseRecord):
                    self.promised = max(self.promised, promise.ballot)
        for stream in sorted(dropped):
            self._send(peer, Ousted(stream, self.owners.life(stream)))
        self._groups.write(writer, frame, dropped)

    def _flush(self, flush: Flush) -> None:
        group = self._groups.next()
        if group is not None:
            self._commit(group)
        elif self._groups.in_flight is None and self._stop is not None:
            self._end(self._stop)
        elif self._groups.in_flight is None and self._unproven:
            self._prove()

    def _commit(self, group: Group) -> None:
        self._effects.append(Commit(self._groups.number, group.batches, self.promised, self._now_us))

    def _prove(self) -> None:
        """After a while of quiet, an empty batch behind the last one: rot in that cannot pass for a torn end then."""
        due_ms = min(self._unproven.values()) + self._quiet_ms
        if self._now_ms < due_ms:
            if due_ms != self._timer_ms:
                self._timer_ms = due_ms
                self._effects.append(SetTimer(due_ms))
            return
        self._timer_ms = 0
        self._prove_batches(
            [log for log, since_ms in self._unproven.items() if since_ms + self._quiet_ms <= self._now_ms]
        )

    def _prove_batches(self, logs: Iterable[str]) -> None:
        group = Group()
        for log in logs:
            group.batches[log] = []
        self._commit(self._groups.begin(group))

    # ---- the end

    def _begin_stop(self, stop: Stop) -> None:
        """Its keepers have stopped: what has come is written, and nothing more is taken."""
        self._stop = self._stop or stop

    def _end(self, stop: Stop) -> None:
        """All is on disk: the record of a clean end, as the last one of each log, then proof of that."""
        if not self._tails:
            return  # the logs are not open yet
        if not self._closed:
            self._closed = True
            group = Group()
            group.put((CLOSED, "", encode_record(ClosedRecord(stop.shutdown))))
            self._commit(self._groups.begin(group))
        elif self._unproven:
            self._prove_batches(list(self._unproven))
        elif not self._stopped:
            self._stopped = True
            self._effects.append(Stopped())

    # ---- what is on disk

    def _committed(self, input: Committed) -> None:
        """A group is on disk: note where its records are, answer its writers, and look at the logs' tails.

        Raises:
            LocalError: no such group is in flight.
        """
        groups = self._groups
        if groups.in_flight is None or input.number != groups.number:
            raise LocalError(f"{self.name}: group {input.number} is not in flight: each is flushed once, in order")
        group = groups.done()
        for log, records in group.batches.items():
            index, tail = self._indexes[log], self._tails[log]
            for lsn, (kind, stream, payload) in zip(input.lsns[log], records, strict=True):
                undo = place.last if (place := index.streams.get(stream)) is not None else 0
                index.note(lsn, kind, stream, payload, undo)
                if kind in _TOLD:
                    self._news.wrote(kind, stream, len(payload))
                if stream and stream not in index.streams:
                    self.owners.dropped(stream)
                    tail.dropped(stream)
            tail.end = input.ends[log]
            if records:
                self._unproven[log] = self._now_ms
            else:
                self._unproven.pop(log, None)
        for write in group.writes:
            for stream, live_bytes in write.live_bytes.items():
                if (place := self._indexes[log_of(stream)].streams.get(stream)) is not None:
                    place.body_bytes = live_bytes
        for peer, frame in answers(group, input.lsns).items():
            self._send(peer, frame)
        self._news.flushed(input.took_us)
        for stream, peer, life in group.takes:
            self._taken(stream, peer, life)
        for log in group.batches:
            self._look(log)

    # ---- the tails

    def _look(self, log: str) -> None:
        """Move the base where it can be moved, and ask the owners of what stands in its way."""
        tail = self._tails[log]
        if not tail.due():
            return
        if tail.advance():
            self._effects.append(Advance(log, tail.base))
        self._ask(log)

    def _ask(self, log: str) -> None:
        tail = self._tails[log]
        upto, streams = tail.ask()
        told: dict[str, None] = {}
        for stream in streams:
            keeping = self.owners.by_stream.get(stream)
            if keeping is not None:
                tail.asked(stream, upto)
                told[keeping.peer] = None
        for peer in told:
            self._send(peer, Ahead(log, upto))

    def _cataloged(self, input: Cataloged) -> None:
        """The catalogue has more of the cluster stream, or it has none yet and all must stay."""
        if TX in self._tails:
            self._tails[TX].hold = input.low
            self._indexes[TX].moved = True
            self._look(TX)

    def _overdue(self, input: Overdue) -> None:
        keeping = self.owners.by_stream.get(CLUSTER)
        if keeping is not None:
            self._send(keeping.peer, Ahead(TX, self._tails[TX].base))

    def _rotten(self, input: Rotten) -> None:
        """The owners write what they need of it anew, from memory; then its container goes."""
        if self._tails[input.log].rotten(input.first, input.behind):
            self._news.rotten(input.log, input.first, input.behind)
            self._ask(input.log)

    # ---- space

    def _measured(self, input: DiskSpace) -> None:
        if self._space.measure(input.free_bytes):
            for peer in self._writers:
                self._send(peer, self._space.room)

    # ---- answers

    def report(self) -> StoreStatus:
        room = self._space.room
        return StoreStatus(
            name=self.name, promised=list(self.promised), groups=self._groups.flushed,
            waiting=sum(len(group.writes) for group in self._groups.gathering),
            logs={log: _log_status(tail, self._indexes[log], self.owners) for log, tail in self._tails.items()},
            left_bytes=room.left_bytes, pressed=room.pressed, full=room.full,
        )  # fmt: skip


def _found(stream: str, life: int, place: StreamPlace | None, hurt: bool, promised: Ballot, queues: list[str]) -> Taken:
    """What a taker is told of a stream; without a place there is none of it."""
    if place is None:
        return Taken(stream, life, 0, 0, False, promised, hurt=hurt, streams=queues)
    return Taken(
        stream, life, place.life, place.log_inc, place.blank, promised, place.checkpoint, place.last, hurt, queues
    )


def _log_status(tail: LogTail, index: LogIndex, owners: Owners) -> StoreLogStatus:
    return StoreLogStatus(
        base=tail.base,
        end=tail.end,
        live_bytes=index.live_bytes,
        streams=len(index.streams),
        unowned=[stream for stream in index.streams if stream not in owners.by_stream],
        hurt=[stream for stream, place in index.streams.items() if place.hurt],
        damage=[list(stretch) for stretch in [*index.damage, *tail.rot]],
    )
