"""What a replica does beside its queue's state, where that goes by other rules than before (`queue/arrangement.py`).

Some parts are there for queues that need them alone. One that is added stays, since the broker may count on what it
says of what came before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..log.keeper import Keeper
from ..queue.observers import QueueObserver
from ..queue.settings import SELF_DESTRUCT
from .expiry import QueueTtl
from .outbox import QueueOutbox
from .relaying import sent_on
from .seeing_to import SeeingTo, seeing_to
from .verdicts import VerdictTeller

if TYPE_CHECKING:
    from .hosted_queue import HostedQueue


def rearrange(queue: HostedQueue, outbox: QueueOutbox, keeper: Keeper) -> list[QueueObserver]:
    """The rules are those of the queue's `arrangement` now. Returns the observers that are new: they have not been told
    of the event by which it is so."""
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
    return new


def _any(observers: Iterable[QueueObserver], kind: type[QueueObserver]) -> bool:
    return any(isinstance(one, kind) for one in observers)
