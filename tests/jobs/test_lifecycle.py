"""What became of each message, against a plain walk through the same rows."""

from __future__ import annotations

import pytest
from history import MINUTE, SECOND, History, random_history
from mantamq.jobs import lifecycle as jobs
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.wire.events import Evict


def walked(rows: list[Row]) -> dict[tuple[str, int], dict]:
    """The life of each message, one message and one row at a time."""
    lives: dict[tuple[str, int], dict] = {}
    for row in sorted(rows, key=lambda row: (row.seq, row.part)):
        if not row.effective or row.kind not in jobs.KINDS or not row.position_first:
            continue
        for position in range(row.position_first, row.position_last + 1):
            life = lives.setdefault(
                (row.queue, position),
                dict.fromkeys(("enqueued_us", "acquired_us", "acquired_last_us", "ended_us", "fate"))
                | {"deliveries": 0, "returns": 0},
            )
            fate = None
            match row.kind:
                case "enqueue":
                    life["enqueued_us"] = row.time_us
                case "acquire":
                    life["acquired_us"] = life["acquired_us"] or row.time_us
                    life["acquired_last_us"] = row.time_us
                    life["deliveries"] += 1
                    fate = "accept" if row.value else None
                case "release" | "evict":
                    life["returns"] += row.value
                case "reject":
                    fate = None if row.value else "discard"
                case kind:
                    fate = kind
            if fate:
                life["ended_us"], life["fate"] = row.time_us, fate
    return lives


@pytest.mark.parametrize("seed", [1, 2])
def test_lives_are_those_of_a_walk(frame, seed):
    history = random_history(seed)
    lives = jobs.lifecycle(frame(history.rows))
    found = {
        (row["queue"], row["position"]): {k: v for k, v in row.asDict().items() if k not in ("queue", "position")}
        for row in jobs.per_message(lives).collect()
    }
    wanted = walked(history.rows)
    assert len(wanted) > 2000
    assert len({one["fate"] for one in wanted.values()}) >= 5
    assert found.keys() == wanted.keys()
    wrong = [(key, found[key], wanted[key]) for key in wanted if found[key] != wanted[key]]
    assert not wrong, wrong[:3]


def test_a_batch_stays_a_run(frame):
    history = History()
    history.enqueue("q#1", 1000)
    history.own("q#1", "b1")
    one = history.acquire("q#1", 1, 600)
    history.accept("q#1", "b1", one, 1, 600)
    found = [(row.position_first, row.messages, row.fate) for row in jobs.lifecycle(frame(history.rows)).collect()]
    assert sorted(found) == [(1, 600, "accept"), (601, 400, None)]


def test_an_empty_table_has_no_lives(frame):
    lives = jobs.lifecycle(frame([]))
    assert lives.collect() == []
    assert jobs.percentiles(jobs.latencies(lives)).collect() == []


def test_no_row_passes_through_python(frame):
    lives = jobs.lifecycle(frame(random_history(3, 50).rows))
    for df in (lives, jobs.percentiles(jobs.latencies(lives)), jobs.redeliveries(lives)):
        plan = df._jdf.queryExecution().toString()
        assert "Python" not in plan and "BatchEval" not in plan


def latency_history() -> History:
    """100 messages: enqueued at 0, acquired one by one each second from 1 s on, accepted half a second later."""
    history = History(step_us=0)
    start = history.now_us
    history.enqueue("q#1", 100)
    history.own("q#1", "b1")
    for n in range(1, 101):
        history.now_us = start + n * SECOND
        one = history.acquire("q#1", n, n)
        history.now_us += SECOND // 2
        history.accept("q#1", "b1", one, n, n)
    return history


def test_percentiles_per_phase(frame):
    found = jobs.percentiles(
        jobs.latencies(jobs.lifecycle(frame(latency_history().rows))), (0.5, 0.99), by_minute=False
    )
    by_phase = {row["phase"]: row for row in found.collect()}
    assert {name: row["messages"] for name, row in by_phase.items()} == {"wait": 100, "process": 100, "total": 100}
    assert by_phase["wait"]["p50_us"] == pytest.approx(50.5 * SECOND, rel=0.01)
    assert by_phase["wait"]["p99_us"] == pytest.approx(99.01 * SECOND, rel=0.01)
    assert by_phase["wait"]["max_us"] == pytest.approx(100 * SECOND, rel=0.01)
    assert by_phase["process"]["p99_us"] == pytest.approx(SECOND / 2, rel=0.01)
    assert by_phase["total"]["p50_us"] == pytest.approx(51 * SECOND, rel=0.01)


def test_percentiles_per_minute(frame):
    found = jobs.percentiles(jobs.latencies(jobs.lifecycle(frame(latency_history().rows))), (0.5, 0.999)).collect()
    waits = {row["bucket_us"] // MINUTE: row for row in found if row["phase"] == "wait"}
    assert {minute: row["messages"] for minute, row in waits.items()} == {10: 59, 11: 41}
    assert waits[10]["p50_us"] == pytest.approx(30 * SECOND, rel=0.01)
    assert waits[11]["p50_us"] == pytest.approx(80 * SECOND, rel=0.01)
    assert "p999_us" in found[0].asDict()


def test_latency_is_rounded_by_less_than_a_percent(frame):
    history = History(step_us=0)
    history.own("q#1", "b1")
    for n, wait in enumerate((0, 1, 255, 256, 257, 99_999, 12_345_678), 1):
        history.now_us = 100 * n * MINUTE
        history.enqueue("q#1", 1)
        history.now_us += wait
        history.acquire("q#1", n, n)
    found = jobs.latencies(jobs.lifecycle(frame(history.rows))).where("phase = 'wait'").orderBy("bucket_us")
    rounded = [row["us"] for row in found.collect()]
    assert rounded[:4] == [0, 1, 255, 256]
    assert all(0 <= wait - us <= wait / 128 for us, wait in zip(rounded[4:], (257, 99_999, 12_345_678), strict=True))


def test_redeliveries_and_poison(frame):
    history = History()
    history.enqueue("q#1", 10)
    history.own("q#1", "b1")
    for _ in range(3):
        one = history.acquire("q#1", 1, 4)
        history.release("q#1", "b1", one, 1, 2)
        history.release("q#1", "b1", one, 3, 4, redelivered=False)
    history.acquire("q#1", 1, 1)
    history.do("q#1", Evict("b1", 1))
    history.own("q#1", "b2")
    one = history.acquire("q#1", 5, 10)
    history.accept("q#1", "b2", one, 5, 10)
    lives = jobs.lifecycle(frame(history.rows))
    (row,) = jobs.redeliveries(lives).collect()
    assert (row["messages"], row["redelivered"], row["redeliveries"], row["most"]) == (10, 4, 9, 4)
    found = jobs.poison_suspects(lives).collect()
    assert [(row.position_first, row.position_last, row.returns) for row in found] == [(1, 1, 4), (2, 2, 3)]
