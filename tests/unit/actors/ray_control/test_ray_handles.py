"""A handle of a Ray actor ends its process in good order where that can be, and kills it where not. Without Ray."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from mantamq.actors.members import ending
from mantamq.actors.ray_control import ray_handles
from mantamq.actors.ray_control.ray_handles import END_S, Handle
from ray.exceptions import ActorDiedError, ActorUnavailableError

AWAY = ActorUnavailableError("Worker exits with an exit code 0. exit_actor() is called.", b"1" * 16)
DEAD = ActorDiedError()
SILENT = None


class Ending:
    """An actor that answers `quit` with one after the other of these, and then with the last: an exception, or None for
    no answer."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.quit = self

    def remote(self) -> Ending:
        self.asked += 1
        return self

    def future(self) -> Future[Any]:
        answer, future = self.answers[0], Future[Any]()
        if len(self.answers) > 1:
            self.answers.pop(0)
        if answer is not None:
            future.set_exception(answer)
        return future


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[Ending]:
    found: list[Ending] = []
    monkeypatch.setattr(ray_handles.ray, "kill", lambda actor, no_restart: found.append(actor))
    return found


async def awaited(handle: Handle, timeout_s: float) -> bool:
    return await handle.end(timeout_s)


async def blocking(handle: Handle, timeout_s: float) -> bool:
    return handle.end_now(timeout_s)


def test_a_process_whose_end_hangs_has_ended_itself_before_it_is_killed() -> None:
    assert END_S > ending.QUIT_S + ending.HUNG_S


@pytest.mark.parametrize("end", [awaited, blocking])
class TestEnds:
    async def test_one_that_dies_of_it_is_not_killed(self, end: Callable[..., Any], killed: list[Ending]) -> None:
        assert await end(Handle("b1", Ending(DEAD)), 5.0) and not killed  # type: ignore[arg-type]

    async def test_one_that_was_ending_already_is_asked_until_it_is_gone(
        self, end: Callable[..., Any], killed: list[Ending]
    ) -> None:
        """Ray would tell the user's terminal of one that is killed then."""
        actor = Ending(AWAY, AWAY, DEAD)
        assert await end(Handle("b1", actor), 5.0) and not killed and actor.asked == 3  # type: ignore[arg-type]

    async def test_one_that_cannot_be_reached_for_long_is_killed(
        self, end: Callable[..., Any], killed: list[Ending]
    ) -> None:
        actor = Ending(AWAY)
        assert not await end(Handle("b1", actor), 0.05) and killed == [actor]  # type: ignore[arg-type]

    @pytest.mark.parametrize("answer", [SILENT, AttributeError("no quit")])
    async def test_one_that_does_not_answer_or_cannot_is_killed(
        self, end: Callable[..., Any], killed: list[Ending], answer: Exception | None
    ) -> None:
        actor = Ending(answer)
        assert not await end(Handle("b1", actor), 0.05)  # type: ignore[arg-type]
        assert killed == [actor] and actor.asked == 1

    async def test_one_that_is_gone_has_ended(self, end: Callable[..., Any], killed: list[Ending]) -> None:
        assert await end(Handle("b1", None), 5.0) and not killed
