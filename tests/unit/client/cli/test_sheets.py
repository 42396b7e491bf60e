"""Tables at any width: numbers and addresses stay whole."""

from __future__ import annotations

import io
import itertools

import pytest
from made_up_status import actors, report
from mantamq.client.cli.sheets import Sheet
from mantamq.client.cli.status import view
from rich.console import Console

NUMBERS = ["12", "1,234,567", "98,765,432,109", "0.25", "-"]
ADDRESSES = ["10.0.0.1:45123", "node-17.rack-3.example.org:45123", "[fe80::1234:5678:9abc:def0]:45123"]


def printed(sheet: object, width: int) -> str:
    shown = io.StringIO()
    Console(file=shown, width=width).print(sheet)
    return shown.getvalue()


@pytest.mark.parametrize("width", [200, 120, 80, 60, 40, 34])
def test_numbers_and_addresses_stay_whole_at_any_width(width: int) -> None:
    columns = ["queue", "messages", "clients connect to", "bytes", "because"]
    sheet = Sheet("queues", columns, right=("messages", "bytes"))
    for number, address in itertools.product(NUMBERS, ADDRESSES):
        sheet.add_row("a-queue/with.a-name", number, address, number, "two words and 1,234,567 more")
    text = printed(sheet, width)
    words = text.split()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for word in NUMBERS + ADDRESSES:
        assert words.count(word) >= 3, word


def test_a_wide_terminal_shows_a_line_for_each_row() -> None:
    sheet = Sheet("", ["queue", "messages"], right=("messages",))
    sheet.add_row("orders", "1")
    sheet.add_row("[red]", "20")
    assert [line.split() for line in printed(sheet, 80).splitlines() if "─" not in line] == [
        ["queue", "messages"], ["orders", "1"], ["[red]", "20"],
    ]  # fmt: skip


def test_where_nothing_fits_each_row_has_lines_of_its_own() -> None:
    sheet = Sheet("brokers", ["broker", "clients connect to", "bytes"], right=("bytes",))
    sheet.add_row("b1", ADDRESSES[1], "1,234,567")
    sheet.add_row("b2", ADDRESSES[1], "98,765,432,109")
    address = ["clients", "connect", "to", ADDRESSES[1]]
    assert [line.split() for line in printed(sheet, 54).splitlines()] == [
        ["brokers"], ["broker", "b1"], address, ["bytes", "1,234,567"], [],
        ["broker", "b2"], address, ["bytes", "98,765,432,109"],
    ]  # fmt: skip


def test_where_nothing_fits_a_table_without_rows_is_its_title() -> None:
    assert printed(Sheet("queues", ["queue", "clients connect to", "messages", "bytes"]), 20) == "queues\n"


@pytest.mark.parametrize("width", [80, 60])
def test_status_breaks_no_address(width: int) -> None:
    found = actors()
    for actor in found:
        if actor.role == "BrokerNode":
            actor.address = f"ip-172-31-45-{len(actor.name)}.internal:45123"
            actor.clients = 1_234_567
    text = "\n".join(printed(part, width) for part in view(report(found)))
    assert text.count("ip-172-31-45-2.internal:45123") == 3 and text.count("1,234,567") == 3
    assert max(map(len, text.splitlines())) <= width
