"""A broker's life (`protocol/broker/lifecycle.py`), with an outbox and a cluster stream and nothing else around it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mantamq.protocol.broker.lease import Lease
from mantamq.protocol.broker.lifecycle import (
    CUT_OFF,
    EVICTED,
    JOINING,
    LEAVING,
    LEFT,
    MOVES,
    RETURNING,
    Lifecycle,
    State,
)
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.machine import Close, Retire
from mantamq.protocol.wire.events import CLUSTER, ZERO, Evict, Member, Rejoin, Return, encode_event
from mantamq.protocol.wire.events import Entry as LogEntry
from mantamq.protocol.wire.log_frames import Append, Evicted, Leave, Left, Update, UpdateStart
from mantamq.protocol.wire.queue_frames import GiveUp
from mantamq.protocol.wire.version import MINOR
from msgspec.structs import replace

from tests.unit.broker_bench import LEADER, ONE, Bench

REPLICAS = {"b1.r0": None, "b1.r1": None}


class Life:
    """A lifecycle alone."""

    def __init__(self, state: State = State.VOTER, voters: list[str] | None = None, limits: Limits = DEFAULT) -> None:
        self.bench = Bench("q", voters=voters or ["b1", "b2", "b3"], blank=state is State.BLANK)
        self.lease = Lease()
        self.replicas = dict(REPLICAS)
        if state is State.RETURNING:
            self.bench.cluster.keeper.opened = 4
        self.life = Lifecycle(self.bench.outbox, self.bench.cluster, self.lease, self.replicas, limits)
        self.sent_away: list[str] = []
        if state is State.LEAVING:
            self.drain()
        elif state is State.OUT:
            self.life.retire("")
        self.bench.take()

    def drain(self) -> None:
        self.life.drain(self.sent_away.append)

    def commit(self, event: Rejoin | Return | Member | Evict) -> None:
        """The cluster stream's next entry, which is its first, is committed."""
        keeper = self.bench.cluster.keeper
        entry = LogEntry(ONE, keeper.end + 1, "", 0, 0, encode_event(event))
        frame = Append(ONE, CLUSTER, keeper.end, keeper.end_ballot, keeper.end + 1, 0, [entry])
        committed, refusal = self.bench.cluster.append(frame)
        assert len(committed) == 1 and refusal is None
        self.life.note(event)
        self.bench.cluster.apply(event, keeper.end)
        self.bench.cluster.applied()

    def restore(self, incs: dict[str, int]) -> bool:
        state = self.bench.cluster.wiring.snapshot()
        start = UpdateStart(CLUSTER, "b2", "b1", 9, ONE, 9, {}, incs, state, ["b1", "b2"])
        return self.life.restore(LEADER, start)


HAPPENINGS: dict[str, Callable[[Life], object]] = {
    "its rejoin is committed": lambda one: one.commit(Rejoin("b1", 5)),
    "its return is committed": lambda one: one.commit(Return("b1", 5)),
    "an older life's return is committed": lambda one: one.commit(Return("b1", 4)),
    "its joining is committed": lambda one: one.commit(Member("b1", 5, True)),
    "an older incarnation's joining is committed": lambda one: one.commit(Member("b1", 4, True)),
    "an update brings its rejoin": lambda one: one.restore({"b1": 5}),
    "an update brings another's rejoin": lambda one: one.restore({"b2": 5}),
    "it is asked to leave": lambda one: one.drain(),
    "its replicas have given up": lambda one: [one.life.given_up(replica) for replica in REPLICAS],
    "its leaving is committed": lambda one: one.commit(Member("b1", 5, False)),
    "its eviction is committed": lambda one: one.commit(Evict("b1", 5)),
    "an older incarnation is evicted": lambda one: one.commit(Evict("b1", 4)),
    "the leader says that it is evicted": lambda one: one.life.evicted(LEADER, Evicted("")),
    "another says that it is evicted": lambda one: one.life.evicted("sequencer9", Evicted("")),
    "the leader says that it has left": lambda one: one.life.has_left(LEADER, Left("b1")),
    "the leader says that another has left": lambda one: one.life.has_left(LEADER, Left("b2")),
    "it has no incarnation left": lambda one: one.life.retire("used up"),
}


def test_a_broker_moves_by_the_table_and_makes_every_move_in_it():
    made: dict[State, set[State]] = {state: set() for state in State}
    for state in State:
        for what, happens in HAPPENINGS.items():
            one = Life(state)
            assert one.life.state is state
            happens(one)
            if one.life.state is not state:
                assert one.life.state in MOVES[state], f"{state} -> {one.life.state} when {what}"
                made[state].add(one.life.state)
    assert made == MOVES


@pytest.mark.parametrize(
    ("state", "why"),
    [(State.BLANK, JOINING), (State.RETURNING, RETURNING), (State.VOTER, ""), (State.LEAVING, LEAVING)],
)
def test_it_lets_clients_in_as_a_voter_only(state, why):
    assert Life(state).life.refusal(rescue=False) == why
    served = Life(state)
    served.lease.heard(1, 0, served.bench.outbox.now_ms)
    assert served.life.refusal(rescue=True) == why, "there is a majority: it will be let in soon"


def test_one_that_comes_back_without_a_majority_lets_in_whoever_only_looks():
    one = Life(State.RETURNING)
    assert one.life.refusal(rescue=False) == RETURNING and one.life.refusal(rescue=True) == ""
    one.lease.heard(1, 0, 1)
    one.bench.outbox.now_ms = one.lease.until_ms
    assert one.life.refusal(rescue=True) == RETURNING
    one.bench.outbox.now_ms += 1
    assert one.life.refusal(rescue=False) == RETURNING and one.life.refusal(rescue=True) == ""


def test_without_its_lease_it_lets_in_whoever_only_looks():
    one = Life()
    one.lease.heard(1, 0, 1)
    assert one.life.refusal(rescue=False) == "" and one.life.needed(1)
    one.bench.outbox.now_ms = one.lease.until_ms + 1
    assert one.life.refusal(rescue=False) == CUT_OFF and one.life.refusal(rescue=True) == ""
    assert not one.life.needed(one.bench.outbox.now_ms)


def test_who_leaves_sends_clients_away_then_empties_its_replicas_and_then_asks():
    one = Life()
    one.drain()
    assert one.sent_away == [LEAVING] and one.bench.take() == [("b1.r0", GiveUp()), ("b1.r1", GiveUp())]
    one.life.given_up("b1.r0")
    one.replicas["b1.r2"] = None
    one.life.replica_up("b1.r2")
    assert one.bench.take() == [("b1.r2", GiveUp())], "one that comes meanwhile has to give up, too"
    one.life.given_up("b1.r1")
    assert one.bench.take() == []
    one.life.given_up("b1.r2")
    leave = (LEADER, Leave("b1", 5, ["q#1"], 0))
    assert one.bench.take() == [leave]
    one.drain()
    assert one.sent_away == [LEAVING] and one.bench.take() == [leave], "again, as often as one likes"


def test_the_last_voter_does_not_leave():
    one = Life(voters=["b1"])
    one.drain()
    assert one.life.state is State.VOTER and one.bench.take() == []


def test_it_retires_for_the_reason_that_it_was_told():
    one = Life()
    one.commit(Evict("b1", 5))
    one.commit(Member("b1", 5, False))
    one.life.evicted("b1.r0", Evicted("found in a queue"))
    assert one.bench.take() == [Retire(EVICTED), Retire(LEFT, left=True), Retire("found in a queue")]


def test_another_is_dismissed_and_known_to_have_left_until_it_comes_again():
    one = Life()
    one.life.dismiss("b1")
    assert one.bench.take() == []
    one.life.dismiss("b2")
    assert one.bench.take() == [(LEADER, Leave("b2", 0, ["q#1"], 0))]
    one.life.has_left("sequencer9", Left("b2"))
    assert one.life.left == set()
    one.life.has_left(LEADER, Left("b2"))
    assert one.life.left == {"b2"}
    one.commit(Member("b2", 9, True))
    assert one.life.left == set()


def test_a_voter_tells_the_wiring_and_a_blank_one_takes_it():
    voter, blank = Life(), Life(State.BLANK)
    voter.life.update(LEADER, Update("q#1", "b2"))
    blank.life.update(LEADER, Update(CLUSTER, "b2"))
    assert voter.bench.take() == blank.bench.take() == []
    voter.life.update(LEADER, Update(CLUSTER, "b2"))
    ((peer, told),) = voter.bench.take()
    assert (peer, told.updatee, told.ballot) == (LEADER, "b2", ZERO)
    assert not voter.restore({}), "a voter keeps what it has"
    assert blank.restore({"b1": 5}) and blank.life.returned
    assert not blank.restore({"b1": 5})


def test_a_large_wiring_is_told_in_pieces_of_which_one_that_is_broken_ends_the_link():
    limits = replace(DEFAULT, update_piece_bytes=20)
    voter, blank = Life(limits=limits), Life(State.BLANK, limits=limits)
    voter.commit(Rejoin("b2", 5))
    voter.life.update(LEADER, Update(CLUSTER, "b2"))
    (whole,) = [frame for _, frame in voter.bench.take()]
    voter.life.update(LEADER, Update(CLUSTER, "b2", MINOR))
    pieces = [frame for _, frame in voter.bench.take()]
    assert isinstance(whole, UpdateStart) and len(pieces) > 3
    *first, last = pieces
    for broken in (replace(last, data=b"?" * len(last.data)), last):
        assert not any(blank.life.restore(LEADER, piece) for piece in first)
        assert blank.bench.cluster.keeper.end == 0 and blank.bench.take() == []
        taken = blank.life.restore(LEADER, broken)
        closed = [effect.peer for effect in blank.bench.take() if isinstance(effect, Close)]
        assert (taken, closed) == (broken is last, [] if broken is last else [LEADER])
    assert blank.bench.cluster.keeper.end == 1
    assert blank.bench.cluster.wiring.digest() == voter.bench.cluster.wiring.digest()
    assert not voter.life.restore(LEADER, pieces[0])
