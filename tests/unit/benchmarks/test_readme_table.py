"""The README's figures are those of the run that is kept, rounded so that no digit is noise."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from mantamq.benchmarks import readme_table
from mantamq.benchmarks.readme_table import lines, read
from mantamq.benchmarks.results import Figure

from ...readme import ROOT


def figure(system: str, workload: str, metric: str, median: float) -> Figure:
    return Figure(system, workload, metric, "", median, median, median, 3)


def test_the_readme_has_the_table_of_the_run_that_is_kept() -> None:
    assert "\n".join(lines(read())) in (ROOT / "README.md").read_text()


def test_each_figure_of_the_run_is_a_median_of_three_rounds_at_least() -> None:
    assert min(one.rounds for one in read() if one.system != "disk") >= 3


def test_each_system_stands_in_its_column_and_what_was_not_measured_is_a_dash() -> None:
    table = lines(
        [
            figure("manta", "throughput", "messages_per_s", 85_661.2),
            figure("manta", "durable", "p50_ms", 3.361),
            figure("manta", "durable", "p99_ms", 10.99),
            figure("rabbitmq-quorum", "throughput", "messages_per_s", 1387.0),
            figure("rabbitmq-quorum", "durable", "messages_per_s", 1508.0),
        ]
    )
    assert table[2] == "| in memory, messages/s | 86,000 | – | – | – |"  # RabbitMQ flushes always
    assert table[3] == "| flushed at a majority, messages/s | – | – | 1,500 | – |"
    assert table[5] == "| flushed at a majority, 200/s: p50 / p99, ms | 3.4 / 11 | – | – | – |"


def test_a_run_is_kept_without_what_the_table_does_not_show(tmp_path: Path) -> None:
    latest, kept = tmp_path / "latest.json", tmp_path / "peers.json"
    shown = figure("manta", "latency", "p50_ms", 1.55)
    latest.write_text(json.dumps([asdict(one) for one in (shown, figure("manta", "idle", "actors", 14))]))
    readme_table.keep(latest, kept)
    assert read(kept) == [shown]


def test_a_run_without_peers_is_not_kept(tmp_path: Path) -> None:
    latest = tmp_path / "latest.json"
    latest.write_text("[]")
    with pytest.raises(SystemExit, match="--only throughput,latency,durable"):
        readme_table.keep(latest, tmp_path / "peers.json")
