"""Bugs of exchanges and bindings planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.wiring import exchanges

Patch = pytest.MonkeyPatch


def headers_that_begin_with_x_take_no_part(patch: Patch) -> None:
    match = exchanges._headers_match

    def blind(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
        plain = {name: value for name, value in arguments.items() if not name.startswith("x-")}
        return match(plain | {"x-match": arguments.get("x-match", "all").removesuffix("-with-x")}, headers)

    patch.setattr(exchanges, "_headers_match", blind)


def any_with_x_asks_for_all(patch: Patch) -> None:
    match = exchanges._headers_match

    def strict(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
        if arguments.get("x-match") == "any-with-x":
            arguments = arguments | {"x-match": "all-with-x"}
        return match(arguments, headers)

    patch.setattr(exchanges, "_headers_match", strict)


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
