"""The programs of `examples/` run, and what they print is what they are there to show."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mantamq.actors.cluster import Cluster
from mantamq.client import connect

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_S = 50


def ring(lines: list[str]) -> None:
    assert [line.split() for line in lines[2:]] == [[str(tick), f"{100 + tick / 10}"] for tick in range(96, 101)]


def priorities(lines: list[str]) -> None:
    assert [line[11:].split() for line in lines[1:]] == [
        ["alarm", "9"], ["order", "1", "5"], ["order", "2", "5"], ["report", "1", "1"], ["report", "2", "1"],
    ]  # fmt: skip


def last_values(lines: list[str]) -> None:
    assert [line.split() for line in lines[2:]] == [["AMZN", "230"], ["IBM", "330"], ["ORCL", "130"]]


def groups(lines: list[str]) -> None:
    rows = [line.split() for line in lines[1:]]
    assert [row[:7] for row in rows] == [[name, *"123456"] for name in ("Ann", "Bob", "Cem", "Dot")]
    assert {worker for row in rows for worker in row[7:]} == {"one", "two"}, "one worker did it all"


def fairness(lines: list[str]) -> None:
    assert [line.split() for line in lines[1:]] == [["large", "1000", "1", "3", "5"], ["small", "3", "2", "4", "6"]]


def exchanges(lines: list[str]) -> None:
    assert [line.split() for line in lines] == [
        ["example.delays", "1", "AA", "1", "JFK.late"], ["example.delays", "2", "B6", "4", "JFK.late"],
        ["example.rest", "-", "UA", "2", "JFK.early"], ["example.rest", "-", "DL", "3", "LAX.late"],
        ["exchanges", "left:", "0"],
    ]  # fmt: skip


def initial_values(lines: list[str]) -> None:
    assert [line.split() for line in lines[1:]] == [
        *(["example.early", str(number), str(100 + number)] for number in range(1, 6)),
        *(["example.late", str(number), str(100 + number)] for number in range(3, 6)),
    ]


def dead_letters(lines: list[str]) -> None:
    assert [line[18:].split() for line in lines[1:]] == [
        ["expired", "example.jobs", "0"], ["rejected", "example.jobs", "0"], ["delivery_limit", "example.jobs", "3"],
    ]  # fmt: skip


def delays(lines: list[str]) -> None:
    rows = [(line[:24].strip(), line[24:].split()) for line in lines[1:]]
    assert [name for name, _ in rows] == [
        *("call Cem", "call Bob", "call Ann"), *(f"print, attempt {attempt}" for attempt in range(1, 5)), "print, when told",
    ]  # fmt: skip
    early = [row for row in rows if float(row[1][2]) < float(row[1][0]) - 0.1]  # a broker's clock is not the client's
    assert not early


def moves(lines: list[str]) -> None:
    assert [[cell.strip() for cell in (line[34:48], line[48:62], line[62:])] for line in lines[1:]] == [
        ["1 2 3 4 5", "-", "-"], ["1 3 5", "2 4", "-"], ["5", "2 4", "1 3"],
        ["5 1 3", "2 4", "-"], ["1 3", "2 4 5", "-"], ["3", "2 4 5", "-"],
    ]  # fmt: skip


def duplicates(lines: list[str]) -> None:
    assert lines[0] == "sent: 8, duplicates: 3, waiting: 4"
    assert [line.strip() for line in lines[2:]] == [f"pay {number}" for number in range(2, 6)]


def named_sender(lines: list[str]) -> None:
    assert lines == [
        "an import begins", "it is killed", "the next one goes on",
        "complete up to line 2000; the queue had some of it already: True",
        "2000 lines; each once and in order: True",
    ]  # fmt: skip


def lives(lines: list[str]) -> None:
    assert [line.split()[0] for line in lines[1:]] == [
        f"example.{name}" for name in ("prices", "visit", "idle", "mine")
    ]
    assert all(line.endswith(": gone") for line in lines[1:])


def redirect(lines: list[str]) -> None:
    assert [line[28:].split() for line in lines] == [
        ["old", "new"], ["1", "2", "3", "-"], ["1", "2", "3", "4", "5"], ["-", "4", "5"], ["6", "4", "5"],
        ["6", "4", "5", "-"],
    ]  # fmt: skip


def policies(lines: list[str]) -> None:
    assert [line.split()[1:4] for line in lines[1:5]] == [
        ["example.small", "1000", "reject"], ["example.ticks", "5", "ring"],
        ["example.small", "20", "reject"], ["example.small", "5000", "reject"],
    ]  # fmt: skip
    assert lines[5] == "of 100 ticks 5 wait: 96 97 98 99 100"
    assert lines[6:] == ["at most 2 now: 100 101", "without that policy: example.small"]


def patterns(lines: list[str]) -> None:
    assert lines == [
        "example.jobs.mail: at most 1000, now 1 2 3 4 5", "example.jobs.hasty: at most 3, now 3 4 5",
        "the reader gets: rain",
        "what no pattern fits: there is no queue 'example.elsewhere': declare it first",
    ]  # fmt: skip


def exclusive(lines: list[str]) -> None:
    assert lines[0] == "the keeper reads: rent" and "is one consumer's alone (exclusive, at b2)" in lines[1]
    assert lines[2:] == ["who only looks: food tea", "another one, now: food"]


def request_reply(lines: list[str]) -> None:
    assert lines[0] == "squares: 1 4 9 16 25 36 49 64 81 100"
    assert lines[1].startswith("nothing: no reply from 'example.squares' within 0.5 s")
    assert lines[2].startswith("cubes: there is no queue and no exchange 'example.cubes'")


def single_active(lines: list[str]) -> None:
    assert [line[18:].split() for line in lines[1:]] == [["1", "2", "3", "-"], ["4", "5", "6"]]


CHECKS: dict[str, Callable[[list[str]], None]] = {
    check.__name__: check
    for check in (
        ring,
        priorities,
        last_values,
        groups,
        fairness,
        exchanges,
        initial_values,
        dead_letters,
        delays,
        moves,
        duplicates,
        named_sender,
        lives,
        policies,
        patterns,
        redirect,
        exclusive,
        request_reply,
        single_active,
    )
}


def test_each_example_is_checked() -> None:
    assert sorted(CHECKS) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_shows_what_it_is_there_for(name: str, cluster: Cluster) -> None:
    address = cluster.addresses["b2"]
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", address],
        timeout=RUN_S, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    CHECKS[name](ran.stdout.splitlines())
    with connect(address) as connection:
        end = time.monotonic() + 10  # what is exclusive goes behind its connection
        while left := connection.queues():
            assert time.monotonic() < end, ("it has left a queue behind", left)
            time.sleep(0.02)
