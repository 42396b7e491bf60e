"""The pages: each is there with nothing, with a cluster, and with names that a careless page would open wrongly."""

from __future__ import annotations

import asyncio
import json
import re
import time
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from mantamq.client.errors import Unavailable
from mantamq.management.event_feed import EventFeed
from mantamq.management.http.access import Access
from mantamq.management.http.login import Login
from mantamq.management.pages import figures
from mantamq.management.pages.routes import page_routes
from mantamq.management.pages.templating import FOLDER
from mantamq.management.view import ManagementView
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from .made_up_deeds import EVIL, MadeUpDeeds
from .made_up_events import MadeUpKeeper
from .made_up_view import HOSTILE, made_up_view

PAGES = (
    "/", "/brokers", "/connections", "/links", "/exchanges", "/queues", "/admin", "/locks", "/replication", "/flow",
    "/groups", "/events",
)  # fmt: skip


HOME = "http://localhost"
FEED = EventFeed(MadeUpKeeper())


class Looks:
    """Counts those who look."""

    def __init__(self) -> None:
        self.count = 0

    async def fresh(self) -> None:
        self.count += 1


def served(view: ManagementView, deeds: Any = None, looks: Looks | None = None) -> TestClient:
    return TestClient(Starlette(routes=page_routes(view, looks or Looks(), deeds, Access(), FEED)), HOME)


@pytest.mark.parametrize("path", PAGES)
def test_each_page_leads_to_the_dashboard_of_ray_where_there_is_one(path: str) -> None:
    view = made_up_view(1)
    assert "Dashboard" not in Seen(served(view).get(path).text).links.values()
    view.dashboard = "127.0.0.1:8265"
    assert Seen(served(view).get(path).text).links["http://127.0.0.1:8265"] == "Dashboard"


class Seen(HTMLParser):
    """What is in a page: links and their texts, the tags that are open, and what runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.inline: list[str] = []
        self.headings: list[str | None] = []
        self.tables = self.captions = 0
        self._link = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.inline += [f"{tag} {name}" for name in has if name == "style" or name.startswith("on")]
        if tag == "a":
            self._link = has.get("href") or ""
        elif tag == "script" and not (has.get("src") or "").startswith("/static/"):
            self.inline.append("script")
        elif tag == "th":
            self.headings.append(has.get("scope"))
        self.tables += tag == "table"
        self.captions += tag == "caption"

    def handle_data(self, data: str) -> None:
        if self._link:
            self.links[self._link] = self.links.get(self._link, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._link = ""


VIEWS = {
    "empty": ManagementView(), "well": made_up_view(ill=False), "ill": made_up_view(),
    "hostile": made_up_view(3, names=HOSTILE),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_there_and_runs_nothing_but_our_scripts(path: str, view: str):
    answer = served(VIEWS[view], MadeUpDeeds()).get(path)
    assert answer.status_code == 200
    seen = Seen(answer.text)
    assert seen.inline == []
    assert EVIL not in answer.text
    assert "{{" not in answer.text.replace("{{ 7 * 7 }}", "")
    assert set(seen.headings) <= {"col", "row"}
    assert seen.captions == seen.tables
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PAGES)
def test_a_refresh_gets_the_middle_of_a_page_alone(path: str):
    answer = served(VIEWS["ill"], deeds := MadeUpDeeds()).get(f"{path}?search=a", headers={"hx-request": "true"})
    assert answer.text.startswith(f'<div id="live" data-again="{path}?search=a">')
    assert '<div id="pulse" class="pulse" hx-swap-oob="morph"' in answer.text
    assert "<html" not in answer.text and '<nav class="menu"' not in answer.text
    assert deeds.asked == [], "a refresh asks no broker"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_what_has_any_name_has_a_page_that_its_link_opens(name: str, kind: str):
    client = served(VIEWS["hostile"], MadeUpDeeds())
    links = Seen(client.get(f"/{kind}s").text).links
    shown = name if name.strip() else f"'{name}'"
    href = next(href for href, text in links.items() if text.strip() == shown and href.startswith(f"/{kind}?"))
    opened = client.get(href)
    assert opened.status_code == 200
    heading = re.search(r"<h1><bdi>(.*?)</bdi></h1>", opened.text, re.S)
    assert heading and unescape(heading[1]) == shown
    assert Seen(opened.text).inline == [] and EVIL not in opened.text


def test_a_queue_has_its_figures_bindings_replicas_and_moves():
    text = served(made_up_view(looks=62), MadeUpDeeds()).get("/queue?name=orders").text
    assert "50,412" in text
    assert '<a class="name" href="/exchange?name=events">' in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for word in ("missing", "behind", "412", "customer 0", "by defaults", "100,000", "holds back"):
        assert word in text, word
    assert re.search(r"<td>b1</td><td>b2</td><td class=\"n\">1</td>", text), "its lock has moved"


def test_a_connection_leads_to_what_it_sends_to_and_consumes_from():
    client = served(VIEWS["well"])
    links = Seen(client.get("/connections?search=10.0.1.3:").text).links
    href = next(href for href in links if href.startswith("/connection?"))
    assert links[href].strip() == "c3"
    text = client.get(href).text
    for word in ("10.0.1.3:50003", "8 min", "1.12", "waits for its consumers", "per message"):
        assert word in text, word
    assert {"/exchange?name=events", "/queue?name=orders"} <= Seen(text).links.keys()
    assert client.get("/connection?broker=b9&client=c3").status_code == 404


def test_a_queue_and_an_exchange_name_who_consumes_and_who_sends():
    client = served(VIEWS["well"], MadeUpDeeds())
    queue = client.get("/queue?name=orders").text
    for word in (
        "client=c13",
        "browse",
        "settles nothing",
        "waits for its turn",
        "priority 3",
        "exclusive",
        "colour = &#39;&lt;b&gt;&#39;",
    ):
        assert word in queue, word
    exchange = client.get("/exchange?name=events").text
    assert "client=c7" in exchange and "client=c2" not in exchange and "named &lt;i&gt;importer" in exchange


def test_links_are_searched_by_client_role_queue_and_exchange():
    client = served(VIEWS["well"])
    found = lambda asked: re.search(r"<span>(.*?) links</span>", client.get(f"/links?{asked}").text)[1]  # noqa: E731
    assert found("") == "21"
    assert found("search=sender") == "7 of 21" and found("search=events") == "7 of 21"
    assert found("search=c1+receiver") == "1 of 21"
    rows = re.findall(r"client=(c\d+)", client.get("/links?sort=count&down=1").text)
    assert rows[:2] == ["c13", "c11"]


def test_charts_are_of_minutes_an_hour_or_a_day():
    client = served(made_up_view(looks=50), MadeUpDeeds())
    for path, more in (("/", ""), ("/queue", "name=orders&")):
        text = client.get(f"{path}?{more}span=hour").text
        assert f"{path}?{more}span=day" in Seen(text).links and "<b>hour</b>" in text
        times = json.loads(unescape(re.search(r'data-points="(.*?)"', text)[1]))[0]
        assert 3 <= len(times) <= 4, "fifty seconds are three or four means"
        assert "<b>minutes</b>" in client.get(f"{path}?{more}span=week").text


def test_the_overview_says_what_comes_and_goes():
    text = served(made_up_view(looks=3)).get("/").text
    churn = text[text.index("What comes and goes") :]
    assert re.findall(r'<td class="n">(.*?)</td>', churn)[:8] == ["3.0", "3.0", "1.0", "1.0", "96", "81", "42", "2"]


def test_what_is_not_there_is_said_and_looked_for_again():
    client = served(VIEWS["ill"])
    for path in ("/queue?name=%3Cscript%3E", "/exchange?name=gone", "/queue"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "of that name" in answer.text and "<script>" not in answer.text.partition("<main")[2]
        assert 'data-again="' in answer.text


def test_queues_are_searched_sorted_and_cut_where_they_are():
    client = served(made_up_view(250))
    text = client.get("/queues?sort=messages&down=1&size=10&search=A&page=1").text
    found = [label for href, label in Seen(text).links.items() if href.startswith("/queue?")]
    assert len(found) == 10 and all("a" in name for name in found)
    assert 'aria-sort="descending"' in text
    again = next(href for href, label in Seen(text).links.items() if label.startswith("Next"))
    assert again == f"/queues?{urlencode({'page': 2, 'search': 'A', 'sort': 'messages', 'down': '1', 'size': '10'})}"


@pytest.mark.parametrize(
    "asked", ["sort=__class__", "size=0", "size=99999999", "page=-1", "page=" + "9" * 5000, "size=x"]
)
def test_what_no_table_has_is_taken_for_what_is_usual(asked: str):
    assert served(VIEWS["ill"]).get(f"/queues?{asked}").status_code == 200


def test_each_request_of_a_page_is_told_to_the_watcher():
    client = served(VIEWS["ill"], MadeUpDeeds(), looks := Looks())
    for path in PAGES:
        client.get(path)
    assert looks.count == len(PAGES)


@pytest.mark.parametrize("wrong", [Unavailable("no <b> majority"), OSError("gone <b>"), TimeoutError()])
def test_a_page_is_there_where_nobody_tells_bindings(wrong: Exception):
    client = served(VIEWS["ill"], MadeUpDeeds(wrong))
    for path in ("/queue?name=orders", "/exchange?name=events", "/admin"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert (
            "gone &lt;b&gt;" in answer.text
            or "no &lt;b&gt; majority" in answer.text
            or "no broker has told" in answer.text
        )
    assert client.get("/admin/definitions.json").status_code == 503


def test_definitions_are_a_file():
    answer = served(VIEWS["ill"], MadeUpDeeds()).get("/admin/definitions.json")
    assert answer.json() == {"queues": [{"name": EVIL}]}
    assert "attachment" in answer.headers["content-disposition"]


def test_pages_know_where_they_are_mounted():
    app = Starlette(routes=[Mount("/manage", routes=page_routes(VIEWS["ill"], Looks(), None, Access()))])
    text = TestClient(app, HOME).get("/manage/queues").text
    assert 'href="/manage/static/pages.css"' in text and 'href="/manage/queue?name=orders"' in text
    assert 'data-again="/manage/queues"' in text
    assert TestClient(app, HOME).get("/manage/static/vendor/htmx.min.js").status_code == 200


def test_what_the_view_does_not_know_is_said():
    view = made_up_view(2)
    view.troubles, view.silent = {"status": "no <b> answer"}, ["b3"]
    text = served(view).get("/").text
    assert "could not be asked: no &lt;b&gt; answer" in text and "b3 did not answer" in text
    assert "view incomplete" in text
    assert "ownership2 does not answer" in text and "b2.store: 8 % of its disk is left" in text


def test_who_is_held_back_by_what_is_said():
    text = served(VIEWS["ill"]).get("/flow").text
    for word in ("b2 is 412 entries behind", "b3: its disk has no room", "waits for its consumers", "50,000"):
        assert word in text, word


async def test_two_who_look_at_once_get_their_own_pages():
    import httpx

    app = Starlette(routes=page_routes(made_up_view(5), Looks(), MadeUpDeeds(), Access()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HOME) as client:
        both = await asyncio.gather(client.get("/queues"), client.get("/locks"))
    assert [re.search("<title>(.*?) ·", one.text)[1] for one in both] == ["Queues", "Locks"]


# ---- who may


def closed(looks: Looks | None = None) -> TestClient:
    access = Access(token="secret")
    login = Login(access)
    routes = [Route("/login", login.log_in, methods=["POST"]), Route("/logout", login.log_out, methods=["POST"])]
    pages = page_routes(VIEWS["ill"], looks or Looks(), MadeUpDeeds(), access)
    return TestClient(Starlette(routes=[*routes, *pages]), HOME)


def test_who_has_not_logged_in_sees_a_page_for_that_and_nothing_else():
    client = closed(looks := Looks())
    for path in (*PAGES, "/queue?name=orders", "/admin/definitions.json"):
        answer = client.get(path)
        assert answer.status_code == 401 and "Token of the cluster" in answer.text
        assert "abc123" not in answer.text and "orders" not in answer.text
        assert "www-authenticate" not in answer.headers
        assert Seen(answer.text).inline == []
    assert client.post("/do/purge", data={"name": "orders", "sure": "1"}).status_code == 401
    assert looks.count == 0
    assert client.get("/static/pages.css").status_code == 200


def test_who_has_logged_in_sees_the_pages_until_he_leaves():
    client = closed()
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    home = client.post("/login", data={"token": "secret", "name": "ada"})
    assert home.status_code == 200 and "<h1>Overview</h1>" in home.text and "Log out" in home.text
    client.post("/logout")
    assert client.get("/").status_code == 401


def test_a_page_of_another_site_changes_nothing_and_reads_nothing():
    client = served(VIEWS["ill"], deeds := MadeUpDeeds())
    sent = {"name": "orders", "sure": "1"}
    answer = client.post("/do/purge", data=sent, headers={"origin": "http://evil", "sec-fetch-site": "cross-site"})
    assert answer.status_code == 403 and "another site" in answer.text
    assert client.get("/queues", headers={"host": "evil"}).status_code == 403
    assert deeds.done == []


# ---- figures


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (figures.count(1234567), "1,234,567"), (figures.count(None), "–"), (figures.count(True), "–"),
        (figures.counted(1, "queue"), "1 queue"), (figures.counted(0, "queue"), "0 queues"),
        (figures.rate(0.0), "0"), (figures.rate(3.26), "3.3"), (figures.rate(1234.6), "1,235"), (figures.rate(""), "–"),
        (figures.size(0), "0 B"), (figures.size(1023), "1023 B"), (figures.size(1536), "1.5 KiB"),
        (figures.size(5 << 40), "5.0 TiB"), (figures.size(3 << 60), "3,145,728.0 TiB"), (figures.span(0), "0"),
        (figures.span(999), "999 ms"), (figures.span(61_000), "1 min 1 s"), (figures.span(3_600_000), "1 h"),
        (figures.span(59_999), "59 s"), (figures.span(100 * 86_400_000 + 7_200_000), "100 d 2 h"),
        (figures.clock(0), "–"), (figures.clock(None), "–"),
    ],
)  # fmt: skip
def test_figures_are_said_in_the_unit_that_says_most(said: str, told: str):
    assert said == told


def test_a_time_that_is_not_today_s_has_its_day():
    assert re.fullmatch(r"2025-11-2\d \d\d:\d\d:\d\d", figures.clock(1_764_000_000))
    assert re.fullmatch(r"\d\d:\d\d:\d\d", figures.clock(time.time()))


# ---- colours


def lightness(colour: str) -> float:
    """Relative luminance, as the contrast of WCAG is made of it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_what_is_written_stands_out_from_what_it_stands_on(theme: int):
    sheet = (FOLDER / "static" / "pages.css").read_text("utf-8")
    found = dict(re.findall(r"--(\w+): light-dark\((#\w{6}, #\w{6})\)", sheet))
    colours = {name: pair.split(", ")[theme] for name, pair in found.items()}
    for word in ("text", "quiet", "accent", "ok", "warn", "bad", "second", "third"):
        for ground in ("ground", "surface", "raised", *(["tint"] if word == "accent" else [])):
            dark, light = sorted((lightness(colours[word]), lightness(colours[ground])))
            least = 3.0 if word in ("second", "third") else 4.5
            assert (light + 0.05) / (dark + 0.05) >= least, f"{word} on {ground}"
