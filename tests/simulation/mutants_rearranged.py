"""Bugs of queues that change while they are there, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.queue_traits import QueueTraits
from mantamq.protocol.queue.arrangement import Arrangement
from mantamq.protocol.queue.configured import Configured
from mantamq.protocol.queue.refusing import Limit
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica import hosted_queue
from mantamq.protocol.wire.policy_events import Configure
from mantamq.protocol.wiring.definitions import QueueDefinition
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def an_update_forgets_what_has_become_of_it(patch: Patch) -> None:
    snapshot = QueueState.snapshot
    none = QueueState("").configured
    patch.setattr(QueueState, "snapshot", lambda self: replace(snapshot(self), configured=none))


def it_refuses_what_nobody_waits_for(patch: Patch) -> None:
    init = Limit.__init__

    def strict(self: Any, *args: Any) -> None:
        init(self, *args)
        self._since = False

    patch.setattr(Limit, "__init__", strict)


def it_refuses_before_every_broker_knows(patch: Patch) -> None:
    patch.setattr(Configured, "anybody_unaware", lambda self, absent: False)


def it_waits_for_the_word_of_brokers_that_are_out(patch: Patch) -> None:
    patch.setattr(Configured, "anybody_unaware", lambda self, absent: bool(self.unaware))


def a_broker_goes_on_as_if_it_had_no_say(patch: Patch) -> None:
    patch.setattr(QueueTraits, "forget", lambda self: None)


def whoever_says_it_later_counts_again(patch: Patch) -> None:
    configure = Arrangement._configure

    def again(self: Any, event: Configure) -> Any:
        state = self._state
        if event.index < state.configured.index:
            state.configured = replace(state.configured, index=event.index - 1)
        return configure(self, event)

    patch.setattr(Arrangement, "_configure", again)


def what_a_policy_said_stays_when_it_goes(patch: Patch) -> None:
    patch.setattr(QueueDefinition, "as_declared", property(lambda self: self))


def the_oldest_wait_for_the_next_message(patch: Patch) -> None:
    applied = Ring.applied
    patch.setattr(Ring, "applied", lambda self, event, done: type(event) is Configure or applied(self, event, done))


def nobody_tells_what_it_refuses(patch: Patch) -> None:
    patch.setattr(hosted_queue, "rearrange", lambda *args: None)


ALL = planted(globals())
