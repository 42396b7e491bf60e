"""When a broker is in a queue's stream again, and whether it has anything there."""

from __future__ import annotations

from typing import Protocol

from ..queue.state import QueueState
from ..wire.events import AnyEvent, Member, Rejoin, Return
from .own_events import OwnEvents


class KeptQueue(Protocol):
    """A queue that is kept here."""

    state: QueueState
    own: OwnEvents

    @property
    def serving(self) -> bool: ...


def lets_in(event: AnyEvent, broker: str, inc: int) -> bool:
    """Whether this incarnation of the broker comes back, or joins."""
    if type(event) is Rejoin:
        return (event.voter, event.inc) == (broker, inc)
    if type(event) is Return:
        return (event.voter, event.life) == (broker, inc)
    return type(event) is Member and event.present and (event.broker, event.inc) == (broker, inc)


def holds(queue: KeptQueue, broker: str) -> bool:
    """Whether its broker has anything there that it must give back before it leaves. What an older incarnation held is
    not this one's to give."""
    if not queue.serving:
        return False
    state = queue.state
    return bool(queue.own) or state.owner == broker or any(key[0] == broker for key in state.acquired)
