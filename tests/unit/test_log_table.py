"""docs/logs.md names every line that is logged: no more, no less, each with its level and its keys.

As in `test_tidy.py`, each check returns what it found wrong, one sentence each, and is run on the real tree and on a
planted one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from mantamq.actors.process_logs import OWN_KEYS

from .test_tidy import OURS, ROOT, files, nodes, plant

PAGE = "docs/logs.md"
LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
LOGS = re.compile(r"(self\.)?_?log(ger)?")
NOT_OURS = ("benchmarks", "jobs")
"""They run in programs of their own, and are no part of a cluster."""


class Line(NamedTuple):
    """A line of the log. `event`: its sentence, with keys in braces."""

    event: str
    level: str
    keys: frozenset[str]


def shown(sentence: str) -> str:
    """A sentence as the page has it."""
    return re.sub(r"%\((\w+)\)[^a-z%]*[a-z]", r"{\1}", sentence)


def calls(root: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger, and where it is."""
    for package in OURS:
        for file, tree in files(root, package) if package not in NOT_OURS else ():
            for node in nodes(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                    if LOGS.fullmatch(ast.unparse(node.func.value)):
                        yield f"{file}:{node.lineno}", node


def constant(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def logged(root: Path) -> Iterator[tuple[str, Line | None]]:
    """Every line that is logged, and where; None: it cannot be told what it says."""
    for where, call in calls(root):
        keys: list[str] = []
        if len(call.args) == 2 and isinstance(call.args[1], ast.Dict):
            keys = [constant(key) for key in call.args[1].keys]
        told = constant(call.args[0]) if call.args else ""
        clear = told and len(call.args) <= 2 and (len(call.args) == 1 or keys) and all(keys)
        level = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        yield where, Line(told, "error" if level == "exception" else level, frozenset(keys)) if clear else None


def badly_logged(root: Path) -> list[str]:
    """A line is a sentence that stands there, and a map of its keys; it says only what is in that, and means by it what
    every line does. And it stands there once."""
    wrong = []
    known = Counter[str]()
    for where, line in logged(root):
        if line is None:
            wrong.append(f"{where}: log a sentence that stands there, with a map that stands there: its keys")
            continue
        known[line.event] += 1
        named = set(re.findall(r"%\((\w+)\)", line.event))
        if known[line.event] > 1:
            wrong.append(f"{where}: {line.event!r} is logged elsewhere, too: one process says it")
        if re.search(r"%(?!\()", line.event.replace("%%", "")) or not named <= line.keys:
            wrong.append(f"{where}: {line.event!r} says what is not among its keys")
        if taken := line.keys & set(OWN_KEYS):
            wrong.append(f"{where}: {', '.join(sorted(taken))}: every line has that, with another meaning")
    return wrong


def table(text: str) -> dict[str, Line]:
    """The lines that a page names, by their events."""
    found = {}
    for event, level, keys in re.findall(r"^\| `([^`]+)` \| (\w+) \| ([^|]*)\|[^|]+\|[^|]+\|$", text, re.M):
        named = {*re.findall(r"\{(\w+)\}", event), *re.findall(r"`(\w+)`", keys)}
        found[event] = Line(event, level, frozenset(named))
    return found


def untold(root: Path, text: str) -> list[str]:
    """What is logged and not on the page, or there in another way; and what is on the page and never logged."""
    known = table(text)
    there = {shown(line.event): line for _, line in logged(root) if line is not None}
    wrong = [f"{event!r} is logged, and not in {PAGE}" for event in there if event not in known]
    wrong += [f"{event!r} is in {PAGE}, and nothing logs it" for event in known if event not in there]
    for event in sorted(there.keys() & known.keys()):
        line, told = there[event], known[event]
        if line.level != told.level:
            wrong.append(f"{event!r} is logged as {line.level}, and {PAGE} says {told.level}")
        if line.keys != told.keys:
            wrong.append(f"{event!r} has the keys {sorted(line.keys)}, and {PAGE} says {sorted(told.keys)}")
    return wrong


def test_every_line_is_a_sentence_with_keys():
    assert badly_logged(ROOT) == []


def test_the_page_has_every_line_and_no_other():
    assert untold(ROOT, (ROOT / PAGE).read_text("utf-8")) == []


def test_no_row_of_the_page_is_written_in_a_way_that_is_not_read():
    text = (ROOT / PAGE).read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(table(text)) > 80


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ('log.info("%s is there", name)', "log a sentence"),
        ('log.info(f"{name} is there")', "log a sentence"),
        ("log.info(text, {'a': 1})", "log a sentence"),
        ('log.info("a", told)', "log a sentence"),
        ('log.info("a", {**told})', "log a sentence"),
        ('self._log.info("%(b)s", {"a": 1})', "is not among its keys"),
        ('logger.warning("%d of %(a)s", {"a": 1})', "is not among its keys"),
        ('log.info("a", {"level": 1})', "with another meaning"),
        ('log.info("a", {"a": 1})\nlog.debug("a", {"a": 1})', "one process says it"),
    ],
)
def test_a_line_that_is_badly_logged_is_found(tmp_path: Path, call: str, found: str):
    (wrong,) = badly_logged(plant(tmp_path, {"actors/a.py": call}))
    assert found in wrong


def test_lines_that_are_well_logged_pass(tmp_path: Path):
    source = 'log.info("a")\nlog.exception("%(a)s is 5%%", {"a": 1, "b": 2})\nlog.error("%(a).0f s, %(b)r", {"a": 1.0, "b": 2})'
    root = plant(tmp_path, {"actors/a.py": source, "benchmarks/b.py": 'log.info("%s", 1)'})
    assert badly_logged(root) == []
    rows = [
        "| `a` | info | | x | y |",
        "| `{a} is 5%%` | error | `b` | x | y |",
        "| `{a} s, {b}` | error | - | x | y |",
    ]
    assert untold(root, "\n".join(rows)) == []


def test_what_the_page_does_not_tell_is_found(tmp_path: Path):
    root = plant(tmp_path, {"actors/a.py": 'log.info("%(a)s is there", {"a": 1, "b": 2})'})
    assert untold(root, "") == ["'{a} is there' is logged, and not in docs/logs.md"]
    row = "| `{a} is there` | warning | | x | y |\n| `gone` | info | | x | y |"
    assert [one.split(" is ")[-1].split(" has ")[-1] for one in untold(root, row)] == [
        "in docs/logs.md, and nothing logs it",
        "logged as info, and docs/logs.md says warning",
        "the keys ['a', 'b'], and docs/logs.md says ['a']",
    ]
