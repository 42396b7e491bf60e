"""What the store needs of a file system, as an interface, so that tests can put disks under it that fail.

The rules are POSIX's, at their weakest. What is written is durable after `File.fdatasync`; until then any part of it
may be on the disk or not. A new, renamed or removed name is durable after `Files.sync_folder` of its folder, whatever
was flushed of the file itself. A failed flush is final: what it was to write may be shown by reading and not be
there after a power cut, so nobody tries again (`durable.md` 6).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import psutil

from ..protocol.errors import STORE_LOCKED, StoreError

IOV_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024
"""Buffers that one `pwritev` takes."""
_ZEROS = bytes(1 << 20)


class File(Protocol):
    """One open file. Every failure is an `OSError`.

    Attributes:
        size: its length in bytes, as this opening has seen and written it.
    """

    size: int

    def pread(self, count: int, offset: int) -> bytes:
        """Read `count` bytes from `offset`; fewer only at the end of the file."""
        ...

    def pwritev(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        """Write the buffers one after the other from `offset`: all of them, or an `OSError` after any part of them."""
        ...

    def fdatasync(self) -> None:
        """Flush what was written. After an error of it the file's content is unknown: never try again."""
        ...

    def close(self) -> None:
        """Give the file back; a second time does nothing. Flushes nothing."""
        ...


class Lock(Protocol):
    """A locked file, until released or until the process ends."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are absolute; every failure but that of `lock` is an `OSError`."""

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> File:
        """Open a file, or make one.

        Args:
            path: of the file; that of a new one must be free (`FileExistsError`).
            create_bytes: length of a new file, zero-filled and flushed; its name is not durable before `sync_folder`.
                Of a creation that failed nothing is left; a crash in the middle may leave a shorter file.
            read_only: nothing may be written.
        """
        ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, durably. One that is there already is fine."""
        ...

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name. A file of that name is replaced."""
        ...

    def unlink(self, path: str) -> None: ...

    def sync_folder(self, path: str) -> None:
        """Flush the names in a folder: fsync of the directory."""
        ...

    def lock(self, path: str, holder: str) -> Lock:
        """Lock a file, made if need be, and write into it who holds it.

        Args:
            path: of the file.
            holder: who locks it, for whoever is refused.

        Raises:
            StoreError: `store-locked`: another process holds it; the text has what the file says of that one.
        """
        ...

    def holder(self, path: str) -> str:
        """Who holds a lock, as its file says; "" for nobody. Writes nothing."""
        ...

    def check_writable(self, path: str) -> None:
        """Whether a folder may be written to; of one that is not there, the nearest above it. Writes nothing, so a disk
        may fail all the same.

        Raises:
            OSError: it may not: it is mounted read-only, another user's, or no folder.
        """
        ...

    def free_bytes(self, path: str) -> int:
        """The space that is left for files in a folder."""
        ...

    def file_system(self, path: str) -> str:
        """The kind of file system a path is on, as the system calls it: ext4, nfs4; "" if it does not say."""
        ...


def write_whole(files: Files, path: str, data: bytes) -> None:
    """Replace a small file durably: a reader, also one after a crash, finds the old content or the new one.

    Args:
        files: the file system.
        path: of the file. Its content is written under a temporary name (`path.new`), flushed and renamed.
        data: its new content, not empty.
    """
    temporary = f"{path}.new"
    if files.exists(temporary):  # a crash has left it
        files.unlink(temporary)
    file = files.open(temporary, create_bytes=len(data))
    try:
        file.pwritev([data], 0)
        file.fdatasync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_folder(os.path.dirname(path))


def read_whole(files: Files, path: str) -> bytes:
    """The content of a small file."""
    file = files.open(path, read_only=True)
    try:
        return file.pread(file.size, 0)
    finally:
        file.close()


@contextmanager
def _named(path: str) -> Generator[None]:
    """An `OSError` of a call on a descriptor says which file it was."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


class RealFile:
    """A file of the operating system, by its descriptor."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def pread(self, count: int, offset: int) -> bytes:
        with _named(self.path):
            pieces = [os.pread(self._descriptor, count, offset)]
            have = len(pieces[0])
            while pieces[-1] and have < count:
                pieces.append(os.pread(self._descriptor, count - have, offset + have))
                have += len(pieces[-1])
        return b"".join(pieces)

    def pwritev(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        with _named(self.path):
            if len(buffers) <= IOV_MAX:  # nearly always all of it, in one call and without a look at each
                written = os.pwritev(self._descriptor, buffers, offset)
                if written == sum(map(len, buffers)):
                    self.size = max(self.size, offset + written)
                    return
            left = [memoryview(one).cast("B") for one in buffers if len(one)]
            first = 0  # of `left`, that is not written whole
            while first < len(left):
                written = os.pwritev(self._descriptor, left[first : first + IOV_MAX], offset)
                if written == 0:
                    raise OSError(errno.EIO, "nothing was written")
                offset += written
                self.size = max(self.size, offset)
                while first < len(left) and written >= len(left[first]):
                    written -= len(left[first])
                    first += 1
                if written:
                    left[first] = left[first][written:]

    def fdatasync(self) -> None:
        with _named(self.path):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def fill(self, count: int) -> None:
        """Write `count` zeros, so that the disk has set the space aside, and flush the file with its length."""
        for at in range(0, count, len(_ZEROS)):
            self.pwritev([memoryview(_ZEROS)[: count - at]], at)
        with _named(self.path):
            os.fsync(self._descriptor)


class RealLock:
    """A `flock` on an open file; the system releases it when the process ends, however it ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others have it; a second time does nothing. The file stays, so that two can never lock two files."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealFiles:
    """The operating system's file system."""

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> RealFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if not create_bytes:
            return RealFile(path, os.open(path, flags))
        file = RealFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
        try:
            file.fill(create_bytes)
        except OSError:
            file.close()
            with suppress(OSError):
                os.unlink(path)
            raise
        return file

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def make_folder(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        if os.path.dirname(path) != path:
            with suppress(PermissionError):  # then it was not made by us, and needs no flush
                self.sync_folder(os.path.dirname(path))  # the crash of an earlier call may have left it out
        for one in reversed(missing):
            try:
                os.mkdir(one)
            except FileExistsError:  # another process was faster, or it is a file
                if not os.path.isdir(one):
                    raise
            self.sync_folder(os.path.dirname(one))

    def exists(self, path: str) -> bool:
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True  # any other error is the caller's: a disk that cannot tell is not an empty one

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _named(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str, holder: str) -> RealLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with _named(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder.encode(), 0)
        except BlockingIOError:
            held_by = os.pread(descriptor, 4096, 0).decode(errors="replace")
            os.close(descriptor)
            raise locked(path, held_by) from None
        except OSError:
            os.close(descriptor)
            raise
        return RealLock(descriptor)

    def holder(self, path: str) -> str:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return ""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, 4096, 0).decode(errors="replace") or "another process"
        finally:
            os.close(descriptor)  # and with it the lock
        return ""

    def check_writable(self, path: str) -> None:
        while not os.path.exists(path) and not os.path.islink(path):
            path = os.path.dirname(path)
        wrong = 0 if os.path.isdir(path) else errno.ENOTDIR
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            wrong = errno.EROFS
        elif not wrong and not os.access(path, os.W_OK | os.X_OK):
            wrong = errno.EACCES
        if wrong:
            raise OSError(wrong, os.strerror(wrong), path)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def file_system(self, path: str) -> str:
        path = os.path.realpath(path)
        kind, longest = "", -1
        for one in psutil.disk_partitions(all=True):  # of two at one place the later one is on top
            root = one.mountpoint.rstrip("/")
            if (path == root or path.startswith(root + "/")) and len(root) >= longest:
                kind, longest = one.fstype, len(root)
        return kind


def locked(path: str, held_by: str) -> StoreError:
    """What is raised where another holds a lock."""
    text = f"{path} is held by {held_by or 'another process'}: stop that one first, or name another directory"
    return StoreError(STORE_LOCKED, text)
