"""Long lists as RabbitMQ has them: sorted, of some columns, and, where a page is asked for, cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...client.errors import Invalid
from ..listing import MOST, Wanted, in_order, listing, value_at
from .problems import HttpProblem
from .table import Answer, Call, Parameter

Row = Mapping[str, Any]
PAGED = (
    Parameter("page", "integer", "which page, from 1; with it the answer is an object with the page in items"),
    Parameter("page_size", "integer", f"rows of a page, 1 to {MOST}, and 100 unless given"),
    Parameter("name", "string", "with a page: what must be somewhere in the name"),
    Parameter("sort", "string", "the field to sort by, with dots where it is within another"),
    Parameter("sort_reverse", "boolean", "from the largest"),
    Parameter("columns", "string", "only these fields, with commas between them"),
)
"""The parameters of a list."""
MOST_PAGE = 2**31


def listed(call: Call, rows: Iterable[Row], told: Callable[[Row], dict[str, Any]], name: str = "name") -> Answer:
    """The list, or the page, that is asked for.

    Args:
        rows: as the view has them. told: one as it is answered.
        name: the field of it that is searched.

    Raises:
        Invalid, HttpProblem: there is no such page, or a parameter is none.
    """
    sort, descending = call.text("sort"), call.flag("sort_reverse")
    columns = [column.split(".") for column in call.text("columns").split(",") if column]
    if not {"page", "page_size", "name"} & call.query.keys():
        found = [told(row) for row in rows]
        if sort:
            found = in_order(found, sort, descending, name)
        return Answer([_columns(one, columns) for one in found])
    if call.flag("use_regex"):
        raise Invalid("names are searched for plain text here: leave use_regex out")
    number, size = call.number("page", 1, 1, MOST_PAGE), call.number("page_size", 100, 1, MOST)
    wanted = Wanted(sort, descending, call.text("name"), number, size)
    page = listing([told(row) for row in rows], wanted, name)
    if number > page.pages:
        text = f"there are {page.pages} pages of {size} rows, and no page {number}"
        raise HttpProblem(400, text, error="page_out_of_range")
    items = [_columns(one, columns) for one in page.rows]
    counts = {"total_count": page.total, "filtered_count": page.found, "item_count": len(items)}
    pages = {"page": page.page, "page_count": page.pages, "page_size": size}
    return Answer({**counts, **pages, "items": items})


def _columns(row: Row, columns: list[list[str]]) -> Row:
    """The row with these alone."""
    if not columns:
        return row
    found: dict[str, Any] = {}
    for path in columns:
        if (value := value_at(row, path)) is None:
            continue
        inner = found
        for field in path[:-1]:
            held = inner.setdefault(field, {})
            inner = held if isinstance(held, dict) else {}
        inner[path[-1]] = value
    return found


def found(row: Row | None, what: str, name: str) -> Row:
    """
    Raises:
        HttpProblem: 404, there is none.
    """
    if row is None:
        raise HttpProblem(404, f"there is no {what} {name!r:.300}")
    return row
