"""One HTML page about the cluster's events: plots and tables in one file, which opens without a network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from . import charts
from .answers import BINS_PER_OCTAVE, Answers, Rows
from .audit import GUARANTEES
from .charts import Bar, Mark, duration, number

PHASES = ("wait", "process", "total")
TOP_QUEUES = 7  # the others are one line
TOP_ROWS = 50  # of a table; the others are counted
_CSS = """
:root{--bg:#f6f7f9;--card:#fff;--ink:#1c2430;--soft:#66707f;--rule:#e4e7ec;--band:#f1f3f6;--bad:#c93a3a;--good:#23845f;
--heat:#2458c5;--c0:#2f6fdb;--c1:#e0762f;--c2:#229b79;--c3:#a94fb3;--c4:#c29a1c;--c5:#596779;--c6:#d0486a;--c7:#3aa3c4}
@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e6eaf0;--soft:#97a2b1;--rule:#2b333e;
--band:#20272f;--bad:#ef6b6b;--good:#4cc497;--heat:#6fa0ff;--c0:#6b9cf2;--c1:#f0965a;--c2:#4cc1a0;--c3:#c880d1;
--c4:#dcb845;--c5:#94a3b5;--c6:#ea7a96;--c7:#66c3e0}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;margin:0;letter-spacing:-.01em}
h2{font-size:17px;margin:0 0 2px}header p,.note{color:var(--soft);margin:2px 0 12px;font-size:13.5px}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:18px 20px;margin-top:18px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(148px,1fr));gap:12px;margin-top:20px}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 16px}
.tile b{display:block;font-size:24px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}.tile.bad b{color:var(--bad)}.tile.good b{color:var(--good)}
svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.tick,.unit{fill:var(--soft)}.group{fill:var(--ink);font-weight:600;font-size:12px}.grid{stroke:var(--rule)}
.axis{stroke:var(--soft);stroke-opacity:.5}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.halo{fill:none;stroke:var(--card);stroke-width:4.5;stroke-opacity:.8;stroke-linejoin:round}.area{fill-opacity:.09}.band{fill:none}.band.odd{fill:var(--band)}.heat{fill:var(--heat)}.mark{font-size:14px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:6px 0 18px;color:var(--soft);font-size:13px}
.swatch{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{color:var(--soft);font-weight:500;text-align:left;border-bottom:1px solid var(--rule);padding:5px 12px 5px 0}
td{padding:5px 12px 5px 0;border-bottom:1px solid var(--rule)}tr:last-child td{border-bottom:0}
.n{text-align:right}.wrap{overflow-x:auto}.wrap+.wrap,svg+.wrap{margin-top:14px}
.empty{color:var(--soft);margin:8px 0}.ok{color:var(--good)}
.wrong{color:var(--bad);font-weight:600}footer{color:var(--soft);font-size:13px;margin-top:24px}
.meter{display:inline-block;height:8px;border-radius:4px;background:var(--c0);vertical-align:middle;margin-right:8px}
.bad.fill{fill:var(--bad)}
""" + "".join(
    f".c{i}.fill,.c{i}.area{{fill:var(--c{i})}}.c{i}.line{{stroke:var(--c{i})}}.c{i}.swatch{{background:var(--c{i})}}"
    for i in range(charts.COLOURS)
)


def page(found: Answers, notes: Sequence[str] = (), title: str = "Event report") -> str:
    """The page.

    Args:
        found: what `gather` found.
        notes: what the reader ought to know: files skipped, rows missing.
    """
    over = "no events"
    if found.until_us:
        span = duration(found.until_us - found.from_us)
        over = f"{charts.clock(found.from_us)} to {charts.clock(found.until_us)} UTC, {span}"
    which = ", ".join(found.queues) if found.queues else "all queues"
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{escape(over)} &middot; {escape(which)} &middot; {found.rows:,} rows</p></header>",
        *(f'<section><p class="wrong">{escape(note)}</p></section>' for note in notes),
        _tiles(found),
        _guarantees(found),
    ]
    if found.until_us:
        body += [
            _throughput(found), _latency(found), _depth(found), _locks(found), _cluster(found), _shares(found),
            _trouble(found),
        ]  # fmt: skip
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head><body><main>{''.join(body)}"
        f"<footer>Made by mantamq at {made}. All times UTC.</footer></main></body></html>"
    )


# ---- sections


def _tiles(found: Answers) -> str:
    seconds = max((found.until_us - found.from_us) / 1e6, 1e-6)
    enqueued = sum(row["enqueued"] for row in found.throughput)
    accepted = sum(row["accepted"] for row in found.throughput)
    worst = max((row["p99_us"] for row in found.latency if row["phase"] == "total"), default=None)
    again = sum(row["redeliveries"] for row in found.redeliveries)
    violations = sum(row["times"] for row in found.violations)
    fails = sum(1 for row in found.failovers if row["gap_us"] is not None)
    tiles = [
        (number(enqueued), f"enqueued, {number(enqueued / seconds)}/s", ""),
        (number(accepted), f"accepted, {number(accepted / seconds)}/s", ""),
        ("-" if worst is None else duration(worst), "p99 enqueue to accept, worst queue", ""),
        (number(again), "redeliveries", ""),
        (str(fails), "sequencer failovers", ""),
        (str(violations), "violations of a guarantee", "bad" if violations else "good"),
    ]
    inner = "".join(f'<div class="tile {kind}"><b>{value}</b><span>{text}</span></div>' for value, text, kind in tiles)
    return f'<div class="tiles">{inner}</div>'


def _guarantees(found: Answers) -> str:
    rows = []
    for guarantee, text in GUARANTEES.items():
        broken = [row for row in found.violations if row["guarantee"] == guarantee]
        if broken:
            said = "; ".join(
                f"{row['rule']} ({row['times']:,} times, first at {row['queue']} {row['position']}, seq {row['seq']})"
                for row in broken
            )
            rows.append([text, f'<span class="wrong">&#10007; {escape(said)}</span>'])
        else:
            rows.append([text, '<span class="ok">&#10003; held</span>'])
    note = "Every message's history, checked against what the broker promises."
    return _section("Guarantees", note, _table(["guarantee", "audit"], rows))


def _throughput(found: Answers) -> str:
    per_s = 1e6 / found.step_us
    parts = []
    for name in ("enqueued", "accepted"):
        series = _series(found, found.throughput, name, scale=per_s)
        parts.append(f'<p class="note">{name}</p>' + _lines(found, series, "messages/s", height=210))
    return _section("Throughput", f"Messages per second and queue, in steps of {duration(found.step_us)}.", *parts)


def _latency(found: Answers) -> str:
    cells = {(row["bucket_us"], row["bin"]): row["messages"] for row in found.heat}
    middle = found.step_us // 2
    curves = {
        name: [(row["bucket_us"] + middle, math.log2(max(row["us"][i], 1)) * BINS_PER_OCTAVE) for row in found.curves]
        for i, name in enumerate(("p50", "p99"))
    }
    heat = charts.heat(
        cells, *_edges(found), found.step_us, lambda one: duration(2 ** (one / BINS_PER_OCTAVE)),
        "enqueue to accept", curves,
    )  # fmt: skip
    rows = [
        [escape(row["queue"]), row["phase"], f"{row['messages']:,}",
         *(duration(row[p]) for p in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"))]
        for row in _busiest_first(found, found.latency, key=lambda row: PHASES.index(row["phase"]))
    ]  # fmt: skip
    table = _table(["queue", "phase", "messages", "p50", "p90", "p99", "p99.9", "max"], rows, numbers=range(2, 8))
    note = (
        "The stronger the colour, the more messages. wait: enqueue to first acquire; "
        "process: last acquire to accept; total: enqueue to accept."
    )
    return _section("Latency", note, heat, table)


def _depth(found: Answers) -> str:
    depth = _lines(found, _series(found, found.depth, "depth", keep=True), "messages", height=210)
    ages = _series(found, found.oldest, "age_us")
    age = _lines(found, ages, "age of the oldest message", height=180, label=duration)
    return _section("Depth", "What each queue held, and how old its oldest message was.", depth, age)


def _locks(found: Answers) -> str:
    brokers = sorted({row["broker"] for row in found.lock_bars} | {row["broker"] for row in found.fairness})
    colour = {broker: i for i, broker in enumerate(brokers)}
    rows: list[str] = []
    groups: dict[str, str] = {}
    bars: list[Bar] = []
    for row in _busiest_first(found, found.lock_bars):
        id = f"{row['queue']}\0{row['broker']}"
        if id not in rows:
            rows.append(id)
            if not any(one.startswith(f"{row['queue']}\0") for one in rows[:-1]):
                groups[id] = row["queue"]
        span = max(row["until_us"] - row["from_us"], 1)
        title = f"{row['broker']}: held {duration(row['held_us'])} in {row['times']:,}, {row['acquired']:,} acquired"
        if row["how"] == "evicted":
            title += ", then evicted"
        strength = min(1.0, 0.25 + 0.75 * row["held_us"] / span)
        bars.append(Bar(id, row["from_us"], row["until_us"], colour[row["broker"]], title, strength))
    plot = charts.timeline(rows, bars, *_edges(found), groups=groups, row_px=18)
    cost = {row["queue"]: row for row in found.handovers}
    table = _table(
        ["queue", "broker", "share of the time", "times", "held", "acquired", "acquired/s held", "fairness"],
        [[escape(row["queue"]), escape(row["broker"]), _meter(row["share"]), f"{row['times']:,}",
          duration(row["held_us"]), f"{row['acquired']:,}", number(row["acquired_per_s"] or 0),
          f"{row['fairness'] or 0:.2f}"] for row in _busiest_first(found, found.fairness)],
        numbers=range(3, 8),
    )  # fmt: skip
    gaps = ("gap_p50_us", "gap_p99_us", "gap_total_us")
    costs = _table(
        ["queue", "hand-overs", "gap p50", "gap p99", "gaps in all", "messages per grant"],
        [[escape(queue), f"{row['handovers']:,}", *(_maybe(row[k]) for k in gaps),
          number(row["messages_per_slice"] or 0)]
         for queue, row in ((row["queue"], row) for row in _busiest_first(found, list(cost.values())))],
        numbers=range(1, 6),
    )  # fmt: skip
    note = "Who held each queue's consume lock; pale where it went to and fro. Fairness is Jain's index: 1 is even."
    return _section("Consume locks", note, plot, table, costs)


def _cluster(found: Answers) -> str:
    first, last = _edges(found)
    rows = ["sequencer"]
    bars: list[Bar] = []
    marks: list[Mark] = []
    for i, row in enumerate(found.failovers):
        until = found.failovers[i + 1]["stopped_us"] if i + 1 < len(found.failovers) else last
        title = f"term {row['term']}, sequencer {row['sequencer']}, {row['events']:,} events"
        bars.append(Bar("sequencer", row["started_us"], until or last, i % charts.COLOURS, title))
        if row["gap_us"]:
            gap = f"nothing committed for {duration(row['gap_us'])}"
            bars.append(Bar("sequencer", row["stopped_us"], row["started_us"], -1, gap))
    since: dict[str, int] = {}
    for row in found.membership:
        broker, at = row["broker"], row["time_us"]
        if broker not in rows:
            rows.append(broker)
            if row["kind"] not in ("join", "rejoin"):
                since[broker] = first  # it joined before the table begins
        title = f"{broker} (incarnation {row['inc']}): {row['kind']} at {charts.clock(at)}"
        if row["kind"] in ("join", "rejoin"):
            since.setdefault(broker, at)
            continue
        if broker in since:
            bars.append(
                Bar(broker, since.pop(broker), at, rows.index(broker) - 1, f"{broker}, incarnation {row['inc']}")
            )
        if row["kind"] == "evict":
            marks.append(Mark(broker, at, "✕", -1, title))
    for broker, at in since.items():
        bars.append(Bar(broker, at, last, rows.index(broker) - 1, broker))
    plot = charts.timeline(rows, bars, first, last, marks, row_px=24)
    table = _table(
        ["term", "sequencer", "began", "nothing committed for", "first event after", "evicted", "events"],
        [[str(row["term"]), str(row["sequencer"] or "-"), charts.clock(row["started_us"]), _maybe(row["gap_us"]),
          _maybe(row["first_us"] and row["first_us"] - row["started_us"]), escape(row["evicted"] or "-"),
          f"{row['events']:,}"] for row in found.failovers],
        numbers=(3, 4, 6),
    )  # fmt: skip
    note = "Terms of the sequencer, brokers as they came and went. Red: nothing was committed; ✕: evicted."
    return _section("Cluster and failovers", note, plot, table)


def _shares(found: Answers) -> str:
    table = _table(
        ["queue", "broker", "share of the acquired", "acquired", "accepted"],
        [[escape(row["queue"]), escape(row["broker"]), _meter(row["share"]), f"{row['acquired']:,}",
          f"{row['accepted']:,}"] for row in _busiest_first(found, found.shares)],
        numbers=(3, 4),
    )  # fmt: skip
    return _section("Consumers' shares", "By the broker whose consumers took the messages.", table)


def _trouble(found: Answers) -> str:
    fates = _table(
        ["what became of them", "messages"],
        [[escape(row["fate"] or "still there"), f"{row['messages']:,}"] for row in found.fates],
        numbers=(1,),
    )
    again = _table(
        ["queue", "acquired", "redelivered", "redeliveries", "most for one"],
        [[escape(row["queue"]), *(f"{row[k]:,}" for k in ("messages", "redelivered", "redeliveries", "most"))]
         for row in _busiest_first(found, found.redeliveries)],
        numbers=range(1, 5),
    )  # fmt: skip
    poison = _table(
        ["suspected poison", "positions", "given back", "became"],
        [[escape(row["queue"]), f"{row['position_first']}&ndash;{row['position_last']}", f"{row['returns']:,}",
          escape(row["fate"] or "still there")] for row in found.poison],
        numbers=(2,),
    )  # fmt: skip
    flow = _table(
        ["held back", "queue", "broker", "times", "in all", "longest"],
        [[row["kind"].replace("_", " "), escape(row["queue"] or "-"), escape(row["broker"]), f"{row['times']:,}",
          duration(row["total_us"]), duration(row["longest_us"])] for row in found.flow],
        numbers=(3, 4, 5),
    )  # fmt: skip
    return _section("Fates, redeliveries, flow control", "", fates, again, poison if found.poison else "", flow)


# ---- pieces


def _edges(found: Answers) -> tuple[int, int]:
    return found.from_us, max(found.until_us, found.from_us + 1)


def _section(title: str, note: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2><p class="note">{note}</p>{"".join(parts)}</section>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """The first `TOP_ROWS` rows. Cells are HTML already."""
    if not rows:
        return ""
    kind = ['class="n"' if i in numbers else "" for i in range(len(head))]
    top = "".join(f"<th {k}>{escape(text)}</th>" for k, text in zip(kind, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td {k}>{cell}</td>" for k, cell in zip(kind, row, strict=True)) + "</tr>"
        for row in rows[:TOP_ROWS]
    )
    table = f'<div class="wrap"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    return table + _more(len(rows) - TOP_ROWS)


def _more(rows: int) -> str:
    return f'<p class="note">and {rows:,} more</p>' if rows > 0 else ""


def _meter(share: float | None) -> str:
    share = share or 0.0
    return f'<span class="meter" style="width:{max(share * 120, 1):.0f}px"></span>{share:.0%}'


def _maybe(us: float | None) -> str:
    return "-" if us is None else duration(us)


def _series(found: Answers, rows: Rows, column: str, scale: float = 1.0, keep: bool = False) -> dict[str, Any]:
    """Queue -> points, one for every step; the busiest queues, the others as one.

    Args:
        keep: a step without a row is as the one before (a depth), else 0.
    """
    step = found.step_us
    starts = range(found.from_us // step * step, found.until_us + 1, step)
    values: dict[str, dict[int, float]] = {}
    for row in rows:
        values.setdefault(row["queue"], {})[row["bucket_us"]] = row[column] * scale
    busy = _busy(found)
    order = sorted(values, key=lambda name: (busy.get(name, len(busy)), name))
    series: dict[str, list[float]] = {}
    for i, name in enumerate(order):
        last, points = 0.0, []
        for start in starts:
            last = values[name].get(start, last if keep else 0.0)
            points.append(last)
        if i < TOP_QUEUES or len(order) == TOP_QUEUES + 1:
            series[name] = points
        else:
            rest = series.setdefault(f"{len(order) - TOP_QUEUES} others", [0.0] * len(points))
            for j, value in enumerate(points):
                rest[j] = max(rest[j], value) if column == "age_us" else rest[j] + value
    middles = [min(max(start + step // 2, found.from_us), found.until_us) for start in starts]
    return {name: list(zip(middles, points, strict=True)) for name, points in series.items() if any(points)}


def _busy(found: Answers) -> dict[str, int]:
    """Queue -> its rank, the one with most messages first: its colour in all plots."""
    total: dict[str, int] = {}
    for row in found.throughput:
        total[row["queue"]] = total.get(row["queue"], 0) + row["enqueued"] + row["acquired"]
    return {name: i for i, name in enumerate(sorted(total, key=lambda name: (-total[name], name)))}


def _busiest_first(found: Answers, rows: Rows, key: Callable[[dict[str, Any]], Any] = lambda row: 0) -> Rows:
    """Rows of the busiest queue first; within a queue by `key`, else as they were."""
    busy = _busy(found)
    return sorted(rows, key=lambda row: (busy.get(row["queue"], len(busy)), row["queue"], key(row)))


def _lines(
    found: Answers, series: dict[str, Any], unit: str, height: int, label: Callable[[float], str] = number
) -> str:
    colours = {name: min(_busy(found).get(name, TOP_QUEUES), TOP_QUEUES) for name in series}
    return charts.lines(series, *_edges(found), unit, height, label, colours)
