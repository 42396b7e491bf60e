"""Which of Ray's processes give way to others on the processor, and that all of their threads do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from mantamq.actors.ray_control import helpers

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has processes that give way")

RAY = "/venv/lib/python3.11/site-packages/ray"
HELPERS = {
    "agent, as it is called": ["/venv/bin/python", "-u", f"{RAY}/dashboard/agent.py", "--node-id=1"],
    "agent, as it calls itself": ["ray::DashboardAgent", "", "", ""],
    "log monitor": ["/venv/bin/python", "-u", f"{RAY}/_private/log_monitor.py", "--session-dir=/tmp/ray/session_1"],
}
OTHERS = {
    "control store": [f"{RAY}/core/src/ray/gcs/gcs_server", "--session-name=session_1"],
    "raylet": [
        f"{RAY}/core/src/ray/raylet/raylet", "--raylet_socket_name=/r", "--store_socket_name=/s", "--min_worker_port=0",
        f"--dashboard_agent_command=/venv/bin/python -u {RAY}/dashboard/agent.py",
    ],
    "runtime environments, as it is called": ["/venv/bin/python", "-u", f"{RAY}/_private/runtime_env/agent/main.py"],
    "runtime environments": ["ray::RuntimeEnvAgent", "", "", ""],
    "dashboard": ["/venv/bin/python", f"{RAY}/dashboard/dashboard.py", "--host=127.0.0.1"],
    "autoscaler": ["/venv/bin/python", "-u", f"{RAY}/autoscaler/_private/monitor.py", "--logs-dir=/tmp/ray/session_1"],
    "broker": ["ray::BrokerNode.serve", "", "", ""],
    "somebody else's": ["vi", "dashboard/agent.py"],
    "one without a command line": [],
}  # fmt: skip


@pytest.mark.parametrize("name", [*HELPERS, *OTHERS])
def test_the_dashboards_agent_and_the_log_monitor_are_helpers(name: str) -> None:
    assert helpers.is_helper((HELPERS | OTHERS)[name]) == (name in HELPERS)


@pytest.fixture
def child() -> Iterator[int]:
    """A process with three threads that does nothing."""
    code = (
        "import threading\nfor _ in range(2): threading.Thread(target=input).start()\nprint('on', flush=True)\ninput()"
    )
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None and started.stdout.readline() == b"on\n"
    yield started.pid
    started.kill()
    started.communicate()


def process(pid: int, words: list[str]) -> Any:
    return SimpleNamespace(pid=pid, cmdline=lambda: words)


def policies(pid: int) -> list[int]:
    return [os.sched_getscheduler(int(path.name)) for path in Path(f"/proc/{pid}/task").iterdir()]


def test_all_threads_of_a_helper_give_way_and_of_nothing_else(child: int) -> None:
    assert helpers.give_way([process(child, words) for words in OTHERS.values()]) == []
    assert policies(child) == [os.SCHED_OTHER] * 3
    assert helpers.give_way([process(child, HELPERS["log monitor"])]) == [child]
    assert policies(child) == [os.SCHED_IDLE] * 3


def test_threads_that_begin_meanwhile_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, set_ = [1], []

    def set_idle(thread: int, policy: int, _: object) -> None:
        set_.append(thread)
        if len(threads) < 3:
            threads.append(len(threads) + 1)
        elif thread == 2:
            raise ProcessLookupError("it has ended")

    monkeypatch.setattr(helpers.Path, "iterdir", lambda path: (path / str(thread) for thread in list(threads)))
    monkeypatch.setattr(helpers.os, "sched_setscheduler", set_idle)
    assert helpers.give_way([process(7, HELPERS["log monitor"])]) == [7]
    assert set_ == [1, 2, 3]


def test_a_helper_that_is_gone_or_not_ours_holds_up_no_start(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> list[str]:
        raise psutil.NoSuchProcess(1)

    never = 2**22 + 1  # no process has that number
    found = [SimpleNamespace(pid=1, cmdline=gone), process(never, HELPERS["log monitor"])]
    assert helpers.give_way([*found, process(child, HELPERS["log monitor"])]) == [child]  # type: ignore[list-item]

    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(helpers.os, "sched_setscheduler", refuse)
    assert helpers.give_way([process(child, HELPERS["log monitor"])]) == []


def test_other_systems_have_no_such_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(helpers.os, "SCHED_IDLE")
    assert helpers.give_way([process(os.getpid(), HELPERS["log monitor"])]) == []
