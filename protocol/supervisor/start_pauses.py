"""When a process that cannot start is started again: after a pause that grows. Pure: the time comes from the caller.

For a process that nothing waits for, as the page's: one that fails each time would hold up the starts of others, and
its reason is mostly one that only an operator can mend.
"""

from __future__ import annotations

FIRST_MS, LONGEST_MS = 1000, 60_000
"""Each pause is twice the last one, within these."""
SETTLED_MS = 60_000
"""A process that lived this long was good: its end is a new trouble, and it is started again at once."""


class StartPauses:
    """Of one process, as one supervisor knows it.

    Attributes:
        why: it could not start, or ended soon after; "" while neither is so.
    """

    def __init__(self) -> None:
        self.why = ""
        self._pause_ms = 0
        self._again_ms = 0
        self._began_ms: int | None = None

    def began(self, now_ms: int) -> None:
        """It has started."""
        self._began_ms, self.why = now_ms, ""

    def failed(self, now_ms: int, why: str) -> None:
        """It could not start."""
        self._began_ms, self.why = None, why
        self._pause_ms = min(max(2 * self._pause_ms, FIRST_MS), LONGEST_MS)
        self._again_ms = now_ms + self._pause_ms

    def ended(self, now_ms: int) -> None:
        """It has started, and is gone. Can be said again."""
        if self._began_ms is None:
            return
        lived_ms = now_ms - self._began_ms
        if lived_ms < SETTLED_MS:
            self.failed(now_ms, f"it ended {lived_ms / 1000:.0f} s after it had started")
        else:
            self._began_ms, self._pause_ms, self._again_ms = None, 0, now_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long until it may be started again, 0 for now."""
        return max(0, self._again_ms - now_ms) if self._began_ms is None else 0
