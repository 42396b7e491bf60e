"""A disk in memory, under a seed, that loses what it may lose: `SimulatedFiles`.

A file is what reading shows, its page cache, and for each page that was not flushed the contents that the disk may have
instead. A folder is what listing shows and what is on the disk; between them lie the changes of names that no
`sync_folder` has flushed. A power cut (`crash`) chooses among them (`Aftermath`). A disk may also lie about flushes, run
full, flip bits, be emptied, or be put back as it was before; and any call may fail, or be the last one before the cut.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from mantamq.store.aftermath import PAGE_BYTES, Aftermath
from mantamq.store.files import locked

_FLUSHES = ("fdatasync", "sync_folder")
PLENTY_BYTES = 1 << 40
VERSIONS = 3
"""Contents of one page, from before its last flush and since, that a power cut chooses from besides the last one."""


class PowerCut(BaseException):
    """The process is dead: nothing catches this but the test. `crash` or `kill` brings the disk back."""


class Fault(Enum):
    """How a call fails."""

    EIO = "input/output error"
    ENOSPC = "no space left"
    SHORT = "an error after a part of the bytes"
    CRASH_BEFORE = "a power cut before the call takes effect"
    CRASH_AFTER = "a power cut after the call took effect"


@dataclass(eq=False)
class Content:
    """A file.

    Attributes:
        shown: its content as reading shows it.
        older: page -> contents the disk may have instead, the last flushed one first. Not flushed: the keys.
        lost: page -> what the disk has, though the page counts as flushed: a flush has failed.
        length: in bytes, on the disk.
        holder: who has locked it, None for nobody.
    """

    shown: bytearray = field(default_factory=bytearray)
    older: dict[int, list[bytes]] = field(default_factory=dict)
    lost: dict[int, bytes] = field(default_factory=dict)
    length: int = 0
    holder: str | None = None
    _certain: bytes | None = None  # what `flushed` has found; None: something has changed since

    def page(self, number: int) -> bytes:
        return bytes(self.shown[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])

    def put(self, number: int, content: bytes) -> None:
        room = max(0, len(self.shown) - number * PAGE_BYTES)
        content = content[:room].ljust(min(room, PAGE_BYTES), b"\0")
        self._certain = None
        self.shown[number * PAGE_BYTES : number * PAGE_BYTES + len(content)] = content

    def write(self, data: bytes, offset: int) -> None:
        """Show other bytes from now on; what is on the disk for certain is what it was."""
        if not data:
            return
        self.shown.extend(bytes(max(0, offset + len(data) - len(self.shown))))
        for number in range(offset // PAGE_BYTES, (offset + len(data) - 1) // PAGE_BYTES + 1):
            older = self.older.setdefault(number, [])
            if not older:
                older.append(self.lost.pop(number, self.page(number)))
            elif len(older) < VERSIONS:
                older.append(self.page(number))
        self.shown[offset : offset + len(data)] = data

    def flushed(self) -> bytes:
        """What is on the disk for certain, page by page."""
        if self._certain is not None:
            return self._certain
        kept = bytearray(self.shown)
        for number, content in [*((number, older[0]) for number, older in self.older.items()), *self.lost.items()]:
            kept[number * PAGE_BYTES : number * PAGE_BYTES + PAGE_BYTES] = content.ljust(
                len(kept[number * PAGE_BYTES : number * PAGE_BYTES + PAGE_BYTES]), b"\0"
            )
        self._certain = bytes(kept[: self.length])
        return self._certain

    def changed(self) -> None:
        """Something else than a write has changed what is shown, and what is on the disk with it."""
        self._certain = None

    def flush(self) -> None:
        self.older.clear()
        self.length = len(self.shown)
        self._certain = None

    def fail_flush(self, after: Aftermath) -> None:
        """The pages count as flushed and go on to be shown; the disk has some of them."""
        for number, older in sorted(self.older.items()):
            on_disk = after.page(older, self.page(number))
            if on_disk != self.page(number):
                self.lost[number] = on_disk
        self.older.clear()
        self._certain = None

    def forget(self, random: Random) -> None:
        """Of pages that the disk does not have although they count as flushed, memory keeps some and drops others."""
        for number in sorted(self.lost):
            if random.random() < 0.5:
                self.put(number, self.lost.pop(number))

    def cut(self, after: Aftermath, torn: int) -> None:
        """What was in memory is gone. `torn`: a page that is torn, -1 for none."""
        for number, older in sorted(self.older.items()):
            chosen = after.torn if number == torn else after.page
            self.put(number, chosen(older, self.page(number)))
        for number, content in self.lost.items():
            self.put(number, content)
        if not after.keeps():
            del self.shown[self.length :]
        self.older, self.lost, self.length, self.holder = {}, {}, len(self.shown), None
        self._certain = None


@dataclass(eq=False)
class Folder:
    """A folder: its names as they are shown, and as they are on the disk."""

    shown: dict[str, Content | Folder] = field(default_factory=dict)
    on_disk: dict[str, Content | Folder] = field(default_factory=dict)


@dataclass(eq=False)
class Change:
    """One change of names, which happens as a whole or not at all.

    Attributes:
        names: what each name is from now on: folder, name, file or None.
        moved: the file that it is about.
        waits: the folders whose flush it waits for.
    """

    names: list[tuple[Folder, str, Content | Folder | None]]
    moved: Content | Folder
    waits: list[Folder]

    def touches(self) -> frozenset[Hashable]:
        return frozenset([(id(folder), name) for folder, name, _ in self.names]) | {id(self.moved)}

    def apply(self) -> None:
        for folder, name, node in self.names:
            if node is None:
                folder.on_disk.pop(name, None)
            else:
                folder.on_disk[name] = node


class SimulatedLock:
    def __init__(self, files: SimulatedFiles, content: Content) -> None:
        self._files = files
        self._content: Content | None = content
        self._life = files.life

    def release(self) -> None:
        if self._content is not None and self._life == self._files.life:
            self._content.holder = None
        self._content = None


class SimulatedFile:
    """One open file; it is dead after `crash` or `kill`."""

    def __init__(self, files: SimulatedFiles, path: str, content: Content, read_only: bool) -> None:
        self._files = files
        self._path = path
        self._content = content
        self._read_only = read_only
        self._life = files.life
        self._open = True
        self.size = len(content.shown)

    def _call(self, name: str) -> Fault | None:
        if self._life != self._files.life:
            raise PowerCut(f"{name} of {self._path}, which a process opened that is dead")
        if not self._open:
            raise failure(errno.EBADF, self._path)
        return self._files.call(name, self._path)

    def pread(self, count: int, offset: int) -> bytes:
        fault = self._call("pread")
        found = bytes(self._content.shown[offset : offset + count])
        self._files.end(fault, self._path)
        return found

    def pwritev(self, buffers: Sequence[bytes | memoryview], offset: int) -> None:
        fault = self._call("pwritev")
        if self._read_only:
            raise failure(errno.EBADF, self._path)
        data = b"".join(buffers)
        part = self._files.random.randrange(len(data) + 1) if fault is Fault.SHORT else len(data)
        room = self._files.room(self._content, offset + part)
        self._content.write(data[: max(0, room - offset)], offset)
        self.size = max(self.size, len(self._content.shown))
        if room < offset + part:
            raise failure(errno.ENOSPC, self._path)
        self._files.end(fault, self._path)

    def fdatasync(self) -> None:
        fault = self._call("fdatasync")
        self._files.flush(self._content, fault, self._path)

    def close(self) -> None:
        self._open = False


class SimulatedFiles:
    """A file system on a disk of its own.

    Args:
        seed: of all that is left to chance.
        lies: flushes return at once and flush nothing.
        capacity_bytes: what files may have together, in whole pages.
        kind: of the file system, as it says.

    Attributes:
        calls: calls made so far, reads among them.
        life: how many processes have used it up.
    """

    def __init__(
        self, seed: int = 0, *, lies: bool = False, capacity_bytes: int = PLENTY_BYTES, kind: str = "ext4"
    ) -> None:
        self.random = Random(seed)
        self.lies = lies
        self.capacity_bytes = capacity_bytes
        self.kind = kind
        self.calls = 0
        self.life = 1
        self._root = Folder()
        self._changes: list[Change] = []
        self._faults: dict[int, Fault] = {}
        self._off = False

    # ---- what befalls it

    def fail(self, after_calls: int, fault: Fault) -> None:
        """The call that comes after so many others (0: the next) fails, once."""
        self._faults[self.calls + after_calls] = fault

    def heal(self) -> None:
        """Failures that have not come do not come any more."""
        self._faults.clear()

    def crash(self) -> None:
        """The power goes and comes back: what was not flushed is there or not; open files and locks are gone."""
        after = Aftermath(self.random)
        kept = after.kept_changes([change.touches() for change in self._changes])
        for change, on_disk in zip(self._changes, kept, strict=True):
            if on_disk:
                change.apply()
        self._changes.clear()
        for folder in _folders(self._root):
            folder.shown = dict(folder.on_disk)
        pages = [(id(content), number) for _, content in self._contents() for number in sorted(content.older)]
        torn = dict([pages[at]] if (at := after.tears(len(pages))) >= 0 else [])
        for _, content in self._contents():
            content.cut(after, torn.get(id(content), -1))
        self.kill()

    def kill(self) -> None:
        """The process dies and the power stays: nothing is lost but open files and locks."""
        for _, content in self._contents():
            content.holder = None
            content.forget(self.random)
        self.life += 1
        self._off = False

    def image(self) -> Folder:
        """A copy of the whole disk, as listing and reading show it now."""
        return _copied(self._root)

    def durable(self, folder: str) -> dict[str, bytes]:
        """The files of a folder as far as they are certain: what a power cut now would leave if it took all it may."""
        node: Content | Folder | None = self._root
        for name in folder.strip("/").split("/") if folder.strip("/") else ():
            node = node.on_disk.get(name) if isinstance(node, Folder) else None
        names = node.on_disk if isinstance(node, Folder) else {}
        return {name: one.flushed() for name, one in sorted(names.items()) if isinstance(one, Content)}

    def put_back(self, image: Folder | None = None) -> None:
        """The power goes, and the disk is replaced by a copy of an earlier one; by an empty one if there is none."""
        self._root = _copied(image or Folder())
        self._changes.clear()
        self.kill()

    def rot(self, below: str = "/") -> tuple[str, int]:
        """One bit of a file turns over, on the disk and for whoever reads: the path, and the byte's offset."""
        found = [(path, content) for path, content in self._contents(below) if content.shown]
        path, content = self.random.choice(found)
        offset = self.random.randrange(len(content.shown))
        self.flip(path, offset, self.random.randrange(8))
        return path, offset

    def flip(self, path: str, offset: int, bit: int) -> None:
        content = self._content(path)
        content.shown[offset] ^= 1 << bit
        content.changed()

    def shorten(self, path: str, length: int) -> None:
        """Somebody cuts a file by hand."""
        content = self._content(path)
        del content.shown[length:]
        content.length = min(content.length, length)
        content.changed()

    # ---- what files ask of it

    def call(self, name: str, path: str) -> Fault | None:
        """One more call begins: what is to happen to it. Errors that leave nothing behind are raised here."""
        if self._off:
            raise PowerCut(f"{name} of {path}, after the power cut")
        fault = self._faults.pop(self.calls, None)
        self.calls += 1
        if fault is Fault.CRASH_BEFORE:
            self._off = True
            raise PowerCut(f"before {name} of {path}")
        if fault is Fault.ENOSPC and name not in _FLUSHES:
            raise failure(errno.ENOSPC, path)
        if (fault is Fault.EIO and name not in _FLUSHES) or (
            fault is Fault.SHORT and name not in (*_FLUSHES, "pwritev")
        ):
            raise failure(errno.EIO, path)
        return fault

    def end(self, fault: Fault | None, path: str) -> None:
        """A call has taken effect."""
        if fault is Fault.CRASH_AFTER:
            self._off = True
            raise PowerCut(f"after a call for {path}")
        if fault is not None:
            raise failure(errno.ENOSPC if fault is Fault.ENOSPC else errno.EIO, path)

    def flush(self, content: Content, fault: Fault | None, path: str) -> None:
        if fault in (Fault.EIO, Fault.ENOSPC, Fault.SHORT):
            content.fail_flush(Aftermath(self.random))
        elif not self.lies:
            content.flush()
        self.end(fault, path)

    def room(self, content: Content, end: int) -> int:
        """How far a file may be written that is to end at `end`, or ends behind it already."""
        have = _rounded(len(content.shown))
        if end <= have:
            return end
        return min(end, have + max(0, self.capacity_bytes - self.used_bytes) // PAGE_BYTES * PAGE_BYTES)

    # ---- `Files`

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> SimulatedFile:
        fault = self.call("create" if create_bytes else "open", path)
        folder, name = self._parent(path)
        node = folder.shown.get(name)
        if not create_bytes:
            file = SimulatedFile(self, path, _file(node, path), read_only)
            self.end(fault, path)
            return file
        if node is not None:
            raise failure(errno.EEXIST, path)
        content = Content()
        self._change(content, (folder, name, content))
        self.end(fault, path)
        file = SimulatedFile(self, path, content, False)
        try:
            file.pwritev([bytes(create_bytes)], 0)
            file.fdatasync()
        except OSError:
            self._change(content, (folder, name, None))
            raise
        return file

    def list(self, folder: str) -> list[str]:
        fault = self.call("list", folder)
        found = sorted(self._folder(folder).shown)
        self.end(fault, folder)
        return found

    def make_folder(self, path: str) -> None:
        missing = []
        while not self._is_folder(path):
            missing.append(path)
            path = os.path.dirname(path)
        if path != "/":
            self.sync_folder(os.path.dirname(path))
        for one in reversed(missing):
            fault = self.call("make_folder", one)
            folder, name = self._parent(one)
            if name in folder.shown:
                raise failure(errno.EEXIST, one)
            made = Folder()
            self._change(made, (folder, name, made))
            self.end(fault, one)
            self.sync_folder(os.path.dirname(one))

    def exists(self, path: str) -> bool:
        fault = self.call("exists", path)
        try:
            folder, name = self._parent(path)
            found = name in folder.shown
        except (FileNotFoundError, NotADirectoryError):
            found = False
        self.end(fault, path)
        return found

    def rename(self, old: str, new: str) -> None:
        fault = self.call("rename", old)
        (source, old_name), (target, new_name) = self._parent(old), self._parent(new)
        node, other = source.shown.get(old_name), target.shown.get(new_name)
        if node is None:
            raise failure(errno.ENOENT, old)
        if isinstance(other, Folder):
            raise failure(errno.EISDIR if isinstance(node, Content) else errno.ENOTEMPTY, new)
        if node is not other:
            self._change(node, (source, old_name, None), (target, new_name, node))
        self.end(fault, old)

    def unlink(self, path: str) -> None:
        fault = self.call("unlink", path)
        folder, name = self._parent(path)
        content = _file(folder.shown.get(name), path)
        self._change(content, (folder, name, None))
        self.end(fault, path)

    def sync_folder(self, path: str) -> None:
        fault = self.call("sync_folder", path)
        folder = self._folder(path)
        if fault in (Fault.EIO, Fault.ENOSPC, Fault.SHORT):
            for change in self._changes:
                if folder in change.waits:
                    change.waits = [Folder()]  # which nobody ever flushes
        elif not self.lies:
            self._sync(folder)
        self.end(fault, path)

    def lock(self, path: str, holder: str) -> SimulatedLock:
        fault = self.call("lock", path)
        folder, name = self._parent(path)
        if name not in folder.shown:
            made = Content()
            self._change(made, (folder, name, made))
        content = _file(folder.shown[name], path)
        if content.holder is not None:
            raise locked(path, content.holder)
        content.holder = holder
        content.shown[:] = holder.encode()
        content.changed()
        self.end(fault, path)
        return SimulatedLock(self, content)

    def holder(self, path: str) -> str:
        fault = self.call("holder", path)
        folder, name = self._parent(path)
        found = folder.shown.get(name)
        self.end(fault, path)
        return (found.holder or "") if isinstance(found, Content) else ""

    def check_writable(self, path: str) -> None:
        pass

    def free_bytes(self, path: str) -> int:
        fault = self.call("free_bytes", path)
        self._folder(path)
        self.end(fault, path)
        return max(0, self.capacity_bytes - self.used_bytes)

    def file_system(self, path: str) -> str:
        return self.kind

    # ---- inside

    def _folder(self, path: str) -> Folder:
        node: Content | Folder | None = self._root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            if not isinstance(node, Folder):
                raise failure(errno.ENOENT if node is None else errno.ENOTDIR, path)
            node = node.shown.get(name)
        if not isinstance(node, Folder):
            raise failure(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node

    def _is_folder(self, path: str) -> bool:
        try:
            return self._folder(path) is not None
        except OSError:
            return False

    def _parent(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        try:
            return self._folder(above), name
        except OSError as error:
            raise failure(error.errno or 0, path) from None

    def _content(self, path: str) -> Content:
        folder, name = self._parent(path)
        return _file(folder.shown.get(name), path)

    def _contents(self, below: str = "/") -> Iterator[tuple[str, Content]]:
        """All files that have a name, sorted by path."""

        def walk(path: str, folder: Folder) -> Iterator[tuple[str, Content]]:
            for name, node in sorted(folder.shown.items()):
                if isinstance(node, Folder):
                    yield from walk(f"{path}/{name}", node)
                else:
                    yield f"{path}/{name}", node

        yield from walk(below.rstrip("/"), self._folder(below))

    @property
    def used_bytes(self) -> int:
        """What all files take, in whole pages."""
        return sum(_rounded(len(content.shown)) for _, content in self._contents())

    def _change(self, moved: Content | Folder, *names: tuple[Folder, str, Content | Folder | None]) -> None:
        for folder, name, node in names:
            if node is None:
                folder.shown.pop(name, None)
            else:
                folder.shown[name] = node
        self._changes.append(Change(list(names), moved, list({id(one): one for one, _, _ in names}.values())))

    def _sync(self, folder: Folder) -> None:
        """Changes of these names are on the disk, and those that they depend on."""
        for change in self._changes:
            change.waits = [one for one in change.waits if one is not folder]
        due: set[int] = set()
        touched: set[Hashable] = set()
        for number in reversed(range(len(self._changes))):
            change = self._changes[number]
            if not change.waits or change.touches() & touched:
                due.add(number)
                touched |= change.touches()
        for number in sorted(due):
            self._changes[number].apply()
        self._changes = [change for number, change in enumerate(self._changes) if number not in due]


def failure(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _file(node: Content | Folder | None, path: str) -> Content:
    if node is None:
        raise failure(errno.ENOENT, path)
    if isinstance(node, Folder):
        raise failure(errno.EISDIR, path)
    return node


def _rounded(count: int) -> int:
    return -(-count // PAGE_BYTES) * PAGE_BYTES


def _folders(folder: Folder) -> Iterator[Folder]:
    """A folder and all below it, as they are on the disk."""
    yield folder
    for node in list(folder.on_disk.values()):
        if isinstance(node, Folder):
            yield from _folders(node)


def _copied(folder: Folder) -> Folder:
    """The folder as it is shown, flushed whole."""
    made = Folder()
    for name, node in folder.shown.items():
        if isinstance(node, Folder):
            made.shown[name] = _copied(node)
        else:
            made.shown[name] = Content(bytearray(node.shown), length=len(node.shown))
    made.on_disk = dict(made.shown)
    return made
