"""Every option of the client is in the mix of the simulator and of chaos, or `tests/README.md` says why it is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from mantamq.client import AsyncConnection, AsyncSession, Connection, Message, Session
from mantamq.client.aio.aio import AsyncSender
from mantamq.client.sync.sync import Sender

TESTS = Path(__file__).parents[1]
FOLDERS = TESTS / "simulation", TESTS / "chaos"
CALLS = {
    "Message": [Message],
    "sender": [Session.sender, AsyncSession.sender],
    "receiver": [Session.receiver, AsyncSession.receiver],
    "browse": [Session.browse, AsyncSession.browse],
    "declare_queue": [Connection.declare_queue, AsyncConnection.declare_queue],
    "declare_exchange": [Connection.declare_exchange, AsyncConnection.declare_exchange],
    "bind": [Connection.bind, AsyncConnection.bind],
    "bind_exchange": [Connection.bind_exchange, AsyncConnection.bind_exchange],
    "modify": [Session.modify, AsyncSession.modify],
    "send_to": [Sender.send_to, AsyncSender.send_to],
    "send_later": [Sender.send_later, AsyncSender.send_later],
    "release": [Session.release, AsyncSession.release],
    "close_connection": [Connection.close_connection, AsyncConnection.close_connection],
}


def options() -> set[str]:
    return {
        f"{name}({option})"
        for name, calls in CALLS.items()
        for call in calls
        for option in inspect.signature(call).parameters
        if option != "self"
    }


def table(text: str) -> dict[str, tuple[str, str]]:
    """Option -> what is said of the simulator, and of chaos."""
    rows = re.findall(r"^\| `(\w+\(\w+\))` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    return {option: (simulator, chaos) for option, simulator, chaos in rows}


def wrong(mixed: dict[str, tuple[str, str]], known: set[str]) -> list[str]:
    found = [f"{option} is an option, and nothing says where it is mixed" for option in sorted(known - mixed.keys())]
    found += [f"{option} is no option" for option in sorted(mixed.keys() - known)]
    for option, cells in mixed.items():
        for folder, cell in zip(FOLDERS, cells, strict=True):
            files = re.match(r"`(\w+\.py)`", cell)
            if not (cell.startswith("no: ") or (files and (folder / files[1]).is_file())):
                found.append(f"{option}: {cell!r} is neither a file of {folder.name} nor a reason")
    return found


def test_every_option_is_mixed_or_says_why_not():
    mixed = table((TESTS / "README.md").read_text())
    assert len(mixed) > 30
    assert wrong(mixed, options()) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            "| `bind(keys)` | `load.py` | `load.py` |",
            ["bind(key) is an option", "bind(keys) is no option", "`load.py`"],
        ),
        ("| `bind(key)` | no: why | yes |", ["'yes' is neither a file"]),
        ("", ["bind(key) is an option, and nothing says where it is mixed"]),
    ],
)
def test_an_option_that_is_forgotten_is_told(row, told):
    found = wrong(table(f"{row}\n| `bind(queue)` | `boxes.py` | `load.py` |\n"), {"bind(key)", "bind(queue)"})
    assert len(found) == len(told) and all(part in text for part, text in zip(told, found, strict=True)), found
