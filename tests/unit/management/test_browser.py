"""The pages in a real browser, where there is one: what only scripts, style sheets and a policy for them make."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mantamq.management.event_feed import EventFeed
from mantamq.management.http.access import Access
from mantamq.management.http.login import Login
from mantamq.management.pages.routes import page_routes
from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.capture.event_table import Row
from starlette.applications import Starlette
from starlette.routing import Route

from .made_up_deeds import MadeUpDeeds
from .made_up_events import MadeUpKeeper
from .made_up_view import HOSTILE, made_up_view, statistics

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MUST = "MANTA_MUST_HAVE_CHROMIUM"
"""With this in the environment nothing is skipped for want of a browser: CI has one."""
PAGES = (
    "/", "/brokers", "/connections", "/links", "/connection?broker=b1&client=c3", "/exchanges", "/queues", "/admin",
    "/locks", "/replication", "/flow", "/groups", "/events", "/queue?name=orders", "/exchange?name=events", "/queue?name=%3Cscript%3Ealert(1)%3C%2Fscript%3E",
)  # fmt: skip
WAIT_S = 20


class Served:
    """The pages of a made-up view, served in a thread."""

    def __init__(self, token: str = "") -> None:
        self.view: ManagementView = made_up_view(120, 30, HOSTILE)
        self.deeds = MadeUpDeeds()
        self.keeper = MadeUpKeeper()
        self._looks = 30
        access = Access(token=token)
        pages = page_routes(self.view, self, self.deeds, access, EventFeed(self.keeper))  # pyright: ignore[reportArgumentType]
        login = Login(access)
        ways = [Route("/login", login.log_in, methods=["POST"]), Route("/logout", login.log_out, methods=["POST"])]
        routes = [*ways, *pages]
        config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()), daemon=True)

    async def fresh(self) -> None: ...

    def look(self, **changed: Any) -> None:
        """The view has a newer look, in which `orders` has changed."""
        self._looks += 1
        found = statistics(self._looks, 120, HOSTILE)
        for row in found["queues"]:
            if row["name"] == "orders":
                row.update(changed)
        self.view.take(Sample(float(self._looks), self.view.time_s + 1, self.view.status, found))

    def __enter__(self) -> str:
        self._thread.start()
        until(lambda: self._server.started)
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)


def until(true: Callable[[], Any]) -> Any:
    """Look until it is so."""
    waits = threading.Event()
    for _ in range(WAIT_S * 20):
        if found := true():
            return found
        waits.wait(0.05)
    raise AssertionError("it did not become so")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Served, str]]:
    with (server := Served()) as base:
        yield server, base


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    if not (BROWSER and DRIVER):
        reason = "there is no Chromium with a chromedriver here (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get(MUST):
            pytest.fail(f"{MUST} is set, and {reason}")
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = BROWSER or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield found
    found.quit()


class Tab:
    """A browser at the pages."""

    def __init__(self, driver: Any, base: str) -> None:
        self.driver = driver
        self.base = base

    def open(self, path: str, width: int = 1280, scheme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get(self.base + path)

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def press(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def said(self) -> list[str]:
        """What the browser complains of."""
        return [one["message"] for one in self.driver.get_log("browser") if one["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def tab(driver: Any, served: tuple[Served, str]) -> Tab:
    driver.get("about:blank")
    driver.get_log("browser")
    return Tab(driver, served[1])


@pytest.mark.parametrize("width", [320, 1440])
def test_no_page_is_wider_than_the_window_or_breaks_its_policy(tab: Tab, width: int):
    for path in PAGES:
        tab.open(path, width)
        assert tab.run("return document.documentElement.scrollWidth - window.innerWidth") <= 0, path
        scrolls = "return [...document.querySelectorAll('.scroll')].every((one) => getComputedStyle(one).overflowX === 'auto')"
        assert tab.run(scrolls), f"{path}: a table that is too wide cannot be scrolled"
        until(lambda: tab.run("return window.mantaCharts !== undefined"))
    assert tab.said() == []


def test_charts_are_drawn_where_there_are_points(tab: Tab):
    tab.open("/queue?name=orders")
    until(lambda: tab.run("return document.querySelectorAll('.chart canvas').length") == 3)
    drawn = """
        const canvas = document.querySelector(".chart canvas");
        return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
    """
    until(lambda: tab.run(drawn))


def test_a_refresh_changes_figures_and_leaves_focus_and_what_is_written(tab: Tab, served: tuple[Served, str]):
    tab.open("/queues?search=order")
    tab.run("document.querySelector('tbody a').focus(); document.querySelector('tbody a').mark = 1")
    served[0].look(available=77_077)
    until(lambda: "77,077" in tab.text("#live"))
    assert tab.run("return document.activeElement === document.querySelector('tbody a') && document.activeElement.mark")
    served[0].look(available=88_088)
    until(lambda: "88,088" in tab.text("#live"))
    assert tab.said() == []


def test_a_search_is_done_while_it_is_written_and_stays_when_the_page_refreshes(tab: Tab, served: tuple[Served, str]):
    tab.open("/queues")
    until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
    tab.press("/")
    assert tab.run("return document.activeElement.id") == "search"
    tab.press("orders")
    until(lambda: " of " in tab.text(".pages") and "search=orders" in tab.run("return location.search"))
    before = tab.text(".pages")
    served[0].look(available=99_099)
    until(lambda: "99,099" in tab.text("#live"))
    assert tab.text(".pages") == before
    assert tab.run("return document.activeElement.value") == "orders"


def test_events_come_as_they_happen_and_are_chosen_by_kind(tab: Tab, served: tuple[Served, str]):
    tab.open("/events")
    until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
    served[0].keeper.happened(Row(kind="join", broker="b4"))
    until(lambda: "join" in tab.text("tbody tr"))
    choose = """
        const select = document.querySelector("#kind");
        select.value = "own";
        select.dispatchEvent(new Event("change", { bubbles: true }));
    """
    tab.run(choose)
    until(lambda: tab.run("return document.querySelectorAll('tbody tr').length") == 1)
    assert "kind=own" in tab.run("return location.search") and "orders" in tab.text("tbody tr")
    served[0].keeper.happened(Row(kind="join", broker="b5"), Row(kind="own", queue="mail#3", broker="b3"))
    until(lambda: tab.run("return document.querySelectorAll('tbody tr').length") == 2)
    assert "mail" in tab.text("tbody tr") and tab.run("return document.querySelector('#kind').value") == "own"
    assert tab.said() == []


def test_how_often_a_page_is_refreshed_is_chosen_and_remembered(tab: Tab, served: tuple[Served, str]):
    choose = """
        const select = document.querySelector("[data-every]");
        select.value = arguments[0];
        select.dispatchEvent(new Event("change", { bubbles: true }));
    """
    try:
        tab.open("/queue?name=orders")
        until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
        tab.run(choose, "0")
        tab.open("/queue?name=orders")
        until(lambda: tab.run("return document.querySelector('[data-every]')?.value") == "0")
        until(lambda: tab.run("return document.querySelectorAll('.chart canvas').length") == 3)
        asked = "return performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'xmlhttprequest').length"
        assert tab.run(asked) == 0
        served[0].look(available=66_066)
        tab.run("document.querySelector('form[action$=\"/do/redrive\"] button').click()")
        until(lambda: "66,066" in tab.text("#live"))  # a deed shows what it has changed
        assert tab.run(asked) == 2
        tab.run(choose, "1")
        served[0].look(available=55_055)
        until(lambda: "55,055" in tab.text("#live"))
        assert tab.said() == []
    finally:
        tab.run("localStorage.clear()")


def test_columns_are_chosen_and_remembered_and_a_refresh_leaves_them(tab: Tab, served: tuple[Served, str]):
    shown = "return [...document.querySelectorAll('thead th')].filter((one) => one.offsetWidth).map((one) => one.textContent)"
    try:
        tab.open("/queues?search=orders")
        until(lambda: tab.run("return document.querySelectorAll('.columns-shown input').length") == 11)
        assert "Size" in tab.run(shown)
        choose = "[...document.querySelectorAll('.columns-shown label')].find((one) => one.textContent === arguments[0]).click()"
        tab.run(choose, "Size")
        tab.run(choose, "Oldest")
        left = tab.run(shown)
        assert "Size" not in left and "Oldest" not in left and len(left) == 10
        assert (
            len(
                tab.run(
                    "return [...document.querySelectorAll('tbody tr:first-child > *')].filter((one) => one.offsetWidth)"
                )
            )
            == 10
        )
        served[0].look(available=44_044)
        until(lambda: "44,044" in tab.text("#live"))
        assert tab.run(shown) == left
        tab.open("/queues")
        until(lambda: tab.run(shown) == left)
        tab.open("/exchanges")
        until(lambda: len(tab.run(shown)) == 9)
        assert tab.said() == []
    finally:
        tab.run("localStorage.clear()")


def test_names_of_arguments_are_offered_line_by_line(tab: Tab):
    tab.open("/queues")
    until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
    tab.run("document.querySelector('.deeds details').open = true")
    add = "document.querySelector(`[data-line^='${arguments[0]} ']`).click()"
    tab.run(add, "x-max-length")
    tab.press("1000")
    tab.run(add, "x-overflow")
    assert tab.run("return document.querySelector('textarea').value") == "x-max-length = 1000\nx-overflow = "


def test_a_file_of_definitions_is_uploaded(tab: Tab, served: tuple[Served, str], tmp_path: Path):
    file = tmp_path / "definitions.json"
    file.write_bytes(b'{"queues": [{"name": "\xe9"}]}\r\n')
    tab.open("/admin")
    until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    tab.driver.find_element("css selector", "input[type=file]").send_keys(str(file))
    tab.run("document.querySelector('form[action$=\"/do/import-definitions\"] button').click()")
    assert "1 differs, 1 new" in until(lambda: tab.text(".said"))
    assert served[0].deeds.done[-1][2] == (file.read_bytes(), "")
    assert tab.said() == []


def test_the_theme_is_the_system_s_until_another_is_chosen_which_is_remembered(tab: Tab):
    ground = "return getComputedStyle(document.body).backgroundColor"
    tab.open("/", scheme="light")
    light = tab.run(ground)
    tab.open("/", scheme="dark")
    dark = tab.run(ground)
    assert light != dark
    tab.run("document.querySelector('.theme').click()")
    assert tab.run(ground) == light
    tab.open("/locks", scheme="dark")
    assert tab.run(ground) == light
    tab.run("localStorage.clear()")


def test_the_keyboard_reaches_the_page_past_the_menu(tab: Tab):
    from selenium.webdriver.common.keys import Keys

    tab.open("/")
    tab.driver.find_element("tag name", "body").send_keys(Keys.TAB)
    assert tab.run("return document.activeElement.className") == "skip"
    assert tab.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press(Keys.ENTER)
    until(lambda: tab.run("return location.hash") == "#main")


def test_a_purge_asks_first_and_says_what_it_came_to(tab: Tab, served: tuple[Served, str]):
    tab.open("/queue?name=orders")
    until(lambda: tab.run("return window.mantaCharts !== undefined && !document.querySelector('.theme').hidden"))
    tab.run("document.querySelector('details.danger').open = true")
    tab.run("document.querySelector('form[action$=\"/do/purge\"] button').click()")
    until(lambda: "This takes away" in tab.text(".said.ask"))
    assert not [one for one in served[0].deeds.done if one[0] == "purge"]
    tab.run("document.querySelector('.said.ask button').click()")
    assert until(lambda: tab.text(".said.ok")).strip() == "Gone: 1,234 messages."
    assert [one[2] for one in served[0].deeds.done if one[0] == "purge"] == [("orders",)]
    assert tab.said() == []


def test_a_name_with_a_script_in_it_runs_nothing(tab: Tab):
    for path in ("/queues", "/queue?name=%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/flow", "/groups", "/events"):
        tab.open(path)
        assert "<script>alert(1)</script>" in tab.text("main")
        assert tab.run("return document.querySelectorAll('main script').length") == 0
    assert tab.said() == []


def test_a_wrong_token_is_said_and_the_right_one_opens_the_page_that_was_wanted(driver: Any):
    with Served("secret") as base:
        tab = Tab(driver, base)
        tab.open("/locks")
        give = "document.querySelector('[name=token]').value = arguments[0]; document.querySelector('button').click()"
        until(lambda: tab.run("return document.readyState") == "complete")
        tab.run(give, "wrong")
        assert "not the cluster's token" in until(lambda: tab.text("[data-refused]"))
        tab.run(give, "secret")
        until(lambda: tab.text("h1") == "Locks")
        until(lambda: tab.run("return !document.querySelector('[data-logout]').hidden"))
        tab.run("document.querySelector('[data-logout]').click()")
        until(lambda: "Token of the cluster" in tab.text("main"))
