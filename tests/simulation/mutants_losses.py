"""Bugs of queues that are lost, planted on purpose and looked for in the stories of `losses.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.log.quorum import majority
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.sequencer import lost_queues
from mantamq.protocol.sequencer.majorities import Roll

Patch = pytest.MonkeyPatch


def dropped_by_a_minority_of_blanks(patch: Patch) -> None:
    """One who has lost its log is enough."""
    patch.setattr(Roll, "hopeless", lambda self: bool(self.certain))
    patch.setattr(Roll, "nothing", lambda self: True)


def dropped_while_somebody_has_it(patch: Patch) -> None:
    """A majority of blanks is enough, whatever another still holds."""
    patch.setattr(Roll, "nothing", lambda self: True)


def missing_is_as_good_as_lost(patch: Patch) -> None:
    """A voter that is missing is taken for one that has lost its log; it may be back with it."""

    def rash(self: Any) -> bool:
        gone = self.certain.union(self.missing())
        return sum(voter in gone for voter in self.voters) >= majority(self.voters)

    patch.setattr(Roll, "hopeless", rash)


def reset_asks_nobody(patch: Patch) -> None:
    """An operator is obeyed, whatever there is of the queue."""
    patch.setattr(lost_queues, "refusal", lambda found, queue, even_durable: "")


def what_consumers_hold_is_hidden_from_rescue(patch: Patch) -> None:
    """A browser for rescue is shown no more than any browser."""
    subscribe = Dispatcher.subscribe
    patch.setattr(
        Dispatcher,
        "subscribe",
        lambda self, id, browse, accept, _, wanted, own: subscribe(self, id, browse, accept, wanted=wanted, own=own),
    )


def rescue_waits_for_a_majority(patch: Patch) -> None:
    """Where the queue ends is only told once it is sure."""

    def drain(self: Any, sure: bool) -> None:
        self.draining = True
        self.wanted += 1

    patch.setattr(Subscription, "drain", drain)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
