"""The small machines alone: keeper, sequencer, consume lock, numbers already seen, credit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.broker.lease import Lease
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.lock.holder import IDLE_MS, LockHolder
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import (
    Flush,
    Multicast,
    PeerDown,
    PeerGone,
    PeerUp,
    Received,
    Retire,
    Send,
    SetTimer,
    Tick,
)
from mantamq.protocol.queue.credit import UNLIMITED, CreditBalance
from mantamq.protocol.queue.duplicates import LastNumbers
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.sequencer import replicator as saying_module
from mantamq.protocol.sequencer.election import PREPARING, Election
from mantamq.protocol.sequencer.failure_detector import FailureDetector
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.replicator import LAZY_MS
from mantamq.protocol.sequencer.stream import Progress, Stream
from mantamq.protocol.timing import BEAT_MS, BROKEN_MS, LEASE_MS, UPDATE_RETRY_MS
from mantamq.protocol.wire.events import (
    CLUSTER,
    ZERO,
    AnyEvent,
    Ballot,
    Enqueue,
    Entry,
    Evict,
    Own,
    Rejoin,
    Start,
    decode_event,
    encode_event,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import (
    Ack,
    Append,
    Evicted,
    Fetch,
    Fetched,
    Gap,
    Heartbeat,
    HeartbeatReply,
    LogDropped,
    LogReport,
    Nack,
    Orphaned,
    Promise,
    Request,
    Results,
    Suspect,
    Update,
    UpdateFront,
    UpdateStart,
)
from mantamq.protocol.wire.queue_frames import Host, OwnerIs
from mantamq.protocol.wiring.wiring import QueueDefinition

ONE: Ballot = (1, 7)
TWO: Ballot = (2, 3)


# ---- the keeper


def entry(index: int, ballot: Ballot = ONE) -> Entry:
    return Entry(ballot, index, "b1", 1, index, b"%d of %d" % (index, ballot[0]))


def entries(first: int, last: int, ballot: Ballot = ONE) -> list[Entry]:
    return [entry(index, ballot) for index in range(first, last + 1)]


def append(
    previous: int,
    new: list[Entry],
    commit: int = 0,
    *,
    ballot: Ballot = ONE,
    previous_ballot: Ballot | None = None,
    trim: int = 0,
) -> Append:
    known = previous_ballot or (ballot if previous else ZERO)
    return Append(ballot, "q#1", previous, known, commit, trim, new)


def keeper(end: int = 0, commit: int = 0) -> Keeper:
    """A keeper that holds entries of ballot ONE up to `end`."""
    made = Keeper("q#1", "b1")
    committed, refusal = made.append(append(0, entries(1, end), commit))
    assert refusal is None and committed == entries(1, commit)
    return made


@pytest.mark.parametrize(
    "machine",
    [
        SequencerMachine(1, ["b1", "b2", "b3"]),
        BrokerMachine("b1", 1, ["b1", "b2", "b3"]),
        ReplicaMachine("b1.r0", "b1", 1),
    ],
    ids=lambda machine: type(machine).__name__,
)
def test_what_a_step_has_said_stays_as_it_was(machine: Any):
    nothing = machine.step(Tick(1))
    assert nothing == []
    newer, older = Heartbeat((9, 9), 1, 1), Heartbeat((8, 8), 1, 1)
    said = [machine.step(Received(peer, beat)) for peer, beat in (("sequencer", newer), ("sequencer2", older))]
    said += [machine.step(PeerUp("b1")), machine.step(Flush())]
    assert any(said)
    assert nothing == [], "a list that was handed out is the caller's"


def test_a_keeper_hands_out_what_is_committed_once_and_in_order():
    one = Keeper("q#1", "b1")
    assert one.log_report() == LogReport("q#1", "b1", 0, ZERO, ZERO)
    assert one.append(append(0, entries(1, 3), 0)) == ([], None)
    assert one.ack(0) == Ack(ONE, "q#1", "b1", 3, 0)
    assert one.append(append(3, [entry(4)], 2)) == (entries(1, 2), None)
    assert one.append(append(4, [], 4)) == (entries(3, 4), None)
    assert one.append(append(4, [], 4)) == ([], None)
    assert one.append(append(4, [], 3)) == ([], None), "commit does not go back"
    assert (one.end, one.commit, one.end_ballot) == (4, 4, ONE)
    numbers = {"b1": (1, 4, 1)}
    assert one.log_report() == LogReport("q#1", "b1", 4, ONE, ONE, seq=4, commit=4, numbers=numbers)


def test_the_same_entries_again_change_nothing():
    one = keeper(3, 1)
    assert one.append(append(0, entries(1, 3), 3)) == (entries(2, 3), None)
    assert one.append(append(1, entries(2, 4), 3)) == ([], None)
    assert one.end == 4


def test_commit_reaches_no_further_than_the_append_that_carries_it():
    one = keeper(3)
    assert one.append(append(1, [], 3)) == ([entry(1)], None), "what follows may be another's"


def test_a_missing_entry_is_a_gap():
    one = keeper(2)
    assert one.append(append(3, [entry(4)], 4)) == ([], Gap(ONE, "q#1", "b1", 2))
    assert (one.end, one.commit) == (2, 0)
    assert one.append(append(2, entries(3, 4), 4)) == (entries(1, 4), None)


def test_a_lower_ballot_is_refused_and_changes_nothing():
    one = keeper(1)
    one.append(append(1, [entry(2, TWO)], 0, ballot=TWO, previous_ballot=ONE))
    assert one.append(append(2, [entry(3)], 2)) == ([], Nack(TWO))
    assert (one.promised, one.end, one.commit) == (TWO, 2, 0)
    assert one.append(append(0, [], 0)) == ([], Nack(TWO)), "not even a heartbeat"


def test_a_conflicting_suffix_is_dropped():
    one = keeper(4, 1)
    newer = append(2, [entry(3, TWO)], 3, ballot=TWO, previous_ballot=ONE)
    assert one.append(newer) == ([entry(2), entry(3, TWO)], None)
    assert (one.end, one.end_ballot, one.commit) == (3, TWO, 3)
    late = append(4, [entry(5, TWO)], ballot=TWO)
    assert one.append(late) == ([], Gap(TWO, "q#1", "b1", 3)), "the old entry 4 is gone"


def test_an_entry_before_that_does_not_match_is_a_gap_from_the_commit_on():
    one = keeper(4, 1)
    assert one.append(append(3, [entry(4, TWO)], ballot=TWO)) == ([], Gap(TWO, "q#1", "b1", 1))
    assert one.end == 4, "nothing is dropped before it is known what replaces it"
    whole = append(1, entries(2, 4, TWO), 4, ballot=TWO, previous_ballot=ONE)
    assert one.append(whole) == (entries(2, 4, TWO), None)


def test_what_is_committed_is_never_dropped():
    one = keeper(3, 2)
    assert one.append(append(0, entries(1, 3, TWO), 3, ballot=TWO)) == ([entry(3, TWO)], None)


def test_trimmed_entries_are_forgotten_and_the_rest_goes_on():
    one = keeper(5, 3)
    assert one.append(append(5, [], 3, trim=4)) == ([], None), "no further than what is committed"
    assert one.append(append(5, [entry(6)], 6, trim=3)) == (entries(4, 6), None)
    assert one.append(append(6, [], 6, trim=6)) == ([], None)
    assert one.append(append(6, [entry(7)], 7, trim=2)) == ([entry(7)], None)
    assert one.append(append(2, entries(3, 8), 8)) == ([entry(8)], None), "a repeat from before the trim"
    assert (one.end, one.commit) == (8, 8)


def test_a_promise_tells_all_that_a_sequencer_must_know_to_adopt_the_log():
    one = keeper(4, 2)
    one.promise(TWO)
    told = one.log_report()
    assert (told.promised, told.have, told.ballot, told.commit, told.numbers) == (TWO, 4, ONE, 2, {"b1": (1, 2, 1)})
    assert one.fetch(Fetch(TWO, "q#1", 3, 4)) == Fetched(TWO, "q#1", 3, ONE, entries(3, 4))
    assert one.fetch(Fetch(ONE, "q#1", 3, 4)) is None, "to the one it follows only"
    one.promise(ONE)
    assert one.promised == TWO, "a promise never goes back (K1)"
    assert one.append(append(4, [entry(5)], 5)) == ([], Nack(TWO)), "the older one has lost it"
    taken = append(4, [entry(5, TWO)], 5, ballot=TWO, previous_ballot=ONE)
    assert one.append(taken) == ([*entries(3, 4), entry(5, TWO)], None)


def test_what_an_older_sequencer_left_is_not_acknowledged_to_a_newer_one():
    one = keeper(4, 2)
    assert one.append(append(3, [], 2, ballot=TWO, previous_ballot=ONE)) == ([], None)
    assert one.ack(2).match == 3, "entry 4 is not the newer one's yet"


def test_a_blank_keeper_votes_again_when_its_return_is_committed():
    one = Keeper("q#1", "b1", inc=9, blank=True)
    old, new = (encode_event(Rejoin("b1", inc)) for inc in (8, 9))
    rejoins = [Entry(ONE, index, "", 0, 0, event) for index, event in enumerate((old, new), 1)]
    one.append(append(0, rejoins, 1))
    assert one.blank, "that was an incarnation before it"
    assert one.log_report().uncommitted_incs == {"b1": 9}, "a newer sequencer must know of it, committed or not"
    one.append(append(2, [], 2))
    assert not one.blank


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 14), st.integers(0, 12)), max_size=30))
def test_any_appends_of_one_log_hand_out_a_prefix_of_it(frames):
    """Lost, repeated, late: whatever of one sequencer's log arrives, each entry is handed out once, in order."""
    one = Keeper("q#1", "b1")
    handed: list[Entry] = []
    for previous, count, commit, trim in frames:
        end = one.end
        committed, refusal = one.append(append(previous, entries(previous + 1, previous + count), commit, trim=trim))
        handed += committed
        assert (refusal is not None) == (previous > end)
        assert one.end >= end
        assert handed == entries(1, one.commit)


# ---- the sequencer

MEMBERS = ["b1", "b2", "b3"]


class Order:
    """A sequencer with real keepers; `away` ones hear nothing. A member is its own peer."""

    def __init__(self, members: list[str] = MEMBERS, stream: str = "q#1") -> None:
        self.machine = SequencerMachine(7, members)
        self.stream = stream
        self.keepers = {name: Keeper(stream, name) for name in members}
        self.applied: dict[str, list[Entry]] = {name: [] for name in members}
        self.away: set[str] = set()
        self.said: list[tuple[str, Frame]] = []  # to others than keepers
        for name in members:
            self.tell(name, self.keepers[name].log_report())

    def tell(self, peer: str, frame: Frame) -> None:
        """One frame, and its answer if it has one at once."""
        self.carry_out(self.machine.step(Received(peer, frame)))

    def request(self, number: int, *events: bytes, inc: int = 1, origin: str = "o", stream: str = "") -> None:
        parts = [(stream or self.stream, event) for event in events]
        self.tell(origin, Request(origin, inc, number, parts))

    def carry_out(self, effects: list[Any]) -> list[tuple[str, Frame]]:
        """Deliver to the keepers; returns the keepers' answers."""
        answers: list[tuple[str, Frame]] = []
        for effect in effects:
            if isinstance(effect, SetTimer | Retire):
                continue
            peers = effect.peers if isinstance(effect, Multicast) else [effect.peer]
            for peer in peers:
                if not isinstance(effect.frame, Append):
                    self.said.append((peer, effect.frame))
                elif effect.frame.stream == self.stream and peer not in self.away:
                    one = self.keepers[peer]
                    committed, refusal = one.append(effect.frame)
                    self.applied[peer] += committed
                    answers.append((peer, refusal or one.ack(one.commit)))
        return answers

    def settle(self) -> list[tuple[str, Frame]]:
        """Until nobody has anything to say. Returns what others than keepers were told."""
        for _ in range(100):
            answers = self.carry_out(self.machine.step(Flush()))
            if not answers:
                break
            for peer, frame in answers:
                self.tell(peer, frame)
        else:
            raise AssertionError("they never stop talking")
        said, self.said = self.said, []
        return said

    def leave(self, name: str) -> None:
        self.away.add(name)
        self.machine.step(PeerDown(name))

    def events(self, name: str) -> list[bytes]:
        """What a keeper has applied, without the term's start."""
        return [one.event for one in self.applied[name] if one.origin]


def test_a_stream_begins_with_the_start_of_the_term():
    order = Order()
    order.request(1, b"a", b"b")
    assert order.settle() == [("o", Results(1, [1]))]
    start, first, second = order.applied["b2"]
    assert decode_event(start.event) == Start((1, 7)) and start.origin == ""
    assert first == Entry((1, 7), 2, "o", 1, 1, b"a") and second == Entry((1, 7), 3, "o", 1, 1, b"b")


def test_an_answer_waits_for_a_majority():
    order = Order()
    order.settle()
    order.away = {"b2", "b3"}
    order.request(1, b"a")
    assert order.settle() == []
    assert order.events("b1") == [], "one of three is no majority"
    order.tell("b2", Gap((1, 7), "q#1", "b2", 1))  # it missed that one, and is back
    order.away = {"b3"}
    assert order.settle() == [("o", Results(1, [1]))]
    assert order.events("b1") == order.events("b2") == [b"a"]


@pytest.mark.parametrize(("members", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_how_many_make_a_majority(members, needed):
    names = [f"b{n}" for n in range(1, members + 1)]
    for present in range(members + 1):
        order = Order(names)
        order.settle()
        order.away = set(names[present:])
        order.request(1, b"a")
        assert bool(order.settle()) == (present >= needed)


def test_acknowledgements_of_another_term_stream_or_stranger_do_not_count():
    order = Order()
    order.settle()
    order.away = set(MEMBERS)
    order.request(1, b"a")
    order.settle()
    order.tell("b1", Ack((1, 7), "q#1", "b1", 2, 1))
    order.tell("b2", Ack((0, 9), "q#1", "b2", 2, 1))
    order.tell("b2", Ack((1, 7), "r#2", "b2", 2, 1))
    order.tell("b9", Ack((1, 7), "q#1", "b9", 2, 1))
    order.tell("b9", LogReport("q#1", "b9", 2, (1, 7)))
    order.tell("b1", Ack((1, 7), "q#1", "b1", 2, 1))
    assert order.settle() == []
    order.tell("b2", Ack((1, 7), "q#1", "b2", 2, 1))
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_repeat_is_answered_again_and_ordered_once():
    order = Order()
    order.request(1, b"a")
    order.request(1, b"a")
    assert order.settle() == [("o", Results(1, [1]))], "while it is on its way, a repeat has no answer of its own"
    order.request(1, b"a")
    assert order.settle() == [("o", Results(1, [1]))]
    assert order.events("b1") == order.events("b3") == [b"a"]


def test_a_repeat_from_elsewhere_is_answered_there():
    order = Order()
    order.tell("first link", Request("o", 1, 1, [("q#1", b"a")]))
    order.tell("second link", Request("o", 1, 1, [("q#1", b"a")]))
    assert order.settle() == [("second link", Results(1, [1]))]
    assert order.events("b1") == [b"a"]


def test_numbers_that_an_earlier_sequencer_has_answered_are_left_out():
    order = Order()
    order.request(3, b"c")
    order.request(7, b"g")
    assert order.settle() == [("o", Results(1, [3, 7]))]
    order.request(3, b"c")
    assert order.settle() == [("o", Results(1, [3]))]
    assert order.events("b1") == [b"c", b"g"]


def test_each_origin_has_its_own_numbers():
    order = Order()
    order.request(1, b"a", origin="o")
    order.request(1, b"b", origin="p")
    assert order.settle() == [("o", Results(1, [1])), ("p", Results(1, [1]))]


def test_an_older_incarnation_is_ignored_and_a_newer_one_begins_at_one():
    order = Order()
    order.request(1, b"a", inc=2)
    order.request(2, b"old", inc=1)
    order.request(1, b"old", inc=1)
    assert order.settle() == [("o", Results(2, [1]))]
    order.request(1, b"b", inc=3)
    order.request(2, b"old", inc=2)
    assert order.settle() == [("o", Results(3, [1]))]
    assert order.events("b1") == [b"a", b"b"]


def test_one_answer_for_all_parts():
    order = Order()
    order.tell("o", Request("o", 1, 1, [("q#1", b"here"), ("r#2", b"there")]))
    assert order.settle() == [], "stream r#2 has no keepers"
    assert order.events("b1") == [b"here"]
    for name in ("b1", "b3"):
        order.tell(name, LogReport("r#2", name, 0, ZERO))
        order.tell(name, Ack((1, 7), "r#2", name, 2, 2))
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_request_of_nothing_is_answered():
    order = Order()
    order.request(1)
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_keeper_that_was_away_catches_up():
    order = Order()
    order.request(1, b"a")
    order.settle()
    order.leave("b3")
    for number in range(2, 30):
        order.request(number, b"%d" % number)
        assert order.settle() == [("o", Results(1, [number]))]
    assert order.events("b3") == [b"a"]
    order.away = set()
    order.tell("b3", order.keepers["b3"].log_report())
    order.settle()
    assert order.events("b3") == order.events("b1") and len(order.events("b3")) == 29
    order.leave("b1")
    order.request(30, b"last")
    assert order.settle() == [("o", Results(1, [30]))], "and it counts again"


def test_what_an_absent_keeper_lacks_is_not_forgotten_and_what_all_hold_is():
    order = Order()
    order.leave("b3")
    order.request(1, b"a")
    order.settle()
    assert sorted(order.machine.order.streams["q#1"].log) == [1, 2]
    order.away = set()
    order.tell("b3", order.keepers["b3"].log_report())
    order.request(2, b"b")
    order.settle()
    stream = order.machine.order.streams["q#1"]
    assert (stream.log, stream.base, stream.ballot_at(3)) == ({}, 3, (1, 7)), "its ballot, for the next append"
    order.request(3, b"c")
    order.settle()
    assert order.events("b1") == order.events("b3") == [b"a", b"b", b"c"]


def test_a_large_backlog_goes_out_in_pieces(monkeypatch):
    monkeypatch.setattr(saying_module, "APPEND_BYTES", 100)
    order = Order()
    for number in range(1, 8):
        order.request(number, b"x" * 40)
    order.request(8, b"y" * 500)
    appends = [effect.frame for effect in order.machine.step(Flush()) if isinstance(effect, Multicast)]
    assert [len(frame.entries) for frame in appends] == [3, 2, 2, 1, 1]  # a start is small
    assert [frame.previous for frame in appends] == [0, 3, 5, 7, 8]


def test_a_keeper_that_acknowledges_nothing_is_sent_no_more_than_its_window(monkeypatch):
    monkeypatch.setattr(saying_module, "KEEPER_WINDOW_BYTES", 100)
    monkeypatch.setattr(saying_module, "APPEND_BYTES", 40)
    machine = SequencerMachine(7, ["b1"])
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    for number in range(1, 11):
        machine.step(Received("o", Request("o", 1, number, [("q#1", b"x" * 40)])))

    def sent() -> int:
        frames = [effect.frame for effect in machine.step(Flush()) if isinstance(effect, Multicast)]
        return sum(len(entry.event) for frame in frames for entry in frame.entries)

    assert 60 < sent() <= 100
    assert sent() == 0
    machine.step(Received("b1", Ack((1, 7), "q#1", "b1", 2, 0)))
    assert sent() == 40, "what was acknowledged makes room for as much"


def test_one_that_does_not_act_on_commits_hears_of_them_a_little_later():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.step(Tick(1000))
    machine.step(Flush())
    machine.step(Received("b1", Ack((1, 7), "q#1", "b1", 1, 0, eager=True)))
    machine.step(Received("b2", Ack((1, 7), "q#1", "b2", 1, 0, eager=False)))
    said = machine.step(Flush())
    assert [effect.peers for effect in said if isinstance(effect, Multicast)] == [["b1"]]
    assert SetTimer(1000 + LAZY_MS) in said
    machine.step(Tick(1000 + LAZY_MS - 1))
    assert machine.step(Flush()) == []
    machine.step(Tick(1000 + LAZY_MS))
    (told,) = machine.step(Flush())
    assert isinstance(told, Multicast) and told.peers == ["b2"]
    assert isinstance(told.frame, Append) and told.frame.commit == 1


def test_wiring_is_answered_when_every_member_that_is_here_shows_it():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport(CLUSTER, name, 0, ZERO)))
    machine.step(Received("o", Request("o", 1, 1, [(CLUSTER, b"declare")])))

    def ack(name: str, applied: int) -> list[Any]:
        machine.step(Received(name, Ack((1, 7), CLUSTER, name, 2, applied)))
        return [effect for effect in machine.step(Flush()) if isinstance(effect, Send)]

    assert ack("b1", 2) == ack("b2", 2) == ack("b3", 1) == []
    assert ack("b3", 2) == [Send("o", Results(1, [1]))]
    machine.step(Received("o", Request("o", 1, 2, [(CLUSTER, b"declare more")])))
    for name in ("b1", "b2"):
        machine.step(Received(name, Ack((1, 7), CLUSTER, name, 3, 3)))
    assert [effect for effect in machine.step(Flush()) if isinstance(effect, Send)] == []
    machine.step(PeerDown("b3"))
    assert Send("o", Results(1, [2])) in machine.step(Flush()), "one whose link broke is not waited for"


def test_a_stream_that_all_have_left_is_forgotten_and_its_requests_are_answered():
    order = Order()
    order.settle()
    order.away = set(MEMBERS)
    order.request(1, b"a")
    for name in MEMBERS:
        assert order.settle() == []
        order.tell(name, LogDropped("q#1", name))
    assert order.settle() == [("o", Results(1, [1]))]
    order.request(2, b"too late")
    assert order.settle() == [("o", Results(1, [2]))]
    assert order.machine.report()["streams"] == {}


def test_deposed_by_a_higher_ballot_it_says_nothing_more():
    order = Order()
    order.request(1, b"a")
    order.settle()
    order.tell("b2", Nack((1, 7)))
    order.tell("b2", Nack((1, 6)))
    assert order.machine.election.deposed is None, "its own ballot, or a lower one, is no news"
    order.tell("b2", Nack((1, 8)))
    assert order.machine.election.deposed == (1, 8)
    machine = order.machine
    for frame in [
        Request("o", 1, 2, [("q#1", b"b")]),
        Request("o", 1, 1, [("q#1", b"a")]),
        Request("o", 1, 9, [("q#1", b"a")]),
        LogReport("q#1", "b1", 0, ZERO),
        Ack((1, 7), "q#1", "b1", 2, 2),
        Gap((1, 7), "q#1", "b1", 0),
        Nack((0, 0)),
    ]:
        assert machine.step(Received("b1", frame)) == []
        assert machine.step(Tick(10_000)) == []
        assert machine.step(Flush()) == []
    assert machine.election.deposed == (1, 8)


# ---- the consume lock


def granted(at_ms: int = 1000) -> LockHolder:
    lock = LockHolder()
    lock.granted(4, at_ms)
    assert lock.held and lock.grant == 4
    return lock


def test_the_owner_keeps_the_lock_while_nobody_else_wants_it():
    lock = granted()
    lock.used()
    for now in (1000, 5000, 1_000_000):
        assert lock.decide(now, wants=True, consumers=True) == (None, 0)


def test_a_contended_lock_goes_on_after_its_slice_if_it_was_used():
    lock = granted()
    lock.contended(4, "b2", 50)
    assert lock.decide(1000, wants=True, consumers=True) == (None, 1050)
    assert lock.decide(1050, wants=True, consumers=True) == (None, 0), "nothing delivered: no hand-over traffic"
    lock.used()
    assert lock.decide(1049, wants=True, consumers=True) == (None, 1050)
    assert lock.decide(1050, wants=True, consumers=True) == ("b2", 0)


def test_a_contended_lock_goes_on_at_once_if_nobody_here_wants_anything():
    lock = granted()
    lock.contended(4, "b2", 50)
    assert lock.decide(1000, wants=False, consumers=True) == ("b2", 0)
    assert lock.decide(1000, wants=False, consumers=False) == ("b2", 0)


def test_the_slice_counts_from_the_grant_and_the_word_again_does_not_lengthen_it():
    lock = granted()
    lock.used()
    lock.contended(4, "b2", 50)
    lock.contended(4, "b3", 50)
    assert lock.decide(1049, wants=True, consumers=True) == (None, 1050)
    lock.contended(4, "b3", 80)
    assert lock.decide(1050, wants=True, consumers=True) == (None, 1080)
    assert lock.decide(1080, wants=True, consumers=True) == ("b3", 0)


def test_when_nobody_waits_any_more_it_is_kept():
    lock = granted()
    lock.used()
    lock.contended(4, "b2", 50)
    lock.contended(4, "", 50)
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)


def test_the_word_about_another_grant_is_no_word_about_this_one():
    lock = granted()
    lock.used()
    lock.contended(3, "b2", 0)
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)
    lock.contended(4, "b2", 0)
    lock.passed(5)
    assert (lock.held, lock.grant) == (False, 5)
    lock.granted(6, 2000)
    lock.used()
    assert lock.decide(9999, wants=True, consumers=True) == (None, 0)


def test_a_new_grant_is_not_used_yet():
    lock = granted()
    lock.used()
    lock.passed(5)
    lock.granted(6, 2000)
    lock.contended(6, "b2", 10)
    assert lock.decide(2010, wants=True, consumers=True) == (None, 0)
    lock.used()
    assert lock.decide(2010, wants=True, consumers=True) == ("b2", 0)


def test_without_consumers_the_lock_is_given_up_and_without_credit_after_a_while():
    assert granted().decide(1000, wants=False, consumers=False) == ("", 0)
    lock = granted()
    assert lock.decide(1000, wants=False, consumers=True) == (None, 1000 + IDLE_MS)
    assert lock.decide(1000 + IDLE_MS - 1, wants=False, consumers=True) == (None, 1000 + IDLE_MS)
    assert lock.decide(1000 + IDLE_MS, wants=False, consumers=True) == ("", 0)


def test_credit_in_between_starts_the_wait_again():
    lock = granted()
    lock.decide(1000, wants=False, consumers=True)
    lock.decide(1100, wants=True, consumers=True)
    assert lock.decide(1150, wants=False, consumers=True) == (None, 1150 + IDLE_MS)


# ---- numbers already seen


def test_the_last_number_of_each_client():
    seen = LastNumbers()
    assert seen.last("a") == 0
    seen.note("a", 3)
    seen.note("b", 1)
    seen.note("a", 4)
    assert (seen.last("a"), seen.last("b"), seen.last("c")) == (4, 1, 0)
    assert seen.table() == [("b", 1), ("a", 4)]


def test_the_one_longest_silent_is_forgotten_first():
    seen = LastNumbers(2)
    seen.note("a", 1)
    seen.note("b", 1)
    seen.note("a", 2)
    seen.last("b")  # asking is no sign of life: it is no part of the stream
    seen.note("c", 1)
    assert seen.table() == [("a", 2), ("c", 1)]
    assert seen.last("b") == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9)), max_size=40), st.integers(1, 5))
def test_the_table_is_the_latest_of_the_clients_latest_heard(notes, bound):
    seen = LastNumbers(bound)
    for client, number in notes:
        seen.note(client, number)

    def latest() -> Iterator[tuple[str, int]]:
        known: set[str] = set()
        for client, number in reversed(notes):
            if client not in known:
                known.add(client)
                yield client, number

    assert seen.table() == list(latest())[:bound][::-1]


# ---- credit


def test_without_a_grant_nothing_may_be_sent():
    credit = CreditBalance()
    assert credit.messages == 0
    credit.grant(0, UNLIMITED)
    assert credit.messages == 0


def test_messages_count_down_and_bytes_without_limit_do_not():
    credit = CreditBalance()
    credit.grant(2, UNLIMITED)
    credit.take(1, 10**12)
    assert (credit.messages, credit.bytes) == (1, UNLIMITED)
    credit.take(1, 1)
    assert (credit.messages, credit.bytes) == (0, UNLIMITED)


def test_bytes_are_a_bound_to_the_last_one():
    credit = CreditBalance()
    credit.grant(10, 100)
    credit.take(1, 60)
    assert (credit.messages, credit.bytes) == (9, 40)
    credit.take(1, 40)
    assert (credit.messages, credit.bytes) == (8, 0)


def test_grants_add_up_and_bytes_count_from_where_they_were_first_named():
    credit = CreditBalance()
    credit.grant(1, UNLIMITED)
    credit.grant(2, 50)
    assert (credit.messages, credit.bytes) == (3, 50), "without limit is no number to add to"
    credit.grant(1, 25)
    assert (credit.messages, credit.bytes) == (4, 75)
    credit.grant(0, UNLIMITED)
    assert (credit.messages, credit.bytes) == (4, UNLIMITED)


def test_stop_takes_the_messages_back():
    credit = CreditBalance()
    credit.grant(5, 100)
    credit.stop()
    assert (credit.messages, credit.bytes) == (0, 100)
    credit.grant(1, 0)
    assert (credit.messages, credit.bytes) == (1, 100)


# ---- taking over: what stories meet too rarely


def test_a_learner_commits_nothing_of_an_older_term_by_counting():
    follower = keeper(2)
    follower.voters = ["b1", "b2", "b3"]
    follower.append(append(0, entries(1, 2), ballot=TWO))
    follower.quorum_needed = 1
    assert follower.learn(Ack(TWO, "q#1", "b2", 2, 0)) == []
    follower.append(append(2, entries(3, 3, TWO), ballot=TWO, previous_ballot=ONE))
    assert [entry.seq for entry in follower.learn(Ack(TWO, "q#1", "b2", 3, 0))] == [1, 2, 3]


def test_a_learner_that_hears_of_no_vote_tells_the_sequencer_in_the_end():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Tick(1000))
    replica.step(PeerUp("sequencer"))
    replica.step(Received("sequencer", Heartbeat(ONE, 1, 1)))
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1, ["b1", "b2", "b3"])))
    frame = Append(ONE, "q#1", 0, ZERO, 0, 0, entries(1, 1), "b1.r0", 1)
    told = replica.step(Received("sequencer", frame)) + replica.step(Flush())
    assert not [e for e in told if isinstance(e, Send) and isinstance(e.frame, Ack)], "a vote makes it superfluous"
    (timer,) = [e for e in told if isinstance(e, SetTimer)]
    replica.step(Tick(timer.at_ms))
    told = replica.step(Flush())
    (ack,) = [e.frame for e in told if isinstance(e, Send) and isinstance(e.frame, Ack)]
    assert (ack.match, ack.applied) == (1, 0)


def test_an_older_incarnation_does_not_speak_for_a_voter_that_has_rejoined():
    reign = Election(["b1", "b2", "b3"], PREPARING)
    stream = Stream("q#1")
    stream.reports["b1"] = ("b1.r0", LogReport("q#1", "b1", 9, ONE, TWO, inc=1))
    for known in ({"incs": {"b1": 2}}, {"uncommitted_incs": {"b1": 2}}):
        stream.reports["b2"] = ("b2.r0", LogReport("q#1", "b2", 5, ONE, TWO, inc=1, **known))
        assert list(reign.logs(stream)) == ["b2"]


@pytest.mark.parametrize("inc", [4, 6])
def test_an_answer_to_another_incarnation_completes_nothing(inc):
    done: list[int] = []
    broker = BrokerMachine("b1", 5, ["b1"])
    broker.requests.request([("q#1", b"")], lambda: done.append(1))
    broker.step(Received("sequencer", Results(inc, [1])))
    assert not done
    broker.step(Received("sequencer", Results(5, [1])))
    assert done == [1]


def test_a_replica_begins_with_its_brokers_promise():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, TWO, False, 1)))
    told = replica.step(Received("sequencer", append(0, entries(1, 1))))
    assert told == [Send("sequencer", Nack(TWO))]
    assert replica.queues["q#1"].keeper.end == 0


def test_of_a_request_that_was_cut_in_two_the_rest_is_still_to_come():
    stream = Stream("q#1")
    stream.put(Entry(ONE, 1, "b1.r0", 1, 5, b"first"))
    assert [stream.parts_held("b1.r0", 1, number) for number in (5, 6)] == [1, 0]
    stream.put(Entry(ONE, 2, "b1.r0", 1, 5, b"second"))
    assert stream.parts_held("b1.r0", 1, 5) == 2
    assert stream.parts_held("b1.r0", 1, 4) > 2  # all of it, however many there were


@pytest.mark.parametrize(("blank", "count"), [(False, 1), (True, 0)])
def test_a_broker_that_has_lost_its_log_does_not_say_that_a_queue_is_empty(blank, count):
    reign = Election(["b1", "b2", "b3"], PREPARING)
    reign.promises["b1"] = Promise(TWO, "b1", 1, blank, [])
    assert len(reign.empty(Stream("q#1"), {})) == count


def test_a_sequencer_that_has_stood_still_evicts_nobody_before_it_has_heard():
    pulse = FailureDetector(["b1", "b2", "b3"], 0)
    for at_ms in (0, BEAT_MS):
        pulse.beat(at_ms)
        for broker in ("b1", "b2"):
            pulse.up(broker, at_ms)
    late_ms = 2 * BEAT_MS + BROKEN_MS
    assert pulse.dead(late_ms, set()) == []
    pulse.beat(late_ms)
    assert pulse.dead(late_ms + BEAT_MS, set()) == ["b3"]


@pytest.mark.parametrize("word_first", [True, False])
def test_a_broker_that_its_replica_has_lost_too_is_out_at_once(word_first):
    pulse = FailureDetector(["b1", "b2", "b3"], None)
    for broker in pulse.members:
        pulse.up(broker, 1000)
    steps = [lambda: pulse.orphaned("b3", 1100), lambda: pulse.down("b3", 1100)]
    for step in steps if word_first else steps[::-1]:
        assert pulse.dead(1100, set()) == []
        step()
    assert pulse.due_ms <= 1100
    assert pulse.dead(1100, set()) == ["b3"]
    pulse.up("b3", 1200)
    assert pulse.dead(1200, set()) == []


def test_an_old_word_of_a_replica_does_not_shorten_a_broken_links_time():
    pulse = FailureDetector(["b1", "b2", "b3"], None)
    for broker in pulse.members:
        pulse.up(broker, 1000)
    pulse.orphaned("b3", 1000)
    late_ms = 1000 + BROKEN_MS + 1
    pulse.down("b3", late_ms)
    assert pulse.due_ms in (0, late_ms + BROKEN_MS + 1) and pulse.dead(late_ms, set()) == []
    assert pulse.dead(late_ms + BROKEN_MS + 1, set()) == ["b3"]


def test_a_replica_that_loses_its_broker_says_so_and_retires():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    for sequencer in ("sequencer", "sequencer2"):
        replica.step(PeerUp(sequencer))
    replica.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    told = replica.step(PeerDown("b1"))
    assert told[0] == Send("sequencer", Orphaned("b1")) and isinstance(told[1], Retire)


def test_a_leader_that_nobody_listens_for_is_suspected_at_once():
    broker = BrokerMachine("b1", 1, ["b1", "b2", "b3"])
    broker.step(Tick(1000))
    for sequencer in ("sequencer", "sequencer2"):
        broker.step(PeerUp(sequencer))
    broker.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    broker.step(PeerGone("sequencer2"))
    broker.step(PeerGone("sequencer"))  # there is a link: another one has come meanwhile
    told = broker.step(PeerDown("sequencer"))
    assert not any(isinstance(effect, Send) and isinstance(effect.frame, Suspect) for effect in told)
    told = broker.step(PeerGone("sequencer"))
    assert [e.peer for e in told if isinstance(e, Send) and isinstance(e.frame, Suspect)] == ["sequencer2"]


def test_a_replica_takes_no_lock_of_its_dead_incarnation():
    def log(index: int, event: AnyEvent) -> Entry:
        return Entry(ONE, index, "" if isinstance(event, Rejoin) else "ownership", 1, index, encode_event(event))

    replica = ReplicaMachine("b1.r1", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, True, 2)))
    lock = replica.queues["q#1"].lock
    replica.step(Received("sequencer", append(0, [log(1, Own("b1", 1))], 1)))
    assert not lock.held
    replica.step(Received("sequencer", append(1, [log(2, Rejoin("b1", 2))], 2)))
    assert (lock.held, lock.grant) == (False, 2)
    replica.step(Received("sequencer", append(2, [log(3, Own("b1", 3))], 3)))
    assert lock.held


def test_who_gave_a_lock_up_and_died_is_spoken_for():
    def log(index: int, event: AnyEvent) -> Entry:
        return Entry(ONE, index, "" if isinstance(event, Evict) else "b2.r0", 1, index, encode_event(event))

    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(PeerUp("ownership"))
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1)))
    given_up = [log(1, Own("b2", 1)), log(2, Own("", 2, "b2"))]
    told = replica.step(Received("sequencer", append(0, given_up, 2)))
    free = Send("ownership", OwnerIs("q#1", "", 2))
    assert free not in told
    assert free in replica.step(Received("sequencer", append(2, [log(3, Evict("b2", 1))], 3)))


def test_an_evicted_broker_learns_of_it_by_its_next_beat():
    machine = SequencerMachine(7, ["b1", "b2"])
    machine.evictions.out["b1"] = 5
    told = machine.step(Received("b1", HeartbeatReply(ONE, 0, "b1", 5)))
    assert [type(effect.frame) for effect in told] == [Evicted]
    assert machine.step(Received("b1", HeartbeatReply(ONE, 0, "b1", 6))) == []


def test_a_deleted_stream_is_dropped_when_its_last_keeper_dies():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.step(Received("o", Request("o", 1, 1, [("q#1", b"x")])))
    machine.step(Received("b1", LogDropped("q#1", "b1")))
    assert Send("o", Results(1, [1])) not in machine.step(Flush())
    machine.step(PeerDown("b2"))
    assert Send("o", Results(1, [1])) in machine.step(Flush())


def test_the_first_beat_begins_the_lease():
    lease = Lease()
    assert not lease.expired(1000)
    lease.heard(1, 0, 1000)
    assert [lease.expired(1000 + LEASE_MS + late_ms) for late_ms in (0, 1)] == [False, True]


def test_an_eviction_covers_the_incarnations_of_all_its_queues():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO, inc=5)))
    machine.step(PeerDown("b1"))  # nothing is known of what it kept any more
    machine.keepers.evict("b1")
    events = [decode_event(entry.event) for entry in machine.order.streams["q#1"].log.values()]
    assert [event.inc for event in events if isinstance(event, Evict)] == [machine.evictions.out["b1"]]
    assert machine.evictions.out["b1"] >= INCARNATIONS_PER_BROKER - 1


def test_a_committed_rejoin_gives_the_vote_whoever_is_left():
    machine = SequencerMachine(7, ["b1", "b2", "b3"])
    stream = Stream("q#1", machine.order.members)
    stream.keepers["b1"] = back = Progress("b1.r1", 2, 4, False)
    back.rejoins_by(4)
    machine.rejoins.vote(stream, "b1", back)
    assert not back.voting
    stream.commit = 4
    machine.rejoins.vote(stream, "b1", back)
    assert back.voting


def test_who_comes_back_behind_its_committed_rejoin_puts_its_older_incarnation_out():
    """Found by trying all orders: it reported again, from an update that had begun before its `Rejoin`."""
    machine = SequencerMachine(7, ["b1", "b2", "b3"])
    for name in ("b1", "b2", "b3"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO, inc=1)))
    machine.step(PeerDown("b1"))
    again = LogReport("q#1", "b1", 0, ZERO, inc=2, blank=True)
    machine.step(Received("b1.r1", again))
    stream = machine.order.streams["q#1"]
    machine.step(Received("b1.r1", Ack(machine.order.ballot, "q#1", "b1", stream.end, 0)))
    assert stream.keepers["b1"].rejoin == stream.end
    machine.step(Received("b1.r1", again))
    for name in ("b2", "b3"):
        machine.step(Received(name, Ack(machine.order.ballot, "q#1", name, stream.end, 0)))
    machine.step(Received("b1.r1", again))
    assert stream.keepers["b1"].voting
    machine.step(PeerDown("b1.r1"))
    told = machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO, inc=1)))
    assert [type(effect.frame) for effect in told if isinstance(effect, Send)] == [Evicted]
    assert "b1" not in stream.keepers


def test_a_second_update_does_not_undo_the_first():
    state = QueueState("q#1")
    state.apply(Enqueue("c", [1, 1], [b"m"]))
    start = UpdateStart("q#1", "b2.r0", "b1.r0", 1, ONE, 1, {}, {}, state.outline())
    front = UpdateFront("q#1", 1, [1, 1], [b"m"], True, 1)
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, True, 2)))
    replica.step(Received("b2.r0", start))
    hosted = replica.queues["q#1"]
    assert hosted.update is not None
    replica.step(Received("b2.r0", front))
    assert hosted.update is None and hosted.state.blobs == {1: b"m"}
    replica.step(Received("b3.r0", start))
    assert hosted.update is None and hosted.state.blobs == {1: b"m"}


@pytest.mark.parametrize(("inc", "whole"), [(2, False), (2 + INCARNATIONS_PER_BROKER, True)])
def test_a_replica_that_finds_its_broker_out_tells_it(inc, whole):
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 2)))
    evict = Entry(ONE, 1, "", 0, 0, encode_event(Evict("b1", inc)))
    told = replica.step(Received("sequencer", append(0, [evict], 1)))
    assert any(isinstance(effect, Retire) for effect in told)
    words = [effect.frame for effect in told if isinstance(effect, Send) and effect.peer == "b1"]
    assert bool(words) == whole
    if words:
        broker = BrokerMachine("b1", 1, ["b1"])
        broker.step(PeerUp("b1.r0"))
        assert any(isinstance(effect, Retire) for effect in broker.step(Received("b1.r0", words[0])))


def test_an_update_of_which_nothing_is_seen_is_ordered_again():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.order.streams["q#1"].base = 1  # all hold it, so it is forgotten
    machine.order.streams["q#1"].keepers["b1"].sent_commit = 1
    back = LogReport("q#1", "b2", 0, ZERO, inc=2, blank=True)
    updates = [effect.frame for effect in machine.step(Received("b2", back)) if isinstance(effect, Send)]
    assert updates == [Update("q#1", "b2")]
    machine.step(Tick(UPDATE_RETRY_MS - 1))
    machine.rejoins.remind()
    assert machine.outbox.effects == []
    machine.step(Tick(UPDATE_RETRY_MS))
    machine.rejoins.remind()
    assert machine.outbox.effects == [Send("b1", Update("q#1", "b2"))]


def test_an_updater_knows_that_what_the_log_no_longer_has_is_committed():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = 1
    machine.step(Received("b3", LogReport("q#1", "b3", 0, ZERO, inc=2, blank=True)))
    assert machine.outbox.effects == [], "its sync point would be too early to go on from"
    stream.keepers["b2"].sent_commit = 1
    machine.rejoins.remind()  # at the next beat
    assert machine.outbox.effects == [Send("b2", Update("q#1", "b3"))]


def test_an_updater_that_is_gone_is_replaced_at_once():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = stream.keepers["b1"].sent_commit = stream.keepers["b2"].sent_commit = 1
    effects = machine.step(Received("b3", LogReport("q#1", "b3", 0, ZERO, inc=2, blank=True)))
    (first,) = [effect.peer for effect in effects if isinstance(effect, Send) and isinstance(effect.frame, Update)]
    machine.rejoins.remind()
    assert machine.outbox.effects == []
    machine.step(PeerDown(first))
    machine.rejoins.remind()
    (second,) = [effect.peer for effect in machine.outbox.effects if isinstance(effect, Send)]
    assert {first, second} == {"b1", "b2"}


@pytest.mark.parametrize(("most", "keeping"), [(0, 3), (1, 1), (2, 2)])
def test_so_many_replicas_keep_queues_and_the_others_stay_warm(most, keeping):
    broker = BrokerMachine("b1", 1, ["b1"], replicas_max=most)
    for number in range(3):
        broker.step(PeerUp(f"b1.r{number}"))
    for number in range(6):
        broker.placement.assign(QueueDefinition(f"q{number}#{number}", f"q{number}", {}), False)
    assert sum(map(bool, broker.placement.replicas.values())) == keeping
    (first, *_) = broker.placement.replicas
    lost = broker.placement.lost(first)
    for id, _ in lost:
        broker.placement.assign(QueueDefinition(id, id.partition("#")[0], {}), True)
    assert sum(map(len, broker.placement.replicas.values())) == 6


def test_who_is_too_far_behind_stays_while_the_others_are_no_majority():
    machine = SequencerMachine(7, MEMBERS)
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.voters, stream.base = list(MEMBERS), 1  # b2 was evicted by an earlier sequencer, and b3 is not here now
    late = LogReport("q#1", "b2", 0, ZERO)

    def evicted(effects: list[Any]) -> list[str]:
        return [e.peer for e in effects if isinstance(e, Send) and isinstance(e.frame, Evicted)]

    assert evicted(machine.step(Received("b2", late))) == []
    machine.keepers.hear_again()
    assert machine.outbox.effects == [] and "b2" not in stream.keepers
    machine.step(Received("b3", LogReport("q#1", "b3", 1, ONE)))
    machine.keepers.hear_again()
    assert evicted(machine.outbox.effects) == ["b2"]


def test_updaters_take_turns_for_each_updatee():
    """Somebody else who asks in vain does not make it always the same one; and who is about to vote cannot give any."""
    machine = SequencerMachine(7, ["b1", "b2", "b3", "b4", "b5"])
    for name in machine.order.members:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = 1
    for name in ("b1", "b2", "b3"):
        stream.keepers[name].sent_commit = 1
    stream.keepers["b3"].rejoin = 2
    turns: dict[str, list[str]] = {"b4": [], "b5": []}
    for _ in range(4):
        for name, turn in turns.items():
            machine.outbox.effects.clear()
            stream.keepers[name].voting = False
            machine.rejoins.update(stream, stream.keepers[name])
            turn += [effect.peer for effect in machine.outbox.effects if isinstance(effect, Send)]
    assert [sorted(set(turn)) for turn in turns.values()] == [["b1", "b2"]] * 2


def test_one_of_two_who_is_too_far_behind_comes_back_by_the_other():
    machine = SequencerMachine(7, ["b1", "b2"])
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.voters, stream.base = ["b1", "b2"], 1
    effects = machine.step(Received("b2", LogReport("q#1", "b2", 0, ZERO)))
    assert [e.peer for e in effects if isinstance(e, Send) and isinstance(e.frame, Evicted)] == ["b2"]
