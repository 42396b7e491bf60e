"""The audit: quiet on what real queues did, loud on every planted violation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from history import SECOND, History, random_history
from mantamq.jobs import audit as jobs
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import DeadLetterDone, Evict, Purge

Q, D = "q#1", "dead#2"
HOUR_US = 3600 * SECOND


@pytest.mark.parametrize("seed", range(4))
def test_what_queues_do_is_no_violation(frame, seed):
    found = jobs.audit(frame(random_history(seed).rows)).collect()
    assert not found, found[:3]


def test_an_empty_table_has_no_violation(frame):
    assert jobs.audit(frame([])).collect() == []


def good() -> History:
    """A calm history with all that the guarantees speak of; b2 holds the lock of q at its end, and 31 to 40."""
    history = History()
    history.queue(Q, "dead")
    history.enqueue(Q, 50, "c/1", 1)
    history.own(Q, "b1")
    one = history.acquire(Q, 1, 10)
    history.accept(Q, "b1", one, 1, 10)  # 1 to 10: accepted
    two = history.acquire(Q, 11, 20)
    history.reject(Q, "b1", two, 11, 15)
    history.do(Q, DeadLetterDone(history.queue(Q).index))  # 11 to 15: dead-lettered
    history.release(Q, "b1", two, 16, 20)  # 16 to 20: there again
    history.acquire(Q, 21, 30)
    history.do(Q, Evict("b1", 1))  # 21 to 30: requeued
    history.own(Q, "b2")
    history.acquire(Q, 31, 40)
    history.acquire(Q, 16, 17)
    history.acquire(Q, 41, 42, accepted=True)
    history.do(Q, Purge(2))  # 18 and 19
    return history


def test_the_good_history_is_good(frame):
    assert jobs.audit(frame(good().rows)).collect() == []


def test_what_goes_on_from_an_exchanges_own_queue_was_never_rejected(frame):
    history, id = good(), "manta.exchange.x#9"
    state = history.queues[id] = QueueState(id)
    for policy in policies_of(state, QueueSettings(exchange="x")).of_state:
        state.include(policy)
    history.enqueue(id, 5, "c/2", 1)
    history.do(id, DeadLetterDone(state.index))
    assert jobs.audit(frame(history.rows)).collect() == []


def later(rows: list[Row], **fields) -> list[Row]:
    """One more event at the end."""
    last = rows[-1]
    base = Row(
        row=last.row + 1, term=1, seq=last.seq + 1, time_us=last.time_us + 1, queue=Q, broker="b2", inc=1, grant=3
    )
    row = base._replace(**fields)
    return [*rows, row._replace(count=row.position_last - row.position_first + 1)]


def without(rows: list[Row], kind: str, nth: int = 0) -> list[Row]:
    victim = [row for row in rows if row.kind == kind][nth]
    return [row for row in rows if row is not victim]


def changed(rows: list[Row], kind: str, nth: int = 0, **fields) -> list[Row]:
    victim = [row for row in rows if row.kind == kind][nth]
    return [row._replace(**fields) if row is victim else row for row in rows]


def span(first: int, last: int) -> dict[str, int]:
    return {"position_first": first, "position_last": last}


def old(rows: list[Row]) -> list[Row]:
    """An hour passes, in which b2 takes what is behind everything else."""
    return later(rows, kind="acquire", acquisition=99, **span(45, 46), time_us=rows[-1].time_us + HOUR_US)


def acquisition(rows: list[Row], first: int) -> int:
    return next(row.acquisition for row in rows if row.kind == "acquire" and row.position_first == first)


PLANTED: dict[str, tuple[int, str, Callable[[list[Row]], list[Row]]]] = {
    "accepted twice": (3, "accepted twice", lambda r: later(r, kind="accept", broker="b1", acquisition=1, **span(3, 4))),
    "accepted, then acquired": (
        3, "acquired after it was accepted", lambda r: later(r, kind="acquire", acquisition=99, **span(3, 3))),
    "accepted, then released": (
        3, "accepted, and then not forgotten",
        lambda r: later(r, kind="release", broker="b1", acquisition=1, **span(3, 3))),
    "accepted at once, then purged": (
        3, "accepted, and then not forgotten", lambda r: later(r, kind="purge", broker="", **span(41, 41))),
    "acquired by two": (2, "acquired by two at once", lambda r: later(r, kind="acquire", acquisition=99, **span(35, 36))),
    "expired while acquired": (
        2, "gone while acquired", lambda r: later(r, kind="expire", broker="", **span(35, 36))),
    "accepted by another": (
        2, "settled by one who does not hold it",
        lambda r: later(r, kind="accept", broker="b3", acquisition=acquisition(r, 31), **span(35, 36))),
    "accepted by a stale acquisition": (
        2, "settled by one who does not hold it", lambda r: later(r, kind="accept", acquisition=1, **span(35, 36))),
    "accepted by an older incarnation": (
        2, "settled by one who does not hold it",
        lambda r: later(r, kind="accept", inc=0, acquisition=acquisition(r, 31), **span(35, 36))),
    "set aside while acquired": (
        5, "set aside, but not available", lambda r: later(r, kind="set_aside", broker="", **span(35, 36))),
    "acquired before it is due": (
        2, "acquired before it was due",
        lambda r: later(later(r, kind="delay", broker="", **span(45, 46)), kind="acquire", acquisition=99, **span(45, 46))),
    "due though nothing delays it": (4, "due, but not delayed", lambda r: later(r, kind="due", broker="", **span(45, 46))),
    "due, never given": (
        4, "released or due, and passed over since",
        lambda r: old(later(later(r, kind="delay", broker="", **span(43, 43)), kind="due", broker="", **span(43, 43)))),
    "dead-lettered twice": (5, "dead-lettered twice", lambda r: later(r, kind="dead_letter", broker="", **span(11, 12))),
    "dead-lettered without a reject": (
        5, "dead-lettered, but neither rejected nor set aside",
        lambda r: later(r, kind="dead_letter", broker="", **span(31, 31))),
    "moved out of the queue without being set aside": (
        5, "moved, but not set aside", lambda r: later(r, kind="moved", broker="", **span(45, 46))),
    "moved back though it never left": (
        5, "moved, but not set aside", lambda r: later(r, kind="move_back", broker="", **span(45, 46))),
    "rejected twice": (
        5, "rejected twice",
        lambda r: later(r, kind="reject", broker="b1", value=1, acquisition=acquisition(r, 11), **span(11, 11))),
    "rejected, then acquired": (
        5, "rejected or set aside, and then something else",
        lambda r: later(r, kind="acquire", acquisition=99, **span(11, 11))),
    "never dead-lettered": (
        5, "set aside, and never dead-lettered", lambda r: old(without(r, "dead_letter"))),
    "enqueued where one is": (
        1, "enqueued at a place that was taken", lambda r: later(r, kind="enqueue", broker="", **span(50, 51))),
    "enqueued where none was": (
        1, "lost: a place in the queue without its message",
        lambda r: later(r, kind="enqueue", broker="", **span(61, 62))),
    "acquired out of nothing": (
        1, "concerns a message that was never enqueued",
        lambda r: later(r, kind="acquire", acquisition=99, **span(51, 51))),
    "a transfer twice": (
        1, "a client's message enqueued twice",
        lambda r: later(r, kind="enqueue", broker="", client="c/1", number_first=50, number_last=50, **span(51, 51))),
    "settled after a release": (
        4, "settled by one who had given it back",
        lambda r: later(r, kind="accept", broker="b1", acquisition=acquisition(r, 11), **span(20, 20))),
    "released, never given again": (4, "released or due, and passed over since", old),
    "requeued, never given again": (6, "requeued, and passed over since", old),
    "settled by the evicted": (
        6, "settled by one who was evicted",
        lambda r: later(r, kind="accept", broker="b1", acquisition=acquisition(r, 21), **span(21, 21))),
    "an evicted acts": (6, "an evicted broker acted", lambda r: later(r, kind="acquire", broker="b1", **span(47, 47))),
    "not requeued": (
        6, "still held by one who was evicted", lambda r: changed(r, "evict", **span(21, 29), count=9)),
    "requeued from another": (
        6, "requeued, but the evicted did not hold it", lambda r: changed(r, "evict", **span(21, 31), count=11)),
    "acquired without the lock": (
        0, "acquired without the consume lock",
        lambda r: later(r, kind="acquire", broker="b3", acquisition=99, **span(47, 47))),
    "acquired under an old grant": (
        0, "acquired without the consume lock",
        lambda r: later(r, kind="acquire", grant=1, acquisition=99, **span(47, 47))),
    "acquired after the eviction": (
        0, "acquired without the consume lock", lambda r: without(r, "own", 1)),
    "a grant again": (0, "a grant that does not rise", lambda r: later(r, kind="own", grant=3)),
    "a row twice": (
        0, "an event of the table twice", lambda r: [*r, r[5]._replace(row=r[-1].row + 1)]),
    "gone, then expired": (
        3, "gone, and then something else", lambda r: later(r, kind="expire", broker="", **span(18, 18))),
}  # fmt: skip


def beside(name: object, rows: list[Row]) -> list[Row]:
    """The same in queues of its own: the audit judges each queue by itself, so one is asked for many histories."""
    return [row._replace(queue=f"{name} {row.queue}") for row in rows]


@pytest.fixture(scope="module")
def violations(frames) -> dict[str, set[tuple[int, str]]]:
    """Planted violation -> what is found there. All are in one table, and those in another in which an hour passes."""
    planted = {name: plant(good().rows) for name, (_, _, plant) in PLANTED.items()}
    found: dict[str, set[tuple[int, str]]] = {name: set() for name in planted}
    for late in (False, True):
        these = {name: rows for name, rows in planted.items() if (rows[-1].time_us > HOUR_US) == late}
        assert these
        for row in jobs.audit(frames([row for name, rows in these.items() for row in beside(name, rows)])).collect():
            name = next(name for name in these if row["queue"] in (f"{name} {Q}", f"{name} {D}"))
            found[name].add((row["guarantee"], row["rule"]))
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_planted_violations_are_found(violations, name):
    guarantee, rule, _ = PLANTED[name]
    found = violations[name]
    assert (guarantee, rule) in found, found
    # Not everything at once: what was planted, and what follows from it.
    assert len(found) <= 3, found


def test_every_rule_has_a_planted_violation():
    rules = {rule for _, rule, _ in jobs._PAIRS}
    assert rules <= {rule for _, rule, _ in PLANTED.values()}
    assert {guarantee for guarantee, _, _ in PLANTED.values()} == jobs.GUARANTEES.keys()


def test_the_place_is_told(frame):
    rows = later(good().rows, kind="purge", broker="", **span(3, 4))
    (row,) = jobs.verdict(jobs.audit(frame(rows))).collect()
    assert (row["queue"], row["position"], row["seq"], row["times"]) == (Q, 3, rows[-1].seq, 1)


def test_a_table_that_begins_late_is_no_violation(frame):
    """Retention took the beginning: what was enqueued in it is nobody's fault."""
    history = good()
    history.enqueue(Q, 10, "c/1", 51)
    taken = history.acquire(Q, 51, 60)
    history.accept(Q, "b2", taken, 51, 60)
    cuts = range(len(history.rows))
    found = jobs.audit(frame([row for cut in cuts for row in beside(cut, history.rows[cut:])])).collect()
    assert not found, found[:3]
