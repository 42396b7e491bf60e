"""Small worlds whose keepers have stores: every order of deliver, drop, flush, crash, and restart from what is on disk.

A store is its least: records that are on disk, and writes on their way there, flushed in order. One action flushes the
first write and tells the keeper; that a write was flushed and the keeper not told is a crash that keeps it. A crash
keeps any beginning of what was on its way. The keeper comes back from the records on the product's own way, and
speaks when the record that opens its new life is on disk.

Breadth first, so that whatever is found is found by the shortest way. Besides what `explore.py` checks: who comes back
has promised what it has said that it promised (I21) and has all that it showed as applied (I22), and who comes back
with its log votes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from mantamq.protocol.log.checkpoint import checkpoint_of, opening_of
from mantamq.protocol.log.durability import Durability, Promises, RecordWriter
from mantamq.protocol.log.history import read_history
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, Received
from mantamq.protocol.wire.events import CLUSTER, ZERO, Ballot
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Ack, LogReport, Promise, UpdateStart
from mantamq.protocol.wire.records import OPENED, PROMISE, PromiseRecord, decode_record, encode_record
from mantamq.protocol.wire.store_frames import Write, Written

from .explore import Action, Bounds, Explorer, State, replaced
from .model import Violation
from .small import Node

STORE = "store"
Record = tuple[int, str, bytes]


class Disk(NamedTuple):
    """What a node's store has.

    Attributes:
        records: numbers of the writes whose records are on disk. coming: of those on their way.
        said: the highest ballot under which the node has said that it promised.
        open: the node's life is on disk, and it has its links.
        lost: a log of it was given up.
    """

    records: tuple[int, ...] = ()
    coming: tuple[int, ...] = ()
    said: Ballot = ZERO
    open: bool = False
    lost: bool = False


class StoredNode(Node):
    """A node whose keeper is durable.

    Args:
        records: what its store has.
    """

    def __init__(self, name: str, life: int, blank: bool, members: list[str], records: list[Record]) -> None:
        super().__init__(name, life, blank, members)
        self.writer = RecordWriter()
        self.unreported = False
        found = [(8 * place, kind, payload) for place, (kind, stream, payload) in enumerate(records, 1) if stream]
        promised = max([ZERO, *(_promised(kind, payload) for kind, _, payload in records)])
        self.view.promised = promised
        self.promises = Promises(self.writer, promised)
        if found:
            history = read_history(found)
            self.keeper = Keeper(
                CLUSTER, name, life, history.blank, promised, history.voters, history.log_inc, history.life, True
            )
            self.keeper.durability = Durability(CLUSTER, self.writer, self._wrote)
            self.keeper.resume(history)
        else:
            self.keeper = Keeper(CLUSTER, name, life, blank, promised, members, stored=True)
            self.keeper.durability = Durability(CLUSTER, self.writer, self._wrote)
        keeper = self.keeper
        self.writer.put(OPENED, CLUSTER, encode_record(opening_of(keeper, keeper.voters)), _opened)

    def pledge(self) -> None:
        keeper, leader, said = self.keeper, self.view.leader, self.view.promised
        if not self._speechless():
            self.send(leader, keeper.log_report())
            self.send(
                leader,
                Promise(said, self.name, keeper.log_inc, keeper.blank, [], self.inc, keeper.opened, keeper.earlier),
            )

    def step(self, input: Any) -> list[Any]:
        effects: list[Any] = []
        match input:
            case Received(_, Written() as frame):
                self.writer.written(frame)
                effects = self.take()
            case Received(_, UpdateStart() as frame):
                if self.keeper.blank:
                    self.keeper.restore(frame)
                    assert self.keeper.durability is not None
                    self.keeper.durability.checkpoint(checkpoint_of(self.keeper, b""))
                    self.unreported = True
            case Flush():
                if (write := self.writer.gathered()) is not None:
                    self.send(STORE, write)
                effects = self.take()
            case _:
                effects = super().step(input)
        return effects

    def _wrote(self) -> None:
        """More of the log is on disk."""
        self.keeper.wrote()
        if self.unreported and not self._speechless():
            self.unreported = False
            self.lead(self.keeper.log_report())
        self._acknowledge()

    def _speechless(self) -> bool:
        assert self.keeper.durability is not None
        return not self.keeper.durability.whole


def _opened(lsn: int) -> None:
    pass


def _promised(kind: int, payload: bytes) -> Ballot:
    record = decode_record(kind, payload) if kind == PROMISE else None
    return tuple(record.ballot) if isinstance(record, PromiseRecord) else ZERO  # type: ignore[return-value]


def _said(frame: Frame) -> Ballot:
    """The ballot that the sender of a frame has promised, as whoever gets it may count on."""
    if isinstance(frame, Ack | Promise):
        return frame.ballot
    return frame.promised if isinstance(frame, LogReport) else ZERO


class StoredExplorer(Explorer):
    """An exploration of worlds with stores. `Bounds.deaths` are crashes: of them nodes come back with their disks."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._stack = deque()

    def _next(self) -> tuple[State, tuple[Any, ...]]:
        """The world that was met first."""
        first = self._stack[0]
        del self._stack[0]
        return first

    # ---- the beginning

    def _newborn(self, name: str, inc: int, blank: bool) -> Node:
        return StoredNode(name, inc, blank, list(self.names), [])

    def _linked_up(self, state: State) -> State:
        state = state._replace(disks=(Disk(),) * len(self.names))
        for n in range(len(self.names)):
            state = self._begun(state, n)
            state = self._flush(state, n)
        return state

    def _begun(self, state: State, n: int) -> State:
        """The process of a node has begun: what it writes first is on its way."""
        after, said = self.space.step(state.nodes[n], ("begin",))
        state = state._replace(nodes=replaced(state.nodes, n, after))
        for _, frame in said:
            state = self._to_store(state, n, frame)
        return state

    def _settled(self, state: State) -> State:
        while True:
            kinds = ("to", "from", "flush")
            action = next((action for action in self.actions(state) if action[0] in kinds), None)
            if action is None:
                return state
            state = self.act(state, action)

    # ---- what may happen

    def actions(self, state: State) -> Iterator[Action]:
        for action in super().actions(state):
            n = self.names.index(action[-1]) if action[-1] in self.names else -1
            if action[0] == "death" and not self.space.views[state.nodes[n]].out:
                continue
            if action[0] != "cut" or state.disks[n].open:
                yield action
        for n, disk in enumerate(state.disks):
            if disk.coming:
                yield ("flush", self.names[n])
            if state.deaths:
                for kept in range(len(disk.coming) + 1):
                    yield ("crash", kept, self.names[n])

    def _alone(self, state: State) -> Action | None:
        return super()._alone(state) if all(disk.open for disk in state.disks) else None

    def act(self, state: State, action: Action) -> State:
        n = self.names.index(action[-1]) if action[-1] in self.names else -1
        if action[0] == "flush":
            return self._flush(state, n)
        if action[0] == "crash":
            return self._crash(state, n, action[1])
        return super().act(state, action)

    def _node(self, state: State, n: int, input: tuple[Any, ...]) -> State:
        _, said = self.space.step(state.nodes[n], input)
        ballots = [_said(self.space.frames[frame]) for peer, frame in said if peer != STORE]
        disk = state.disks[n]
        if not self.space.views[state.nodes[n]].out and max(ballots, default=ZERO) > disk.said:
            state = self._on_disk(state, n, disk._replace(said=max(ballots)))
        return super()._node(state, n, input)

    def _to_store(self, state: State, n: int, frame: int) -> State:
        disk = state.disks[n]
        return self._on_disk(state, n, disk._replace(coming=(*disk.coming, frame)))

    def _on_disk(self, state: State, n: int, disk: Disk) -> State:
        return state._replace(disks=replaced(state.disks, n, disk))

    def _flush(self, state: State, n: int) -> State:
        """The first write is on disk, and the node is told."""
        disk = state.disks[n]
        frame, *coming = disk.coming
        write = self.space.frames[frame]
        assert isinstance(write, Write)
        opens = not disk.open
        state = self._on_disk(state, n, disk._replace(records=(*disk.records, frame), coming=tuple(coming), open=True))
        written = self.space.frame(Written(write.number, [8] * len(write.records)))
        state = self._node(state, n, ("got", STORE, written))
        if opens:
            for s in range(len(self.leaders)):
                state = self._dial(state, s, n)
        return state

    def _death(self, state: State, n: int) -> State:
        """A node that is out comes back with nothing."""
        return super()._death(self._on_disk(state, n, Disk(lost=True)), n)

    def _crash(self, state: State, n: int, kept: int) -> State:
        """A node loses power, with what was on its way but the first `kept` writes, and begins again."""
        before, disk = self.space.views[state.nodes[n]], state.disks[n]
        records = (*disk.records, *disk.coming[:kept])
        had = [record for number in records for record in self.space.frames[number].records]  # type: ignore[attr-defined]
        node = StoredNode(self.names[n], before.inc + 1, False, list(self.names), had)
        state = state._replace(deaths=state.deaths - 1, nodes=replaced(state.nodes, n, self.space.put(node)))
        state = self._on_disk(state, n, Disk(records, (), disk.said, False, disk.lost))
        after = self.space.views[state.nodes[n]]
        if after.promised < disk.said:
            raise Violation(
                f"I21: {self.names[n]} has said that it promised {disk.said}, and came back with {after.promised}"
            )
        if after.end < before.commit and not before.blank:
            raise Violation(f"I22: {self.names[n]} has applied {before.commit} entries, and came back with {after.end}")
        if after.blank and not disk.lost:
            raise Violation(f"{self.names[n]} has come back with its log, and does not vote")
        for s in range(len(self.leaders)):
            state = self._linked(state, s, n, (), ())
            if state.alive[s]:
                state = self._sequencer(state, s, ("down", self.names[n]))
                state = self._linked(state, s, n, (), ())
        return self._begun(state, n)


STORIES = (
    Bounds(nodes=2, sequencers=1, requests=1, cuts=0, deaths=2, ends=0),
    Bounds(nodes=2, sequencers=1, requests=1, cuts=1, deaths=1, ends=0),
    Bounds(nodes=2, sequencers=2, requests=1, cuts=0, deaths=1, ends=1),
    Bounds(nodes=3, sequencers=1, requests=1, cuts=0, deaths=1, ends=0),
    Bounds(nodes=3, sequencers=2, requests=2, cuts=1, deaths=2, ends=1),
)
