"""`mantamq events --follow`: the rows that come, each once, from when it was asked on."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.client.cli import analyze, app
from mantamq.jobs import session
from mantamq.protocol.capture.event_table import Row, Tail
from mantamq.store.events.event_parts import to_ipc, to_table

AT_US = 1_800_000_000_123_000


def alert(up: bool, level: int) -> Row:
    detail = '{"what":"count","threshold":5}'
    kind = "alert_up" if up else "alert_down"
    return Row(time_us=AT_US, kind=kind, queue="q#1", broker="b1", part=-1, value=level, detail=detail)


ROWS = [
    Row(time_us=AT_US, kind="enqueue", queue="q#1", client="c/1", position_first=1, position_last=5, count=5, bytes=99),
    alert(True, 5),
    Row(time_us=AT_US, kind="acquire", queue="r#2", broker="b2", effective=False),
    alert(False, 2),
]


def tail(first: int, last: int) -> Tail:
    return Tail("dir", first, last, [to_ipc(to_table(ROWS[first - 1 : last], first))] if first <= last else [])


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any) -> Any:
    """Run it on these tails, one look after another, until there are no more: what it printed, and said."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))

    def run(tails: list[Tail], *words: str) -> tuple[list[str], str]:
        looks = iter(tails)

        def pressed(seconds: float) -> None:
            if looks.__length_hint__() == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(analyze, "_tail", lambda *_, **__: next(looks))
        monkeypatch.setattr(analyze, "time", SimpleNamespace(sleep=pressed))
        monkeypatch.setattr(sys, "argv", ["mantamq", "events", "--follow", *words])
        with pytest.raises(SystemExit) as ended:
            app.main()
        printed = capsys.readouterr()
        assert ended.value.code == 130, printed.err
        return printed.out.splitlines(), printed.err

    return run


def test_what_was_there_before_is_not_told_and_each_row_once(follow: Any) -> None:
    lines, _ = follow([tail(1, 1), tail(1, 2), tail(1, 2), tail(2, 4)], "--json")
    assert [json.loads(line)["kind"] for line in lines] == ["alert_up", "acquire", "alert_down"]


def test_kinds_and_queues_may_be_named(follow: Any) -> None:
    lines, _ = follow([tail(1, 0), tail(1, 4)], "--kind", "alert_up", "--kind", "alert_down", "--queue", "q")
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        'alert_up       q#1 b1 value=5 {"what":"count","threshold":5}',
        'alert_down     q#1 b1 value=2 {"what":"count","threshold":5}',
    ]


def test_a_line_says_all_of_an_event(follow: Any) -> None:
    lines, _ = follow([tail(1, 0), tail(1, 3)])
    assert lines[0].endswith("enqueue        q#1 c/1 1-5 bytes=99") and lines[0][2] == ":" == lines[0][5]
    assert lines[2].endswith("acquire        r#2 b2 (no effect)")


def test_what_came_faster_than_it_looks_is_counted(follow: Any) -> None:
    lines, said = follow([tail(1, 1), tail(4, 4)])
    assert len(lines) == 1 and "2 events came faster: they are in dir" in said


@pytest.mark.parametrize("words", [["events", "--follow"], ["events", "export", "x.csv", "--live"]])
def test_where_there_is_no_ray_none_is_started_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any, words: list[str]
) -> None:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(session, "join_ray", lambda *_: pytest.fail("Ray was asked"))
    monkeypatch.setattr(sys, "argv", ["mantamq", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1 and "there is no Ray cluster at '127.0.0.1:1'" in said and "`mantamq up`" in said


def test_without_follow_and_with_a_wrong_kind_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any
) -> None:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setattr(analyze, "_tail", lambda *_, **__: tail(1, 1))
    for words, said in (["--kind", "alert_up"], "--follow"), (["--follow", "--kind", "odd"], "no kind of event 'odd'"):
        monkeypatch.setattr(sys, "argv", ["mantamq", "events", *words])
        with pytest.raises(SystemExit) as ended:
            app.main()
        assert ended.value.code in (1, 2) and said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["events", "--follow"], ["events", "export", "x.csv", "--live"], ["analyze", "--live", "--spark", "local"]],
)
def test_another_cluster_may_be_named_by_its_ray_and_namespace(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any, words: list[str]
) -> None:
    """How the Ray of `mantamq up` is spoken to is not how another is; the namespace is, unless it is named."""
    asked: list[tuple[str, ...]] = []

    class Asked(Exception):
        pass

    def tail(address: str, namespace: str, *rest: Any, **options: Any) -> Tail:
        asked.append((address, namespace, os.environ.get("RAY_AUTH_MODE", "")))
        raise Asked

    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    state = {"address": "127.0.0.1:6379", "namespace": "mine", "auth_mode": "token"}
    (tmp_path / "state.json").write_text(json.dumps(state))
    monkeypatch.setattr(analyze, "_tail", tail)
    monkeypatch.setattr("mantamq.actors.ray_control.door.knock", lambda address: "10.0.0.7:6379")
    for named in (["--address", "ray.example:6379", "--namespace", "theirs"], ["--address", "auto"], []):
        monkeypatch.setattr(sys, "argv", ["mantamq", *words, *named])
        with pytest.raises((SystemExit, Asked)):
            app.main()
    capsys.readouterr()
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert asked == [
        ("10.0.0.7:6379", "theirs", ""),
        ("10.0.0.7:6379", "mine", ""),
        ("127.0.0.1:6379", "mine", "token"),
    ]


@pytest.mark.parametrize(
    "words,said",
    [
        (["events", "export", "x.csv", "--address", "auto"], "say --live, or with --directory"),
        (["analyze", "--namespace", "theirs"], "say --live, or with --directory"),
        (["events", "--address", "auto", "export", "x.csv"], "say options of export behind it"),
    ],
)
def test_no_other_clusters_events_are_taken_for_those_of_a_named_one(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any, words: list[str], said: str
) -> None:
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["mantamq", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 2 and said in " ".join(capsys.readouterr().err.split())
