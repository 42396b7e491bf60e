"""Stores on simulated disks: the product's machine and log, in the world's time; a disk outlives its processes.

A flush stands still for 50 us to 20 ms, and sometimes for five seconds, and its store with it, as the real one does; what
comes meanwhile is the next group. A disk may run full, and the store looks how much room is left, as the real one does
when it has time. A store and its broker's processes end together (`durable.md` 3, F1): when the power
fails the disk has whatever it may have, when only processes die it has all that was written. A world has these by
`attach`, in stories of their own.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mantamq.protocol.errors import StoreError
from mantamq.protocol.machine import Flush, Load, Loaded, PeerDown, PeerUp, Received, Send, SetTimer, Tick
from mantamq.protocol.store.host import (
    MESSAGES,
    TX,
    Advance,
    Commit,
    Committed,
    DiskSpace,
    FoundLog,
    Recovered,
    log_of,
)
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.stored.read_back import read_beside
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.frame import Frame
from mantamq.store.log.chain import read_before, read_chain
from mantamq.store.log.log import Log
from mantamq.store.log.reader import LogReader
from mantamq.store.log.recovery import open_log

from ..store.disks import PLENTY_BYTES, PowerCut, SimulatedFiles
from .disk_parser import parse_log
from .world import World

LOGS = {TX: "/tx", MESSAGES: "/messages"}
CONTAINER_BYTES = 32 * 1024
RESERVE_BYTES = 16 * CONTAINER_BYTES
LOOK_US = 50_000
"""A store looks after its disk so soon after a flush, and again while there is little room."""
FLUSH_US = (50, 50, 100, 300, 1_000, 5_000, 20_000)
STALL_US = 5_000_000
STALLS = 0.002
"""The share of the flushes that take so long."""


class StoreProcess:
    """One store, from its opening to its end.

    Attributes:
        logs: by their names.
        dead: it has ended.
        frozen_us: until when it stands still.
    """

    def __init__(self, stores: Stores, broker: str, files: SimulatedFiles) -> None:
        self.name = f"{broker}.store"
        self.broker = broker
        self.machine = stores.machine(self.name)
        self.logs: dict[str, Log] = {}
        self.dead = False
        self._stores = stores
        self._world = stores.world
        self._files = files
        self._inbox: deque[Any] = deque()
        self._due = False
        self._flushing = False
        self._looking = False
        self.frozen_us = 0
        self._step(Tick(self._world.now_us // 1000), Recovered({name: self._open(LOGS[name], name) for name in LOGS}))
        self.look_soon()

    def _open(self, folder: str, name: str) -> FoundLog:
        log, found = open_log(self._files, folder)
        self.logs[name] = log
        index, seen = LogIndex(), 0
        for record in found:
            for damage in found.damage[seen:]:
                index.damaged(damage.first, damage.end)
            seen = len(found.damage)
            index.note(record.lsn, record.kind, record.stream, record.payload, record.undo)
        for damage in found.damage[seen:]:
            index.damaged(damage.first, damage.end)
        base = log.base // log.container_bytes * log.container_bytes
        return FoundLog(index, base, log.end, log.container_bytes, log.ballot)

    # ---- its loop

    def give(self, input: Any) -> None:
        self._inbox.append(input)
        self._wake(self._world.rng.choice((0, 10, 300)))

    def _wake(self, delay_us: int) -> None:
        if not self._due and not self._flushing:
            self._due = True
            self._world.after(delay_us, self._process)

    def pause(self, us: int) -> None:
        """The process stands still; what comes waits, and its links stay open."""
        self.frozen_us = self._world.now_us + us

    def _process(self, *first: Any) -> None:
        self._due = False
        if self.dead:
            return
        if self.frozen_us > self._world.now_us:
            self._due = True
            self._world.at(self.frozen_us, self._process, *first)
            return
        gathered, self._inbox = list(self._inbox), deque()
        try:
            now_us = self._world.now_us
            self._step(Tick(now_us // 1000, now_us), *first, *gathered, Flush())
        except (OSError, PowerCut) as error:
            self._stores.failed(self.broker, error)

    def _step(self, *inputs: Any) -> None:
        for input in inputs:
            if type(input) is Received:
                self._world._tell_arrived(input.peer, self.name, input.frame)
            for effect in self.machine.step(input):
                kind = type(effect)
                if kind is Send:
                    self._world.post(self.name, effect.peer, effect.frame)
                elif kind is Commit:
                    self._write(effect)
                elif kind is Advance:
                    self.logs[effect.log].free_below(effect.lsn)
                elif kind is SetTimer:
                    self._world.at(effect.at_ms * 1000, self._wake, 0)

    # ---- the disk

    def _write(self, commit: Commit) -> None:
        """Write a group, and stand still until it is flushed."""
        lsns = {}
        for name, batch in commit.batches.items():
            log = self.logs[name]
            log.note_ballot(commit.promised)
            lsns[name] = log.write([(kind, stream, [payload]) for kind, stream, payload in batch], commit.time_us)
        self._flushing = True
        self._world.after(self._stores.flush_us(self.broker), self._flush, commit, lsns)

    def _flush(self, commit: Commit, lsns: dict[str, list[int]]) -> None:
        if self.dead:
            return
        if self.frozen_us > self._world.now_us:
            self._world.at(self.frozen_us, self._flush, commit, lsns)
            return
        try:
            for name in commit.batches:
                self.logs[name].sync() if commit.batches[name] else self.logs[name].prove()
        except (OSError, PowerCut) as error:
            self._stores.failed(self.broker, error)
            return
        self._flushing = False
        self.look_soon()
        ends = {name: self.logs[name].end for name in lsns}
        for told in self._stores.flushed:
            told(self.broker, lsns)
        self._process(Committed(commit.number, lsns, ends))

    def look_soon(self) -> None:
        """In its idle time it makes containers ahead, and looks how much room is left."""
        if not self._looking:
            self._looking = True
            self._world.after(self._world.rng.randrange(1, LOOK_US), self._look)

    def _look(self) -> None:
        self._looking = False
        if self.dead:
            return
        if self.frozen_us > self._world.now_us:
            self.look_soon()
            return
        try:
            made = any(log.make_spare() for log in self.logs.values())
            free = self._files.free_bytes("/") + sum(log.spares * log.container_bytes for log in self.logs.values())
        except (OSError, PowerCut) as error:
            self._stores.failed(self.broker, error)
            return
        self.give(DiskSpace(free))
        if made or free < 2 * RESERVE_BYTES:
            self.look_soon()


class Stores:
    """The stores of a world, and the disks they are on.

    Args:
        world: whose brokers have them.
        machine: class of the stores.
        container_bytes: of their logs.

    Attributes:
        stalls: the share of flushes that take five seconds.
        may_stall: asked whether a broker's flush may take so long now.
        disks: broker -> its disk.
        new: brokers whose disk is new where one was, or who are new themselves: they do not vote (K4).
        running: name -> store.
        begun: called with a broker and its store, when that has opened its logs.
        flushed: called with a broker and the LSNs by logs, when a group is on disk.
        replaced: called with a broker whose disk is not the one it was.
        errors: (broker, error) of those whose store ended so.
    """

    def __init__(
        self, world: World, machine: Callable[[str], Any] = StoreMachine, container_bytes: int = CONTAINER_BYTES,
        stalls: float = STALLS,
    ) -> None:  # fmt: skip
        self.world = world
        self.machine = machine
        self.disks: dict[str, SimulatedFiles] = {}
        self.running: dict[str, StoreProcess] = {}
        self.begun: list[Callable[[str, StoreProcess], None]] = []
        self.flushed: list[Callable[[str, dict[str, list[int]]], None]] = []
        self.replaced: list[Callable[[str], None]] = []
        self.errors: list[tuple[str, BaseException]] = []
        self._container_bytes = container_bytes
        self._no_power: set[str] = set()
        self._made: set[str] = set()  # brokers whose logs were made on the disk they have
        self.new: set[str] = set()
        self.stalls = stalls
        self.may_stall: Callable[[str], bool] = lambda broker: True
        self._stalled: set[str] = set()  # brokers whose next flush takes long
        self._stalled_us: dict[str, int] = {}  # broker -> when its last long flush ends
        world.deaths.append(self._died)
        world.stores = self

    def flush_us(self, broker: str) -> int:
        rng = self.world.rng
        if broker in self._stalled or (self.stalls and rng.random() < self.stalls and self.may_stall(broker)):
            self._stalled.discard(broker)
            self._stalled_us[broker] = self.world.now_us + STALL_US
            return STALL_US
        return rng.randrange(50, rng.choice(FLUSH_US) + 1)

    def stall(self, broker: str) -> None:
        """The next flush takes long."""
        self._stalled.add(broker)

    def steady(self) -> bool:
        """Whether no flush takes long now."""
        return self.world.now_us >= max(self._stalled_us.values(), default=0)

    def still(self) -> list[str]:
        """Brokers whose stores stand still now."""
        now_us = self.world.now_us
        paused = {store.broker for store in self.running.values() if store.frozen_us > now_us}
        return sorted(paused | {broker for broker, us in self._stalled_us.items() if us > now_us})

    def calm(self) -> None:
        """No disk stalls, fails or is full any more."""
        self.stalls = 0.0
        self._stalled.clear()
        for broker, files in self.disks.items():
            files.heal()
            self.clear(broker)

    def born(self, broker: str) -> None:
        """A broker that has no disk begins: it is new to the cluster."""
        if broker not in self.disks:
            self.new.add(broker)

    # ---- beginning and end

    def begin(self, broker: str) -> None:
        """Open the store of a broker that has just begun, and link its processes with it."""
        files = self.disks.get(broker)
        if files is None:
            files = self.disks[broker] = SimulatedFiles(self.world.rng.getrandbits(32))
        try:
            store = self._opened(broker, files)
        except (OSError, PowerCut) as error:
            self.world.after(0, self.failed, broker, error)
            return
        except StoreError:  # the only header there was has rotted: somebody empties the directory, as the error says
            self.world.after(0, self.empty, broker)
            return
        self.running[store.name] = store
        for told in self.begun:
            told(broker, store)
        for name in [broker, *(one for one in self.world.machines if one.startswith(f"{broker}."))]:
            self.link(broker, name)

    def _opened(self, broker: str, files: SimulatedFiles) -> StoreProcess:
        if broker not in self._made:
            for name, folder in LOGS.items():
                with suppress(StoreError):  # made before what ended the first attempt
                    log_id = f"{broker}{name}{files.life}".encode().ljust(16, b".")
                    size = self._container_bytes
                    Log.create(files, folder, container_bytes=size, containers=2, log_id=log_id, least_bytes=1).close()
            self._made.add(broker)
        return StoreProcess(self, broker, files)

    def link(self, broker: str, peer: str) -> None:
        """A process of a broker has dialled its store."""
        store = self.running.get(f"{broker}.store")
        machine = self.world.machines.get(peer)
        if store is not None and machine is not None and (peer == broker or hasattr(machine, "store")):
            self.world.way(store.name, peer).down = False
            store.give(PeerUp(peer))
            self.world.give(peer, PeerUp(store.name))

    def receive(self, source: str, name: str, frame: Frame) -> None:
        if (store := self.running.get(name)) is not None:
            store.give(Received(source, frame))

    def _died(self, name: str, machine: Any) -> None:
        broker = name.partition(".")[0]
        store = self.running.get(f"{broker}.store")
        if store is not None:
            self._cut(store, name)
        if name == broker and broker in self.disks:  # F1
            if store is not None:
                del self.running[store.name]
                store.dead = True
            (self.disks[broker].crash if broker in self._no_power else self.disks[broker].kill)()
            self.world.after(self.world.rng.choice((0, 0, 10_000)), self._end_group, broker, machine)
        elif store is not None:
            store.give(PeerDown(name))

    def _end_group(self, broker: str, machine: Any) -> None:
        """The replicas of a broker that has died end, too."""
        if self.world.machines.get(broker, machine) is machine:
            for replica in [name for name in self.world.machines if name.startswith(f"{broker}.")]:
                self.world.crash(replica, back=False)

    def _cut(self, store: StoreProcess, peer: str) -> None:
        for pair in ((store.name, peer), (peer, store.name)):
            self.world.way(*pair).cut()

    def failed(self, broker: str, error: BaseException) -> None:
        """A store ends by an error of its disk, and its broker with it (`durable.md` 6); or the power has failed."""
        if broker not in self.world.machines:
            return
        self.errors.append((broker, error))
        (self.power if isinstance(error, PowerCut) else self.kill)(broker)

    # ---- what befalls them

    def fill(self, broker: str, left_bytes: int) -> None:
        """Something else takes the disk, but for so many bytes."""
        files = self.disks[broker]
        files.capacity_bytes = files.used_bytes + left_bytes
        if (store := self.running.get(f"{broker}.store")) is not None:
            store.look_soon()

    def clear(self, broker: str) -> None:
        """What has filled the disk is gone."""
        self.disks[broker].capacity_bytes = PLENTY_BYTES

    def kill(self, *brokers: str) -> None:
        """A store dies, with its broker's other processes."""
        world = self.world
        for broker in brokers:
            for replica in [name for name in world.machines if name.startswith(broker + ".")]:
                world.crash(replica, back=False)
            world.crash(broker)

    def power(self, *brokers: str) -> None:
        """These nodes lose power: the disks have of what was not flushed what they may."""
        self._no_power.update(brokers)
        self.kill(*brokers)
        self._no_power.difference_update(brokers)

    def empty(self, broker: str) -> None:
        """A node loses its disk, and gets a new one."""
        self.power(broker)
        self.put_back(broker, None)

    def put_back(self, broker: str, image: Any) -> None:
        """Of a broker that is not running: its disk is what it was when the image was taken; None: empty."""
        self.disks[broker].put_back(image)
        self.new.add(broker)
        if image is None:
            self._made.discard(broker)
        for told in self.replaced:
            told(broker)

    def rot(self, broker: str, rng: random.Random) -> None:
        """Of a broker that is not running: a bit turns over in a log, below its last group: rot in that, before another
        proves it, is a torn end to everybody (`durable.md` 2)."""
        files, folder = self.disks[broker], rng.choice(list(LOGS.values()))
        log = parse_log(files.durable(folder))
        places = [
            name
            for name in files.durable(folder)
            if name[0].isdigit() and int(name[:16]) * log.container_bytes < log.last
        ]
        if places:
            name = rng.choice(places)
            most = min(log.container_bytes, log.last - int(name[:16]) * log.container_bytes)
            files.flip(f"{folder}/{name}", rng.randrange(most), rng.randrange(8))

    # ---- reading (`store/log/reader.py`, by the keeper's own process)

    def carries_out(self, name: str, effect: Any) -> bool:
        """Whether an effect of a keeper's process is that it wants to read; then it is done, a little later."""
        if type(effect) is not Load:
            return False
        machine, broker = self.world.machines[name], name.partition(".")[0]
        try:
            found = self.read(broker, effect)
        except (OSError, PowerCut) as error:
            self.world.after(0, self.failed, broker, error)
            return True
        self.world.after(
            self.world.rng.randrange(10, 3_000),
            lambda: self.world.give(name, found) if self.world.machines.get(name) is machine else None,
        )
        return True

    def read(self, broker: str, load: Load) -> Loaded:
        """The records that a process asks for."""
        reader = LogReader(self.disks[broker], LOGS[log_of(load.stream)])
        try:
            found = read_chain(reader, load.stream, load.checkpoint, load.last)
            before = read_before(reader, load.stream, load.checkpoint, load.before_bytes)
            beside = load.stream != CLUSTER and load.last // 8 % 2  # else the machine does it
            return (read_beside if beside else Loaded)(load.stream, found, before=before)
        except StoreError:
            return Loaded(load.stream, [], True)
        finally:
            reader.close()
