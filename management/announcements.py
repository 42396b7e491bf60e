"""What is told of a cluster after each look at it: alerts that began and ended, to a log and to an address."""

from __future__ import annotations

from .alert_changes import AlertChanges
from .alert_sinks import LogSink, WebhookSink
from .view import ManagementView


class Announcements:
    """
    Args:
        webhook: address that each change of an alert is posted to; "": none.

    Raises:
        LocalError: that is no address.
    """

    def __init__(self, webhook: str = "") -> None:
        self._changes = AlertChanges()
        self._log = LogSink()
        self._webhook = WebhookSink(webhook) if webhook else None

    def looked(self, view: ManagementView) -> None:
        """There was a look. One without the status of the members says nothing of alerts."""
        if view.status is None or "status" in view.troubles:
            return
        changes = self._changes.take(view.status.alerts, view.time_s)
        self._log.tell(changes)
        if self._webhook is not None:
            self._webhook.cluster = view.status.cluster
            self._webhook.tell(changes)

    def close(self) -> None:
        """Tell nothing more."""
        if self._webhook is not None:
            self._webhook.close()
