"""What one store holds of a cluster, and what must be written to it so that it is the whole cluster from now on.

As etcd's `--force-new-cluster`: behind the end of each log stand entries that take every other voter out, and the whole
log is known committed with them. So the history stays as it was, what is held by brokers that are no more goes back to
its queue by the same rule as ever, and the next sequencer needs nobody but the survivor. Transient queues go, as at any
stop of all. Nothing is written here: this is read, shown to the operator, and carried out in `recover.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ...protocol.errors import STORE_DAMAGED, PeerError, StoreError
from ...protocol.limits import INCARNATIONS_PER_BROKER
from ...protocol.log.history import StreamHistory
from ...protocol.log.quorum import change
from ...protocol.machine import broker_of
from ...protocol.store.host import MESSAGES, TX
from ...protocol.wire.events import CLUSTER, ZERO, Entry, Lost, Member, Rejoin, Return, decode_event, encode_event
from ...protocol.wire.records import ENTRIES, OPENED, EntriesRecord, OpenedRecord, decode_record, encode_record
from ...protocol.wiring.definitions import QueueDefinition
from ...protocol.wiring.snapshot import ClusterOutline
from ...protocol.wiring.wiring import Wiring
from ..files import Files
from ..identity import StoreIdentity
from ..log.scan import Scan
from ..log.survey import Survey

_outline = msgspec.msgpack.Decoder(ClusterOutline)
LogRecord = tuple[int, str, bytes]
"""Kind, stream and payload of a record to write."""


class Survivor(NamedTuple):
    """A store by which a cluster is to go on.

    Attributes:
        broker: whose it is.
        cluster: the id of the cluster that was.
        voters: of that one, as this store knows.
        known_to: entry of the cluster stream up to which it knows the wiring.
        durable: names of the queues that stay.
        transient: names of those that go.
        partial: ids of queues that it was being brought up to date in.
        hurt: ids of queues of which something cannot be read.
        unknown: ids of queues it has records of, and its wiring does not know.
        records: log -> what is to be written; no key where nothing is.
    """

    broker: str
    cluster: str
    voters: tuple[str, ...]
    known_to: int
    durable: tuple[str, ...]
    transient: tuple[str, ...]
    partial: tuple[str, ...]
    hurt: tuple[str, ...]
    unknown: tuple[str, ...]
    records: dict[str, list[LogRecord]]


class _Stream:
    """A stream's history, without the bodies."""

    def __init__(self) -> None:
        self.history = StreamHistory()
        self.lives: dict[str, int] = {}  # broker -> the newest number of any process of it
        self.hurt = False

    def read(self, kind: int, payload: bytes) -> None:
        record = decode_record(kind, payload)
        if isinstance(record, EntriesRecord):
            for entry in record.entries:
                self._note_entry(entry)
            slim = [one if not one.origin else msgspec.structs.replace(one, event=b"") for one in record.entries]
            payload = encode_record(msgspec.structs.replace(record, entries=slim))
        self.history.read(kind, payload)
        if found := self.history.checkpoint:
            for origin, (inc, _, _) in found.numbers.items():
                self._note(origin, inc)
            for table in (found.incs, found.lives, found.over):
                for broker, life in table.items():
                    self._note(broker, life)

    def _note_entry(self, entry: Entry) -> None:
        if entry.origin:
            self._note(entry.origin, entry.inc)
            return
        event = decode_event(entry.event)
        if isinstance(event, Rejoin):
            self._note(event.voter, event.inc)
        elif isinstance(event, Return):
            self._note(event.voter, event.life)
        elif isinstance(event, Member):
            self._note(event.broker, event.inc)

    def _note(self, origin: str, life: int) -> None:
        broker = broker_of(origin)
        self.lives[broker] = max(life, self.lives.get(broker, 0))

    @property
    def voters(self) -> list[str]:
        """As of its end."""
        found = list(self.history.voters)
        for event in self.own_events():
            if isinstance(event, Member):
                change(found, event)
        return found

    def own_events(self) -> Iterator[object]:
        """The sequencers' own events behind the checkpoint."""
        for entry in self.history.entries.values():
            if not entry.origin:
                yield decode_event(entry.event)

    def blank(self, broker: str) -> bool:
        """Whether this log does not vote, by its records and the entries that would be committed."""
        back = any(
            (isinstance(one, Rejoin) and (one.voter, one.inc) == (broker, self.history.log_inc))
            or (isinstance(one, Member) and (one.broker, one.inc, one.present) == (broker, self.history.log_inc, True))
            for one in self.own_events()
        )
        return self.history.blank and not back


class _Reading:
    """Both logs of a store, read once."""

    def __init__(self, files: Files, folder: str) -> None:
        self.streams: dict[str, dict[str, _Stream]] = {}
        self.cluster = StreamHistory()  # with its events: they are the wiring
        for log in (TX, MESSAGES):
            scan = Scan(Survey(files, f"{folder}/{log}"))
            streams = self.streams.setdefault(log, {})
            for found in scan:
                if found.stream:
                    streams.setdefault(found.stream, _Stream()).read(found.kind, found.payload)
                if found.stream == CLUSTER:
                    self.cluster.read(found.kind, found.payload)
            for damage in scan.damage:
                if log == TX:
                    text = f"{folder}/{log} is damaged at {damage.first} to {damage.end}: recover from another store"
                    raise StoreError(STORE_DAMAGED, text)
                for stream in damage.streams & streams.keys():
                    streams[stream].hurt = True
            self.damaged = bool(scan.damage)

    def last_seq(self) -> int:
        """The last place in the order of the whole cluster that anything here has."""
        places = [0]
        for streams in self.streams.values():
            for one in streams.values():
                places += (one.history.base_seq, *(entry.seq for entry in one.history.entries.values()))
        return max(places)

    def wiring(self) -> Wiring:
        """As of the end of the log."""
        found = self.cluster.checkpoint
        wiring = Wiring.restore(_outline.decode(found.outline).wiring) if found is not None else Wiring()
        for index, entry in sorted(self.cluster.entries.items()):
            event = decode_event(entry.event)
            if event is not None:
                wiring.apply(event, index)
        return wiring


def survey_survivor(files: Files, folder: str, own: StoreIdentity) -> Survivor:
    """What a store holds, and what must be written to it. Reads only.

    Args:
        files: the file system.
        folder: the store's.
        own: what it says of itself.

    Raises:
        StoreError: `store-damaged`: it has no log of the cluster stream that says all. As `Survey`.
        OSError: of the disk.
    """
    try:
        reading = _Reading(files, folder)
        wiring = reading.wiring()
    except (PeerError, msgspec.MsgspecError) as error:
        raise StoreError(STORE_DAMAGED, f"{folder} has a record that is none ({error}): recover from another") from None
    cluster = reading.streams[TX].get(CLUSTER)
    if cluster is None or not cluster.voters or cluster.blank(own.broker) or own.broker not in cluster.voters:
        text = f"{folder} has no whole log of who the members are and which queues there are"
        raise StoreError(STORE_DAMAGED, f"{text}: its broker was not up to date yet. Recover from another store")
    queues = {one.id: one for one in wiring.all_kept()}
    places = itertools.count(reading.last_seq() + 1)
    gone = [one for one in queues.values() if not one.durable]
    streams, hurt = reading.streams[MESSAGES], _hurt(reading, queues)
    mine = {id: streams.get(id) for id, one in queues.items() if one.durable and id not in hurt}
    records = {
        MESSAGES: [one for id, stream in mine.items() for one in _of_queue(own, id, stream, cluster.voters, places)],
        TX: list(_taking_over(own.broker, CLUSTER, cluster, (), places, [Lost(one.id) for one in gone])),
    }
    return Survivor(
        own.broker, own.cluster, tuple(cluster.voters), cluster.history.end,
        tuple(sorted(queues[id].name for id in mine)), tuple(sorted(one.name for one in gone)),
        tuple(sorted(id for id, one in mine.items() if one is not None and one.blank(own.broker))),
        tuple(sorted(hurt)), tuple(sorted(streams.keys() - queues.keys())),
        {log: one for log, one in records.items() if one},
    )  # fmt: skip


def _hurt(reading: _Reading, queues: dict[str, QueueDefinition]) -> set[str]:
    """Durable queues of which something cannot be read; where there is damage, also those of which nothing is found."""
    streams = reading.streams[MESSAGES]
    hurt = {id for id, one in streams.items() if one.hurt}
    if reading.damaged:
        hurt |= {id for id, one in queues.items() if one.durable and id not in streams}
    return hurt


def _of_queue(
    own: StoreIdentity, id: str, stream: _Stream | None, members: list[str], places: Iterator[int]
) -> Iterator[LogRecord]:
    """What makes a durable queue the survivor's own; one that has no record yet begins with it alone."""
    if stream is not None:
        yield from _taking_over(own.broker, id, stream, members, places, [])
    else:
        yield OPENED, id, encode_record(OpenedRecord(own.life, own.life, False, [own.broker]))


def _taking_over(
    broker: str, name: str, stream: _Stream, members: Iterable[str], places: Iterator[int], more: list[Lost]
) -> Iterator[LogRecord]:
    """The record with which a stream has one voter and is committed to its end; none if that is so already."""
    history, voters = stream.history, stream.voters
    events: list[Rejoin | Member | Lost] = []
    if stream.blank(broker):
        events.append(Rejoin(broker, history.log_inc))
    if broker not in voters:
        events.append(Member(broker, history.log_inc, True))
    for other in sorted({*voters, *(members if not voters else ())} - {broker}):
        events.append(Member(other, stream.lives.get(other, 0) + INCARNATIONS_PER_BROKER, False))
    events += more
    if not events and history.commit == history.end:
        return
    ballot = max([history.base_ballot, *(entry.ballot for entry in history.entries.values())], default=ZERO)
    entries = [Entry(ballot, next(places), "", 0, 0, encode_event(event)) for event in events]
    record = EntriesRecord(history.end + 1, history.end + len(entries), entries)
    yield ENTRIES, name, encode_record(record)
