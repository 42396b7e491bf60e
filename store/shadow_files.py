"""Real files of which a shadow remembers what a power cut would leave: for tests only, on real processes.

Killing a process loses nothing that it has written: the system's memory has it. So before anything is overwritten,
renamed or removed, its old state is saved in a shadow folder, which lies in memory (tmpfs) and outlives the process;
when a flush has returned it is forgotten. After all processes were killed, `power_cut` puts back, tears or keeps, by
seed, what the shadow still has: that was not flushed (`durable.md` 10). What SQLite writes by itself has no shadow.

The shadow folder has `pages/DEVICE-INODE`, the pages of one file, each as it was before it was first written since the
last flush; `names/DEVICE-INODE`, the changes in one folder, one JSON value a line; `gone/ID`, files that have lost
their name, with their pages. A save comes before the change and the forgetting after the flush, so being killed in
between makes a power cut undo a little more, and only what nobody was told of.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from .aftermath import PAGE_BYTES, Aftermath
from .files import Files, RealFile, RealFiles

SHADOW_FOLDER = "MANTA_SHADOW"
"""The environment variable that names the shadow folder, and so switches it on."""
_HEAD = struct.Struct("<q")  # number of the page, or _LENGTH
_RECORD_BYTES = _HEAD.size + PAGE_BYTES
_LENGTH = -1
"""Instead of a page: the file's length, in the first 8 bytes."""


def system_files() -> Files:
    """The operating system's files, with a shadow if the environment asks for one."""
    folder = os.environ.get(SHADOW_FOLDER, "")
    return ShadowFiles(folder) if folder else RealFiles()


class ShadowFile(RealFile):
    """A file whose unflushed pages are saved. `saved`: their numbers, shared by all who have it open."""

    def __init__(self, path: str, descriptor: int, pages: str, saved: set[int]) -> None:
        super().__init__(path, descriptor)
        self._pages = pages
        self._saved = saved

    def pwritev(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        self._save(offset, offset + sum(memoryview(one).nbytes for one in buffers))
        super().pwritev(buffers, offset)

    def fdatasync(self) -> None:
        super().fdatasync()
        self._saved.clear()
        with suppress(FileNotFoundError):
            os.unlink(self._pages)

    def _save(self, begin: int, end: int) -> None:
        """Save the pages between two offsets as the last flush left them."""
        new = [] if end <= begin else [*range(begin // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)]
        new = [number for number in new if number not in self._saved]
        records = [_HEAD.pack(number) + self._page(number) for number in new]
        if end > self.size and _LENGTH not in self._saved:
            records.append(_HEAD.pack(_LENGTH) + _HEAD.pack(self.size).ljust(PAGE_BYTES, b"\0"))
            new.append(_LENGTH)
        if records:
            folder = os.path.dirname(self.path).encode()
            with open(self._pages, "ab", buffering=0) as out:
                if out.tell() < PAGE_BYTES:
                    out.truncate(0)
                    records.insert(0, folder.ljust(PAGE_BYTES, b"\0"))
                else:  # a process may have been killed while it saved
                    out.truncate(out.tell() - (out.tell() - PAGE_BYTES) % _RECORD_BYTES)
                out.write(b"".join(records))
            self._saved.update(new)

    def _page(self, number: int) -> bytes:
        return self.pread(PAGE_BYTES, number * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")


class ShadowFiles(RealFiles):
    """The operating system's file system with a shadow.

    Args:
        shadow: the folder of what is saved, on a tmpfs; processes that write different folders may share it.
    """

    def __init__(self, shadow: str) -> None:
        self._shadow = shadow
        self._saved: dict[str, set[int]] = {}
        for part in ("pages", "names", "gone"):
            os.makedirs(f"{shadow}/{part}", exist_ok=True)

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> RealFile:
        if create_bytes:
            if os.path.lexists(path):
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            with self._noted(path, {"name": os.path.basename(path)}):
                super().open(path, create_bytes=create_bytes).close()
            _forget(self._pages(path))  # of a file that is gone and had the same number
        descriptor = os.open(path, os.O_RDONLY if read_only else os.O_RDWR)
        pages = f"{self._shadow}/pages/{_key(os.fstat(descriptor))}"
        return ShadowFile(path, descriptor, pages, self._saved.setdefault(pages, set()))

    def rename(self, old: str, new: str) -> None:
        if os.path.dirname(old) != os.path.dirname(new):  # the store never does; it would need two flushes
            os.lstat(os.path.dirname(new))
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), old)
        names = {"old": os.path.basename(old), "name": os.path.basename(new), "file": os.lstat(old).st_ino}
        replaced = os.path.isfile(new) and not os.path.samefile(old, new)
        with self._noted(new, names | (self._saved_whole(new) if replaced else {}), replaced):
            super().rename(old, new)

    def unlink(self, path: str) -> None:
        if not os.path.isfile(path):
            os.unlink(path)  # which fails
        names = {"name": os.path.basename(path), "file": os.lstat(path).st_ino}
        with self._noted(path, names | self._saved_whole(path), True):
            super().unlink(path)

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        journal = f"{self._shadow}/names/{_key(os.stat(path))}"
        changes = _changes(journal)
        with suppress(FileNotFoundError):
            os.unlink(journal)
        for change in changes:
            if "gone" in change:
                _forget(f"{self._shadow}/gone/{change['gone']}")

    @contextmanager
    def _noted(self, path: str, change: dict[str, Any], goes: bool = False) -> Generator[None]:
        """Write down what is about to happen to the names of a folder. `goes`: the file at `path` loses its name."""
        folder = os.path.dirname(path)
        journal = f"{self._shadow}/names/{_key(os.stat(folder))}"
        pages = self._pages(path) if goes else ""
        with open(journal, "a+b", buffering=0) as out:
            out.seek(0)
            before = out.read().rfind(b"\n") + 1  # a process may have been killed behind it
            out.truncate(before)
            out.write(json.dumps({"folder": folder, **change}).encode() + b"\n")
        try:
            yield
        except OSError:
            os.truncate(journal, before)
            raise
        if goes:
            _forget(pages)
            self._saved.pop(pages, None)

    def _saved_whole(self, path: str) -> dict[str, Any]:
        """Save a file that is about to lose its name, and its unflushed pages."""
        gone = uuid.uuid4().hex
        _copy(path, f"{self._shadow}/gone/{gone}")
        with suppress(FileNotFoundError):
            _copy(self._pages(path), f"{self._shadow}/gone/{gone}.pages")
        return {"gone": gone, "was": os.lstat(path).st_ino}

    def _pages(self, path: str) -> str:
        return f"{self._shadow}/pages/{_key(os.stat(path))}"


def power_cut(shadow: str, seed: int) -> list[str]:
    """Leave on the real disk what a power cut might have left. All processes that write there must have been killed.

    Args:
        shadow: the folder that they had as `SHADOW_FOLDER`; it has nothing saved afterwards.
        seed: of what is put back, torn or kept.

    Returns:
        What was done, a line each.
    """
    after = Aftermath(Random(seed))
    done: list[str] = []
    for journal in _listed(f"{shadow}/names"):
        done += _undo_names(shadow, _changes(journal), after)
    unflushed = {pages: path for pages in _listed(f"{shadow}/pages") if (path := _path_of(pages))}
    older = {(pages, number): found for pages in unflushed for number, found in _older(pages).items()}
    at = after.tears(len(older))
    torn = list(older)[at] if at >= 0 else None
    for (pages, number), contents in older.items():
        done += _settle(unflushed[pages], number, contents, after, (pages, number) == torn)
    for part in ("names", "pages", "gone"):
        for path in _listed(f"{shadow}/{part}"):
            os.unlink(path)
    return done


def _undo_names(shadow: str, changes: list[dict[str, Any]], after: Aftermath) -> list[str]:
    """Undo those changes of a folder's names that are lost, the last first."""
    touched = [frozenset([one["name"], one.get("old", one["name"]), one.get("file", one["name"])]) for one in changes]
    kept = after.kept_changes(touched)
    done: list[str] = []
    now: dict[int, int] = {}  # a file that had lost its name -> the one that is there again in its place
    for change, on_disk in reversed(list(zip(changes, kept, strict=True))):
        if on_disk:
            continue
        path = f"{change['folder']}/{change['name']}"
        file, have = change.get("file", 0), os.lstat(path).st_ino if os.path.lexists(path) else 0
        renamed, unlinked = "old" in change, "file" in change and "old" not in change
        if have == 0 if not unlinked else have != 0:
            continue  # killed before it happened
        if renamed and have != now.get(file, file):
            continue  # the same
        done.append(f"{path}: {'there again' if unlinked else 'has not its name'}")
        if renamed:
            os.rename(path, f"{change['folder']}/{change['old']}")
        elif not unlinked:
            os.unlink(path)
        if "gone" in change:
            now[change["was"]] = _restore(shadow, change["gone"], path)
    return done


def _restore(shadow: str, gone: str, path: str) -> int:
    """Bring back a file that had lost its name, with its unflushed pages; its number now."""
    _copy(f"{shadow}/gone/{gone}", path)
    found = os.lstat(path)
    with suppress(FileNotFoundError):
        os.rename(f"{shadow}/gone/{gone}.pages", f"{shadow}/pages/{_key(found)}")
    return found.st_ino


def _settle(path: str, number: int, older: list[bytes], after: Aftermath, torn: bool) -> list[str]:
    """One page of a file, or its length: as it was shown, or as it was before."""
    with open(path, "r+b", buffering=0) as file:
        if number == _LENGTH:
            length = _HEAD.unpack_from(older[0])[0]
            if after.keeps():
                return []
            file.truncate(length)
            return [f"{path}: {length} bytes long again"]
        size = os.fstat(file.fileno()).st_size
        shown = os.pread(file.fileno(), PAGE_BYTES, number * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
        chosen = after.torn(older, shown) if torn else after.page(older, shown)
        if chosen == shown:
            return []
        os.pwrite(file.fileno(), chosen[: max(0, size - number * PAGE_BYTES)], number * PAGE_BYTES)
        return [f"{path}: page {number} {'torn' if torn else 'put back'}"]


def _older(pages: str) -> dict[int, list[bytes]]:
    """Page -> the contents it had; the length comes last, so that pages behind it are settled first."""
    with open(pages, "rb") as file:
        data = file.read()[PAGE_BYTES:]
    found: dict[int, list[bytes]] = {}
    for at in range(0, len(data) - _RECORD_BYTES + 1, _RECORD_BYTES):
        number = _HEAD.unpack_from(data, at)[0]
        found.setdefault(number, []).append(data[at + _HEAD.size : at + _RECORD_BYTES])
    return dict(sorted(found.items(), key=lambda one: (one[0] == _LENGTH, one[0])))


def _path_of(pages: str) -> str:
    """The file that saved pages are of; "": it has no name any more."""
    with open(pages, "rb") as file:
        folder = file.read(PAGE_BYTES).rstrip(b"\0").decode()
    for path in _listed(folder) if os.path.isdir(folder) else []:
        if _key(os.lstat(path)) == os.path.basename(pages):
            return path
    return ""


def _changes(journal: str) -> list[dict[str, Any]]:
    if not os.path.exists(journal):
        return []
    with open(journal, "rb") as file:
        *lines, _ = file.read().split(b"\n")  # a line without its end was not yet followed by the change
    return [json.loads(line) for line in lines]


def _copy(old: str, new: str) -> None:
    with open(old, "rb") as source, open(new, "wb") as target:
        target.write(source.read())


def _forget(saved: str) -> None:
    for path in (saved, f"{saved}.pages"):
        with suppress(FileNotFoundError):
            os.unlink(path)


def _listed(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]


def _key(found: os.stat_result) -> str:
    return f"{found.st_dev}-{found.st_ino}"
