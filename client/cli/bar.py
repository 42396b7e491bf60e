"""How far something is that takes long."""

from __future__ import annotations

import time
from typing import Self

from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn

from .console import err

BAR_AFTER_S = 2.0


class Bar:
    """A progress bar that shows only what takes long.

    Args:
        what: is worked on.
        count: how much of it is done, in its own units.
    """

    def __init__(self, what: str, count: ProgressColumn) -> None:
        self._what = what
        self._count = count
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.hide()

    def show(self, part: str, done: int, total: int) -> None:
        """So much of a part is done."""
        if self._bar is None:
            if time.monotonic() - self._began < BAR_AFTER_S or not err.is_terminal:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), self._count, TimeRemainingColumn())
            self._bar = Progress(*columns, console=err, transient=True)
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, description=f"{self._what} {part}", completed=done, total=total)

    def hide(self) -> None:
        """Take it away, so that lines can be printed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
