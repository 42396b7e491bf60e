"""Whether the program that a cluster belongs to is over, by Ray's own table of programs."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from mantamq.actors.ray_control import bound


def table(*rows: tuple[str, bool]) -> list[dict[str, object]]:
    return [{"JobID": name, "IsDead": dead, "Entrypoint": "python program.py"} for name, dead in rows]


def test_a_program_is_over_when_ray_says_so_and_no_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "jobs", lambda: table(("01000000", True), ("02000000", False)))
    assert [bound.over(name) for name in ("01000000", "02000000", "03000000")] == [True, False, False]


def test_what_is_used_of_ray_is_there() -> None:
    """It is no public part of Ray's: another version may call it something else."""
    assert list(inspect.signature(bound.jobs).parameters) == []
    assert callable(bound.ray.get_runtime_context)


async def test_a_table_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [OSError("away"), table(("01000000", False)), KeyError("IsDead"), table(("01000000", True))]
    ended: list[int] = []

    def jobs() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def end() -> None:
        ended.append(len(answers))

    monkeypatch.setattr(bound, "jobs", jobs)
    monkeypatch.setattr(bound, "LOOK_S", 0.001)
    async with asyncio.timeout(10):
        await bound.watch("01000000", end)
    assert ended == [0]
