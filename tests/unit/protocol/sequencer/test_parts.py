"""The parts of a sequencer (`protocol/sequencer/`), each built alone: no machine and no cluster around them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.earlier import is_old
from mantamq.protocol.machine import Multicast, Send, SetTimer
from mantamq.protocol.outbox import Outbox
from mantamq.protocol.sequencer import election, progress
from mantamq.protocol.sequencer import keepers as parts_of_keepers
from mantamq.protocol.sequencer.backlog import Backlog
from mantamq.protocol.sequencer.election import LEADING, PREPARING, STANDBY, Election, Role
from mantamq.protocol.sequencer.evictions import Evictions
from mantamq.protocol.sequencer.failure_detector import FailureDetector
from mantamq.protocol.sequencer.keepers import Keepers
from mantamq.protocol.sequencer.lost_queues import LostQueues
from mantamq.protocol.sequencer.majorities import MajorityWatch, roll
from mantamq.protocol.sequencer.mandate import Mandate
from mantamq.protocol.sequencer.membership import Membership
from mantamq.protocol.sequencer.order import Order
from mantamq.protocol.sequencer.progress import KeeperState, Progress
from mantamq.protocol.sequencer.recovery import Recovery
from mantamq.protocol.sequencer.rejoin import Rejoins
from mantamq.protocol.sequencer.replicator import replicate
from mantamq.protocol.sequencer.requests import RequestBook
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.supervisor.office import Office
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import (
    CLUSTER,
    ZERO,
    Ballot,
    Entry,
    Evict,
    FlowControl,
    Member,
    Rejoin,
    Return,
    Start,
    decode_event,
)
from mantamq.protocol.wire.log_frames import (
    Ack,
    Append,
    Evicted,
    Fetched,
    Leave,
    Left,
    LogReport,
    Promise,
    Request,
    Results,
    Supervised,
    Suspect,
    Update,
)
from mantamq.protocol.wire.majority_frames import Reset, ResetDone

THREE = ["b1", "b2", "b3"]
ONE: Ballot = (1, 7)
Q = "q#1"


def entry(event: bytes = b"x", ballot: Ballot = ONE) -> Entry:
    return Entry(ballot, 1, "o", 1, 1, event)


def stream(*matches: int, voters: list[str] = THREE, end: int = 0, start: int = 1) -> Stream:
    """A stream that is ready, with one keeper for each match."""
    found = Stream(Q, voters)
    found.ready, found.start = True, start
    for _ in range(end):
        found.put(entry())
    for voter, match in zip(THREE, matches, strict=False):
        found.keepers[voter] = Progress(f"{voter}.r0", 1, match, True)
    return found


def ordered(order: Order, id: str = Q, begin: bool = True) -> Stream:
    """A stream of `order`, begun with the term's first entry, with all three keepers at its end."""
    found = order.open(id)
    if id != CLUSTER:
        found.voters[:] = THREE
    if begin:
        order.begin(found)
    for voter in THREE:
        found.keepers[voter] = Progress(voter if id == CLUSTER else f"{voter}.r0", 1, found.end, True)
    return found


def events(found: Stream) -> list[Any]:
    return [decode_event(found.log[index].event) for index in sorted(found.log) if not found.log[index].origin]


def sent(outbox: Outbox) -> list[tuple[str, Any]]:
    return [(effect.peer, effect.frame) for effect in outbox.take() if isinstance(effect, Send)]


# ---- the outbox


def test_effects_leave_in_order_and_no_list_leaves_twice():
    outbox = Outbox()
    outbox.send("b1", Results(1, [1]))
    outbox.multicast(["b1", "b2"], Results(1, [2]))
    first = outbox.take()
    assert first == [Send("b1", Results(1, [1])), Multicast(["b1", "b2"], Results(1, [2]))]
    outbox.send("b3", Results(1, [3]))
    assert len(first) == 2 and len(outbox.take()) == 1
    assert outbox.take() is not outbox.take()


def test_the_timer_is_set_anew_only_for_something_sooner_and_is_gone_when_it_is_due():
    outbox = Outbox()
    outbox.wake(50)
    outbox.wake(70)
    outbox.wake(30)
    assert outbox.take() == [SetTimer(50), SetTimer(30)]
    assert not outbox.due(29) and outbox.now_ms == 29
    assert outbox.due(30) and not outbox.due(90)


# ---- one keeper


def test_a_keeper_moves_as_the_table_says_and_not_otherwise():
    for before, after in [(a, b) for a in KeeperState for b in KeeperState]:
        keeper = Progress("b1.r0", 1, 4, False)
        keeper.begin(before)
        if after in progress.MOVES[before]:
            keeper.become(after)
            assert (keeper.state, keeper.voting, keeper.updating) == (after, after is KeeperState.VOTING, False)
        else:
            with pytest.raises(LocalError, match="does not become"):
                keeper.become(after)


def test_a_keeper_has_caught_up_when_it_holds_what_was_committed_at_its_first_word():
    keeper = Progress("b1.r0", 1, 4, False)
    assert not keeper.caught_up(), "it has said nothing yet"
    keeper.catch_up_to = 5
    assert not keeper.caught_up()
    keeper.match = 5
    assert keeper.caught_up()
    keeper.rejoins_by(6)
    assert not keeper.caught_up(), "it is ordered already"


# ---- one stream


@pytest.mark.parametrize(
    ("matches", "start", "change", "index"),
    [
        ((5, 5, 0), 1, 0, 5),
        ((5, 3, 0), 1, 0, 3),
        ((5, 0, 0), 1, 0, 0),
        ((5, 4, 0), 5, 0, 0),  # an entry of an earlier term is not committed by counting (S4)
        ((5, 5, 0), 5, 0, 5),
        ((5, 5, 5), 1, 3, 3),  # the voters before a change commit no further than the change
    ],
)
def test_the_majority_index(matches, start, change, index):
    found = stream(*matches, end=5, start=start)
    found.change = change
    assert found.majority_index() == index


def test_a_keeper_that_does_not_vote_is_not_counted():
    found = stream(5, 5, end=5)
    found.keepers["b2"].begin(KeeperState.CATCHING_UP)
    assert found.majority_index() == 0


def test_a_wiring_event_is_shown_when_all_have_applied_it_but_those_whose_link_broke():
    found = stream(5, 5, 5, end=5)
    found.commit = 5
    for voter, applied in (("b1", 5), ("b2", 4), ("b3", 2)):
        found.keepers[voter].applied = applied
    assert found.shown(THREE) == 2
    found.part("b3")
    assert found.shown(THREE) == 4
    found.away.discard("b3")
    assert found.shown(THREE) == 0, "it is starting"


def test_the_others_stand_without_one_if_they_are_a_majority_and_nothing_changes():
    found = stream(1, 1, 1, end=1)
    assert found.stands_without("b1")
    found.change = 1
    assert not found.stands_without("b1"), "two sets of voters count until it is committed"
    found.change = 0
    found.keepers["b2"].begin(KeeperState.CATCHING_UP)
    assert not found.stands_without("b1") and found.stands_without("b2")


def test_a_voter_can_return_if_a_recovery_quorum_of_others_is_here_before_and_after_a_change():
    found = stream(1, 1, 1, end=1)
    assert found.can_return("b1")
    found.changed = ["b1", "b4", "b5"]
    assert not found.can_return("b1")


# ---- the order


def test_the_cluster_streams_voters_are_the_members_one_list():
    members = list(THREE)
    order = Order(members, ONE)
    assert order.open(CLUSTER).voters is members and order.open(Q).voters == []


def test_a_stream_that_begins_has_the_terms_first_entry_and_is_to_be_sent():
    order = Order(list(THREE), ONE)
    found = order.open(Q)
    order.begin(found)
    assert found.ready and found.start == found.end == 1 and events(found) == [Start(ONE)]
    assert (order.seq, list(order.dirty)) == (1, [Q])
    order.drop(found)
    assert (order.streams, order.dirty, order.dropped) == ({}, {}, {Q})


def test_a_process_that_ends_counts_in_no_stream():
    order = Order(list(THREE), ONE)
    cluster, queue = ordered(order, CLUSTER), ordered(order)
    order.part_with("b3")
    assert "b3" not in cluster.keepers and "b3" not in queue.keepers and queue.away == {"b3"}
    order.part_with("b2.r0")
    assert "b2" in cluster.keepers and "b2" not in queue.keepers


# ---- evictions


def test_an_eviction_is_beyond_every_incarnation_that_is_known():
    order = Order(list(THREE), ONE)
    queue = ordered(order)
    queue.keepers["b2"].life = 3004
    queue.numbers["b2.r1"] = (2001, 7, 1)
    queue.over["b3"] = 5007
    evictions = Evictions(order)
    inc = evictions.begin("b2")
    assert inc > 3004 and evictions.absent == {"b2"}
    assert evictions.is_out("b2.r0", 3004) and evictions.is_out("b2", inc) and not evictions.is_out("b2", inc + 1)
    assert not evictions.is_out("b1", 1)
    assert evictions.begin("b2") >= inc
    assert evictions.begin("b3") > 5007, "known by its numbers, which are dropped"


# ---- requests


def requests(order: Order) -> RequestBook:
    def find(name: str) -> Stream:
        return order.streams.get(name) or order.open(name)

    return RequestBook(order, Evictions(order), find)


def test_a_request_is_answered_once_when_all_its_parts_are_committed():
    order = Order(list(THREE), ONE)
    first, second = ordered(order, "q#1"), ordered(order, "q#2")
    book = requests(order)
    book.take("b1", Request("b1", 4, 1, [("q#1", b"x"), ("q#2", b"y")]))
    first.commit = first.end
    book.answer(first)
    assert book.results() == []
    second.commit = second.end
    book.answer(second)
    assert book.results() == [Send("b1", Results(4, [1]))] and book.results() == []


def test_a_request_that_comes_again_is_not_ordered_again():
    order = Order(list(THREE), ONE)
    queue, book = ordered(order), requests(order)
    request = Request("b1", 4, 1, [(Q, b"x")])
    for peer in ("b1", "b1"):
        book.take(peer, request)
    assert queue.end == 2 and book.results() == []
    queue.commit = queue.end
    book.answer(queue)
    assert len(book.results()) == 1
    book.take("b1", request)
    assert queue.end == 2 and book.results() == [Send("b1", Results(4, [1]))], "it is answered again"
    book.take("b1", Request("b1", 3, 9, [(Q, b"z")]))
    assert queue.end == 2, "an incarnation that is over"


def test_half_of_a_request_that_is_in_an_adopted_log_is_not_ordered_again():
    order = Order(list(THREE), ONE)
    order.born = False
    queue, book = ordered(order), requests(order)
    queue.numbers["b1"] = (4, 1, 1)  # number 1 of incarnation 4: one part of it is here
    queue.commit = queue.end
    book.take("b1", Request("b1", 4, 1, [(Q, b"x"), (Q, b"y")]))
    assert [queue.log[2].event] == [b"y"] and queue.end == 2


def test_a_repeat_whose_numbers_are_dropped_is_refused_in_that_stream_and_not_done_again():
    order = Order(list(THREE), ONE)
    order.born = False
    queue, other, book = ordered(order), ordered(order, "q#2"), requests(order)
    queue.over["b1"] = 4
    queue.commit = other.commit = queue.end
    book.take("b1.r0", Request("b1.r0", 4, 1, [(Q, b"x"), ("q#2", b"y")]))
    other.commit = other.end
    book.answer(other)
    assert queue.end == 1 and other.log[2].event == b"y" and book.results() == [], "nobody can say that it is done"
    book.take("b1", Request("b1", 5, 1, [(Q, b"z")]))
    assert queue.log[2].event == b"z", "a newer incarnation's is taken"


def test_parts_for_a_stream_that_is_not_adopted_wait_and_keep_their_order():
    order = Order(list(THREE), ONE)
    order.born = False
    book, queue = requests(order), order.open(Q)
    book.take("b1", Request("b1", 4, 1, [(Q, b"x"), (Q, b"y")]))
    assert queue.end == 0
    queue.ready = True
    book.put_deferred(queue)
    assert [queue.log[1].event, queue.log[2].event] == [b"x", b"y"]


def test_what_waits_for_a_stream_that_is_gone_is_done():
    order = Order(list(THREE), ONE)
    queue, book = ordered(order), requests(order)
    book.take("b1", Request("b1", 4, 1, [(Q, b"x")]))
    order.drop(queue)
    book.dropped(queue)
    assert book.results() == [Send("b1", Results(4, [1]))]


def test_a_broker_too_far_behind_in_the_cluster_stream_hears_no_results_yet():
    order = Order(list(THREE), ONE)
    cluster, book = ordered(order, CLUSTER), requests(order)
    cluster.reports["b1"] = "b1", LogReport(CLUSTER, "b1", 0, ZERO)
    book.take("b1", Request("b1", 4, 1, []))
    assert book.results() == []
    cluster.reports.clear()
    assert book.results() == [Send("b1", Results(4, [1]))]


# ---- keepers


def keepers(order: Order, outbox: Outbox, mistaken: bool = False) -> Keepers:
    def find(name: str) -> Stream:
        return order.streams.get(name) or order.open(name)

    evictions = Evictions(order)
    book = RequestBook(order, evictions, find)
    membership = Membership(order, outbox, evictions, find)
    backlog = Backlog(order, outbox, evictions, FailureDetector(order.members, None))
    return Keepers(
        order,
        outbox,
        evictions,
        book,
        membership,
        Rejoins(order, outbox),
        backlog,
        find,
        lambda stream, frame: mistaken,
    )


def test_two_acknowledgements_of_three_commit():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    order.append(queue, b"\x91\x3c")
    them.ack("b1.r0", Ack(ONE, Q, "b1", 2, 0))
    assert queue.commit == 1, "what all hold"
    them.ack("b2.r9", Ack(ONE, Q, "b2", 2, 0))
    assert queue.commit == 1, "another process than the one that reported"
    them.ack("b2.r0", Ack((1, 6), Q, "b2", 2, 0))
    assert queue.commit == 1, "of another term"
    them.ack("b2.r0", Ack(ONE, Q, "b2", 2, 0))
    assert queue.commit == 2


def test_a_blank_keeper_is_brought_up_to_date_caught_up_and_given_its_vote():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    queue.commit = 1
    del queue.keepers["b3"]
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 0, ZERO, ONE, log_inc=2, blank=True))
    back = queue.keepers["b3"]
    assert back.state is KeeperState.CATCHING_UP and "b3" in queue.away
    them.ack("b3.r0", Ack(ONE, Q, "b3", 1, 0))
    assert back.state is KeeperState.REJOINING and events(queue)[-1] == Rejoin("b3", 2)
    for voter in THREE:
        them.ack(f"{voter}.r0", Ack(ONE, Q, voter, queue.end, 0))
    assert back.state is KeeperState.VOTING and queue.incs["b3"] == 2 and "b3" not in queue.away


def test_a_keeper_of_an_older_incarnation_is_sent_away():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    queue.incs["b3"] = 5
    del queue.keepers["b3"]
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 0, ZERO, ONE, log_inc=2))
    ((peer, frame),) = sent(outbox)
    assert peer == "b3.r0" and type(frame) is Evicted and "b3" not in queue.keepers


def test_a_log_may_be_older_than_the_process_that_keeps_it():
    """Whether the process is out goes by its life, whether the log counts by the log's incarnation."""
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster, queue, them = ordered(order, CLUSTER), ordered(order), keepers(order, outbox)
    queue.incs["b3"] = 5
    for voter in THREE:
        del queue.keepers[voter]
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 1, ONE, ONE, log_inc=5, life=9005))
    back = queue.keepers["b3"]
    assert (back.log_inc, back.life, back.voting) == (5, 9005, True)
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 1, ONE, ONE, log_inc=5, life=8005))
    assert queue.keepers["b3"] is back and type(sent(outbox)[-1][1]) is Evicted, "an older life of the same log"
    them.evict("b3")
    evict = events(cluster)[-1]
    assert type(evict) is Evict and evict.inc > 9005
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 1, ONE, ONE, log_inc=5, life=9006))
    assert "b3" not in queue.keepers, "that life is out as well"
    them.enrol(queue, "b3.r0", LogReport(Q, "b3", 1, ONE, ONE, log_inc=5, life=evict.inc + 1))
    assert queue.keepers["b3"].voting, "and the log goes on"


def back(opened: int, life: int, **more: Any) -> LogReport:
    return LogReport(Q, "b3", 1, ONE, ONE, log_inc=5, opened=opened, life=life, **more)


def test_a_keeper_that_comes_back_with_its_log_counts_at_once_and_its_return_is_ordered_once():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    del queue.keepers["b3"]
    for _ in range(2):  # its link breaks
        them.enrol(queue, "b3.r0", back(5, 9005))
        assert queue.keepers["b3"].voting and queue.lives["b3"] == 9005
    assert [type(event) for event in events(queue)].count(Return) == 1 and events(queue)[-1] == Return("b3", 9005)
    assert "b3" not in queue.incs, "of votes it says nothing"
    them.enrol(queue, "b3.r0", back(0, 5))
    assert type(sent(outbox)[-1][1]) is Evicted and queue.keepers["b3"].life == 9005, "an older life that speaks"


def test_a_blank_keeper_and_one_that_was_never_away_do_not_return():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    queue.keepers.clear()
    them.enrol(queue, "b3.r0", back(0, 5))
    them.enrol(queue, "b3.r1", LogReport(Q, "b3", 0, ZERO, ONE, log_inc=9005, opened=5, life=9005, blank=True))
    assert Return not in [type(event) for event in events(queue)]


def test_an_old_copy_of_a_disk_is_refused_and_is_to_be_forgotten():
    """The copy is from before a life that has returned: it lacks what that one has promised and acknowledged."""
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    del queue.keepers["b3"]
    queue.lives["b3"] = 9005
    them.enrol(queue, "b3.r0", back(5, 19005))
    ((_, told),) = sent(outbox)
    assert type(told) is Evicted and told.forget and "b3" not in queue.keepers
    them.enrol(queue, "b3.r0", back(9005, 19005))
    assert queue.keepers["b3"].voting, "the disk of the life that returned last"


def test_an_old_copy_is_old_whoever_has_opened_it_since():
    """A life opened the copy and ended before it was told to forget it: the next one is no better."""
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    del queue.keepers["b3"]
    queue.lives["b3"] = 9005
    copy = msgspec.structs.replace(back(19005, 29005), earlier=[5, 19005])
    them.enrol(queue, "b3.r0", copy)
    ((_, told),) = sent(outbox)
    assert type(told) is Evicted and told.forget and "b3" not in queue.keepers
    stream, one = Stream(Q, THREE), Election(list(THREE), PREPARING)
    stream.reports["b1"] = "b1.r0", LogReport(Q, "b1", 4, ONE, ONE, log_inc=1, voters=THREE, lives={"b3": 9005})
    stream.reports["b3"] = "b3.r0", copy
    assert set(one.logs(stream)) == {"b1"}
    cluster = Stream(CLUSTER, THREE)
    cluster.lives["b3"] = 9005
    one.promises["b3"] = Promise(ONE, "b3", 5, False, [], 29005, 19005, [5, 19005])
    assert one.floor(cluster)["b3"] > 5, "nor does its promise count"
    them.enrol(queue, "b3.r0", msgspec.structs.replace(copy, earlier=[5, 9005, 19005]))
    assert queue.keepers["b3"].voting, "the life that returned has kept this one"


def test_a_log_that_knows_of_a_later_return_than_others_is_not_old():
    lives = {"b3": 9005}
    assert not is_old(msgspec.structs.replace(back(29005, 39005), earlier=[19005, 29005]), lives)
    assert is_old(msgspec.structs.replace(back(29005, 39005), earlier=[5, 29005]), lives)


def test_an_old_copy_that_is_known_by_its_last_life_only_is_found(monkeypatch):
    def last_only(frame, lives):
        return not frame.blank and 0 < frame.opened < lives.get("b3", 0) != frame.life

    for module in (parts_of_keepers, election):
        monkeypatch.setattr(module, "is_old", last_only)
    with pytest.raises((AssertionError, ValueError)):
        test_an_old_copy_is_old_whoever_has_opened_it_since()


def test_a_copy_from_before_the_log_that_counts_is_to_be_forgotten_as_well():
    """The voter has had its vote back with a new log since; the copy is from before, and its life is new."""
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, them = ordered(order), keepers(order, outbox)
    del queue.keepers["b3"]
    queue.incs["b3"] = queue.lives["b3"] = 9005
    them.enrol(queue, "b3.r0", msgspec.structs.replace(back(5, 19005), stored=True))
    ((_, told),) = sent(outbox)
    assert type(told) is Evicted and told.forget and "b3" not in queue.keepers, "else it comes with it again and again"


def test_an_old_copy_does_not_count_in_an_election_whoever_knows_of_it():
    stream, one = Stream(Q, THREE), Election(list(THREE), PREPARING)
    stream.reports["b1"] = "b1.r0", LogReport(Q, "b1", 4, ONE, ONE, log_inc=1, voters=THREE, lives={"b3": 9005})
    stream.reports["b3"] = "b3.r0", back(5, 19005)
    assert set(one.logs(stream)) == {"b1"}
    stream.reports["b3"] = "b3.r0", back(9005, 19005)
    assert set(one.logs(stream)) == {"b1", "b3"}
    stream.reports["b3"] = "b3.r0", back(5, 9005)
    assert set(one.logs(stream)) == {"b1", "b3"}, "that life itself"
    cluster = Stream(CLUSTER, THREE)
    cluster.lives["b3"] = 9005
    one.promises["b3"] = Promise(ONE, "b3", 5, False, [], 19005, 5)
    assert one.empty(Stream(Q, THREE), one.floor(cluster)) == set(), "nor does a promise that is given with it"


def test_an_old_copy_that_votes_is_found(monkeypatch):
    for module in (parts_of_keepers, election):
        monkeypatch.setattr(module, "is_old", lambda frame, lives: False)
    for test in (
        test_an_old_copy_of_a_disk_is_refused_and_is_to_be_forgotten,
        test_an_old_copy_does_not_count_in_an_election_whoever_knows_of_it,
    ):
        with pytest.raises((AssertionError, ValueError)):
            test()


def test_an_eviction_is_ordered_in_every_stream():
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster, queue, them = ordered(order, CLUSTER), ordered(order), keepers(order, outbox)
    them.evict("b3")
    assert {type(events(s)[-1]).__name__ for s in (cluster, queue)} == {"Evict"}
    assert all("b3" not in s.keepers for s in (cluster, queue))


def test_a_mistaken_term_enrols_nobody():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue = ordered(order)
    queue.keepers.clear()
    keepers(order, outbox, mistaken=True).enrol(queue, "b1.r0", LogReport(Q, "b1", 0, ZERO, ONE))
    assert not queue.keepers


# ---- membership and rejoining


def membership(order: Order, outbox: Outbox) -> Membership:
    return Membership(order, outbox, Evictions(order), order.open)


def test_a_keeper_that_is_no_voter_joins_and_a_voter_rejoins():
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster = ordered(order, CLUSTER)
    cluster.commit = cluster.end
    part = membership(order, outbox)
    for voter, event in (("b4", Member("b4", 2, True)), ("b3", Rejoin("b3", 2))):
        keeper = cluster.keepers[voter] = Progress(voter, 2, 1, False)
        keeper.catch_up_to = 1
        part.propose(cluster, voter, keeper)
        assert events(cluster)[-1] == event and keeper.state is KeeperState.REJOINING
    assert cluster.changed == [*THREE, "b4"]


def test_a_change_that_is_committed_is_the_members_wherever_they_are_read():
    members = list(THREE)
    order, outbox = Order(members, ONE), Outbox()
    cluster = ordered(order, CLUSTER)
    cluster.commit = cluster.end
    part = membership(order, outbox)
    part.leave("b3", Leave("b3", 1, [], cluster.end))
    assert events(cluster)[-1].broker == "b3"
    cluster.commit = cluster.end
    part.done(cluster)
    assert members == ["b1", "b2"] and cluster.changed == [] and not cluster.change
    for voter in ("b1", "b2"):
        cluster.keepers[voter].applied = cluster.end
    part.heard(cluster)
    assert ("b3", Left("b3")) in sent(outbox)


def test_an_updater_votes_and_knows_that_all_is_committed_which_the_log_no_longer_has():
    order, outbox = Order(list(THREE), ONE), Outbox()
    queue, rejoins = ordered(order), Rejoins(order, outbox)
    queue.base = queue.commit = 1
    back = queue.keepers["b3"]
    back.begin(KeeperState.UPDATING)
    rejoins.update(queue, back)
    assert sent(outbox) == [] and back.remind_ms == 0, "nobody knows: at the next beat"
    queue.keepers["b2"].sent_commit = 1
    rejoins.remind()
    assert sent(outbox) == [("b2.r0", Update(Q, "b3.r0"))]


# ---- replication


def test_keepers_at_one_place_share_one_frame_and_the_log_is_cut_by_bytes():
    order = Order(list(THREE), ONE)
    queue = ordered(order)
    for _ in range(3):
        queue.put(entry(b"xx"))
    queue.sendable = queue.end
    effects: list[Any] = []
    replicate(order, queue, effects, Limits(append_bytes=3))
    assert [(sorted(e.peers), len(e.frame.entries)) for e in effects] == [(["b1.r0", "b2.r0", "b3.r0"], 1)] * 3
    assert all(type(e.frame) is Append for e in effects) and queue.keepers["b1"].next == 5


# ---- falling behind


def test_two_that_are_updated_at_once_are_not_behind_by_what_is_kept_for_the_other():
    order, outbox = Order([*THREE, "b4", "b5"], ONE), Outbox()
    ordered(order, CLUSTER)
    queue = ordered(order)
    backlog = Backlog(order, outbox, Evictions(order), FailureDetector(order.members, None))
    most = 2 * DEFAULT.backlog_entries
    queue.commit = queue.end = most
    queue.held, queue.size = 1, {1: 0, most: 0, 0: 0}
    for voter in THREE:
        queue.keepers[voter] = Progress(voter, 1, most, True)
        queue.keepers[voter].applied = most
    for voter in ("b4", "b5"):
        queue.keepers[voter] = updated = Progress(voter, 2, 0, False)
        updated.begin(KeeperState.UPDATING)
        backlog.enrolled(queue, voter, updated)
    assert [backlog.lag(voter).entries for voter in ("b4", "b5")] == [0, 0]
    backlog.look()
    assert not backlog.on


def test_flow_control_goes_on_for_a_member_that_is_behind_and_off_when_it_has_caught_up():
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster, queue = ordered(order, CLUSTER), ordered(order)
    backlog = Backlog(order, outbox, Evictions(order), FailureDetector(order.members, None))
    most = DEFAULT.backlog_entries
    queue.commit = queue.end = most
    queue.size = {1: 0, most: 0, 0: 0}
    for voter in ("b1", "b2"):
        queue.keepers[voter].match = most
    assert backlog.lag("b3").entries == most - 1 and backlog.lag("b1").entries == 0
    backlog.look()
    (on,) = [event for event in events(cluster) if type(event) is FlowControl]
    assert (on.member, on.on) == ("b3", True) and list(backlog.report()) == ["b3"]
    queue.keepers["b3"].match = most
    backlog.look()
    assert events(cluster)[-1] == FlowControl("b3", False, "") and not backlog.on


def test_who_is_evicted_counts_again_where_a_process_of_it_is_back():
    """Seed 4194: its replica was back and updated, its broker could not reach the leader, and what gathered for it meanwhile
    had no bound."""
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster, queue = ordered(order, CLUSTER), ordered(order)
    evictions = Evictions(order)
    backlog = Backlog(order, outbox, evictions, FailureDetector(order.members, None))
    most = DEFAULT.backlog_entries
    for stream in (cluster, queue):
        stream.commit = stream.end = most
        stream.size = {1: 0, most: 0, 0: 0}
        for voter in ("b1", "b2"):
            stream.keepers[voter].match = most
        del stream.keepers["b3"]
    assert backlog.lag("b3").entries == 2 * most
    evictions.begin("b3")
    assert not backlog.lag("b3").entries, "nothing is kept for who is out"
    queue.keepers["b3"] = Progress("b3.r0", 10_001, 0, False)
    backlog.enrolled(queue, "b3", queue.keepers["b3"])
    assert backlog.lag("b3").entries == most
    backlog.look()
    assert list(backlog.on) == ["b3"]


# ---- electing and adopting


def test_a_sequencer_moves_as_the_table_says_and_not_otherwise():
    for before, after in [(a, b) for a in Role for b in Role]:
        one = Election(list(THREE), before)
        if after in election.MOVES[before]:
            one.become(after)
            assert one.role is after
        else:
            with pytest.raises(LocalError, match="does not become"):
                one.become(after)


def recovery(order: Order, outbox: Outbox, led: list[int]) -> tuple[Election, Recovery]:
    part = Election(order.members, STANDBY)
    them = keepers(order, outbox)
    evictions = Evictions(order)
    book = RequestBook(order, evictions, order.open)
    linked = dict.fromkeys([*THREE, "b1.r0"])
    return part, Recovery(order, outbox, part, evictions, book, them, linked, 8, lambda: led.append(1))


def test_a_majority_that_suspects_makes_a_standby_ask_for_promises():
    order, outbox = Order(list(THREE), None), Outbox()
    part, it = recovery(order, outbox, [])
    assert not it.suspect("b1", Suspect(ONE, "b1", THREE))
    assert it.suspect("b2", Suspect(ONE, "b2", THREE))
    assert part.role is PREPARING and order.ballot == (2, 8)
    assert {peer for peer, _ in sent(outbox)} == {*THREE, "b1.r0"}


def test_the_best_log_of_a_recovery_quorum_is_fetched_adopted_and_begun_anew():
    order, outbox, led = Order(list(THREE), None), Outbox(), []
    part, it = recovery(order, outbox, led)
    for broker in ("b1", "b2"):
        it.suspect(broker, Suspect(ONE, broker, THREE))
    outbox.take()
    cluster = order.open(CLUSTER)
    for broker, have in (("b1", 0), ("b2", 1)):
        it.promised(broker, Promise(order.ballot, broker, 1, False, []))
        ballot = ONE if have else ZERO
        cluster.reports[broker] = (
            broker,
            LogReport(CLUSTER, broker, have, ballot, order.ballot, log_inc=1, voters=THREE),
        )
    it.recover(cluster)
    assert not led, "b3 is linked and is waited for a moment"
    outbox.now_ms = DEFAULT_TIMING.recovery_grace_ms
    it.recover(cluster)
    ((peer, fetch),) = sent(outbox)
    assert (peer, fetch.first, fetch.last) == ("b2", 1, 1)
    it.fetched("b2", Fetched(order.ballot, CLUSTER, 1, ZERO, [entry(b"\x91\x3c")]))
    assert led == [1] and part.role is LEADING and cluster.ready
    assert cluster.end == cluster.start == 2 and events(cluster)[-1] == Start(order.ballot)


# ---- majorities


def test_a_stream_without_its_majority_is_named_with_whom_it_misses_and_since_when():
    order, outbox = Order(list(THREE), ONE), Outbox()
    ordered(order, CLUSTER)
    queue, part = ordered(order), Election(list(THREE), LEADING)
    watch = MajorityWatch(order, outbox, part, dict.fromkeys(["b1"]))
    for voter in ("b2", "b3"):
        queue.part(voter)
    watch.look()
    outbox.now_ms = 2000
    watch.tell()
    ((peer, frame),) = sent(outbox)
    (waiting,) = frame.streams
    assert peer == "b1" and waiting.stream == Q and waiting.missing == {"b2": 2000, "b3": 2000}
    assert roll(order, part, queue).short() and not roll(order, part, queue).hopeless()


def test_the_looks_keep_their_members_when_the_members_change():
    """The members are one list that changes in place: what was found at a look is of that look."""
    order, outbox = Order(list(THREE), None), Outbox()
    watch = MajorityWatch(order, outbox, Election(order.members, PREPARING), {})
    order.open(Q)
    assert watch.look()
    order.members.append("b4")
    assert all("b4" not in watch.missing_ms(name) for name in watch.rolls)


def test_a_reset_of_a_queue_that_has_its_majority_is_refused():
    order, outbox = Order(list(THREE), ONE), Outbox()
    cluster, part = ordered(order, CLUSTER), Election(list(THREE), LEADING)
    cluster.commit = cluster.end
    ordered(order)
    lost = LostQueues(order, outbox, part, MajorityWatch(order, outbox, part, {}))
    lost.reset("b1", Reset(Q, 1))
    ((peer, answer),) = sent(outbox)
    assert peer == "b1" and type(answer) is ResetDone and "has its majority" in answer.text


# ---- the supervisor's office


def test_a_leader_that_is_followed_may_not_be_ended():
    outbox, part, detector = Outbox(), Election(list(THREE), LEADING), FailureDetector(list(THREE), None)
    mandate = Mandate(outbox, part, detector, Office(), dict.fromkeys(["b1", "ownership"]))
    assert mandate.needed(1000) == ""
    for broker in ("b1", "b2"):
        detector.up(broker, 900)
    assert "it leads" in mandate.needed(1000)
    part.deposed = (2, 9)
    assert mandate.needed(1000) == ""
    mandate.supervised(Supervised(4, "id", "supervisor"))
    mandate.supervised(Supervised(4, "id", "supervisor"))
    assert [peer for peer, _ in sent(outbox)] == ["ownership"], "told once"
