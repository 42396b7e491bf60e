"""Observers change nothing: a story has the same trace with the capture of events, with two toys besides, and with none."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.status.machines import BrokerStatus

from tests.unit.toy_observers import BrokerCounter, BrokerRecorder, ReplicaCounter, ReplicaRecorder

from .tapped import BrokerCapture, ReplicaCapture
from .workload import play


class UnseenCapture(BrokerCapture):
    """The status of its broker, for which clients ask, says nothing of the facts that it keeps."""

    def report(self, status: BrokerStatus) -> None:
        pass


@pytest.mark.parametrize("seed", [1, 2, 4])  # 2 and 4 have faults
def test_a_story_is_the_same_with_capture_and_toys_watching(seed):
    brokers: list[tuple[Any, ...]] = []
    replicas: list[tuple[Any, ...]] = []

    def broker(name: str, inc: int, *arguments: Any, **options: Any) -> BrokerMachine:
        brokers.append((UnseenCapture(name, inc), BrokerCounter(), BrokerRecorder()))
        return BrokerMachine(name, inc, *arguments, **options, observers=brokers[-1])

    def replica(name: str, owner: str, inc: int, *arguments: Any, **options: Any) -> ReplicaMachine:
        replicas.append((ReplicaCapture(name, owner, inc), ReplicaCounter(), ReplicaRecorder()))
        return ReplicaMachine(name, owner, inc, *arguments, **options, observers=replicas[-1])

    plain = play(seed)
    watched = play(seed, machines={"broker": broker, "replica": replica})
    assert not watched.wrong and watched == plain

    for capture, counter, recorder in brokers:
        told = sum(words[0] == "applied" for words in recorder.book)
        assert told == sum(n for kind, n in counter.totals.items() if kind[0].isupper())
        assert capture.reporter.kept >= told
    for _, counter, recorder in replicas:
        assert sum(words[1] == "applied" for words in recorder.book) == sum(
            n for kind, n in counter.totals.items() if kind[0].isupper()
        )
    assert any(counter.totals["delivered"] for _, counter, _ in replicas)
