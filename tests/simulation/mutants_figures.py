"""Bugs of the statistics of a cluster, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker import statistics
from mantamq.protocol.broker.fellows import Fellows
from mantamq.protocol.broker.senders import Senders
from mantamq.protocol.broker.statistics import LocalStatistics
from mantamq.protocol.replica.consumers import QueueConsumers
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.wire.queue_frames import QueueCommand

from .planting import planted

Patch = pytest.MonkeyPatch


def who_does_not_answer_is_not_named(patch: Patch) -> None:
    ask = Fellows.ask

    def asking(self: Any, what: list[str], then: Callable[[Any, list[str]], None]) -> None:
        ask(self, what, lambda answers, silent: then(answers, []))

    patch.setattr(Fellows, "ask", asking)


def what_is_asked_of_a_queue_does_not_wait_for_its_stream(patch: Patch) -> None:
    """A replica answers at once, by what it has applied: it may be older than the question."""
    look = QueueConsumers.look

    def hasty(self: Any, tag: Any) -> None:
        queue = _queues.get(id(self))
        if isinstance(tag, QueueCommand) and queue is not None:
            queue.commands.looked(tag, queue.state, queue.report(), True)
        else:
            look(self, tag)

    begin = HostedQueue.__init__

    def begun(self: Any, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        _queues[id(self.consumers)] = self

    _queues: dict[int, Any] = {}
    patch.setattr(HostedQueue, "__init__", begun)
    patch.setattr(QueueConsumers, "look", hasty)


def only_the_first_to_answer_is_added_up(patch: Patch) -> None:
    added_up = statistics.added_up

    def less(parts: Any, cluster: Any, addresses: Any, queues: Any, answers: Any, silent: Any) -> Any:
        found = added_up(parts, cluster, addresses, queues, answers, silent)
        if "exchanges" in parts:
            few = dict(list(answers.items())[:1])
            found["exchanges"] = added_up(["exchanges"], cluster, addresses, queues, few, silent)["exchanges"]
        return found

    patch.setattr(statistics, "added_up", less)


def what_came_by_a_sender_that_is_gone_is_forgotten(patch: Patch) -> None:
    detach = Senders.detach

    def forgetful(self: Any, session: Any, handle: int) -> bool:
        link = session.senders.get(handle)
        if link is not None:
            link.traffic.received -= link.received
        return detach(self, session, handle)

    patch.setattr(Senders, "detach", forgetful)


def consumers_that_wait_are_counted_twice(patch: Patch) -> None:
    told = LocalStatistics.told

    def counting(self: Any, what: list[str]) -> Any:
        found = told(self, what)
        for session in self._sessions.values() if "queues" in what else ():
            for link in session.receivers.values():
                found["consumers"][link.queue] += link.waits is not None
        return found

    patch.setattr(LocalStatistics, "told", counting)


def one_link_of_a_connection_is_told(patch: Patch) -> None:
    told = LocalStatistics.told

    def less(self: Any, what: list[str]) -> Any:
        found = told(self, what)
        if "links" in found:
            found["links"] = list({row["client"]: row for row in found["links"]}.values())
        return found

    patch.setattr(LocalStatistics, "told", less)


ALL = planted(globals())
