"""Programs that are killed and begin anew, without killing any: lives in this process, at a broker that is none."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Connection, connect

from tests.chaos import body, history, programs
from tests.chaos.journal import COMPLETED, History, read
from tests.chaos.load import Task, declare
from tests.chaos.programs import Life, Program

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def cluster() -> Iterator[FakeBroker]:
    with FakeBroker(1) as cluster:
        yield cluster


class Lives:
    """Of one program, each told to end by `end`, or cut off by `cut`."""

    def __init__(self, cluster: FakeBroker, folder: Path, queue: str) -> None:
        self.queue = queue
        self._folder = folder
        self._addresses = folder / "addresses.json"
        self._addresses.write_text(json.dumps({"b1": cluster.address}))
        self._number = 0

    def begin(self, client: str = "program1") -> tuple[Life, threading.Thread]:
        self._number += 1
        name, journal = f"{client}.{self._number}", self._folder / f"{client}.{self._number:03}.jsonl"
        producer = "twins" if self.queue.endswith("once") else "program1"
        life = Life(Task(name, "life", [self.queue], str(journal), str(self._addresses), 0, self._number, 1e4,
                         producer=producer, life=self._number))  # fmt: skip
        life._listen = lambda: None  # type: ignore[method-assign]
        thread = threading.Thread(target=life.run, daemon=True)
        thread.start()
        return life, thread

    def sent(self, more_than: int = 0) -> int:
        """How many have been sent and are complete."""
        numbers = [
            n for mine in self.history().transfers.values() for n, each in mine.items() if each.outcome == COMPLETED
        ]
        return max(numbers, default=0) if len(numbers) > more_than else 0

    def history(self) -> History:
        return read(self._folder.glob("*.jsonl"))


def in_queue(connection: Connection, queue: str) -> list[int]:
    return [body.read(message.body).number for message in connection.session().browse(queue)]


@pytest.mark.parametrize("kind", ["named", "once"])
def test_each_life_goes_on_and_nothing_comes_twice(cluster, tmp_path, kind):
    queue = f"x-{kind}"
    with connect(cluster.address) as connection:
        declare(connection, queue)
        lives, before = Lives(cluster, tmp_path, queue), 0
        for _ in range(4):
            life, thread = lives.begin()
            wait_until(partial(lives.sent, before))
            life.stopping.set()
            thread.join()
            before = lives.sent()
        found = lives.history()
        numbers = in_queue(connection, queue)
    assert found.wrong == []
    assert sorted(numbers) == list(range(1, before + 1)), "all, and none twice"
    assert numbers == sorted(numbers) or kind == "once"
    assert sum(each.times - 1 for mine in found.transfers.values() for each in mine.values()) > 0
    rules = history.check(found).rules
    assert rules == {"undrained", "lost"}, "which nobody has received"
    assert [one.had > 0 for one in found.resumptions] == ([False, True, True, True] if kind == "named" else [])


def test_who_is_followed_ends(cluster, tmp_path):
    with connect(cluster.address) as connection:
        declare(connection, "x-named")
        lives = Lives(cluster, tmp_path, "x-named")
        _, first = lives.begin()
        wait_until(lives.sent)
        life, second = lives.begin()
        first.join(20)
        assert not first.is_alive()
        life.stopping.set()
        second.join()
        numbers = in_queue(connection, "x-named")
    assert numbers == list(range(1, len(numbers) + 1))
    assert lives.history().wrong == []


class Process:
    """A life that is none."""

    def __init__(self, told: list[str], journal: Path) -> None:
        self.stdin: Any = None
        self._told = told
        journal.write_text('{"op":"send"}\n')

    def kill(self) -> None:
        self._told.append("killed")

    def wait(self, limit_s: float = 0.0) -> int:
        return 0


@pytest.mark.parametrize(("killed", "told"), [(1.0, {"begun", "killed"}), (0.0, {"begun"})])
def test_a_program_lives_again_and_again(tmp_path, monkeypatch, killed, told):
    said: list[str] = []
    tasks: list[Task] = []

    def begin(command: list[str], **options: Any) -> Process:
        tasks.append(Task(**json.loads(command[-1])))
        said.append("begun")
        if len(tasks) == 4:
            program._stopping.set()
        return Process(said, Path(tasks[-1].journal))

    monkeypatch.setattr(programs.subprocess, "Popen", begin)
    monkeypatch.setattr(programs, "LIFE_S", (0.0, 0.01))
    monkeypatch.setattr(programs, "KILLED", killed)
    program = Program(
        Task("program1", "program", ["x-named"], str(tmp_path / "program1.jsonl"), "", 0, 1, producer="p")
    )
    program._random = random.Random(1)
    program._listen = lambda: None  # type: ignore[method-assign]
    program.run()
    assert set(said) == told
    assert [task.client for task in tasks] == [f"program1.{life}" for life in (1, 2, 3, 4)]
    assert {task.producer for task in tasks} == {"p"} and {task.role for task in tasks} == {"life"}
    assert (
        sorted({task.journal for task in tasks})[0].endswith("program1.002.jsonl")
        and len({t.journal for t in tasks}) == 4
    )
