"""Bugs of redirected queues, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mantamq.protocol.wiring.redirects import Redirects
from mantamq.protocol.wiring.routing import Routing
from mantamq.protocol.wiring.wiring import Wiring

from .planting import planted

Patch = pytest.MonkeyPatch


def an_update_forgets_redirections(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:13])


def who_begins_anew_routes_as_before(patch: Patch) -> None:
    restore = Wiring.restore.__func__  # type: ignore[attr-defined]

    def routed(cls: Any, snapshot: Any) -> Any:
        wiring = restore(cls, snapshot)
        wiring._leads = {queue.name: queue.id for queue in wiring.queues()}
        return wiring

    patch.setattr(Wiring, "restore", classmethod(routed))


def routes_are_kept(patch: Patch) -> None:
    redirect = Wiring._redirect
    patch.setattr(Wiring, "_redirect", lambda self, event: replace(redirect(self, event), changed=False))


def exchanges_do_not_redirect(patch: Patch) -> None:
    by_any = Routing.route_by_any

    def route(self: Any, exchange: str, *more: Any, **also: Any) -> Any:
        leads = self._leads
        if exchange:
            self._leads = {name: queue.id for name, queue in self._queues.items()}
        try:
            return by_any(self, exchange, *more, **also)
        finally:
            self._leads = leads

    patch.setattr(Routing, "route_by_any", route)


def what_leads_to_a_deleted_queue_is_lost(patch: Patch) -> None:
    forget = Redirects.forget

    def gone(self: Any, queue: str) -> list[str]:
        forget(self, queue)
        return []

    patch.setattr(Redirects, "forget", gone)


ALL = planted(globals())
