"""Bugs of alerts, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.alerts import Alerts

from .planting import planted

Patch = pytest.MonkeyPatch


def every_replica_tells_alerts(patch: Patch) -> None:
    look = Alerts.look
    patch.setattr(Alerts, "look", lambda self, levels, now_ms, speaks: look(self, levels, now_ms))


def an_alert_is_never_told_to_be_over(patch: Patch) -> None:
    look = Alerts.look

    def only_up(self: Any, levels: Any, now_ms: int, speaks: bool) -> Any:
        return [alert for alert in look(self, levels, now_ms, speaks) if alert.up]

    patch.setattr(Alerts, "look", only_up)


def an_alert_has_no_hysteresis(patch: Patch) -> None:
    begins = Alerts.__init__

    def bare(self: Any, *arguments: Any) -> None:
        begins(self, *arguments)
        for watch in self._watches:
            watch.down = watch.up

    patch.setattr(Alerts, "__init__", bare)


ALL = planted(globals())
