"""The bugs that a module plants: its functions, by their names."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest


def planted(names: dict[str, Any]) -> dict[str, Callable[[pytest.MonkeyPatch], None]]:
    """Those of a module's names that are functions of its own, and not for itself only."""
    return {
        name: value
        for name, value in names.items()
        if isinstance(value, FunctionType) and value.__module__ == names["__name__"] and not name.startswith("_")
    }
