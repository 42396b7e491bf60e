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
        self._asked: dict[int, tuple[Reset, Answer]] = {}  # number -> what is asked, and the client's answer

    def ask(self, queue: QueueDefinition, answer: Answer, even_durable: bool = False) -> None:
        frame = Reset(queue.id, next(self._numbers), even_durable)
        self._asked[frame.number] = frame, answer
        self._outbox.lead(frame)

    def attached(self) -> None:
        """Another sequencer leads, or the same on a new link: what it was told may be lost."""
        for number, (frame, _) in list(self._asked.items()):
            if self._cluster.wiring.kept(frame.queue) is None:
                self.done(ResetDone(number))
            else:
                self._outbox.lead(frame)

    def done(self, frame: ResetDone) -> None:
        _, answer = self._asked.pop(frame.number, (None, None))
        if answer is not None:
            answer({"changed": not frame.code}, frame.code, frame.text)
