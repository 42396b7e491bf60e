"""A receiver that is not attached yet, and what is called when something counts everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..wire.queue_frames import Consume
from .session import ReceiverLink, Session

Tell = Callable[[], None]
SHARED: tuple[str, int] = ("", 0)
"""The claim of consumers that share a queue."""


class PendingReceiver(NamedTuple):
    """Attributes: claim, by which it is to have the queue alone, or its place in line, as in `InUse`."""

    session: Session
    link: ReceiverLink
    consume: Consume
    claim: tuple[str, int] = SHARED
