"""The event table: rows from what a queue's machine did, without Spark, Arrow or files."""

from __future__ import annotations

import random

import pytest
from mantamq.protocol.capture.event_rows import rows
from mantamq.protocol.capture.event_table import LOG_KINDS, TYPES, Row, check_kinds
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.retries import Retries, backoff_of
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.deletion_events import Dissolved
from mantamq.protocol.wire.events import (
    CLUSTER,
    Accept,
    Acquire,
    AnyEvent,
    Bind,
    Condemn,
    DeadLetterDone,
    DeclareQueue,
    Due,
    Enqueue,
    Entry,
    Evict,
    Exclusive,
    Expire,
    FlowControl,
    InUse,
    Lift,
    Lost,
    Member,
    Modify,
    Move,
    Moved,
    Own,
    Purge,
    Recount,
    Reject,
    Rejoin,
    Release,
    Start,
    Supervise,
    encode_event,
)
from mantamq.protocol.wire.pattern_events import DropPattern, PutPattern
from mantamq.protocol.wire.policy_events import DropPolicy, PutPolicy
from mantamq.protocol.wire.redirect_events import Redirect

Q = "orders#1"


class Machine:
    """A queue's machine and the rows of all it applied."""

    def __init__(self, alternate: str = "") -> None:
        self.state = QueueState(Q, alternate)
        self.seq = 0

    def __call__(self, event: AnyEvent) -> list[Row]:
        self.seq += 1
        entry = Entry((3, 7), self.seq, "b1", 1, self.seq, b"")
        done = self.state.apply(event)
        return rows(Q, entry, event, done, 1000 * self.seq, alternate=self.state.alternate)


def spans(found: list[Row]) -> list[tuple[int, int]]:
    return [(row.position_first, row.position_last) for row in found]


def enqueue(count: int, client: str = "", numbers: list[int] | None = None) -> Enqueue:
    return Enqueue(client, numbers or [], [b"x" * (i + 1) for i in range(count)])


def test_types_are_what_every_reader_has():
    assert set(TYPES.values()) == {"int64", "int32", "string", "bool"}
    assert list(TYPES) == list(Row._fields)


def test_a_batch_is_one_row():
    machine = Machine()
    (row,) = machine(enqueue(1000, "c/1", [1, 1000]))
    assert (row.kind, row.queue, row.seq, row.term) == ("enqueue", Q, 1, 3)
    assert (row.position_first, row.position_last, row.count, row.number_first) == (1, 1000, 1000, 1)
    assert row.bytes == 1000 * 1001 // 2


def test_numbers_with_a_hole_are_one_row():
    (row,) = Machine()(enqueue(5, "c/1", [1, 2, 7, 9]))
    assert (row.position_first, row.position_last, row.bytes) == (1, 5, 15)
    assert (row.number_first, row.number_last) == (1, 9)


def test_a_partly_repeated_enqueue_has_only_what_is_new():
    machine = Machine()
    machine(enqueue(3, "c/1", [1, 3]))
    (row,) = machine(enqueue(5, "c/1", [2, 6]))
    assert (row.position_first, row.position_last, row.number_first, row.bytes) == (4, 6, 4, 3 + 4 + 5)
    (row,) = machine(enqueue(6, "c/1", [4, 6, 9, 9, 20, 21]))
    assert (row.position_first, row.position_last, row.number_first, row.number_last) == (7, 9, 9, 21)
    (row,) = machine(enqueue(2, "c/1", [2, 3]))
    assert (row.effective, row.count) == (False, 0)


def test_an_acquire_tells_what_was_taken_of_each_run():
    machine = Machine()
    machine(enqueue(10))
    assert machine(Own("b1", 1))[0].grant == 1
    machine(Acquire("b1", 1, 1, [1, 3, 4]))
    found = machine(Acquire("b1", 1, 1, [2, 1, 5, 3, 6, 7]))
    assert spans(found) == [(1, 2), (5, 5), (6, 7)]
    assert [row.acquisition for row in found] == [2, 2, 3]
    (row,) = machine(Acquire("b2", 1, 1, [4, 8, 9]))
    assert (row.effective, row.position_first, row.position_last) == (False, 8, 9)


@pytest.mark.parametrize(
    ("event", "kind"), [(Accept, "accept"), (Release, "release"), (Reject, "reject")], ids=lambda x: str(x)
)
def test_a_settle_tells_what_was_lost(event, kind):
    machine = Machine("dead")
    machine(enqueue(9))
    machine(Own("b1", 1))
    machine(Acquire("b1", 1, 1, [1, 1, 3, 2, 4, 6, 3, 7, 9]))
    machine(Accept("b1", 1, [2, 5, 5]))
    found = machine(event("b1", 1, [1, 1, 3, 2, 4, 6, 9, 7, 8]))
    assert [(*span, row.effective) for span, row in zip(spans(found), found, strict=True)] == [
        (1, 3, True),
        (4, 4, True),
        (6, 6, True),
        (5, 5, False),
        (7, 8, False),
    ]
    assert {row.kind for row in found} == {kind}
    assert [row.part for row in found] == list(range(5))
    if kind == "reject":
        assert {(row.value, row.detail) for row in found if row.effective} == {(1, "dead")}


def test_what_is_gone_is_told_in_runs():
    machine = Machine("dead")
    machine(Enqueue("", [], [b"x"] * 8, [0, 50, 1, 50, 4, 50]))
    (first, second) = machine(Expire(60, [1, 8]))
    assert spans([first, second]) == [(1, 2), (5, 5)]
    assert {first.kind, first.value} == {"expire", 60}
    machine(Own("b1", 1))
    machine(Acquire("b1", 1, 1, [1, 3, 4]))
    (row,) = machine(Evict("b1", 1))
    assert (row.kind, row.broker, row.value, spans([row])) == ("evict", "b1", 1, [(3, 4)])
    machine(Own("b2", 3))
    machine(Acquire("b2", 1, 3, [1, 3, 3]))
    machine(Reject("b2", 1, [1, 3, 3]))
    assert spans(machine(DeadLetterDone(machine.state.index))) == [(3, 3)]
    assert spans(machine(Purge(0))) == [(4, 4), (6, 8)]
    (row,) = machine(Purge(0))
    assert (row.kind, row.count) == ("purge", 0)


def test_what_is_delayed_and_due_is_told():
    machine = Machine()
    machine(Enqueue("c/1", [1, 1], [b"x"]))
    (enqueue, delay) = machine(Enqueue("c/1", [1, 3], [b"x"] * 3, delays=[0, 60, 2, 50]))
    assert (enqueue.kind, spans([enqueue])) == ("enqueue", [(2, 3)])
    assert (delay.kind, delay.value, delay.part, delay.client, spans([delay])) == ("delay", 50, 1, "", [(3, 3)])
    (due,) = machine(Due(50, [1, 3]))
    assert (due.kind, due.value, spans([due])) == ("due", 50, [(3, 3)])
    machine(Own("b1", 1))
    machine(Acquire("b1", 1, 1, [1, 1, 3]))
    (release, delay) = machine(Modify("b1", 1, [1, 1, 2], True, {}, 70))
    assert (release.kind, delay.kind, delay.value, spans([delay])) == ("release", "delay", 70, [(1, 2)])


def test_what_waits_by_the_queues_own_word_is_told_too():
    machine = Machine()
    machine.state.include(Retries(machine.state, backoff_of(QueueSettings(retry_delay_s=[0, 0.5]))))
    for event in (enqueue(2), Own("b1", 1), Acquire("b1", 1, 1, [1, 1, 2]), Release("b1", 1, [1, 2, 2], True, 10)):
        (row,) = machine(event)
    assert (row.kind, spans([row])) == ("release", [(2, 2)]), "the first time it does not wait"
    machine(Acquire("b1", 1, 1, [2, 2, 2]))
    *released, delay = machine(Release("b1", 1, [1, 1, 1, 2, 2, 2], True, 20))
    assert [(row.kind, spans([row])) for row in released] == [("release", [(1, 1)]), ("release", [(2, 2)])]
    assert (delay.kind, delay.value, delay.part, spans([delay])) == ("delay", 520, 2, [(2, 2)])
    (due,) = machine(Due(520, [1, 2]))
    assert spans([due]) == [(2, 2)]


def test_a_rejoin_puts_older_incarnations_out():
    machine = Machine()
    machine(enqueue(9))
    machine(Own("b1", 1))
    machine(Acquire("b1", 1, 1, [1, 3, 4, 1, 7, 7]))
    first, second, rejoin = machine(Rejoin("b1", 2))
    assert spans([first, second]) == [(3, 4), (7, 7)]
    assert {(row.kind, row.broker, row.inc, row.effective) for row in (first, second)} == {("evict", "b1", 1, True)}
    assert (first.part, rejoin.kind, rejoin.inc, rejoin.count) == (0, "rejoin", 2, 0)
    (again,) = machine(Rejoin("b1", 2))
    assert again.kind == "rejoin"


def test_the_clusters_own_stream():
    entry = Entry((2, 9), 4, "b1", 1, 1, b"")

    def one(event: AnyEvent) -> Row:
        (row,) = rows(CLUSTER, entry, event, Applied(), 5)
        return row

    assert (one(Start((2, 9))).value, one(Start((2, 9))).queue) == (9, "")
    assert [one(Member("b3", 2, there)).kind for there in (True, False)] == ["join", "leave"]
    stopped, going = (one(FlowControl("b3", on, "9 events behind")) for on in (True, False))
    assert (stopped.kind, stopped.broker, stopped.detail) == ("cluster_flow_on", "b3", "9 events behind")
    assert going.kind == "cluster_flow_off"
    assert one(DeclareQueue("q", {"x": 1})).detail.startswith('{"alternate"')
    assert one(Bind("e", "q", "k", {})).detail == "e/k"
    assert one(Bind("e", "", "k", {}, "f")).detail == "e/k to exchange f"


def test_what_a_ring_drops_is_told_behind_what_came():
    machine = Machine()
    machine.state.include(Ring(machine.state, QueueSettings(max_count=3, overflow="ring")))
    machine(Own("b1", 1))
    machine(enqueue(3))
    machine(Acquire("b1", 1, 1, [7, 2, 2]))
    came, *gone = machine(enqueue(2, "c/1", [1, 2]))
    assert (came.kind, came.bytes, came.part, *spans([came])) == ("enqueue", 3, 0, (4, 5))
    assert [(row.kind, row.part, row.seq, row.value, row.bytes) for row in gone] == [
        ("discard", 1, came.seq, 0, 0),
        ("discard", 2, came.seq, 1, 0),
    ]
    assert spans(gone) == [(1, 1), (2, 2)]
    (lost,) = machine(Accept("b1", 1, [7, 2, 2]))
    assert not lost.effective


def test_random_histories_lose_no_message():
    """Of each event, the effective rows are just what the machine says it did."""
    for seed in range(30):
        chance = random.Random(seed)
        machine = Machine(chance.choice(["", "dead"]))
        held: list[tuple[int, int, int]] = []
        machine(Own("b1", 1))
        for acquisition in range(1, 60):
            match chance.randrange(4):
                case 0:
                    event: AnyEvent = enqueue(chance.randrange(1, 6))
                case 1:
                    first = chance.randrange(1, 40)
                    event = Acquire("b1", 1, 1, [acquisition, first, first + 3, acquisition, first + 6, first + 7])
                    held += [(acquisition, first, first + 3), (acquisition, first + 6, first + 7)]
                case _:
                    runs = [x for one in chance.sample(held, min(len(held), 3)) for x in one]
                    event = chance.choice([Accept, Release, Reject])("b1", 1, runs)
            machine.seq += 1
            done = machine.state.apply(event)
            found = rows(
                Q, Entry((1, 1), machine.seq, "", 0, 0, b""), event, done, 0, alternate=machine.state.alternate
            )
            assert spans([row for row in found if row.effective]) == done.positions
            lost = [x for row in found if not row.effective for x in (row.acquisition, *spans([row])[0])]
            if not isinstance(event, Acquire | Enqueue):
                assert lost == done.lost
            assert {row.kind for row in found} <= set(LOG_KINDS)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (InUse("orders#1", "b1", 1, True), "in_use"),
        (InUse("orders#1", "b1", 1, False), "not_in_use"),
        (Exclusive("orders#1", "b1", 1, True, 1), "in_use"),
        (Exclusive("orders#1", "b1", 1, False), "not_in_use"),
        (Condemn("orders#1", "b1", 1, 7, True, False), "condemn"),
        (Lift("orders#1", "b1", 1, 7), "lift"),
        (Recount(), "recount"),
        (Dissolved("orders#1", 3), "dissolved"),
        (PutPolicy("p", "^q", {"qpid.max_count": 1}), "put_policy"),
        (DropPolicy("p", True), "drop_policy"),
        (PutPattern("p", "^q", "queue", {"qpid.max_count": 1}), "put_pattern"),
        (DropPattern("p"), "drop_pattern"),
        (Redirect("orders", "orders-2"), "redirect"),
        (Redirect("orders"), "end_redirect"),
        (Supervise(4, "id", "supervisor"), "supervise"),
        (Lost("orders#1", True), "lost"),
        (FlowControl("b1", True, "it is behind"), "cluster_flow_on"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_the_cluster_stream_can_be_asked_for(event, kind):
    """`in_use` and others were in the table, and no command knew them."""
    found = rows(CLUSTER, Entry((1, 1), 1, "", 0, 0, b""), event, Applied(), 0)
    assert [row.kind for row in found] == [kind]
    check_kinds([kind])


def test_moved_messages_have_rows_of_where_they_went_and_came_back() -> None:
    state = QueueState("q#1")
    found = []
    for event in (
        Own("b1", 1), Enqueue("", [], [b"1", b"2", b"3"]), Move("t", "b1", 1, 1, 0, 3, 3, [1, 3], "", "to#2", "queue"),
        Moved(3, [2, 2]), Move("u", "b1", 1, 1, 0, 3, 3, [2, 2], by="discard"),
    ):  # fmt: skip
        entry = Entry((1, 1), state.index + 1, "b1.r0", 1, 1, encode_event(event))
        done = state.apply(event)
        found += [(row.kind, row.position_first, row.position_last) for row in rows("q#1", entry, event, done, 0)]
    assert found[2:] == [
        ("move", 0, 0), ("set_aside", 1, 3), ("moved", 1, 1), ("moved", 3, 3), ("move_back", 2, 2), ("purge", 2, 2),
    ]  # fmt: skip
