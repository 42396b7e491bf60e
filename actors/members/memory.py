"""What a member's memory allocator does with memory that was freed: it keeps it, for the next frame. And how much
memory a process has, of how much (`Gauge`).

Frames of some hundred kilobytes come and go thousands of times a second. By itself glibc gives a freed block of that
size back to the system at once, in a state of the heap that comes about by chance and lasts, and each of its pages is
faulted in again for the next one: fifteen times what it costs to encode the frame.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import psutil

from ...protocol.machine import Measured

KEPT_BYTES = 64 * 1024 * 1024
"""At most so much free memory at the end of a heap stays with the process."""
MAPPED_BYTES = 32 * 1024 * 1024
"""Blocks from this size on are given back when they are freed; glibc takes no larger value."""
GROWN_BYTES = 64 * 1024 * 1024
"""A heap grows by so much at once, which costs nothing before it is used. By itself glibc makes the heap of a thread
larger by the page, each time by a call of the system: hundreds of thousands of them while a queue of a gibibyte is read
back. Those heaps are of 64 MiB, and only with all of it there is but one call for each."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""glibc's `malloc.h`."""


def keep_freed_memory() -> bool:
    """Keep freed memory, from now on and in all threads. Returns whether this C library knows how; without it all works
    as well, and some of it slower."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = (_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, MAPPED_BYTES), (_TOP_PAD, GROWN_BYTES)
    taken = [mallopt(option, size) for option, size in wanted]
    return all(taken)


CGROUPS = Path("/sys/fs/cgroup")
TRIM_SHARE = 8
"""A process gives freed memory back before it is measured, when it has more than this part of what all may have: what
is free in the middle of a heap would count as used, and flow control would never go off."""
TRIM_S = 1.0
"""Not before each measurement: giving it back, and asking for it again, takes some milliseconds."""
PAUSE_S, LEAST_S = 0.25, 0.05
"""A process measures its memory so often; and while that rises, so often at most."""
RISE_SHARE = 64
"""So small a part of what all may have is how much a process should have risen by when it is measured again: what comes
between two measurements may pass the watermark."""


class Gauge:
    """How much memory this process has.

    Args:
        watermark_bytes, share: as `Limits.memory_bytes` and `Limits.memory_share`.

    Attributes:
        pause_s: from the last measurement to the next one.
    """

    def __init__(self, watermark_bytes: int, share: float) -> None:
        self._process = psutil.Process()
        self._machine_bytes = machine_bytes()
        all_bytes = watermark_bytes or share * self._machine_bytes
        self._trim_bytes = all_bytes // TRIM_SHARE
        self._rise_bytes = all_bytes // RISE_SHARE
        self._untrimmed_s = 0.0
        self._last_bytes = self._process.memory_info().rss
        self.pause_s = PAUSE_S
        try:
            self._trim = ctypes.CDLL(None).malloc_trim
        except (OSError, AttributeError):
            self._trim = None

    def measure(self) -> Measured:
        """What it has now. `pause_s` says when to ask again."""
        resident_bytes = self._process.memory_info().rss
        self._untrimmed_s += self.pause_s
        if self._trim is not None and 0 < self._trim_bytes < resident_bytes and self._untrimmed_s >= TRIM_S:
            self._untrimmed_s = 0.0
            self._trim(0)
            resident_bytes = self._process.memory_info().rss
        self.pause_s = next_pause_s(resident_bytes - self._last_bytes, self.pause_s, self._rise_bytes)
        self._last_bytes = resident_bytes
        return Measured(resident_bytes, self._machine_bytes)


def next_pause_s(risen_bytes: int, pause_s: float, rise_bytes: float) -> float:
    """How long it takes to rise by `rise_bytes`, by how much a process rose in its last pause: within the bounds."""
    if risen_bytes <= 0:
        return PAUSE_S
    return min(PAUSE_S, max(LEAST_S, pause_s * rise_bytes / risen_bytes))


def machine_bytes(cgroups: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """The memory of this machine; that of this process's cgroup, or of one around it, if that is less."""
    return min([psutil.virtual_memory().total, *_limits(cgroups, own)])


def _limits(cgroups: Path, own: Path) -> Iterator[int]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = (cgroups / "memory", "memory.limit_in_bytes") if controllers else (cgroups, "memory.max")
        place = root / path.lstrip("/")
        for folder in (place, *place.parents):
            if folder.is_relative_to(root):
                try:
                    yield int((folder / name).read_text())
                except (OSError, ValueError):  # none there, or "max"
                    continue
