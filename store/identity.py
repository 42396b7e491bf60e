"""What a store's directory says of itself, and who may use it: PostgreSQL's control file and `postmaster.pid`.

    DIR/b1/store.json   whose store this is, which life used it last, and how that one left it
    DIR/b1/lock         held by the process that uses it, for as long as it lives

A directory is refused before anything in it is touched, with what to do about it (`durable.md` 4). `store.json` is
written before the logs, so a directory that has logs and no `store.json` has lost it and is not taken for an empty one.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import tempfile
import threading
from enum import Enum
from typing import Any

import msgspec

from ..protocol.errors import (
    NOT_OUR_STORE,
    STORE_DAMAGED,
    STORE_FORMAT,
    STORE_RECOVERING,
    STORE_UNUSABLE,
    LocalError,
    StoreError,
)
from ..protocol.limits import INCARNATIONS_PER_BROKER
from ..protocol.wire.version import MINOR, spoken
from .files import Files, Lock, locked, read_whole, write_whole

FORMAT = 1
FILE, LOCK = "store.json", "lock"
_FOLDER = re.compile(r"b[1-9]\d*")
_OF_NO_STORE = (LOCK, f"{FILE}.new")
"""What a start that came to nothing leaves."""
NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs"),
        *("fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb2", "smb3", "smbfs", "wekafs"),
    )
)
"""File systems on which several machines may write: locks, renames and flushes are not what they are on a disk."""


class StoreState(Enum):
    """How a store was left."""

    EMPTY = "empty"
    """Nothing is in it. No `store.json` says so: there is none."""
    FOUNDING = "founding"
    """Made for a cluster that begins, of which nothing is in its logs yet: it counts as empty, for any cluster, and is
    said to be. Its own cluster's start never came to its end, as far as this store is concerned."""
    JOINING = "joining"
    """Blank: it may not vote before it has been brought up to date (K4)."""
    DIRTY = "dirty"
    """In use, or its process has died."""
    CLEAN = "clean"
    """Closed, with the whole cluster's stop."""
    RECOVERING = "recovering"
    """`mantamq store recover` is making a cluster of its own of it, and has not come to its end."""
    LEFT = "left"
    """Its broker has left the cluster: nothing in it is needed any more."""


class StoreIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `store.json`. Fields are only added, with defaults.

    Attributes:
        format: of the whole directory; a newer one is refused.
        minor: of the protocol that its last writer spoke; a newer one is refused, its events are not known here.
        store: id of this store, from when it was made until it is emptied.
        cluster: id of the cluster that it belongs to.
        broker: whose it is.
        status: how it was left.
        shutdown: id of the stop that left it clean, "" if it is not.
        life: the last life that used it, 0 for none.
        node: where that was, for an operator who looks for a missing one.
        nodes: broker -> where it was last, as far as this store's process was told.
    """

    format: int = FORMAT
    minor: int = MINOR
    store: str = ""
    cluster: str = ""
    broker: str = ""
    status: StoreState = StoreState.EMPTY
    shutdown: str = ""
    life: int = 0
    node: str = ""
    nodes: dict[str, str] = {}

    @property
    def counts_as_empty(self) -> bool:
        return self.status in (StoreState.EMPTY, StoreState.FOUNDING)


class _Head(msgspec.Struct):
    """What any version of `store.json` has."""

    format: int
    minor: int = 0


_head = msgspec.json.Decoder(_Head).decode
_identity = msgspec.json.Decoder(StoreIdentity).decode


def new_life(clock_ms: int, stored: int) -> int:
    """The number of a broker's new life: it rises, also where the clock went back (`durable.md` 4).

    It is on the scale of the numbers that processes without a store have (`actors/supervisor/address_book.py`), so that
    a broker that has lost its store is above its earlier lives too.

    Args:
        clock_ms: Unix time.
        stored: the life before, 0 for none. It has reserved numbers for its queues, and so has this one.
    """
    by_clock = clock_ms << 7
    return max(by_clock, stored + 2 * INCARNATIONS_PER_BROKER) if stored else by_clock


def read_identity(files: Files, folder: str) -> StoreIdentity:
    """What a store's folder says of itself; nothing is locked or changed. An empty or missing one is `EMPTY`.

    Raises:
        StoreError: `store-format`: written by a newer version. `store-damaged`: there is something, and not what there
            should be. `store-unusable`: it cannot be read.
    """
    path = f"{folder}/{FILE}"
    try:
        if not files.exists(path):
            left = [name for name in _names(files, folder) if name not in _OF_NO_STORE]
            if left:
                raise StoreError(STORE_DAMAGED, f"{folder} has {left[0]} and no {FILE}: {_MEND}")
            return StoreIdentity()
        data = read_whole(files, path)
    except OSError as error:
        raise unusable(error, folder) from error
    try:
        head = _head(data)
        if head.format > FORMAT or head.minor > MINOR:
            text = (
                f"{path} was written by a newer mantamq (format {head.format}, protocol {spoken(head.minor)}); "
                f"this one knows format {FORMAT} and {spoken()}: run that version, or a newer one"
            )
            raise StoreError(STORE_FORMAT, text)
        return _identity(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(STORE_DAMAGED, f"{path} cannot be read ({error}): {_MEND}") from error


def stores_in(files: Files, directory: str) -> dict[str, StoreIdentity | StoreError]:
    """The brokers that have a store below a directory, and what each says of itself or is refused for."""
    try:
        names = [name for name in _names(files, directory) if _FOLDER.fullmatch(name)]
    except OSError as error:
        raise unusable(error, directory) from error
    found: dict[str, StoreIdentity | StoreError] = {}
    for name in sorted(names, key=lambda one: int(one[1:])):
        try:
            found[name] = read_identity(files, f"{directory}/{name}")
        except StoreError as error:
            found[name] = error
    return found


class StoreDirectory:
    """A store's folder, locked by this process.

    Attributes:
        folder: its path.
        identity: what `store.json` has.
    """

    def __init__(self, files: Files, folder: str, lock: Lock, identity: StoreIdentity) -> None:
        self.folder = folder
        self.identity = identity
        self._files = files
        self._lock = lock
        self._writing = threading.Lock()

    def begin(
        self, clock_ms: int, *, cluster: str, store: str, node: str, status: StoreState = StoreState.DIRTY
    ) -> int:
        """A life begins to use the store. Durable when this returns.

        Args:
            clock_ms: Unix time.
            cluster: the cluster's id.
            store: id for a new store; another one keeps its own.
            node: where this is.
            status: what it is from now on. `JOINING`: blank, until `joined`; so is one that was blank before.
                `FOUNDING`: a cluster begins with it, and nothing of that is in it until `founded`.

        Returns:
            The number of the life.

        Raises:
            StoreError: `not-our-store`: it belongs to another cluster.
        """
        was = self.identity
        _check_cluster(self.folder, was, cluster)
        self._change(
            minor=MINOR,
            store=was.store or store,
            cluster=cluster,
            status=was.status if was.status is StoreState.JOINING else status,
            shutdown="",
            life=new_life(clock_ms, was.life),
            node=node,
        )
        return self.identity.life

    def founded(self) -> None:
        """The first record of a cluster that begins is about to be written: what is in it counts from now on."""
        self._change(StoreState.FOUNDING, status=StoreState.DIRTY)

    def joined(self) -> None:
        """It is blank no more."""
        self._change(StoreState.JOINING, status=StoreState.DIRTY)

    def note_nodes(self, nodes: dict[str, str]) -> None:
        """Keep where brokers are, for a start at which some are missing."""
        if nodes != self.identity.nodes:
            self._change(nodes=nodes)

    def leave(self) -> None:
        """Its broker has left the cluster, and this store is not to come back. Of a new one nothing says anything."""
        if self.identity.status is not StoreState.EMPTY:
            self._change(status=StoreState.LEFT)

    def close_clean(self, shutdown: str) -> None:
        """All is in the logs, and nothing comes behind it. `shutdown`: id of the cluster's stop; one that was closed
        already keeps that of the first."""
        if self.identity.status is StoreState.CLEAN:
            return
        if self.identity.status is not StoreState.DIRTY:
            raise LocalError(f"a store that is {self.identity.status.value} is not closed as clean")
        self._change(status=StoreState.CLEAN, shutdown=shutdown)

    def recovering(self, cluster: str) -> None:
        """It is being made a cluster of its own, under a new id. Nobody else uses it until `recovered`."""
        self._change(status=StoreState.RECOVERING, cluster=cluster, shutdown="")

    def recovered(self) -> None:
        """It is one now."""
        self._change(status=StoreState.DIRTY)

    def release(self) -> None:
        """Let another process have it. It stays as it is: dirty, if it was not closed."""
        self._lock.release()

    def _change(self, only: StoreState | None = None, **values: Any) -> None:
        """Write it anew. `only`: if that is its status: another thread may have changed that."""
        with self._writing:
            if only not in (None, self.identity.status):
                return
            identity = msgspec.structs.replace(self.identity, **values)
            data = msgspec.json.format(msgspec.json.encode(identity), indent=2) + b"\n"
            write_whole(self._files, f"{self.folder}/{FILE}", data)
            self.identity = identity


def look_at_store(
    files: Files, directory: str, broker: str, *, cluster: str = "", recover: bool = False
) -> StoreIdentity:
    """What a broker's store says of itself, if it could be opened now. Locks, makes and changes nothing.

    Args:
        as `open_store`'s.

    Raises:
        StoreError: as `open_store`.
    """
    folder = f"{directory}/{broker}"
    check_local(files, directory)
    try:
        found = _check(files, folder, broker, cluster, recover)
        files.check_writable(folder)
        held_by = files.holder(f"{folder}/{LOCK}") if files.exists(folder) else ""
    except OSError as error:
        raise unusable(error, folder) from error
    if held_by:
        raise locked(f"{folder}/{LOCK}", held_by)
    return found


def open_store(
    files: Files, directory: str, broker: str, *, cluster: str = "", recover: bool = False
) -> StoreDirectory:
    """Lock the store of a broker, for this process.

    Args:
        files: the file system.
        directory: of all brokers' stores on this node; made if it is not there.
        broker: whose store; it has a folder of its own.
        cluster: the id that the store must have if it is not empty; "": any.
        recover: also a store whose recovery has not come to its end.

    Raises:
        StoreError: `store-locked`: another process has it. `store-unusable`: it is on a network, read-only, no
            directory, or may not be written. `not-our-store`: it is another broker's or cluster's. And as
            `read_identity`. Nothing in it was changed.
    """
    folder = f"{directory}/{broker}"
    check_local(files, directory)
    _check(files, folder, broker, cluster, recover)
    try:
        files.make_folder(folder)
        lock = files.lock(f"{folder}/{LOCK}", f"{broker}.store, process {os.getpid()} on {socket.gethostname()}")
    except OSError as error:
        raise unusable(error, folder) from error
    try:
        return StoreDirectory(files, folder, lock, _check(files, folder, broker, cluster, recover))
    except BaseException:
        lock.release()
        raise


def check_local(files: Files, directory: str) -> None:
    """Raises:
    StoreError: `store-unusable`: the directory is on a network.
    """
    kind = files.file_system(directory)
    if kind in NETWORK:
        text = f"{directory} is on a network file system ({kind}), whose locks and flushes do not hold"
        raise StoreError(STORE_UNUSABLE, f"{text}: name a directory on a local disk")


def try_directory(directory: str) -> None:
    """Try whether this machine can write to a directory, or make it, before anything is started. Nothing is left.

    Raises:
        StoreError: `store-unusable`: as `open_store`.
    """
    there = directory
    try:
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        os.rmdir(tempfile.mkdtemp(prefix=".may-write-", dir=there))
    except OSError as error:
        if isinstance(error, PermissionError) and there == directory:
            return  # the brokers' folders in it may be ours
        raise unusable(OSError(error.errno, error.strerror), there) from None


def unusable(error: OSError, folder: str) -> StoreError:
    """What a failed call says of a store's directory, and what to do."""
    where = error.filename or folder
    if error.errno == errno.EROFS:
        text = f"{where} is on a file system that is mounted read-only: mount it for writing, and look why it is not"
    elif error.errno in (errno.EACCES, errno.EPERM):
        text = f"{where} may not be written by user {os.getuid()}: give that one the directory, or name another"
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        text = f"{where} is not a directory: name one, or a path where there is nothing yet"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"there is no room in {where}: make some, or name another directory"
    else:
        text = f"{where} cannot be used ({error.strerror}): check the disk, or name another directory"
    return StoreError(STORE_UNUSABLE, text)


_MEND = (
    "put the file back if you have it; otherwise move the directory away, and the broker comes back empty and is "
    "brought up to date by the others"
)


def _names(files: Files, folder: str) -> list[str]:
    return files.list(folder) if files.exists(folder) else []


def _check(files: Files, folder: str, broker: str, cluster: str, recover: bool) -> StoreIdentity:
    """Whose store it is: this broker's and this cluster's, or nobody's."""
    found = read_identity(files, folder)
    if found.status is StoreState.EMPTY:
        return StoreIdentity(broker=broker)
    if found.broker != broker:
        text = f"{folder} is the store of {found.broker}: {broker} does not use it; put each store back under its name"
        raise StoreError(NOT_OUR_STORE, text)
    if found.status is StoreState.RECOVERING and not recover:
        text = f"{folder} was being recovered as a cluster of its own, and that has not come to its end"
        raise StoreError(STORE_RECOVERING, f"{text}: run `mantamq store recover --from {broker}` again")
    if found.status is StoreState.LEFT:
        text = f"{folder} is the store of {broker}, which has left the cluster {found.cluster}: empty the directory"
        raise StoreError(NOT_OUR_STORE, text)
    if cluster:
        _check_cluster(folder, found, cluster)
    return found


def _check_cluster(folder: str, found: StoreIdentity, cluster: str) -> None:
    if found.cluster not in ("", cluster) and not found.counts_as_empty:
        text = (
            f"{folder} belongs to the cluster {found.cluster}, not to {cluster}: name the directory of this cluster, "
            "or an empty one"
        )
        raise StoreError(NOT_OUR_STORE, text)
