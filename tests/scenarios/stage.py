"""The simulator's world without chance, and what a story may do to it: processes die, stand still and are cut off,
sequencers take over, members come and go, all by name and at the moment the story says."""

from __future__ import annotations

import random
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, TypeVar

from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.machine import Close, broker_of, is_ownership, is_sequencer

from tests.simulation.world import World

T = TypeVar("T")
FOREVER_US = 10**12


class Steady(random.Random):
    """The last of all that could be drawn: last words arrive, and a death is noticed as late as it may be."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[-1]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return (start if stop is None else stop) - 1

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


class Stage(World):
    """Three brokers with two replicas each, one sequencer and one Ownership; every frame takes 100 us.

    Attributes:
        closings: called with (broker, client, reason) when a broker closes a connection.
    """

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.closings: list[Callable[[str, str, str], None]] = []
        super().__init__(Steady(1), codec=True, fixed=True, replicas=2, slice_ms=20, limits=limits)

    def _close(self, broker: str, effect: Close) -> None:
        for told in self.closings:
            told(broker, effect.peer, effect.text)
        super()._close(broker, effect)

    def start(self, name: str) -> None:
        """A standby or a replica comes, or a broker comes back blank, as its next incarnation."""
        if is_sequencer(name):
            self._start_sequencer()
        elif is_ownership(name):
            self.start_ownership(name)
        elif "." in name:
            self.add_replica(broker_of(name))
        else:
            self._start_broker(name)
        self._expect(name)

    def join(self, broker: str) -> None:
        self.add_broker()
        self._expect(broker)

    def _expect(self, name: str) -> None:
        if name not in self.machines:
            raise ValueError(f"{name} is not the next name of its kind: there are {' '.join(sorted(self.machines))}")

    def resume(self, name: str) -> None:
        self._frozen[name] = self.now_us
        self._thaw(name)

    def heal(self, a: str, b: str) -> None:
        self.link(a, b)
