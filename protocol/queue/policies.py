"""Which kind of queue a queue is: its policies, chosen in one place (Qpid: `QueueFactory`).

Plain queues have the first of each: first in first out, any consumer may take any message, and nothing happens to
messages by the coming of others.
"""

from __future__ import annotations

from typing import NamedTuple

from ..wire.events import Accept
from .allocator import Allocator, AnyConsumer
from .dead_lettering import DeliveryLimit, Expired
from .deduplication import Deduplication
from .delivery_order import DeliveryOrder, Fifo
from .dissolution import Dissolution, Late
from .groups import MessageGroups
from .last_value import LastValue
from .priority import ByPriority
from .producer_flow import ProducerFlow
from .refusing import Limit
from .relay import Relay
from .retries import Retries, backoff_of
from .ring import Oldest, Ring, RingAgain
from .settings import DEAD_LETTER, RING, RING_STRICT, QueueSettings
from .shares import ByShares
from .state import QueueState
from .state_policy import StatePolicy
from .time_to_live import TimeToLive
from .traits import trait_of
from .turns import ByTurns


class Policies(NamedTuple):
    """Attributes: of_state, those that are part of the queue's state."""

    order: DeliveryOrder
    allocator: Allocator
    of_state: tuple[StatePolicy, ...] = ()

    @property
    def patient(self) -> bool:
        """Whether nobody waits for an accept but producers that are held back; where it frees a group, another consumer
        may."""
        return not any(Accept in policy.events and not isinstance(policy, ProducerFlow) for policy in self.of_state)


def dead_lettering(state: QueueState, settings: QueueSettings) -> list[StatePolicy]:
    """Those by which messages go to the alternate though nobody rejects them, or are not available yet where they are
    back: before all that follow an event."""
    policies: list[StatePolicy] = []
    if settings.message_ttl_ms >= 0:
        policies.append(TimeToLive(state, settings.message_ttl_ms))
    if settings.leaves_letters:
        policies += Dissolution(state), Expired(state)
    if settings.delivery_limit:
        policies.append(DeliveryLimit(state, settings.delivery_limit))
    if settings.delays_retries:
        policies.append(Retries(state, backoff_of(settings)))
    return policies


class Kind(NamedTuple):
    """What a queue stays whatever policies come and go: they are rules for messages that are kept as they are.

    Attributes:
        of_state: those of its policies that are part of the state, but for groups. oldest: of a ring.
    """

    of_state: tuple[StatePolicy, ...] = ()
    order: DeliveryOrder | None = None
    groups: MessageGroups | None = None
    oldest: Oldest | None = None


def kind_of(state: QueueState, settings: QueueSettings) -> Kind:
    """What kind of queue one with these settings is, before anything is applied."""
    relays = (Relay(state, settings),) if settings.exchange else ()
    if (trait := trait_of(settings)) is None:
        return Kind(relays)
    if settings.group_key:
        return Kind(relays, groups=MessageGroups(state, trait))
    if settings.last_value_key:
        return Kind((LastValue(state, trait), *relays))
    if settings.fair_key:
        turns = ByTurns(state, trait)
        return Kind((turns, *relays), turns)
    by_priority = ByShares(state, trait, settings.shares) if settings.shares else ByPriority(state, trait)
    return Kind((by_priority, *relays), by_priority, oldest=by_priority.lowest)


def policies_of(state: QueueState, settings: QueueSettings, kind: Kind | None = None) -> Policies:
    """The policies of a queue with these settings, before anything is applied; or, of a queue of that kind, from the
    next event on."""
    kind = kind_of(state, settings) if kind is None else kind
    of_state = [*dead_lettering(state, settings), *kind.of_state]
    if settings.overflow in (RING, RING_STRICT, DEAD_LETTER) and settings.limited:
        ring = Ring(state, settings, kind.oldest, settings.fair_key != "" or not kind.of_state)
        of_state += ring, RingAgain(ring)
    if kind.groups is not None:  # behind what drops messages that consumers hold
        of_state.append(kind.groups)
    limit = Limit(state, settings) if settings.refuses else None
    if limit is not None:  # before all that follows what has come in
        of_state.append(limit)
    if settings.dedupes:  # a duplicate needs no room
        of_state.append(Deduplication(state, settings, limit))
    if any(stop for stop, _ in settings.thresholds):
        of_state.append(ProducerFlow(state, settings))
    if settings.leaves_letters:
        of_state.append(Late(state))
    if kind.groups is not None:
        return Policies(kind.groups, kind.groups, tuple(of_state))
    return Policies(kind.order or Fifo(state.available), AnyConsumer(), tuple(of_state))
