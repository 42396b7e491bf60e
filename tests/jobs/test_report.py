"""All questions at once, the page made of the answers, and the commands around them."""

from __future__ import annotations

import csv
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from history import History, busy_history, random_history
from mantamq.client.cli import app
from mantamq.client.cli.analyze import moment
from mantamq.jobs import answers, charts, report
from mantamq.jobs.events import events
from mantamq.jobs.export import export
from mantamq.protocol.errors import LocalError
from mantamq.store.events.event_parts import EventWriter, WriterLimits, to_table, write_part

VOID = {"meta", "line", "rect", "circle", "polygon", "polyline"}


class Page(HTMLParser):
    """Checks that tags match and that nothing is fetched; gathers the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "xlink:href"}, attrs
        assert tag not in ("script", "link", "img", "iframe")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def store(rows, directory: Path) -> str:
    for i in range(0, len(rows), 1500):
        write_part(str(directory), to_table(rows[i : i + 1500]), {})
    return str(directory)


@pytest.fixture(scope="module")
def busy() -> History:
    return busy_history(4)


@pytest.fixture(scope="module")
def known(spark, busy, tmp_path_factory) -> answers.Answers:
    directory = store(busy.rows, tmp_path_factory.mktemp("busy"))
    steps: list[tuple[int, int, str]] = []
    found = answers.gather(events(spark, directory).df, say=lambda *step: steps.append(step))
    assert [i for i, _, _ in steps] == list(range(steps[0][1]))
    return found


def test_the_answers_agree_with_each_other_and_the_machine(known, busy):
    enqueued = {id: queue.enqueued for id, queue in busy.queues.items()}
    found: dict[str, int] = {}
    for row in known.throughput:
        found[row["queue"]] = found.get(row["queue"], 0) + row["enqueued"]
    assert found == enqueued
    assert sum(row["messages"] for row in known.fates) == sum(enqueued.values())
    accepted = sum(row["messages"] for row in known.fates if row["fate"] == "accept")
    assert accepted == sum(queue.accepted for queue in busy.queues.values())
    assert sum(row["messages"] for row in known.heat) == accepted
    assert known.violations == []
    assert [row["evicted"] for row in known.failovers] == ["", "b2"]
    assert known.rows == len([row for row in busy.rows if row.part >= 0])
    last = {row["queue"]: row["depth"] for row in sorted(known.depth, key=lambda row: row["bucket_us"])}
    assert last == {id: len(queue.blobs) for id, queue in busy.queues.items()}


def test_the_page_is_whole_and_needs_no_network(known):
    page = report.page(known, ["not read: <b>odd</b>.parquet"])
    assert not re.search(r"https?://", page)
    parsed = Page(page)
    text = "".join(parsed.text)
    assert parsed.tags.count("svg") == 7
    for wanted in ("Throughput", "Latency", "Depth", "Consume locks", "Cluster and failovers", "✓ held"):
        assert wanted in text
    assert "not read: <b>odd</b>.parquet" in text
    assert not re.search(r"\b(nan|inf|None)\b", page.lower().replace("none}", "")), "a figure is no number"


def test_violations_are_shouted(known):
    broken = answers.Answers(**(vars(known) | {"violations": [
        {"guarantee": 3, "rule": "accepted twice", "times": 2, "queue": "q#1", "position": 7, "seq": 9}]}))  # fmt: skip
    text = "".join(Page(report.page(broken)).text)
    assert "✗ accepted twice (2 times, first at q#1 7, seq 9)" in text


def test_an_empty_table_is_a_page(spark, tmp_path):
    found = answers.gather(events(spark, str(tmp_path)).df)
    assert "no events" in "".join(Page(report.page(found)).text)


def test_a_moment_is_a_page(frame):
    history = History()
    history.enqueue("q#1", 1)
    Page(report.page(answers.gather(frame(history.rows))))


def test_one_queue_and_the_cluster(frame, busy):
    found = answers.gather(frame(busy.rows), ["mail"])
    assert {row["queue"] for row in found.throughput} == {"mail#2"}
    assert len(found.failovers) == 2 and found.violations == []


def test_odd_names_stay_text(frame):
    history = History()
    history.enqueue('<script>"&#1', 3)
    history.own('<script>"&#1', "<b>")
    history.acquire('<script>"&#1', 1, 3, accepted=True)
    Page(report.page(answers.gather(frame(history.rows))))


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (999, "999"), (1234, "1.23k"), (25e6, "25M"), (0.25, "0.25")])
def test_numbers(value, text):
    assert charts.number(value) == text


def test_durations_and_buckets():
    assert [charts.duration(us) for us in (5, 1500, 2e6, 90e6, 7200e6)] == ["5 µs", "1.5 ms", "2 s", "1.5 min", "2 h"]
    for span in (1, 10**6, 10**9, 10**12, 10**15):
        step = charts.bucket(span)
        assert span / step <= 120


# ---- export and the commands


@pytest.fixture
def directory(tmp_path) -> str:
    return store(random_history(3).rows, tmp_path / "events")


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_exports_are_the_table(directory, tmp_path, form):
    rows = random_history(3).rows
    path = tmp_path / f"out.{form}"
    count, skipped = export(path, form, directory)
    assert (count, skipped) == (len(rows), [])
    if form == "parquet":
        found = pq.read_table(path)["seq"].to_pylist()
    elif form == "csv":
        found = [int(row["seq"]) for row in csv.DictReader(path.open())]
    else:
        found = [json.loads(line)["seq"] for line in path.open()]
    assert found == [row.seq for row in rows]


def test_export_filters_as_events_do(spark, directory, tmp_path):
    rows = random_history(3).rows
    middle = rows[len(rows) // 2].time_us
    for how in (
        {"queues": ["q1"]},
        {"kinds": ["accept"], "since_us": middle},
        {"until_us": middle, "queues": ["q2#2"]},
    ):
        count, _ = export(tmp_path / "x.csv", "csv", directory, **how)
        assert count == events(spark, directory, **how).df.count() > 0


def test_export_of_history_and_tail(tmp_path):
    rows = random_history(3).rows
    writer = EventWriter(str(tmp_path / "events"), WriterLimits(block_rows=50))
    for i, row in enumerate(rows):
        writer.append("", 0, [row])
        if i == 200:
            writer.roll()
    tail = writer.tail()
    writer.roll()
    count, _ = export(tmp_path / "x.parquet", "parquet", tail=tail)
    assert count == len(rows)
    assert pq.read_table(tmp_path / "x.parquet")["row"].to_pylist() == list(range(1, len(rows) + 1))


def test_a_failed_export_leaves_nothing(directory, tmp_path):
    with pytest.raises(LocalError, match="not 'xml'"):
        export(tmp_path / "x.xml", "xml", directory)
    with pytest.raises(LocalError, match="there are no events in"):
        export(tmp_path / "x.csv", "csv", str(tmp_path / "none"))
    assert [path.name for path in tmp_path.iterdir()] == ["events"]


def run(capsys, monkeypatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["mantamq", *words])
    with pytest.raises(SystemExit) as left:
        app.main()
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


def test_analyze(spark, capsys, monkeypatch, directory, tmp_path):
    """With the tests' Spark, which it must not stop."""
    from mantamq.jobs import session

    class Kept:
        def __enter__(self):
            return spark

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(session, "start", lambda *_, **__: Kept())
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path / "home"))
    Path(directory, "stray.txt").write_text("?")
    page = tmp_path / "report.html"
    code, out, err = run(capsys, monkeypatch, "analyze", "-d", directory, "--report", str(page))
    assert code == 0, err
    assert "throughput" in out and "audit: every guarantee held" in out
    assert "not read: stray.txt" in err
    Page(page.read_text())
    code, out, _ = run(capsys, monkeypatch, "analyze", "-d", directory, "--queue", "q1", "--json")
    assert {row["queue"] for row in json.loads(out)["throughput"]} == {"q1#1"}
    code, _, err = run(capsys, monkeypatch, "analyze", "--since", "2h", "-d", directory)
    assert code == 1 and "no events of that time" in err


def test_events_export(capsys, monkeypatch, directory, tmp_path):
    path = tmp_path / "x.jsonl"
    code, out, _ = run(capsys, monkeypatch, "events", "export", str(path), "-d", directory, "--json")
    assert code == 0 and json.loads(out)["rows"] == len(random_history(3).rows)
    code, _, err = run(capsys, monkeypatch, "events", "export", str(path), "-d", str(tmp_path / "none"))
    assert code == 1 and "there are no events" in err
    code, _, err = run(capsys, monkeypatch, "events", "export", str(path), "--since", "soon")
    assert code == 2


def test_moments():
    import time

    assert moment("") == 0
    assert abs(moment("2h") - (time.time() - 7200) * 1e6) < 5e6
    assert moment("2026-01-31T12:00") == moment("2026-01-31T13:00+01:00") == 1769860800 * 10**6
