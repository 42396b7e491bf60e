"""Throughput, depth, age, shares, flow control, locks, members and terms, on small tables with known answers."""

from __future__ import annotations

import pytest
from history import MINUTE, SECOND, History, observed, random_history
from mantamq.jobs import lifecycle, load, members
from mantamq.protocol.wire.events import Evict, Expire

Q = "q#1"


def dicts(df) -> list[dict]:
    return [row.asDict() for row in df.collect()]


def test_throughput_per_minute(frame):
    history = History(step_us=0)
    history.own(Q, "b1")
    history.enqueue(Q, 10, size=7)
    one = history.acquire(Q, 1, 6)
    history.now_us += MINUTE
    history.accept(Q, "b1", one, 1, 4)
    history.reject(Q, "b1", one, 5, 5)
    history.acquire(Q, 7, 8, accepted=True)
    history.accept(Q, "b1", one, 1, 4)  # lost: changes nothing
    first, second = sorted(dicts(load.throughput(frame(history.rows))), key=lambda row: row["bucket_us"])
    assert (first["bucket_us"], second["bucket_us"]) == (10 * MINUTE, 11 * MINUTE)
    assert (first["enqueued"], first["acquired"], first["accepted"], first["enqueued_bytes"]) == (10, 6, 0, 70)
    assert (second["enqueued"], second["acquired"], second["accepted"], second["rejected"]) == (0, 2, 6, 1)


@pytest.mark.parametrize("seed", [5, 6])
def test_depth_is_what_the_queue_held(frame, seed):
    """At the end of each minute, as the machine itself says; to the message."""
    held: dict[tuple[str, int], tuple[int, int]] = {}
    other = random_history(seed, 150)
    rows = [row._replace(time_us=MINUTE * (1 + row.seq // 20)) for row in other.rows]
    depth: dict[str, int] = {}
    acquired: dict[str, int] = {}
    for row in rows:
        if not row.effective or not row.position_first:
            continue
        gone = row.kind in ("accept", "expire", "purge", "dead_letter", "discard") or (row.kind, row.value) in (
            ("acquire", 1),
            ("reject", 0),
        )
        depth[row.queue] = depth.get(row.queue, 0) + row.count * ((row.kind == "enqueue") - gone)
        taken = (row.kind == "acquire" and not row.value) - (
            row.kind in ("accept", "release", "reject", "evict") or (row.kind, row.value) == ("discard", 1)
        )
        acquired[row.queue] = acquired.get(row.queue, 0) + row.count * taken
        held[row.queue, row.time_us] = (depth[row.queue], acquired[row.queue])
    for id, queue in other.queues.items():
        assert depth.get(id, 0) == len(queue.blobs)
        assert acquired.get(id, 0) == queue.acquired.messages()
    found = {
        (row["queue"], row["bucket_us"]): (row["depth"], row["acquired"]) for row in dicts(load.depth(frame(rows)))
    }
    assert found == held


def test_depth_of_a_table_that_begins_late(frame):
    history = History()
    history.enqueue(Q, 10)
    history.own(Q, "b1")
    one = history.acquire(Q, 1, 10)
    history.accept(Q, "b1", one, 1, 10)
    (row,) = dicts(load.depth(frame(history.rows[2:])))
    assert (row["depth"], row["acquired"]) == (0, 0)
    (row,) = dicts(load.depth(frame(history.rows[3:])))
    assert (row["depth"], row["acquired"]) == (0, 0)


def aging() -> History:
    """Enqueued at 10:00 (2 messages), 10:30 (1); one of the first gone at 11:10, the second at 13:30."""
    history = History(step_us=0)
    history.own(Q, "b1")
    history.enqueue(Q, 2)
    history.now_us += 30 * SECOND
    history.enqueue(Q, 1)
    history.now_us += 40 * SECOND
    history.acquire(Q, 1, 1, accepted=True)
    history.now_us += 140 * SECOND
    history.acquire(Q, 2, 2, accepted=True)
    return history


def test_the_oldest_message(frame):
    lives = lifecycle.lifecycle(frame(aging().rows))
    (row,) = dicts(load.oldest(lives, 10 * MINUTE + 35 * SECOND))
    assert (row["position"], row["age_us"], row["waiting"]) == (1, 35 * SECOND, 3)
    (row,) = dicts(load.oldest(lives, 11 * MINUTE + 20 * SECOND))
    assert (row["position"], row["age_us"], row["waiting"]) == (2, 80 * SECOND, 2)
    assert dicts(load.oldest(lives, 9 * MINUTE)) == []


def test_the_age_of_the_oldest_over_time(frame):
    found = dicts(load.oldest_over_time(lifecycle.lifecycle(frame(aging().rows))))
    ages = {row["bucket_us"] // MINUTE: row["age_us"] / SECOND for row in found}
    assert ages == {10: 60, 11: 120, 12: 180, 13: 210}


def test_consumer_shares(frame):
    history = History()
    history.enqueue(Q, 10)
    history.own(Q, "b1")
    one = history.acquire(Q, 1, 6)
    history.accept(Q, "b1", one, 1, 5)
    history.own(Q, "b2")
    history.acquire(Q, 7, 8, accepted=True)
    found = {row["broker"]: row for row in dicts(load.consumer_share(frame(history.rows)))}
    assert (found["b1"]["acquired"], found["b1"]["accepted"], found["b1"]["share"]) == (6, 5, 0.75)
    assert (found["b2"]["acquired"], found["b2"]["accepted"], found["b2"]["share"]) == (2, 2, 0.25)


def test_flow_control_times(frame):
    history = History()
    for n, (kind, broker, value) in enumerate(
        [("flow_on", "b1", 0), ("flow_off", "b1", 30), ("flow_off", "b1", 50), ("credit_stall", "b2", 7)]
    ):
        history.add(observed(kind, 10 * n, broker, 1, 5, queue=Q, value=value))
    found = {(row["kind"], row["broker"]): row for row in dicts(load.flow_control(frame(history.rows)))}
    stopped = found["flow_control", "b1"]
    assert (stopped["times"], stopped["total_us"], stopped["longest_us"]) == (2, 80, 50)
    assert found["credit_stall", "b2"]["total_us"] == 7
    assert len(found) == 2


def locks() -> History:
    """b1 holds the lock for 60 s, b2 for 20 s, b1 for 20 s (evicted), nobody for 10 s, b3 from then on."""
    history = History(step_us=0)
    history.enqueue(Q, 1000)
    for broker, seconds, count in (("b1", 60, 600), ("b2", 20, 100), ("b1", 20, 100)):
        history.own(Q, broker)
        first = history.queue(Q).available.first
        history.now_us += SECOND
        history.acquire(Q, first, first + count // 2 - 1)
        history.now_us += (seconds - 3) * SECOND
        history.acquire(Q, first + count // 2, first + count - 1)
        history.now_us += 2 * SECOND
    history.do(Q, Evict("b1", 1))
    history.now_us += 10 * SECOND
    history.own(Q, "b3")
    return history


def test_who_held_the_consume_lock(frame):
    found = dicts(members.ownership(frame(locks().rows)).orderBy("from_us"))
    start = 10 * MINUTE
    spans = [
        (row["broker"], (row["from_us"] - start) // SECOND, row["until_us"] and (row["until_us"] - start) // SECOND)
        for row in found
    ]
    assert spans == [("b1", 0, 60), ("b2", 60, 80), ("b1", 80, 100), ("b3", 110, None)]
    assert [row["how"] for row in found] == ["hand_over", "hand_over", "evicted", None]
    assert [row["next"] for row in found] == ["b2", "b1", "", ""]
    assert [row["acquired"] for row in found] == [600, 100, 100, 0]


def test_a_lock_that_is_given_up(frame):
    history = History()
    history.own(Q, "b1")
    history.own(Q, "")
    history.do(Q, Evict("b2", 1))  # who did not hold it
    (row,) = dicts(members.ownership(frame(history.rows)))
    assert (row["how"], row["next"]) == ("released", "")


def test_an_eviction_of_another_leaves_the_lock_alone(frame):
    history = History()
    history.own(Q, "b1")
    history.do(Q, Evict("b2", 1))
    history.own(Q, "b3")
    first, second = dicts(members.ownership(frame(history.rows)).orderBy("from_us"))
    assert (first["how"], first["next"], first["until_us"]) == ("hand_over", "b3", second["from_us"])


def test_fairness(frame):
    until = 10 * MINUTE + 150 * SECOND
    found = {row["broker"]: row for row in dicts(members.lock_fairness(members.ownership(frame(locks().rows)), until))}
    assert {name: row["held_us"] // SECOND for name, row in found.items()} == {"b1": 80, "b2": 20, "b3": 40}
    assert found["b1"]["share"] == pytest.approx(80 / 140)
    assert found["b1"]["acquired_per_s"] == pytest.approx(700 / 80)
    assert found["b1"]["fairness"] == pytest.approx(140**2 / (3 * (80**2 + 20**2 + 40**2)))


def test_handovers_cost(frame):
    (row,) = dicts(members.handover_cost(frame(locks().rows)))
    assert (row["handovers"], row["gap_p50_us"], row["gap_total_us"]) == (2, 3 * SECOND, 6 * SECOND)
    assert row["messages_per_slice"] == pytest.approx(800 / 3)


def failing() -> History:
    history = History(step_us=1000)
    history.term_starts(1, 11)
    for broker in ("b1", "b2", "b3"):
        history.member(broker)
    history.enqueue(Q, 10)
    history.own(Q, "b2")
    history.acquire(Q, 1, 5)
    history.now_us += 2 * SECOND - history.step_us
    history.term_starts(2, 22)
    history.do(Q, Evict("b2", 1))
    history.do("other#2", Evict("b2", 1))
    history.member("b2", present=False)
    history.do(Q, Expire(0, [1, 10]))
    history.member("b2", inc=2)
    return history


def test_members_come_and_go(frame):
    found = dicts(members.membership(frame(failing().rows)))
    assert [(row["kind"], row["broker"], row["inc"]) for row in found] == [
        *(("join", broker, 1) for broker in ("b1", "b2", "b3")),
        ("evict", "b2", 1),
        ("leave", "b2", 1),
        ("join", "b2", 2),
    ]


def test_failovers(frame):
    first, second = dicts(members.failovers(frame(failing().rows)))
    assert (first["term"], first["sequencer"], first["gap_us"], first["evicted"]) == (1, 11, None, "")
    assert (second["term"], second["sequencer"], second["gap_us"], second["evicted"]) == (2, 22, 2 * SECOND, "b2")
    assert second["first_us"] - second["started_us"] == 1000


def test_empty_tables_have_empty_answers(frame):
    events = frame([])
    held = members.ownership(events)
    lives = lifecycle.lifecycle(events)
    for df in (
        load.throughput(events), load.depth(events), load.oldest(lives, 0), load.oldest_over_time(lives),
        load.consumer_share(events), load.flow_control(events), held, members.lock_fairness(held, 0),
        members.handover_cost(events), members.membership(events), members.failovers(events),
    ):  # fmt: skip
        assert df.collect() == []
