"""What is told of thousands of queues stays short, the busiest first; and what was not measured is not drawn."""

from __future__ import annotations

import io
import re

import pytest
from mantamq.client.cli import analyze, console
from mantamq.client.cli.analyze import TOP
from mantamq.jobs import charts, report
from mantamq.jobs.answers import Answers
from mantamq.jobs.report import TOP_ROWS
from rich.console import Console

QUEUES = 2007


@pytest.fixture
def many() -> Answers:
    names = [f"q{n}#{n}" for n in range(QUEUES)]
    us = dict.fromkeys(("p50_us", "p90_us", "p99_us", "p999_us", "max_us"), 1000)
    return Answers(
        from_us=1, until_us=60_000_001, rows=9,
        throughput=[
            {"queue": name, "bucket_us": 0, "enqueued": n, "enqueued_bytes": n, "acquired": n, "accepted": n}
            for n, name in enumerate(names)
        ],
        latency=[{"queue": name, "phase": "wait", "messages": 1, **us} for name in names],
        fairness=[
            {"queue": name, "broker": "b1", "times": 1, "share": 1.0, "held_us": 1, "acquired": 1, "fairness": 1.0,
             "acquired_per_s": 1.0} for name in names
        ],
        redeliveries=[{"queue": name, "messages": 1, "redelivered": 1, "redeliveries": 1, "most": 1} for name in names],
        shares=[{"queue": name, "broker": "b1", "share": 1.0, "acquired": 1, "accepted": 1} for name in names],
    )  # fmt: skip


def test_the_terminal_shows_the_busiest_and_counts_the_others(many: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    out = Console(file=shown, width=80)
    monkeypatch.setattr(console, "out", out)
    monkeypatch.setattr(analyze, "out", out)
    analyze._tables(many)
    lines = shown.getvalue().splitlines()
    assert len(lines) < 5 * (TOP + 10)
    assert lines.count(f"and {QUEUES - TOP:,} more") == 4 and QUEUES - TOP == 1987
    first = next(line for line in lines if line.startswith("q"))
    assert first.split()[0] == "queue" and lines[3].split()[0] == "q2006#2006"


def test_the_page_shows_the_busiest_and_counts_the_others(many: Answers) -> None:
    page = report.page(many)
    assert page.count(f"and {QUEUES - TOP_ROWS:,} more") == 4
    assert "q2006#2006" in page and "q1#1<" not in page
    assert len(page) < 200_000


def test_a_line_breaks_where_nothing_was_measured() -> None:
    step = 10
    curves = {"p50": [(5, 1.0), (15, 2.0), (25, 2.0), (1005, 2.0), (1015, 1.0), (2005, 1.0)]}
    svg = charts.heat({(0, 1): 3.0}, 0, 3000, step, str, "unit", curves)
    lines = re.findall(r'class="c1 line" points="([^"]*)"', svg)
    assert [len(line.split()) for line in lines] == [3, 2]
    assert svg.count('<circle class="c1 fill"') == 1
