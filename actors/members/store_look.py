"""A look at a broker's store, before it is decided what is started: what it says of itself and of the cluster.

It locks nothing and writes nothing, so a start that is refused leaves every byte as it was. What a crash has left is
mended by the process that begins to use the store, when it is decided that it does (`store_logs.py`). Of the messages
only the headers are read; of the cluster stream, which is small, everything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from ...protocol.errors import STORE_DAMAGED, PeerError, StoreError
from ...protocol.log.history import StreamHistory
from ...protocol.store.host import MESSAGES, TX
from ...protocol.store.index import LogIndex
from ...protocol.supervisor.store_words import StoreWord, voter_sets
from ...protocol.wire.events import CLUSTER, Supervise, decode_event
from ...protocol.wiring.snapshot import ClusterOutline, WiringSnapshot
from ...store.files import Files
from ...store.identity import FILE, StoreIdentity, StoreState, look_at_store, unusable
from ...store.log.containers import container_numbers
from ...store.log.layout import require_fast_checksums
from ...store.log.scan import Found, Scan
from ...store.log.survey import Survey
from ..config import StoreConfig

LOGS = (TX, MESSAGES)
_outline = msgspec.msgpack.Decoder(ClusterOutline).decode  # made here: types are taken apart in one thread only
_wiring = msgspec.msgpack.Decoder(WiringSnapshot).decode


@dataclass(frozen=True)
class StorePlace:
    """Whose store, where, and in what cluster; `cluster` "": in any."""

    broker: str
    node: str
    cluster: str = ""


def look_at(files: Files, chosen: StoreConfig, place: StorePlace) -> StoreWord:
    """What a store says of itself.

    Raises:
        StoreError: it cannot be used as it is: see `open_store` and `Survey`. `store-damaged`: a record that passed its
            checksum is none.
        OSError: of the disk.
    """
    own = look_at_store(files, chosen.data, place.broker, cluster=place.cluster)
    folder, free_bytes = f"{chosen.data}/{place.broker}", _free_bytes(files, chosen, place, own)
    require_fast_checksums()
    stream = _ClusterLog()
    if own.counts_as_empty:
        check_is_empty(files, folder)
        return StoreWord(
            node=place.node, directory=folder, broker=place.broker, store=own.store, life=own.life,
            free_bytes=free_bytes, founding=own.cluster, last_nodes={place.broker: place.node},
        )  # fmt: skip
    if own.status is not StoreState.JOINING or made(files, folder):
        Survey(files, f"{folder}/{MESSAGES}").close()
        with none_as_damage(f"{folder}/{TX}"):
            stream.read(files, f"{folder}/{TX}")
    status = own.status
    known = stream.index.streams.get(CLUSTER)
    if known is not None and status is not StoreState.CLEAN:  # the stream itself knows better when it has joined
        status = StoreState.JOINING if known.blank else StoreState.DIRTY
    hurt = stream.wrong or (damage_in_words(stream.index) if known is None or known.hurt else "")
    with none_as_damage(f"{folder}/{TX}"):
        voters, supervisor = voter_sets(stream.history), stream.supervisor()
    return StoreWord(
        node=place.node, directory=folder, broker=place.broker, store=own.store, cluster=own.cluster,
        status=status.value, shutdown=own.shutdown, format=own.format, minor=own.minor, life=own.life,
        voters=voters, hurt=hurt, free_bytes=free_bytes, supervisor=supervisor,
        last_nodes={**own.nodes, place.broker: place.node},
    )  # fmt: skip


@contextmanager
def none_as_damage(folder: str) -> Generator[None]:
    """A record of this log that passed its checksum and is none refuses this store, and not the start of all.

    Raises:
        StoreError: `store-damaged`.
    """
    try:
        yield
    except (PeerError, msgspec.MsgspecError) as error:
        why = (
            f"{folder} has a record that is none ({error}): empty this broker's directory, and the others bring it up "
            "to date"
        )
        raise StoreError(STORE_DAMAGED, why) from error


def _free_bytes(files: Files, chosen: StoreConfig, place: StorePlace, own: StoreIdentity) -> int:
    """The room on its disk, which a new store needs for its logs."""
    directory = chosen.data
    while not files.exists(directory):
        directory = os.path.dirname(directory)
    free_bytes = files.free_bytes(directory)
    there = made(files, f"{chosen.data}/{place.broker}")
    if own.counts_as_empty and not there and free_bytes < len(LOGS) * chosen.containers * chosen.container_bytes:
        raise unusable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), f"{chosen.data}/{place.broker}")
    return free_bytes


def made(files: Files, folder: str) -> bool:
    """Whether both logs of a store are there: a crash at the birth may have left less."""
    return all(has_log(files, f"{folder}/{name}") for name in LOGS)


def check_is_empty(files: Files, folder: str) -> None:
    """Look whether a start that came to nothing is all that a store knows of, as it says: what it has is to be removed.

    Raises:
        StoreError: `store-damaged`: its logs have records.
    """
    for log in LOGS:
        if not has_log(files, where := f"{folder}/{log}"):
            continue
        survey = Survey(files, where)
        try:
            scan = Scan(survey)
            if next(iter(scan), None) is not None or scan.damage:
                raise StoreError(
                    STORE_DAMAGED, f"{folder}/{FILE} says that nothing was ever written to {where}, which has records: "
                    "put that file back as it was last, or move the directory away",
                )  # fmt: skip
        finally:
            survey.close()


def has_log(files: Files, folder: str) -> bool:
    return files.exists(folder) and bool(container_numbers(files.list(folder)))


def indexed(found: Scan, index: LogIndex) -> Iterator[Found]:
    """The records of a log, each noted, as is the damage before it."""
    seen = 0
    for record in found:
        for damage in found.damage[seen:]:
            index.damaged(damage.first, damage.end)
        seen = len(found.damage)
        index.note(record.lsn, record.kind, record.stream, record.payload, record.undo)
        yield record
    for damage in found.damage[seen:]:
        index.damaged(damage.first, damage.end)


def damage_in_words(index: LogIndex) -> str:
    """The damage of a log; "" for none."""
    stretches = ", ".join(f"{first} to {behind}" for first, behind in index.damage)
    return f"damage at {stretches}" if stretches else ""


class _ClusterLog:
    """What a transaction log says.

    Attributes:
        wrong: a record of the cluster stream that is none, in words, "" for nothing.
    """

    def __init__(self) -> None:
        self.history = StreamHistory()
        self.index = LogIndex()
        self.wrong = ""

    def read(self, files: Files, folder: str) -> None:
        survey = Survey(files, folder)
        try:
            for record in indexed(Scan(survey), self.index):
                if record.stream == CLUSTER:
                    try:
                        self.history.read(record.kind, record.payload)
                    except PeerError as error:
                        self.wrong = self.wrong or f"a record that is none: {error.text}"
        finally:
            survey.close()

    def supervisor(self) -> int:
        """The highest number that it gives a supervisor; also by entries that may not be committed."""
        checkpoint = self.history.checkpoint
        outline = _outline(checkpoint.outline) if checkpoint is not None else None
        known = _wiring(msgspec.msgpack.encode(outline.wiring)).supervisor.number if outline is not None else 0
        events = [decode_event(entry.event) for entry in self.history.entries.values()]
        return max([known, *(event.number for event in events if isinstance(event, Supervise))])


def refused_word(place: StorePlace, directory: str, error: StoreError) -> StoreWord:
    """What is said of a store that cannot be used."""
    return StoreWord(
        node=place.node, directory=directory, broker=place.broker, status="dirty", code=error.code, text=error.text
    )
