"""A broker's part in giving up queues that are lost: it asks the leader for its clients, and every later leader."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ..log.outbox import FollowerOutbox
from ..wire.majority_frames import Reset, ResetDone
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState

Answer = Callable[..., Any]


class Resets:
    """The resets that one broker's clients have asked for."""

    def __init__(self, outbox: FollowerOutbox, cluster: ClusterState) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._numbers = count(1)
        self._asked: dict[int, tuple[str, Answer]] = {}  # number -> queue id, and the client's answer

    def ask(self, queue: QueueDefinition, answer: Answer) -> None:
        number = next(self._numbers)
        self._asked[number] = queue.id, answer
        self._outbox.lead(Reset(queue.id, number))

    def attached(self) -> None:
        """Another sequencer leads, or the same on a new link: what it was told may be lost."""
        for number, (queue, _) in list(self._asked.items()):
            if self._cluster.wiring.by_id(queue) is None:
                self.done(ResetDone(number))
            else:
                self._outbox.lead(Reset(queue, number))

    def done(self, frame: ResetDone) -> None:
        _, answer = self._asked.pop(frame.number, ("", None))
        if answer is not None:
            answer({"changed": not frame.code}, frame.code, frame.text)
