"""The message ids that have come to a queue lately, and when: part of its replicated state, and bounded.

An id is known by its encoded form, so 1, 1.0 and "1" are three; a long one by its digest. Time is what the brokers that
took messages in have said, and never goes back: the latest of it counts, so who knows an id is the same on every
replica.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from itertools import groupby
from typing import Any

import msgspec

from ..ranges import pairs

ID_BYTES = 32
"""Of a longer encoded id the digest is kept."""
DIGEST_BYTES = 16
_DIGEST = b"\xc1"
"""How no encoded value begins."""
_encode = msgspec.msgpack.Encoder().encode


def key_of(message_id: Any) -> bytes | None:
    """By what an id is known; None: a message without one."""
    if message_id is None:
        return None
    encoded = _encode(message_id)
    return encoded if len(encoded) <= ID_BYTES else _DIGEST + blake2b(encoded, digest_size=DIGEST_BYTES).digest()


class KnownIds:
    """Attributes: now_ms, the latest time that any message brought. A queue that looks at no ids knows none."""

    __slots__ = ("_at", "_order", "now_ms")

    def __init__(self) -> None:
        self._at: dict[bytes, int] = {}  # id -> when it came
        self._order: deque[bytes] = deque()  # the same ids, the oldest first: a dictionary's first one is slow to find
        self.now_ms = 0

    def __contains__(self, id: bytes) -> bool:
        return id in self._at

    def __len__(self) -> int:
        return len(self._at)

    def none_of(self, ids: list[bytes]) -> bool:
        """Whether none of these is known, and none comes twice."""
        return self._at.keys().isdisjoint(ids) and len(set(ids)) == len(ids)

    def passed(self, at_ms: int, window_ms: int) -> None:
        """It is that late by a message: ids that are older than the window (0: there is none) are forgotten."""
        if at_ms <= self.now_ms:
            return
        self.now_ms = at_ms
        at, order = self._at, self._order
        while window_ms and order and at[order[0]] <= at_ms - window_ms:
            del at[order.popleft()]

    def came(self, ids: list[bytes], most: int) -> None:
        """These, which are not known, have come now; of more than `most` the oldest are forgotten."""
        at, order = self._at, self._order
        order.extend(ids)
        at.update(dict.fromkeys(ids, self.now_ms))
        while len(order) > most:
            del at[order.popleft()]

    def told(self) -> dict[str, list[Any]]:
        """As fields of a snapshot: the ids, the oldest first, and the time now with [how many came, when, ...]."""
        if not self.now_ms and not self._at:
            return {}
        runs = [n for ms, run in groupby(self._at[id] for id in self._order) for n in (sum(1 for _ in run), ms)]
        return {"ids": list(self._order), "id_times": [self.now_ms, *runs]}

    def assign(self, ids: list[bytes], id_times: list[int]) -> None:
        """Take over what was told."""
        self.now_ms = id_times[0] if id_times else 0
        times = [ms for count, ms in pairs(id_times[1:]) for _ in range(count)]
        self._order = deque(ids)
        self._at = dict(zip(ids, times, strict=False))
