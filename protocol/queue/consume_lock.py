"""Whose the consume lock of a queue is, by its stream."""

from __future__ import annotations

from typing import Protocol

from ..wire.events import Own
from .applied import Applied
from .fence import Fence


class Locked(Protocol):
    """What the lock is of a queue's state: see there."""

    owner: str
    grant: int
    handovers: int
    fence: Fence


def own(state: Locked, event: Own) -> Applied:
    """The lock passes on, if it is this grant's turn."""
    if (
        event.grant != state.grant + 1
        or (state.owner and event.by != state.owner)
        or event.broker in state.fence.absent
    ):
        return Applied(effective=False)
    if event.broker and state.owner and event.broker != state.owner:
        state.handovers += 1
    state.owner = event.broker
    state.grant = event.grant
    return Applied()
