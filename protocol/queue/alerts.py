"""Alerts of one queue: when one of its levels reaches a threshold, and when it is well below again.

A level that reaches its upper threshold is told *up*; while it stays, it is told again, no sooner than the gap after
the last time; when it reaches the lower one it is told *down*, and only then can it be told up anew. What swings
between the two is told once.

Every replica looks, and one speaks for all. Whoever comes to speak tells anew what is up, and what is over since a
moment ago: the one before may have ended before it could.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .settings import QueueSettings

A_MOMENT_MS = 10_000
"""In this time one that spoke and ended is out, and another speaks."""
UNITS = {"count": "messages", "size": "bytes", "age": "seconds"}


class Alert(NamedTuple):
    """Attributes: what, a key of `UNITS`; up, or down; level, as it is; threshold, the one that it has reached."""

    what: str
    up: bool
    level: int
    threshold: int

    @property
    def text(self) -> str:
        """What is the matter, without the queue's name."""
        level = f"{self.level:,} {UNITS[self.what]}"
        if self.what == "age":
            level = f"its oldest message is {level} old"
        if self.up:
            return f"{level}, and alert_{self.what}_up is {self.threshold:,}"
        return f"{level} again, and alert_{self.what}_down is {self.threshold:,}"


class _Watch:
    """One level. Attributes: raised, it has reached `up`, and not `down` since; told, and that was told; last_ms, when
    it was told up last, None for not yet; fell_ms, when it fell while another spoke."""

    __slots__ = ("down", "fell_ms", "last_ms", "raised", "told", "up", "what")

    def __init__(self, what: str, up: int, down: int) -> None:
        self.what = what
        self.up = up
        self.down = down
        self.raised = self.told = False
        self.last_ms: int | None = None
        self.fell_ms = 0

    def look(self, level: int, now_ms: int, gap_ms: int, speaks: bool) -> Alert | None:
        found: Alert | None = None
        if not self.raised:
            self.raised = level >= self.up
        elif level <= self.down:
            if self.told and speaks:
                found = Alert(self.what, False, level, self.down)
            self.fell_ms = 0 if speaks else now_ms
            self.raised = self.told = False
        if not speaks:
            self.told, self.last_ms = self.raised, None
        elif self.fell_ms and not self.raised:
            if now_ms <= self.fell_ms + A_MOMENT_MS and level <= self.down:
                found = Alert(self.what, False, level, self.down)
            self.fell_ms = 0
        elif (due_ms := self.due_ms(level, now_ms, gap_ms)) is not None and due_ms <= now_ms:
            self.told, self.last_ms = True, now_ms
            found = Alert(self.what, True, level, self.up)
        return found

    def due_ms(self, level: int, now_ms: int, gap_ms: int) -> int | None:
        """When it is told up next; None: not before something happens."""
        if level < self.up or not self.raised or (self.told and not gap_ms and self.last_ms is not None):
            return None
        return now_ms if self.last_ms is None else self.last_ms + gap_ms


class Alerts:
    """Args: settings, with at least one threshold; raised, the levels of which an alert is not over.

    Attributes: next_ms, when there may be something to tell though nothing happens; 0: nothing.
    """

    def __init__(self, settings: QueueSettings, raised: Sequence[str] = ()) -> None:
        self.next_ms = 0
        self._gap_ms = settings.alert_repeat_gap * 1000
        self._watches = [_Watch(what, up, down) for what, (up, down) in settings.alerts.items()]
        for watch in self._watches:
            watch.raised = watch.told = watch.what in raised

    @property
    def raised(self) -> list[str]:
        """The levels of which an alert is not over."""
        return [watch.what for watch in self._watches if watch.raised]

    def look(self, levels: dict[str, int], now_ms: int, speaks: bool = True) -> list[Alert]:
        """What is to be told now.

        Args:
            levels: key of `UNITS` -> how much.
            speaks: this replica is the one that tells.
        """
        gap_ms, found, next_ms = self._gap_ms, list[Alert](), list[int]()
        for watch in self._watches:
            level = levels[watch.what]
            alert = watch.look(level, now_ms, gap_ms, speaks)
            if alert is not None:
                found.append(alert)
            if watch.raised:
                if speaks and (due_ms := watch.due_ms(level, now_ms, gap_ms)) is not None:
                    next_ms.append(max(now_ms + 1, due_ms))
            elif watch.what == "age" and levels["count"]:
                next_ms.append(now_ms + 1000 * max(1, watch.up - level))
        self.next_ms = min(next_ms, default=0)
        return found
