"""`queue move`, `reroute`, `redrive`, `purge` by a selector, and `peek`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_broker import FakeBroker
from mantamq.client import Connection, Message, connect
from mantamq.client.cli import app

pytestmark = pytest.mark.timeout(20)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        with connect(broker.address) as connection:
            connection.declare_queue("q")
        yield broker


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, capsysbinary: Any, tmp_path: Any, broker: FakeBroker) -> Run:
    """Run `mantamq queue` with these words at the broker: exit code, and what it printed; `wrong`: on stderr."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object, wrong: str = "") -> tuple[int, str]:
        capsysbinary.readouterr()
        monkeypatch.setattr(sys, "argv", ["mantamq", "queue", *map(str, words), "-b", broker.address])
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsysbinary.readouterr()
        assert wrong in printed.err.decode()
        return code, printed.out.decode()

    return run


def left(broker: FakeBroker) -> int:
    with connect(broker.address) as connection:
        return connection.queue("q")["messages"]


def test_the_commands(at: Run, broker: FakeBroker) -> None:
    with connect(broker.address) as connection:
        connection.declare_queue("to")
        sender = connection.session().sender("q")
        for n in range(5):
            sender.send(Message(str(n).encode(), properties={"n": n}))
        sender.sync(5)
    assert at("move", "q", "--to", "to", "--limit", 2, "--filter", "n > 1") == (0, "2 messages moved from q to to\n")
    assert at("move", "q", "--to", "nowhere")[0] == 1
    assert json.loads(at("purge", "q", "--selector", "n = 0", "--json")[1]) == {"queue": "q", "purged": 1}
    assert at("redrive", "to")[1].endswith(
        "0 messages sent back from to; 2 stay, whose queue is gone or full, or which never died\n"
    )
    ran = at("reroute", "q", "--to", "amq.fanout", "--json")
    assert json.loads(ran[1]) == {"queue": "q", "moved": 0, "left": 2}
    assert json.loads(at("redrive", "to", "--to", "q", "--json")[1])["moved"] == 2
    assert left(broker) == 4


@pytest.mark.parametrize(
    "words", [("move", "--to", "q"), ("reroute",), ("redrive",), ("purge",), ("peek",)], ids=lambda words: words[0]
)
def test_an_empty_filter_as_of_a_variable_that_is_not_set_takes_nothing(
    at: Run, broker: FakeBroker, words: tuple[str, ...]
) -> None:
    with connect(broker.address) as connection:
        sender = connection.session().sender("q")
        sender.send(b"1")
        sender.sync(5)
    verb, *more = words
    assert at(verb, "q", *more, "--filter", " ", wrong="leave it away for all messages")[0] == 2
    assert left(broker) == 1


def test_ctrl_c_ends_the_command_and_says_where_to_look(
    at: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "_move_all", interrupted)
    told = "what was begun may go on: `mantamq queue show q` tells how far it is; run it again for the rest"
    assert at("move", "q", "--to", "amq.topic", wrong=told)[0] == 130


def test_peek_looks_and_takes_nothing(at: Run, broker: FakeBroker) -> None:
    with connect(broker.address) as connection:
        sender = connection.session().sender("q")
        for body in (b"1", b"2", b"3", b"4"):
            sender.send(body)
        sender.sync(5)
    assert at("peek", "q", "--at", 2, "--limit", 2)[1] == "2\n3\n"
    lines = at("peek", "q", "--filter", "subject IS NULL", "--json", "-t", 0.2)[1].splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1, 2, 3, 4]
    assert left(broker) == 4
