"""`queue show`, `queue list`, and what the command line says of refusals, against brokers in memory."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fake_broker import FakeBroker, passing_time
from mantamq.client import connect
from mantamq.client.cli import app, statistics, wiring

pytestmark = pytest.mark.timeout(30)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster() -> Iterator[FakeBroker]:
    """Two brokers, for whom time passes."""
    with FakeBroker(2) as cluster, passing_time(cluster):
        yield cluster


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any, cluster: FakeBroker) -> Run:
    """Run `mantamq` with these words at the first broker, 80 columns wide: exit code, what it printed, what it said."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["mantamq", *words, "-b", cluster.address])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_show_tells_all_of_a_queue(at: Run, cluster: FakeBroker) -> None:
    options = ("--max-count", "50", "--max-size", "10000", "-a", "team=blue", "--group-key", "customer")
    assert at("queue", "add", "orders", *options)[0] == 0
    with connect(cluster.address) as connection:
        sender = connection.session().sender("orders")
        for _ in range(3):
            sender.send(b"x")
        sender.sync()
        # Who has credit left wants the lock: without it nobody may have it soon.
        receiver = connection.session().receiver("orders", capacity=4, window="unaccepted")
        for _ in range(3):
            receiver.fetch(5)
        code, text, _ = at("queue", "show", "orders")
        shown = json.loads(at("queue", "show", "orders", "--json")[1])
    assert code == 0 and all(len(line) <= 80 for line in text.splitlines())
    told = " ".join(text.split())
    for said in (
        "groups, transient", "max_count=50, max_size=10000, overflow='reject', group_key='customer'", "team='blue'",
        "50, 9.8 KiB reject", "more than 40 messages or 7.8 KiB", "less than 35 messages or 6.8 KiB", "producers go on",
        "3: 0 available, 3 acquired", "consumers 1 at b1", "consume lock b1", f"b2 {cluster.addresses['b2']}",
    ):  # fmt: skip
        assert said in told, (said, text)
    assert shown["kind"] == "groups" and shown["kept_by"] == ["b1", "b2"]
    assert shown["definition"] == {
        "max_count": 50, "max_size": 10000, "overflow": "reject", "group_key": "customer", "flow_stop_count": 40,
        "flow_resume_count": 35, "flow_stop_size": 8000, "flow_resume_size": 7000,
    }  # fmt: skip


def test_show_of_a_plain_queue_and_of_none(at: Run) -> None:
    at("queue", "add", "plain")
    shown = json.loads(at("queue", "show", "plain", "--json")[1])
    assert shown["kind"] == "plain" and shown["definition"] == {}
    assert "limit none" in " ".join(at("queue", "show", "plain")[1].split())
    code, _, error = at("queue", "show", "none")
    assert code == 1 and "there is no queue 'none'" in error


def test_the_list_has_kinds_and_limits_in_80_columns(at: Run) -> None:
    at("queue", "add", "a-rather-long-name-of-a-queue", "--max-count", "1000000", "--priorities", "3")
    at("queue", "add", "ring", "-a", "x-max-length-bytes=1048576")
    text = at("queue", "list")[1]
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines) and lines[1].split()[:4] == ["name", "kind", "features", "limit"]
    assert {"1,000,000", "reject", "1.0", "MiB", "ring", "priority"} <= set(text.split()), text


def test_the_list_marks_what_is_special_about_a_queue_in_80_columns(at: Run, cluster: FakeBroker) -> None:
    with connect(cluster.address) as connection:
        connection.declare_exchange("lost", "fanout")
        connection.declare_queue("everything", alternate="lost", auto_delete=True, expires_s=60, message_ttl_s=5,
                                 delivery_limit=3, single_active=True, max_count=100_000)  # fmt: skip
        connection.declare_queue("mine", exclusive=True)
        connection.declare_queue("plain")
        text = at("queue", "list")[1]
    assert all(len(line) <= 80 for line in text.splitlines()), text
    words = text.split()
    assert [mark for mark in ("AD", "Exp", "TTL", "DL", "SAC", "DLX", "Excl") if mark not in words] == []
    assert words.count("AD") == words.count("Excl") == 1


def test_passive_only_asks_whether_a_queue_is_there(at: Run) -> None:
    code, _, said = at("queue", "add", "q", "--passive")
    assert code == 1 and "there is no queue 'q'" in said
    at("queue", "add", "q", "--max-count", "5")
    assert at("queue", "add", "q", "--passive") == (0, "queue q is there already\n", "")
    assert at("queue", "show", "q")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-count", "-1"], "'qpid.max_count' (--max-count) is -1"),
        (["--flow-resume-count", "5"], "--flow-resume-count needs a --flow-stop-count"),
        (["-a", "qpid.max_count=-1"], "'qpid.max_count' is -1"),
        (["--overflow", "ring"], "give --max-count or --max-size"),
        (["--max-count", "1", "--overflow", "rign"], "give reject (x-overflow: reject-publish), ring"),
    ],
)
def test_a_refused_option_is_named_as_it_was_typed(at: Run, words: list[str], said: str) -> None:
    code, _, error = at("queue", "add", "q", *words)
    assert code == 1 and said in error and error.count("\n") == 1, error


def test_send_says_how_many_lines_were_refused(at: Run, cluster: FakeBroker) -> None:
    at("queue", "add", "q", "--max-count", "50", "--flow-stop-count", "0")
    code, _, error = at("send", "q", stdin=b"x\n" * 80)
    assert code == 1 and error.startswith("mantamq: 80 lines sent: 50 complete, 30 refused: queue 'q' has refused")
    code, _, error = at("send", "q", "-m", "x")
    assert code == 1 and "1 line sent: 0 complete, 1 refused" in error
    with connect(cluster.address) as connection:
        assert connection.queue("q")["messages"] == 50


@pytest.fixture
def three(at: Run, cluster: FakeBroker) -> Run:
    """Queues a, b and c with 1, 3 and 2 messages."""
    with connect(cluster.address) as connection:
        for name, count in (("a", 1), ("b", 3), ("c", 2)):
            connection.declare_queue(name, arguments={"team": "blue"})
            sender = connection.session().sender(name)
            for _ in range(count):
                sender.send(b"x")
            sender.sync()
    return at


def test_stat_sorts_and_bounds(three: Run) -> None:
    rows = json.loads(three("stat", "queues", "--sort", "messages", "--limit", "2", "--json")[1])
    assert [row["name"] for row in rows] == ["b", "c"] and rows[0]["arguments"] == {"team": "blue"}
    rows = json.loads(three("stat", "--sort", "in", "--json")[1])
    assert [row["name"] for row in rows] == ["b", "c", "a"]
    text = three("stat", "exchanges", "--sort", "type")[1]
    assert [line.split()[0] for line in text.splitlines()[4:]] == [
        "amq.fanout",
        "amq.headers",
        "amq.match",
        "amq.topic",
    ]
    for what in ("queues", "exchanges", "brokers", "connections", "links", "groups"):
        code, text, error = three("stat", what)
        assert code == 0 and error == "" and all(len(line) <= 80 for line in text.splitlines()), text
        assert isinstance(json.loads(three("stat", what, "--json")[1]), list)


def test_stat_of_one_queue_and_of_all_is_as_it_was(three: Run) -> None:
    assert [row["name"] for row in json.loads(three("stat", "--json")[1])] == ["a", "b", "c"]
    assert [row["name"] for row in json.loads(three("stat", "b", "--json")[1])] == ["b"]
    assert three("stat")[1].split()[:4] == ["name", "messages", "acquired", "bytes"]


def test_a_wrong_key_names_those_that_there_are(three: Run) -> None:
    code, _, error = three("stat", "queues", "--sort", "odd")
    assert code == 1 and "cannot be sorted by 'odd'" in error and " messages" in error and " enqueued" in error
    code, _, error = three("stat", "groups", "--sort", "odd")
    assert code == 1 and "broker, group, held, queue" in error
    code, _, error = three("stat", "b", "--sort", "messages")
    assert code == 1 and "not for one queue ('b')" in error


def test_watch_looks_again_and_again(three: Run, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    looks = []

    def slept(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(statistics, "time", SimpleNamespace(sleep=slept))
    code, text, _ = three("stat", "queues", "--watch", "--every", "0.25", "--json")
    assert code == 130 and looks == [0.25] * 3 and len(text.splitlines()) == 3
    looks.clear()
    code, text, _ = three("stat", "brokers", "-w", "--every", "0.25")
    assert code == 130 and "b2" in text and text.count("address") == 3, "also where there is no terminal"
    monkeypatch.setattr(statistics, "look", lambda *_: ([{"broker": "b1"}], ["b2"]))
    looks.clear()
    text = three("stat", "brokers", "-w")[1]
    assert text.count("b1") == 3 and text.count("b2 has not answered") == 3, "who is silent hides nobody else"


@pytest.mark.parametrize(("every", "rate"), [("1", "200"), ("5", "40")])
def test_rates_are_by_the_second_however_often_it_looks(
    three: Run, cluster: FakeBroker, monkeypatch: pytest.MonkeyPatch, every: str, rate: str
) -> None:
    clock = SimpleNamespace(now_s=100.0)

    def slept(seconds: float) -> None:
        if clock.now_s > 100.0:
            raise KeyboardInterrupt
        clock.now_s += seconds
        with connect(cluster.address) as connection:
            sender = connection.session().sender("a")
            for _ in range(200):
                sender.send(b"x")
            sender.sync()

    monkeypatch.setattr(wiring, "time", SimpleNamespace(sleep=slept, monotonic=lambda: clock.now_s))
    code, text, _ = three("stat", "a", "-w", "--every", every)
    first, last = (line.split()[2] for line in text.splitlines() if line.startswith("a "))
    assert code == 130 and (first, last) == ("0", rate)


def test_nobody_is_told_to_force_what_is_another_connections_alone(at: Run, cluster: FakeBroker) -> None:
    with connect(cluster.address) as connection:
        connection.declare_queue("mine", exclusive=True)
        for force in ((), ("--force",)):
            code, _, said = at("queue", "delete", "mine", *force)
            assert code == 1 and "exclusive to another connection" in said and "--force" not in said
        assert at("queue", "show", "mine")[0] == 0
