"""Which disk figures of durable queues are of, and whether it confirms a flush from a cache.

A flush that is confirmed sooner than any medium can write was confirmed from a memory: a protected one (a capacitor, a
battery, a storage server), or one that forgets. No program can tell which, so the report says what the device says
and how long a plain flush takes, and the reader knows their disks.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
FLUSHES = 1000
FILE_PAGES = 4096
CACHE_MS = 0.3
"""No flash cell and no platter is written faster than this."""
NO_DISK = {"tmpfs", "ramfs", "devtmpfs"}


@dataclass(frozen=True)
class Disk:
    """A folder's disk.

    Attributes:
        path, file_system: where, and of what kind.
        device: the block device, "" for none.
        write_cache: what that says of its own: "write back" (it has one that forgets, and is told to flush it), "write
            through" (it has none, or one that does not forget), "" if it says nothing.
        p50_ms, p99_ms: of a flush of one page into space that was written before.
    """

    path: str
    file_system: str
    device: str
    write_cache: str
    p50_ms: float
    p99_ms: float

    @property
    def cached(self) -> bool:
        """Whether flushes are confirmed from a memory."""
        return self.p50_ms < CACHE_MS

    def text(self) -> str:
        said = f"says {self.write_cache!r} of its cache" if self.write_cache else "says nothing of its cache"
        told = (
            "faster than any medium: it is confirmed from a cache, so the figures hold where that survives a power cut"
            if self.cached
            else "it may well have reached the medium"
        )
        return (
            f"disk: {self.path} is {self.file_system} on {self.device or 'no block device'}, which {said}; a plain "
            f"4 KiB fdatasync takes p50 {self.p50_ms:.3f}, p99 {self.p99_ms:.3f} ms: {told}"
        )


def look(folder: str) -> Disk:
    """Measure the disk of a folder.

    Raises:
        RuntimeError: it is not on a disk.
        OSError: of the disk.
    """
    from ..store.files import RealFiles

    kind = RealFiles().file_system(folder)
    if kind in NO_DISK:
        raise RuntimeError(f"{folder} is in memory ({kind}): name a directory on a disk by --data")
    device = _device(os.stat(folder).st_dev)
    cache = device / "queue" / "write_cache"
    took_ms = sorted(_flushes_ms(folder))
    return Disk(
        folder, kind, device.name, cache.read_text().strip() if cache.is_file() else "", took_ms[len(took_ms) // 2],
        took_ms[int(len(took_ms) * 0.99)],
    )  # fmt: skip


def _device(number: int) -> Path:
    """The whole device's folder in sysfs; an empty path if there is none."""
    found = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if not found.is_dir():
        return Path()
    return found.parent if (found / "partition").exists() else found


def _flushes_ms(folder: str) -> list[float]:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        at = file.fileno()
        os.pwrite(at, bytes(PAGE_BYTES * FILE_PAGES), 0)
        os.fsync(at)
        took_ms: list[float] = []
        for number in range(FLUSHES):
            os.pwrite(at, os.urandom(PAGE_BYTES), number % FILE_PAGES * PAGE_BYTES)
            start = time.perf_counter()
            os.fdatasync(at)
            took_ms.append((time.perf_counter() - start) * 1e3)
    return took_ms
