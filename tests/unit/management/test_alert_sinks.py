"""What began and what ended is told once, and never at the expense of who tells it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mantamq.management.alert_changes import BEGAN, ENDED, AlertChange, AlertChanges
from mantamq.management.alert_sinks import LONGEST_WAIT_S, TRIES, LogSink, WebhookSink, next_wait_s
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.alerts import INFO, WARNING, AlertStatus
from msgspec.structs import replace


def alert(subject: str = "b2", text: str = "b2 does not answer", since: float = 0.0) -> AlertStatus:
    return AlertStatus(
        name="member-silent", subject=subject, text=text, severity=WARNING, todo="Wait.", since=since
    )  # fmt: skip


def told(changes: list[AlertChange]) -> list[tuple[str, str]]:
    return [(change.kind, change.alert.subject) for change in changes]


# ---- what began and ended


def test_what_is_on_is_told_once_and_its_end_when_it_stays_away():
    changes = AlertChanges(settle_s=10)
    assert told(changes.take([alert()], 100.0)) == [(BEGAN, "b2")]
    assert changes.take([alert(text="b2, b2.r0 do not answer")], 105.0) == []
    assert changes.take([], 150.0) == [], "one look may have missed it"
    assert changes.take([], 159.9) == []
    (ended,) = changes.take([], 160.0)
    assert (ended.kind, ended.time_s, ended.lasted_s) == (ENDED, 150.0, 50.0)
    assert ended.alert.text == "b2, b2.r0 do not answer", "as it was last seen"
    assert changes.take([], 200.0) == []
    assert told(changes.take([alert()], 201.0)) == [(BEGAN, "b2")]


def test_what_flaps_is_told_once():
    changes = AlertChanges(settle_s=10)
    said = [change for at in range(60) for change in changes.take([alert()] if at % 9 < 3 else [], 100.0 + at)]
    assert told(said) == [(BEGAN, "b2")]


def test_subjects_are_told_apart_and_the_supervisor_knows_better_since_when():
    changes = AlertChanges(settle_s=10)
    (first,) = changes.take([alert(since=60.0)], 100.0)
    assert first.time_s == 60.0
    assert told(changes.take([alert(since=60.0), alert("b3")], 101.0)) == [(BEGAN, "b3")]
    assert changes.take([alert("b3")], 111.0) == []
    (ended,) = changes.take([alert("b3")], 121.0)
    assert told([ended]) == [(ENDED, "b2")] and ended.lasted_s == 51.0


def test_a_clock_that_is_set_back_holds_no_end_up():
    changes = AlertChanges(settle_s=10)
    changes.take([alert()], 1000.0)
    assert changes.take([], 1001.0) == [] and changes.take([], 100.0) == []
    assert told(changes.take([], 110.0)) == [(ENDED, "b2")]


def test_an_end_without_hysteresis_needs_one_look():
    changes = AlertChanges(settle_s=0)
    changes.take([alert()], 1.0)
    assert told(changes.take([], 2.0)) == [(ENDED, "b2")]


# ---- the log


def test_the_log_has_a_line_for_each_change(caplog: pytest.LogCaptureFixture):
    changes = [AlertChange(BEGAN, alert(text="b2\ndoes not answer"), 1.0), AlertChange(ENDED, alert(), 9.0, 8.0)]
    with caplog.at_level(logging.INFO):
        LogSink().tell(changes)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "alert member-silent (warning) of b2: b2 does not answer; to do: Wait."),
        ("INFO", "alert member-silent of b2 has ended after 8 s: b2 does not answer"),
    ]


def test_what_ends_by_itself_is_no_warning(caplog: pytest.LogCaptureFixture):
    change = AlertChange(BEGAN, replace(alert(), severity=INFO), 1.0)
    with caplog.at_level(logging.INFO):
        LogSink().tell([change])
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("INFO", change.line())]


# ---- the webhook


class Listener:
    """Takes posts: `codes` are its first answers, then 200. Attributes: posts; come, set when `wanted` have come."""

    def __init__(self, *codes: int, wanted: int = 1) -> None:
        self.codes = list(codes)
        self.wanted = wanted
        self.posts: list[dict[str, Any]] = []
        self.come = threading.Event()
        self.url = ""

    def taken(self, body: bytes) -> int:
        self.posts.append(json.loads(body))
        code = self.codes.pop(0) if self.codes else 200
        if len(self.posts) >= self.wanted:
            self.come.set()
        return code


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            code = listener.taken(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", listener.url + "elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def finished(sink: WebhookSink, changes: int) -> None:
    """Wait until so many changes are told or dropped."""
    from fake_broker import wait_until

    wait_until(lambda: sink.told + sink.dropped >= changes)


def began(*subjects: str) -> list[AlertChange]:
    return [AlertChange(BEGAN, alert(subject), 1.0) for subject in subjects]


def test_a_change_is_posted_as_json_with_a_text_for_people():
    with listening(Listener()) as there:
        sink = WebhookSink(there.url, "abc123")
        sink.tell(began("b2"))
        finished(sink, 1)
        sink.close()
    (post,) = there.posts
    assert (post["cluster"], post["kind"], post["alert"]["name"]) == ("abc123", "began", "member-silent")
    assert post["text"].startswith("alert member-silent (warning) of b2: ")


def test_what_fails_is_tried_again_and_the_order_stays():
    with listening(Listener(503, 429)) as there:
        sink = WebhookSink(there.url, first_wait_s=0.001)
        sink.tell(began("b1", "b2"))
        finished(sink, 2)
        sink.close()
    assert [post["alert"]["subject"] for post in there.posts] == ["b1", "b1", "b1", "b2"]
    assert (sink.told, sink.dropped) == (2, 0)


@pytest.mark.parametrize("code", [404, 302])
def test_an_answer_that_it_is_wrong_is_final_and_the_next_is_posted(code: int, caplog: pytest.LogCaptureFixture):
    with listening(Listener(code)) as there:
        sink = WebhookSink(there.url, first_wait_s=0.001)
        sink.tell(began("b1", "b2"))
        finished(sink, 2)
        sink.close()
    assert [post["alert"]["subject"] for post in there.posts] == ["b1", "b2"]
    assert (sink.told, sink.dropped) == (1, 1) and f"the answer is {code}" in caplog.text


def test_nobody_there_is_given_up_after_some_tries(caplog: pytest.LogCaptureFixture):
    with listening(Listener()) as there:
        url = there.url
    sink = WebhookSink(url, first_wait_s=0.0001)
    sink.tell(began("b1"))
    finished(sink, 1)
    sink.close()
    assert (sink.told, sink.dropped) == (0, 1) and "could not be posted" in caplog.text


def test_who_tells_never_waits_and_the_oldest_goes():
    let_go = threading.Event()

    class Slow(Listener):
        def taken(self, body: bytes) -> int:
            code = super().taken(body)
            let_go.wait(10)
            return code

    with listening(Slow()) as there:
        sink = WebhookSink(there.url, most=2)
        sink.tell(began("b1"))
        assert there.come.wait(10)
        sink.tell(began("b2", "b3", "b4"))
        let_go.set()
        finished(sink, 4)
        sink.close()
    assert [post["alert"]["subject"] for post in there.posts] == ["b1", "b3", "b4"]
    assert (sink.told, sink.dropped) == (3, 1)


def test_closing_ends_a_wait_and_drops_the_rest():
    with listening(Listener(503)) as there:
        sink = WebhookSink(there.url, first_wait_s=1000)
        sink.tell(began("b1", "b2"))
        assert there.come.wait(10)
        sink.close()
        finished(sink, 2)
        sink.tell(began("b3"))
    assert (sink.told, sink.dropped, len(there.posts)) == (0, 2, 1)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "x", "http://", ""])
def test_an_address_that_takes_no_posts_is_refused(url: str):
    with pytest.raises(LocalError, match="http://"):
        WebhookSink(url)


def test_waits_double_up_to_a_minute_and_end():
    waits = [next_wait_s(tried) for tried in range(1, TRIES + 1)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_WAIT_S, None]
