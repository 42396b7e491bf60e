"""What `start_cluster` and `mantamq up` are told becomes the operator's choice, and is judged before there is a Ray."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
from mantamq.actors import cluster, process_logs
from mantamq.actors.config import ClusterBook, ClusterConfig, EventsConfig, LogConfig, ManagementConfig, StoreConfig
from mantamq.actors.ray_control.placement import Placement
from mantamq.actors.supervisor.plan import Plan
from mantamq.client.cli import app
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import Limits
from mantamq.protocol.supervisor.layout import Node

NODES = [Node(f"n{number}", f"10.0.0.{number}", {"CPU": 6.0}) for number in (1, 2)]
BOOK = ClusterBook(
    cluster="c", namespace="mantamq", stage="running", token="", addresses={"b1": "10.0.0.1:5"}, nodes={}, program="",
    pids={"b1": 7},
)  # fmt: skip
DEFAULTS = {
    "brokers": None, "address": "local", "namespace": "mantamq", "detached": None, "token": "", "slice_ms": 20,
    "spares": 2, "queue_actors_max": None, "client_port": None, "num_cpus": None, "bind": None, "events": None,
    "events_keep_days": 7.0, "events_keep_gb": 10.0, "max_message_bytes": 8 * 1024 * 1024, "rebalance": True,
    "progress": None, "data": None, "restart": False, "wait_s": 15.0, "wait_for": 0, "container_bytes": 1 << 24,
    "containers": 2, "reserve_bytes": 256 << 20, "connect": "sqlite", "catalog": "", "queue_limit": 0, "memory_watermark": 0.4,
    "management": None, "alerts_to": "", "log_format": "text", "log_level": "info",
}  # fmt: skip


class Supervisor:
    def call_now(self, method: str, *args: Any, timeout_s: float = 0.0) -> Any:
        assert method == "book_now"
        return BOOK


class MadeUpRay:
    """All that is asked of Ray.

    Attributes:
        joined: whether this process is in one.
        asked: what was done, in order.
        plans: what supervisors were given.
        placements: where they were started.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.joined = False
        self.asked: list[str] = []
        self.plans: list[Plan] = []
        self.placements: list[Placement] = []
        monkeypatch.setattr(cluster.ray, "is_initialized", lambda: self.joined)
        monkeypatch.setattr(cluster.local_ray, "start_local", lambda namespace, cpus: self.asked.append("start"))
        monkeypatch.setattr(cluster.local_ray, "join", lambda address, namespace: self.asked.append(f"join {address}"))
        monkeypatch.setattr(cluster, "alive_nodes", lambda: NODES)
        monkeypatch.setattr(cluster.bound, "this_program", lambda: "job")
        monkeypatch.setattr(cluster.tap_life, "missing", lambda: "")
        monkeypatch.setattr(cluster.atexit, "register", lambda call: None)
        monkeypatch.setattr(cluster, "_start_supervisor", self._placed)
        monkeypatch.setattr(cluster, "_follow", lambda supervisor, plan, say: self.plans.append(plan))

    def _placed(self, placement: Placement) -> Supervisor:
        self.placements.append(placement)
        return Supervisor()

    def plan(self, **arguments: Any) -> Plan:
        cluster.start_cluster(**arguments)
        return self.plans[-1]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUpRay:
    return MadeUpRay(monkeypatch)


def test_the_arguments_and_their_defaults_are_those_that_programs_were_written_for() -> None:
    parameters = inspect.signature(cluster.start_cluster).parameters
    assert {name: one.default for name, one in parameters.items()} == DEFAULTS
    assert list(parameters) == list(DEFAULTS)


def test_the_defaults_of_an_embedded_cluster(made_up: MadeUpRay) -> None:
    config = ClusterConfig(bind="127.0.0.1", queue_actors_max=6, program="job")
    assert made_up.plan() == Plan(config=config, members=("b1", "b2", "b3"), hosts=2)
    assert made_up.asked == ["start"]


def test_the_defaults_in_a_ray_that_runs(made_up: MadeUpRay) -> None:
    config = ClusterConfig(queue_actors_max=6)
    assert made_up.plan(address="10.0.0.1:6379") == Plan(config=config, members=("b1", "b2", "b3"), hosts=2)
    assert made_up.asked == ["join 10.0.0.1:6379"]
    made_up.joined = True
    assert made_up.plan(address="auto", detached=False).config.program == "job"
    assert made_up.plan(address="local").config == ClusterConfig(queue_actors_max=6, program="job"), "it is not its own"


def test_each_argument_has_its_place(made_up: MadeUpRay) -> None:
    plan = made_up.plan(
        brokers=2, token="t", slice_ms=9, spares=3, queue_actors_max=4, client_port=5000, bind="0.0.0.0",
        events="s3://bucket/events", events_keep_days=0.5, events_keep_gb=0.5, max_message_bytes=5000, rebalance=False,
        detached=True, data="/disk/../data", restart=True, wait_s=1.5, wait_for=2, container_bytes=1 << 20, containers=3,
        reserve_bytes=4096, connect="log", catalog="mine", queue_limit=9999, memory_watermark=1 << 30, management=0,
        alerts_to="http://x/y",
    )  # fmt: skip
    events = EventsConfig(directory="s3://bucket/events", keep_s=43200.0, keep_bytes=1 << 29)
    config = ClusterConfig(
        token="t", slice_ms=9, spares=3, queue_actors_max=4, client_port=5000, bind="0.0.0.0", events=events,
        rebalance=False, limits=Limits(message_bytes=5000, queue_bytes=9999, memory_bytes=1 << 30, memory_share=0.0),
        store=StoreConfig(
            data="/data", restart=True, wait_s=1.5, wait_for=2, container_bytes=1 << 20, containers=3, reserve_bytes=4096,
            catalog="log", catalog_name="mine",
        ),
        management=ManagementConfig(port=0, webhook="http://x/y"),
    )  # fmt: skip
    assert plan == Plan(config=config, members=("b1", "b2"), hosts=2, asked=2)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"spares": 0}, "at least one warm queue replica"),
        ({"queue_actors_max": -1}, "one that keeps queues"),
        ({"client_port": 65534}, "cannot count up"),
        ({"max_message_bytes": 1 << 30}, "the largest message may have"),
        ({"queue_limit": 1000}, "1,024 bytes or more, or 0 for none, not 1,000"),
        (
            {"memory_watermark": 1.5},
            "a share of the machine's memory, up to 1, or at least 268,435,456 bytes .* not 1.5",
        ),
        ({"alerts_to": "http://x/y"}, "posted by the page"),
        ({"alerts_to": "me@here", "management": "auto"}, "not to 'me@here'"),
        ({"management": "here"}, "the page's port is a number, auto or off, not 'here'"),
        ({"management": 65536}, "the page's port is 1 to 65,535, or 0 for any, not 65536"),
        ({"memory_watermark": -0.1}, "or 0 for none, not -0.1"),
        ({"queue_limit": -1}, "1,024 bytes or more, or 0 for none, not -1"),
        ({"slice_ms": "20"}, "not of its type"),
        ({"data": "s3://bucket/data"}, "directory of a local disk"),
        ({"data": "/data", "container_bytes": 4096}, "524,288 to 1,073,741,824 bytes"),
        ({"data": "/data", "container_bytes": (1 << 20) + 1}, "whole pages"),
        ({"data": "/data", "containers": 1}, "at least two containers"),
        ({"data": "/data", "brokers": 3, "wait_for": 4}, "no more stores can be waited for"),
        ({"restart": True}, "name a directory"),
        ({"log_format": "xml"}, "a log is written as text or json, not as 'xml'"),
        ({"log_level": "INFO"}, "one of debug, info, warning, error, not 'INFO'"),
    ],
)
def test_a_wrong_choice_is_refused_before_anything_is_started(
    made_up: MadeUpRay, wrong: dict[str, Any], rule: str
) -> None:
    with pytest.raises(LocalError, match=rule):
        cluster.start_cluster(**wrong)
    assert not made_up.asked and not made_up.plans


def test_the_supervisor_hands_on_how_logs_are_written(made_up: MadeUpRay) -> None:
    made_up.plan(namespace="shop", log_format="json", log_level="warning")
    made_up.plan()
    chosen = LogConfig(format="json", level="warning", cluster="shop")
    assert made_up.placements == [Placement("shop", chosen), Placement("mantamq", LogConfig(cluster="mantamq"))]


def test_whoever_interrupts_a_start_hears_that_it_is_undone(
    made_up: MadeUpRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def interrupted(supervisor: Any, plan: Plan, say: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "_follow", interrupted)
    monkeypatch.setattr(cluster, "_stop", lambda supervisor, namespace: said.append("stopped"))
    monkeypatch.setattr(cluster.ray, "shutdown", lambda: said.append("Ray is left"))
    with pytest.raises(KeyboardInterrupt):
        made_up.plan(progress=said.append)
    assert said[-3:] == ["ending what was started", "stopped", "Ray is left"]


# ---- `mantamq up`


def up(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, *words: str, logs: list[Any] | None = None) -> dict[str, Any]:
    """The arguments with which it starts a cluster; none if it starts nothing. `logs`: how it writes its own log."""
    told: dict[str, Any] = {}
    kept = logs if logs is not None else []

    class Started(Exception): ...

    def start_cluster(**arguments: Any) -> None:
        told.update(arguments)
        raise Started

    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.delenv("MANTAMQ_TOKEN", raising=False)
    monkeypatch.setattr(cluster, "start_cluster", start_cluster)
    monkeypatch.setattr(process_logs, "set_up", lambda *how: kept.append(how))  # it would be this process's
    monkeypatch.setattr(sys, "argv", ["mantamq", "up", "--address", "10.0.0.1:6379", "--events", "off", *words])
    with pytest.raises((Started, SystemExit)):
        app.main()
    told.pop("progress", None)
    return told


def test_up_chooses_what_start_cluster_does_and_outlives_its_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    told = up(monkeypatch, tmp_path)
    assert told.pop("address") == "10.0.0.1:6379" and told.pop("detached") is True and told.pop("events") == "off"
    assert told.pop("management") == "auto"
    assert told.pop("data") == f"{tmp_path}/data", "it keeps a store unless it is told not to"
    assert told == {name: DEFAULTS[name] for name in told}
    assert set(DEFAULTS) - set(told) - {"data"} == {
        "address",
        "detached",
        "events",
        "queue_actors_max",
        "num_cpus",
        "management",
        "progress",
    }


def test_each_flag_of_up_has_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    told = up(
        monkeypatch, tmp_path, "--brokers", "2", "--token", "t", "--slice-ms", "9", "--spares", "3", "--client-port",
        "5000", "--bind", "0.0.0.0", "--events-keep-days", "0.5", "--events-keep-gb", "0.25", "--max-message-size",
        "1MiB", "--no-rebalance", "--namespace", "two", "--data", f"{tmp_path}/here", "--restart", "--wait", "2.5",
        "--wait-for", "2", "--container-size", "1MB", "--initial-containers", "4", "--reserve", "1MiB",
        "--connect", "postgresql://me@host/db", "--catalog", "mine", "--queue-limit", "100MiB",
        "--memory-watermark", "25%", "--management", "8080", "--alerts-to", "http://x/y",
        "--log-format", "json", "--log-level", "debug",
    )  # fmt: skip
    assert told == {
        "brokers": 2, "address": "10.0.0.1:6379", "namespace": "two", "detached": True, "token": "t", "slice_ms": 9,
        "spares": 3, "client_port": 5000, "bind": "0.0.0.0", "events": "off", "events_keep_days": 0.5,
        "events_keep_gb": 0.25, "max_message_bytes": 1 << 20, "rebalance": False, "data": f"{tmp_path}/here",
        "restart": True, "wait_s": 2.5, "wait_for": 2, "container_bytes": 1_003_520, "containers": 4,
        "reserve_bytes": 1 << 20, "connect": "postgresql://me@host/db", "catalog": "mine",
        "queue_limit": 100 << 20, "memory_watermark": 0.25, "management": "8080", "alerts_to": "http://x/y",
        "log_format": "json", "log_level": "debug",
    }  # fmt: skip


def test_up_writes_its_own_log_as_the_cluster_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    logs: list[Any] = []
    up(monkeypatch, tmp_path, "--namespace", "shop", "--log-format", "json", "--token", "t0ken", logs=logs)
    assert logs == [(LogConfig(format="json", cluster="shop"), "mantamq up", ["t0ken"])]
    assert up(monkeypatch, tmp_path, "--log-format", "xml") == {}


def test_up_keeps_nothing_with_memory_and_one_directory_for_each_namespace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up(monkeypatch, tmp_path, "--memory")["data"] == ""
    assert up(monkeypatch, tmp_path, "--namespace", "two")["data"] == f"{tmp_path}/data-two"
    for words in (["--data", "/d"], ["--restart"], ["--wait-for", "2"]):
        assert up(monkeypatch, tmp_path, "--memory", *words) == {}
        assert "with --memory nothing is stored" in " ".join(capsys.readouterr().err.split())


def test_up_refuses_what_cannot_be_before_it_starts_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up(monkeypatch, tmp_path, "--client-port", "65534") == {}
    assert "3 brokers' client ports cannot count up from 65534" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("said", "page"),
    [
        (None, ManagementConfig()),
        ("off", ManagementConfig()),
        ("auto", ManagementConfig(port=15672, elsewhere=True)),
        (0, ManagementConfig(port=0)),
        ("0", ManagementConfig(port=0)),
        ("8080", ManagementConfig(port=8080)),
    ],
)
def test_where_the_page_is_to_be(made_up: MadeUpRay, said: Any, page: ManagementConfig) -> None:
    assert made_up.plan(management=said).config.management == page
