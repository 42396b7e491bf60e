"""The tap's newest rows, asked while it is starting or another takes its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from mantamq.jobs import events
from mantamq.protocol.capture.event_table import TAP_NAME, Tail
from mantamq.protocol.errors import LocalError
from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError


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

    def get_actor(name: str, namespace: str) -> Any:
        if isinstance(said[0], ValueError):
            raise said.pop(0)
        method = SimpleNamespace(remote=lambda: None)
        return SimpleNamespace(tail=method) if name == TAP_NAME else SimpleNamespace(book_now=method)

    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(events.time, "sleep", lambda seconds: None)
    return said


def test_one_that_is_starting_or_replaced_is_waited_for(answers: list[Any]) -> None:
    answers += [Starting(), ActorDiedError(), ("dir", 1, 2, [])]
    assert events.live_tail() == Tail("dir", 1, 2, [])


GIVEN_UP = ValueError("no actor has this name")
KEEPS, KEEPS_NONE = SimpleNamespace(events="dir"), SimpleNamespace(events="")


def test_one_that_was_given_up_and_has_no_successor_yet_is_waited_for(answers: list[Any]) -> None:
    answers += [GIVEN_UP, KEEPS, GIVEN_UP, ActorDiedError(), GIVEN_UP, KEEPS, ("dir", 1, 2, [])]
    assert events.live_tail() == Tail("dir", 1, 2, [])


def test_a_cluster_without_events_has_none_and_so_has_no_cluster(answers: list[Any]) -> None:
    answers += [GIVEN_UP, KEEPS_NONE, GIVEN_UP, ValueError("no supervisor"), "the end"]
    assert events.live_tail() is None
    assert events.live_tail() is None
    assert answers == ["the end"]


def test_one_that_does_not_start_in_time_is_an_error(answers: list[Any]) -> None:
    answers.append(Starting())
    with pytest.raises(LocalError, match="without --live"):
        events.live_tail(timeout_s=0.01)


def test_what_does_not_pass_is_said_at_once(answers: list[Any]) -> None:
    answers.append(RayTaskError("tail", "broken", ValueError()))
    with pytest.raises(LocalError, match="RayTaskError"):
        events.live_tail(timeout_s=60)


def test_blocks_that_do_not_come_are_waited_for_for_a_time(monkeypatch: pytest.MonkeyPatch):
    def get(blocks: list[object], timeout: float) -> list[bytes]:
        assert timeout == 0.5
        raise GetTimeoutError

    monkeypatch.setattr(ray, "get", get)
    assert events.fetched([]) == [] and events.fetched([b"here"]) == [b"here"]
    with pytest.raises(LocalError, match=r"within 0\.5 s: let Ray's object managers through"):
        events.fetched([object()], timeout_s=0.5)
