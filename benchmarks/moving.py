"""How fast an operator's move goes: 100,000 messages from one queue to another of a cluster of three. The bar is
100,000 messages a second."""

from __future__ import annotations

import statistics
import time

from ..client import connect
from . import manta
from .results import Collection

BODY = bytes(100)
TIMES = 5


def measure(addresses: list[str], count: int, into: Collection) -> None:
    """Add the rate of moves of `count` messages, there and back, at a cluster with these addresses."""
    with connect(addresses) as connection:
        for name in ("here", "there"):
            connection.declare_queue(name)
        sender = connection.session().sender("here", capacity=manta.WINDOW)
        for _ in range(count):
            sender.send(BODY)
        sender.sync()
        rates: list[float] = []
        for turn in range(TIMES):
            source, to = ("here", "there") if turn % 2 == 0 else ("there", "here")
            start = time.perf_counter()
            moved = connection.move(source, to).moved
            rates.append(moved / (time.perf_counter() - start))
            if moved != count:
                raise RuntimeError(f"{count} messages were in {source!r}, and {moved} have gone to {to!r}")
    into.add("manta", "moving", "messages_per_s", "messages/s", statistics.median(rates))
