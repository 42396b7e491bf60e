"""For how long senders are held back, and by what: a sender is looked at now and then, and what is seen is added up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

LOOK_S = 0.05
TELL_S = 0.2
CLUSTER = "flow control of the cluster"


def cause(why: str) -> str:
    """What holds a sender back, by its `blocked`, without the figures that change meanwhile."""
    return CLUSTER if why.startswith(CLUSTER) else why


async def look(
    sender: Any, tell: Callable[[dict[str, float]], object], look_s: float = LOOK_S, tell_s: float = TELL_S
) -> None:
    """Look at a sender until this is cancelled. `tell` is given, now and then, cause -> for how many seconds more."""
    seen: Counter[str] = Counter()
    before = told = time.monotonic()
    try:
        while True:
            await asyncio.sleep(look_s)
            now = time.monotonic()
            if why := sender.blocked:
                seen[cause(why)] += now - before  # type: ignore[assignment]
            before = now
            if seen and now - told >= tell_s:
                tell(dict(seen))
                seen.clear()
                told = now
    finally:
        if seen:
            tell(dict(seen))


class HeldSenders:
    """Of all senders together. Attributes: by, cause -> for how many seconds."""

    def __init__(self) -> None:
        self.by: dict[str, float] = {}
        self._lately: dict[str, None] = {}

    def add(self, seen: dict[str, float]) -> None:
        for why, seconds in seen.items():
            self.by[why] = self.by.get(why, 0.0) + seconds
            self._lately[why] = None

    def lately(self) -> str:
        """What has held one back since the last time, for the end of a line; "" for nothing."""
        whys, self._lately = self._lately, {}
        return f", held back: {'; '.join(whys)}" if whys else ""

    def figures(self) -> dict[str, Any]:
        return {
            "held_back_s": round(sum(self.by.values()), 3),
            "held_back_by": {why: round(seconds, 3) for why, seconds in self.by.items()},
        }
