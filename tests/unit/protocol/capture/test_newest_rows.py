"""The newest rows: of each kind some, found by kind and by name, the newest first."""

from __future__ import annotations

import pytest
from mantamq.protocol.capture.event_table import LOG_KINDS, OBSERVED_KINDS, OF_MESSAGES, Row
from mantamq.protocol.capture.newest_rows import NewestRows, name_of


def kept(*rows: Row, of_a_kind: int = 500) -> NewestRows:
    newest = NewestRows(of_a_kind)
    newest.add(1, rows)
    return newest


def numbers(newest: NewestRows, kinds: tuple[str, ...] = (), queue: str = "", count: int = 200) -> list[int]:
    return [row["row"] for row in newest.find(kinds, queue, count)]


MIXED = (
    Row(kind="declare_queue", queue="orders#1"), Row(kind="enqueue", queue="orders#1", bytes=7),
    Row(kind="enqueue", queue="Mail#2"), Row(kind="connect", client="c1"), Row(kind="enqueue", queue="orders#1"),
)  # fmt: skip


def test_the_newest_come_first_with_the_numbers_that_they_have_in_the_table():
    newest = kept(*MIXED)
    newest.add(9, [Row(kind="connect", client="c2")])
    assert numbers(newest) == [9, 5, 4, 3, 2, 1]
    assert numbers(newest, count=2) == [9, 5]
    assert numbers(newest, count=0) == numbers(newest, count=-1) == []
    assert newest.find((), "", 9)[4] == Row(2, kind="enqueue", queue="orders#1", bytes=7)._asdict()


def test_they_are_found_by_kind_and_by_what_is_in_a_name():
    newest = kept(*MIXED)
    assert numbers(newest, ("enqueue",)) == [5, 3, 2]
    assert numbers(newest, ("connect", "declare_queue")) == [4, 1]
    assert numbers(newest, ("purge",)) == []
    assert numbers(newest, queue="ORD") == [5, 2, 1] and numbers(newest, queue="mail") == [3]
    assert numbers(newest, queue="#1") == [], "what stands behind a name is not searched"
    assert numbers(newest, ("enqueue",), "orders", 1) == [5]


def test_many_of_one_kind_sweep_no_other_away():
    newest = kept(*MIXED, of_a_kind=3)
    newest.add(6, [Row(kind="enqueue", queue="q#3")] * 1000)
    assert numbers(newest) == [1005, 1004, 1003, 4, 1]


@pytest.mark.parametrize(
    ("queue", "name"), [("a#1#22", "a#1"), ("a", "a"), ("a#b", "a#b"), ("#1", "#1"), ("", ""), ("a#²", "a#²")]
)
def test_a_name_is_what_stands_before_the_number(queue: str, name: str):
    assert name_of(queue) == name


def test_the_kinds_of_messages_are_kinds():
    assert set(OF_MESSAGES) <= {*LOG_KINDS, *OBSERVED_KINDS}
