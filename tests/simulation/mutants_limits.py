"""Bugs of limits that refuse and of producer flow control, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker import queue_declaration
from mantamq.protocol.broker.management import Management
from mantamq.protocol.broker.self_destruction import SelfDestruction
from mantamq.protocol.broker.verdicts import Case, Verdicts
from mantamq.protocol.queue import refusing, state_policy
from mantamq.protocol.queue.producer_flow import ProducerFlow
from mantamq.protocol.queue.refused_numbers import RefusedNumbers
from mantamq.protocol.queue.refusing import Limit
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.verdicts import VerdictTeller
from mantamq.protocol.wire.events import Enqueue
from mantamq.protocol.wiring import arguments

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_refused_completes(patch: Patch) -> None:
    said = Case.said
    patch.setattr(Case, "said", lambda self, queue, number, refused: said(self, queue, number, []))


def what_a_queue_has_not_said_when_it_is_deleted_it_has_refused(patch: Patch) -> None:
    gone = Verdicts.gone

    def going(self: Verdicts, queue: str) -> None:
        for number, case in self._cases.pop(queue, {}).items():
            case.said(queue, number, case.awaits[queue, number])
        gone(self, queue)

    patch.setattr(Verdicts, "gone", going)


def refusals_are_not_remembered(patch: Patch) -> None:
    """A send that is repeated at another broker is told that it is complete."""

    def within(self: Any, client: str, first: int, last: int) -> list[tuple[int, int]]:
        found = self._of.pop(client, None)
        return found.within(first, last) if found is not None else []

    patch.setattr(RefusedNumbers, "within", within)


def who_is_held_back_is_told_all_the_same(patch: Patch) -> None:
    """What has come in completes, though the queue is over its threshold."""

    def judge(self: Any, inc: int, number: int, client: str, numbers: list[int]) -> None:
        stopped, self._state.flow_stopped = self._state.flow_stopped, False
        _judge(self, inc, number, client, numbers)
        self._state.flow_stopped = stopped

    _judge = VerdictTeller._judge
    patch.setattr(VerdictTeller, "_judge", judge)


def a_queue_stops_at_its_threshold(patch: Patch) -> None:
    """It must be above it."""
    made = ProducerFlow.__init__

    def begun(self: Any, state: Any, settings: Any) -> None:
        made(self, state, settings)
        self._by_count = max(0, self._by_count[0] - 1), self._by_count[1]

    patch.setattr(ProducerFlow, "__init__", begun)


def one_low_level_is_enough_to_go_on(patch: Patch) -> None:
    applied = ProducerFlow.applied

    def either(self: Any, event: Any, done: Any) -> None:
        if not self._state.flow_stopped or not (self._by_count[0] and self._by_size[0]):
            applied(self, event, done)
            return
        by_count, by_size = self._by_count, self._by_size
        for self._by_count, self._by_size in ((by_count, (0, 0)), ((0, 0), by_size)):
            if self._state.flow_stopped:
                applied(self, event, done)
        self._by_count, self._by_size = by_count, by_size

    patch.setattr(ProducerFlow, "applied", either)


def an_update_forgets_who_waits(patch: Patch) -> None:
    """A copy that is brought up to date does not have its broker ask."""
    patch.setattr(VerdictTeller, "restored", lambda self: None)


def a_new_replica_is_asked_nothing(patch: Patch) -> None:
    patch.setattr(Verdicts, "ask", lambda self, queue: None)


def a_batch_that_does_not_fit_is_refused_whole(patch: Patch) -> None:
    def guarded(rule: Any, guard: Any) -> Any:
        def whole(event: Enqueue) -> Any:
            if guard.admits(event):
                return rule(event)
            guard.refuses = lambda message: True
            done = each(event)
            del guard.refuses
            return done

        each = state_policy.one_by_one(rule, guard)
        return whole

    patch.setattr(state_policy, "guarded", guarded)


def a_strict_ring_drops_what_is_held(patch: Patch) -> None:
    patch.setattr(Limit, "_held", lambda self, over_count, over_size: False)


def a_message_that_is_too_large_for_a_ring_comes_in(patch: Patch) -> None:
    refuses, admits = Limit.refuses, Limit.admits
    patch.setattr(Limit, "refuses", lambda self, message: self._overflow != "ring" and refuses(self, message))
    patch.setattr(Limit, "admits", lambda self, event: self._overflow == "ring" or admits(self, event))


def what_is_rejected_counts_for_the_limit(patch: Patch) -> None:
    patch.setattr(refusing, "count_in", lambda state: len(state.blobs))


def refusals_are_not_in_an_update(patch: Patch) -> None:
    restore = QueueState.restore

    def restored(self: Any, snapshot: Any) -> None:
        restore(self, snapshot)
        self.refusals = RefusedNumbers()

    patch.setattr(QueueState, "restore", restored)


def one_broker_knows_no_default_limit(patch: Patch) -> None:
    made = Management.__init__

    def begun(self: Any, machine: Any, *more: Any) -> None:
        made(self, machine, *more)
        self._queue_bytes *= machine.broker != "b1"

    patch.setattr(Management, "__init__", begun)


def the_default_limit_is_above_one_that_is_named(patch: Patch) -> None:
    patch.setattr(arguments, "check", lambda what, given, limit=0: _checked(what, given, limit))
    patch.setattr(queue_declaration, "check", arguments.check)


def _checked(what: str, given: dict[str, Any], limit: int) -> dict[str, Any]:
    plain = _check(what, given)
    return (
        arguments._with_default(plain, limit) if what == "queue" and limit and "qpid.max_size" not in plain else plain
    )


def what_destroys_itself_is_not_deleted(patch: Patch) -> None:
    patch.setattr(SelfDestruction, "order", lambda self, queue: None)


def who_holds_some_keeps_it_from_what_destroys_itself(patch: Patch) -> None:
    patch.setattr(refusing, "in_order", lambda state: iter(list(state.available)))


def what_has_destroyed_itself_takes_more(patch: Patch) -> None:
    made = Limit.__init__

    def begun(self: Any, state: Any, settings: Any) -> None:
        made(self, state, settings)
        self._own = self._destroys

    def admits(self: Any, event: Enqueue) -> bool:
        self._destroys = False
        found = _admits(self, event)
        self._destroys = self._own
        return found

    def refuses(self: Any, message: Enqueue) -> bool:
        self._destroys = False
        found = _refuses(self, message)
        self._destroys = self._own
        return found

    _admits, _refuses = Limit.admits, Limit.refuses
    patch.setattr(Limit, "__init__", begun)
    patch.setattr(Limit, "admits", admits)
    patch.setattr(Limit, "refuses", refuses)


_check = arguments.check
ALL = planted(globals())
