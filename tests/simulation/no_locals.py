"""Which receivers of users want nothing of their own, and that they get none, and all else.

Who sent a message its body says: senders of a story write their names into it. What such a consumer might have is judged by
`drains.py`, `kinds.py` and `ranks.py`; that every copy knows who sent what, by `checkers.py`.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

from mantamq.protocol.wire.client_frames import AttachReceiver, Delivery

from .model import Violation, opened
from .world import World

STORIES = 0.4
"""The share of stories with such receivers."""
SHARE = 0.5
"""Of the receivers of users, in these."""
SENDS = 0.7
"""Of those, such as send to the same queue."""
_NAMED = re.compile(rb"([^/]+)/\d+:")


@lru_cache(maxsize=65_536)
def sender_of(blob: bytes) -> str:
    """The client that a message, as it is on the wire, says it is from; "": it does not say."""
    fields = opened(blob)
    body = fields[0] if fields and isinstance(fields[0], bytes) else blob
    named = _NAMED.match(body)
    return named[1].decode() if named else ""


def others(own: str, blob: bytes) -> bool:
    """Whether a consumer that wants nothing of the client `own` may have a message; "": it may have all."""
    return not own or sender_of(blob) != own


class NoLocals:
    """Of one story; its choices are its own, so that a story without is as it was. `judged`: messages that came to such
    receivers."""

    def __init__(self, world: World, seed: int) -> None:
        self._rng = random.Random(f"no_local of {seed}")
        self._some = self._rng.random() < STORIES
        self.judged = 0
        self._asked: dict[tuple[str, int], bool] = {}  # (client, handle) -> what it says at every broker
        world.watch(sent={AttachReceiver: self._asks, Delivery: self._gives})

    def one(self) -> bool:
        """Of a new receiver."""
        return self._some and self._rng.random() < SHARE

    def sends(self) -> bool:
        """Whether its user sends to the queue as well."""
        return self._rng.random() < SENDS

    def _asks(self, source: str, target: str, frame: AttachReceiver) -> None:
        name = source.partition("~")[0], frame.handle
        if self._asked.setdefault(name, frame.no_local) != frame.no_local:
            raise Violation(f"{source} is no_local {self._asked[name]} on {frame.handle}, and tells {target} {frame}")

    def _gives(self, source: str, target: str, frame: Delivery) -> None:
        client = target.partition("~")[0]
        if self._asked.get((client, frame.handle)):
            self.judged += len(frame.blobs)
            if own := [blob for blob in frame.blobs if not others(client, blob)]:
                raise Violation(f"{target} wants nothing of its own on {frame.handle}, and {source} gives it {own[:3]}")
