"""`top` and `watch queue`: what they show of a cluster, look after look, and how they end."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fake_broker import FakeBroker
from made_up_status import ORDERS, actors, machine, report, silence
from mantamq.client import ConnectionLost, connect
from mantamq.client.cli import app, live
from mantamq.client.cli.live import ASCII_MARKS, sparkline
from mantamq.client.cli.top import KEYS, TopPage
from mantamq.client.cli.watch import QueuePage
from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.cluster import ClusterStatus
from msgspec.structs import replace
from rich.console import Console

COUNTS = ("enqueued", "dequeued", "acquires", "releases", "discarded", "dead_lettered", "expired", "handovers")
DEPTHS = ("messages", "available", "acquired", "delayed", "bytes", "age_ms", "consumers")


def queue(name: str = "orders", **values: Any) -> dict[str, Any]:
    known = {"id": f"{name}#4", "name": name, "owner": "b1", "kind": "plain", "durable": True, "consumers_at": {}}
    return dict.fromkeys((*COUNTS, *DEPTHS), 0) | known | values


def seen(view: ManagementView, at_s: float, *queues: Any, status: ClusterStatus | None = None, **more: Any) -> None:
    view.take(Sample(at_s, 1_800_000_000.0 + at_s, status, {"queues": list(queues), **more}))


def printed(part: Any, width: int = 80, height: int = 24) -> str:
    shown = io.StringIO()
    Console(file=shown, width=width, height=height).print(part)
    return shown.getvalue()


def lines_of(page: Any, width: int = 80, height: int = 24) -> list[str]:
    return printed(page.drawn(height), width, height).splitlines()


def busy(count: int, name: str = "queue {}") -> ManagementView:
    """Of so many queues, the later ones busier."""
    view = ManagementView()
    for at in (0, 1, 2):
        queues = [
            queue(name.format(n), enqueued=at * n * 1000, dequeued=at * n * 900, messages=n * 1_234_567)
            for n in range(count)
        ]
        seen(view, 100.0 + at, *queues, status=report(actors()), brokers=[{"broker": "b1"}])
    return view


# ---- top


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("height", [12, 24, 50])
def test_the_top_fits_its_screen_and_cuts_no_number(width: int, height: int):
    page = TopPage(busy(100, "a name that is as long as somebody wants it to be {}"))
    lines = lines_of(page, width, height)
    assert len(lines) <= height and max(map(len, lines)) <= width
    first = next(line for line in lines if line.startswith("a name"))
    assert "99,000" in first and "89,100" in first and ("…" in first) == (width < 100)
    assert lines[-1].startswith("and ") and "more" in lines[-1]


def test_the_busiest_come_first_by_each_key():
    view = ManagementView()
    fields = {"in": "enqueued", "out": "dequeued", "messages": "messages", "unacked": "acquired", "age": "age_ms"}
    assert set(fields) == set(KEYS)
    for at in (0, 1):
        seen(view, 100.0 + at, *[queue(f"by {key}", **{field: 5000 * at}) for key, field in fields.items()])
    for key in KEYS:
        (row,) = TopPage(view, key, limit=1).plain()["queues"]
        assert row["name"] == f"by {key}"


def test_what_is_wrong_is_in_the_head_with_for_how_long():
    found = actors()
    silence(found, "b2")
    known = report(found)
    known.alerts = [replace(alert, since=1.0) for alert in known.alerts]
    view = ManagementView()
    seen(view, 1.0, queue(), status=known, silent=["b2"])
    text = "\n".join(lines_of(TopPage(view)))
    assert "not healthy: one reason" in text and " d b2 does not answer" in text
    assert "b2 did not answer: what it alone knows is missing" in text
    seen(view, 2.0, queue(), status=report(actors()))
    assert "healthy  cluster abc123, running" in "\n".join(lines_of(TopPage(view)))


def test_of_many_reasons_the_first_are_shown_and_the_rest_counted():
    known = report(actors())
    known.unhealthy = [f"reason {n}" for n in range(50)]
    known.healthy = False
    view = ManagementView()
    seen(view, 1.0, queue(), status=known)
    lines = lines_of(TopPage(view))
    assert len(lines) <= 24 and any("and 47 more: `mantamq status`" in line for line in lines)


def test_totals_rates_and_who_is_held_back():
    view = ManagementView()
    for at in (0, 2):
        seen(
            view, float(at), queue(enqueued=at * 100, messages=7, available=5, acquired=2, bytes=2048, consumers=1),
            brokers=[{"broker": "b1"}, {"broker": "b2"}],
            connections=[{"broker": "b1", "client": "c1", "sent": 1, "state": "blocked"}],
        )  # fmt: skip
    text = "\n".join(lines_of(TopPage(view)))
    assert "2 brokers, 1 queue, 1 connection, 1 consumer" in text
    assert "messages  7 of 2.0 KiB: 5 available, 2 unacked" in text and "a second  100 in, 0.0 out" in text
    assert "1 connection is held back" in text and "health is not known" in text


# ---- watch queue


def watched() -> tuple[ManagementView, QueuePage]:
    found = actors()
    machine(found, "sequencer2").streams[ORDERS].missing = ["b3"]
    machine(found, "sequencer2").streams[ORDERS].lag = {"b1": 0, "b2": 7}
    view = ManagementView()
    page = QueuePage(view, "orders")
    for at in range(8):
        owner = "b1" if at < 5 else "b2"
        seen(
            view, 100.0 + at, queue(enqueued=at * 10, messages=at, available=at, owner=owner, handovers=at // 5),
            status=report(found),
            connections=[
                {"broker": "b1", "client": "c1", "sent": 1, "state": "flow", "held_back_by": ["orders"]},
                {"broker": "b1", "client": "c2", "sent": 1, "state": "flow", "held_back_by": ["other"]},
            ],
        )  # fmt: skip
        assert page.end() == ""
    return view, page


def test_one_queue_on_one_screen():
    _, page = watched()
    lines = lines_of(page)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80 and len(lines) <= 24
    assert "7: 7 available, 0 unacked" in text and "10.0 in, 0.0 out" in text
    assert "▂▃▄▅▆▇█ 1 to 7" in text
    assert "b2; hand-overs so far: 1" in text and "b1 to b2 2 s ago" in text
    assert "b1  in step, 12 messages" in text and "b2  behind, 7 behind" in text and "b3  missing" in text
    assert "c1 at b1: the queue waits for its consumers" in text and "c2" not in text


def test_a_queue_for_scripts():
    _, page = watched()
    plain = json.loads(json.dumps(page.plain()))
    assert plain["queue"]["rates"]["enqueued"] == 10.0 and len(plain["replicas"]) == 3
    assert [move["owner"] for move in plain["lock_moves"]] == ["b2"]
    assert [one["client"] for one in plain["held_back"]] == ["c1"]


def test_a_queue_ends_when_it_is_deleted_and_not_when_nobody_answers():
    view, page = watched()
    view.take(Sample(200.0, 1.0, None, {}, {"statistics": "no answer"}))
    assert page.end() == "" and "statistics: no answer" in printed(page.drawn(24))
    seen(view, 201.0, queue(id="another"))
    assert page.end() == "queue orders has been deleted; there is another one of this name now"
    seen(view, 202.0, queue("other"))
    assert page.end() == "queue orders has been deleted"


def test_a_queue_that_there_is_not_is_an_error():
    view = ManagementView()
    seen(view, 1.0, queue("other"))
    with pytest.raises(LocalError, match="there is no queue 'orders'"):
        QueuePage(view, "orders").end()


def test_a_queue_that_cannot_say_how_it_is_is_shown_all_the_same():
    view = ManagementView()
    seen(view, 1.0, {"id": ORDERS, "name": "orders", "error": "no replica has answered"})
    page = QueuePage(view, "orders")
    assert page.end() == "" and "no replica has answered" in printed(page.drawn(24))


def test_a_line_of_history_begins_at_nothing():
    assert sparkline([0, 1, 2, 4], 4) == "▁▃▅█" and sparkline([9, 0, 4], 2) == "▁█"
    assert sparkline([0, 0], 9) == "▁▁" and sparkline([], 9) == ""
    assert set(sparkline(range(8), 8, True)) == set(ASCII_MARKS)


# ---- the commands


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        with connect(broker.address) as connection:
            connection.declare_queue("orders")
        yield broker


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any, broker: FakeBroker) -> Callable[..., Ran]:
    """Run `mantamq` with these words at the broker; between looks `meanwhile` happens, and at last Ctrl-C."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))

    def run(*words: str, meanwhile: Any = (), at: bool = True) -> Ran:
        doings, clock = iter(meanwhile), SimpleNamespace(now_s=100.0)

        def sleep(seconds: float) -> None:
            clock.now_s += seconds
            next(doings, interrupt)()

        fake = SimpleNamespace(sleep=sleep, monotonic=lambda: clock.now_s, time=lambda: 1_800_000_000 + clock.now_s)
        monkeypatch.setattr(live, "time", fake)
        monkeypatch.setattr(sys, "argv", ["mantamq", *words, *(["-b", broker.address] if at else [])])
        with pytest.raises(SystemExit) as ended:
            app.main()
        said = capsys.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err)

    return run


def interrupt() -> None:
    raise KeyboardInterrupt


def nothing() -> None: ...


def test_top_once_prints_rates_and_ends(run: Callable[..., Ran], broker: FakeBroker):
    def send() -> None:
        with connect(broker.address) as connection:
            sender = connection.session().sender("orders")
            for _ in range(5):
                sender.send(b"x")
            sender.sync()

    ran = run("top", "--once", meanwhile=[send])
    assert ran.code == 0 and "5.0 in, 0.0 out" in ran.out and "orders" in ran.out
    assert "status: with --broker alone it is not asked for" in ran.out
    ran = run("top", "--once", "--json", meanwhile=[nothing])
    plain = json.loads(ran.out)
    assert plain["healthy"] is None and [row["name"] for row in plain["queues"]] == ["orders"]


def test_each_look_is_one_object_for_scripts_and_ctrl_c_is_130_as_elsewhere(run: Callable[..., Ran]):
    ran = run("top", "--json", meanwhile=[nothing, nothing])
    assert ran.code == 130 and len([json.loads(line) for line in ran.out.splitlines()]) == 2
    assert ran.err == "mantamq: interrupted\n"


def test_no_cluster_there_is_the_usual_line(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch):
    def missing(*_: Any, **__: Any) -> None:
        raise LocalError("no cluster runs here: start one with `mantamq up`")

    monkeypatch.setattr(live, "connection", missing)
    for words in (["top"], ["watch", "queue", "orders"]):
        ran = run(*words, at=False)
        assert (ran.code, ran.out) == (
            1,
            "",
        ) and ran.err == "mantamq: no cluster runs here: start one with `mantamq up`\n"


def test_a_cluster_that_is_named_by_its_ray_is_the_one_that_is_shown(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, broker: FakeBroker
):
    known = replace(report(actors()), members={"b1": broker.address})

    class Told:
        def __init__(self, *words: str) -> None:
            assert words == ("", "mine", "")

        def __call__(self) -> ClusterStatus:
            return known

        def close(self) -> None:
            pass

    monkeypatch.setattr(live, "StatusAsker", Told)
    ran = run("top", "--once", "--json", "--namespace", "mine", meanwhile=[nothing], at=False)
    assert ran.code == 0 and json.loads(ran.out)["healthy"] is True
    known.members = {}
    ran = run("top", "--once", "--namespace", "mine", at=False)
    assert ran.code == 1 and "takes clients now" in ran.err


def test_watching_a_queue_ends_with_its_deletion(run: Callable[..., Ran], broker: FakeBroker):
    def delete() -> None:
        with connect(broker.address) as connection:
            connection.delete_queue("orders")

    ran = run("watch", "queue", "orders", meanwhile=[nothing, delete])
    assert ran.code == 0 and ran.out.endswith("queue orders has been deleted\n") and "consume lock" in ran.out
    ran = run("watch", "queue", "orders")
    assert ran.code == 1 and "there is no queue 'orders'" in ran.err


def test_a_terminal_has_a_screen_of_its_own_until_ctrl_c(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr(live, "out", Console(file=shown, force_terminal=True, width=80, height=12))
    ran = run("top", meanwhile=[nothing, nothing])
    text = shown.getvalue()
    assert ran.code == 130 and "Traceback" not in ran.err
    begun, left = text.index("\x1b[?1049h"), text.index("\x1b[?1049l")
    frames = text[begun:left].split("\x1b[H")
    assert all(frame.count("\n") < 12 for frame in frames), "a line more and the screen would scroll"
    assert "orders" in frames[-1] and "0.0 in" in frames[-1]


def test_a_wrong_key_is_refused(run: Callable[..., Ran]):
    assert run("top", "--sort", "size").code == 2


def test_a_cluster_that_is_back_is_shown_again(broker: FakeBroker):
    """A connection that has looked for another broker in vain is over for good; the screen is not."""
    there = True

    def at() -> Any:
        if not there:
            raise ConnectionLost("no broker answers")
        return connect(broker.address)

    looks = live.ClusterLooks(at(), at, None)
    for there, trouble in (True, False), (False, True), (True, False):  # noqa: B007
        looks._connection.close()
        looks.look()
        assert ("statistics" in looks.view.troubles) == trouble
    looks.close()
