"""`top`: the cluster on one screen, drawn anew each second: how it is, how much passes, the busiest queues."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from ...protocol.status.cluster import ClusterStatus
from .console import Broker, Json, Namespace, Ray, Token
from .live import Every, HowShown, Once, follow, looking
from .sheets import GAP, byte_count, span
from .status import BAD, GOOD, SOON, ages

KEYS = {
    "in": "rates.enqueued", "out": "rates.dequeued", "messages": "messages", "unacked": "acquired", "age": "age_ms",
}  # fmt: skip
"""What queues are sorted by -> the field of their rows."""
COLUMNS = ("queue", "in/s", "out/s", "messages", "unacked", "oldest", "owner", "users", "bytes")
"""From the last on they are left out where a terminal is too narrow."""
LEAST = 12
"""Columns of a terminal that the names of queues have at least."""
ROWS = 20
"""Of queues, where there is no screen to fill."""
REASONS = 3
"""Lines of what is wrong; the rest are counted."""
COUNTED = ("broker", "queue", "connection", "consumer")
Sort = Literal["in", "out", "messages", "unacked", "age"]


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    sort: Annotated[Sort, typer.Option(help="the busiest first, by this")] = "in",
    limit: Annotated[int, typer.Option(min=0, max=500, help="so many queues; 0: as many as fit")] = 0,
    every: Every = 1.0, once: Once = False, broker: Broker = "", token: Token = "", address: Ray = "",
    namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """The cluster on one screen, until Ctrl-C: health, alerts, totals, rates, and the busiest queues."""
    with looking(broker, token, address, namespace) as looks:
        follow(looks, TopPage(looks.view, sort, limit), HowShown(every, once, as_json))


class TopPage:
    """
    Args:
        view: a `ManagementView`.
        sort: one of `KEYS`.
        limit: of queues; 0 for as many as fit.
    """

    def __init__(self, view: Any, sort: str = "in", limit: int = 0) -> None:
        self._view = view
        self._sort = sort
        self._limit = limit

    def end(self) -> str:
        return ""

    def drawn(self, height: int) -> Group:
        head = [*_cluster(self._view), *_sums(self._view), *troubles(self._view)]
        room = max(1, height - len(head) - 4) if height else ROWS
        most = min(self._limit, room) if self._limit and height else self._limit or room
        rows = self._rows(most)
        count = self._view.counts()["queues"]
        more = [Text(f"and {count - len(rows):,} more", "dim")] if count > len(rows) else []
        return Group(*map(_cut, head), Text(""), QueueTable([_cells(row) for row in rows], self._sort), *more)

    def plain(self) -> dict[str, Any]:
        view, status = self._view, self._view.status
        health = status.health() if status is not None else {"healthy": None}
        return {
            "time_s": view.time_s, "cluster": status.cluster if status is not None else "", **health,
            "counts": view.counts(), "totals": view.totals(), "rates": view.rates(),
            "queues": self._rows(self._limit or ROWS), "silent": view.silent, "troubles": dict(view.troubles),
        }  # fmt: skip

    def _rows(self, most: int) -> Sequence[dict[str, Any]]:
        from ...management.listing import MOST, Wanted

        wanted = Wanted(sort=KEYS[self._sort], descending=True, size=min(most, MOST))
        return self._view.page("queues", wanted).rows


def troubles(view: Any) -> list[Text]:
    """A line for each thing that the last look did not have."""
    lines = [Text(f"{what}: {' '.join(why.split())}", SOON) for what, why in view.troubles.items()]
    if view.silent:
        lines.append(Text(f"{', '.join(view.silent)} did not answer: what it alone knows is missing", SOON))
    return lines


def _cut(line: Text) -> Text:
    """A line that is never folded."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _cluster(view: Any) -> list[Text]:
    status: ClusterStatus | None = view.status
    now = time.strftime("%H:%M:%S", time.localtime(view.time_s))
    if status is None:
        return [Text(f"{now}  health is not known", SOON)]
    head = Text(f"{now}  ")
    count = len(status.unhealthy)
    if status.healthy:
        head.append("healthy" if not status.warnings else f"healthy, {len(status.warnings)} warned of", GOOD)
    else:
        head.append(f"not healthy: {'one reason' if count == 1 else f'{count} reasons'}", BAD)
    head.append(f"  cluster {status.cluster or '(not known)'}, {status.stage} for {span(status.uptime_s)}")
    reasons, known = [*status.unhealthy, *status.warnings], ages(status)
    lines = [
        Text(f"  {known.get(line, '-')} {line}", BAD if line in status.unhealthy else SOON)
        for line in reasons[:REASONS]
    ]
    if len(reasons) > REASONS:
        lines.append(Text(f"  and {len(reasons) - REASONS} more: `mantamq status`", "dim"))
    return [head, *lines]


def _sums(view: Any) -> list[Text]:
    count, sums, rates = (SimpleNamespace(**found) for found in (view.counts(), view.totals(), view.rates()))
    held = len(view.flow()["connections"])
    lines = [
        Text(", ".join(_count(getattr(count, f"{what}s"), what) for what in COUNTED)),
        Text(
            f"messages  {sums.messages:,} of {byte_count(sums.bytes)}: {sums.available:,} available, "
            f"{sums.acquired:,} unacked" + (f", {sums.delayed:,} delayed" if sums.delayed else "")
        ),
        Text(
            f"a second  {_rate(rates.enqueued)} in, {_rate(rates.dequeued)} out, {_rate(rates.acquires)} acquired, "
            f"{_rate(rates.releases)} released"
        ),
    ]
    if held:
        what = "connection is" if held == 1 else "connections are"
        lines.append(Text(f"{held:,} {what} held back: `mantamq stat connections` says by what", SOON))
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _rate(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _cells(row: dict[str, Any]) -> list[str]:
    """The cells of a queue, in the order of `COLUMNS`."""
    queue = SimpleNamespace(**dict.fromkeys(("messages", "acquired", "age_ms", "consumers", "bytes"), 0) | row)
    rates = queue.rates
    passed = [_rate(rates[name]) if name in rates else "-" for name in ("enqueued", "dequeued")]
    oldest = span(queue.age_ms / 1000) if queue.age_ms else "-"
    numbers = [f"{queue.messages:,}", f"{queue.acquired:,}", oldest]
    return [queue.name, *passed, *numbers, row.get("owner") or "-", f"{queue.consumers:,}", byte_count(queue.bytes)]


class QueueTable:
    """Rows of one line each: no number is cut, a long name is, and the last columns go where there is no room.

    Args:
        rows: cells in the order of `COLUMNS`.
        sort: what they are sorted by.
    """

    def __init__(self, rows: list[list[str]], sort: str) -> None:
        self._rows = rows
        self._sorted = {"in": "in/s", "out": "out/s", "age": "oldest"}.get(sort, sort)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [max(map(cell_len, column)) for column in zip(COLUMNS, *self._rows, strict=True)]
        shown = len(COLUMNS)
        while shown > 1 and sum(widths[1:shown]) + GAP * (shown - 1) + LEAST > options.max_width:
            shown -= 1
        room = options.max_width - sum(widths[1:shown]) - GAP * (shown - 1)
        widths = [min(max(widths[0], LEAST), room), *widths[1:shown]]
        yield _line(COLUMNS[:shown], widths, self._sorted)
        yield _cut(Text(("-" if options.ascii_only else "─") * (sum(widths) + GAP * (shown - 1)), "dim"))
        for row in self._rows:
            yield _line(row[:shown], widths)


def _line(cells: Sequence[str], widths: Sequence[int], marked: str = "") -> Text:
    """Cells in columns. `marked`: the head of the column by which rows are sorted."""
    line = Text()
    for i, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = Text(cell, "bold reverse" if cell == marked else "bold" if marked else "")
        text.truncate(width, overflow="ellipsis")
        gap = " " * (width - text.cell_len)
        line.append(" " * GAP * bool(i))
        line.append_text(Text(gap) + text if COLUMNS[i] not in ("queue", "owner") else text + Text(gap))
    return _cut(line)
