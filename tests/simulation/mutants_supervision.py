"""Bugs of the supervisor planted on purpose, as in `mutants.py`; looked for among the stories of `supervised.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from mantamq.protocol.broker.lifecycle import Lifecycle
from mantamq.protocol.sequencer.mandate import Mandate
from mantamq.protocol.supervisor import layout
from mantamq.protocol.supervisor.change_deeds import (
    JOIN,
    LEAVE,
    ForgetBroker,
    Introduce,
    Looked,
    Resumed,
    Started,
    Tell,
    Undo,
)
from mantamq.protocol.supervisor.changes import Changes
from mantamq.protocol.supervisor.office import Commission, Office
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.supervisor.supervision_deeds import Died, Known, Launched, Silent
from mantamq.protocol.timing import Timing

from .supervised import play_members, play_return, play_together

Patch = pytest.MonkeyPatch


def acts_while_cut_off(patch: Patch) -> None:
    """Any answer is enough to act; and a process that was asked to end, but does not say that it does, is ended."""
    patch.setattr(Supervision, "may_act", lambda self: True)
    patch.setattr(Supervision, "gone", lambda self, name: self._silent_ms.get(name, self.now_ms) < self.now_ms - 4000)


def unavailable_is_taken_for_dead(patch: Patch) -> None:
    """A process that cannot be reached has died, and surely so."""
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
    timing, init = Timing(), Supervision.__init__
    msgspec.structs.force_setattr(
        timing, "end_told_ms", 1 << 60
    )  # nobody is killed: it is the orders that are looked at
    patch.setattr(
        Supervision, "__init__", lambda self, *given, **options: init(self, *given, **options | {"timing": timing})
    )
    patch.setattr(Office, "admits", lambda self, giver: True)
    patch.setattr(Office, "confirms", honest)
    patch.setattr(Mandate, "needed", lambda self, now_ms: "needed")
    patch.setattr(Lifecycle, "needed", lambda self, now_ms: "needed")


def superseded_stays(patch: Patch) -> None:
    """It never ends, and takes the office back."""
    patch.setattr(Supervision, "_resign", lambda self, reason: False)


def number_is_not_ordered(patch: Patch) -> None:
    """A majority's word is enough: the cluster stream never says who supervises."""
    patch.setattr(Office, "confirms", lambda self, asker, now_ms: self.admits(asker) and False)


def leader_lets_itself_be_ended(patch: Patch) -> None:
    """Nobody asks itself whether it is needed, and one broker's word is enough to be gone."""
    patch.setattr(Mandate, "needed", lambda self, now_ms: "")
    patch.setattr(Lifecycle, "needed", lambda self, now_ms: "")
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


def launched_wait_for_each_other(patch: Patch) -> None:
    """Of two brokers that died together, the process that waits to begin does not confirm the other's supervisor."""
    step = Supervision.step
    patch.setattr(Supervision, "step", lambda self, input: [] if type(input) is Launched else step(self, input))


def one_in_office_takes_any_number(patch: Patch) -> None:
    """Back from a cut it sets its number above the next one's, of which it has heard from one broker only."""
    enough = Supervision._enough

    def rash(self: Any, some: Any) -> bool:
        asked_for = sys._getframe(1).f_code.co_name == "_superseded"
        return enough(
            self, dict(self._fresh()) | {b: 0 for b in self._brokers if self._died.get(b)} if asked_for else some
        )

    patch.setattr(Supervision, "_enough", rash)


# ---- members


def who_joins_or_leaves_counts_as_a_member(patch: Patch) -> None:
    """One that has left, and has died, is counted for a supervisor that is cut off and has not heard that it has left;
    and so is one that has not joined yet."""
    step = Supervision.step

    def blind(self: Any, input: Any) -> Any:
        return step(self, replace(input, changing="") if type(input) is Known else input)

    patch.setattr(Supervision, "step", blind)


def newcomer_begins_before_it_is_known(patch: Patch) -> None:
    """Its processes are told of to nobody first, and the next supervisor ends whom it does not know."""

    def hasty(step: Any, self: Any, input: Any) -> list[Any]:
        if type(input) is Started and not input.why and self.change is not None:
            return [Introduce(self.change.broker), Tell()]
        return step(self, input)

    _around(patch, hasty)


def next_supervisor_takes_nothing_up(patch: Patch) -> None:
    """A change that the last supervisor began stays half done."""
    _around(patch, lambda step, self, input: step(self, Resumed(None, {}) if type(input) is Resumed else input))


def supervisors_word_is_enough_to_leave(patch: Patch) -> None:
    """A broker that is to leave is ended: neither it nor the others are asked."""

    def hasty(step: Any, self: Any, input: Any) -> list[Any]:
        change = self.change
        if type(input) is Looked and change is not None and change.kind == LEAVE:
            return [ForgetBroker(change.broker)]
        return step(self, input)

    _around(patch, hasty)


def newcomer_that_serves_nobody_yet_is_undone(patch: Patch) -> None:
    """Whether it has begun is not looked at: whom clients are not told of is held for one that did not start."""

    def hasty(step: Any, self: Any, input: Any) -> list[Any]:
        change = self.change
        if type(input) is Looked and change is not None and change.kind == JOIN and input.begun and not input.serving:
            return [Undo(change.broker)]
        return step(self, input)

    _around(patch, hasty)


def _around(patch: Patch, what: Callable[..., list[Any]]) -> None:
    step = Changes.step
    patch.setattr(Changes, "step", lambda self, input: what(step, self, input))


# ---- places


def hosts_do_not_matter(patch: Patch) -> None:
    """A new process goes to the first node, whatever runs there, and stays."""
    patch.setattr(layout, "best", lambda nodes, *shunned: nodes[0])
    patch.setattr(layout, "astray", lambda *of: None)


def nobody_moves_to_a_host_that_is_back(patch: Patch) -> None:
    patch.setattr(layout, "uneven", lambda brokers, hosts: None)


def newcomer_goes_where_most_are(patch: Patch) -> None:
    """One more broker goes to the fullest host, and then it moves for ever."""

    def fullest(nodes: Any, brokers: Any) -> Any:
        hosts = [host for _, host in brokers]
        return max(nodes, key=lambda node: hosts.count(node.host))

    patch.setattr(layout, "emptiest", fullest)
    patch.setattr(layout, "uneven", lambda brokers, hosts: None)


STORIES: dict[str, Callable[[int], Any]] = {
    "launched_wait_for_each_other": play_together,
    "who_joins_or_leaves_counts_as_a_member": play_members,
    "newcomer_begins_before_it_is_known": play_members,
    "newcomer_that_serves_nobody_yet_is_undone": play_members,
    "one_in_office_takes_any_number": play_return,
}
"""A bug that needs a rare moment is looked for in a story made for it."""
ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
