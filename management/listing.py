"""One page of a long table: searched, sorted and cut where the rows are, not in a browser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..protocol.errors import LocalError

MOST = 500
"""Rows of a page."""


class Wanted(NamedTuple):
    """Which part of a table is wanted.

    Attributes:
        sort: a field, or several with dots where they are nested ("rates.enqueued"); "" for the first column as it is.
        descending: from the largest.
        search: what must be somewhere in the name, small or capital.
        page: from 1; beyond the last one it is the last.
        size: rows of a page, 1 to 500.
    """

    sort: str = ""
    descending: bool = False
    search: str = ""
    page: int = 1
    size: int = 100


class Listing(NamedTuple):
    """A page of a table.

    Attributes:
        rows: of this page. found: number of rows that were searched for. total: of all.
        page, pages: which of how many, from 1.
    """

    rows: list[Mapping[str, Any]]
    found: int
    total: int
    page: int
    pages: int


def listing(rows: Iterable[Mapping[str, Any]], wanted: Wanted, name: str = "name") -> Listing:
    """The page that is wanted.

    Args:
        name: the field that is searched, and by which rows come that are equal else.

    Raises:
        LocalError: a page has no such size.
    """
    if not 1 <= wanted.size <= MOST:
        raise LocalError(f"a page has 1 to {MOST} rows, not {wanted.size}")
    everything = list(rows)
    search = wanted.search.casefold()
    found = [row for row in everything if search in str(row.get(name, "")).casefold()] if search else everything
    found = in_order(found, wanted.sort, wanted.descending, name)
    pages = max(1, -(-len(found) // wanted.size))
    page = min(max(1, wanted.page), pages)
    first = (page - 1) * wanted.size
    return Listing(found[first : first + wanted.size], len(found), len(everything), page, pages)


def in_order(rows: Iterable[Mapping[str, Any]], sort: str, descending: bool, name: str) -> list[Mapping[str, Any]]:
    """All rows, sorted as in `Wanted`; equal ones by the field `name`."""
    found = sorted(rows, key=lambda row: str(row.get(name, "")))
    if sort:
        path = sort.split(".")
        found.sort(key=lambda row: _place(value_at(row, path)), reverse=descending)
    return found


def value_at(row: Any, path: Iterable[str]) -> Any:
    """What a row has at the end of a path of fields; None where there is no such."""
    for field in path:
        if not isinstance(row, Mapping):
            return None
        row = row.get(field)
    return row


def _place(value: Any) -> tuple[int, Any]:
    """Nothing before numbers before text: so values of any kind can stand in one column."""
    if isinstance(value, bool | int | float):
        return 1, value
    return (0, 0) if value is None else (2, str(value))
