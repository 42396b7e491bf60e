"""The files of a log: containers of one fixed size, which go round (CLFS' containers, PostgreSQL's WAL segments).

A container that is needed no more becomes a *spare*: it keeps its length and its content, and is some day given a new
header and a new name. So a write to the log never makes a file longer. A spare's content means nothing: all of it
lies at a place that it does not say of itself (`layout.py`).

The order of a file's life is what makes a crash at any call harmless:

- **New**: the file is made and filled under a spare's name.
- **Taken**: header (and the first batch, if recovery has one), fdatasync, rename to its number, fsync of the
  directory; only then anybody writes to it or relies on it. If the crash comes before the rename is on the disk, it
  is a spare again.
- **Freed**: rename to a spare's name. That needs no flush of its own. Should the old name come back, it is that of a
  container below a base that was made durable before, or one behind the end that a later header names: of neither
  anything counts, whatever stands in it by then.
- **Opened again**: no spare of an earlier process is used, all are removed. One may be half made; and the name of one
  may be nowhere but in memory, when the fsync of the directory was what has ended that process, and no later fsync
  need mend it.
"""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Sequence

from ...protocol.errors import LocalError
from ..files import File, Files
from .layout import LEAST_BYTES, MOST_BYTES, PAGE, ContainerHeader, pack_container

LEAST_CONTAINERS = 2
_CONTAINER = re.compile(r"(\d{16})\.log")
_SPARE = re.compile(r"spare-(\d+)\.log")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def rounded(container_bytes: int, least_bytes: int = LEAST_BYTES) -> int:
    """The size a container really has: at least the least, at most a GiB, a multiple of 4 KiB."""
    return -(-min(max(container_bytes, least_bytes), MOST_BYTES) // PAGE) * PAGE


def container_name(number: int) -> str:
    """The name of a container's file."""
    return f"{number:016d}.log"


def container_numbers(names: Sequence[str]) -> list[int]:
    """The numbers of the containers among the names in a folder, rising."""
    return sorted(int(found[1]) for name in names if (found := _CONTAINER.fullmatch(name)))


class Containers:
    """The containers and spares in one folder.

    Attributes:
        numbers: of the containers, rising; the last one is written to.
    """

    def __init__(self, files: Files, folder: str, size_bytes: int, spares: int) -> None:
        """Look what is there, and remove the spares of earlier processes.

        Args:
            files: the file system.
            folder: of the log.
            size_bytes: of each container.
            spares: how many are kept ready.
        """
        self._files = files
        self._folder = folder
        self.size_bytes = size_bytes
        self.kept = spares
        names = files.list(folder)
        self.numbers = container_numbers(names)
        left = {name: int(match[1]) for name in names if (match := _SPARE.fullmatch(name))}
        for name in left:
            files.unlink(self._path(name))
        self._spare_numbers = itertools.count(max(left.values(), default=0) + 1)  # atomic, for `make_spare`'s thread
        self._spares: list[str] = []

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def make_spare(self) -> bool:
        """Make a spare ahead, if fewer are ready than are kept. Takes as long as zero-filling and flushing a container
        does, and touches nothing of the log: it may run in another thread.

        Returns:
            Whether one was made. Not where the disk is full: nothing of it is left, and the log goes on.
        """
        if len(self._spares) >= self.kept:
            return False
        try:
            self._spares.append(self._new())
        except OSError as error:
            if error.errno in _FULL:
                return False
            raise
        return True

    @property
    def ready(self) -> int:
        """Spares that can be taken at once."""
        return len(self._spares)

    def _spare_name(self) -> str:
        return f"spare-{next(self._spare_numbers)}.log"

    def _new(self) -> str:
        name = self._spare_name()
        self._files.open(self._path(name), create_bytes=self.size_bytes).close()
        return name

    def take(self, header: ContainerHeader, batch: Sequence[bytes] = ()) -> File:
        """Make a spare the log's next container.

        Args:
            header: of it; its number is above all others.
            batch: what it begins with. It becomes visible together with its new place: renaming first would show a
                container that says where the log before it ends, without what stood behind that.

        Returns:
            Its file; the header and the batch are on the disk.
        """
        if self.numbers and header.number <= self.numbers[-1]:
            raise LocalError(f"container {header.number} behind {self.numbers[-1]}")
        name = self._spares.pop(0) if self._spares else self._new()
        file = self._files.open(self._path(name))
        file.pwritev([pack_container(header), *batch], 0)
        file.fdatasync()
        self._files.rename(self._path(name), self._path(container_name(header.number)))
        self._files.sync_folder(self._folder)
        self.numbers.append(header.number)
        return file

    def free(self, numbers: Sequence[int]) -> None:
        """Make containers spares; those beyond what is kept ready are removed.

        Args:
            numbers: of containers that nothing in the log needs, as a flush has made durable.
        """
        for number in numbers:
            path = self._path(container_name(number))
            if len(self._spares) < self.kept:
                name = self._spare_name()
                self._files.rename(path, self._path(name))
                self._spares.append(name)
            else:
                self._files.unlink(path)
            self.numbers.remove(number)

    @property
    def used_bytes(self) -> int:
        """What the containers take on the disk, without the spares."""
        return len(self.numbers) * self.size_bytes
