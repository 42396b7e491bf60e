"""Bugs planted on purpose in the log, a few lines each: the tests of failing calls or of rot must find every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from mantamq.store.log import log as log_module
from mantamq.store.log import reader, recovery, scan, survey
from mantamq.store.log.containers import Containers, container_name
from mantamq.store.log.layout import (
    PAGE,
    BatchHeader,
    ContainerHeader,
    LogRecord,
    pack_container,
    read_batch,
    read_record,
)
from mantamq.store.log.log import Log
from mantamq.store.log.scan import Damage, Scan
from mantamq.store.log.survey import Survey

Patch = pytest.MonkeyPatch


def no_lsn_check_after_recycling(patch: Patch) -> None:
    def batch(log_id: bytes, data: bytes, at: int, lsn: int) -> BatchHeader | None:
        there = int.from_bytes(data[at + 12 : at + 20], "little")
        found = read_batch(log_id, data, at, there)
        return found._replace(lsn=lsn) if found else None

    def record(data: bytes, at: int, lsn: int, names: dict[bytes, str]) -> LogRecord | None:
        there = int.from_bytes(data[at + 12 : at + 20], "little")
        found = read_record(data, at, there, names)
        return found._replace(lsn=lsn) if found else None

    patch.setattr(survey, "read_batch", batch)
    for module in (survey, scan, reader):
        patch.setattr(module, "read_record", record)


def no_lsn_check_in_the_reader(patch: Patch) -> None:
    def record(data: bytes, at: int, lsn: int, names: dict[bytes, str]) -> LogRecord | None:
        there = int.from_bytes(data[at + 12 : at + 20], "little")
        found = read_record(data, at, there, names)
        return found._replace(lsn=lsn) if found else None

    patch.setattr(reader, "read_record", record)


def torn_batch_kept(patch: Patch) -> None:
    records = Survey.records

    def those_that_are_whole(self: Survey, batch: BatchHeader) -> list[LogRecord]:
        found = records(self, batch)
        if found is not None:
            return found
        data, at, found, names = self.payload(batch), 0, [], {}
        while record := read_record(data, at, batch.lsn + 64 + at, names):
            found.append(record)
            at += record.size_bytes
        return found

    patch.setattr(Survey, "records", those_that_are_whole)


def unfinished_group_kept(patch: Patch) -> None:
    """The first part of a group that went over a container's end counts without the last."""
    rest = Survey._without_unfinished

    def kept(self: Survey, tail: BatchHeader | None, end: int, proven: int) -> int:
        return end if tail and tail.part in (1, 2) else rest(self, tail, end, proven)

    patch.setattr(Survey, "_without_unfinished", kept)


def last_batch_not_rewritten(patch: Patch) -> None:
    rest = Survey._without_unfinished

    def left(self: Survey, tail: BatchHeader | None, end: int, proven: int) -> int:
        found = rest(self, tail, end, proven)
        self.again = None
        return found

    patch.setattr(Survey, "_without_unfinished", left)


def fsync_error_ignored(patch: Patch) -> None:
    def sync(self: Any) -> None:
        if self.error:
            raise self.error
        if self.flushed != self.end:
            try:
                self._file.fdatasync()
            except OSError:
                pass
            self.flushed, self.proven = self.end, self._said

    patch.setattr(Log, "sync", sync)


def fsync_tried_again(patch: Patch) -> None:
    def sync(self: Any) -> None:
        if self.error:
            raise self.error
        if self.flushed != self.end:
            try:
                self._file.fdatasync()
            except OSError:
                self._file.fdatasync()
            self.flushed, self.proven = self.end, self._said

    patch.setattr(Log, "sync", sync)


def dead_log_goes_on(patch: Patch) -> None:
    patch.setattr(Log, "error", property(lambda self: None, lambda self, error: None), raising=False)


def taken(self: Any, header: ContainerHeader, batch: Sequence[bytes], late: bool, sync: bool) -> Any:
    """As `Containers.take` does it, but for the order."""
    name = self._spares.pop(0) if self._spares else self._new()
    file = self._files.open(self._path(name))
    file.pwritev([pack_container(header), *([] if late else batch)], 0)
    file.fdatasync()
    self._files.rename(self._path(name), self._path(container_name(header.number)))
    if sync:
        self._files.sync_folder(self._folder)
    if late and batch:
        file.pwritev(batch, PAGE)
        file.fdatasync()
    self.numbers.append(header.number)
    return file


def rename_without_directory_fsync(patch: Patch) -> None:
    patch.setattr(Containers, "take", lambda self, header, batch=(): taken(self, header, batch, False, False))


def rename_before_the_last_batch(patch: Patch) -> None:
    patch.setattr(Containers, "take", lambda self, header, batch=(): taken(self, header, batch, True, True))


def freed_before_the_base_is_durable(patch: Patch) -> None:
    def free_below(self: Any, lsn: int) -> None:
        self.base = max(self.base, lsn)
        self.sync()
        size = self._header.size_bytes
        self._containers.free([one for one in self._containers.numbers[:-1] if (one + 1) * size <= self.base])

    patch.setattr(Log, "free_below", free_below)


def spares_of_an_earlier_process(patch: Patch) -> None:
    """Spares are used as they are found, though the fsync of the directory that named them may have failed."""
    begin = Containers.__init__

    class Kept:
        def __init__(self, files: Any) -> None:
            self._files = files

        def __getattr__(self, name: str) -> Any:
            return getattr(self._files, name)

        def unlink(self, path: str) -> None:
            pass

    def init(self: Any, files: Any, folder: str, size_bytes: int, spares: int) -> None:
        begin(self, Kept(files), folder, size_bytes, spares)  # type: ignore[arg-type]
        self._files = files
        self._spares = [name for name in files.list(folder) if name.startswith("spare")]

    patch.setattr(Containers, "__init__", init)


def new_container_relied_upon(patch: Patch) -> None:
    """A container that has only what recovery put there counts as proven, though its name may be nowhere."""
    rest = Survey._without_unfinished

    def relied(self: Survey, tail: BatchHeader | None, end: int, proven: int) -> int:
        return end if tail and tail.part not in (1, 2) and tail.end <= proven else rest(self, tail, end, proven)

    patch.setattr(Survey, "_without_unfinished", relied)


def end_in_an_empty_container(patch: Patch) -> None:
    patch.setattr(Survey, "before", lambda self, lsn: lsn)


def promise_forgotten_with_its_container(patch: Patch) -> None:
    free_below = Log.free_below

    def freed(self: Any, lsn: int) -> None:
        ballot, self.ballot = self.ballot, (0, 0)
        free_below(self, lsn)
        self.ballot = ballot

    patch.setattr(Log, "free_below", freed)


def undo_not_moved(patch: Patch) -> None:
    append = recovery.append_record
    patch.setattr(
        recovery,
        "append_record",
        lambda buffers, kind, part, lsn, undo, name, payload: append(
            buffers, kind, part, lsn, undo - 8 if undo else 0, name, payload
        ),
    )


def two_batches_in_flight(patch: Patch) -> None:
    put = Log._put

    def unflushed(self: Any, *args: Any) -> None:
        flushed = self.__dict__.pop("unsaid", self.flushed)
        put(self, *args)
        self.unsaid = flushed

    sync = Log.sync
    calls: list[None] = []

    def every_other(self: Any) -> None:
        calls.append(None)
        if len(calls) % 2:
            sync(self)

    patch.setattr(Log, "_put", unflushed)
    patch.setattr(Log, "sync", every_other)


def group_cut_without_a_flush(patch: Patch) -> None:
    """The next container says that what is before it was flushed, and it was not."""
    roll = Log._roll

    def rolled(self: Any) -> None:
        self.flushed = self.end
        roll(self)

    patch.setattr(Log, "_roll", rolled)


def chain_broken_by_a_cut(patch: Patch) -> None:
    append = log_module.append_record
    patch.setattr(
        log_module,
        "append_record",
        lambda buffers, kind, part, lsn, undo, name, payload: append(
            buffers, kind, part, lsn, 0 if part == 1 else undo, name, payload
        ),
    )


# ---- what rot has to find


def damage_cut_as_a_torn_tail(patch: Patch) -> None:
    batch, container = survey.read_batch, survey.read_container

    def unproven(*args: Any) -> BatchHeader | None:
        found = batch(*args)
        return found._replace(proven=0) if found else None

    def header(page: bytes) -> ContainerHeader | None:
        found = container(page)
        return found._replace(proven=0) if found else None

    patch.setattr(survey, "read_batch", unproven)
    patch.setattr(survey, "read_container", header)


def damage_served(patch: Patch) -> None:
    def record(data: bytes, at: int, lsn: int, names: dict[bytes, str]) -> LogRecord | None:
        found = read_record(data, at, lsn, names)
        if found is None and (there := scan.next_record(data, at + 8, lsn - at, names)) < len(data):
            return LogRecord(lsn, 2, 0, 0, "orders", data[at + 28 : there], there - at)
        return found

    patch.setattr(scan, "read_record", record)


def short_file_is_a_torn_tail(patch: Patch) -> None:
    find = Survey._find_end

    def found(self: Any) -> int:
        size, self.size_bytes = self.size_bytes, SizeThatIsNeverMissed(self.size_bytes)
        try:
            return int(find(self))
        finally:
            self.size_bytes = size

    patch.setattr(Survey, "_find_end", found)


class SizeThatIsNeverMissed(int):
    def __gt__(self, other: int) -> bool:
        return False


def damage_forgotten_by_the_next_opening(patch: Patch) -> None:
    find = Survey._find_end

    def found(self: Any) -> int:
        end = find(self)
        batches = [one.end for one in self.walk(self.numbers[-1], end) if isinstance(one, BatchHeader)]
        return max(batches, default=self.start(self.numbers[-1]))

    patch.setattr(Survey, "_find_end", found)


def missing_container_not_missed(patch: Patch) -> None:
    damaged = Scan._damaged

    def only_what_is_there(self: Any, first: int, end: int) -> None:
        if first // self._survey.size_bytes in self._survey.numbers:
            damaged(self, first, end)

    patch.setattr(Scan, "_damaged", only_what_is_there)
    patch.setattr(Scan, "_broken", lambda self, stream, lsn: None)


def touched_stream_not_told(patch: Patch) -> None:
    def chain(self: Any, record: LogRecord) -> None:
        for damage in self.damage:
            damage.streams.discard(record.stream)
        self._newest[record.stream] = record.lsn

    patch.setattr(Scan, "_chain", chain)


def salvage_gives_up_the_batch_and_says_a_byte(patch: Patch) -> None:
    patch.setattr(scan, "Damage", lambda first, end, streams: Damage(first, first + 1, streams))


Plant = Callable[[Patch], None]

FAILING: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        no_lsn_check_after_recycling, no_lsn_check_in_the_reader, torn_batch_kept, unfinished_group_kept, last_batch_not_rewritten, fsync_error_ignored,
        fsync_tried_again, dead_log_goes_on, rename_without_directory_fsync, rename_before_the_last_batch,
        freed_before_the_base_is_durable, spares_of_an_earlier_process, new_container_relied_upon, end_in_an_empty_container,
        promise_forgotten_with_its_container, undo_not_moved, two_batches_in_flight, group_cut_without_a_flush, chain_broken_by_a_cut,
    )
}  # fmt: skip
"""Found where calls fail."""

ROTTEN: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        damage_cut_as_a_torn_tail, damage_served, short_file_is_a_torn_tail, damage_forgotten_by_the_next_opening, missing_container_not_missed,
        touched_stream_not_told, salvage_gives_up_the_batch_and_says_a_byte,
    )
}  # fmt: skip
"""Found where a log at rest is hurt."""
