"""In some stories queues that name no limit have the cluster's: it is ordered with their declaration. Behind that
`model.py` takes it as any other, by the arguments in the stream."""

from __future__ import annotations

import random

from mantamq.protocol.wire.events import AnyEvent, DeclareQueue

from .checkers import Watcher
from .model import Violation

SHARE = 0.1
"""The share of stories in which there is such a limit."""
BYTES = (1_000, 2_000, 10_000)


def drawn(seed: int) -> int:
    """The limit of a story, in bytes; 0: its queues have none that they do not name."""
    rng = random.Random(f"default limit of {seed}")
    return rng.choice(BYTES) if rng.random() < SHARE else 0


def roomy(limit: int) -> dict[str, int]:
    """The arguments of the queue of the rejected, which must take all of them: where there is a default it names
    another limit."""
    return {"qpid.max_size": 1 << 40} if limit else {}


class Defaults:
    """Whoever names no limit has this one, whichever broker was asked, and nobody else has.

    Attributes:
        judged: declarations that name no limit, where there is a default.
    """

    def __init__(self, watch: Watcher, limit: int) -> None:
        self.limit = limit
        self.judged = 0
        watch.on_wiring.append(self._ordered)

    def _ordered(self, event: AnyEvent) -> None:
        if not isinstance(event, DeclareQueue) or "manta.exchange" in event.arguments:
            return
        said = event.arguments
        filled_in = set(said.get("manta.by_default", ()))
        if "manta.dead_letters" in filled_in and not (event.alternate and said["manta.dead_letters"] == "all"):
            raise Violation(f"{event.name} has no alternate, and its dead letters from its broker: {said}")
        filled_in.discard("manta.dead_letters")
        named = {"qpid.max_count", "qpid.max_size"} & (said.keys() - filled_in)
        if named or not self.limit:
            if filled_in:
                raise Violation(f"{event.name} has its limits from its client, and {filled_in} from its broker: {said}")
            return
        self.judged += 1
        if "qpid.max_size" not in filled_in or said["qpid.max_size"] != self.limit:
            raise Violation(f"{event.name} names no limit, and has not the {self.limit} bytes of the cluster: {said}")
