"""Deeds become rows of the event table: all of them, each once, while who keeps it comes and goes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mantamq.management.audit_rows import AuditRows, audit_row
from mantamq.management.deeds import Audit
from mantamq.management.pages.events_shown import shown
from mantamq.management.view import ManagementView
from mantamq.protocol.capture.event_table import NOTES, OPERATED, Row
from mantamq.protocol.errors import LocalError

from .made_up_events import MadeUpKeeper


def purge(number: int = 0, **values: Any) -> Audit:
    found = Audit(1.5 + number, "ann", "10.0.0.7", "purge", {"name": "orders", "count": number}, "done: 12")
    return found._replace(**values)


def counts(keeper: MadeUpKeeper) -> list[int]:
    """What was to be purged, of the deeds in the table."""
    (stream,) = keeper.told.values()
    assert list(stream) == sorted(stream)
    return [json.loads(row.detail)["arguments"]["count"] for row in stream.values()]


def test_a_deed_is_a_row_that_says_who_did_what_from_where_and_how_it_went():
    row = audit_row(purge(4))
    assert (row.kind, row.part, row.time_us, row.queue) == (OPERATED, -1, 5_500_000, "orders")
    assert row.client == "ann" and row.effective
    detail = {"what": "purge", "from": "10.0.0.7", "outcome": "done: 12", "arguments": {"name": "orders", "count": 4}}
    assert json.loads(row.detail) == detail
    assert not audit_row(purge(outcome="NotFound: there is no queue")).effective


@pytest.mark.parametrize(
    ("what", "arguments", "queue"),
    [
        ("delete_queue", {"name": "gone"}, "gone"), ("declare_exchange", {"name": "orders"}, "orders"),
        ("bind", {"exchange": "events", "queue": "", "key": "a"}, "events"), ("import_definitions", {"bytes": 3}, ""),
        ("publish", {"exchange": "", "key": "orders"}, "orders"), ("get", {"queue": "orders"}, "orders"),
    ],
)  # fmt: skip
def test_what_it_is_about_is_named(what: str, arguments: dict[str, Any], queue: str):
    assert audit_row(purge(what=what, arguments=arguments)).queue == queue


def test_whatever_is_in_it_a_column_can_hold_it():
    half = "\ud800" * 9000
    row = audit_row(Audit(1.0, half, half, half, {"name": half, "more": {"a": [half, object()]}}, half * 9))
    for text in (row.queue, row.client, row.detail):
        assert len(text.encode()) <= 16_000 * 3, "it is a text, and not too long"
    assert len(row.client) == len(row.queue) == 200 and len(row.detail) == 16_000


async def test_deeds_wait_until_they_are_on_disk_and_are_in_the_table_once():
    rows = AuditRows(keeper := MadeUpKeeper())
    await rows.tell()
    assert keeper.told == {}, "there is nothing to tell"
    for number in (1, 2):
        rows.note(purge(number))
    await rows.tell()
    rows.note(purge(3))
    keeper.written = 1
    await rows.tell()
    assert counts(keeper) == [1, 2, 3]
    assert next(iter(keeper.told)).startswith(NOTES)
    keeper.told.clear()  # another keeps it, that has read what was on disk
    await rows.tell()
    assert counts(keeper) == [2, 3]
    keeper.written = 3
    await rows.tell()
    keeper.told.clear()
    await rows.tell()
    assert keeper.told == {}


@pytest.mark.parametrize("wrong", [LocalError("away"), OSError("away")])
async def test_what_cannot_be_told_is_told_later(wrong: Exception):
    rows = AuditRows(keeper := MadeUpKeeper(wrong))
    rows.note(purge(1))
    await rows.tell()
    keeper.wrong = None
    await rows.tell()
    assert counts(keeper) == [1]


async def test_the_oldest_go_where_too_many_wait(caplog: pytest.LogCaptureFixture):
    rows = AuditRows(keeper := MadeUpKeeper(), most=3)
    for number in range(5):
        rows.note(purge(number))
    await rows.tell()
    assert counts(keeper) == [2, 3, 4] and list(next(iter(keeper.told.values()))) == [3, 4, 5]
    assert rows.lost == 2 and caplog.text.count("takes no deeds") == 1


async def test_they_are_told_as_they_happen_and_again_until_they_are_on_disk():
    class Counts(MadeUpKeeper):
        times = 0

        def note(self, stream: str, first: int, rows: list[list[Any]]) -> int:
            self.times += 1
            return super().note(stream, first, rows)

    rows = AuditRows(keeper := Counts(), gather_s=0.001, again_s=0.001)
    task = asyncio.get_running_loop().create_task(rows.run())
    async with asyncio.timeout(10):
        await asyncio.sleep(0)
        rows.note(purge(1))
        while keeper.times < 3:
            await asyncio.sleep(0.001)
        keeper.written = 1
        rows.note(purge(2))
        while counts(keeper) != [1, 2]:
            await asyncio.sleep(0.001)
    task.cancel()


async def test_where_nobody_keeps_events_nothing_waits():
    rows = AuditRows(None)
    for number in range(2000):
        rows.note(purge(number))
    await rows.tell()
    assert rows.lost == 0


def test_the_page_says_what_was_done_and_what_was_refused():
    view = ManagementView()
    refused = purge(outcome="NotFound: there is no queue 'orders'")
    found = shown([audit_row(one)._asdict() for one in (purge(), refused)], view)
    assert [(row["client"], row["of"], row["effective"]) for row in found] == [
        ("ann", "orders", True),
        ("ann", "orders", False),
    ]
    assert found[0]["more"] == "purge from 10.0.0.7: done: 12"
    assert found[1]["more"] == "purge from 10.0.0.7: NotFound: there is no queue 'orders'"
    for odd in ("{", "[]", '{"what": 1}'):
        assert shown([Row(kind=OPERATED, detail=odd)._asdict()], view)[0]["more"] == odd
