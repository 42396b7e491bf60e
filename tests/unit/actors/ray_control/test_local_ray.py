"""What is written down of a Ray head that we start, whoever is killed meanwhile. No Ray is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.actors.ray_control import local_ray
from mantamq.protocol.errors import LocalError


class Machine:
    """The programs of a Ray head: none before `ray start`, which can be interrupted in the middle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.port = "", 0
        self.head = True  # its control store lives
        self.meanwhile: Any = lambda: None
        self.ended: Any = lambda: None
        self.code = 0
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        monkeypatch.setattr(local_ray, "_ray", self.ray)
        monkeypatch.setattr(
            local_ray, "_session_of", lambda port: self.session if self.head and port == self.port else ""
        )
        monkeypatch.setattr(
            local_ray, "_processes",
            lambda session, address: self.programs() if session and session == self.session else [],
        )  # fmt: skip
        monkeypatch.setattr(local_ray, "_end", self.end)

    def programs(self) -> list[Any]:
        head = ["/ray/core/src/ray/gcs/gcs_server", f"--gcs_server_port={self.port}", "--node-ip-address=127.0.0.1"]
        raylet = ["/ray/core/src/ray/raylet/raylet", f"--gcs-address=127.0.0.1:{self.port}"]
        return [SimpleNamespace(pid=7, cmdline=lambda: head if self.head else raylet)]

    def ray(self, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        self.port = next(int(word.partition("=")[2]) for word in words if word.startswith("--port="))
        self.session, self.head = "session_1", True
        self.meanwhile()
        return subprocess.CompletedProcess(words, self.code, "", "no space left")

    def end(self, processes: list[Any]) -> None:
        if processes:
            self.ended()
            self.session = ""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Machine:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    return Machine(monkeypatch)


def raised(error: BaseException) -> Any:
    def throw() -> None:
        raise error

    return throw


def test_a_head_whose_starter_was_killed_can_be_stopped(
    machine: Machine, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    machine.meanwhile = lambda: written.append((tmp_path / "state.json").read_text())
    address = local_ray.start_ray_head()
    (tmp_path / "state.json").write_text(written[0])  # as if it had been killed then
    assert local_ray.recall()["address"] == address and "session" not in local_ray.recall()
    assert local_ray.head_processes() == [7]
    with pytest.raises(LocalError, match=r"runs at .*mantamq down"):
        local_ray.start_ray_head()
    assert local_ray.stop_ray_head() == 1
    assert machine.session == "" and local_ray.recall() == {}
    local_ray.start_ray_head()


def test_helpers_of_a_head_that_we_start_give_way(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(local_ray.helpers, "give_way", lambda found: asked.extend(one.pid for one in found))
    local_ray.start_ray_head()
    assert asked == [7]


def test_what_a_head_that_was_killed_has_left_is_ended_and_another_starts(machine: Machine) -> None:
    first = local_ray.start_ray_head()
    machine.head = False
    assert local_ray.head_processes() == [7], "its other programs live on for a while"
    order: list[str] = []
    machine.ended, machine.meanwhile = (lambda: order.append("ended")), (lambda: order.append("started"))
    second = local_ray.start_ray_head()
    assert order == ["ended", "started"] and local_ray.recall()["address"] == second != first
    with pytest.raises(LocalError, match=r"runs at .*mantamq down"):
        local_ray.start_ray_head()


def test_a_head_that_lives_is_never_ended_though_another_address_was_written_down_since(machine: Machine) -> None:
    address = local_ray.start_ray_head()
    local_ray.remember(address="10.0.0.9:6379", ray_is_ours=False)
    with pytest.raises(LocalError, match=f"a Ray head of ours runs at {address}"):
        local_ray.start_ray_head()
    assert machine.session == "session_1", "it lives, with its cluster"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_a_start_that_is_interrupted_leaves_nothing(machine: Machine, error: BaseException) -> None:
    before = {"address": "10.0.0.9:6379", "namespace": "theirs", "members": {"b1": "10.0.0.9:1"}, "ray_is_ours": False}
    local_ray.remember(**before)
    machine.meanwhile = raised(error)
    with pytest.raises(type(error)):
        local_ray.start_ray_head()
    assert machine.session == "" and local_ray.recall() == before
    machine.meanwhile, machine.code = (lambda: None), 1
    with pytest.raises(LocalError, match="no space left"):
        local_ray.start_ray_head()
    assert machine.session == "" and local_ray.recall() == before


def test_a_ray_that_does_not_come_up_in_time_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(LocalError, match="`ray start` within 60 s: this machine may be too busy"):
        local_ray._ray("start", "--head", environment={})


def test_a_head_does_not_end_with_the_terminal_of_its_starter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    starter = tmp_path / "python"
    starter.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import os; print(os.getsid(0))"\n')
    starter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(starter))
    done = local_ray._ray("start", "--head", environment=dict(os.environ))
    assert int(done.stdout) not in (0, os.getsid(0))


def test_a_head_does_not_keep_the_input_of_its_starter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    starter = tmp_path / "python"
    starter.write_text("#!/bin/sh\nreadlink /proc/self/fd/0\n")
    starter.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(starter))
    assert local_ray._ray("start", "--head", environment=dict(os.environ)).stdout == "/dev/null\n"


def test_what_was_remembered_of_another_ray_is_not_mixed_with_ours(machine: Machine) -> None:
    local_ray.remember(address="10.0.0.9:6379", namespace="theirs", members={"b1": "10.0.0.9:1"})
    address = local_ray.start_ray_head()
    known = local_ray.recall()
    assert (known["address"], known["session"], known["ray_is_ours"]) == (address, "session_1", True)
    assert "members" not in known and "namespace" not in known


def test_a_ray_is_the_same_by_its_port_on_loopback_or_its_own_address() -> None:
    same = local_ray.same_ray
    assert same("127.0.0.1:6379", "10.0.0.9:6379") and same("10.0.0.9:6379", "10.0.0.9:6379")
    assert not same("127.0.0.1:6380", "10.0.0.9:6379") and not same("10.0.0.8:6379", "10.0.0.9:6379")
    assert not same(None, "10.0.0.9:6379") and not same("", "10.0.0.9:6379")


def test_a_home_that_cannot_be_written_is_named_before_ray_runs(
    machine: Machine, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.meanwhile = lambda: pytest.fail("Ray was started")
    (tmp_path / "file").touch()
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path / "file"))
    for change in (local_ray.start_ray_head, lambda: local_ray.remember(namespace="two"), local_ray.forget):
        with pytest.raises(LocalError, match=r"file cannot be written .*: name another directory in MANTAMQ_HOME"):
            change()


def test_a_starter_that_is_asked_to_end_leaves_no_ray(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL}
    monkeypatch.setattr(signal, "getsignal", asked.get)
    monkeypatch.setattr(signal, "signal", asked.__setitem__)
    machine.meanwhile = lambda: asked[signal.SIGTERM](signal.SIGTERM, None)
    with pytest.raises(SystemExit) as ended:
        local_ray.start_ray_head()
    assert ended.value.code == 143
    assert (machine.session, local_ray.recall()) == ("", {})
