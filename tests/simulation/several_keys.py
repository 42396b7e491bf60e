"""Which users send by several routing keys, in some of the stories; where that goes is judged by `deliveries.py` and
`alternates.py`, that it leaves as it was put by `ledger.py`."""

from __future__ import annotations

import random

from mantamq.protocol.wire.client_frames import Transfer

STORIES = 0.4
"""The share of stories with such messages."""
SHARE = 0.3
"""Of the messages of senders without a key, in these."""
KEYS = ("x", "x.y", "x.y.z", "y", "k", "none", "none.either")


class SeveralKeys:
    """Of one story; its choices are its own, so that a story without is as it was."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"several keys in {seed}")
        self._some = self._rng.random() < STORIES

    def one(self) -> list[str]:
        """The keys of a message; none: it goes by its subject."""
        if not self._some or self._rng.random() > SHARE:
            return []
        return self._rng.sample(KEYS, self._rng.choice([1, 2, 2, 3]))


def keys_of(frame: Transfer, index: int, fixed: str | None) -> list[str]:
    """By which keys a message of a transfer goes."""
    for at, keys in frame.several:
        if at == index:
            return keys
    return [frame.keys[index] if frame.keys else fixed or ""]
