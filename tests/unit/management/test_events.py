"""The page of the newest events: what it asks for, and what it says of each; and what it says where nobody tells any."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from html import unescape
from typing import Any

import pytest
from mantamq.management.event_feed import MOST, EventFeed, keeper_in
from mantamq.management.http.access import Access
from mantamq.management.pages.events_shown import kinds_of, shown
from mantamq.management.pages.routes import page_routes
from mantamq.management.view import ManagementView
from mantamq.protocol.capture.event_table import LOG_KINDS, OBSERVED_KINDS, Row
from mantamq.protocol.errors import LocalError
from starlette.applications import Starlette
from starlette.testclient import TestClient

from .made_up_events import EVIL, MadeUpKeeper
from .made_up_view import made_up_view

REFRESH = {"hx-request": "true"}


class Looks:
    async def fresh(self) -> None: ...


def served(keeper: MadeUpKeeper | None, view: ManagementView | None = None) -> TestClient:
    routes = page_routes(view or made_up_view(), Looks(), None, Access(), EventFeed(keeper))
    return TestClient(Starlette(routes=routes), "http://localhost")


def kinds(text: str) -> list[str]:
    return re.findall(r'<th scope="row">(\w+)</th>', text)


def more(text: str) -> list[str]:
    return [unescape(one) for one in re.findall(r'<td class="more">(.*?)</td>', text, re.S)]


def test_the_newest_events_are_shown_and_those_which_come_are_in_the_next_look():
    client = served(keeper := MadeUpKeeper())
    text = client.get("/events").text
    assert kinds(text) == [
        "disconnect", "dropped", "redelivery", "hand_over", "acquire", "own", "enqueue", "connect", "put_policy",
        "declare_queue",
    ]  # fmt: skip
    assert EVIL not in text and "{{" not in text
    assert keeper.asked == [((), "", MOST)]
    keeper.happened(Row(kind="bind", queue="events", detail="a/b"))
    again = client.get("/events", headers=REFRESH).text
    assert kinds(again)[:2] == ["bind", "disconnect"] and '<div id="live"' in again and "<select" not in again


def test_what_each_tells_is_said():
    text = served(MadeUpKeeper()).get("/events").text
    said = dict(zip(kinds(text), more(text), strict=True))
    assert said["enqueue"] == "2.0 KiB" and said["own"] == "from b1" and said["hand_over"] == "took 3 ms; from b1"
    assert said["acquire"] == "changed nothing" and said["redelivery"] == "delivery 2"
    assert said["dropped"] == "1,200 events missing; orders#1"
    assert said["disconnect"] == (EVIL * 40)[:200] + "…"
    assert text.count('class="vain"') == 1
    assert re.search(r'<td class="n">500<small>1–500</small>', text)
    assert re.search(r'<td class="n">1<small>7</small>', text)


def test_a_queue_that_is_there_has_a_link_and_what_is_not_has_none():
    view = made_up_view()
    found = {row["kind"]: row for row in shown(MadeUpKeeper().newest((), "", 99), view)}
    assert found["own"]["is_queue"] and found["own"]["of"] == "orders"
    assert not found["redelivery"]["is_queue"] and found["redelivery"]["of"] == "gone"
    other = shown([Row(kind="own", queue="orders#999999")._asdict()], view)[0]
    assert not other["is_queue"], "that was an earlier queue of the same name"


def test_they_are_chosen_by_kind_and_by_queue():
    client = served(keeper := MadeUpKeeper())
    text = client.get("/events?kind=own&search=ORD").text
    assert keeper.asked == [(("own",), "ORD", MOST)] and kinds(text) == ["own"]
    assert '<option value="own" selected>' in text and 'value="ORD"' in text
    assert 'data-again="/events?kind=own&amp;search=ORD"' in text, "a refresh asks for the same"
    quiet = kinds(client.get("/events?kind=quiet").text)
    assert "own" in quiet and not {"enqueue", "acquire", "redelivery"} & set(quiet)
    assert "None of the newest events is so." in client.get("/events?search=nothing").text


def test_what_is_no_kind_is_no_choice():
    assert kinds_of("") == kinds_of("<b>") == ()
    assert set(kinds_of("quiet")) < {*LOG_KINDS, *OBSERVED_KINDS}


@pytest.mark.parametrize("wrong", [LocalError("away <b>\nand more"), OSError("away <b>")])
def test_why_they_are_not_known_is_said(wrong: Exception):
    answer = served(MadeUpKeeper(wrong)).get("/events")
    assert answer.status_code == 200 and "away &lt;b&gt;" in answer.text
    assert "and more" not in answer.text, "Ray says a lot"
    assert "nobody can be asked" in served(None).get("/events").text


async def test_who_does_not_answer_is_waited_for_so_long_and_no_longer():
    answers = threading.Event()

    class Slow(MadeUpKeeper):
        def newest(self, kinds: Sequence[str], queue: str, count: int) -> list[dict[str, Any]]:
            answers.wait(10)
            return []

    seen = await EventFeed(Slow(), patience_s=0.01).newest()
    answers.set()
    assert seen.rows == [] and "no answer within 0.01 s" in seen.why


def test_only_who_can_be_asked_is_asked():
    assert keeper_in(lambda: None) is None
    assert keeper_in(keeper := MadeUpKeeper()) is keeper
