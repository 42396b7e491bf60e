"""A reason why a cluster is not whole, or is to be looked at: a sentence with a name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from ...protocol.status.alerts import KINDS, AlertStatus

WHOLE = "cluster"
"""The subject of what is about no member alone."""


class Reason(str):
    """The sentence, as it is printed.

    Attributes:
        name: one of `alerts.KINDS`.
        subject: what it is about. With the name it tells reasons apart, while figures in the sentence change.
        for_ms: for how long it has been so, where a member says that; else 0.
    """

    name: str
    subject: str
    for_ms: int

    @classmethod
    def of(cls, name: str, subject: str, text: str, for_ms: int = 0) -> Self:
        """Raises:
        KeyError: there is no such name.
        """
        KINDS[name]
        one = cls(text)
        one.name, one.subject, one.for_ms = name, subject, for_ms
        return one

    def alert(self, since: float = 0.0) -> AlertStatus:
        """The same as an alert. `since`: Unix time in seconds, 0 where it is not known."""
        severity, _, todo = KINDS[self.name]
        return AlertStatus(
            name=self.name, subject=self.subject, text=str(self), severity=severity, todo=todo, since=since
        )


class FirstSeen:
    """Remembers since when each reason holds. It is the memory of one process: the next supervisor begins anew."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def alerts(self, reasons: Iterable[Reason], now_s: float) -> list[AlertStatus]:
        """All that holds now, as alerts; what does not is forgotten.

        Args:
            now_s: Unix time in seconds.
        """
        known, self._since = self._since, {}
        found: list[AlertStatus] = []
        for reason in reasons:
            key = reason.name, reason.subject
            began_s = round(now_s - reason.for_ms / 1000, 1)
            since = self._since.setdefault(key, known.get(key, began_s))
            found.append(reason.alert(since))
        return found


def texts(reasons: Iterable[Reason]) -> list[str]:
    """The sentences alone, as plain strings."""
    return [str(reason) for reason in reasons]
