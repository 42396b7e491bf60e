"""The demo's end: what its event table tells on Spark, beside what the consumers have counted themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...protocol.errors import LocalError


@dataclass
class Findings:
    """The queues, as the events tell of them.

    Attributes:
        queues: queue -> how many messages were enqueued and accepted, by the events.
        rows: how many rows of the table that took.
        tail_rows: how many of them came from the object store.
        p99_ms: queue -> 99th percentile from enqueue to accept, milliseconds.
        handovers: how often another broker acquired next: a consume lock also goes where nothing is left to acquire.
        violations: of the guarantees, as the audit found them.
        dropped: events that are missing from the table.
        seconds: Spark's start, and the analysis.
        report: where the page is.
    """

    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: int = 0
    tail_rows: int = 0
    p99_ms: dict[str, float] = field(default_factory=dict)
    handovers: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    report: str = ""

    def differs(self, table: list[dict[str, Any]]) -> list[str]:
        """Where the events and the consumers' own counts differ, in words.

        Args:
            table: per queue what was published and delivered, by the demo's own count.
        """
        wrong: list[str] = []
        for line in table:
            told = self.queues.get(line["queue"], {"enqueued": 0, "accepted": 0})
            for ours, theirs in (("enqueued", "published"), ("accepted", "delivered")):
                if told[ours] != line[theirs]:
                    wrong.append(f"{line['queue']}: {told[ours]:,} {ours} by the events, {line[theirs]:,} {theirs}")
        return wrong


def headline(told: Findings, table: list[dict[str, Any]]) -> list[str]:
    """The lines to print, with rich's marks.

    Args:
        table: as in `Findings.differs`.
    """
    enqueued = sum(queue["enqueued"] for queue in told.queues.values())
    accepted = sum(queue["accepted"] for queue in told.queues.values())
    worst = max(told.p99_ms.items(), key=lambda item: item[1], default=("-", 0.0))
    start_s, ask_s = told.seconds
    lines = [
        f"By the events ({told.rows:,} rows, {told.tail_rows:,} of them from the object store): {enqueued:,} enqueued, "
        f"{accepted:,} accepted, p99 {worst[1]:,.1f} ms from enqueue to accept ({worst[0]}).",
        f"Spark on Ray started in {start_s:.1f} s and took {ask_s:.1f} s; the report is in {told.report}.",
    ]
    differs = told.differs(table)
    if differs:
        lines += [f"[red]The events and the consumers differ: {line}[/red]" for line in differs]
    else:
        lines.append("[green]The events tell of every queue what its consumers have counted.[/green]")
    if told.dropped:
        lines.append(f"[yellow]{told.dropped:,} events are missing from the table.[/yellow]")
    if told.violations:
        broken = ", ".join(f"{one['rule']} ({one['times']:,})" for one in told.violations)
        lines.append(f"[red]The audit found broken guarantees: {broken}.[/red]")
    else:
        lines.append("[green]The audit of the guarantees, message by message, found nothing wrong.[/green]")
    return lines


def missing() -> str:
    """The reason why events cannot be kept or analysed here, in a line; "" for none."""
    try:
        from ...actors.supervisor import tap_life
        from ...jobs import session

        tap_life.check("somewhere")
        return session.missing_for_ray()
    except ImportError as error:
        return f"this needs {error.name}: pip install 'mantamq[spark]'"
    except LocalError as error:
        return str(error)


def ask(report: Path, say: Callable[[str], None]) -> Findings:
    """Analyse the events of the cluster this process has started, on Spark through RayDP, and write the page.

    Raises:
        LocalError: Spark does not start, or there are no events.
    """
    from ...jobs import answers, events, session
    from ...jobs.report import page

    with session.start("ray", memory="800m", progress=say) as spark:
        began = time.monotonic()
        tail = events.live_tail()
        if tail is None:
            raise LocalError("the cluster keeps no events")
        found = events.events(spark, tail=tail)
        known = answers.gather(found.df, (), lambda i, n, name: say(f"analysing on Spark: {name} ({i + 1} of {n})"))
        report.write_text(page(known, (), "A year of flights"), encoding="utf-8")
        told = Findings(
            rows=found.tail_rows + sum(part.row_last - part.row_first + 1 for part in found.parts),
            tail_rows=found.tail_rows, violations=known.violations,
            dropped=sum(row["events"] for row in known.dropped),
            seconds=(spark.start_s, time.monotonic() - began), report=str(report),
        )  # fmt: skip
    for row in known.throughput:
        queue = told.queues.setdefault(row["queue"].rpartition("#")[0], {"enqueued": 0, "accepted": 0})
        queue["enqueued"] += row["enqueued"]
        queue["accepted"] += row["accepted"]
    told.p99_ms = {
        row["queue"].rpartition("#")[0]: round(row["p99_us"] / 1000, 1)
        for row in known.latency
        if row["phase"] == "total"
    }
    told.handovers = sum(row["handovers"] for row in known.handovers)
    return told
