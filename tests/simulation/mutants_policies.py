"""Bugs of policies, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.wire.policy_events import DropPolicy
from mantamq.protocol.wiring import name_patterns, queue_policies
from mantamq.protocol.wiring.queue_policies import QueuePolicies
from mantamq.protocol.wiring.wiring import Wiring

from .planting import planted

Patch = pytest.MonkeyPatch


def an_update_forgets_policies(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:10])


def the_first_name_wins(patch: Patch) -> None:
    def of(self: Any, name: str, operator: bool = False) -> Any:
        return next((one for one in self.all(operator) if name_patterns.matches(one.pattern, name)), None)

    patch.setattr(QueuePolicies, "of", of)


def a_policy_goes_before_the_declaration(patch: Patch) -> None:
    given = queue_policies._given

    def first(queue: Any, policy: Any, may_be_alternate: Any) -> Any:
        own = {name: value for name, value in queue.arguments.items() if name not in policy.arguments}
        return given(queue.__class__(queue.id, queue.name, own, queue.durable), policy, may_be_alternate)

    patch.setattr(queue_policies, "_given", first)


def a_policy_that_is_dropped_stays(patch: Patch) -> None:
    order = QueuePolicies.order
    patch.setattr(
        QueuePolicies, "order", lambda self, event: True if isinstance(event, DropPolicy) else order(self, event)
    )


ALL = planted(globals())
