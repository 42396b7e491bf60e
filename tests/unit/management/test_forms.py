"""The forms of the pages: what they do, that those which take away ask first, and what they say."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.errors import InUse, Invalid
from mantamq.management.http.access import ANYBODY, Access
from mantamq.management.pages.forms import FORMS
from mantamq.management.pages.given import FILE_BYTES, KIND, MOST_BYTES, Given
from mantamq.management.pages.routes import page_routes
from starlette.applications import Starlette
from starlette.testclient import TestClient

from .made_up_deeds import EVIL, MadeUpDeeds
from .made_up_view import HOSTILE, made_up_view

VIEW = made_up_view(3, names=HOSTILE)
HOME = "http://localhost"
HTMX = {"hx-request": "true"}


class Looks:
    async def fresh(self) -> None: ...


def served(deeds: MadeUpDeeds) -> TestClient:
    return TestClient(Starlette(routes=page_routes(VIEW, Looks(), deeds, Access())), HOME)  # pyright: ignore[reportArgumentType]


def posted(deeds: MadeUpDeeds, path: str, htmx: bool = True, **fields: Any) -> Any:
    return served(deeds).post(f"/do/{path}", data=fields, headers=HTMX if htmx else {})


ORDERS = {
    "publish": ({"exchange": "e", "key": "k", "body": "hö", "properties": 'content_type = text/plain\npriority = 3'},
                ("e", "k", {"content_type": "text/plain", "priority": 3}, "hö".encode()), {}),
    "publish ": ({"body": "/wA=", "base64": "1"}, ("", "", {}, b"\xff\x00"), {}),
    "move": ({"name": "a", "to": "b", "count": "12"}, ("a", "b", 12), {}),
    "redrive": ({"name": "a"}, ("a", "", 0), {}),
    "declare-queue": ({"name": "a", "durable": "1", "arguments": '{"x-max-length": 5}'},
                      ("a", True, "", {"x-max-length": 5}), {}),
    "declare-exchange": ({"name": "e", "type": "topic"}, ("e", "topic", False, "", {}), {}),
    "bind": ({"exchange": "e", "queue": "q", "key": "k"}, ("e",),
             {"queue": "q", "to_exchange": "", "key": "k", "arguments": {}}),
    "add-policy": ({"name": "p", "pattern": "^a", "priority": "2", "operator": "1", "arguments": "x-max-length = 9"},
                   ("p", "^a", {"x-max-length": 9}, 2, True, ""), {}),
}  # fmt: skip
FILE = b'{"queues": []}'
LOSSES = {
    "get": ({"name": "orders", "count": "5", "mode": "ack_requeue_false"}, "at most 5 messages",
            ("orders", 5, "ack_requeue_false", 4096), {}),
    "purge": ({"name": "orders"}, "40,330 messages", ("orders",), {}),
    "delete-queue": ({"name": "orders"}, "50,412 messages", ("orders",), {}),
    "delete-exchange": ({"name": "events"}, "4 bindings", ("events",), {}),
    "close-connection": ({"broker": "b1", "client": "c3"}, "0 senders and 1 receiver", ("b1", "c3"), {}),
    "delete-policy": ({"name": "defaults"}, "1 queue got settings", ("defaults", False), {}),
    "unbind": ({"exchange": "events", "queue": "orders", "key": EVIL}, "orders", ("events",),
               {"queue": "orders", "to_exchange": "", "key": EVIL}),
}  # fmt: skip


@pytest.mark.parametrize("path", ORDERS)
def test_a_form_does_its_deed_and_says_what_it_came_to(path: str):
    fields, values, named = ORDERS[path]
    path = path.strip()
    answer = posted(deeds := MadeUpDeeds(), path, **fields)
    assert deeds.done == [(path.replace("-", "_"), ANYBODY, values, named)]
    assert answer.status_code == 200
    assert answer.text.strip().startswith('<div class="said ok" role="status"><p>')


@pytest.mark.parametrize("path", LOSSES)
def test_what_takes_away_names_that_and_does_it_when_one_is_sure(path: str):
    fields, told, values, named = LOSSES[path]
    asked = posted(deeds := MadeUpDeeds(), path, **fields)
    assert deeds.done == []
    assert "This takes away" in asked.text and told in asked.text and 'name="sure" value="1"' in asked.text
    assert EVIL not in asked.text
    sure = posted(deeds, path, **fields, sure="1")
    assert deeds.done == [(path.replace("-", "_"), ANYBODY, values, named)]
    assert "said ok" in sure.text


def test_each_form_is_tried_here():
    assert {*map(str.strip, ORDERS), *LOSSES, "browse", "import-definitions"} == set(FORMS)


def test_messages_are_shown_and_run_nothing():
    answer = posted(deeds := MadeUpDeeds(), "browse", name="orders", count="5")
    assert deeds.done == [("browse", "", ("orders", 5, 4096, ""), {})]
    assert "&lt;b&gt;plain&lt;/b&gt;" in answer.text and "ff 00 01" in answer.text
    assert EVIL not in answer.text


def test_messages_that_go_back_are_got_without_a_question():
    answer = posted(deeds := MadeUpDeeds(), "get", name="orders", count="5")
    assert deeds.done == [("get", ANYBODY, ("orders", 5, "ack_requeue_true", 4096), {})]
    assert "they are back in the queue" in answer.text and "&lt;b&gt;plain&lt;/b&gt;" in answer.text


def uploaded(deeds: MadeUpDeeds, *parts: tuple[str, bytes], boundary: str = "xyz", end: bytes = b"--") -> Any:
    """A form with a file, as a browser sends it."""
    body = b"".join(
        b'--xyz\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\nContent-Type: text/plain\r\n\r\n' + value
        + b"\r\n" for name, value in parts
    ) + b"--xyz" + end + b"\r\n"  # fmt: skip
    kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
    return served(deeds).post("/do/import-definitions", content=body, headers=kind | HTMX)


def test_a_file_of_definitions_is_declared_and_what_there_is_to_say_is_said():
    awkward = FILE + b"\r\n--xy\r\n\r\n\xff"
    answer = uploaded(deeds := MadeUpDeeds(), ("file", awkward), ("vhost", b"/shop"))
    assert deeds.done == [("import_definitions", ANYBODY, (awkward, "/shop"), {})]
    assert "1 differs, 1 new, 1 unchanged. Not looked at: 2 users." in answer.text and "said bad" in answer.text
    assert EVIL not in answer.text and answer.text.count("&lt;script&gt;") == 3
    assert ">a</bdi>" not in answer.text


def test_what_is_no_form_with_a_file_is_refused():
    deeds = MadeUpDeeds()
    for answer, told in (
        (uploaded(deeds, ("file", b"")), "there is no file"),
        (uploaded(deeds, ("vhost", b"/")), "there is no file"),
        (uploaded(deeds, ("file", FILE), end=b""), "begins and ends with its boundary"),
        (uploaded(deeds, ("file", FILE), boundary="zyx"), "begins and ends with its boundary"),
        (uploaded(deeds, ("file", FILE), boundary=""), "says what is between its parts"),
        (uploaded(deeds, ("", FILE)), "a head with its name"),
        (uploaded(deeds, *[("file", FILE)] * 60), "at most 50 parts"),
        (uploaded(deeds, ("file", b"x" * FILE_BYTES)), "at most"),
        (posted(deeds, "import-definitions", file="{}"), "is sent as multipart/form-data"),
    ):
        assert answer.status_code == 409 and told in answer.text and "Not done" in answer.text, told
    assert deeds.done == []


def test_a_browser_without_scripts_gets_a_whole_page_with_the_way_back():
    client = served(MadeUpDeeds())
    answer = client.post(
        "/do/move", data={"name": "a", "to": "b"}, headers={"referer": "http://localhost/queue?name=a%2Fb"}
    )
    assert "<html" in answer.text and "Gone on: 7 messages. Still there, since no queue took them: 2." in answer.text
    assert '<a href="/queue?name=a%2Fb">Back</a>' in answer.text
    elsewhere = client.post("/do/move", data={"name": "a", "to": "b"}, headers={"referer": "http://evil/queue"})
    assert '<a href="/">Back</a>' in elsewhere.text


@pytest.mark.parametrize("wrong", [InUse("<b>x</b> is another's"), OSError("<b>x</b> is gone")])
def test_what_is_refused_is_said(wrong: Exception):
    answer = posted(MadeUpDeeds(wrong), "delete-queue", name="orders", sure="1")
    assert answer.status_code == 409
    assert "Not done: &lt;b&gt;x&lt;/b&gt;" in answer.text and "said bad" in answer.text


@pytest.mark.parametrize(
    ("path", "fields", "told"),
    [
        ("move", {"name": "a"}, "to is empty"),
        ("move", {"name": "a", "to": "b", "count": "-1"}, "count is a whole number"),
        ("move", {"name": "a", "to": "b", "count": "9" * 5000}, "count is a whole number"),
        ("bind", {"exchange": "e"}, "name a queue or an exchange"),
        ("declare-queue", {"name": "a", "arguments": "x-max-length 5"}, "a line is NAME = VALUE"),
        ("declare-queue", {"name": "a", "arguments": '{"a": '}, "Not done"),
        ("browse", {"name": "a", "count": "5000"}, "from 1 to 200"),
        ("purge", {"name": ""}, "name is empty"),
        ("publish", {"body": "/w=A", "base64": "1"}, "not in base64"),
        ("publish", {"body": "hö", "base64": "1"}, "not in base64"),
        ("get", {"name": "a", "count": "0"}, "from 1 to 200"),
    ],
)
def test_a_form_with_a_wrong_field_does_nothing_and_says_which(path: str, fields: dict[str, str], told: str):
    answer = posted(deeds := MadeUpDeeds(), path, **fields)
    assert answer.status_code == 409 and told in answer.text
    assert deeds.done == []


def test_what_is_no_form_is_refused():
    client = served(deeds := MadeUpDeeds())
    for body, kind in (
        (b"{}", "application/json"),
        (b"a=" + b"x" * MOST_BYTES, KIND),
        (b"a=%ff", KIND),
        (b"a=1&" * 60, KIND),
    ):
        answer = client.post("/do/redrive", content=body, headers={"content-type": kind} | HTMX)
        assert answer.status_code == 409 and "Not done" in answer.text
    assert client.get("/do/purge?name=orders&sure=1").status_code == 405
    assert deeds.done == []


def test_values_are_json_or_lines():
    given = Given({"a": 'x = 1\n\n y= true \nz = [1, "a"]\nname = a = b', "b": '{"x": 1.5}', "c": "", "d": "[1]"})
    assert given.values("a") == {"x": 1, "y": True, "z": [1, "a"], "name": "a = b"}
    assert given.values("b") == {"x": 1.5} and given.values("c") == given.values("none") == {}
    with pytest.raises(Invalid, match="NAME = VALUE"):
        given.values("d")


def test_without_deeds_there_are_no_forms():
    client = TestClient(Starlette(routes=page_routes(VIEW, Looks(), None, Access())), HOME)
    for path in ("/admin", "/queue?name=orders", "/exchange?name=events"):
        assert 'method="post"' not in client.get(path).text
    assert client.post("/do/purge", data={"name": "orders", "sure": "1"}).status_code == 404
