"""Everything a queue replica keeps for one queue: its stream, its state, its consumers, and what is to be said soon.

Two things here may wait, because nobody waits for them: acquires gather behind their deliveries, and acknowledgements
which the sequencer does not need at once gather until a message's way is over.
"""

from __future__ import annotations

from collections import deque

from .dispatch import Dispatcher
from .events import Entry
from .frames import QueueCommand
from .keeper import Keeper
from .lock import Lock
from .queue import QueueState

ACQUIRE_MS = 2
"""How long acquires may gather behind their deliveries. Nobody waits for them: only the holder of the lock delivers,
and it orders them before it settles anything or gives the lock up. So a consumer that settles at once costs one round
of ordering instead of two, and none of it competes with the delivery for a core."""
ACQUIRE_RUNS = 512
"""As many runs are enough for one event."""
ACK_MS = 2
"""How long an acknowledgement may wait that another one makes superfluous (see `frames.Append.learner`)."""


class Settling:
    """Settles gathered for one event. Attributes: runs (flat), tags (subscription id, its number, lost at once,
    acquisitions it named)."""

    __slots__ = ("runs", "tags")

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.tags: list[tuple[int, int, list[int], set[int]]] = []


class Hosting:
    """Everything this replica keeps for one queue.

    Attributes:
        state: the replicated state; `applied` is how far into the stream it goes.
        mine: what to do when my own events apply, oldest first: one entry per event submitted.
    """

    __slots__ = (
        "ack_at",
        "acquire_at",
        "acquires",
        "acquires_accepted",
        "applied",
        "buried",
        "dispatcher",
        "eager",
        "expiries",
        "interested",
        "keeper",
        "learner",
        "lock",
        "mine",
        "needs_ack",
        "purges",
        "settling",
        "state",
        "unapplied",
    )  # fmt: skip

    def __init__(self, id: str, alternate: str, broker: str) -> None:
        self.state = QueueState(id, alternate)
        self.keeper = Keeper(id, broker)
        self.dispatcher = Dispatcher(self.state)
        self.lock = Lock()
        self.applied = 0
        self.mine: deque[object] = deque()
        self.needs_ack = False  # to the sequencer
        self.ack_at = 0  # when it must be told at the latest
        self.learner = ""  # who must be told first, and at once: peer name of another replica
        self.unapplied: list[Entry] = []  # committed, to be applied when the learner has been told
        self.eager = False  # as the sequencer knows it
        self.interested = False
        self.acquires: list[int] = []
        self.acquires_accepted: list[int] = []
        self.acquire_at = 0  # when what has gathered in those is ordered at the latest
        self.settling: dict[int, Settling] = {}
        self.purges: list[QueueCommand] = []
        self.expiries: list[tuple[int, int]] = []  # heap of (expires_ms, position)
        self.buried: dict[int, list[int]] = {}  # bury id -> ranges

    def acquires_due(self, now_ms: int) -> bool:
        """Whether the acquires that have gathered are to be ordered now; sets `acquire_at` for the first that are
        not."""
        gathered = len(self.acquires) + len(self.acquires_accepted)
        if not gathered:
            return False
        if not self.acquire_at:
            self.acquire_at = now_ms + ACQUIRE_MS
        return gathered >= 3 * ACQUIRE_RUNS or now_ms >= self.acquire_at
