"""What began and what ended, from look to look at the alerts of a cluster. Pure.

An alert that ends and begins again within some seconds is told once: its end is told only when it has stayed away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..protocol.status.alerts import AlertStatus

BEGAN, ENDED = "began", "ended"
SETTLE_S = 10.0


class AlertChange(NamedTuple):
    """An alert has begun, or ended.

    Attributes:
        kind: `BEGAN` or `ENDED`.
        alert: as it was when it was last seen.
        time_s: when it began, or was first missed; Unix time in seconds.
        lasted_s: for how long it was on, in seconds; 0 where it has begun.
    """

    kind: str
    alert: AlertStatus
    time_s: float
    lasted_s: float = 0.0

    @property
    def reason(self) -> str:
        """The alert's text, in one line."""
        return " ".join(self.alert.text.split())

    def line(self) -> str:
        """It in one line."""
        one = self.alert
        if self.kind == ENDED:
            return f"alert {one.name} of {one.subject} has ended after {self.lasted_s:.0f} s: {self.reason}"
        return f"alert {one.name} ({one.severity}) of {one.subject}: {self.reason}; to do: {one.todo}"

    def plain(self) -> dict[str, Any]:
        """It as plain values, for JSON. "text" is the line, which chat programs show."""
        return {
            "kind": self.kind, "text": self.line(), "time_s": self.time_s, "lasted_s": self.lasted_s,
            "alert": self.alert.plain(),
        }  # fmt: skip


@dataclass
class _On:
    """An alert that is on, or has been a moment ago. Times are Unix times in seconds."""

    alert: AlertStatus
    began_s: float
    gone_s: float | None = None


class AlertChanges:
    """Remembers which alerts are on.

    Args:
        settle_s: an alert has ended when looks have missed it for so long; seconds.
    """

    def __init__(self, settle_s: float = SETTLE_S) -> None:
        self._settle_s = settle_s
        self._on: dict[tuple[str, str], _On] = {}

    def take(self, alerts: Iterable[AlertStatus], time_s: float) -> list[AlertChange]:
        """What has changed by a newer look. A look that had no status is none: leave it out.

        Args:
            alerts: all that are on.
            time_s: of the look; Unix time in seconds.
        """
        changes: list[AlertChange] = []
        there: set[tuple[str, str]] = set()
        for alert in alerts:
            key = alert.name, alert.subject
            there.add(key)
            known = self._on.get(key)
            if known is None:
                began_s = alert.since or time_s
                self._on[key] = _On(alert, began_s)
                changes.append(AlertChange(BEGAN, alert, began_s))
            else:
                known.alert, known.gone_s = alert, None
        for key in [key for key in self._on if key not in there]:
            known = self._on[key]
            gone_s = known.gone_s = min(time_s, time_s if known.gone_s is None else known.gone_s)
            if time_s - gone_s >= self._settle_s:
                del self._on[key]
                changes.append(AlertChange(ENDED, known.alert, gone_s, max(0.0, gone_s - known.began_s)))
        return changes
