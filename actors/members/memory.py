"""What a member's memory allocator does with memory that was freed: it keeps it, for the next frame.

Frames of some hundred kilobytes come and go thousands of times a second. By itself glibc gives a freed block of that
size back to the system at once, in a state of the heap that comes about by chance and lasts, and each of its pages is
faulted in again for the next one: fifteen times what it costs to encode the frame.
"""

from __future__ import annotations

import ctypes

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
