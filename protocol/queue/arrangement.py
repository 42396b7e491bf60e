"""The rules that a queue goes by now: those it was declared with, and others from where its stream says so.

`Configure` stands in the stream, so every replica changes at the same event. Messages, who holds them and what is
counted stay as they are, and so does the queue's kind; of a limit that is smaller than what is there the oldest go at
once where they would go for another message, and else it counts for what comes.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..wire.events import Event
from ..wire.policy_events import Configure
from ..wire.settings import read
from .applied import Applied
from .configured import Configured
from .groups import MessageGroups
from .policies import Policies, kind_of, policies_of
from .producer_flow import ProducerFlow
from .ring import Ring
from .settings import ROLLING, SELF_DESTRUCT, QueueSettings
from .state import QueueState
from .state_policy import Rule


class Arrangement:
    """Makes the policies of a queue part of its state, and is one of them, which other events than its own pass by.

    Args: settings: that the queue was declared with, before anything is applied.

    Attributes:
        settings, policies: those now.
    """

    events: tuple[type[Event], ...] = (Configure,)
    one_by_one = False

    def __init__(self, state: QueueState, settings: QueueSettings) -> None:
        self._state = state
        self._first = self.settings = settings
        self._kind = kind_of(state, settings)
        self._index = 0  # as which `Configured` it is
        self.policies = self._arranged(settings)
        state.arrange = self.follow

    @property
    def judges(self) -> bool:
        """Whether brokers may wait for what the queue says of a transfer."""
        return self._first.judges or self._state.configured.judged

    def follow(self) -> None:
        """The state is another one, or has just been told what becomes of it: have its rules be those of that."""
        configured = self._state.configured
        if configured.index != self._index:
            self._index = configured.index
            settings = self._first
            if configured.index:
                settings = read(QueueSettings, configured.arguments, alternate=configured.alternate)
            self.policies = self._arranged(settings)

    def _arranged(self, settings: QueueSettings) -> Policies:
        self.settings, self._state.alternate = settings, settings.alternate
        policies = policies_of(self._state, settings, self._kind)
        self._state.replace((*policies.of_state, self))
        return policies

    # ---- part of the state

    def around(self, rule: Rule) -> Rule:
        """In place of the rule by which it is nothing to a queue."""
        return self._configure

    def _configure(self, event: Configure) -> Applied:
        state, before = self._state, self._state.configured
        destroyed = self.settings.overflow == SELF_DESTRUCT and state.refused > before.refused
        if state.batches.dissolved or destroyed:
            return Applied(effective=False)
        unaware = self._unaware(event)
        if event.index <= before.index:
            state.configured = replace(before, unaware=unaware)
            return Applied(effective=False)
        judged, letters = self.judges or event.since > 0, state.alternate or before.letters
        state.configured = Configured(
            event.index, event.arguments, event.alternate, state.refused, judged, letters, unaware
        )  # fmt: skip
        self.follow()
        return self._settled(event)

    def _unaware(self, event: Configure) -> list[str]:
        """Which brokers may not know that the queue has a say, where one says what it knows."""
        were = self._state.configured.unaware if self.judges else event.brokers
        return [broker for broker in were if broker != event.broker or not event.since]

    def _settled(self, event: Configure) -> Applied:
        """What the new rules make of what is there."""
        done = Applied()
        if not any(stop for stop, _ in self.settings.thresholds):
            self._state.flow_stopped = False
        for policy in self.policies.of_state:
            at_once = isinstance(policy, Ring) and self.settings.overflow in ROLLING
            if at_once or isinstance(policy, MessageGroups | ProducerFlow):
                policy.applied(event, done)
        return done

    def applied(self, event: Any, done: Applied, /) -> None:
        """It stands in the rule's place."""

    def restored(self) -> None:
        """What it knows is part of the state."""
