"""`definitions export` and `import` against brokers in memory: there and back, again and again, and beside what is there."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from fake_broker import FakeBroker
from mantamq.client import Connection, connect, connect_async
from mantamq.client.cli import app, bar, definitions
from mantamq.client.definitions.document import read_document, text_of
from mantamq.client.errors import Timeout
from mantamq.protocol.limits import Limits
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.wire.settings import arguments_of
from mantamq.protocol.wiring.settings import BindingSettings, ExchangeSettings
from rich.console import Console

pytestmark = pytest.mark.timeout(60)
RABBITMQ = Path(__file__).parents[1] / "definitions" / "rabbitmq.json"


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> Run:
    """Run `mantamq definitions` with these words, 80 columns wide."""
    monkeypatch.setenv("MANTAMQ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "") -> Ran:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["mantamq", "definitions", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture
def at(run: Run, cluster: FakeBroker) -> Run:
    return lambda *words, **options: run(*words, "-b", cluster.address, **options)


@pytest.fixture
def empty() -> Iterator[FakeBroker]:
    with FakeBroker(1) as cluster:
        yield cluster


QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "own": {"team": "blue", "bytes": b"\xff\x00", "nested": {"list": [1, None, True, 1.5, {"$bytes": 1}]}},
    "reject": {"qpid.max_count": 50, "qpid.flow_stop_count": 30, "qpid.flow_resume_count": 20},
    "reject-bytes": {"qpid.max_size": 10_000, "qpid.flow_stop_size": 9000, "qpid.flow_resume_size": 1},
    "ring": {"x-max-length": 10, "x-max-length-bytes": 5000},
    "strict": {"qpid.max_count": 5, "qpid.policy_type": "ring-strict"},
    "destruct": {"qpid.max_count": 5, "qpid.policy_type": "self-destruct"},
    "priorities": {"qpid.priorities": 5, "qpid.fairshare": 3, "qpid.fairshare-2": 7},
    "rabbit": {"x-max-priority": 3},
    "last": {"qpid.last_value_queue_key": "symbol"},
    "groups": {"qpid.group_header_key": "customer", "qpid.shared_msg_group": 1},
    "fair": {"manta.fair_key": "tenant"},
    "stamped": {"qpid.queue_msg_sequence": "n"},
    "single": {"x-single-active-consumer": True},
    "times": {"x-message-ttl": 60_000, "x-expires": 10**9, "x-consumer-timeout": 5},
    "once": {"manta.dedupe_window_s": 5, "manta.dedupe_window_count": 100},
    "passing": {"manta.auto_delete": True, "qpid.auto_delete_timeout": 5,
                "qpid.lifetime-policy": "delete-if-unused-and-empty",
                "x-delayed-retry-min": 500, "x-delayed-retry-max": 5000},
    "letters": {"manta.dead_letters": "rejected", "manta.delivery_limit": 3, "manta.dead_letter_key": "k",
                "manta.retry_delay_s": [0.5, 5.0]},
    "alerts": {
        "qpid.alert_count_up": 10, "qpid.alert_count_down": 2, "qpid.alert_size_up": 1000, "qpid.alert_size_down": 10,
        "manta.alert_age_up": 60, "manta.alert_age_down": 5, "qpid.alert_repeat_gap": 7,
    },
}  # fmt: skip
"""A queue of each kind, and each argument in one of them."""
EXCHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a-user": ("topic", "late", {"note": "its alternate has a later name"}),
    "alone": ("direct", "", {"qpid.exclusive-binding": True}),
    "deeper": ("direct", "a-user", {}),
    "headers": ("headers", "amq.fanout", {}),
    "inner": ("fanout", "", {"manta.internal": True}),
    "late": ("fanout", "", {}),
    "numbers": ("topic", "late", {"qpid.msg_sequence": True}),
    "passing": ("direct", "", {"manta.auto_delete": True}),
    "prices": ("direct", "", {"qpid.ive": True}),
}
"""name -> type, alternate, arguments."""
BINDINGS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("alone", "plain", "", "k", {}),
    ("alone", "", "late", "j", {}),
    ("amq.direct", "plain", "", "k", {"qpid.exclusive-binding": True}),
    ("amq.direct", "own", "", "k", {}),
    ("amq.direct", "a", "", "", {}),
    ("amq.topic", "plain", "", "a.*.#", {}),
    ("amq.topic", "plain", "", "a.*.#", {"twice": b"\x01"}),
    ("amq.topic", "", "numbers", "#", {}),
    ("a-user", "", "inner", "#", {}),
    ("a-user", "", "a-user", "ring", {}),
    ("headers", "ring", "", "", {"x-match": "any-with-x", "x-a": 1, "b": None}),
    ("headers", "ring", "", "", {"x-match": "all", "b": float("inf")}),
    ("numbers", "ring", "", "x.#", {}),
    ("passing", "plain", "", "p", {}),
    ("prices", "last", "", "eu", {}),
    ("late", "fair", "", "", {}),
]
"""exchange, queue, to_exchange, key, arguments."""


def declare(connection: Connection) -> None:
    connection.declare_exchange("late", "fanout")
    for name, (type, alternate, arguments) in EXCHANGES.items():
        connection.declare_exchange(
            name, type, name in ("late", "headers"), alternate, arguments
        ) if name != "late" else 0
    for name, arguments in QUEUES.items():
        connection.declare_queue(name, alternate="late" if name in ("plain", "letters") else "", arguments=arguments)
    connection.declare_queue("a")
    for exchange, queue, to_exchange, key, arguments in BINDINGS:
        bind = connection.bind_exchange if to_exchange else connection.bind
        assert bind(exchange, queue or to_exchange, key, arguments)


@pytest.fixture
def full(cluster: FakeBroker) -> FakeBroker:
    """A cluster with all there can be."""
    with connect(cluster.address) as connection:
        declare(connection)
        connection.declare_queue("mine", exclusive=True)
        connection.bind("late", "mine")
    return cluster


def test_all_there_can_be_is_among_what_goes_there_and_back() -> None:
    def first_names(shape: type[msgspec.Struct]) -> set[str]:
        return {
            argument.name
            for argument, _ in arguments_of(shape).values()
            if not argument.name.startswith("manta.exchange")
        }

    queues = {name for arguments in QUEUES.values() for name in arguments} | {"qpid.max_count", "qpid.max_size"}
    queues.add("manta.exclusive")  # of queues that go with their connections, and are not among what is told
    queues.add("x-delayed-retry-type")  # said by the times, when it is ordered
    assert first_names(QueueSettings) - queues == set()
    assert first_names(ExchangeSettings) == {name for *_, a in EXCHANGES.values() for name in a if name != "note"}
    assert first_names(BindingSettings) - {name for *_, arguments in BINDINGS for name in arguments} == set()
    assert {type for type, *_ in EXCHANGES.values()} == {"direct", "topic", "fanout", "headers"}


def test_there_and_back_is_the_same(at: Run, run: Run, full: FakeBroker, empty: FakeBroker, tmp_path: Path) -> None:
    ran = at("export", "--file", "all.json", "--json")
    assert ran.code == 0 and ran.json == {"file": "all.json", "exchanges": 9, "queues": 20, "bindings": 16}
    ran = run("import", "all.json", "--json", "-b", empty.address)
    assert ran.code == 0 and ran.json["counts"]["new"] == 45, ran
    there = (tmp_path / "all.json").read_text("utf-8")
    assert run("export", "-b", empty.address).out == there
    assert "manta.exchange" not in there and "amq.fanout" in there and "amq.match" not in there
    with connect(empty.address) as connection:
        names = {queue["name"] for queue in connection.queues()}
        assert names == {*QUEUES, "a", "manta.exchange.numbers", "manta.exchange.prices"}


def test_again_changes_nothing(at: Run, full: FakeBroker, tmp_path: Path) -> None:
    at("export", "-f", "all.json")
    before, said = (tmp_path / "all.json").read_text("utf-8"), len(full.received)
    ran = at("import", "all.json")
    assert (ran.code, ran.out) == (0, "0 new, 45 unchanged, 0 differs, 0 refused, 0 not taken over\n")
    asked = {frame.name for frame in full.received[said:] if hasattr(frame, "name")}
    assert asked == {"definitions"} and at("export").out == before


def test_one_that_was_killed_is_finished_by_the_next(run: Run, full: FakeBroker, tmp_path: Path) -> None:
    with connect(full.address) as connection:
        document = connection.definitions()
    (tmp_path / "all.json").write_text(text_of(document))
    steps = read_document(document).declarations
    for done in range(0, len(steps), 5):
        with FakeBroker(1) as other:
            with connect(other.address) as connection:
                for one in steps[:done]:
                    definitions._declared(connection, one)
            ran = run("import", "all.json", "--json", "-b", other.address)
            assert ran.code == 0 and (ran.json["counts"]["new"], ran.json["counts"]["unchanged"]) == (45 - done, done)
            assert run("export", "-b", other.address).out == text_of(document)


def test_a_connection_that_is_lost_says_how_far_it_came(at: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = Connection.declare_queue, []

    def declare_queue(self: Connection, name: str, *rest: Any, **options: Any) -> bool:
        if asked:
            raise Timeout("the broker did not answer in time")
        asked.append(name)
        return real(self, name, *rest, **options)

    monkeypatch.setattr(Connection, "declare_queue", declare_queue)
    ran = at("import", "-", stdin=json.dumps({"manta": 1, "queues": [{"name": name} for name in "abc"]}))
    assert ran.code == 1 and ran.out == ""
    assert ran.err == "mantamq: the broker did not answer in time; 1 of 3 done: run it again, it goes on from there\n"


def test_what_differs_stays_and_everything_else_is_done(at: Run, cluster: FakeBroker) -> None:
    with connect(cluster.address) as connection:
        connection.declare_queue("orders", arguments={"team": "blue"})
        connection.declare_exchange("in", "fanout")
        connection.declare_queue("prices", max_count=5)
        connection.bind("amq.direct", "prices", "k")
    document = {
        "manta": 1,
        "exchanges": [{"name": "in", "type": "topic"}, {"name": "out", "type": "odd"}],
        "queues": [{"name": "orders"}, {"name": "prices", "arguments": {"qpid.max_count": 5}}, {"name": "new"}],
        "bindings": [
            {"exchange": "in", "queue": "orders", "key": "k"}, {"exchange": "out", "queue": "orders"},
            {"exchange": "amq.direct", "queue": "new", "key": "k", "arguments": {"qpid.exclusive-binding": True}},
        ],
    }  # fmt: skip
    for words in (["--dry-run"], []):
        ran = at("import", "-", *words, "--json", stdin=json.dumps(document))
        assert ran.code == 1 and ran.json["dry_run"] is bool(words)
        assert ran.json["counts"] == {"refused": 2, "differs": 3, "not taken over": 0, "new": 2, "unchanged": 1}
        told = {(one["what"], one["name"]): (one["outcome"], one["why"]) for one in ran.json["objects"]}
        assert told["queue", "orders"] == ("differs", "there it has team='blue' (not without it)")
        assert told["exchange", "in"] == ("differs", "there it has type='fanout' (not 'topic')")
        assert told["binding", "amq.direct -> new (k)"][0] == "differs"
        assert "an exchange's type is one of" in told["exchange", "out"][1]
        assert told["binding", "out -> orders"] == ("refused", "there is no exchange 'out': declare it first")
        assert told["queue", "new"] == told["binding", "in -> orders (k)"] == ("new", "")
        with connect(cluster.address) as connection:
            assert len(connection.bindings()) == (1 if words else 2)
            assert connection.queue("orders")["arguments"] == {"team": "blue"}
    ran = at("import", "-", stdin=json.dumps(document))
    lines = ran.out.splitlines()
    assert ran.code == 1 and all(len(line) <= 80 for line in lines[:-2]), ran.out
    assert [line.split()[0] for line in lines[2:-2] if " refused " in line or " differs " in line] == [
        "exchange", "binding", "exchange", "queue", "binding",
    ]  # fmt: skip
    assert lines[-2] == "what differs stays as it is: delete it and import again, or change the file"
    assert lines[-1] == "0 new, 3 unchanged, 3 differs, 2 refused, 0 not taken over"


def test_somebody_who_is_faster_is_found_there(cluster: FakeBroker) -> None:
    with connect(cluster.address) as connection:
        connection.declare_queue("q", arguments={"a": 1})
        plain, other = (read_document({"manta": 1, "queues": [{"name": "q", "arguments": a}]}) for a in ({"a": 1}, {}))
        assert definitions._declared(connection, plain.declarations[0]) == ("unchanged", "")
        outcome, why = definitions._declared(connection, other.declarations[0])
        assert outcome == "differs" and "exists with arguments" in why


def test_a_dry_run_tells_all_and_declares_nothing(at: Run, full: FakeBroker, run: Run, empty: FakeBroker) -> None:
    text = at("export").out
    ran = run("import", "-", "--dry-run", "-b", empty.address, stdin=text)
    assert ran.code == 0 and " a-user -> inner (#) " in ran.out
    assert ran.out.splitlines()[-1] == (
        "nothing was declared, this is what would be: 45 new, 0 unchanged, 0 differs, 0 refused, 0 not taken over"
    )
    assert run("export", "-b", empty.address).out == text_of(
        {"manta": 1, "exchanges": [], "queues": [], "bindings": []}
    )


def test_a_dry_run_says_what_the_import_then_says(at: Run, cluster: FakeBroker) -> None:
    dry = at("import", str(RABBITMQ), "--dry-run", "--json").json
    real = at("import", str(RABBITMQ), "--json").json
    outcomes = [[(one["what"], one["name"], one["outcome"]) for one in ran["objects"]] for ran in (dry, real)]
    assert outcomes[0] == outcomes[1] and dry["counts"] == real["counts"]
    assert real["counts"] == {"refused": 16, "differs": 0, "not taken over": 4, "new": 8, "unchanged": 0}


def test_a_file_of_rabbitmqs_is_taken_over_as_far_as_it_goes(at: Run, cluster: FakeBroker) -> None:
    with connect(cluster.address) as connection:
        connection.declare_exchange("audit", "fanout", True, internal=True)  # which is not in the file
    ran = at("import", str(RABBITMQ))
    assert ran.code == 1 and "cannot be durable: this cluster has no store" in " ".join(ran.out.split())
    assert "or import with --transient" in " ".join(ran.out.split())
    ran = at("import", str(RABBITMQ), "--transient")
    told = " ".join(ran.out.split())
    assert ran.code == 0 and all(len(line) <= 80 for line in ran.out.splitlines()[:-3])
    for said in (
        "queue history not taken over its type is stream", "exchange shards not taken over its type is x-consistent-hash",
        "also not taken over: parameters (1), permissions (2), topic_permissions (1), users (2), queues of virtual "
        "host staging (1)",
        "15 new, 9 unchanged, 0 differs, 0 refused, 4 not taken over",
    ):  # fmt: skip
        assert said in told, (said, told)
    with connect(cluster.address) as connection:
        orders = connection.queue("orders.new")
        assert orders["alternate"] == "dead" and orders["durable"] is False
        assert orders["definition"]["overflow"] == "reject" and orders["arguments"]["team"] == "sales"
    assert at("import", str(RABBITMQ), "--transient", "--json").json["counts"]["unchanged"] == 24
    assert at("import", str(RABBITMQ), "--transient", "--vhost", "staging").code == 0
    ran = at("import", str(RABBITMQ), "--vhost", "prod")
    assert ran.code == 1 and "there is no virtual host 'prod' in this file: choose with --vhost among" in ran.err


def test_patterns_go_along(cluster: FakeBroker, at: Run, tmp_path: Path) -> None:
    file = tmp_path / "wiring.json"
    with connect(cluster.address) as connection:
        connection.add_pattern("jobs", "^jobs[.]", queue={"max_count": 5, "auto_delete": True}, priority=2)
        connection.add_pattern("news", "^news", exchange={"type": "topic", "internal": False})
        before = connection.patterns()
        assert at("export", "--file", str(file)).code == 0
        for name in ("jobs", "news"):
            connection.delete_pattern(name)
        assert "2 new, 0 unchanged" in at("import", str(file), "--dry-run").out.splitlines()[-1]
        assert connection.patterns() == []
        assert "2 new, 0 unchanged" in at("import", str(file)).out
        assert connection.patterns() == before
        assert "0 new, 2 unchanged" in at("import", str(file)).out
        connection.add_pattern("jobs", "^jobs[.]", queue={"max_count": 6, "auto_delete": True}, priority=2)
        differs = at("import", str(file))
        assert differs.code == 1 and "there it has qpid.max_count=6 (not 5)" in " ".join(differs.out.split())
        file.write_text(file.read_text().replace('"makes": "queue"', '"makes": "stream"'))
        connection.delete_pattern("jobs")
        refused = at("import", str(file), "--dry-run")
        assert "a pattern makes a queue or an exchange, not 'stream'" in " ".join(refused.out.split())


def test_redirected_queues_go_along(cluster: FakeBroker, at: Run, tmp_path: Path) -> None:
    file = tmp_path / "wiring.json"
    with connect(cluster.address) as connection:
        for name in ("a", "b", "c"):
            connection.declare_queue(name)
        connection.redirect_queue("a", "b")
        assert at("export", "--file", str(file)).code == 0
        connection.delete_queue("b")
        assert "2 new, 2 unchanged" in at("import", str(file), "--dry-run").out.splitlines()[-1]
        assert "2 new, 2 unchanged" in at("import", str(file)).out
        assert connection.queue("a")["redirected_to"] == "b"
        assert "0 new, 4 unchanged" in at("import", str(file)).out
        connection.end_redirect("a")
        connection.redirect_queue("a", "c")
        differs = at("import", str(file))
        assert differs.code == 1 and "there it is redirected to 'c'" in " ".join(differs.out.split())
        connection.end_redirect("a")
        connection.redirect_queue("b", "c")
        refused = at("import", str(file), "--dry-run")
        assert refused.code == 1 and "queue 'b' is itself redirected" in " ".join(refused.out.split())


def test_policies_go_along(cluster: FakeBroker, at: Run, tmp_path: Path) -> None:
    file = tmp_path / "wiring.json"
    with connect(cluster.address) as connection:
        connection.add_policy("p", "^q", max_count=5, priority=2)
        connection.add_policy("p", ".", operator=True, max_count=9)
        connection.declare_queue("q")
        assert at("export", "--file", str(file)).code == 0
        connection.delete_queue("q")
        for operator in (False, True):
            connection.delete_policy("p", operator)
        told = at("import", str(file), "--dry-run").out.splitlines()[-1]
        assert "3 new, 0 unchanged" in told
        assert "3 new, 0 unchanged" in at("import", str(file)).out
        assert connection.queue("q")["policy"] == "p" and len(connection.policies()) == 2
        assert "0 new, 3 unchanged" in at("import", str(file)).out
        connection.add_policy("p", "^q", max_count=6, priority=2)
        differs = at("import", str(file))
        assert differs.code == 1 and "there it has qpid.max_count=6 (not 5)" in " ".join(differs.out.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "odd.json: line 1, column 1: this is no JSON"),
        ('{"manta": 9}', "odd.json: manta is 9: this version of mantamq reads format 1 to 2"),
        ('{"manta": 1, "queues": [{"name": "a"}, {"name": 5}]}', "odd.json: queues[1].name is 5: give a text"),
        ('{"manta": 1, "queues": [{"name": "a"}, {"name": "a"}]}', "queues[1]: queue 'a' stands at queues[0] already"),
    ],
)
def test_of_a_file_that_cannot_be_read_nothing_is_declared(at: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    ran = at("import", "odd.json")
    assert ran.code == 1 and said in ran.err and ran.err.count("\n") == 1 and ran.out == ""
    assert ran.err.endswith("; nothing was declared\n")
    assert json.loads(at("export").out)["queues"] == []


def test_a_huge_file_is_not_read_to_its_end(at: Run, tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(100 << 20)
    ran = at("import", "huge.json")
    assert ran.code == 1 and "huge.json: definitions have at most 32 MiB: divide the file" in ran.err


def test_files_that_are_not_there(at: Run) -> None:
    ran = at("import", "none.json")
    assert ran.code == 1 and "none.json: No such file or directory" in ran.err and ran.err.count("\n") == 1
    ran = at("export", "--file", "nowhere/all.json")
    assert ran.code == 1 and "nowhere" in ran.err


def test_a_file_is_replaced_as_a_whole(
    at: Run, full: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real.json").write_text("as it was")
    (tmp_path / "link.json").symlink_to("real.json")
    real = Path.write_text

    def torn(self: Path, text: str, *rest: Any) -> int:
        real(self, text[:9], *rest)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", torn)
        ran = at("export", "-f", "link.json")
    assert ran.code == 1 and "No space left" in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]
    assert (tmp_path / "real.json").read_text() == "as it was"
    ran = at("export", "-f", "link.json")
    assert ran.out == "9 exchanges, 20 queues, 16 bindings written to link.json\n"
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real.json").read_text() == at("export").out


def test_one_of_a_kind_is_told_as_one(cluster: FakeBroker, at: Run) -> None:
    with connect(cluster.address) as connection:
        connection.declare_queue("q")
        connection.add_policy("p", "^q", max_count=5)
    assert re.search(r", 1 policy, .*1 queue, ", at("export", "-f", "one.json").out)


def test_to_a_device_it_is_written_as_it_is(at: Run) -> None:
    assert at("export", "-f", "/dev/null").code == 0


def test_many_are_counted_in_a_bar_and_cut_in_the_table(at: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(bar, "err", terminal)
    monkeypatch.setattr(bar, "time", SimpleNamespace(monotonic=iter(range(0, 10**6, 3)).__next__))
    queues = [{"name": f"q{number}", "alternate": "none"} for number in range(60)]
    ran = at("import", "-", stdin=json.dumps({"manta": 1, "queues": queues}))
    assert ran.code == 1 and "\nand 10 more\n" in ran.out and "60 refused" in ran.out
    assert "declaring queues" in terminal.file.getvalue() and "60/60" in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_limit_by_default_is_the_next_clusters_own(run: Run, tmp_path: Path) -> None:
    with FakeBroker(1, limits=Limits(queue_bytes=5000)) as limited, FakeBroker(1) as free:
        with connect(limited.address) as connection:
            connection.declare_queue("q", arguments={"team": "blue"})
            connection.declare_queue("r", overflow="ring")
            assert connection.queue("q")["arguments"]["qpid.max_size"] == 5000
        text = run("export", "-b", limited.address).out
        assert [queue["arguments"] for queue in json.loads(text)["queues"]] == [
            {"team": "blue"}, {"qpid.policy_type": "ring"},
        ]  # fmt: skip
        assert run("import", "-", "-b", limited.address, stdin=text).out.startswith("0 new, 2 unchanged")
        ran = run("import", "-", "--json", "-b", free.address, stdin=text)
        assert [one["outcome"] for one in ran.json["objects"]] == ["new", "refused"]
        assert "needs a limit" in ran.json["objects"][1]["why"]


async def test_the_other_twin_tells_the_same(full: FakeBroker) -> None:
    async with connect_async(full.address) as connection:
        document = await connection.definitions()
    with connect(full.address) as plain, connect(full.address, rescue=True) as rescued:
        assert document == plain.definitions() == rescued.definitions()
    assert json.loads(json.dumps(document)) == document
