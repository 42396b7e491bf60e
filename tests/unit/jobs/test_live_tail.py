"""The tap's newest rows, asked while it is starting or another takes its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from mantamq.jobs import events
from mantamq.protocol.capture.event_table import Tail
from mantamq.protocol.errors import LocalError
from ray.exceptions import ActorDiedError, RayTaskError


class Starting(RayTaskError, LocalError):
    """What a call raises whose actor raises a LocalError: Ray makes such a class."""

    def __init__(self) -> None:
        Exception.__init__(self, "it has not been started yet")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the tap answers, one call after another."""
    said: list[Any] = []

    def get(call: object, timeout: float) -> Any:
        if isinstance(said[0], Exception):
            raise said.pop(0) if len(said) > 1 else said[0]
        return said.pop(0)

    tap = SimpleNamespace(tail=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: tap)
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(events.time, "sleep", lambda seconds: None)
    return said


def test_one_that_is_starting_or_replaced_is_waited_for(answers: list[Any]) -> None:
    answers += [Starting(), ActorDiedError(), ("dir", 1, 2, [])]
    assert events.live_tail() == Tail("dir", 1, 2, [])


def test_one_that_does_not_start_in_time_is_an_error(answers: list[Any]) -> None:
    answers.append(Starting())
    with pytest.raises(LocalError, match="without --live"):
        events.live_tail(timeout_s=0.01)


def test_what_does_not_pass_is_said_at_once(answers: list[Any]) -> None:
    answers.append(RayTaskError("tail", "broken", ValueError()))
    with pytest.raises(LocalError, match="RayTaskError"):
        events.live_tail(timeout_s=60)
