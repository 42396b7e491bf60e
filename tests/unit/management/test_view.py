"""The model of a cluster, fed with looks by hand."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.management.history import SERIES, Histories, History, LongHistory
from mantamq.management.listing import Wanted, listing
from mantamq.management.lock_moves import KEPT_S, LockMoves
from mantamq.management.rates import Rates
from mantamq.management.view import ManagementView, Sample
from mantamq.protocol.errors import LocalError
from mantamq.protocol.sequencer.election import LEADING

from .. import made_up_status as made


def a_queue(name: str = "orders", **values: Any) -> dict[str, Any]:
    return {"id": f"id of {name}", "name": name, "owner": "b1", "handovers": 0, "enqueued": 0, "dequeued": 0} | values


def seen(view: ManagementView, at_s: float, status: Any = None, **statistics: Any) -> ManagementView:
    view.take(Sample(at_s, 1000.0 + at_s, status, statistics))
    return view


# ---- rates


def test_a_rate_is_what_a_counter_has_grown_by_in_a_second():
    rates = Rates(["sent"], lambda row: row["id"])
    rates.take([{"id": "a", "sent": 10}], 1.0)
    assert rates.of({"id": "a"}) == {}
    rates.take([{"id": "a", "sent": 40}, {"id": "new", "sent": 7}], 3.0)
    assert rates.of({"id": "a"}) == {"sent": 15.0}
    assert rates.of({"id": "new"}) == {}


def test_a_counter_that_begins_anew_has_no_negative_rate():
    rates = Rates(["sent"], lambda row: row["id"])
    rates.take([{"id": "a", "sent": 1000}], 1.0)
    rates.take([{"id": "a", "sent": 5}], 2.0)
    assert rates.of({"id": "a"}) == {"sent": 0}


def test_two_looks_at_one_time_divide_by_nothing():
    rates = Rates(["sent"], lambda row: row["id"])
    for sent in (1, 2):
        rates.take([{"id": "a", "sent": sent}], 1.0)
    rates.take([{"id": "a", "sent": 5}], 2.0)
    assert rates.of({"id": "a"}) == {"sent": 4.0}


# ---- pages of tables


ROWS = [{"name": name, "depth": depth, "rates": {"in": depth / 2}} for name, depth in (("b", 3), ("A", 1), ("c", 2))]


def test_a_page_is_searched_sorted_and_cut():
    found = listing(ROWS, Wanted(sort="rates.in", descending=True, size=2))
    assert [row["name"] for row in found.rows] == ["b", "c"]
    assert (found.found, found.total, found.page, found.pages) == (3, 3, 1, 2)
    assert [row["name"] for row in listing(ROWS, Wanted(search="a")).rows] == ["A"]
    assert [row["name"] for row in listing(ROWS, Wanted(size=2, page=99)).rows] == ["c"]


def test_a_column_may_be_missing_or_of_any_kind():
    rows = [{"name": "a", "x": "text"}, {"name": "b"}, {"name": "c", "x": 3}, {"name": "d", "x": True}]
    assert [row["name"] for row in listing(rows, Wanted(sort="x")).rows] == ["b", "d", "c", "a"]
    assert len(listing(rows, Wanted(sort="x.y.z")).rows) == 4


def test_a_table_of_nothing_has_one_empty_page():
    assert listing([], Wanted(search="x")) == ([], 0, 0, 1, 1)


@pytest.mark.parametrize("size", [0, -1, 501])
def test_a_page_of_no_size_or_too_large_is_refused(size: int):
    with pytest.raises(LocalError, match="1 to 500 rows"):
        listing(ROWS, Wanted(size=size))


# ---- what comes and goes


def test_brokers_count_their_clients_each_and_the_queues_all_of_them():
    view = ManagementView()
    for at_s, more in ((1.0, 0), (2.0, 10)):
        counted = {"opened": 5 + more, "closed": more, "queues_declared": 7 + more, "queues_deleted": 0}
        rows = [{"broker": broker, "received": 0, "unroutable": 0} | counted for broker in ("b1", "b2")]
        seen(view, at_s, brokers=[*rows, {"broker": "b3", "error": "b3 has not answered"}])
    told = {"received": 0, "unroutable": 0, "opened": 20, "closed": 20, "queues_declared": 10, "queues_deleted": 0}
    assert view.churn() == told
    assert view.churned() == told | {"opened": 30, "queues_declared": 17}


def test_links_are_found_by_what_they_are_and_have_rates():
    view = ManagementView()
    sender = {"broker": "b1", "client": "c", "handle": 1, "role": "sender", "exchange": "", "key": "q"}
    receiver = {"broker": "b1", "client": "c", "handle": 2, "role": "receiver", "queue": "q"}
    for at_s in (1.0, 3.0):
        seen(view, at_s, links=[sender | {"sent": int(at_s * 4)}, receiver | {"delivered": int(at_s * 3)}], queues=[])
    assert [row["rates"]["sent"] for row in view.links(exchange="", key="q")] == [4.0]
    assert [row["rates"]["delivered"] for row in view.links(role="receiver", queue="q")] == [3.0]
    assert view.links(queue="other") == [] and len(view.links()) == 2


# ---- history


def test_a_history_keeps_the_newest_points_in_order():
    history = History(points=3)
    for number in range(5):
        history.add([number] * len(SERIES))
    assert history.series()["messages"] == [2.0, 3.0, 4.0]
    assert set(history.series()) == set(SERIES)


def test_an_hour_and_a_day_are_means_of_what_was_seen():
    history = LongHistory(points=4)
    for second in range(130):
        history.add([second, second, *[1.0] * (len(SERIES) - 2)])
    assert history.series()["time_s"] == [126, 127, 128, 129]
    hour = history.series("hour")
    assert hour["messages"] == hour["time_s"] == [49.5, 69.5, 89.5, 109.5, 124.5]
    assert hour["enqueued"] == [1.0] * 5
    assert history.series("day")["messages"] == [64.5]
    assert LongHistory().series("day") == {name: [] for name in SERIES}


def test_idle_queues_have_no_history_and_the_oldest_makes_room():
    histories = Histories(most=2, points=4)
    histories.take([a_queue("a", messages=1), a_queue("b"), a_queue("gone", messages=1)], {}, 1.0)
    histories.take([a_queue("a"), a_queue("b", messages=2), a_queue("idle")], {"id of a": {"enqueued": 3.0}}, 2.0)
    assert histories.of("id of a")["messages"] == [1.0, 0.0]
    assert histories.of("id of a")["enqueued"] == [0.0, 3.0]
    assert histories.of("id of b")["messages"] == [2.0]
    assert histories.of("id of idle")["messages"] == histories.of("id of gone")["messages"] == []
    histories.take([a_queue(name, messages=1) for name in ("a", "b", "c")], {}, 3.0)
    assert histories.of("id of a")["messages"] == []
    assert histories.of("id of c")["messages"] == [1.0]


# ---- locks


def test_a_lock_that_went_on_is_a_move_and_goes_after_a_minute():
    moves = LockMoves()
    moves.take([a_queue(owner="b1", handovers=3)], 10.0)
    moves.take([a_queue(owner="b2", handovers=4)], 11.0)
    moves.take([a_queue(owner="b2", handovers=6), a_queue("new", owner="b1")], 12.0)
    assert [(move.before, move.owner, move.handovers) for move in moves.lately("orders")] == [
        ("b2", "b2", 2),
        ("b1", "b2", 1),
    ]
    assert moves.lately("new") == []
    moves.take([a_queue(owner="b2", handovers=6)], 11.5 + KEPT_S)
    assert [move.time_s for move in moves.lately()] == [12.0]


# ---- the view


def test_before_the_first_look_there_is_nothing_and_no_error():
    view = ManagementView()
    assert view.rows("queues") == view.members() == view.locks() == view.replicas() == []
    assert view.counts() == {"queues": 0, "exchanges": 0, "brokers": 0, "connections": 0, "consumers": 0}
    assert view.totals()["messages"] == 0
    assert view.flow()["stopped"] is False
    assert view.lock_moves() == []
    assert view.event_table() is None
    assert view.queue("orders") is None
    assert view.chart("orders")["messages"] == view.chart()["messages"] == []


def test_rows_have_rates_and_the_whole_their_sum():
    view = ManagementView()
    seen(view, 1.0, queues=[a_queue(enqueued=0, messages=5), a_queue("b", messages=1, consumers=2)])
    seen(view, 3.0, queues=[a_queue(enqueued=10, messages=15), a_queue("b", enqueued=4, messages=1, consumers=2)])
    assert view.queue("orders")["rates"]["enqueued"] == 5.0
    assert view.rates()["enqueued"] == 7.0
    assert view.totals()["messages"] == 16
    assert view.counts()["consumers"] == 2
    assert view.chart("orders")["messages"] == [5.0, 15.0]
    assert view.chart()["enqueued"] == [0.0, 7.0]
    assert view.page("queues", Wanted(sort="rates.enqueued", descending=True)).rows[0]["name"] == "orders"


def test_a_queue_that_is_declared_anew_is_another_one():
    view = ManagementView()
    seen(view, 1.0, queues=[a_queue(id="first", enqueued=1000)])
    seen(view, 2.0, queues=[a_queue(id="second", enqueued=3)])
    assert view.queue("orders")["rates"] == {}
    assert view.chart("orders")["messages"] == []


def test_what_could_not_be_asked_stays_as_it_was_and_is_told():
    view = seen(ManagementView(), 1.0, made.report(made.actors()), queues=[a_queue()], silent=["b3"])
    view.take(Sample(2.0, 1002.0, None, {}, {"status": "no answer within 10 s"}))
    assert view.queue("orders") is not None
    assert len(view.members()) > 5
    assert view.troubles == {"status": "no answer within 10 s"}
    assert view.silent == ["b3"]


def test_members_and_replicas_are_those_of_the_status():
    found = made.actors()
    leading = made.named(found, "sequencer2").machine
    stream = leading.streams[made.ORDERS]
    made.alter(stream, lag={"b1": 0, "b2": 4}, missing=["b3"])
    made.silence(found, "ownership2")
    view = seen(ManagementView(), 1.0, made.report(found), queues=[a_queue(id=made.ORDERS)])
    replicas = {row["broker"]: row for row in view.replicas()}
    assert {broker: row["state"] for broker, row in replicas.items()} == {
        "b1": "in step",
        "b2": "behind",
        "b3": "missing",
    }
    assert replicas["b1"]["queue"] == "orders"
    assert replicas["b1"]["messages"] == 12
    assert view.replicas("another") == []
    members = {row["name"]: row for row in view.members()}
    assert members["b1"]["alive"] and not members["ownership2"]["alive"]
    assert "did not answer" in members["ownership2"]["error"]


def test_of_two_that_believe_to_lead_the_higher_ballot_does():
    found = made.actors()
    made.alter(made.named(found, "sequencer3").machine, role=LEADING, ballot=[9, 1])
    view = seen(ManagementView(), 1.0, made.report(found))
    assert view.leader().ballot == [9, 1]


def test_flow_control_names_who_is_held_back_by_what():
    clients = [
        {"broker": "b1", "client": "c1", "sent": 1, "state": "running"},
        {"broker": "b1", "client": "c2", "sent": 1, "state": "blocked", "why": "queue full is full"},
    ]
    view = seen(ManagementView(), 1.0, queues=[a_queue(), a_queue("full", flowStopped=True)], connections=clients)
    flow = view.flow()
    assert [queue["name"] for queue in flow["queues"]] == ["full"]
    assert [one["client"] for one in flow["connections"]] == ["c2"]
