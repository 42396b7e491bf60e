"""The messages of an exchange's own queue (`queue/relay.py`) on their way to where its bindings lead: the pieces of
its batches, as of rejected messages, and which of them this replica sees to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ..log.keeper import Keeper
from ..queue.applied import Applied
from ..queue.observers import QueueObserver
from ..queue.origins import numbered
from ..queue.relay import AGAIN, Relay, address, as_sent
from ..queue.settings import QueueSettings
from ..queue.state import QueueState
from ..queue.state_policy import StatePolicy
from ..wire.events import AnyEvent, Entry, Evict, Member, Rejoin, Return
from ..wire.queue_frames import DeadLetter
from .dead_letters import DeadLetters, Made, to_alternate

EXPELS = (Evict, Rejoin, Return, Member)


def sent_on(settings: QueueSettings) -> Made:
    """How the pieces of a queue's batches are told."""
    if not settings.exchange:
        return partial(to_alternate, key=settings.dead_letter_key)

    def onward(state: QueueState, name: int, blobs: dict[int, bytes]) -> DeadLetter:
        expiry = [
            item for index, position in enumerate(blobs) if position in state.expiry
            for item in (index, state.expiry[position])
        ]  # fmt: skip
        return DeadLetter(
            state.id,
            name,
            settings.exchange,
            [as_sent(blob, position * settings.exchange_sequence) for position, blob in blobs.items()],
            *numbered(list(map(state.origins.of, blobs))),
            first=next(iter(blobs)),
            keys=[address(blob).keys for blob in blobs.values()],
            expiry=expiry,
            wired=state.wired,
        )

    return onward


class Relaying(QueueObserver):
    """Args: broker: this replica's. keeper: of the queue's stream.

    A batch is seen to by the broker that took its last message in, if that keeps the queue. One that joins the cluster
    takes messages in before it does, and may leave again without ever having done: no event of this stream speaks of it
    then. So what is that broker's is seen to by all others, and by itself once it comes, with a copy that was made in
    the midst of a batch.
    """

    def __init__(self, state: QueueState, relay: Relay, dead_letters: DeadLetters, broker: str, keeper: Keeper) -> None:
        self._state = state
        self._relay = relay
        self._dead_letters = dead_letters
        self._broker = broker
        self._keeper = keeper

    def expected(self) -> bool:
        """Whether this replica is to be told of each commit at once: messages do not wait here."""
        return True

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        batches = self._state.batches
        if self._relay.begun == index and self._sees_to(batches[index][0]):
            self._dead_letters.begin(index)
        elif type(event) in EXPELS:  # who took care of what is nobody's may be the one that is out
            for batch, (broker, _) in batches.items():
                if batch != AGAIN and self._sees_to(broker):
                    self._dead_letters.begin(batch)

    def _sees_to(self, broker: str) -> bool:
        """Whether what is that broker's, "" for nobody's, is seen to here."""
        away = broker in self._state.fence.absent or broker not in self._keeper.voters
        return broker in ("", self._broker) or away


def relaying(
    policies: Iterable[StatePolicy], state: QueueState, dead_letters: DeadLetters, broker: str, keeper: Keeper
) -> Relaying | None:
    """Of a queue with these policies; None: nothing goes on from it by itself."""
    found = [policy for policy in policies if isinstance(policy, Relay)]
    return Relaying(state, found[0], dead_letters, broker, keeper) if found else None
