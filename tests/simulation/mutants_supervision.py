"""Bugs of the supervisor planted on purpose, as in `mutants.py`; looked for among the stories of `supervised.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol import supervision
from mantamq.protocol.charges import Charges
from mantamq.protocol.office import Commission, Office
from mantamq.protocol.standing import Standing
from mantamq.protocol.supervision import Died, Silent, Supervision

Patch = pytest.MonkeyPatch


def acts_while_cut_off(patch: Patch) -> None:
    """Whoever answers is enough; and what was asked to end, but does not say that it does, is ended."""
    patch.setattr(Supervision, "may_act", lambda self: True)
    patch.setattr(Supervision, "gone", lambda self, name: self._silent_ms.get(name, self.now_ms) < self.now_ms - 4000)


def unavailable_is_taken_for_dead(patch: Patch) -> None:
    """What cannot be reached has died, and surely so."""
    step = Supervision.step

    def rash(self: Any, input: Any) -> Any:
        return step(self, input) + (step(self, Died(input.name, True)) if type(input) is Silent else [])

    patch.setattr(Supervision, "step", rash)


def older_orders_are_obeyed(patch: Patch) -> None:
    """A member takes the order of any supervisor, and the one that was cut off orders what it wanted before."""
    admits, confirms = Office.admits, Office.confirms

    def honest(self: Any, asker: Commission, now_ms: int) -> bool:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Office, "admits", admits)
            return confirms(self, asker, now_ms)

    acts_while_cut_off(patch)
    patch.setattr(supervision, "TOLD_MS", 1 << 60)  # nobody is killed: it is the orders that are looked at
    patch.setattr(Office, "admits", lambda self, giver: True)
    patch.setattr(Office, "confirms", honest)
    patch.setattr(Charges, "needed", lambda self, now_ms: "needed")
    patch.setattr(Standing, "needed", lambda self, now_ms: "needed")


def superseded_stays(patch: Patch) -> None:
    """It never ends, and takes the office back."""
    patch.setattr(Supervision, "_resign", lambda self, reason: False)


def number_is_not_ordered(patch: Patch) -> None:
    """A majority's word is enough: the cluster stream never says who supervises."""
    patch.setattr(Office, "confirms", lambda self, asker, now_ms: self.admits(asker) and False)


def leader_lets_itself_be_ended(patch: Patch) -> None:
    """Nobody asks itself whether it is needed, and one broker's word is enough to be gone."""
    patch.setattr(Charges, "needed", lambda self, now_ms: "")
    patch.setattr(Standing, "needed", lambda self, now_ms: "")
    gone = Supervision.gone
    enough: Callable[[Any, Any], bool] = lambda self, some: bool(set(some))  # noqa: E731

    def one_is_enough(self: Any, name: str) -> bool:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Supervision, "_enough", enough)
            return gone(self, name)

    patch.setattr(Supervision, "gone", one_is_enough)


def candidate_needs_nobody(patch: Patch) -> None:
    """A supervisor that one broker takes for one is elected, and ordered."""

    def stands(self: Any, candidate: Commission, now_ms: int) -> bool:
        self.holder, self.heard_ms = candidate, now_ms
        return True

    patch.setattr(Office, "stands", stands)
    patch.setattr(Office, "out_of_reach", lambda self, now_ms, rank, others, brokers: self.silent_ms(now_ms) > 1500)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
