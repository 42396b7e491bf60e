"""`analyze` and `events export`: what the cluster's events tell, by way of Spark, or out into a file without it."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...protocol.errors import LocalError
from .console import Json, Namespace, Ray, err, need, out, say, show

if TYPE_CHECKING:
    from collections.abc import Generator

    from ...protocol.capture.event_table import Tail

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LOOK_S = 1.0
"""From one look for new events to the next."""
TOP = 20
"""Rows of a table on the terminal; the others are counted."""
events_app = typer.Typer(help="The event table as a file.", no_args_is_help=True)

Directory = Annotated[
    str, typer.Option("--directory", "-d", envvar="MANTAMQ_EVENTS", help="where the events are: a path or URL")
]
Since = Annotated[str, typer.Option(help="from then on: 90s, 15m, 2h, 7d ago, or an ISO time (UTC)")]
Until = Annotated[str, typer.Option(help="until then, likewise")]
Queues = Annotated[list[str] | None, typer.Option("--queue", help="this queue only; may be repeated")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="this kind of event only; may be repeated")]
Live = Annotated[bool, typer.Option("--live", help="also what the cluster has not written yet")]


def register(app: typer.Typer) -> None:
    app.command()(analyze)
    app.add_typer(events_app, name="events")


def analyze(
    since: Since = "", until: Until = "", queue: Queues = None, directory: Directory = "", live: Live = False,
    report: Annotated[Path | None, typer.Option(help="write an HTML page with plots here")] = None,
    spark: Annotated[str, typer.Option(help="auto, ray (executors on the Ray cluster) or local")] = "auto",
    executors: Annotated[int, typer.Option(min=1, help="Spark executors, on Ray")] = 1,
    cores: Annotated[int, typer.Option(min=1, help="cores of each, on Ray")] = 1,
    memory: Annotated[str, typer.Option(help="memory of each, or of local Spark")] = "1g",
    address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Throughput, latency, depth, consume locks, failovers and an audit of the guarantees, from the events."""
    since_us, until_us = moment(since), moment(until)
    if report and not report.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {report.absolute().parent} for the report: make it first")
    with _progress(as_json) as (bar, task):

        def step(text: str) -> None:
            bar.update(task, description=text)

        step("loading Spark")
        need("spark", "pyspark", "pyarrow", "fsspec")
        from ...jobs import answers, events, session

        address, namespace = _cluster(address, namespace, live, directory)
        tail = _tail(address, namespace, live)
        where = directory or (tail.directory if tail else "") or _default_directory()
        with session.start(spark, address, executors, cores, memory, progress=step) as running:
            tail = _tail(address, namespace, live)  # the start took a while
            found = events.events(running, where, tail, since_us, until_us)
            if not found.parts and not found.tail_rows:
                raise LocalError(_nothing(where, found.skipped))
            known = answers.gather(
                found.df, queue or [], lambda i, n, name: bar.update(task, completed=i, total=n, description=name)
            )
        step("writing")
        notes = [f"not read: {one.path.rpartition('/')[2]}: {one.why}" for one in found.skipped]
        notes += [f"rows {first:,} to {last:,} are missing" for first, last in found.missing]
        notes += [f"{row['events']:,} events of {row['stream']} were dropped" for row in known.dropped]
        if report:
            from ...jobs.report import page

            report.write_text(page(known, notes), encoding="utf-8")
    if as_json:
        print(json.dumps(vars(known) | {"notes": notes}, default=str))
        return
    _tables(known)
    for note in notes:
        err.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if report:
        say(f"report: {report}", {}, False)


@events_app.callback(invoke_without_command=True)
def events(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="print events as they come, until Ctrl-C")] = False,
    queue: Queues = None, kind: Kinds = None, address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """The event table: as a file, or, with --follow, as it grows."""
    if context.invoked_subcommand is not None:
        if follow or queue or kind or address or namespace or as_json:
            raise typer.BadParameter(f"say options of {context.invoked_subcommand} behind it")
        return
    if not follow:
        raise typer.BadParameter("say --follow for events as they come, or export for a file of them")
    need("events", "pyarrow", "fsspec")
    from ...jobs.follow import newer

    address, namespace = _cluster(address, namespace)
    last: int | None = None
    while True:
        tail = _tail(address, namespace, True, fetch=True)
        assert tail is not None
        found = newer(tail, last, queue or [], kind or [])
        if found.missing:
            err.print(f"{found.missing:,} events came faster: they are in {tail.directory or 'no directory'}")
        for row in found.rows:
            print(json.dumps(row) if as_json else event_line(row), flush=True)
        last = found.last
        time.sleep(LOOK_S)


def last_events(count: int) -> list[dict[str, Any]]:
    """The newest rows of the event table of the cluster that was started here, as far as they are in no file yet.

    Raises:
        LocalError: there are none, and why.
    """
    need("events", "pyarrow", "fsspec")
    from ...jobs.follow import newer

    tail = _tail(*_cluster("", ""), True, fetch=True)
    assert tail is not None
    return newer(tail, max(tail.row_first - 1, tail.row_last - count, 0)).rows


def event_line(row: dict[str, Any]) -> str:
    """One event in a line for people: when, of which kind, where, and what else it says."""
    at = datetime.fromtimestamp(row["time_us"] / 1e6, UTC)
    parts = [f"{at:%H:%M:%S}.{at.microsecond // 1000:03}", f"{row['kind']:<14}"]
    parts += [str(row[name]) for name in ("queue", "broker", "client") if row[name]]
    if row["position_first"]:
        parts.append(f"{row['position_first']}-{row['position_last']}")
    parts += [f"{name}={row[name]:,}" for name in ("bytes", "value") if row[name]]
    if row["detail"]:
        parts.append(row["detail"])
    return " ".join(parts if row["effective"] else [*parts, "(no effect)"])


@events_app.command("export")
def export(
    path: Annotated[Path, typer.Argument(help="file to write")],
    form: Annotated[str, typer.Option("--format", help="parquet, csv or jsonl; default: the file's ending")] = "",
    since: Since = "", until: Until = "", queue: Queues = None, kind: Kinds = None, directory: Directory = "",
    live: Live = False, address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Events into one file: Parquet, CSV or JSON lines. Needs neither Spark nor Java."""
    since_us, until_us = moment(since), moment(until)
    with _progress(as_json) as (bar, task):
        bar.update(task, description="exporting")
        need("events", "pyarrow", "fsspec")
        from ...jobs import export as exporting

        tail = _tail(*_cluster(address, namespace, live, directory), live, fetch=True)
        where = directory or (tail.directory if tail else "") or _default_directory()
        rows, skipped = exporting.export(
            path, form or path.suffix.lstrip(".") or "parquet", where, tail, since_us, until_us, queue or [],
            kind or [], lambda done, of: bar.update(task, completed=done, total=of),
        )  # fmt: skip
    for one in skipped:
        err.print(f"not read: {one.path}: {one.why}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    say(f"{rows:,} rows in {path}", {"rows": rows, "path": str(path), "skipped": len(skipped)}, as_json)


def moment(text: str) -> int:
    """Unix microseconds of "2h" (ago) or of an ISO time (UTC unless it says otherwise); 0 for "".

    Raises:
        typer.BadParameter: neither.
    """
    if not text:
        return 0
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if ago:
        return int((time.time() - float(ago[1]) * _UNITS_S[ago[2]]) * 1e6)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"a time is 90s, 15m, 2h, 7d or 2026-01-31T12:00, not {text!r}") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)


def _home() -> Path:
    return Path(os.environ.get("MANTAMQ_HOME") or Path.home() / ".mantamq")


def _default_directory() -> str:
    return str(_home() / "events")


def _remembered() -> dict[str, Any]:
    """The state that `mantamq up` has written down here; empty if there is none, or none that is whole."""
    try:
        state = json.loads((_home() / "state.json").read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _cluster(address: str, namespace: str, live: bool = True, directory: str = "") -> tuple[str, str]:
    """Address of the Ray ("" for none), and namespace in it, of the cluster that the options speak of, by default the
    one that `mantamq up` started here; the Ray is spoken to as it expects.

    Raises:
        typer.BadParameter: another cluster is named, and the events of this one would be read.
        LocalError: it was named, and there is none.
    """
    if (address or namespace) and not live and not directory:
        raise typer.BadParameter("of a cluster that is named say --live, or with --directory where its events are")
    state = _remembered()
    known, mode = str(state.get("address", "")), str(state.get("auth_mode", ""))
    if known and mode and address in ("", known):
        os.environ.setdefault("RAY_AUTH_MODE", mode)  # before Ray is imported, which reads it then
    if address:
        from ...actors.ray_control import door

        address = door.knock(address)
    return address or known, namespace or str(state.get("namespace") or "") or "mantamq"


def _tail(address: str, namespace: str, live: bool, fetch: bool = False) -> Tail | None:
    """The newest events, from the cluster there.

    Raises:
        LocalError: there is none, or it keeps no events.
    """
    if not live:
        return None
    from ...actors.ray_control import door
    from ...jobs import events, session

    door.knock(address or "auto")  # where there is none, Ray would look for it long, or be started for it
    session.join_ray(address)
    tail = events.live_tail(namespace)
    if tail is None:
        raise LocalError(
            f"the cluster {namespace!r} keeps no events: is it up (`mantamq status`), and are its events on (`mantamq "
            "up --events`)? Those in its files need no cluster: `mantamq analyze` and `mantamq events export` without "
            "--live"
        )
    if fetch:
        tail = tail._replace(blocks=events.fetched(tail.blocks))
    return tail


def _nothing(where: str, skipped: list[Any]) -> str:
    seen = f" ({len(skipped)} files there cannot be read, the first since: {skipped[0].why})" if skipped else ""
    return f"there are no events of that time in {where}{seen}: say with --directory where they are, or try --live"


@contextmanager
def _progress(quiet: bool) -> Generator[tuple[Progress, Any]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        yield bar, bar.add_task("", total=None)


def _tables(known: Any) -> None:
    """The busiest queues; `--json` and the report have more."""
    seconds = max((known.until_us - known.from_us) / 1e6, 1e-6)
    totals: dict[str, dict[str, Any]] = {}
    for row in known.throughput:
        total = totals.setdefault(row["queue"], {"queue": row["queue"], "enqueued": 0, "accepted": 0, "MiB": 0.0})
        total["enqueued"] += row["enqueued"]
        total["accepted"] += row["accepted"]
        total["MiB"] += row["enqueued_bytes"] / (1 << 20)
    for total in totals.values():
        total["enqueued_per_s"] = total["enqueued"] / seconds
    busy = sorted(totals, key=lambda name: (-totals[name]["enqueued"] - totals[name]["accepted"], name))
    rank = {name: i for i, name in enumerate(busy)}

    def table(rows: list[dict[str, Any]], columns: list[str], title: str) -> None:
        rows = sorted(rows, key=lambda row: rank.get(row.get("queue", ""), len(rank)))
        show(rows, columns, False, title, top=TOP)

    columns = ["queue", "enqueued", "accepted", "enqueued_per_s", "MiB"]
    table(list(totals.values()), columns, f"throughput over {seconds:,.0f} s")
    if known.latency:
        ms = [{**row, **{f"{k[:-3]}_ms": row[k] / 1000 for k in row if k.endswith("_us")}} for row in known.latency]
        table(ms, ["queue", "phase", "messages", "p50_ms", "p90_ms", "p99_ms", "max_ms"], "latency, milliseconds")
    if known.fairness:
        shares = [{**row, "share": f"{row['share'] or 0:.0%}", "fairness": f"{row['fairness'] or 0:.2f}"}
                  for row in known.fairness]  # fmt: skip
        table(shares, ["queue", "broker", "times", "share", "acquired", "fairness"], "consume locks")
    if known.redeliveries:
        table(known.redeliveries, ["queue", "messages", "redelivered", "redeliveries", "most"], "redeliveries")
    if known.poison:
        table(known.poison, ["queue", "position_first", "position_last", "returns", "fate"], "suspected poison")
    if known.flow:
        table(known.flow, ["kind", "queue", "broker", "times", "total_us", "longest_us"], "held back")
    if len(known.failovers) > 1:
        show(known.failovers, ["term", "sequencer", "gap_us", "evicted", "events"], False, "failovers", top=TOP)
    if known.violations:
        columns = ["guarantee", "rule", "times", "queue", "position", "seq"]
        show(known.violations, columns, False, "violations of the guarantees", top=TOP)
    else:
        out.print("audit: every guarantee held", style="green", highlight=False)
