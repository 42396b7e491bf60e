"""Bugs of the two Ownerships planted on purpose, as in `mutants.py`; looked for among the stories of `locks.py`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.lock.duty import Duty
from mantamq.protocol.lock.ownership import OwnershipMachine, next_interested
from mantamq.protocol.machine import OWNERSHIP
from mantamq.protocol.replica.ownerships import Ownerships
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.events import Own, encode_event

Patch = pytest.MonkeyPatch


def nobody_else_is_named(patch: Patch) -> None:
    """The first is on duty for ever, whatever becomes of it: as when there was one."""
    patch.setattr(Duty, "look", lambda self, now_ms: None)


def only_a_broken_link_counts(patch: Patch) -> None:
    """An Ownership that stands still, or whose packets vanish, stays on duty until its link breaks."""
    init = Duty.__init__

    def slow(self: Any, timing: Timing, *told: Any) -> None:
        init(self, timing, *told)
        self._timing = SimpleNamespace(suspect_ms=60_000, broken_ms=60_000)

    patch.setattr(Duty, "__init__", slow)


def only_the_first_is_told(patch: Patch) -> None:
    """The Ownership that stands by knows nothing when it comes on duty."""

    def say(self: Any, frame: Any) -> None:
        if OWNERSHIP in self._linked:
            self._outbox.send(OWNERSHIP, frame)

    patch.setattr(Ownerships, "say", say)


def what_was_asked_before_is_waited_for(patch: Patch) -> None:
    """An Ownership that comes on duty takes its own grants of the last time, and those told by the other, for done."""
    named = OwnershipMachine._named

    def trusting(self: Any, frame: Any) -> None:
        before = {name: (queue.granting, queue.told) for name, queue in self._queues.items()}
        named(self, frame)
        for name, (granting, told) in before.items():
            self._queues[name].granting, self._queues[name].told = granting, told
        self._changed.clear()

    patch.setattr(OwnershipMachine, "_named", trusting)


def who_comes_on_duty_takes_the_lock(patch: Patch) -> None:
    """It does not know what its predecessor has told the owner, so it grants anew over the owner's head."""
    named = OwnershipMachine._named

    def rash(self: Any, frame: Any) -> None:
        before = self.on_duty
        named(self, frame)
        for name, queue in self._queues.items() if self.on_duty and not before else ():
            other = next_interested(queue.interested, queue.owner)
            if queue.owner and other:
                self.submitter.gather(name, encode_event(Own(other, queue.grant + 1, queue.owner)))

    patch.setattr(OwnershipMachine, "_named", rash)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
