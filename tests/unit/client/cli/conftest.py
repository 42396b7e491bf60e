"""The command line, many times in one process."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import typer.main


@pytest.fixture(scope="session", autouse=True)
def tree_of_commands() -> Iterator[None]:
    """What typer makes of the app is the same every time, and takes a tenth of a second: it is made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield
