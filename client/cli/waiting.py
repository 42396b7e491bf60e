"""That something is waited for, said on a terminal where it takes long."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

AFTER_S = 2.0


@contextmanager
def waiting(console: Console, what: str, after_s: float = AFTER_S) -> Generator[None]:
    """Say `what` on the console from `after_s` seconds on until the block ends; where it is no terminal, nothing."""
    shown = console.status(what)
    timer = threading.Timer(after_s, shown.start)
    timer.daemon = True
    if console.is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if console.is_terminal:
            timer.join()
        shown.stop()
