"""How rows of the event table are said on a page: what each is about, and what else it tells. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...protocol.capture.event_table import OPERATED
from ...protocol.capture.newest_rows import name_of
from ..event_feed import ALL_KINDS, NO_MESSAGES
from ..view import ManagementView, Row
from . import figures

SPANS = ("credit_stall", "flow_off", "hand_over", "store_opened", "disk_free", "store_recovered", "flush_slow")
"""Kinds of which `value` is a duration in microseconds."""
QUIET = "quiet"
CHOICES = (("", "all kinds"), (QUIET, "all but messages"), *((kind, kind) for kind in ALL_KINDS))
"""What can be chosen: value and name."""
LONG_CHARS = 200


def kinds_of(choice: str) -> tuple[str, ...]:
    """The kinds that are asked for by a choice; none for all, also by what is no choice."""
    if choice == QUIET:
        return NO_MESSAGES
    return (choice,) if choice in ALL_KINDS else ()


def shown(rows: Iterable[Mapping[str, Any]], view: ManagementView) -> list[Row]:
    """What the page has of each row: `time_s`, `kind`, `of` (a name), `is_queue` (it is one that is there), `broker`,
    `client`, `first` and `last` position, 0 where it is about no message, `count`, `more` and `effective`."""
    return [_shown(row, view) for row in rows]


def _shown(row: Mapping[str, Any], view: ManagementView) -> Row:
    name = name_of(row["queue"])
    there = view.queue(name)
    found: Row = {"time_s": row["time_us"] / 1e6, "of": name, "is_queue": bool(there and there["id"] == row["queue"])}
    found |= {column: row[column] for column in ("kind", "broker", "client", "count", "effective")}
    found |= {"first": row["position_first"], "last": row["position_last"]}
    return found | {"more": "; ".join(_more(row))}


def _more(row: Mapping[str, Any]) -> list[str]:
    kind, value, detail = row["kind"], row["value"], row["detail"]
    found: list[str] = []
    if row["bytes"]:
        found.append(figures.size(row["bytes"]))
    if kind in SPANS and value:
        found.append(f"took {figures.span(value / 1000)}")
    elif kind == "redelivery":
        found.append(f"delivery {figures.count(value)}")
    elif kind == "acquire" and value:
        found.append("accepted at once")
    elif kind == "dropped":
        found.append(f"{figures.counted(value, 'event')} missing")
    if kind == OPERATED:
        found.append(_deed(detail))
    elif detail:
        found.append(f"from {detail}" if kind in ("own", "hand_over") else _cut(detail))
    if not row["effective"] and kind != OPERATED:
        found.append("changed nothing")
    return found


def _deed(detail: str) -> str:
    """What an operator did, or was refused."""
    try:
        told = json.loads(detail)
        return _cut(f"{told['what']} from {told['from']}: {told['outcome']}")
    except (ValueError, KeyError, TypeError):  # it was cut, or is of another version
        return _cut(detail)


def _cut(text: str) -> str:
    return text if len(text) <= LONG_CHARS else f"{text[:LONG_CHARS]}…"
