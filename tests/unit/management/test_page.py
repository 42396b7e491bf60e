"""The page as a whole, without a cluster; its connection; and what `status` says of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from mantamq.actors.config import ManagementConfig
from mantamq.actors.supervisor.health import complaints
from mantamq.actors.supervisor.management_life import warnings
from mantamq.client.errors import ConnectionLost, NoCluster, NotFound
from mantamq.management import audit_log
from mantamq.management import page as page_module
from mantamq.management.broker_link import BrokerLink
from mantamq.management.deeds import Audit
from mantamq.management.page import Page, PlaceOfPage
from mantamq.management.watcher import Watcher
from mantamq.protocol.capture.event_table import OPERATED
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.machines import ManagementStatus
from mantamq.protocol.status.members import ManagementMember
from mantamq.protocol.supervisor.start_pauses import StartPauses

from .. import made_up_status as made
from .made_up_events import MadeUpKeeper

ANY = PlaceOfPage("127.0.0.1", 0)


async def asked(address: str, path: str) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def sent(address: str, what: str) -> bytes:
    """What is answered to a method and a path."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{what} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n{{}}".encode())
    said = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return said


async def until_looked(page: Page) -> None:
    async with asyncio.timeout(10):
        while not page.report()["looks"]:
            await asyncio.sleep(0.01)


async def test_it_serves_what_it_sees_and_says_what_it_does_not():
    page = Page(lambda: made.report(made.actors()), [], "")
    address = await page.start(ANY)
    try:
        await until_looked(page)
        report = page.report()
        assert report["address"] == address and not report["trouble"]
        assert list(report["missed"]) == ["statistics"]  # the made-up brokers listen nowhere
        assert await asked(address, "/health") == (503, {"healthy": False})
        status, said = await asked(address, "/api/overview")
        assert status == 200 and said["cluster_name"]
    finally:
        await page.stop()
    await page.stop()


async def test_a_cluster_that_cannot_be_looked_at_is_no_error():
    def nobody() -> Any:
        raise LocalError("no process of the cluster is known to Ray any more")

    page = Page(nobody, [], "")
    address = await page.start(ANY)
    try:
        await until_looked(page)
        assert await asked(address, "/health") == (503, {"healthy": False})
        assert "known to Ray" in page.report()["missed"]["status"]
    finally:
        await page.stop()


async def test_what_is_wanted_of_it_becomes_a_row_of_the_event_table_though_it_is_refused_and_the_page_ends():
    page = Page(lambda: made.report(made.actors()), [], "", keeper=(keeper := MadeUpKeeper()))
    address = await page.start(ANY)
    try:
        await until_looked(page)
        assert b"disconnect" in await sent(address, "GET /events")
        assert b" 503 " in await sent(address, "PUT /api/queues/%2F/orders")
    finally:
        await page.stop()
    (told,) = keeper.told.values()
    (row,) = told.values()
    assert (row.kind, row.queue, row.effective) == (OPERATED, "orders", False)
    assert json.loads(row.detail)["what"] == "declare_queue" and json.loads(row.detail)["from"].startswith("127.0.0.1")


async def test_with_a_token_nothing_is_told_without_it_but_whether_all_is_well():
    page = Page(lambda: made.report(made.actors()), [], "open sesame")
    address = await page.start(ANY)
    try:
        await until_looked(page)
        assert (await asked(address, "/api/overview"))[0] == (await asked(address, "/metrics"))[0] == 401
        assert (await asked(address, "/health")) == (503, {"healthy": False})
    finally:
        await page.stop()
    with pytest.raises(LocalError, match="without a token"):
        await Page(lambda: made.report(made.actors()), [], "").start(PlaceOfPage("0.0.0.0", 0))


async def test_who_asks_for_health_without_a_token_has_nobody_looked_at(monkeypatch: pytest.MonkeyPatch):
    gone_by_s = 0.0
    monkeypatch.setattr(page_module, "Watcher", partial(Watcher, clock=lambda: gone_by_s))
    page = Page(lambda: made.report(made.actors()), [], "open sesame")
    address = await page.start(ANY)
    try:
        await until_looked(page)
        gone_by_s = 5.0  # longer than between two looks while somebody watches, shorter than while nobody does
        for _ in range(3):
            assert (await asked(address, "/health"))[0] == 503
        await asyncio.sleep(0)
        assert page.report()["looks"] == 1
        page._watcher.watched()  # as who has the token does
        async with asyncio.timeout(10):
            while page.report()["looks"] < 2:
                await asyncio.sleep(0.01)
    finally:
        await page.stop()


async def test_after_each_look_alerts_are_told_and_whoever_else_wants_to_know(caplog: pytest.LogCaptureFixture):
    found = made.actors()
    made.silence(found, "b2")
    views: list[Any] = []
    page = Page(lambda: made.report(found), [], "", looked=views.append)
    await page.start(ANY)
    try:
        await until_looked(page)
        assert len(views) >= 1 and views[0].status is not None
    finally:
        await page.stop()
    names = {alert.name for alert in views[0].status.alerts}
    assert names and all(any(f"alert {name} " in line for line in caplog.messages) for name in names)


async def test_what_cannot_be_told_on_keeps_nobody_from_looking(caplog: pytest.LogCaptureFixture):
    def fails(view: Any) -> None:
        raise RuntimeError("no metrics today")

    page = Page(lambda: made.report(made.actors()), [], "", looked=fails)
    await page.start(ANY)
    try:
        await until_looked(page)
    finally:
        await page.stop()
    assert "no metrics today" in caplog.text


def test_an_address_that_is_none_is_refused():
    with pytest.raises(LocalError, match="http://"):
        Page(lambda: made.report(made.actors()), [], "", webhook="me@example.org")


def test_each_deed_is_a_line_of_the_log_whatever_is_in_it(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO"):
        audit_log.note(Audit(1.0, "ann\nroot", "10.0.0.7", "purge", {"name": "a\nb"}, "NotFound: no\nqueue"))
    (line,) = caplog.messages
    assert "\n" not in line and "purge" in line and "10.0.0.7" in line and "NotFound" in line


# ---- its connection


class Made:
    """A connection that answers, or fails."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.closed = answer, False

    async def statistics(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed = True


def linked(*made_up: Made) -> tuple[BrokerLink, list[Sequence[str]]]:
    asked_at: list[Sequence[str]] = []
    there = list(made_up)

    async def connect(addresses: Sequence[str], token: str) -> Any:
        asked_at.append(addresses)
        assert token == "t"
        await asyncio.sleep(0)
        return there.pop(0)

    return BrokerLink(lambda: ["10.0.0.1:1"], "t", connect), asked_at


async def test_it_connects_once_for_all_who_ask():
    link, at = linked(Made({"queues": []}))
    answers = await asyncio.gather(*(link.ask(lambda one: one.statistics()) for _ in range(3)))
    assert answers == [{"queues": []}] * 3 and at == [["10.0.0.1:1"]]


async def test_a_connection_that_is_lost_for_good_is_made_anew_and_one_that_refuses_is_kept():
    lost, refusing = Made(ConnectionLost("gone")), Made(NotFound("no such queue"))
    link, at = linked(lost, refusing)
    with pytest.raises(ConnectionLost):
        await link.ask(lambda one: one.statistics())
    for _ in range(2):
        with pytest.raises(NotFound):
            await link.ask(lambda one: one.statistics())
    assert len(at) == 2
    await link.close()
    await link.close()
    assert refusing.closed


async def test_where_no_broker_is_known_that_is_said():
    with pytest.raises(NoCluster, match="no broker takes clients now"):
        await BrokerLink(list, "").connection()


# ---- its warnings


def member(**machine: Any) -> ManagementMember:
    return ManagementMember(
        name="management", role="ManagementNode", machine=ManagementStatus(address="127.0.0.1:1", looks=3, **machine)
    )


DEAD = ManagementMember(name="management", role="ManagementNode", alive=False, error="it does not answer")
STARTS = ManagementMember(name="management", role="ManagementNode")
MUTE = ManagementMember(name="management", role="ManagementNode", error="it has no shell")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([member()], []),
        ([member(trouble="the page is not where it was to be")], ["not where it was to be"]),
        ([member(missed={"statistics": "no answer"})], ["cannot ask for statistics: no answer"]),
        ([DEAD], ["does not answer and is being replaced"]),
        ([], ["does not answer and is being replaced"]),
        ([STARTS], ["the page is starting"]),
        ([MUTE], ["the page does not say how it is: it has no shell"]),
    ],
)
def test_what_is_wrong_with_the_page_is_a_warning_and_no_complaint(found: list[Any], words: list[str]):
    said = warnings(ManagementConfig(port=0), found, StartPauses(), 0)
    assert len(said) == len(words)
    assert all(word in line for word, line in zip(words, said, strict=True))
    assert warnings(ManagementConfig(), found, StartPauses(), 0) == []
    assert complaints(made.plan(3), [*made.actors(3), *found]) == []


@pytest.mark.parametrize("found", [[], [DEAD]])
def test_a_page_that_cannot_start_says_why_and_when_it_is_tried_again(found: list[Any]):
    starts, chosen = StartPauses(), ManagementConfig(port=0)
    for _ in range(4):
        starts.failed(1000, "it could not start: No module named 'starlette'")
    first, later = (warnings(chosen, found, starts, now_ms) for now_ms in (2000, 9000))
    begin = "there is no page now: it could not start: No module named 'starlette'; it is tried again "
    assert first == [begin + "in 7 s"] and later == [begin + "now"]
    assert (first[0].name, first[0].subject) == (later[0].name, later[0].subject), "one alert, since it began"
    assert warnings(chosen, [member()], starts, 2000) == []
