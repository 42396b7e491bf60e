"""The `mantamq` command against the machines of a broker behind a socket; no Ray is started or looked for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mantamq.client
import pytest
import typer
from fake_broker import FakeBroker
from made_up_status import actors, report
from mantamq.actors.ray_control import local_ray
from mantamq.actors.ray_control.door import NoRay
from mantamq.client import connect
from mantamq.client.cli import app, doctor
from mantamq.client.cli.console import AskedToEnd
from mantamq.client.cli.wiring import _rates, pairs
from mantamq.protocol.errors import LocalError
from msgspec.structs import replace
from rich.console import Console


@dataclass
class Ran:
    """Attributes: exit code, and what was printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: Any, tmp_path: Any) -> Run:
    """Run `mantamq` with these words; `stdin` is what it reads."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("MANTAMQ_TOKEN", raising=False)

    def run(*words: object, stdin: bytes = b"") -> Ran:
        capsysbinary.readouterr()
        monkeypatch.setattr(sys, "argv", ["mantamq", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsysbinary.readouterr()
        return Ran(code, printed.out.decode(), printed.err.decode())

    return run


@pytest.fixture
def at(run: Run, broker: FakeBroker) -> Run:
    """The same, at the broker, with a queue "q" there."""
    assert run("queue", "add", "q", "-b", broker.address).code == 0
    return lambda *words, **options: run(*words, "-b", broker.address, **options)


def fill(broker: FakeBroker, *bodies: bytes) -> None:
    with connect(broker.address) as connection:
        sender = connection.session().sender("q")
        for body in bodies:
            sender.send(body)
        sender.sync()


def left(broker: FakeBroker) -> int:
    with connect(broker.address) as connection:
        return connection.queue("q")["messages"]


# ---- wrong arguments, and trouble


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["send"],
        ["send", "q", "--ttl", "-1", "-c", "x"],
        ["send", "q", "-P", "novalue", "-c", "x"],
        ["send", "q", "--content", "x", "--file", "lines"],
        ["receive", "q", "--count", "-1"],
        ["receive", "q", "--print", "everything"],
        ["receive", "q", "--reject", "--release"],
        ["receive", "q", "--browse", "--reject"],
        ["receive", "q", "--forever", "--release"],
        ["perftest", "--mode", "odd"],
        ["perftest", "--size", "1"],
        ["up", "--brokers", "0"],
        ["up", "--max-message-size", "huge"],
        ["up", "--max-message-size", "10"],
        ["up", "--max-message-size", "25MiB"],
        ["up", "--client-port", "65536"],
        ["stat", "--broker", "nowhere"],
        ["analyze", "--report", "/nowhere/at/all/report.html"],
        ["queue", "list", "--broker", "127.0.0.1:1,127.0.0.1:65536"],
    ],
)
def test_wrong_arguments_are_code_2(run: Run, words: list[str]) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert ran.err.count("\n") == 1 and ran.err.startswith("mantamq") and "--help`" in ran.err
    option = next((word for word in words if word in ("--max-message-size", "--client-port", "--broker")), "")
    assert option in ran.err


def test_what_cannot_be_started_is_said_before_anything_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mantamq.actors.cluster.start_ray_head", lambda: pytest.fail("Ray was started"))
    ran = run("up", "--client-port", 65534)
    assert ran.code == 1 and "3 brokers" in ran.err and "65,533" in ran.err
    for words, rule in (
        (["--management", "nowhere"], "is a number, auto or off, not 'nowhere'"),
        (["--management", "70000"], "1 to 65,535"),
        (["--alerts-to", "me@example.com"], "http://... or https://..., not to 'me@example.com'"),
    ):
        ran = run("up", *words)
        assert ran.code == 1 and rule in ran.err and ran.err.count("\n") == 1
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("pyarrow", "fsspec") else real(name, *a)
    )
    ran = run("up", "--events", "/tmp/events")
    assert ran.code == 1 and "pyarrow and fsspec" in ran.err and "'mantamq[events]'" in ran.err
    assert "--events off" in ran.err and ran.err.count("\n") == 1


def test_what_cannot_be_written_is_said_before_ray_is_started(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr("mantamq.actors.cluster.start_ray_head", lambda: pytest.fail("Ray was started"))
    monkeypatch.setattr("mantamq.actors.process_logs.set_up", lambda *how: None)  # it would be this process's
    file = tmp_path / "file"
    file.touch()
    ran = run("up", "--events", "off", "--data", file / "sub")
    assert (ran.code, ran.err) == (
        1,
        f"mantamq: {file} is not a directory: name one, or a path where there is nothing yet\n",
    )
    ran = run("up", "--memory", "--events", file)
    assert ran.code == 1 and f"events cannot be kept: {file} is not a directory" in ran.err and "--events" in ran.err


def test_a_ray_of_ours_that_does_not_answer_is_not_to_be_started_by_down(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise NoRay("there is no Ray cluster at '127.0.0.1:1': start one with `mantamq up`")

    monkeypatch.setattr("mantamq.actors.cluster.find_cluster", silent)
    monkeypatch.setattr("mantamq.actors.ray_control.local_ray.head_processes", lambda: [1])
    local_ray.remember(address="127.0.0.1:1", session="session_1", namespace="mantamq", ray_is_ours=True)
    ran = run("down")
    assert ran.code == 1 and "its Ray does not answer" in ran.err and "--yes" in ran.err
    assert "`mantamq up`" not in ran.err


def test_trouble_is_one_line_and_code_1(at: Run, run: Run) -> None:
    for ran in (
        run("stat", "-b", "127.0.0.1:1"),
        at("stat", "missing"),
        at("queue", "add", "q", "--argument", "a=1"),
        at("queue", "delete", "missing"),
        at("exchange", "add", "e", "--type", "odd"),
        at("exchange", "delete", "amq.topic"),
        at("bind", "missing", "q"),
        at("send", "missing", "-m", "x"),
        at("receive", "missing"),
        at("receive", "q", "--count", 1, "--timeout", 0.05),
    ):
        assert ran.code == 1
        assert ran.out == ""
        assert ran.err.startswith("mantamq: ") and ran.err.count("\n") == 1, ran.err


@pytest.mark.parametrize(
    ("absent", "words", "install"),
    [
        (["fsspec"], ["analyze"], "'mantamq[spark]'"),
        (["pyspark"], ["analyze"], "'mantamq[spark]'"),
        (["fsspec", "pyarrow"], ["events", "export", "x.parquet"], "'mantamq[events]'"),
        (["pyarrow"], ["events", "export", "x.csv"], "'mantamq[events]'"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, absent: list[str], words: list[str], install: str
) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    ran = run(*words)
    assert ran.code == 1 and ran.out == ""
    assert ran.err.count("\n") == 1 and f"pip install {install}" in ran.err
    assert all(name in ran.err for name in absent)


def test_a_file_that_is_not_there_is_named_as_elsewhere(run: Run) -> None:
    assert run("send", "q", "--file", "/nowhere/lines").err == "mantamq: /nowhere/lines: No such file or directory\n"


def test_a_module_that_is_missing_somewhere_deep_is_named_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'raydp.utils'", name="raydp.utils")

    monkeypatch.setattr("mantamq.client.cli.wiring.connection", deep)
    ran = run("queue", "list")
    assert ran.code == 1 and ran.err.count("\n") == 1 and "raydp" in ran.err and "'mantamq[spark]'" in ran.err


def test_an_unknown_kind_of_event_is_refused_with_those_that_are_known(run: Run, tmp_path: Any) -> None:
    ran = run("events", "export", tmp_path / "x.csv", "--kind", "enqueue", "--kind", "bogus", "-d", tmp_path)
    assert ran.code == 1 and "'bogus'" in ran.err and "enqueue" in ran.err and "hand_over" in ran.err
    assert not (tmp_path / "x.csv").exists()


def test_ctrl_c_is_one_line_and_code_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mantamq.client.cli.wiring.connection", pressed)
    assert run("queue", "list") == Ran(130, "", "mantamq: interrupted\n")


def test_who_is_asked_to_end_ends_as_after_ctrl_c_with_a_code_of_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("mantamq.client.cli.wiring.connection", asked)
    assert run("queue", "list") == Ran(143, "", "mantamq: interrupted\n")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "it was this command's"


def test_who_is_asked_twice_at_once_puts_away_what_is_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    away: list[str] = []

    def asked(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            away.append("its queue")

    monkeypatch.setattr("mantamq.client.cli.wiring.connection", asked)
    assert (run("queue", "list"), away) == (Ran(143, "", "mantamq: interrupted\n"), ["its queue"])


def test_who_is_asked_again_later_ends_where_it_stands() -> None:
    times = iter([5.0, 5.9, 7.0])
    asked = AskedToEnd(lambda: next(times))
    assert not asked
    with pytest.raises(KeyboardInterrupt):
        asked(signal.SIGTERM, None)
    asked(signal.SIGTERM, None)
    with pytest.raises(KeyboardInterrupt):
        asked(signal.SIGTERM, None)
    assert asked


@pytest.mark.parametrize("error", [None, LocalError("no"), KeyboardInterrupt()], ids=["well", "trouble", "ctrl-c"])
def test_a_ray_that_was_joined_is_left_before_the_program_ends(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    left: list[str] = []

    def joins(*_: object) -> Any:
        ray = SimpleNamespace(is_initialized=lambda: not left, shutdown=lambda: left.append("ray"))
        monkeypatch.setitem(sys.modules, "ray", ray)
        if error is not None:
            raise error
        return connect(broker.address)

    monkeypatch.setattr("mantamq.client.cli.wiring.connection", joins)
    assert run("queue", "list").code == (0 if error is None else 1 if isinstance(error, LocalError) else 130)
    assert left == ["ray"]


def test_the_version(run: Run) -> None:
    version = importlib.metadata.version("mantamq")
    assert run("--version").out == f"mantamq {version}\n"
    assert mantamq.client.__version__ == version


def test_it_runs_as_a_module(tmp_path: Any) -> None:
    """`mantamq` is a namespace package: its `__main__` is a file beside the sub-packages."""
    command = [sys.executable, "-m", "mantamq", "queue"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert ran.returncode == 2 and ran.stderr.startswith("Usage: mantamq queue "), ran


def test_it_is_no_error_that_nobody_reads_on(tmp_path: Any) -> None:
    """As when `| head` has seen enough."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "mantamq", "check", "alert", "--list", "--json"]
    ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False, cwd=tmp_path)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")


def every_command() -> list[list[str]]:
    """All commands and groups, found in the application."""

    def below(command: Any, words: list[str]) -> list[list[str]]:
        children = getattr(command, "commands", {})
        return [words] + [found for name in children for found in below(children[name], [*words, name])]

    return below(typer.main.get_command(app.app), [])


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_help_fits_into_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = run(*words, "--help")
    assert ran.code == 0 and ran.out.startswith("Usage: mantamq")
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_an_unknown_option_is_one_line(run: Run, words: list[str]) -> None:
    ran = run(*words, "--odd")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1) and "--odd" in ran.err


def test_a_wrong_token_is_said(run: Run) -> None:
    with FakeBroker(token="secret") as broker:
        assert "token" in run("stat", "-b", broker.address).err
        assert run("stat", "-b", broker.address, "--token", "secret").code == 0


# ---- queues, exchanges, bindings


def test_wiring(at: Run) -> None:
    assert at("queue", "add", "q", "--json").json["new"] is False
    assert at("queue", "add", "r", "--argument", "limit=5", "--json").json["new"] is True
    assert at("exchange", "add", "e", "--type", "topic", "-a", "owner=ops").code == 0
    assert at("exchange", "add", "e", "--type", "topic").code == 1  # the definition is another one
    assert at("bind", "e", "r", "JFK.#", "--json").json == {"new": True}
    assert at("bindings", "--json").json == [{"exchange": "e", "queue": "r", "key": "JFK.#", "arguments": {}}]
    assert "JFK.#" in at("bindings").out
    assert {e["name"] for e in at("exchange", "list", "--json").json} >= {"", "e", "amq.topic"}
    listed = {q["name"]: q for q in at("queue", "list", "--json").json}
    assert listed["r"]["arguments"] == {"limit": 5} and listed["q"]["messages"] == 0
    assert at("bind", "e", "amq.match", "#", "--to-exchange", "-a", "n=1", "--json").json == {"new": True}
    linked = {"exchange": "e", "queue": "", "key": "#", "arguments": {"n": 1}, "to_exchange": "amq.match"}
    assert at("bindings", "--json").json[1:] == [linked] and "amq.match" in at("bindings").out
    assert at("unbind", "e", "r", "#").code == 1
    assert at("unbind", "e", "amq.match", "#", "--to-exchange").code == 0
    assert at("unbind", "e", "r", "JFK.#").code == 0
    assert at("exchange", "delete", "e").code == 0
    assert at("queue", "add", "s", "--sequence-key", "n").code == 0
    (stamps,) = [one for one in at("queue", "list", "--json").json if one["name"] == "s"]
    assert stamps["arguments"] == {"qpid.queue_msg_sequence": "n"} and at("queue", "delete", "s").code == 0
    assert at("exchange", "add", "inner", "--internal", "--auto-delete").code == 0
    (inner,) = [one for one in at("exchange", "list", "--json").json if one["name"] == "inner"]
    assert inner["arguments"] == {"manta.internal": True, "manta.auto_delete": True}
    at("bind", "inner", "r", "k"), at("unbind", "inner", "r", "k")
    assert "inner" not in {one["name"] for one in at("exchange", "list", "--json").json}
    assert at("queue", "delete", "r").code == 0
    assert [q["name"] for q in at("stat", "--json").json] == ["q"]


def test_an_exchange_that_numbers_and_keeps_the_last(at: Run) -> None:
    assert at("exchange", "add", "prices", "--sequence", "--initial", "--json").json == {
        "exchange": "prices",
        "new": True,
    }
    assert at("exchange", "add", "prices", "--sequence", "--initial", "--json").json["new"] is False
    assert at("exchange", "add", "prices", "--sequence").code == 1  # the definition is another one
    assert (
        at("exchange", "add", "ticks", "--initial").code
        == at("exchange", "add", "ticks", "-a", "qpid.ive=true").code
        == 0
    )
    arguments = {one["name"]: one["arguments"] for one in at("exchange", "list", "--json").json}
    assert arguments["prices"] == {"qpid.msg_sequence": True, "qpid.ive": True} and arguments["ticks"] == {
        "qpid.ive": True
    }
    own = {q["name"]: q["kind"] for q in at("queue", "list", "--json").json if q["name"] != "q"}
    assert own == {"manta.exchange.prices": "relay", "manta.exchange.ticks": "relay"}
    ran = at("exchange", "add", "news", "--sequence", "--auto-delete")
    assert ran.code == 1 and "leave out manta.auto_delete" in ran.err
    assert at("queue", "delete", "manta.exchange.ticks", "--force").code == 1
    assert at("exchange", "delete", "prices").code == at("exchange", "delete", "ticks").code == 0
    assert [q["name"] for q in at("queue", "list", "--json").json] == ["q"]


def test_a_queue_is_deleted_by_one_condition_and_says_what_goes_to_its_alternate(at: Run, broker: FakeBroker) -> None:
    at("queue", "add", "dead")
    at("exchange", "add", "lost", "--type", "fanout")
    at("bind", "lost", "dead")
    at("queue", "add", "r", "--alternate", "lost")
    with connect(broker.address) as connection:
        sender = connection.session().sender("r")
        for body in (b"1", b"2"):
            sender.send(body)
        sender.sync(5)
    assert at("queue", "delete", "r", "--if-empty").code == 1
    ran = at("queue", "delete", "r", "--if-unused", "--json")
    assert ran.json == {"queue": "r", "deleted": True, "dead_letters": 2}
    assert "leave out" in at("queue", "delete", "q", "--force", "--if-empty").err


def test_a_queue_with_messages_or_consumers_is_deleted_only_by_force(at: Run, broker: FakeBroker) -> None:
    fill(broker, b"1")
    ran = at("queue", "delete", "q")
    assert ran.code == 1 and "has messages: --force" in ran.err and ran.err.count("\n") == 1
    assert left(broker) == 1
    at("queue", "purge", "q")
    with connect(broker.address) as connection:
        connection.session().receiver("q", capacity=1)
        ran = at("queue", "delete", "q")
        assert ran.code == 1 and "has consumers: --force" in ran.err
    fill(broker, b"1")
    assert at("queue", "delete", "q", "--force").code == 0
    assert at("queue", "list", "--json").json == []


def test_purge_says_how_many(at: Run, broker: FakeBroker) -> None:
    fill(broker, b"1", b"2", b"3")
    assert at("queue", "purge", "q", "--count", 2, "--json").json["purged"] == 2
    assert left(broker) == 1


def test_values_are_json_or_else_text() -> None:
    found = pairs(["n=1", "late=true", "s=JFK", 'quoted="1"', "equals=a=b", "empty="])
    assert found == {"n": 1, "late": True, "s": "JFK", "quoted": "1", "equals": "a=b", "empty": ""}


def test_a_name_is_never_markup() -> None:
    row = {"name": "[/odd]", "messages": 1, "enqueued": 1, "dequeued": 0, "handovers": 0, "owner": ""}
    shown = io.StringIO()
    Console(file=shown, width=100).print(_rates([row], {}, 1.0))
    assert "[/odd]" in shown.getvalue()


# ---- sending and receiving


def test_lines_become_messages_and_come_out_as_lines(at: Run, broker: FakeBroker) -> None:
    assert at("send", "q", "--json", stdin=b"one\n\ntwo\r\nlast, without an end").json["sent"] == 4
    assert at("receive", "q", "-n", 4).out == "one\n\ntwo\nlast, without an end\n"
    assert left(broker) == 0


def test_a_line_without_an_end_is_not_read_for_ever(at: Run, broker: FakeBroker) -> None:
    ran = at("send", "q", "--file", "/dev/zero")
    assert ran.code == 1 and "line 1 is longer than 25,165,824 bytes" in ran.err and ran.err.count("\n") == 1
    assert left(broker) == 0


def test_what_goes_to_no_queue_is_said_and_fails_where_it_is_mandatory(at: Run, broker: FakeBroker) -> None:
    ran = at("send", "amq.topic/none", stdin=b"1\n2\n")
    assert ran.code == 0 and "2 messages sent" in ran.out and "2 of them went to no queue: bind one" in ran.out
    assert at("bind", "amq.topic", "q", "a").code == 0
    ran = at("send", "amq.topic", "--subject", "a", "--mandatory", "--json", stdin=b"1\n2\n")
    assert ran.code == 0 and (ran.json["sent"], ran.json["unroutable"]) == (2, 0)
    assert "no queue" not in at("send", "q", "-m", "3", "--mandatory").out
    ran = at("send", "amq.topic", "--subject", "b", "--mandatory", "--json", stdin=b"1\n2\n3\n")
    assert ran.code == 1 and (ran.json["sent"], ran.json["unroutable"]) == (3, 3)
    assert left(broker) == 3


def test_an_exchange_that_routes_behind_the_completion_is_nowhere_for_what_is_mandatory(at: Run) -> None:
    assert at("exchange", "add", "x", "--type", "fanout", "--sequence").code == 0
    ran = at("send", "x", "-m", "1", "--mandatory")
    assert ran.code == 1 and "routes a message after it is complete: send to it without mandatory" in ran.err
    assert at("send", "x", "-m", "1").code == 0


def test_lines_go_by_all_the_keys(at: Run, broker: FakeBroker) -> None:
    for queue, key in (("q", "x"), ("q", "y"), ("other", "y")):
        at("queue", "add", queue)
        assert at("bind", "amq.topic", queue, key).code == 0
    assert at("send", "amq.topic", "--key", "x", "-k", "y", "--json", stdin=b"1\n2\n").json == {
        "sent": 2, "unroutable": 0, "seconds": pytest.approx(0, abs=60),
    }  # fmt: skip
    assert at("receive", "q", "-n", 2).out == at("receive", "other", "-n", 2).out == "1\n2\n"
    assert left(broker) == 0
    ran = at("send", "q", "--key", "x", "-m", "1")
    assert ran.code == 1 and "is fixed" in ran.err


def test_what_is_given_back_may_be_annotated(at: Run, broker: FakeBroker) -> None:
    assert at("send", "q", "-m", "1").code == 0
    assert at("receive", "q", "-n", 1, "--release", "--annotate", "why=slow", "--annotate", "n=2").code == 0
    shown = at("receive", "q", "-n", 1, "--json").json
    assert (shown["annotations"], shown["delivery_count"]) == ({"why": "slow", "n": 2}, 1)
    assert shown["first_acquirer"] is False
    assert at("receive", "q", "--annotate", "a=1").code == 2


def test_a_file_and_its_properties(at: Run, tmp_path: Any) -> None:
    (tmp_path / "lines").write_bytes(b"a\n\xff\n")
    at("send", "q", "--file", tmp_path / "lines", "-P", "n=1", "--subject", "s", "--ttl", 60, "--priority", 7)
    first, second = map(json.loads, at("receive", "q", "--json", "-n", 2).out.splitlines())
    assert (
        first["body"] == "a"
        and first["properties"] == {"n": 1}
        and first["subject"] == "s"
        and first["ttl"] == 60
        and first["priority"] == 7
    )
    assert second["body_base64"] == "/w==" and "body" not in second


def test_print_headers_leaves_the_body_away(at: Run, broker: FakeBroker) -> None:
    fill(broker, b"body", b"\xff")
    shown = [json.loads(line) for line in at("receive", "q", "-n", 2, "--print", "headers").out.splitlines()]
    assert [sorted(line) for line in shown] == [["delivery_count", "enqueued_at", "position"]] * 2
    fill(broker, b"body")
    assert at("receive", "q", "-n", 1, "--print", "none").out == ""
    assert left(broker) == 0


def test_exactly_count_are_taken_and_the_rest_is_untouched(at: Run, broker: FakeBroker) -> None:
    fill(broker, *(b"%d" % n for n in range(10)))
    assert at("receive", "q", "-n", 3).out == "0\n1\n2\n"
    seen = [json.loads(line) for line in at("receive", "q", "--browse", "--json", "--timeout", 1).out.splitlines()]
    assert [m["body"] for m in seen] == [str(n) for n in range(3, 10)]
    assert {m["delivery_count"] for m in seen} == {0}
    assert left(broker) == 7


def test_release_gives_back_at_the_end_and_reject_discards(at: Run, broker: FakeBroker) -> None:
    fill(broker, b"1", b"2")
    assert at("receive", "q", "--release", "--timeout", 1).out == "1\n2\n"
    assert left(broker) == 2
    assert at("receive", "q", "--reject", "-n", 1).out == "1\n"
    assert at("receive", "q", "-n", 1).out == "2\n"


def test_what_cannot_be_printed_stays_in_the_queue(
    at: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when `| head` has seen enough."""

    class Broken(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    fill(broker, *(b"%d" % n for n in range(5)))
    told: list[bool] = []
    out = SimpleNamespace(buffer=Broken(), write=lambda text: None, flush=lambda: None)
    monkeypatch.setattr("mantamq.client.cli.messages.sys", SimpleNamespace(stdout=out))
    monkeypatch.setattr("mantamq.client.cli.messages.nobody_reads", lambda: told.append(True))
    assert at("receive", "q", "--timeout", 1).code == 1
    assert told == [True]
    monkeypatch.undo()
    assert left(broker) == 5


# ---- what `up` wrote down


def test_commands_find_the_remembered_brokers(run: Run, broker: FakeBroker, tmp_path: Any) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"members": {"b1": broker.address}}))
    assert run("queue", "add", "here").code == 0
    assert [q["name"] for q in run("stat", "--json").json] == ["here"]


# ---- nothing was named, nothing was written down


@pytest.fixture
def found(run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whatever Ray there is on this machine has a cluster, with a queue "q"."""
    cluster = SimpleNamespace(
        addresses={"b1": broker.address}, nearest=lambda: broker.address, token="", namespace="shop", asked=[],
        ray_address="10.0.0.9:6379", report=lambda: replace(report([]), brokers=["b1"]),
        data="", stop=lambda now: cluster.asked.append("stop"), rebalance=lambda *_: cluster.asked.append("rebalance"),
        remove_broker=lambda *_, **__: cluster.asked.append("remove"),
    )  # fmt: skip
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("mantamq.actors.cluster.find_cluster", lambda *_: cluster)
    with connect(broker.address) as connection:
        connection.declare_queue("q")
    return cluster


@pytest.mark.parametrize(
    "words", [["down"], ["down", "--yes"], ["rebalance"], ["broker", "remove", "b1"]], ids=" ".join
)
def test_a_cluster_that_nobody_named_is_not_stopped_or_changed(
    run: Run, found: Any, broker: FakeBroker, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(*words)
    assert (ran.code, ran.out, ran.err.count("\n"), found.asked) == (1, "", 1, [])
    assert "no cluster was named" in ran.err and broker.address in ran.err
    assert "--address 10.0.0.9:6379 --namespace shop" in ran.err
    run(*words, "--address", "10.0.0.9:6379", *(["--yes"] if "remove" in words else []))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    run(*words, *(["--yes"] if "remove" in words else []))
    assert len(found.asked) == 2


@pytest.mark.parametrize("words", [["reset"], ["purge"], ["delete", "--force"]], ids=" ".join)
def test_nor_is_anything_of_it_discarded(run: Run, found: Any, broker: FakeBroker, words: list[str]) -> None:
    fill(broker, b"1")
    ran = run("queue", *words, "q")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "no cluster was named" in ran.err and f"--broker {broker.address}" in ran.err
    assert left(broker) == 1
    assert "no cluster was named" not in run("queue", *words, "q", "-b", broker.address).err


def test_where_there_is_none_nothing_is_said_of_programs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> None:
        raise LocalError("there is no Ray on this machine")

    monkeypatch.setattr("mantamq.actors.cluster.find_cluster", nowhere)
    for words in (["stat"], ["send", "q"], ["doctor"]):
        ran = run(*words)
        assert ran.code == 1 and "there is no Ray on this machine" in ran.out + ran.err
        assert 'connect("local")' not in ran.out + ran.err


# ---- doctor


def process(*words: str, nice: int = 0) -> Any:
    return SimpleNamespace(info={"cmdline": list(words), "nice": nice})


def test_doctor_judges_dashboards() -> None:
    script = "/x/site-packages/ray/dashboard/dashboard.py"
    on_loopback = process("python", script, "--host=127.0.0.1", "--port=1")
    exposed = process("python", script, "--host=0.0.0.0", "--port=1")
    editor = process("vim", "notes.txt", "--host=0.0.0.0")
    assert doctor.dashboard([editor])[0] == "ok"
    assert doctor.dashboard([on_loopback, editor])[0] == "ok"
    level, _, text = doctor.dashboard([on_loopback, exposed])
    assert level == "warn" and "0.0.0.0" in text and "127.0.0.1:" not in text


def test_doctor_judges_niceness_and_clocks() -> None:
    assert doctor.niceness([process("ray::BrokerNode"), process("ray::IDLE", nice=15), process()])[0] == "ok"
    level, _, text = doctor.niceness([process("ray::BrokerNode", nice=15), process("ray::QueueReplica.status")])
    assert level == "warn" and "1 of 2" in text
    assert doctor.clocks(["10.0.0.1:1", "10.0.0.1:2"])[0] == "ok"
    assert doctor.clocks(["10.0.0.1:1", "10.0.0.2:2"])[0] == "warn"


def test_doctor_looks_at_each_broker_and_the_token(run: Run, broker: FakeBroker) -> None:
    ran = run("doctor", "-b", broker.address, "--json")
    found = {finding["what"]: finding for finding in ran.json}
    assert {"python", "ray", "memory", "dashboard", "niceness", "cluster", "token", "clocks"} <= set(found)
    assert found["cluster"]["level"] == "ok" and found["token"]["level"] != "fail"


def test_doctor_says_what_the_cluster_warns_of(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = "Ray's node on 10.0.0.2 has ended, and nothing runs there until it is started again: `ray start`"
    seen = report(actors())
    seen.warnings, seen.supervisor.pid = [gone], 0
    monkeypatch.setattr(doctor, "seen", lambda address, namespace, token: seen)
    known = {"address": "10.0.0.1:6379", "members": {"b1": broker.address}}
    (tmp_path / "state.json").write_text(json.dumps(known))
    found = {finding["what"]: finding for finding in run("doctor", "--json").json}
    assert found["hosts"] == {"level": "warn", "what": "hosts", "text": gone}
    assert found["supervisor"]["level"] == "warn" and "out of reach" in found["supervisor"]["text"]

    def nobody(*_: object) -> None:
        raise LocalError("Ray is away")

    monkeypatch.setattr(doctor, "seen", nobody)
    found = {finding["what"]: finding for finding in run("doctor", "--json").json}
    assert found["hosts"]["level"] == "warn" and "Ray is away" in found["hosts"]["text"]
    assert "hosts" not in {finding["what"] for finding in run("doctor", "-b", broker.address, "--json").json}


def test_doctor_without_a_broker_fails(run: Run) -> None:
    ran = run("doctor", "-b", "127.0.0.1:1")
    assert ran.code == 1 and "fail cluster" in ran.out


# ---- one more cluster in a Ray of ours


@pytest.mark.parametrize(("address", "ours"), [("127.0.0.1:6379", True), ("auto", True), ("10.0.0.9:1", False)])
def test_a_ray_that_up_started_stays_ours_with_one_more_cluster_in_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, address: str, ours: bool
) -> None:
    there = "10.0.0.9:1" if not ours else "10.0.0.9:6379"
    cluster = SimpleNamespace(
        addresses={"b1": "10.0.0.9:5"}, ray_address=there, report=lambda: report([]), notes=[], data="", paged=False
    )
    monkeypatch.setattr("mantamq.actors.cluster.start_cluster", lambda **_: cluster)
    monkeypatch.setattr("mantamq.actors.process_logs.set_up", lambda *how: None)  # it would be this process's
    local_ray.remember(address="127.0.0.1:6379", session="session_1", namespace="mantamq", ray_is_ours=True)
    ran = run("up", "--address", address, "--namespace", "two", "--events", "off", "--json")
    assert ran.code == 0, ran.err
    known = local_ray.recall()
    assert (known["ray_is_ours"], known["namespace"]) == (ours, "two")
    assert known["address"] == ("127.0.0.1:6379" if ours else address)
    assert known.get("session") == ("session_1" if ours else None), "another's Ray is never stopped by our session"


@pytest.fixture
def stubborn(run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cluster in a Ray of ours, that cannot be stopped: it may go on running while that Ray does."""

    def stop(now: bool) -> None:
        raise LocalError("the cluster may go on running: b2 has not ended")

    cluster = SimpleNamespace(
        namespace="shop", data="/data", report=lambda: report([]), stop=stop, others=["shop"], heads=[],
        broker_nodes=lambda: {"b2": "n1", "b1": "n1"},
    )  # fmt: skip
    monkeypatch.setattr("mantamq.actors.cluster.find_cluster", lambda *_: cluster)
    monkeypatch.setattr("mantamq.client.cli.cluster.still_there", lambda: cluster.others)
    monkeypatch.setattr("mantamq.actors.cluster.stop_ray_head", lambda: cluster.heads.append("stopped"))
    local_ray.remember(address="127.0.0.1:6379", session="session_1", namespace="shop", ray_is_ours=True)
    return cluster


def test_a_cluster_that_ends_with_its_ray_only_has_no_clean_store(run: Run, stubborn: Any) -> None:
    ran = run("down", "--json")
    assert ran.code == 0 and ran.json == {"stopped": True, "ray_stopped": True, "unclean": ["b1", "b2"]}
    assert "not closed clean: b1.store, b2.store" in ran.err and stubborn.heads == ["stopped"]


def test_a_cluster_that_may_go_on_in_a_ray_that_stays_is_not_said_to_be_stopped(run: Run, stubborn: Any) -> None:
    stubborn.others = ["shop", "two"]
    ran = run("down", "--json")
    assert (ran.code, ran.out, stubborn.heads) == (1, "", [])
    assert "may go on running: b2 has not ended (its Ray stays for the clusters in the namespaces two" in ran.err
    assert local_ray.recall()["namespace"] == "shop", "`down` again is for the same"


def test_receive_takes_what_a_selector_wants(at: Run, broker: FakeBroker) -> None:
    at("send", "q", "-P", "n=1", stdin=b"a\nb\n")
    at("send", "q", "-P", "n=7", stdin=b"0\n1\n2\n")
    assert at("receive", "q", "--selector", "n > 3", "--browse", "--timeout", 1).out == "0\n1\n2\n"
    assert at("receive", "q", "--selector", "n > 3", "--print", "none", "--timeout", 1).code == 0
    assert left(broker) == 2
    ran = at("receive", "q", "--selector", "n >")
    assert ran.code == 1 and "column 4" in ran.err and ran.err.count("\n") == 1


def test_receive_may_have_a_queue_alone(at: Run, broker: FakeBroker) -> None:
    at("send", "q", stdin=b"a\n")
    with connect(broker.address) as connection:
        receiver = connection.session().receiver("q")
        refused = at("receive", "q", "--exclusive", "--timeout", 1)
        assert refused.code == 1 and "has consumers already (at b1)" in refused.err
        receiver.close()
    assert at("receive", "q", "--exclusive", "--timeout", 1).out == "a\n"
    assert at("receive", "q", "--exclusive", "--browse").code != 0


def test_receive_may_have_a_priority(at: Run, broker: FakeBroker) -> None:
    with connect(broker.address) as connection:
        session = connection.session()
        connection.declare_queue("q")
        session.receiver("q")
        at("send", "q", stdin=b"a\n")
        assert session._receivers[0].fetch(5).body == b"a"
        session._receivers[0].close()
    assert at("receive", "q", "--priority", 5, "--timeout", 1).out == "a\n"
    assert "32 bits" in at("receive", "q", "--priority", 1 << 40).err


def test_a_queue_that_goes_with_its_last_consumer(at: Run, broker: FakeBroker) -> None:
    assert "added" in at("queue", "add", "one", "--auto-delete", "--auto-delete-timeout-s", 5).out
    assert "auto_delete=True, auto_delete_timeout_s=5" in at("queue", "show", "one").out
    assert "--auto-delete-timeout-s needs --auto-delete" in at("queue", "add", "two", "--auto-delete-timeout-s", 5).err


def test_a_queue_without_a_name_gets_one(at: Run, broker: FakeBroker) -> None:
    name = at("queue", "add").out.split()[1]
    assert name.startswith("manta.gen-") and name in at("queue", "list", "--json").out
    found = json.loads(at("queue", "add", "--auto-delete", "--json").out)
    assert found["new"] and found["queue"].startswith("manta.gen-") and found["queue"] != name


def test_a_queue_that_gives_to_one_consumer_at_a_time(at: Run, broker: FakeBroker) -> None:
    assert "added" in at("queue", "add", "one", "--single-active").out
    assert "already" in at("queue", "add", "one", "-a", "x-single-active-consumer=true").out
    assert at("queue", "add", "one").code == 1


def test_patterns(at: Run, broker: FakeBroker) -> None:
    assert "added" in at("pattern", "add", "p", "^pt", "--set", "max-count=5", "--set", "x-overflow=drop-head").out
    assert "already" in at("pattern", "add", "p", "^pt", "--set", "max_count=5", "--set", "overflow=ring").out
    assert "added" in at("pattern", "add", "e", "^e", "--exchange", "--set", "type=topic", "--priority", 3).out
    one, two = json.loads(at("pattern", "list", "--json").out)
    assert (one["makes"], one["settings"], one["priority"]) == ("exchange", {"type": "topic"}, 3)
    assert two["settings"]["max_count"] == 5 and "^pt" in at("pattern", "list").out
    assert at("receive", "pt.1", "--browse").code == 0
    assert json.loads(at("queue", "show", "pt.1", "--json").out)["definition"]["overflow"] == "ring"
    assert "a group has no end" in at("pattern", "add", "p", "(").err
    assert "deleted" in at("pattern", "delete", "p").out
    assert at("pattern", "delete", "p").code == 1


def test_a_redirected_queue(at: Run, broker: FakeBroker) -> None:
    for name in ("orders", "orders-2"):
        at("queue", "add", name)
    assert "queue orders is redirected to orders-2" in at("queue", "redirect", "orders", "orders-2").out
    assert "is redirected already to orders-2" in at("queue", "redirect", "orders", "orders-2").out
    assert "Redir" in at("queue", "list").out
    assert "what is sent to it comes into orders-2" in at("queue", "show", "orders").out
    assert "what is sent to orders" in at("queue", "show", "orders-2").out
    for wrong in (("orders",), ("orders", "orders-2", "--end")):
        refused = at("queue", "redirect", *wrong)
        assert refused.code == 2 and "or --end without one" in refused.err
    refused = at("queue", "redirect", "orders-2", "orders")
    assert refused.code == 1 and "queue 'orders' is itself redirected" in refused.err
    assert json.loads(at("queue", "redirect", "orders", "--end", "--json").out) == {"queue": "orders", "target": None}
    assert at("queue", "redirect", "orders", "--end").code == 1
    assert "Redir" not in at("queue", "list").out


def test_policies(at: Run, broker: FakeBroker) -> None:
    assert "added" in at("policy", "add", "p", "^po", "--set", "max_count=5", "--set", "x-overflow=drop-head").out
    assert "already" in at("policy", "add", "p", "^po", "--set", "max-count=5", "--set", "overflow=ring").out
    assert "added" in at("policy", "add", "p", ".", "--set", "max_size=100", "--operator", "--priority", 3).out
    found = json.loads(at("policy", "list", "--json").out)
    assert [one["settings"] for one in found] == [{"max_count": 5, "overflow": "ring"}, {"max_size": 100}]
    assert "^po" in at("policy", "list").out
    at("queue", "add", "policed")
    shown = json.loads(at("queue", "show", "policed", "--json").out)
    assert (shown["policy"], shown["definition"]["max_count"], shown["definition"]["max_size"]) == ("p", 5, 100)
    refused = at("policy", "add", "p", "(", "--set", "max_count=5")
    assert refused.code == 1 and "a group has no end" in refused.err
    assert "deleted" in at("policy", "delete", "p", "--operator").out
    assert at("policy", "delete", "p", "--operator").code == 1
