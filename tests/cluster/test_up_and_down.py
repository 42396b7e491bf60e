"""`mantamq up` and `down`, as a user types them: nothing is stopped by a wrong name, or with messages in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mantamq.actors.ray_control.local_ray import wait_gone

COMMAND_S = 100.0
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """The command line of a user of their own."""
    home = tmp_path / "home"
    base = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    base |= {"HOME": str(home), "MANTAMQ_HOME": str(home / ".mantamq"), "COLUMNS": "80"}
    home.mkdir()

    def run(*words: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mantamq.client.cli.app", *words], env=base | environment, input=text,
            capture_output=True, text=True, timeout=COMMAND_S, check=False,
        )  # fmt: skip

    yield run
    run("down", "--yes")


def pids(run: Run) -> list[int]:
    status: dict[str, Any] = json.loads(run("status", "--json").stdout)
    return [actor["pid"] for actor in status["actors"]]


def head(run: Run) -> list[int]:
    """The parents of the actors: programs of the Ray they are in."""
    return sorted({psutil.Process(pid).ppid() for pid in pids(run)})


@pytest.mark.timeout(240)
def test_nothing_is_stopped_by_mistake(run: Run) -> None:
    up = run("up", "--brokers", "1", "--spares", "1", "--namespace", "shop", "--events", "off", "--memory")
    assert up.returncode == 0, up.stderr
    actors = pids(run)

    for words in (["down", "--yes"], ["status"], ["check", "health"], ["broker", "list"]):
        wrong = run(*words, "--namespace", "typo")
        assert wrong.returncode == 1 and "'shop'" in wrong.stderr, (words, wrong)
        assert wrong.stdout == "" and len(wrong.stderr.splitlines()) == 1
    assert all(psutil.pid_exists(pid) for pid in actors)

    refused = run("status", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="of-another-cluster-0123456789")
    assert refused.returncode == 1
    assert "asks for its token" in refused.stderr and len(refused.stderr.splitlines()) == 1

    assert run("queue", "add", "orders").returncode == 0
    assert run("send", "orders", text="one\ntwo\n").returncode == 0
    full = run("down")
    assert full.returncode == 1 and full.stdout == ""
    assert "2 messages" in full.stderr and "orders" in full.stderr and "--yes" in full.stderr
    assert set(actors) <= set(pids(run))  # a spare may have come since

    down = run("down", "--yes")
    assert (down.returncode, down.stdout.strip(), down.stderr) == (0, "stopped", "")
    assert wait_gone(actors, 10) == []
    nothing = run("down")
    assert nothing.returncode == 1 and "mantamq up" in nothing.stderr


@pytest.mark.timeout(240)
def test_an_empty_cluster_goes_without_a_question_and_leaves_others(run: Run) -> None:
    first = run("up", "--brokers", "1", "--spares", "1", "--events", "off", "--memory", "--json")
    address = json.loads(first.stdout)["address"]
    ray = head(run)
    up = run(
        "up",
        "--brokers",
        "1",
        "--spares",
        "1",
        "--events",
        "off",
        "--namespace",
        "two",
        "--address",
        address,
        "--memory",
    )
    assert up.returncode == 0, up.stderr

    done = run("down", "--address", address, "--namespace", "two", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ray_stopped"] is False
    status = json.loads(run("status", "--namespace", "mantamq", "--address", address, "--json").stdout)
    assert status["members"]
    last = run("down")
    assert (last.returncode, last.stdout.strip()) == (0, "stopped"), last.stderr
    assert wait_gone([*(actor["pid"] for actor in status["actors"]), *ray], 10) == []  # that Ray is still ours
