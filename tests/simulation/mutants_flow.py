"""Bugs of flow control inside the cluster planted on purpose, as in `mutants.py`; looked for among the stories with
faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker.throttle import Throttle
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.sequencer.backlog import Backlog, Lag
from mantamq.protocol.wire.events import CLUSTER, Evict, Start
from mantamq.protocol.wiring.cluster_flow import ClusterFlow

Patch = pytest.MonkeyPatch


def complete_while_flow_control_is_on(patch: Patch) -> None:
    patch.setattr(Transfers, "stopped", property(lambda self: False))


def detached_sender_is_told_while_flow_control_is_on(patch: Patch) -> None:
    """Completions are withheld, but for a sender that leaves."""
    detached = Transfers.detached

    def hasty(self: Any, session: Any, handle: int) -> None:
        self._tell(session)
        detached(self, session, handle)

    patch.setattr(Transfers, "detached", hasty)


def withheld_completions_are_lost(patch: Patch) -> None:
    flush = Transfers.flush

    def forgetful(self: Any) -> None:
        if self.stopped and self._telling:
            self._telling.popitem()[1].completed.clear()
        flush(self)

    patch.setattr(Transfers, "flush", forgetful)


def flow_control_is_never_raised(patch: Patch) -> None:
    """Nor is anybody given up: what is kept for who is behind grows."""
    patch.setattr(Backlog, "look", lambda self: None)


def flow_control_is_never_lifted(patch: Patch) -> None:
    order = Backlog._switch

    def stubborn(self: Any, cluster: Any, member: str, on: bool, reason: str) -> None:
        if on:
            order(self, cluster, member, on, reason)

    patch.setattr(Backlog, "_switch", stubborn)


def who_is_behind_is_never_given_up(patch: Patch) -> None:
    patch.setattr(Backlog, "_give_up", lambda self, member, lag: None)


def who_is_behind_has_one_window_after_another(patch: Patch) -> None:
    """Flow control goes off when the window is over, and on again: nobody is given up."""
    patch.setattr(
        Backlog, "_give_up", lambda self, member, lag: self._switch(self._order.streams[CLUSTER], member, False, "")
    )


def given_up_beside_one_that_is_not_heard(patch: Patch) -> None:
    """It may have lost its power just now; then two copies of three are gone."""
    patch.setattr(Backlog, "_may_go", lambda self, member: self._can_spare(member))


def given_up_and_not_told(patch: Patch) -> None:
    """A keeper that is alive goes on waiting for entries that nobody has any more."""
    over = Backlog._pass_over

    def silent(self: Any, stream: Any, member: str) -> None:
        said = len(self._outbox.effects)
        over(self, stream, member)
        del self._outbox.effects[said:]

    patch.setattr(Backlog, "_pass_over", silent)


def who_is_back_in_part_is_not_counted(patch: Patch) -> None:
    """A process of an evicted broker is updated, and what gathers for it has no bound until the broker itself is heard."""
    lag_in = Backlog.lag_in
    patch.setattr(
        Backlog,
        "lag_in",
        lambda self, stream, member: Lag() if member in self._evictions.absent else lag_in(self, stream, member),
    )


def _deaf(patch: Patch, kind: Any) -> None:
    apply = ClusterFlow.apply
    patch.setattr(ClusterFlow, "apply", lambda self, event: None if type(event) is kind else apply(self, event))


def flow_control_outlives_the_member(patch: Patch) -> None:
    _deaf(patch, Evict)


def flow_control_outlives_its_sequencer(patch: Patch) -> None:
    _deaf(patch, Start)


def who_may_not_send_is_not_read(patch: Patch) -> None:
    """Nor can it settle what it has received, which is what would make room."""
    patch.setattr(Throttle, "block", lambda self, session, told=False: self._hold(session.peer))


def nobody_hears_that_there_is_room(patch: Patch) -> None:
    patch.setattr(Throttle, "unblock", lambda self, but=(): self.blocked.clear())


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
