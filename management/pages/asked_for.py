"""What a request asks for: which part of a table, in which order; and the links to the other parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..listing import MOST, Wanted

SIZE = 100


def wanted_of(asked: Mapping[str, str], sorts: Collection[str], sort: str = "", descending: bool = False) -> Wanted:
    """What is wanted of a table. What a table does not have, and what is no number, is taken for what is usual.

    Args:
        asked: the fields of the query.
        sorts: the columns by which the table can be sorted.
        sort, descending: how it is sorted where nobody says how.
    """
    by = asked.get("sort", "")
    if by not in sorts:
        by, down = sort, descending
    else:
        down = asked.get("down") == "1"
    size = min(MOST, max(1, _number(asked.get("size", ""), SIZE)))
    return Wanted(by, down, asked.get("search", ""), max(1, _number(asked.get("page", ""), 1)), size)


def fields_of(wanted: Wanted) -> dict[str, str]:
    """The fields of the query that asks for the same."""
    found = {"search": wanted.search, "sort": wanted.sort, "down": "1" if wanted.descending else ""}
    return found | {"size": "" if wanted.size == SIZE else str(wanted.size)}


def _number(text: str, default: int) -> int:
    # Longer ones are no page's; and Python refuses to read thousands of digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
