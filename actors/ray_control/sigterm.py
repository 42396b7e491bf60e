"""What becomes of a program that is asked to end (SIGTERM) while it starts a Ray, or has joined one.

Ray's core puts a handler of its own in the place of Python's when a program joins: it prints where the program is and
aborts it, and no `finally` and no exit handler runs. A cluster that was being started would stay, half there.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager


def leave() -> None:
    """From now on a program that is asked to end runs its `finally` and exit handlers, and exits with 143. One that has
    its own way to be asked keeps it; so does one that calls this in another thread than the main one."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


@contextmanager
def kept() -> Generator[None]:
    """A block in which the program joins a Ray, within which and after which it is asked to end as `leave` says."""
    leave()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGTERM, handler)  # None were one that is not Python's: nobody could put it back
