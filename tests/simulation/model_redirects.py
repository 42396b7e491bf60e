"""What redirections there are by the log, as the model says it: by the rule as people are told it."""

from __future__ import annotations

from collections.abc import Mapping

from mantamq.protocol.wire.redirect_events import Redirect

PREFIX = "tr"
"""What the names of queues begin with that are redirected: others may delete them."""


class ModelRedirects(dict[str, str]):
    """Source -> target, by their names."""

    def apply(self, event: Redirect, ids: Mapping[str, str], owned: Mapping[str, str], relays: set[str]) -> None:
        """`owned`: id of a queue -> the client that has it for itself. `relays`: queues that are exchanges' own."""
        source, target = event.source, event.target
        for name in (source, target):
            if event.client and owned.get(ids.get(name, ""), event.client) != event.client:
                return
        if not target:
            self.pop(source, None)
            return
        there = {source, target} <= ids.keys() - relays
        if there and source != target and source not in self and target not in self and source not in self.values():
            self[source] = target

    def left(self, ids: Mapping[str, str]) -> None:
        """One whose queue is gone has ended."""
        for source, target in list(self.items()):
            if source not in ids or target not in ids:
                del self[source]
