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
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's `malloc.h`."""


def keep_freed_memory() -> bool:
    """Keep freed memory, from now on and in all threads. Returns whether this C library knows how; without it all works
    as well, and some of it slower."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, MAPPED_BYTES))
