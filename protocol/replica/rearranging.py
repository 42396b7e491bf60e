"""What a replica does beside its queue's state, where that goes by other rules than before (`queue/arrangement.py`).

Some parts are there for queues that need them alone. One that is added stays, since the broker may count on what it
says of what came before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..log.keeper import Keeper
from ..queue.applied import Applied
from ..queue.arrangement import Arrangement
from ..queue.observers import QueueObserver
from ..queue.settings import SELF_DESTRUCT
from ..queue.state import QueueState
from ..wire.events import AnyEvent, Entry
from .consumers import QueueConsumers
from .dead_letters import DeadLetters
from .expiry import Expiries, QueueTtl
from .outbox import QueueOutbox
from .relaying import Relaying, sent_on
from .seeing_to import SeeingTo, seeing_to
from .verdicts import VerdictTeller


class Parts(Protocol):
    """Of a queue that is kept here."""

    arrangement: Arrangement
    state: QueueState
    consumers: QueueConsumers
    dead_letters: DeadLetters
    expiries: Expiries
    observers: list[QueueObserver]
    verdicts: VerdictTeller | None
    prompt: VerdictTeller | Relaying | None


def rearrange(
    queue: Parts,
    outbox: QueueOutbox,
    keeper: Keeper,
    happened: tuple[int, Entry, AnyEvent, Applied] | None = None,
) -> None:
    """The rules are those of the queue's `arrangement` now. `happened`: the event by which it is so, which observers
    that are new have not been told of; None: the state has come by an update."""
    arrangement, state, new = queue.arrangement, queue.state, list[QueueObserver]()
    settings = arrangement.settings
    queue.consumers.rearranged(arrangement.policies.patient)
    queue.dead_letters.frame = sent_on(settings)
    if not _any(queue.observers, SeeingTo):
        new += seeing_to(state, queue.dead_letters, outbox.broker, keeper)
    if queue.verdicts is None and arrangement.judges:
        queue.verdicts = queue.prompt = VerdictTeller(state, outbox)
        new.append(queue.verdicts)
    if queue.verdicts is not None:
        queue.verdicts.destroys = settings.overflow == SELF_DESTRUCT
    queue.expiries.lives(settings.message_ttl_ms)
    queue.observers[:] = [one for one in queue.observers if not isinstance(one, QueueTtl)]
    queue.observers += [*new, *filter(None, [queue.expiries.ttl])]
    if happened is not None:
        for observer in new:
            observer.applied(*happened)


def _any(observers: Iterable[QueueObserver], kind: type[QueueObserver]) -> bool:
    return any(isinstance(one, kind) for one in observers)
