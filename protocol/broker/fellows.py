"""What the other brokers know and nobody else: a broker asks them all, by the sequencer, and waits for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from ..log.outbox import FollowerOutbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.frame import Frame
from ..wire.statistics_frames import FellowsAsked, FellowTold

Answers = Mapping[str, dict[str, Any]]


class _Asked(NamedTuple):
    since_ms: int
    missing: set[str]
    answers: dict[str, dict[str, Any]]
    then: Callable[[Answers, list[str]], None]


class Fellows:
    """Args:
    broker, inc: this broker, and its incarnation.
    addresses: broker -> client address, of those that take clients.
    local: what this one knows, for the named parts.
    """

    def __init__(
        self, outbox: FollowerOutbox, broker: str, inc: int, addresses: Callable[[], Mapping[str, str]],
        local: Callable[[list[str]], dict[str, Any]], timing: Timing = DEFAULT_TIMING,
    ) -> None:  # fmt: skip
        self._outbox = outbox
        self._broker = broker
        self._inc = inc
        self.addresses = addresses
        self._local = local
        self._limit_ms = timing.question_ms
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}

    def ask(self, what: list[str], then: Callable[[Answers, list[str]], None]) -> None:
        """`then` is told broker -> its answer, this one's among them, and who has not answered in time."""
        missing = set(self.addresses()) - {self._broker}
        answers = {self._broker: self._local(what)}
        if not missing:
            then(answers, [])
            return
        number = next(self._numbers)
        self._asked[number] = _Asked(self._outbox.now_ms, missing, answers, then)
        self._outbox.lead(FellowsAsked(self._broker, self._inc, number, what))

    def rules(self) -> dict[type[Frame], Callable[[str, Any], None]]:
        return {FellowsAsked: self._heard, FellowTold: self._told}

    def overdue(self, now_ms: int) -> None:
        """Do without those that have not answered, and at once where these have all left since."""
        if not self._asked:
            return
        there = self.addresses().keys()
        for number, asked in list(self._asked.items()):
            if now_ms - asked.since_ms >= self._limit_ms or asked.missing.isdisjoint(there):
                del self._asked[number]
                asked.then(asked.answers, sorted(asked.missing))

    def _heard(self, peer: str, frame: FellowsAsked) -> None:
        if frame.asker != self._broker:
            value = self._local(frame.what)
            self._outbox.lead(FellowTold(frame.asker, frame.inc, frame.number, self._broker, value))

    def _told(self, peer: str, frame: FellowTold) -> None:
        asked = self._asked.get(frame.number)
        if (frame.asker, frame.inc) != (self._broker, self._inc) or asked is None or frame.broker not in asked.missing:
            return
        asked.missing.remove(frame.broker)
        asked.answers[frame.broker] = frame.value
        if not asked.missing:
            del self._asked[frame.number]
            asked.then(asked.answers, [])
