"""What members say and show against what their disks have for certain, read by `disk_parser.py` (`durable.md` 10).

- I21: what is said is on disk: `Ack.match`, `LogReport.have`, promises. Whoever counts on it may count on it for ever.
- I22: what is applied is flushed at this voter.
- I25: at rest a log has at most twice what lives, and six containers.
- I26: LSNs and lives rise over restarts.
- I27: a stream has one owner whose writes count: on a disk, records of an earlier life stand before those of a later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mantamq.protocol.store.host import log_of
from mantamq.protocol.wire.log_frames import Ack, LogReport, Promise
from mantamq.protocol.wire.store_frames import Take, Write, Written

from .disk_parser import Ballot, Known, ParsedLog, StreamOnDisk, parse_log, promised_by, streams_of
from .full_disks import FullDisks
from .model import Violation
from .stores import LOGS, StoreProcess, Stores

MOST_CONTAINERS = 6


@dataclass
class _LogOnDisk:
    """A log as it was read; `at` which call of its disk, from which files."""

    at: tuple[int, int]
    files: dict[str, bytes]
    parsed: ParsedLog
    streams: dict[str, StreamOnDisk]
    known: Known
    promised: Ballot


class DiskChecker:
    """Watches the stores of a world.

    Attributes:
        counts: how much of what was compared: a checker that saw nothing has proved nothing.
        full: watches what is written to full disks.
    """

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.full = FullDisks(stores)
        self.counts = {"acks": 0, "reports": 0, "promises": 0, "applied": 0, "opened": 0, "written": 0}
        self._parsed: dict[tuple[str, str], _LogOnDisk] = {}
        self._highest: dict[tuple[str, str], int] = {}  # (broker, log) -> the highest LSN that was ever flushed
        self._lives: dict[tuple[str, str], int] = {}  # (process, stream) -> under which life it has taken it
        self._writes: dict[str, list[str]] = {}  # process -> streams of its records that are not on disk yet
        self._owned: dict[tuple[str, str], list[tuple[int, int]]] = {}  # (broker, stream) -> LSNs and lives
        stores.begun.append(self._begun)
        stores.flushed.append(self._flushed)
        stores.replaced.append(self._replaced)
        stores.world.watch(
            sent={Ack: self._ack, LogReport: self._report, Promise: self._promise, Written: self._written},
            arrived={Take: self._take, Write: self._write},
        )
        stores.world.steps.append(self._stepped)
        stores.world.deaths.append(self._died)

    # ---- what a disk has

    def log(self, broker: str, name: str) -> tuple[ParsedLog, dict[str, StreamOnDisk]]:
        """A log of a broker, and its streams, as they are on its disk for certain."""
        found = self._read(broker, name)
        return found.parsed, found.streams

    def _read(self, broker: str, name: str) -> _LogOnDisk:
        files = self.stores.disks[broker]
        at = files.calls, files.life
        found = self._parsed.get((broker, name))
        if found is not None and found.at == at:
            return found
        durable = files.durable(LOGS[name])
        if found is not None and found.files == durable:
            found.at = at
            return found
        known = Known() if found is None else found.known
        parsed = parse_log(durable, known)
        streams = streams_of(parsed, None if found is None else (found.parsed, found.streams))
        found = self._parsed[broker, name] = _LogOnDisk(
            at, durable, parsed, streams, known, promised_by({name: parsed})
        )
        return found

    def stream(self, broker: str, stream: str) -> StreamOnDisk | None:
        return self.log(broker, log_of(stream))[1].get(stream)

    def promised(self, broker: str) -> Ballot:
        return max(self._read(broker, name).promised for name in LOGS)

    # ---- I21

    def _kept(self, source: str, what: str, ballot: Ballot) -> None:
        self.counts["promises"] += 1
        found = self.promised(source.partition(".")[0])
        if tuple(ballot) > found:
            raise Violation(f"I21: {source} says {what} under {ballot}, and on its disk it has promised {found}")

    def _ack(self, source: str, target: str, frame: Ack) -> None:
        disk = self.stream(frame.voter, frame.stream)
        if disk is None or disk.blank:
            return  # transient, or taken in an update
        self.counts["acks"] += 1
        self._kept(source, "Ack", frame.ballot)
        if frame.match > disk.end:
            raise Violation(f"I21: {source} acknowledges {frame.match} of {frame.stream}, its disk has {disk.end}")
        if frame.applied > disk.end:
            raise Violation(f"I22: {source} has applied {frame.applied} of {frame.stream}, its disk has {disk.end}")

    def _report(self, source: str, target: str, frame: LogReport) -> None:
        disk = self.stream(frame.voter, frame.stream)
        if disk is None or frame.blank:
            return
        self.counts["reports"] += 1
        self._kept(source, "LogReport", frame.promised)
        if frame.have > disk.end:
            raise Violation(f"I21: {source} reports {frame.have} entries of {frame.stream}, its disk has {disk.end}")
        if (found := disk.ballot_at(frame.have)) is not None and found != tuple(frame.ballot):
            raise Violation(
                f"I21: {source} reports that {frame.have} of {frame.stream} is of {frame.ballot}; on disk of {found}"
            )

    def _promise(self, source: str, target: str, frame: Promise) -> None:
        self._kept(source, "Promise", frame.ballot)

    # ---- I22

    def _stepped(self, name: str) -> None:
        broker = name.partition(".")[0]
        machine = self.stores.world.machines.get(name)
        if machine is None or broker not in self.stores.disks:
            return
        for keeper in _keepers(machine):
            disk = self.stream(broker, keeper.stream) if not keeper.blank else None
            if disk is not None and not disk.blank:
                self.counts["applied"] += 1
                if keeper.commit > disk.end:
                    raise Violation(
                        f"I22: {name} applies {keeper.commit} of {keeper.stream}, and its disk has {disk.end}"
                    )

    # ---- I25

    def at_rest(self) -> None:
        """Nothing goes on: how large are the logs?"""
        for store in self.stores.running.values():
            status = store.machine.report().logs
            for name in LOGS:
                parsed, _ = self.log(store.broker, name)
                used = parsed.containers * parsed.container_bytes
                most = 2 * status[name].live_bytes + MOST_CONTAINERS * parsed.container_bytes
                if used > most:
                    raise Violation(f"I25: the log {name} of {store.broker} takes {used} bytes, {most} are its limit")

    # ---- I26, I27

    def _begun(self, broker: str, store: StoreProcess) -> None:
        for name, log in store.logs.items():
            highest = self._highest.get((broker, name), 0)
            if log.end <= highest:
                raise Violation(f"I26: the log {name} of {broker} goes on at {log.end}, it had a record at {highest}")
            for stream, disk in self.log(broker, name)[1].items():
                if sorted(set(disk.lives)) != disk.lives:
                    raise Violation(f"I26: {stream} was kept at {broker} by the lives {disk.lives}: they must rise")
                # The records of the last batch have new places, and nobody was told the old ones who lives.
                self._owned[broker, stream] = [(log.end, max(disk.lives, default=0))]

    def _flushed(self, broker: str, lsns: dict[str, list[int]]) -> None:
        for name, places in lsns.items():
            for lsn in places:
                if lsn <= self._highest.get((broker, name), 0):
                    raise Violation(f"I26: {broker} has written {lsn} to {name}, behind {self._highest[broker, name]}")
                self._highest[broker, name] = lsn

    def _replaced(self, broker: str) -> None:
        for key in [key for key in self._highest if key[0] == broker]:
            del self._highest[key]
        for key in [key for key in self._owned if key[0] == broker]:
            del self._owned[key]
        for key in [key for key in self._parsed if key[0] == broker]:
            del self._parsed[key]

    def _died(self, name: str, machine: Any) -> None:
        self._writes.pop(name, None)
        for key in [key for key in self._lives if key[0] == name]:
            del self._lives[key]

    def _take(self, source: str, target: str, frame: Take) -> None:
        self._lives[source, frame.stream] = frame.life

    def _write(self, source: str, target: str, frame: Write) -> None:
        self._writes.setdefault(source, []).extend(stream for _, stream, _ in frame.records)

    def _written(self, source: str, target: str, frame: Written) -> None:
        if target not in self.stores.world.machines:
            return  # its end is not known there yet
        streams = self._writes.get(target, [])
        if len(frame.lsns) > len(streams):
            raise Violation(f"{source} answers {len(frame.lsns)} records of {target}, which has written {len(streams)}")
        for lsn, stream in zip(frame.lsns, streams, strict=False):
            if lsn and stream:
                self.counts["written"] += 1
                self._owns(source.partition(".")[0], stream, lsn, self._lives[target, stream])
        del streams[: len(frame.lsns)]

    def _owns(self, broker: str, stream: str, lsn: int, life: int) -> None:
        owned = self._owned.setdefault((broker, stream), [])
        for place, other in owned:
            if (lsn > place and life < other) or (lsn < place and life > other):
                raise Violation(f"I27: {stream} at {broker}: life {life} writes {lsn}, and life {other} {place}")
        if not owned or owned[-1][1] != life:
            owned.append((lsn, life))
            self.counts["opened"] += 1


def _keepers(machine: Any) -> list[Any]:
    found = [machine.keeper] if getattr(machine, "keeper", None) is not None else []
    queues = getattr(machine, "queues", None)
    if isinstance(queues, dict):
        found += [hosted.keeper for hosted in queues.values()]
    return [keeper for keeper in found if keeper.durability is not None]
