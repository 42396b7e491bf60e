"""Bugs of patterns and of what is made by them, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker import on_demand
from mantamq.protocol.broker.on_demand import OnDemand
from mantamq.protocol.wire.pattern_events import DropPattern
from mantamq.protocol.wiring import name_patterns
from mantamq.protocol.wiring.node_patterns import NodePatterns
from mantamq.protocol.wiring.wiring import Wiring

from .planting import planted

Patch = pytest.MonkeyPatch


def the_first_pattern_wins(patch: Patch) -> None:
    def of(self: Any, name: str) -> Any:
        return next((one for one in self.snapshot() if name_patterns.matches(one.pattern, name)), None)

    patch.setattr(NodePatterns, "of", of)


def a_pattern_that_is_dropped_makes_more(patch: Patch) -> None:
    order = NodePatterns.order
    patch.setattr(
        NodePatterns, "order", lambda self, event: True if isinstance(event, DropPattern) else order(self, event)
    )


def who_comes_back_has_it_made_again(patch: Patch) -> None:
    patch.setattr(on_demand, "_came_back", lambda session, frame: False)


def who_finds_it_made_is_not_attached(patch: Patch) -> None:
    declared = OnDemand._declared

    def only_by_who_made_it(self: Any, attach: Any, session: Any, frame: Any, value: Any = None, *more: str) -> None:
        if value is None or value["changed"]:
            declared(self, attach, session, frame, value, *more)

    patch.setattr(OnDemand, "_declared", only_by_who_made_it)


def an_update_forgets_patterns(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:13])


ALL = planted(globals())
