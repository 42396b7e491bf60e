"""`mantamq broker`, on a cluster that never ran."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from made_up_status import ORDERS, actors, machine, report, silence
from mantamq.actors.ray_control import local_ray
from mantamq.client.cli import app, broker, console
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.cluster import ClusterStatus
from rich.console import Console

Run = Callable[..., tuple[int, str, str]]


class MadeUp:
    """A `Cluster` whose members are a list."""

    namespace = "mantamq"

    def __init__(self) -> None:
        self.addresses = {"b1": "10.0.0.0:5000", "b2": "10.0.0.0:5001"}
        self.asked: list[Any] = []

    def report(self) -> ClusterStatus:
        found = actors()
        machine(found, "sequencer2").streams[ORDERS].blank = ["b2"]
        silence(found, "b3")
        return report(found)

    def add_broker(self, node: str, timeout_s: float, progress: Any) -> str:
        self.asked.append((node, timeout_s))
        progress({"broker": "b3", "stage": "waiting", "done": 0, "total": 0})
        progress({"broker": "b3", "stage": "queues", "done": 1, "total": 2})
        self.addresses["b3"] = "10.0.0.0:5002"
        return "b3"

    def remove_broker(self, name: str, timeout_s: float, progress: Any) -> None:
        if name not in self.addresses:
            raise LocalError(f"there is no broker {name!r}")
        del self.addresses[name]


@pytest.fixture
def cluster() -> MadeUp:
    return MadeUp()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any, cluster: MadeUp) -> Run:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.0:6379")  # so it is named
    monkeypatch.setattr(broker, "out", Console(width=200))
    monkeypatch.setattr(broker, "running", lambda address, namespace: cluster)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mantamq", "broker", *words])
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_add_tells_name_and_address_and_they_are_remembered(run: Run, cluster: MadeUp) -> None:
    local_ray.remember(namespace="mantamq", members={"b1": "10.0.0.0:5000"})
    code, out, _ = run("add", "--node", "abc", "--timeout", "7")
    assert code == 0 and out.startswith("b3 has joined at 10.0.0.0:5002")
    assert cluster.asked == [("abc", 7.0)]
    assert local_ray.recall()["members"] == cluster.addresses
    code, out, _ = run("remove", "b3", "--yes", "--json")
    assert code == 0 and json.loads(out)["removed"] is True
    assert sorted(local_ray.recall()["members"]) == ["b1", "b2"]


def test_what_is_remembered_of_another_cluster_stays(run: Run) -> None:
    local_ray.remember(namespace="other", members={"b1": "1.2.3.4:5"})
    assert json.loads(run("add", "--json")[1])["broker"] == "b3"
    assert local_ray.recall()["members"] == {"b1": "1.2.3.4:5"}


def test_a_refusal_is_one_line_and_code_1(run: Run) -> None:
    code, out, err = run("remove", "b9")
    assert (code, out, err) == (1, "", "mantamq: there is no broker 'b9'\n")
    assert run("remove")[0] == 2


@pytest.mark.parametrize("words", [["add"], ["remove", "b2", "--yes"]], ids=" ".join)
def test_ctrl_c_says_that_what_was_begun_goes_on(
    run: Run, cluster: MadeUp, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def pressed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, f"{words[0]}_broker", pressed)
    code, out, err = run(*words)
    assert (code, out) == (130, "") and err.splitlines() == [
        "what was begun goes on: see `mantamq broker list`", "mantamq: interrupted",
    ]  # fmt: skip


def test_fewer_than_three_only_after_a_yes(run: Run, cluster: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run("remove", "b2")
    assert code == 1 and "two brokers would be left" in err and "--yes" in err and err.count("\n") == 1
    monkeypatch.setattr(console, "err", Console(stderr=True, force_terminal=True, color_system=None))
    for answer, code in (("\n", 1), ("no\n", 1), ("y\n", 0)):
        assert "b2" in cluster.addresses
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", terminal)
        assert run("remove", "b2")[0] == code
    assert "b2" not in cluster.addresses


def test_list(run: Run) -> None:
    code, out, _ = run("list")
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("b")}
    assert code == 0
    assert "serving" in lines["b1"] and "1 of 1" in lines["b1"] and "node0 at 10.0.0.0" in lines["b1"]
    assert "0 of 1" in lines["b2"]
    assert "no answer" in lines["b3"]
    rows = json.loads(run("list", "--json")[1])["brokers"]
    assert [(row["broker"], row["state"], row["queues"]) for row in rows] == [
        ("b1", "serving", 1),
        ("b2", "serving", 0),
        ("b3", "no answer", 1),
    ]


def test_a_bar_only_after_a_moment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []
    monkeypatch.setattr(broker.Progress, "start", lambda self: started.append(True))
    run("add")
    assert started == []
    monkeypatch.setattr(broker, "PATIENCE_S", -1.0)
    run("add")
    assert started == [True]
