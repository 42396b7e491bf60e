"""The table of metrics: its names, what is read, and the page that is made of it."""

from __future__ import annotations

import re
from pathlib import Path

from mantamq.management.metrics.bounded import OTHER
from mantamq.management.metrics.observed import OF_QUEUES
from mantamq.management.metrics.page import metrics_page
from mantamq.management.metrics.registry import (
    COUNTER,
    DISCARDED,
    GAUGE,
    METRICS,
    PREFIX,
    SECTIONS,
    MetricReader,
    Point,
)
from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.status.machines import QueueStatus
from msgspec import structs

from ... import made_up_status as status
from ... import made_up_view as made

PAGE = Path(__file__).parents[4] / "docs" / "metrics.md"


def read(view: ManagementView, reader: MetricReader | None = None, now_s: float = 1010.0) -> dict[str, list[Point]]:
    found = (reader or MetricReader()).read(view, now_s, 2)
    return {metric.name.removeprefix(PREFIX): points for metric, points in found}


def test_names_say_what_they_are_in_the_form_of_prometheus():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(PREFIX + r"[a-z][a-z0-9_]*[a-z]", metric.name)
        assert metric.kind in (COUNTER, GAUGE)
        assert metric.name.endswith("_total") == (metric.kind == COUNTER), metric.name
        for unit in ("seconds", "bytes"):
            says = re.sub("_total$", "", metric.name).endswith("_" + unit)
            assert says == (metric.unit == unit), metric.name
        assert metric.help.endswith(".") and "|" not in metric.help
        assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)


def test_every_metric_has_a_value_in_a_view_that_has_everything():
    found = read(made.whole_view())
    silent = {"queue_flow_stopped"}  # neither queue may hold its senders back
    assert {name for name, points in found.items() if not points} == silent
    for metric in METRICS:
        for labels, value in found[metric.name.removeprefix(PREFIX)]:
            assert len(labels) == len(metric.labels)
            assert float(value) >= 0


def test_before_the_first_look_nothing_is_claimed():
    found = read(ManagementView())
    assert {name for name, points in found.items() if points} == {
        "sequencer_leading", "cluster_queues", "cluster_exchanges", "view_looks_total", "view_troubles",
        "view_silent_brokers",
    }  # fmt: skip


def test_values_are_those_of_the_view_in_the_units_of_the_names():
    view = made.whole_view()
    found = read(view)
    assert found["queue_messages_ready"] == [(("q0",), 0), (("q1",), 1)]
    assert made.value_of(found["queue_enqueued_total"], "q1") == 3
    assert made.value_of(found["queue_oldest_message_age_seconds"], "q1") == 1.5
    assert made.value_of(found["exchange_received_total"], "orders") == 5
    assert made.value_of(found["broker_connections"], "b1") == 2
    assert made.value_of(found["broker_connections"], "b2") is None
    assert found["broker_memory_bytes"] == [(("b1",), 6 << 30)]
    assert found["store_used_bytes"] == [((f"b{n}",), 128 << 20) for n in (1, 2, 3)]
    assert made.value_of(found["store_flush_p99_seconds"], "b2") == 1.45 * 0.001
    assert found["replica_lag_entries"] == [(("b1",), 0), (("b2",), 4), (("b3",), 0)]
    assert made.value_of(found["replica_missing"], "b3") == 1
    assert found["sequencer_seq_total"] == [((), 2000)]
    assert found["ownership_silent_seconds"] == [((), 0.12)]
    assert found["event_table_dropped_total"] == [((), 3)]
    assert found["cluster_healthy"] == [((), False)]
    assert found["cluster_unhealthy_reasons"] == [((), len(view.status.unhealthy))]
    assert made.value_of(found["members_silent"], "Ownership") == 1
    assert made.value_of(found["members"], "Ownership") == 2
    assert found["view_age_seconds"] == [((), 7.0)]
    assert found["view_silent_brokers"] == [((), 1)]


def test_discarded_messages_are_told_by_reason_and_are_all():
    values = {field: 10**at for at, field in enumerate(DISCARDED.values())}
    row = made.queue_row("q", **values, discarded=sum(values.values()))
    found = read(made.look(ManagementView(), 1, queues=[row]))["queue_discarded_total"]
    assert found == [(("q", reason), values[field]) for reason, field in DISCARDED.items()]
    row = made.queue_row("q", discarded_purge=1, refused=2, duplicates=3, discarded_subscriber=4)
    found = dict(read(made.look(ManagementView(), 1, queues=[row]))["queue_discarded_total"])
    assert {reason: count for (_, reason), count in found.items() if count} == {
        "purge": 1, "limit": 2, "duplicate": 3, "rejected": 4,
    }  # fmt: skip


def test_fields_that_count_are_fields_of_a_queue():
    known = {field.encode_name for field in structs.fields(QueueStatus)}
    assert set(OF_QUEUES) <= known
    assert set(DISCARDED.values()) <= set(OF_QUEUES)


def test_a_second_read_of_one_look_counts_nothing_twice():
    view, reader = ManagementView(), MetricReader(most=2)
    for second in (1, 2):
        counts = {"a": 0, "b": 100, "c": 10}
        rows = [made.queue_row(name, messages=name == "a", enqueued=count * second) for name, count in counts.items()]
        made.look(view, second, queues=rows)
        for _ in range(2):
            found = read(view, reader)
    assert found["queue_enqueued_total"] == [(("a",), 0), (("b",), 200), ((OTHER,), 10)]


def test_a_broker_that_does_not_answer_for_a_while_is_no_growth_of_exchanges():
    view, reader = ManagementView(), MetricReader()
    counts = []
    both, one = ["b1", "b2"], ["b1"]
    for second, (brokers, received) in enumerate([(both, 1000), (one, 610), (one, 615), (both, 1020), (both, 1025)]):
        rows = [made.broker_row(name) if name in brokers else {"broker": name, "error": "silent"} for name in both]
        made.look(view, second + 1, brokers=rows, exchanges=[made.exchange_row("e", received=received)])
        counts.append(made.value_of(read(view, reader)["exchange_received_total"], "e"))
    assert counts == [1000, 1000, 1005, 1005, 1010]


def test_many_queues_are_a_bounded_number_of_points():
    found = read(made.whole_view(500), MetricReader(most=20))
    assert max(len(points) for points in found.values()) == 21 * len(DISCARDED)
    assert made.value_of(found["queue_messages"], "q499") == 499
    assert sum(value for _, value in found["queue_messages"]) == sum(range(500))


def test_what_a_look_did_not_have_is_a_trouble_and_its_age_goes_on():
    view = made.whole_view()
    view.take(Sample(4, 1004.0, None, {}, {"status": "no answer within 10 s"}))
    found = read(view, now_s=1004.0)
    assert found["view_troubles"] == [((), 1)]
    assert found["queue_messages"] and found["cluster_healthy"]


def test_an_age_is_not_negative_where_clocks_differ():
    assert read(made.whole_view(), now_s=1.0)["view_age_seconds"] == [((), 0.0)]


def test_without_a_leader_nothing_is_told_of_one():
    found = status.actors()
    status.silence(found, "sequencer2")
    points = read(made.look(ManagementView(), 1, status.report(found)))
    assert points["sequencer_leading"] == [((), False)]
    assert points["sequencer_seq_total"] == points["ownership_silent_seconds"] == []


def test_the_page_is_made_of_the_table():
    assert PAGE.read_text("utf-8") == metrics_page(), (
        "python -m mantamq.management.metrics.page > docs/metrics.md, please"
    )
    assert sum(map(len, SECTIONS.values())) == len(METRICS)
