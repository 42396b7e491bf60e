"""Which stores a directory has, and what each is, by its control file and its logs' headers.

It reads and locks nothing that a running broker needs, so it may be asked of a store that is in use.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...protocol.errors import STORE_UNUSABLE, StoreError
from ...protocol.store.host import MESSAGES, TX
from ...protocol.wire.version import spoken
from ..files import Files
from ..identity import FILE, LOCK, StoreState, read_identity, stores_in, unusable
from ..log.survey import Survey

LOGS = (TX, MESSAGES)
ASIDE = "aside"
"""A folder for what is kept until an operator removes it."""
_STORE = re.compile(r"b[1-9]\d*")


class LogSummary(NamedTuple):
    """A log, by its headers.

    Attributes:
        log: its name, which is its folder's.
        base, end: LSNs of what is needed first, and of where it ends.
        containers: number of its files that count.
        used_bytes: what those take.
        spare_bytes: what the files take that wait to be used.
        oldest_us: when the first of what it holds was ordered, microseconds since 1970; 0 for an empty log.
        text: why it cannot be read, "" if it can.
    """

    log: str
    base: int = 0
    end: int = 0
    containers: int = 0
    used_bytes: int = 0
    spare_bytes: int = 0
    oldest_us: int = 0
    text: str = ""


class StoreSummary(NamedTuple):
    """A store.

    Attributes:
        broker: whose it is, by its folder's name.
        folder: its path.
        state: as in `StoreState`; "refused" where `code` says why.
        holder: the process that uses it, "" for none.
        cluster, store, shutdown, node, life, format: as in `StoreIdentity`.
        protocol: that its last writer spoke.
        disk_bytes: of logs, spares and catalogue.
        logs: each that is there.
        code, text: of the `StoreError` for which it is refused; "" for none.
    """

    broker: str
    folder: str
    state: str
    holder: str = ""
    cluster: str = ""
    store: str = ""
    shutdown: str = ""
    node: str = ""
    life: int = 0
    format: int = 0
    protocol: str = ""
    disk_bytes: int = 0
    logs: tuple[LogSummary, ...] = ()
    code: str = ""
    text: str = ""


def folders_in(files: Files, path: str) -> list[str]:
    """The stores' folders that a path means: itself, or all those in it.

    Args:
        files: the file system.
        path: a store's folder, or the directory that has one for each broker.

    Raises:
        StoreError: `store-unusable`: there is no such directory, or no store in it.
    """
    named = "name the directory that the cluster was started with (mantamq up --data)"
    try:
        if not files.exists(path):
            raise StoreError(STORE_UNUSABLE, f"there is no {path}: {named}")
        if _STORE.fullmatch(os.path.basename(path)) and (_has(files, path, FILE) or _has(files, path, TX)):
            return [path]
        found = [f"{path}/{broker}" for broker in stores_in(files, path)]
    except OSError as error:
        raise unusable(error, path) from error
    if not found:
        raise StoreError(STORE_UNUSABLE, f"no broker has a store in {path}: {named}")
    return found


def summary(files: Files, folder: str) -> StoreSummary:
    """What a store is. Everything that is wrong with it is told in it.

    Args:
        files: the file system.
        folder: the store's.
    """
    broker = os.path.basename(folder)
    try:
        holder = files.holder(f"{folder}/{LOCK}")
        own = read_identity(files, folder)
        if own.status is StoreState.EMPTY:
            return StoreSummary(broker, folder, own.status.value, holder)
        logs = tuple(_log(files, folder, log) for log in LOGS if _has(files, folder, log))
        found = StoreSummary(
            broker, folder, own.status.value, holder, own.cluster, own.store, own.shutdown, own.node, own.life,
            own.format, spoken(own.minor), _bytes(files, folder), logs,
        )  # fmt: skip
        if own.broker != broker:
            text = f"{folder} is the store of {own.broker}: put each store back under its name"
            return found._replace(state="refused", code="not-our-store", text=text)
        return found
    except StoreError as error:
        return StoreSummary(broker, folder, "refused", code=error.code, text=error.text)
    except OSError as error:
        refused = unusable(error, folder)
        return StoreSummary(broker, folder, "refused", code=refused.code, text=refused.text)


def _log(files: Files, folder: str, log: str) -> LogSummary:
    where = f"{folder}/{log}"
    try:
        survey = Survey(files, where)
    except (StoreError, OSError) as error:
        return LogSummary(log, text=error.text if isinstance(error, StoreError) else str(error))
    try:
        counting = [number for number in survey.numbers if survey.counts(number)]
        spares = [name for name in files.list(where) if name.startswith("spare-")]
        return LogSummary(
            log, survey.base, survey.end, len(counting), len(counting) * survey.size_bytes,
            (len(spares) + len(survey.numbers) - len(counting)) * survey.size_bytes, _oldest_us(survey, counting),
        )  # fmt: skip
    finally:
        survey.close()


def _oldest_us(survey: Survey, counting: list[int]) -> int:
    for number in counting:
        for one in survey.walk(number, survey.stops[number]):
            if one.end > survey.base and getattr(one, "records", 0):
                return getattr(one, "time_us", 0)
    return 0


def _bytes(files: Files, folder: str) -> int:
    paths = [f"{folder}/{name}" for name in files.list(folder) if name.startswith("catalogue.")]
    for log in LOGS:
        if _has(files, folder, log):
            paths += [f"{folder}/{log}/{name}" for name in files.list(f"{folder}/{log}") if name.endswith(".log")]
    return sum(_size(files, path) for path in paths)


def _size(files: Files, path: str) -> int:
    try:
        file = files.open(path, read_only=True)
    except FileNotFoundError:  # the store is in use, and needs it no more
        return 0
    file.close()
    return file.size


def _has(files: Files, folder: str, name: str) -> bool:
    return files.exists(f"{folder}/{name}")
