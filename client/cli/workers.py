"""Processes that a command starts to work beside it, and ends."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def no_ctrl_c() -> Generator[None]:
    """Processes started meanwhile never hear of Ctrl-C; this process does afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
