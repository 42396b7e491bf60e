"""Entries that are kept for durable voters that are away: how far, how many, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import integers, sampled_from
from made_up_logs import ONE, TWO
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import PeerUp
from mantamq.protocol.sequencer import backlog
from mantamq.protocol.sequencer.backlog import Backlog, Lag
from mantamq.protocol.sequencer.election import PREPARING, Election
from mantamq.protocol.sequencer.keepers import Keepers
from mantamq.protocol.sequencer.retention import Retention
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.events import CLUSTER, Entry
from mantamq.protocol.wire.log_frames import Ack, Append, Evicted, LogReport
from msgspec.structs import replace
from sequencer_in_memory import MEMBERS, Order

FEW = Limits(retained_entries=20, backlog_entries=1_000_000)
EVENT = b"x" * 100


class StoredOrder(Order):
    """Its keepers have their logs on disk, and a cluster stream is there as well."""

    def __init__(self, limits: Limits = DEFAULT, stored: bool = True) -> None:
        super().__init__(limits=limits)
        self.stored = stored
        self.numbers = 0
        self.keepers = {name: Keeper("q#1", name, 1, voters=MEMBERS, stored=stored) for name in MEMBERS}
        for name in MEMBERS:
            self.machine.step(PeerUp(name))
            self.tell(name, self.keepers[name].log_report())
            self.tell(name, Keeper(CLUSTER, name, 1, voters=MEMBERS, stored=stored).log_report())
        self.settle()

    @property
    def log(self) -> Stream:
        return self.machine.order.streams["q#1"]

    def enqueue(self, count: int, event: bytes = EVENT) -> None:
        for _ in range(count):
            self.numbers += 1
            self.request(self.numbers, event)
        self.settle()

    def lose(self, name: str) -> None:
        """It dies, and is evicted."""
        self.leave(name)
        self.machine.keepers.evict(name)
        self.settle()

    def come_back(self, name: str) -> list[Any]:
        """It comes back with its log, in a new life; what it is told besides entries."""
        self.away.discard(name)
        keeper = self.keepers[name]
        keeper.opened, keeper.life = keeper.life, keeper.life + 1_000_000
        self.said.clear()
        self.tell(name, keeper.log_report())
        return [frame for peer, frame in self.settle() if peer == name]


def it_comes_back_by_entries() -> None:
    order = StoredOrder()
    order.enqueue(10)
    order.lose("b3")
    order.enqueue(50)
    assert not order.come_back("b3"), "it was told to forget what it has"
    assert order.keepers["b3"].end == order.log.end
    assert order.events("b3") == order.events("b1")
    order.enqueue(1)
    assert order.log.base == order.log.commit, "nobody is away: nothing is retained"


def test_a_voter_that_was_away_comes_back_by_entries():
    it_comes_back_by_entries()


def test_nothing_is_kept_for_a_voter_whose_log_is_not_on_disk():
    order = StoredOrder(stored=False)
    order.enqueue(10)
    order.lose("b3")
    order.enqueue(50)
    assert order.log.base == order.log.commit
    assert [type(frame) for frame in order.come_back("b3")] == [Evicted]


def test_beyond_the_bound_it_is_given_up_and_nothing_is_kept():
    order = StoredOrder(FEW)
    order.lose("b3")
    order.enqueue(10)
    assert order.log.base < order.log.commit - 9
    order.enqueue(20)
    assert order.log.base == order.log.commit
    (told,) = order.come_back("b3")
    assert isinstance(told, Evicted) and told.forget


def test_of_two_that_are_away_the_one_that_lacks_most_is_given_up():
    order = StoredOrder(FEW)
    order.lose("b3")
    order.enqueue(15)
    order.leave("b2")
    order.machine.evictions.begin("b2")  # without a majority nothing more is committed
    order.keepers["b2"].append(Append((1, 7), "q#1", order.log.end, (1, 7), 0, 0, []))
    order.log.commit = order.log.held = order.log.end
    order.log.left["b2"] = order.log.end - 2
    order.machine.backlog.retention._limits = Limits(retained_entries=10)
    assert order.machine.backlog.retention.upto(order.log) == order.log.end - 2
    assert order.log.left["b3"] == -1


def holds_no_flow_control() -> None:
    """Much is kept for one that is away, and little is allowed to one that is here; that one is behind by nothing."""
    order = StoredOrder(Limits(backlog_entries=20, retained_entries=1000))
    order.lose("b3")
    order.enqueue(100)
    assert order.log.commit - order.log.base >= 100
    order.machine.backlog.look()
    assert not order.machine.backlog.on
    # One more breaks its link for a moment: it lacks what was ordered since, and not what is kept for the other.
    order.leave("b2")
    assert order.machine.backlog.lag("b2").entries < 5, "it is said to lack what is kept for another"
    order.machine.backlog.look()
    assert not order.machine.backlog.on, "retained entries have turned flow control on"


def test_what_is_retained_is_no_backlog():
    holds_no_flow_control()


def test_one_that_is_back_is_behind_by_what_it_lacks():
    order = StoredOrder(Limits(backlog_entries=20, retained_entries=1000))
    order.lose("b3")
    order.enqueue(100)
    order.tell("b3", _returned(order, "b3"))
    order.machine.evictions.absent.discard("b3")
    assert order.machine.backlog.lag("b3").entries >= 100
    order.machine.backlog.look()
    assert "b3" in order.machine.backlog.on


def _returned(order: StoredOrder, name: str) -> LogReport:
    keeper = order.keepers[name]
    keeper.opened, keeper.life = keeper.life, keeper.life + 1_000_000
    return keeper.log_report()


def test_one_that_was_passed_over_while_it_was_here_is_kept_nothing():
    order = StoredOrder()
    order.enqueue(5)
    order.away.add("b3")
    order.enqueue(5)
    order.machine.backlog._pass_over(order.log, "b3")
    order.machine.keepers.evict("b3")
    order.enqueue(5)
    assert order.log.base == order.log.commit


def wrong_term() -> None:
    """One that is back holds an entry that a later term has overruled: it gets what is committed instead."""
    order = StoredOrder()
    order.enqueue(3)
    order.lose("b3")
    keeper = order.keepers["b3"]
    end = keeper.end
    keeper._log[end + 1] = Entry((0, 5), 99, "o", 1, 99, b"overruled")
    keeper.end, keeper.end_ballot = end + 1, (0, 5)
    order.enqueue(10)
    assert not order.come_back("b3")
    assert order.events("b3") == order.events("b1"), "it holds an entry of the wrong term"


def test_an_overruled_entry_does_not_count_as_held():
    wrong_term()


def not_on_disk_does_not_count() -> None:
    """A blank one has been updated, and nothing of it is on disk: it is sent what is behind, and not given its vote."""
    order = StoredOrder()
    order.enqueue(10)
    order.lose("b3")
    order.enqueue(5)
    end = order.log.commit
    blank = LogReport(
        "q#1", "b3", end, (1, 7), (1, 7), end, end, end, 2_000_000, True, voters=MEMBERS, stored=True, whole=False
    )
    order.tell("b3", blank)
    keeper = order.log.keepers["b3"]
    order.tell("b3", Ack((1, 7), "q#1", "b3", 0, end))
    assert keeper.next == end + 1 and not keeper.updating, "it is sent what is behind"
    assert not keeper.rejoin, "it is given its vote by what is not on disk"
    order.tell("b3", Ack((1, 7), "q#1", "b3", end, end))
    assert keeper.rejoin


def test_what_an_update_has_brought_counts_when_it_is_on_disk():
    not_on_disk_does_not_count()


# ---- a sequencer that takes over


def taken_over(**options: Any) -> int:
    """The first entry that is fetched, with b3 away."""
    election = Election(list(MEMBERS), PREPARING)
    stream = Stream("q#1", MEMBERS)
    for name in ("b1", "b2"):
        report = LogReport(
            "q#1", name, 5000, ONE, TWO, commit=4990, base=100, log_inc=1, voters=list(MEMBERS), **options
        )
        stream.reports[name] = f"{name}.r0", report
    source = election.source(stream, {}, list(MEMBERS), set(), 10_000)
    assert source is not None
    return source[2]


def test_one_that_takes_over_has_what_the_keepers_have_of_a_durable_stream():
    assert taken_over(stored=True) == 101
    assert taken_over(stored=False) == 4990 - 256 + 1


# ---- against a model


class Kept(RuleBasedStateMachine):
    """One voter of each stream may be away. Whoever comes back lacks nothing that was within the bound."""

    def __init__(self) -> None:
        super().__init__()
        self.order = StoredOrder(Limits(retained_bytes=3000, retained_entries=25, backlog_entries=1_000_000))
        self.away = ""

    @rule(count=integers(1, 12), size=integers(1, 400))
    def enqueue(self, count: int, size: int) -> None:
        self.order.enqueue(count, b"e" * size)

    @precondition(lambda self: not self.away)
    @rule(name=sampled_from(MEMBERS))
    def lose(self, name: str) -> None:
        self.away = name
        self.order.lose(name)

    @precondition(lambda self: self.away)
    @rule()
    def come_back(self) -> None:
        name, self.away = self.away, ""
        keeper, stream = self.order.keepers[name], self.order.log
        lacking = keeper.end + 1 <= stream.base
        told = self.order.come_back(name)
        assert bool(told) == lacking
        if lacking:  # blank, and given its vote again
            self.order.keepers[name] = other = Keeper("q#1", name, keeper.life + 1, voters=MEMBERS, stored=True)
            source = next(self.order.keepers[b] for b in MEMBERS if b != name)
            other.blank = True
            other.restore(source.update(source.voter, name, None))
            other.blank = False
            other.log_inc = other.life
            other.incs[name] = other.life
            self.order.applied[name] = list(self.order.applied[source.voter])
            self.order.tell(name, other.log_report())
            self.order.settle()

    @invariant()
    def bounded(self) -> None:
        stream, limits = self.order.log, self.order.machine.limits
        kept = [len(stream.log[index].event) for index in range(stream.base + 1, stream.held + 1)]
        assert sum(kept) <= limits.retained_bytes and len(kept) <= limits.retained_entries, "more is retained"
        retention = self.order.machine.backlog.retention
        if self.away:
            assert (retention.bytes, retention.entries) == (sum(kept), len(kept))

    @invariant()
    def whole(self) -> None:
        ends = {self.order.keepers[name].end for name in MEMBERS if name != self.away}
        assert ends == {self.order.log.end}
        if self.away:
            left = self.order.log.left.get(self.away, -1)
            assert left < 0 or self.order.log.base <= left


TestKept = Kept.TestCase
TestKept.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


# ---- planted bugs


def test_an_update_that_counts_before_it_is_on_disk_is_found(monkeypatch):
    progress = Keepers.__dict__["_progress"].__func__
    hasty = staticmethod(lambda stream, peer, frame: progress(stream, peer, replace(frame, whole=True)))
    monkeypatch.setattr(Keepers, "_progress", hasty)
    with pytest.raises(AssertionError, match="not on disk"):
        not_on_disk_does_not_count()


def test_a_bound_that_is_not_kept_is_found(monkeypatch):
    monkeypatch.setattr(Retention, "upto", lambda self, stream: self._low(stream))
    with pytest.raises(AssertionError):
        test_beyond_the_bound_it_is_given_up_and_nothing_is_kept()


def test_retained_entries_that_hold_flow_control_are_found(monkeypatch):
    lag_in = Backlog.lag_in

    def all_that_is_kept(self, stream, member):
        held, stream.held = stream.held, stream.base
        try:
            return lag_in(self, stream, member)
        finally:
            stream.held = held

    monkeypatch.setattr(backlog.Backlog, "lag_in", all_that_is_kept)
    monkeypatch.setattr(Backlog, "_kept", lambda self: Lag(1 << 40, 1 << 40))
    with pytest.raises(AssertionError, match="for another"):
        holds_no_flow_control()


def test_a_voter_for_which_nothing_is_kept_is_found(monkeypatch):
    monkeypatch.setattr(Retention, "upto", lambda self, stream: stream.held)
    with pytest.raises(AssertionError, match="to forget"):
        it_comes_back_by_entries()


def test_a_wrong_term_that_counts_is_found(monkeypatch):
    """At the sequencer; a keeper would find it out as well."""
    progress = Keepers.__dict__["_progress"].__func__

    def believes(stream, peer, frame):
        keeper = progress(stream, peer, frame)
        keeper.match, keeper.next = frame.have, frame.have + 1
        return keeper

    monkeypatch.setattr(Keepers, "_progress", staticmethod(believes))
    monkeypatch.setattr(Keeper, "_ballot_at", lambda self, index: (1, 7))
    with pytest.raises(AssertionError, match="wrong term"):
        wrong_term()
