"""The questions put to tables that clusters have made: simulated ones, with everything dying in them."""

from __future__ import annotations

from collections import Counter

import pytest
from mantamq.jobs import audit, lifecycle, load, members
from mantamq.protocol.capture.event_table import Row

from tests.simulation.tapped import play_tapped

SEEDS = (2, 6, 8)
"""Stories in which brokers that were there from the beginning stay, so that somebody has all facts."""


def table(seed: int) -> list[Row]:
    world, dropped = play_tapped(seed, faulty=True)
    assert not dropped
    return [row._replace(row=number) for number, row in enumerate(world.order, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_guarantee_held(frame, seed):
    rows = table(seed)
    found = audit.verdict(audit.audit(frame(rows), grace_us=60_000_000)).collect()
    assert found == []
    assert {"enqueue", "acquire", "accept"} <= {row.kind for row in rows}


def test_planted_violations_in_a_captured_table_are_found(frame):
    rows = table(SEEDS[0])
    accepts = [row for row in rows if row.kind == "accept" and row.effective and row.count]
    enqueues = [row for row in rows if row.kind == "enqueue" and row.effective]
    again = accepts[0]._replace(row=len(rows) + 1, seq=max(row.seq for row in rows) + 1)
    # The audit takes a queue's first enqueue for where the table begins: what is lost is one behind it.
    behind_first = next(row for row in enqueues if row.position_first > 1)
    lost = [row for row in rows if row is not behind_first]
    rules = {one["rule"] for one in audit.verdict(audit.audit(frame([*rows, again]))).collect()}
    assert "accepted twice" in rules
    rules = {one["rule"] for one in audit.verdict(audit.audit(frame(lost))).collect()}
    assert rules & {"concerns a message that was never enqueued", "lost: a place in the queue without its message"}


def test_a_gap_that_is_told_makes_no_false_alarm(frame):
    rows = table(SEEDS[0])
    accepts = Counter(row.queue for row in rows if row.kind == "accept" and row.effective)
    ((queue, _),) = accepts.most_common(1)  # in a third of its events something is missed
    of_queue = sorted(row.seq for row in rows if row.queue == queue and row.part >= 0)
    first, behind = of_queue[len(of_queue) // 3], of_queue[len(of_queue) // 2]
    cut = [row for row in rows if row.queue != queue or not first <= row.seq < behind]
    gap = Row(row=len(rows) + 1, seq=behind, part=-1, kind="dropped", queue=queue, detail=queue, value=7, time_us=1)
    assert audit.audit(frame(cut), grace_us=60_000_000).count()
    assert audit.verdict(audit.audit(frame([*cut, gap]), grace_us=60_000_000)).collect() == []
    (told,) = members.dropped(frame([*cut, gap])).collect()
    assert (told["stream"], told["events"], told["times"]) == (queue, 7, 1)


def test_the_questions_agree_with_the_rows(frame):
    rows = table(SEEDS[1])
    df = frame(rows)
    accepted = sum(
        row.count for row in rows if row.effective and (row.kind == "accept" or (row.kind == "acquire" and row.value))
    )
    assert load.throughput(df).agg({"accepted": "sum"}).first()[0] == accepted
    fates = {row["fate"]: row["messages"] for row in
             lifecycle.lifecycle(df).groupBy("fate").agg({"messages": "sum"}).toDF("fate", "messages").collect()}  # fmt: skip
    assert fates["accept"] == accepted
    terms = {row["term"] for row in members.failovers(df).collect()}
    assert terms == {row.term for row in rows if row.part >= 0}
