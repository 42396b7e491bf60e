"""What is around the tap: its warnings, where a cluster's parts go, what Ray needs for Spark, what the demo says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from made_up_status import actors, plan, report
from mantamq.actors import cluster
from mantamq.actors.config import EventsConfig
from mantamq.actors.ray_control import local_ray
from mantamq.actors.supervisor import tap_life
from mantamq.actors.supervisor.health import complaints
from mantamq.client.cli import status
from mantamq.client.demo import analysis
from mantamq.client.demo.analysis import Findings
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.machines import TapStatus
from mantamq.protocol.status.members import TapMember
from msgspec.structs import replace
from rich.console import Console

DAY_US = 86400 * 1_000_000


def tap(**machine: Any) -> TapMember:
    known = TapStatus(streams=4, untold=[], events=1200, dropped=0, rows=1500)
    return replace(MUTE, machine=replace(known, **machine))


MUTE = TapMember(name="events", role="EventTap", pid=7, node="n", host="h", address="h:1")
DEAD = replace(MUTE, alive=False, error="gone")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([tap()], []),
        ([], ["not captured now"]),
        ([DEAD], ["not captured now"]),
        ([MUTE], ["is starting"]),
        ([replace(MUTE, error="no shell")], ["no shell"]),
        ([tap(error="no space left")], ["cannot be written: no space left"]),
        ([tap(dropped=12345)], ["12,345 events are missing"]),
        ([tap(untold=["a#1", "b#2"])], ["beginning of 2 streams"]),
        ([tap(dropped=1, error="x")], ["cannot be written", "1 events"]),
    ],
)
def test_what_is_wrong_with_the_events_is_a_warning_and_no_complaint(found, words):
    said = tap_life.warnings("/data/events", found)
    assert len(said) == len(words)
    assert all(word in line for word, line in zip(words, said, strict=True))
    assert tap_life.warnings("", found) == []
    assert complaints(plan(3), actors(3) + found) == []


def test_the_status_shows_the_tap_and_its_warnings():
    known = replace(report([*actors(3), tap(dropped=5)]), warnings=["5 events are missing"])
    console = Console(width=120, record=True, file=io.StringIO())
    for part in status.view(known):
        console.print(part)
    text = console.export_text()
    assert "1,200 events in 1,500 rows" in text and "warning: 5 events are missing" in text
    assert "healthy: everything is there" in text


def test_events_go_nowhere_unless_somebody_says_so(monkeypatch, tmp_path):
    def directory(events: str | None) -> str:
        return cluster._events(events, 7.0, 10.0).directory

    assert directory(None) == directory("off") == directory("") == ""
    assert cluster._events("off", 7.0, 10.0) == EventsConfig(), "the defaults are those of start_cluster"
    assert directory("s3://bucket/events") == "s3://bucket/events"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert directory("here") == str(tmp_path / "here")
    assert directory("~/events") == "/home/me/events"
    monkeypatch.setattr(tap_life, "missing", lambda: "pyarrow")
    assert directory("off") == ""
    with pytest.raises(LocalError, match="pyarrow"):
        directory("here")


def test_ray_gets_a_java_unless_the_user_has_one(monkeypatch, tmp_path):
    (tmp_path / "java-runtime" / "bin").mkdir(parents=True)
    (tmp_path / "java-runtime" / "bin" / "java").touch()
    found = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(local_ray.importlib.util, "find_spec", lambda name: found)
    home = str(tmp_path / "java-runtime")
    assert local_ray.java_on_path({"PATH": "/bin"}) == {"JAVA_HOME": home, "PATH": f"{home}/bin:/bin"}
    assert local_ray.java_on_path({"PATH": "/bin", "JAVA_HOME": "/opt/java"}) == {}
    monkeypatch.setattr(local_ray.importlib.util, "find_spec", lambda name: None)
    assert local_ray.java_on_path({"PATH": "/bin"}) == {}


# ---- folders


def test_each_cluster_has_a_folder_and_the_newest_is_read(tmp_path):
    pytest.importorskip("pyarrow")
    from mantamq.protocol.capture.event_table import Row
    from mantamq.store.events.event_folders import folder_of, folders, forget_folders, newest_folder
    from mantamq.store.events.event_parts import WriterLimits, to_table, write_part

    base = str(tmp_path)
    old, new, empty = (folder_of(base, 1_700_000_000 + 1000 * n, f"abc{n}") for n in range(3))
    assert Path(old).name == "cluster-20231114T221320-abc0"
    for days, folder in enumerate((old, new), 1):
        write_part(folder, to_table([Row(row=1, time_us=days * DAY_US)]), {})
    Path(empty).mkdir()
    (tmp_path / "mine").mkdir()
    assert folders(base) == [old, new, empty]
    assert newest_folder(base) == newest_folder(base + "/") == new
    assert newest_folder(old) == old
    assert newest_folder(str(tmp_path / "nowhere")) == str(tmp_path / "nowhere")
    assert newest_folder("") == ""
    keep = WriterLimits(keep_s=86400, keep_bytes=0)
    assert forget_folders(base, new, keep, int(2.5 * DAY_US)) == [old]
    assert forget_folders(base, new, keep, 9 * DAY_US) == []  # its own parts are the writer's business
    assert folders(base) == [new, empty]
    write_part(old, to_table([Row(row=1, time_us=1)]), {})
    assert forget_folders(base, new, WriterLimits(keep_s=0, keep_bytes=0), 9 * DAY_US) == []
    assert forget_folders(base, new, WriterLimits(keep_s=0, keep_bytes=10), 9 * DAY_US) == [old]


# ---- the demo's last words

LINE = {"queue": "EWR", "published": 10, "delivered": 10}


def told(**changes: Any) -> Findings:
    return Findings(
        **{"queues": {"EWR": {"enqueued": 10, "accepted": 10}}, "rows": 9, "p99_ms": {"EWR": 3.5}, "report": "r"}
        | changes
    )


def test_the_demo_says_when_events_and_consumers_agree():
    text = " ".join(analysis.headline(told(), [LINE]))
    assert "10 enqueued, 10 accepted" in text and "p99 3.5 ms" in text
    assert "[red]" not in text and "[yellow]" not in text


@pytest.mark.parametrize(
    ("changes", "line", "word"),
    [
        ({"queues": {"EWR": {"enqueued": 9, "accepted": 10}}}, LINE, "9 enqueued by the events, 10 published"),
        ({}, LINE | {"delivered": 11}, "10 accepted by the events, 11 delivered"),
        ({"queues": {}}, LINE, "0 enqueued"),
        ({"violations": [{"rule": "accepted twice", "times": 3}]}, LINE, "accepted twice (3)"),
        ({"dropped": 4}, LINE, "4 events are missing"),
    ],
)
def test_the_demo_says_what_is_wrong(changes, line, word):
    text = " ".join(analysis.headline(told(**changes), [line]))
    assert word in text and ("[red]" in text or "[yellow]" in text)
