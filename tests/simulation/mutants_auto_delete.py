"""Bugs of queues that go with their last consumer, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.auto_deletion import AutoDeletion
from mantamq.protocol.broker.deletion import Condition, Deletions
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.wire.events import DeleteQueue
from mantamq.protocol.wiring.vacancies import USED, Vacancies
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def a_queue_that_was_left_goes_at_once(patch: Patch) -> None:
    waits = Vacancies.waits
    patch.setattr(Vacancies, "waits", lambda self: dict.fromkeys(waits(self), 0))


def a_queue_that_somebody_uses_again_goes_all_the_same(patch: Patch) -> None:
    """Whether it is still the time that the deletion names is not looked at."""
    apply = Wiring.apply

    def careless(self: Any, event: Any, index: int, *brokers: Any) -> Any:
        if type(event) is DeleteQueue and event.vacant:
            event = replace(event, vacant=0)
        return apply(self, event, index, *brokers)

    patch.setattr(Wiring, "apply", careless)


def who_comes_again_is_not_seen(patch: Patch) -> None:
    """Once a queue was left its time goes on."""
    look = Vacancies.look

    def blind(self: Any, users: Any, index: int, queue: str = "") -> None:
        left = {id: since for id, since in self.since.items() if since != USED}
        look(self, users, index, queue)
        self.since.update(left)

    patch.setattr(Vacancies, "look", blind)


def consumers_of_a_broker_that_is_out_are_not_missed(patch: Patch) -> None:
    look = Vacancies.look

    def deaf(self: Any, users: Any, index: int, queue: str = "") -> None:
        if queue:
            look(self, users, index, queue)

    patch.setattr(Vacancies, "look", deaf)


def nobody_speaks_for_a_broker_that_is_gone(patch: Patch) -> None:
    """The first of those that began the cluster says that a queue's time is over, and no other."""
    order = AutoDeletion._order

    def silent(self: Any, left: Any) -> None:
        if self._cluster.broker == "b1":
            order(self, left)

    patch.setattr(AutoDeletion, "_order", silent)


def an_update_forgets_who_was_left(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:8])


def what_is_in_it_goes_with_it(patch: Patch) -> None:
    """Nobody looks whether a queue is empty that goes only then."""
    ask = Deletions.ask

    def unseen(self: Any, queue: Any, condition: Condition, answer: Any) -> None:
        ask(self, queue, condition._replace(if_empty=condition.if_empty and not condition.vacant), answer)

    patch.setattr(Deletions, "ask", unseen)


def all_that_goes_by_itself_goes_with_what_is_in_it(patch: Patch) -> None:
    """Qpid's word for when that is has no meaning."""
    patch.setattr(QueueSettings, "goes_empty", property(lambda self: False))


def what_is_emptied_later_stays(patch: Patch) -> None:
    """A queue that had something in it when it would have gone."""
    patch.setattr(AutoDeletion, "emptied", lambda self, peer, frame: None)


ALL = planted(globals())
