"""Plots as inline SVG: no script, no network, colours of the page's style sheet (see `report.py`).

All plots are 960 wide and scale with the page. Times are Unix microseconds, labels UTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 26
COLOURS = 8
_SECOND = 1_000_000
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
            172800, 604800)  # fmt: skip
EMPTY = '<p class="empty">Nothing of this kind in the table.</p>'


@dataclass(frozen=True)
class Bar:
    """A stretch of a timeline.

    Attributes:
        row: label of its row.
        from_us, until_us: when.
        colour: 0 to `COLOURS` - 1, or -1 for trouble.
        title: shown under the pointer.
        strength: 0 to 1, how opaque.
    """

    row: str
    from_us: int
    until_us: int
    colour: int
    title: str
    strength: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A moment of a timeline: a glyph in its row."""

    row: str
    at_us: int
    glyph: str
    colour: int
    title: str


def number(value: float) -> str:
    """A number for people: 1.2k, 35M, 0.25."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def duration(us: float) -> str:
    """A duration for people: 250 µs, 1.5 ms, 2 s, 3.5 min."""
    for size, unit in ((86400e6, "d"), (3600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms")):
        if abs(us) >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


def clock(us: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime(form)


def bucket(span_us: int, pieces: int = 120) -> int:
    """A round time step, in microseconds, that cuts the span into at most so many pieces."""
    step_s = next((s for s in _STEPS_S if span_us <= s * _SECOND * pieces), 0)
    return int((step_s or math.ceil(span_us / _SECOND / pieces / 604800) * 604800) * _SECOND)


def lines(
    series: Mapping[str, Sequence[tuple[int, float]]], from_us: int, until_us: int, unit: str, height: int = 260,
    label: Callable[[float], str] = number, colours: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """Lines over time, softly filled; points in order of time. `colours`: name -> colour, if not in order."""
    if not any(series.values()):
        return EMPTY
    top = max(y for points in series.values() for _, y in points) or 1.0
    ticks = _ticks(top)
    top = ticks[-1]
    x = _scale(from_us, until_us)
    low = height - BOTTOM

    def y(value: float) -> float:
        return low - value / top * (low - TOP)

    parts = [_time_axis(from_us, until_us, x, low)]
    for tick in ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{escape(label(tick))}</text>'
        )
    for i, (name, points) in enumerate(series.items()):
        if not points:
            continue
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        first, last = x(points[0][0]), x(points[-1][0])
        colour = f"c{(colours or {}).get(name, i) % COLOURS}"
        parts.append(f'<polygon class="{colour} area" points="{first:.1f},{low} {path} {last:.1f},{low}"/>')
        parts.append(f'<polyline class="{colour} line" points="{path}"><title>{escape(name)}</title></polyline>')
        if len(points) == 1:
            parts.append(f'<circle class="{colour} fill" cx="{first:.1f}" cy="{y(points[0][1]):.1f}" r="3"/>')
    return _svg(height, parts, unit) + legend(list(series), colours)


def heat(
    cells: Mapping[tuple[int, int], float], from_us: int, until_us: int, step_us: int,
    y_label: Callable[[int], str], unit: str, curves: Mapping[str, Sequence[tuple[int, float]]] | None = None,
) -> str:  # fmt: skip
    """A heat map: time across, bins upwards, colour by (the logarithm of) the amount.

    Args:
        cells: (start of the time step, bin) -> amount.
        step_us: width of a cell.
        y_label: a bin's lower edge as text.
        curves: lines over it, broken where steps have no point; their points' y are (fractional) bins.
    """
    if not cells:
        return EMPTY
    bottom, top = min(b for _, b in cells), max(b for _, b in cells) + 1
    if top - bottom < 4:
        top, bottom = top + 2, bottom - 2
    rows = top - bottom
    high = max(8, min(20, 320 // rows))
    height = TOP + rows * high + BOTTOM
    low = TOP + rows * high
    x = _scale(from_us, until_us)
    most = math.log1p(max(cells.values()))
    parts = [_time_axis(from_us, until_us, x, low)]
    for one in range(bottom, top + 1):
        if (one - bottom) % max(1, round(rows / 8)) == 0:
            at = low - (one - bottom) * high
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{escape(y_label(one))}</text>'
            )
    for (at_us, one), amount in sorted(cells.items()):
        left, right = x(max(at_us, from_us)), x(min(at_us + step_us, until_us))
        up = low - (one + 1 - bottom) * high
        title = f"{clock(at_us, '%H:%M:%S')}, {y_label(one)} to {y_label(one + 1)}: {number(amount)}"
        parts.append(
            f'<rect class="heat" x="{left:.1f}" y="{up}" width="{max(right - left - 0.6, 1):.1f}" height="{high - 0.6}"'
            f' fill-opacity="{0.08 + 0.92 * math.log1p(amount) / most:.3f}"><title>{escape(title)}</title></rect>'
        )
    for i, (name, points) in enumerate((curves or {}).items()):
        for run in _unbroken(points, step_us):
            path = " ".join(f"{x(at):.1f},{low - (value - bottom) * high:.1f}" for at, value in run)
            if len(run) == 1:
                at, up = path.split(",")
                parts.append(f'<circle class="c{i + 1} fill" cx="{at}" cy="{up}" r="2"/>')
                continue
            parts.append(f'<polyline class="halo" points="{path}"/>')
            parts.append(f'<polyline class="c{i + 1} line" points="{path}"><title>{escape(name)}</title></polyline>')
    return _svg(height, parts, unit) + (
        legend(list(curves), {name: i + 1 for i, name in enumerate(curves)}) if curves else ""
    )


def _unbroken(points: Sequence[tuple[int, float]], step_us: int) -> list[list[tuple[int, float]]]:
    """Cut where nothing was measured for longer than a step: a line over it would say what nobody knows."""
    runs: list[list[tuple[int, float]]] = []
    for point in points:
        if not runs or point[0] - runs[-1][-1][0] > 1.5 * step_us:
            runs.append([])
        runs[-1].append(point)
    return runs


def timeline(
    rows: Sequence[str], bars: Sequence[Bar], from_us: int, until_us: int, marks: Sequence[Mark] = (),
    groups: Mapping[str, str] | None = None, row_px: int = 20,
) -> str:  # fmt: skip
    """Bars in rows over time.

    Args:
        rows: ids of the rows, from the top.
        groups: id of a row -> heading above it, for the first row of each group.
    """
    if not rows:
        return EMPTY
    groups = groups or {}
    place: dict[str, float] = {}
    parts: list[str] = []
    at = float(TOP)
    for i, row in enumerate(rows):
        if row in groups:
            at += 4
            parts.append(f'<text class="group" x="4" y="{at + 13:.0f}">{escape(groups[row])}</text>')
            at += 18
        place[row] = at
        shade = " odd" if i % 2 else ""
        parts.append(
            f'<rect class="band{shade}" x="{LEFT}" y="{at:.0f}" width="{WIDTH - LEFT - RIGHT}" height="{row_px}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{at + row_px / 2 + 4:.0f}" text-anchor="end">'
            f"{escape(row.rpartition(chr(0))[2][:12])}</text>"
        )
        at += row_px
    x = _scale(from_us, until_us)
    parts.append(_time_axis(from_us, until_us, x, at))
    for bar in bars:
        left, right = x(max(bar.from_us, from_us)), x(min(bar.until_us, until_us))
        colour = f"c{bar.colour % COLOURS}" if bar.colour >= 0 else "bad"
        parts.append(
            f'<rect class="{colour} fill" x="{left:.2f}" y="{place[bar.row] + 3:.0f}" rx="2"'
            f' width="{max(right - left, 1.2):.2f}" height="{row_px - 6}" fill-opacity="{bar.strength:.2f}">'
            f"<title>{escape(bar.title)}</title></rect>"
        )
    for mark in marks:
        colour = f"c{mark.colour % COLOURS}" if mark.colour >= 0 else "bad"
        parts.append(
            f'<text class="mark {colour} fill" x="{x(mark.at_us):.1f}" y="{place[mark.row] + row_px / 2 + 5:.0f}"'
            f' text-anchor="middle">{escape(mark.glyph)}<title>{escape(mark.title)}</title></text>'
        )
    return _svg(int(at) + BOTTOM, parts, "")


def legend(names: Sequence[str], colours: Mapping[str, int] | None = None) -> str:
    """Names with their colours."""
    items = "".join(
        f'<span><i class="c{(colours or {}).get(name, i) % COLOURS} swatch"></i>{escape(name)}</span>'
        for i, name in enumerate(names)
    )
    return f'<p class="legend">{items}</p>'


def _svg(height: int, parts: Sequence[str], unit: str) -> str:
    caption = f'<text class="unit" x="{LEFT}" y="1">{escape(unit)}</text>' if unit else ""
    return (
        f'<svg viewBox="0 -12 {WIDTH} {height + 12}" role="img" preserveAspectRatio="xMidYMid meet">'
        f"{''.join(parts)}{caption}</svg>"
    )


def _scale(from_us: int, until_us: int) -> Callable[[float], float]:
    span = max(until_us - from_us, 1)
    return lambda at: LEFT + (at - from_us) / span * (WIDTH - LEFT - RIGHT)


def _ticks(top: float) -> list[float]:
    """Round values from 0 to just above `top`."""
    rough = top / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def _time_axis(from_us: int, until_us: int, x: Callable[[float], float], low: float) -> str:
    span = max(until_us - from_us, 1)
    step = max(bucket(span, 8), _SECOND)
    form = "%H:%M:%S" if step < 60 * _SECOND else "%H:%M" if span < 2 * 86400 * _SECOND else "%d %b %H:%M"
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{low:.1f}" y2="{low:.1f}"/>']
    at = -(-from_us // step) * step
    while at <= until_us:
        place = x(at)
        anchor = "start" if place < LEFT + 20 else "end" if place > WIDTH - RIGHT - 20 else "middle"
        parts.append(
            f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{low:.1f}"/>'
            f'<text class="tick" x="{place:.1f}" y="{low + 16:.0f}" text-anchor="{anchor}">{clock(at, form)}</text>'
        )
        at += step
    return "".join(parts)
