"""What is called in the lasting thread, when whoever waits for it is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from mantamq.actors.ray_control import lasting_thread

LIMIT_S = 5


def test_it_returns_and_raises_what_the_function_does() -> None:
    assert lasting_thread.call(lambda x, y=0: x + y, 1, y=2) == 3
    with pytest.raises(ZeroDivisionError):
        lasting_thread.call(lambda: 1 / 0)


@pytest.mark.parametrize("late", [True, False])
def test_who_is_interrupted_hears_that_and_what_comes_to_its_end_all_the_same_is_undone(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Ray that takes long to start, and Ctrl-C: an error without a word came out, and that Ray stayed."""
    may_end, undone = threading.Event(), threading.Event()

    def interrupted(self: Future[Any], timeout: float | None = None) -> Any:
        if not late:
            may_end.set()
        raise KeyboardInterrupt

    with monkeypatch.context() as waiting, pytest.raises(KeyboardInterrupt):
        waiting.setattr(lasting_thread.Future, "result", interrupted)
        lasting_thread.call(may_end.wait, LIMIT_S, undo=undone.set, undo_s=0.05 if late else LIMIT_S)
    assert undone.is_set() != late
    may_end.set()
    assert undone.wait(LIMIT_S)


def test_what_has_failed_is_not_undone() -> None:
    undone = threading.Event()

    def fails() -> None:
        raise OSError

    with pytest.raises(OSError):
        lasting_thread.call(fails, undo=undone.set)
    assert not undone.is_set()
