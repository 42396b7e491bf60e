"""How a queue's copy comes to be whole, alone: its states, every legal move and no other, both sides of an update."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.catch_up import CatchUp
from mantamq.protocol.replica.status import MOVES, Status
from mantamq.protocol.replica.update import Pace
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import Enqueue, Entry, Rejoin, encode_event
from mantamq.protocol.wire.log_frames import Append, LogReport, UpdateFront, UpdateStart, UpdateTaken
from mantamq.protocol.wire.version import MINOR

from tests.unit.replica_outbox import KeptOutbox

ONE = (1, 7)
REJOIN = Entry(ONE, 3, "", 0, 0, encode_event(Rejoin("b1", 2)))


class Copy:
    """One queue's copy at b1, incarnation 2, without the rest of its hosted queue."""

    def __init__(self, blank: bool = True) -> None:
        self.outbox = KeptOutbox()
        self.keeper = Keeper("q#1", "b1", 2, blank, ONE, ["b1", "b2", "b3"])
        self.state = QueueState("q#1")
        self.catch_up = CatchUp(self.keeper, self.state, Pace(DEFAULT.update_process_bytes_s), self.outbox)

    @property
    def status(self) -> Status:
        return self.catch_up.status

    def start(self, index: int = 2, updater: str = "b2.r0") -> bool:
        """A sync point of two messages."""
        state = QueueState("q#1")
        state.apply(Enqueue("c", [1, 2], [b"m", b"n"]))
        return self.catch_up.begin(UpdateStart("q#1", updater, "b1.r0", index, ONE, 1, {}, {}, state.snapshot()))

    def front(self, updater: str = "b2.r0", until: int = 2) -> bool:
        return self.catch_up.take(updater, UpdateFront("q#1", 1, [1, 2], [b"m", b"n"], True, until))

    def append(self, *entries: Entry, previous: int = 0) -> None:
        _, refusal = self.keeper.append(Append(ONE, "q#1", previous, ONE, previous + len(entries), 0, list(entries)))
        assert refusal is None

    def whole(self) -> None:
        assert self.start() and self.front() and self.catch_up.may_apply()

    def log_from_the_beginning(self) -> None:
        self.append(Entry(ONE, 1, "x", 1, 1, encode_event(Enqueue("c", [1, 1], [b"m"]))))
        assert self.catch_up.may_apply()

    def updater_gone(self) -> None:
        assert self.catch_up.peer_down("b2.r0") and self.catch_up.begin_anew()


WAYS: dict[tuple[Status, Status], Callable[[Copy], object]] = {
    (Status.BLANK, Status.UPDATING): Copy.start,
    (Status.BLANK, Status.JOINING): Copy.log_from_the_beginning,
    (Status.UPDATING, Status.BLANK): Copy.updater_gone,
    (Status.UPDATING, Status.UPDATING): lambda copy: copy.start(3, "b3.r0"),
    (Status.UPDATING, Status.JOINING): lambda copy: copy.front() and copy.catch_up.may_apply(),
    (Status.JOINING, Status.UPDATING): lambda copy: copy.start(3, "b3.r0"),
    (Status.JOINING, Status.SERVING): lambda copy: copy.catch_up.joined(),
}


def in_status(status: Status) -> Copy:
    copy = Copy(blank=status is not Status.SERVING)
    if status is Status.UPDATING:
        assert copy.start()
    elif status is Status.JOINING:
        copy.whole()
    assert copy.status is status
    return copy


def test_every_state_is_in_the_table():
    assert set(MOVES) == set(Status)
    assert {(one, other) for one, others in MOVES.items() for other in others} == set(WAYS)


@pytest.mark.parametrize("move", WAYS)
def test_each_legal_move_has_its_way(move):
    copy = in_status(move[0])
    assert WAYS[move](copy) is not False
    assert copy.status is move[1]


@pytest.mark.parametrize("move", sorted(set(product(Status, Status)) - set(WAYS), key=str))
def test_no_other_move_is_made(move):
    copy = in_status(move[0])
    with pytest.raises(LocalError, match="cannot become"):
        copy.catch_up._move(move[1])
    assert copy.status is move[0]


def test_a_blank_copy_reports_itself_again_until_an_updater_comes():
    copy = in_status(Status.BLANK)
    copy.catch_up.wait()
    assert not copy.catch_up.may_serve() and copy.outbox.take() == []
    assert copy.outbox.timers == {"q#1": 1000 + DEFAULT_TIMING.update_retry_ms}
    copy.outbox.now_ms += DEFAULT_TIMING.update_retry_ms
    assert not copy.catch_up.may_serve()
    assert copy.outbox.take(LogReport) and copy.outbox.timers == {"q#1": 1000 + 2 * DEFAULT_TIMING.update_retry_ms}


def test_what_is_committed_waits_for_the_messages_it_speaks_of():
    copy = in_status(Status.UPDATING)
    assert not copy.catch_up.may_apply() and not copy.catch_up.may_serve()
    assert copy.front(until=3), "all messages are here"
    assert not copy.catch_up.may_apply(), "but the updater had applied more than is committed here"
    copy.append(REJOIN, previous=2)
    assert copy.catch_up.may_apply() and copy.status is Status.JOINING
    assert copy.state.blobs == {1: b"m", 2: b"n"} and copy.catch_up.may_serve()


def test_only_the_updater_is_listened_to():
    copy = in_status(Status.UPDATING)
    assert not copy.front("b3.r0") and copy.outbox.take() == []
    assert not copy.start(2, "b3.r0"), "it holds as much by another"
    assert not copy.catch_up.peer_down("b3.r0")
    assert copy.front() and copy.outbox.take() == [UpdateTaken("q#1", 1)]


def test_a_copy_that_votes_keeps_what_it_has():
    copy = in_status(Status.SERVING)
    assert not copy.start()
    copy = in_status(Status.UPDATING)
    copy.append(REJOIN, previous=2)
    assert not copy.keeper.blank and copy.status is Status.UPDATING, "its vote is back before its messages"
    assert not copy.catch_up.begin_anew() and "updater is gone" in copy.outbox.retired


def test_an_updater_sends_as_much_as_is_taken():
    copy = in_status(Status.JOINING)
    copy.outbox.take()
    copy.catch_up.give("b3.r0", MINOR)
    assert copy.outbox.take(UpdateStart) and copy.outbox.dirty
    assert copy.catch_up.next_chunks()
    ((chunk),) = copy.outbox.take(UpdateFront)
    assert chunk.last and chunk.blobs == [b"m", b"n"]
    assert not copy.catch_up.next_chunks() and copy.catch_up.given
    copy.catch_up.taken("b3.r0", UpdateTaken("q#1", chunk.chunk))
    assert not copy.catch_up.given


def test_an_incarnation_that_is_out_ends_its_process_and_a_later_one_its_broker():
    for inc, evicted, retires in ((1, 0, False), (2, 0, True), (3, 1, True)):
        copy = in_status(Status.SERVING)
        copy.catch_up.fenced(inc)
        assert (len(copy.outbox.take()), bool(copy.outbox.retired)) == (evicted, retires)
