"""What comes back from disks, against what was committed (`durable.md` 10).

- I23: after any crash what is complete is there, in order and with its numbers, and what was accepted is not: in the
  checkpoint and the entries of each disk, and in the best log of whatever quorum may recover.
- I24: a queue, or a wiring, that has been recovered is what every replica had at that index.
- I28: the log of an old or of an emptied disk does not vote before the stream has given it its vote again.
- I29: a durable queue is dropped only for an operator, and only where no recovery quorum of its logs is on any disk.

Disks are read by `disk_parser.py` and `disk_queues.py`, and compared with `model.py`, which is replayed up to the index
in question: each time anew, since what is recovered may be far behind.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from math import inf
from typing import Any

from mantamq.protocol.machine import is_sequencer
from mantamq.protocol.store.host import log_of
from mantamq.protocol.wire import events
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Append, LogReport, Promise

from .checkers import Watcher, same_state
from .disk_checker import DiskChecker
from .disk_parser import StreamOnDisk
from .disk_queues import CheckpointOnDisk, Numbers, compare_numbers, compare_queue
from .model import ModelQueue, ModelWiring, Violation, declared
from .stores import LOGS, StoreProcess
from .world import LIVES


class Recovered:
    """Watches who comes back.

    Args:
        disks: reads the disks.
        watch: knows what is committed.

    Attributes:
        counts: how much was compared: a checker that saw nothing has proved nothing.
    """

    def __init__(self, disks: DiskChecker, watch: Watcher) -> None:
        self.disks, self.watch = disks, watch
        self.world = disks.stores.world
        self.counts: Counter[str] = Counter()
        self._checked: dict[tuple[str, str], int] = {}  # (broker, stream) -> LSN of the checkpoint compared last
        self._back: dict[tuple[str, str], int] = {}  # (process, stream) -> life under which it was compared
        # (broker, stream) -> the queue where that broker was compared last: its checkpoints rise, others' stand elsewhere
        self._models: dict[tuple[str, str], ModelQueue] = {}
        self._numbered: dict[str, tuple[int, Numbers]] = {}  # stream -> what `_numbers` has found, and up to where
        self._old: dict[
            tuple[str, str], tuple[int, int]
        ] = {}  # (broker, stream) -> life and log_inc on a disk put back
        self._replaced: dict[str, int] = {}  # broker -> the last life of its processes when its disk was replaced
        self._lost: set[tuple[int, Any]] = set()
        stores = disks.stores
        watch.on_disk = self._on_disk
        stores.begun.append(self._begun)
        stores.flushed.append(self._flushed)
        stores.replaced.append(self._put_back)
        self.world.watch(sent={Append: self._appends, LogReport: self._reports, Promise: self._promises})
        self.world.steps.append(self._stepped)

    # ---- what is committed

    def _committed(self, stream: str) -> int:
        return 0 if stream in self.watch.gone else self.watch.commits.get(stream, 0)

    def _event(self, stream: str, index: int) -> Any:
        return events.decode_event(self.watch.logs[stream][index].event)

    def _own(self, stream: str) -> list[Any]:
        """The committed events of the sequencers' own in a stream."""
        log = self.watch.logs.get(stream, {})
        upto = range(1, self.watch.commits.get(stream, 0) + 1)
        return [self._event(stream, index) for index in upto if not log[index].origin]

    def _model(self, broker: str, stream: str, index: int) -> ModelQueue:
        """The queue when `index` entries were applied, for a broker that is compared."""
        model = self._models.get((broker, stream))
        if model is None or model.index > index:
            newest = self.watch.models.get(stream)
            model = self._models[broker, stream] = ModelQueue(stream, newest is not None and newest.alternate)
            if newest is not None:
                declared(model, newest.arguments)
                # What only the log of other queues says: by whose moves it is named, and whether it is redirected. Of one
                # that is, what comes behind what came after has come before, also on disk.
                model.named, model.led = newest.named, newest.led
        while model.index < index:
            event = self._event(stream, model.index + 1)
            if event is None:
                model.index += 1
            else:
                model.apply(event)
        return model

    def _numbers(self, stream: str, index: int) -> Numbers:
        """The last request of each origin, by the entries up to `index`."""
        upto, before = self._numbered.get(stream, (0, {}))
        if upto > index:
            upto, before = 0, {}
        found, log = {**before}, self.watch.logs[stream]
        for at in range(upto + 1, index + 1):  # what is committed stays so
            entry = log[at]
            if entry.origin:
                inc, number, parts = found.get(entry.origin, (0, 0, 0))
                again = (inc, number) == (entry.inc, entry.number)
                found[entry.origin] = entry.inc, entry.number, parts + 1 if again else 1
        self._numbered[stream] = index, found
        return found

    def _on_disk(self, voter: str, stream: str) -> float:
        disk = self.disks.stream(voter, stream) if voter in self.disks.stores.disks else None
        return inf if disk is None or disk.blank else disk.end

    # ---- I23: disks

    def _begun(self, broker: str, store: StoreProcess) -> None:
        for name in LOGS:
            log, streams = self.disks.log(broker, name)
            if log.holes:
                self.counts["hurt"] += 1
                continue
            for stream, disk in streams.items():
                self._compare_disk(broker, name, stream, disk)
        for stream, voters in list(self.watch.voters.items()):
            if broker in voters:
                self._compare_quorums(stream)

    def _flushed(self, broker: str, lsns: dict[str, list[int]]) -> None:
        """Each checkpoint, as soon as it is on disk: it must be enough, whatever happens next. One that stands before what
        has rotted may be the last that can be read, and not the last there was."""
        self.watch.flushed(broker)
        for name in lsns:
            log, streams = self.disks.log(broker, name)
            rotten = max(log.holes, default=0)
            for stream, disk in streams.items():
                if disk.checkpoint_lsn > rotten and self._checked.get((broker, stream)) != disk.checkpoint_lsn:
                    self._compare_disk(broker, name, stream, disk)

    def _compare_disk(self, broker: str, name: str, stream: str, disk: StreamOnDisk) -> None:
        committed = self._committed(stream)
        if not committed or stream in self.watch.gone:
            return
        where = f"the disk of {broker} {stream}"
        log = self.watch.logs[stream]
        for index in range(disk.base + 1, min(disk.commit, disk.end, committed) + 1):
            entry = log[index]
            self.counts["entries"] += 1
            if disk.entries[index] != (entry.ballot, entry.seq, entry.event):
                raise Violation(f"I23: {where} has {disk.entries[index]} for committed at {index}; that is {entry}")
        if not disk.checkpoint_lsn or (disk.blank and not disk.base):
            return
        if disk.base > committed:
            raise Violation(f"I23: a checkpoint on {where} stands for {disk.base} entries, {committed} are committed")
        self._checked[broker, stream] = disk.checkpoint_lsn
        checkpoint = CheckpointOnDisk(self.disks.log(broker, name)[0], stream, disk)
        self.counts["checkpoints"] += 1
        compare_numbers(where, checkpoint, self._numbers(stream, disk.base))
        if stream != CLUSTER:
            self.counts["queues"] += 1
            compare_queue(where, checkpoint, self._model(broker, stream, disk.base))

    def _counting(self, stream: str, voters: list[str]) -> dict[str, StreamOnDisk]:
        """Voter -> its log, of those whose logs on disk count."""
        found: dict[str, StreamOnDisk] = {}
        for voter in voters:
            if voter not in self.disks.stores.disks:
                continue
            log, streams = self.disks.log(voter, log_of(stream))
            disk = streams.get(stream, StreamOnDisk())  # of what was never kept, nothing: that counts as a log, too
            if not (log.holes or disk.blank or self._is_old(voter, stream, disk)):
                found[voter] = disk
        return found

    def _lasting(self, stream: str) -> bool:
        """Whether a stream is on disks."""
        name = stream.rpartition("#")[0]
        wiring = self.watch.wiring
        defined = wiring.defined.get(name) if wiring.ids.get(name) == stream else wiring.dissolving.get(stream)
        return stream == CLUSTER or (defined is not None and bool(defined[1]))

    def _is_old(self, voter: str, stream: str, disk: StreamOnDisk) -> bool:
        """Whether this is the log of a disk that was put back, or behind one that was lost."""
        old = self._old.get((voter, stream))
        if old is not None and disk.log_inc > old[1] and self._given(stream, voter, disk.log_inc):
            del self._old[voter, stream]
        return (voter, stream) in self._old

    def _compare_quorums(self, stream: str) -> None:
        """Whatever quorum of the logs recovers: the best of them has all that is complete. A quorum of whom, the best
        log says: one that has not heard of a change of the voters needs a quorum of those before it, and the entry that
        changes them is committed by these."""
        committed = self._committed(stream)
        entry = self.watch.logs.get(stream, {}).get(committed)
        if entry is None or stream in self.watch.gone or not self._lasting(stream):
            return
        counting = self._counting(stream, sorted(set().union(*self._changes(stream, committed)[-2:])))
        needs = {voter: self._deciding(stream, disk) for voter, disk in counting.items()}
        for some in chain.from_iterable(combinations(counting, size) for size in range(1, len(counting) + 1)):
            by = max(some, key=lambda voter: (counting[voter].ballot_at(counting[voter].end), counting[voter].end))
            if any(len(voters.intersection(some)) < len(voters) - len(voters) // 2 for voters in needs[by]):
                continue
            best = counting[by]
            self.counts["quorums"] += 1
            had = best.entries.get(committed)
            if best.end < committed or (had is not None and had != (entry.ballot, entry.seq, entry.event)):
                raise Violation(f"I23: the disks of {some} could recover {stream} without {entry} at {committed}")

    def _changes(self, stream: str, upto: int) -> list[set[str]]:
        """The sets of voters that there were, by the entries up to there, the last one last."""
        log, sets = self.watch.logs[stream], [set(self.watch.births[stream])]
        for index in self.watch._own.get(stream, []):
            if index <= upto and index in log and not log[index].origin:
                _change(sets, self._event(stream, index))
        return sets

    def _deciding(self, stream: str, disk: StreamOnDisk) -> list[set[str]]:
        """Of which voters a quorum must be known, by this log: those after its last change, and, if that is not
        committed, those before it too."""
        log, agreed, last = self.watch.logs[stream], disk.base, min(disk.end, self._committed(stream))
        while agreed < last and disk.entries[agreed + 1] == _written(log[agreed + 1]):
            agreed += 1
        sets = self._changes(stream, agreed)[-1:]
        for index in range(agreed + 1, disk.end + 1):
            _change(sets, events.decode_event(disk.entries[index][2]))
        return sets[-2:]

    # ---- I24: processes

    def _stepped(self, name: str) -> None:
        if is_sequencer(name):
            self._votes(name)
            return
        machine = self.world.machines.get(name)
        if machine is None:
            return
        if "." in name:
            for id, hosted in machine.queues.items():
                keeper = hosted.keeper
                if keeper.opened and not keeper.blank and self._back.get((name, id)) != keeper.life:
                    self._back[name, id] = keeper.life
                    self._compare_recovered(name, id, hosted)
        elif (
            name in self.world.brokers
            and machine.keeper.opened
            and self._back.get((name, CLUSTER)) != machine.keeper.life
        ):
            self._back[name, CLUSTER] = machine.keeper.life
            if not machine.keeper.blank:
                self._compare_wiring(name, machine)

    def _compare_recovered(self, name: str, id: str, hosted: Any) -> None:
        if id in self.watch.gone or hosted.updating:
            return
        broker = name.partition(".")[0]
        disk = self.disks.stream(broker, id)
        if disk is not None and hosted.applied < disk.base:
            raise Violation(
                f"I24: {name} has recovered {hosted.applied} entries of {id}, its disk has {disk.base} and more"
            )
        if not 0 < hosted.applied <= self._committed(id):
            return
        self.counts["recovered"] += 1
        same_state(f"recovered {name}", hosted.state, self._model(broker, id, hosted.applied))
        digest = hosted.state.digest()
        if self.watch._digests.setdefault((id, hosted.applied), digest) != digest:
            raise Violation(f"I24: {name} has recovered {id}, and another replica differs at {hosted.applied}")

    def _compare_wiring(self, name: str, machine: Any) -> None:
        commit = machine.keeper.commit
        if not 0 < commit <= self._committed(CLUSTER):
            return
        self.counts["wirings"] += 1
        model = ModelWiring()
        for index in range(1, commit + 1):
            if (event := self._event(CLUSTER, index)) is not None:
                model.apply(event, index)
        wiring = machine.wiring
        found = (
            {queue.name: queue.id for queue in wiring.queues()},
            {exchange.name: exchange.type for exchange in wiring.exchanges()},
            {(binding.exchange, binding.queue, binding.key) for binding in wiring.bindings()},
            {(link.exchange, link.queue, link.key) for link in wiring.links()},
            set(wiring.dissolving),
            wiring.redirects.of,
        )
        wanted = model.ids, model.exchanges, model.bindings, set(model.links), set(model.dissolving), model.redirects
        if found != wanted:
            raise Violation(f"I24: {name} has recovered at {commit} the wiring {found}, the model says {wanted}")

    # ---- I28

    def _put_back(self, broker: str) -> None:
        """A disk is not the one it was. What it has of streams that there are is old, where somebody knows of a later
        life, or nothing."""
        self._replaced[broker] = self.world.life(broker) + LIVES - 1
        for key in [key for key in self._checked if key[0] == broker]:
            del self._checked[key]
        had: dict[str, tuple[int, int]] = {}
        for name in LOGS:
            log, streams = self.disks.log(broker, name)
            for stream, disk in streams.items():
                written = CheckpointOnDisk(log, stream, disk).life if disk.checkpoint_lsn else 0
                had[stream] = max([*disk.lives, written]), disk.log_inc
        # Also of those of which nothing was known as committed yet: what it had acknowledged may be, all the same.
        for stream in {**self.watch.births, **self.watch.commits}:
            life, log_inc = had.get(stream, (0, 0))
            if not life or self._lives(stream, broker) > life:
                self._old[broker, stream] = life, log_inc

    def _lives(self, stream: str, broker: str) -> int:
        """The life of a broker that a stream knows of last."""
        found = 0
        for event in self._own(stream):
            if isinstance(event, events.Return) and event.voter == broker:
                found = max(found, event.life)
            elif (isinstance(event, events.Rejoin) and event.voter == broker) or (
                isinstance(event, events.Member) and event.broker == broker and event.present
            ):
                found = max(found, event.inc)
        return found

    def _given(self, stream: str, voter: str, log_inc: int) -> bool:
        """Whether a log has been given its vote by an entry that some log has."""
        for entry in self.watch.logs.get(stream, {}).values():
            event = events.decode_event(entry.event) if not entry.origin else None
            if isinstance(event, events.Rejoin) and (event.voter, event.inc) == (voter, log_inc):
                return True
            if isinstance(event, events.Member) and (event.broker, event.inc, event.present) == (voter, log_inc, True):
                return True
        return False

    def _votes(self, name: str) -> None:
        """A sequencer counts no vote of such a log."""
        if not self._old or name not in self.world.machines:
            return
        streams = self.world.machines[name].order.streams
        for (broker, stream), (_, log_inc) in list(self._old.items()):
            if stream not in streams or stream in self.watch.gone:
                continue
            keeper = streams[stream].keepers.get(broker)
            if keeper is None or keeper.life <= self._replaced[broker]:
                continue
            self.counts["votes"] += 1
            if keeper.voting and (keeper.log_inc <= log_inc or not self._given(stream, broker, keeper.log_inc)):
                raise Violation(
                    f"I28: {name} counts the vote of {broker} in {stream} with the log of {keeper.log_inc}: its disk is "
                    f"{'old' if log_inc else 'empty'}, and nothing has given it its vote again"
                )

    def _reports(self, source: str, target: str, frame: LogReport) -> None:
        self._says(frame.stream, frame.voter, frame.log_inc, frame.blank, frame.life)

    def _promises(self, source: str, target: str, frame: Promise) -> None:
        self._says(CLUSTER, frame.broker, frame.log_inc, frame.blank, frame.life)

    def _says(self, stream: str, voter: str, log_inc: int, blank: bool, life: int) -> None:
        """Who has lost its log says so: nobody else can know."""
        old = self._old.get((voter, stream))
        if old is None or old[1] or life <= self._replaced[voter] or stream in self.watch.gone:
            return
        self.counts["words"] += 1
        if not blank and not self._given(stream, voter, log_inc):
            raise Violation(f"I28: {voter} says that it votes in {stream}, and its disk was empty")

    # ---- I29

    def _appends(self, source: str, target: str, frame: Append) -> None:
        if frame.stream != CLUSTER:
            return
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            event = events.decode_event(entry.event) if not entry.origin else None
            if isinstance(event, events.Lost) and (index, entry.ballot) not in self._lost:
                self._lost.add((index, entry.ballot))
                self._judge(source, event)

    def _judge(self, source: str, event: events.Lost) -> None:
        wiring = self.watch.wiring
        defined = wiring.dissolving.get(event.queue) or wiring.defined.get(event.queue.rpartition("#")[0])
        if defined is None or not defined[1]:
            return  # transient: `losses.Keeping`
        self.counts["lost"] += 1
        voters = self.watch.voters.get(event.queue, [])
        counting = self._counting(event.queue, voters)
        if not event.asked:
            raise Violation(f"I29: {source} drops the durable {event.queue} unasked")
        if len(counting) >= len(voters) - len(voters) // 2:
            raise Violation(f"I29: {source} drops {event.queue}: of {voters} the disks of {list(counting)} have it")


def _written(entry: events.Entry) -> tuple[Any, ...]:
    """An entry as the parser of the disks shows it."""
    return entry.ballot, entry.seq, entry.event


def _change(sets: list[set[str]], event: Any) -> None:
    """Add the voters after an event, if it changes them."""
    if isinstance(event, events.Member) and (event.broker in sets[-1]) != event.present:
        sets.append(sets[-1] | {event.broker} if event.present else sets[-1] - {event.broker})
