"""What a process of ours writes to its log: as text and as JSON, whatever is in a name."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from typing import Any

import pytest
from mantamq.actors.config import LogConfig
from mantamq.actors.process_logs import lines

PLACE = LogConfig(cluster="shop", host="10.0.0.7")
JSON = LogConfig(format="json", cluster="shop", host="10.0.0.7")
HOSTILE = [
    "a\nERROR forged", "a\r\n2026-11-27T09:43:35.120Z ERROR b1: forged", "\x1b[31mred", "\x9b31m", "\u2028next", "\u202etxet",
    "\x00", "\udc80half", "tab\there", "\x1b]0;title\x07",
]  # fmt: skip


def record(sentence: str, keys: Any = None, level: int = logging.WARNING, error: BaseException | None = None) -> Any:
    seen = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.getLogger("mantamq.made").makeRecord(
        "mantamq.made", level, "made.py", 1, sentence, () if keys is None else (keys,), seen
    )
    made.created = 1795772615.12
    return made


def raised(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_a_line_of_text_says_what_its_sentence_does_not():
    sentence = record("%(member)s has died: %(reason)s", {"member": "b1", "reason": "gone", "took_ms": 7, "why": "a b"})
    assert lines(PLACE, "supervisor").format(sentence) == (
        '2026-11-27T09:43:35.120Z WARNING supervisor: b1 has died: gone took_ms=7 why="a b"'
    )


def test_a_line_of_json_has_who_where_and_all_keys():
    told = record("%(member)s has died", {"member": "b1", "took_ms": 7, "blank": False, "many": ("a", 1)})
    assert json.loads(lines(JSON, "supervisor").format(told)) == {
        "time": "2026-11-27T09:43:35.120Z", "level": "warning", "event": "b1 has died", "cluster": "shop",
        "host": "10.0.0.7", "actor": "supervisor", "member": "b1", "took_ms": 7, "blank": False, "many": ["a", 1],
        "logger": "mantamq.made",
    }  # fmt: skip


def test_what_others_log_is_written_in_the_same_way():
    told = logging.LogRecord("uvicorn", logging.WARNING, "u.py", 1, "%s of %d", ("one", 2), None)
    assert json.loads(lines(JSON, "b1").format(told))["event"] == "one of 2"
    assert lines(PLACE).format(told).endswith("Z WARNING uvicorn: one of 2")


def test_no_key_takes_the_place_of_one_that_every_line_has():
    told = record("a", {"actor": "forged", "level": "debug", "time": "0"})
    line = json.loads(lines(JSON, "b1").format(told))
    assert (line["actor"], line["level"], line["time"][:4]) == ("b1", "warning", "2026")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_makes_no_line_and_moves_no_cursor(name: str):
    for sentence, keys in (("queue %(queue)s is there", {"queue": name}), ("a queue is there", {"queue": name})):
        text = lines(PLACE, "b1").format(record(sentence, keys))
        assert text.isprintable() and text.startswith("2026-") and len(text.splitlines()) == 1
        packed = lines(JSON, "b1").format(record(sentence, keys))
        assert packed.isprintable() and packed.isascii() and len(packed.splitlines()) == 1
        assert json.loads(packed)["queue"] == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_traceback_is_indented_and_part_of_its_object(name: str):
    told = record("it broke", error=raised(name))
    first, *rest = lines(PLACE, "b1").format(told).split("\n")
    assert first.endswith("WARNING b1: it broke") and len(rest) >= 3
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    packed = lines(JSON, "b1").format(told)
    assert len(packed.splitlines()) == 1 and "ValueError" in json.loads(packed)["exception"]


@pytest.mark.parametrize("logs", [PLACE, JSON])
def test_no_secret_is_in_a_line(logs: LogConfig):
    url = "postgresql://manta:pass word@db/manta".replace(" ", "-")
    keys = {"reason": f"no way to {url}", "given": {"token": "t0ken-t0ken"}, "all": [url]}
    told = record("%(reason)s with t0ken-t0ken", keys, error=raised(f"{url} t0ken-t0ken"))
    line = lines(logs, "b1", ["t0ken-t0ken", "", "abc"]).format(told)
    assert "pass-word" not in line and "t0ken" not in line and line.count("(hidden)") >= 6
    assert "://(hidden)@db/manta" in line


def test_values_that_json_does_not_have_are_words():
    keys = {"a": OSError("no"), "b": float("nan"), "c": b"x", "d": {1: {2}}, "e": None}
    line = json.loads(lines(JSON).format(record("a", keys)))
    assert [line[key] for key in "abcde"] == ["no", "nan", "b'x'", {"1": [2]}, None]


SET_UP = """
import logging, sys
from mantamq.actors.config import LogConfig
from mantamq.actors.process_logs import set_up
logging.basicConfig(format="somebody else's: %(message)s")
set_up(LogConfig(), "first")
set_up(LogConfig(format="json", level=sys.argv[1]), "b1")
for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
    logging.getLogger("mantamq.a.b").log(level, "ours")
    logging.getLogger("others").log(level, "theirs")
"""


@pytest.mark.parametrize(
    ("level", "ours", "theirs"), [("debug", 5, 3), ("info", 4, 3), ("warning", 3, 3), ("error", 2, 2)]
)
def test_a_process_writes_from_its_level_on_and_once(level: str, ours: int, theirs: int):
    done = subprocess.run([sys.executable, "-c", SET_UP, level], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [sum(one["event"] == who for one in events) for who in ("ours", "theirs")] == [ours, theirs]
    assert {one["actor"] for one in events} == {"b1"} and done.stdout == ""


def test_a_program_that_only_connects_or_starts_a_cluster_sets_up_nothing():
    code = (
        "import logging, sys, mantamq.client, mantamq.actors.cluster\n"
        "print(logging.getLogger().handlers, logging.getLogger('mantamq').handlers, 'structlog' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(r"\[\] \[\] False$", done.stdout.strip()), done.stdout
