"""A broker's part in giving up queues that are lost: it asks the leader for its clients, and asks again a new one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from ..wire.majority_frames import Reset, ResetDone
from ..wiring.wiring import QueueDefinition

if TYPE_CHECKING:
    from .machine import BrokerMachine

Answer = Callable[..., Any]


class Resets:
    """Of one broker."""

    def __init__(self, broker: BrokerMachine) -> None:
        self._broker = broker
        self._numbers = count(1)
        self._asked: dict[int, tuple[str, Answer]] = {}  # number -> queue id, and whom to answer

    def ask(self, queue: QueueDefinition, answer: Answer) -> None:
        number = next(self._numbers)
        self._asked[number] = queue.id, answer
        self._broker.lead(Reset(queue.id, number))

    def attached(self) -> None:
        """Another sequencer leads, or the same on a new link: what it was told may be lost."""
        for number, (queue, _) in list(self._asked.items()):
            if self._broker.wiring.by_id(queue) is None:
                self.done(ResetDone(number))
            else:
                self._broker.lead(Reset(queue, number))

    def done(self, frame: ResetDone) -> None:
        _, answer = self._asked.pop(frame.number, ("", None))
        if answer is not None:
            answer({"changed": not frame.code}, frame.code, frame.text)
