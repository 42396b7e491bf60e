"""Which replica sees to a batch of dead letters that nobody has rejected: what has expired, and what a limit of the
deliveries or of the queue has sent on.

It is the broker whose replica, or whose clients, asked for the event. When that does not keep the queue, or is out, all
others do, and so does a copy that an update has brought past the event: a batch that several see to is applied once
(`broker/dead_letters.py`).
"""

from __future__ import annotations

from ..log.keeper import Keeper
from ..machine import broker_of
from ..queue.applied import Applied
from ..queue.batches import NOBODY
from ..queue.observers import QueueObserver
from ..queue.state import QueueState
from ..wire.events import AnyEvent, Entry, Evict, Member, Rejoin, Return
from .dead_letters import DeadLetters

EXPELS = (Evict, Rejoin, Return, Member)


def seeing_to(state: QueueState, dead_letters: DeadLetters, broker: str, keeper: Keeper) -> tuple[QueueObserver, ...]:
    """Of a queue that has an alternate exchange."""
    return (SeeingTo(state, dead_letters, broker, keeper),) if state.alternate else ()


class SeeingTo(QueueObserver):
    """Args: broker: this replica's. keeper: of the queue's stream."""

    def __init__(self, state: QueueState, dead_letters: DeadLetters, broker: str, keeper: Keeper) -> None:
        self._state = state
        self._dead_letters = dead_letters
        self._broker = broker
        self._keeper = keeper

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        if done.aside and self._sees_to(broker_of(entry.origin)):
            self._dead_letters.begin(index)
        if type(event) in EXPELS:  # whoever saw to what is nobody's may be the one that is out
            for batch, (broker, _) in self._state.batches.items():
                if broker == NOBODY:
                    self._dead_letters.begin(batch)

    def _sees_to(self, asked: str) -> bool:
        away = asked in self._state.fence.absent or asked not in self._keeper.voters
        return away or asked == self._broker
