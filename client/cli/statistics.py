"""`mantamq stat queues` and its like: the figures of the whole cluster, sorted, bounded, once or again and again."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text

from ...protocol.errors import LocalError
from ..sync.sync import Connection
from .console import cell_of, out, table_of
from .live import drawn_anew
from .sheets import Sheet, byte_count, span

Row = dict[str, Any]
COLUMNS: dict[str, dict[str, str]] = {
    "queues": {
        "queue": "name", "messages": "messages", "unacked": "acquired", "bytes": "bytes",
        "consumers": "consumers", "in": "enqueued", "out": "dequeued", "oldest": "age_ms",
    },
    "exchanges": {
        "exchange": "name", "type": "type", "bindings": "bindings", "received": "received", "routed": "routed",
        "unroutable": "unroutable",
    },
    "brokers": {
        "broker": "broker", "address": "address", "clients": "connections", "senders": "senders",
        "receivers": "receivers", "unacked": "unacked", "locks": "locks", "received": "received",
    },
    "connections": {
        "client": "client", "broker": "broker", "senders": "senders", "receivers": "receivers", "sent": "sent",
        "credit": "credit", "state": "state", "why": "why",
    },
    "links": {
        "client": "client", "broker": "broker", "role": "role", "exchange": "exchange", "key": "key", "queue": "queue",
        "sent": "sent", "delivered": "delivered", "credit": "credit",
    },
    "groups": {"queue": "queue", "group": "group", "held": "held", "broker": "owner"},
}  # fmt: skip
"""What there are statistics of -> the columns of its table: head -> the field that it shows."""


class Wanted(NamedTuple):
    """Attributes: sort, by which field or column, "" for as it comes; limit, of rows, 0 for none; every, seconds from
    look to look, 0 for one look; as_json."""

    sort: str
    limit: int
    every: float
    as_json: bool


def tell(connection: Connection, what: str, wanted: Wanted) -> None:
    """Print the statistics of `what`.

    Raises:
        LocalError: there are none of that, or no such key to sort by.
    """
    if what not in COLUMNS:
        raise LocalError(f"--sort and --limit are for {', '.join(COLUMNS)}, not for one queue ({what!r})")
    if wanted.as_json or not wanted.every:
        while True:
            rows, silent = look(connection, what, wanted)
            if wanted.as_json:
                print(json.dumps(rows), flush=True)
            else:
                out.print(sheet_of(what, rows))
                for broker in silent:
                    out.print(_missing(broker), highlight=False, markup=False, soft_wrap=True)
            if not wanted.every:
                return
            time.sleep(wanted.every)
    with drawn_anew() as draw:
        while True:
            rows, silent = look(connection, what, wanted)
            draw(Group(sheet_of(what, rows), *map(Text, map(_missing, silent))))
            time.sleep(wanted.every)


def look(connection: Connection, what: str, wanted: Wanted) -> tuple[list[Row], list[str]]:
    """The rows as they are wanted, and the brokers that have not answered."""
    found = connection.statistics(what)
    rows = ordered(found[what], what, wanted.sort)
    return rows[: wanted.limit or None], found["silent"]


def ordered(rows: list[Row], what: str, key: str) -> list[Row]:
    """Rows by a field, or by the column that shows it: numbers from the largest, text from A.

    Raises:
        LocalError: there is no such key.
    """
    if not key:
        return rows
    columns = COLUMNS[what]
    known = {name: name for row in rows for name, value in row.items() if isinstance(value, int | float | str)}
    field = (known | columns).get(key)
    if field is None:
        named = ", ".join(sorted({*known, *columns}))
        raise LocalError(f"{what} cannot be sorted by {key!r}: they have {named}")
    text = any(isinstance(row.get(field), str) for row in rows)
    if text:
        return sorted(rows, key=lambda row: str(row.get(field, "")))
    return sorted(rows, key=lambda row: row.get(field, -1), reverse=True)


def sheet_of(what: str, rows: list[Row]) -> Sheet:
    columns = COLUMNS[what]
    numbers = [
        head for head, field in columns.items() if rows and all(isinstance(row.get(field, 0), int) for row in rows)
    ]
    sheet = table_of("", list(columns), numbers)
    for row in rows:
        sheet.add_row(*(_cell(field, row) for field in columns.values()))
    return sheet


def _cell(field: str, row: Row) -> str:
    value = row.get(field)
    if value is None:
        return "-"
    if field == "age_ms":
        return span(value / 1000) if value else "-"
    return byte_count(value) if field == "bytes" else cell_of(value)


def _missing(broker: str) -> str:
    return f"{broker} has not answered: what it alone knows is missing"
