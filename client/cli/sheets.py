"""Tables for terminals: a number or an address is never broken or cut, however narrow the terminal is.

What is too wide folds in the other columns. Where even that is not enough, each row is printed as lines of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WORD = 12
"""In a column that folds, a shorter word is never broken either."""
GAP = 2
_WHOLE = re.compile(r"-|yes|no|[+-]?[\d.,]+ ?(%|ns|us|µs|ms|s|min|h|d|B|[KMG]i?B|/s)?|\S+:\d+|\d+\.\d+\.\d+\.\d+")


class Sheet:
    """A title, columns and rows.

    Args:
        right: names of the columns whose cells stand at the right.
        whole: names of the columns that are never folded, besides those that hold only numbers and addresses.
    """

    def __init__(
        self, title: str, columns: Sequence[str], right: Sequence[str] = (), whole: Sequence[str] = ()
    ) -> None:
        self._title = title
        self._columns = list(columns)
        self._right = set(right)
        self._whole = set(whole)
        self._rows: list[list[Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """A cell for each column. Nothing in a plain string is markup."""
        self._rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._one_below_another(options.max_width)
            return
        table = Table(
            title=self._title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False,
            pad_edge=False, padding=(0, GAP - 1, 0, 0),
        )  # fmt: skip
        for name, width in zip(self._columns, widths, strict=True):
            table.add_column(
                Text(name), justify="right" if name in self._right else "left", overflow="fold", width=width
            )
        for row in self._rows:
            table.add_row(*row)
        yield table

    def _widths(self, room: int) -> list[int] | None:
        """Each column's width, or None when there is no room for what must stay whole."""
        widest: list[int] = []
        least: list[int] = []
        for i, name in enumerate(self._columns):
            cells = [row[i].plain for row in self._rows]
            lines = [line for cell in cells for line in cell.split("\n")]
            head = max(map(cell_len, name.split()), default=0)  # a head folds between its words
            whole = name in self._whole or name in self._right or all(_WHOLE.fullmatch(cell) for cell in cells)
            full = max([head, *map(cell_len, lines)])
            words = max([head, *(min(cell_len(word), WORD) for line in lines for word in line.split())])
            widest.append(max(full, cell_len(name)))
            least.append(full if whole else words)
        room -= GAP * (len(widest) - 1)
        if sum(least) > room:
            return None
        while (over := sum(widest) - room) > 0:
            # The column that can give most gives first, down to the next one's slack.
            slack = sorted(
                ((full - low, i) for i, (full, low) in enumerate(zip(widest, least, strict=True))), reverse=True
            )
            most, i = slack[0]
            next_most = slack[1][0] if len(slack) > 1 else 0
            widest[i] -= min(over, max(1, most - next_most))
        return widest

    def _one_below_another(self, room: int) -> RenderResult:
        if self._title:
            yield Text(self._title, "bold")
        names = max(map(cell_len, self._columns))
        words = max((cell_len(word) for row in self._rows for cell in row for word in cell.plain.split()), default=0)
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            if names + GAP + words > room:
                for name, cell in zip(self._columns, row, strict=True):
                    yield Text(name, "dim")
                    yield Padding(cell, (0, 0, 0, min(GAP, max(0, room - words))))
                continue
            lines = Table.grid(padding=(0, GAP, 0, 0))
            lines.add_column(style="dim", no_wrap=True)
            lines.add_column(overflow="fold")
            for name, cell in zip(self._columns, row, strict=True):
                lines.add_row(Text(name), cell)
            yield lines


def byte_count(count: float) -> str:
    """Bytes in a form for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


def span(seconds: float) -> str:
    """A time that has passed, by its largest unit: 3.2 h."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{max(0, int(seconds))} s"
