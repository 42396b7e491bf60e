"""A wait that takes long is told, on a terminal alone, and leaves nothing behind."""

from __future__ import annotations

import io
import threading
import time

from mantamq.client.cli.waiting import waiting
from rich.console import Console

LIMIT_S = 10.0


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def threads():
    """Those of now; of a test before, one may still end meanwhile."""
    return {*threading.enumerate()}


def test_a_long_wait_is_told_until_it_ends():
    console = terminal()
    until = time.monotonic() + LIMIT_S
    with waiting(console, "waiting for the cluster", after_s=0.0):
        while "waiting for the cluster" not in console.file.getvalue():
            assert time.monotonic() < until
            time.sleep(0.01)
    ended = console.file.getvalue()
    assert ended.endswith("\x1b[2K"), "the line is wiped away"
    console.print("queue orders added")
    assert console.file.getvalue()[len(ended) :].strip() == "queue orders added"


def test_a_short_one_is_not():
    console, before = terminal(), threads()
    with waiting(console, "waiting for the cluster", after_s=60.0):
        pass
    assert "waiting" not in console.file.getvalue()
    assert threads() <= before


def test_scripts_are_told_nothing():
    console, before = Console(file=io.StringIO()), threads()
    with waiting(console, "waiting for the cluster", after_s=0.0):
        assert threads() <= before
    assert not console.file.getvalue()


def test_what_goes_wrong_meanwhile_is_raised():
    console = terminal()
    try:
        with waiting(console, "waiting for the cluster", after_s=60.0):
            raise ValueError("no cluster")
    except ValueError as error:
        assert str(error) == "no cluster"
    else:
        raise AssertionError("the error is lost")
