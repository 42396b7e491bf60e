"""One hosted queue, alone: its outbox is a list, the leader's entries are made here, and there is no replica around it."""

from __future__ import annotations

from itertools import count

import pytest
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.replica.ownerships import Ownerships
from mantamq.protocol.replica.presence import holds
from mantamq.protocol.replica.update import Pace
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import (
    ZERO,
    Accept,
    Acquire,
    AnyEvent,
    Configure,
    DeadLetterDone,
    Enqueue,
    Entry,
    Evict,
    Expire,
    Member,
    Own,
    Purge,
    Reject,
    Rejoin,
    Release,
    Start,
    encode_event,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Ack, Append, Evicted, Update, UpdateFront, UpdateStart
from mantamq.protocol.wire.queue_frames import (
    ACCEPT,
    REJECT,
    RELEASE,
    Cancel,
    Cancelled,
    Consume,
    Contended,
    Credit,
    DeadLetter,
    DeadLettered,
    Deliver,
    Drained,
    Interest,
    OwnerIs,
    QueueCommand,
    QueueReply,
    Settle,
    Settled,
    Void,
)

from tests.unit.replica_outbox import KeptOutbox

ONE = (1, 7)


class Hosted:
    """Queue ``q#1`` of broker b1, incarnation 2, with its outbox, and a leader that commits what it is given."""

    def __init__(self, blank: bool = False, limits: Limits = DEFAULT) -> None:
        self.outbox = KeptOutbox()
        self.ownerships = Ownerships(self.outbox)
        self.ownerships.up("ownership")
        keeper = Keeper("q#1", "b1", 2, blank, ONE, ["b1", "b2", "b3"])
        settings, pace = QueueSettings(alternate="lost"), Pace(DEFAULT.update_process_bytes_s)
        self.queue = HostedQueue("q#1", settings, keeper, self.ownerships, pace, count(1), self.outbox, limits=limits)

    def entry(self, event: AnyEvent, own: bool) -> Entry:
        origin, inc = (self.outbox.name, self.outbox.inc) if own else ("", 0)
        return Entry(ONE, self.queue.keeper.end + 1, origin, inc, 1, encode_event(event))

    def commit(self, *events: AnyEvent, own: bool = False) -> None:
        """The leader sends these, committed."""
        for event in events:
            end = self.queue.keeper.end
            frame = Append(ONE, "q#1", end, ONE if end else ZERO, end + 1, 0, [self.entry(event, own)])
            self.queue.append("sequencer", frame)

    def flush(self, kind: type[Frame] | None = None) -> list[Frame]:
        """Serve until there is no more; returns what was sent, of one kind or all."""
        while self.queue.serve():
            pass
        self.outbox.dirty.clear()
        return self.outbox.take(kind)

    def order(self) -> list[AnyEvent]:
        """The leader orders and commits what was submitted here."""
        events = self.outbox.events()
        self.commit(*events, own=True)
        return events

    def consume(self, messages: int = 10, sub: int = 1) -> None:
        self.queue.consumers.consume(Consume("q#1", sub, "consume", True))
        self.queue.consumers.credit(Credit("q#1", sub, messages, UNLIMITED))


@pytest.fixture
def hosted() -> Hosted:
    return Hosted()


def messages(count: int, first: int = 1) -> Enqueue:
    return Enqueue("c", [first, first + count - 1], [b"%d" % n for n in range(first, first + count)])


def owner(hosted: Hosted, count: int = 2) -> Hosted:
    """A queue that owns the lock, and has given its consumer `count` messages, as acquisition 1."""
    hosted.consume()
    hosted.commit(messages(count), Own("b1", 1))
    (delivery,) = hosted.flush(Deliver)
    assert delivery.acquisition == 1 and delivery.ranges == [1, count]
    return hosted


def test_interest_is_told_and_a_grant_answered(hosted):
    hosted.consume()
    assert hosted.flush(Interest) == [Interest("q#1", "b1", True)]
    hosted.commit(Own("b1", 1))
    assert hosted.outbox.take(OwnerIs) == [OwnerIs("q#1", "b1", 1)] and hosted.queue.lock.held
    hosted.outbox.now_ms += 1000
    assert hosted.flush(Interest) == [], "it is told once"


def test_acquires_gather_behind_their_delivery(hosted):
    owner(hosted)
    assert hosted.outbox.events() == [] and hosted.outbox.timers["q#1"] == 1000 + DEFAULT_TIMING.acquire_ms
    hosted.outbox.now_ms += DEFAULT_TIMING.acquire_ms
    hosted.flush()
    assert hosted.order() == [Acquire("b1", 2, 1, [1, 1, 2])]
    assert not hosted.queue.dispatcher.taken.count


def test_a_settlement_takes_the_acquires_along_and_is_answered_when_it_applies(hosted):
    owner(hosted)
    hosted.queue.consumers.settle(Settle("q#1", 1, 1, ACCEPT, [1, 1, 1, 1, 5, 5]))
    assert hosted.flush(Settled) == []
    assert hosted.order() == [Acquire("b1", 2, 1, [1, 1, 2]), Accept("b1", 2, [1, 1, 1])]
    assert hosted.outbox.take(Settled) == [Settled("q#1", 1, 1, [1, 5, 5])]


def test_a_settlement_of_nothing_that_is_held_is_answered_at_once(hosted):
    hosted.queue.consumers.settle(Settle("q#1", 1, 1, ACCEPT, [1, 1, 1]))
    assert hosted.flush(Settled) == [Settled("q#1", 1, 1, [1, 1, 1])] and hosted.outbox.events() == []


def test_what_is_rejected_is_dead_lettered_and_then_dequeued(hosted):
    owner(hosted)
    hosted.queue.consumers.settle(Settle("q#1", 1, 1, REJECT, [1, 1, 2]))
    hosted.flush()
    assert [type(event) for event in hosted.order()] == [Acquire, Reject]
    (letter,) = hosted.outbox.take(DeadLetter)
    assert letter.blobs == [b"1", b"2"]
    hosted.queue.dead_lettered(DeadLettered("q#1", letter.id))
    assert hosted.outbox.events() == [DeadLetterDone(letter.id)]


def test_a_cancel_gives_back_behind_all_that_was_settled(hosted):
    owner(hosted)
    hosted.queue.consumers.settle(Settle("q#1", 1, 1, ACCEPT, [1, 1, 1]))
    hosted.queue.consumers.cancel(Cancel("q#1", 1, False))
    assert [type(event) for event in hosted.order()] == [Acquire, Accept, Release]
    assert [type(frame) for frame in hosted.outbox.take() if type(frame) is not OwnerIs] == [Settled, Cancelled]
    assert list(hosted.queue.state.available) == [(2, 2)]


@pytest.mark.parametrize("leaves", [False, True])
def test_what_is_released_waits_where_its_queue_has_begun_to_have_that_before_the_release_came(hosted, leaves):
    owner(hosted)
    if leaves:
        hosted.queue.consumers.cancel(Cancel("q#1", 1, True))
    else:
        hosted.queue.consumers.settle(Settle("q#1", 1, 1, RELEASE, [1, 1, 2]))
        hosted.flush()
    acquire, release = hosted.outbox.events()
    hosted.commit(acquire, own=True)
    hosted.commit(Configure(9, {"manta.retry_delay_s": [5]}, "lost"))
    hosted.commit(release, own=True)
    assert hosted.queue.state.delayed.due == {1: 6000, 2: 6000}


def test_a_cancel_of_one_that_holds_nothing_is_answered_at_once(hosted):
    hosted.consume()
    hosted.queue.consumers.cancel(Cancel("q#1", 1, False))
    hosted.queue.consumers.cancel(Cancel("q#1", 9, False))
    assert hosted.outbox.take(Cancelled) == [Cancelled("q#1", 1), Cancelled("q#1", 9)]


def test_the_acquires_are_ordered_before_the_hand_over(hosted):
    owner(hosted)
    hosted.queue.grants.contended(Contended("q#1", 1, "b2", 20))
    hosted.outbox.now_ms += 1000
    hosted.flush()
    assert hosted.order() == [Acquire("b1", 2, 1, [1, 1, 2]), Own("b2", 2, "b1")]
    assert not hosted.queue.lock.held and hosted.queue.state.owner == "b2"


def test_nothing_more_is_said_when_the_stream_says_so(hosted):
    owner(hosted)
    hosted.queue.consumers.credit(Credit("q#1", 1, 0, 0, True, True))
    assert hosted.flush(Drained) == []
    assert hosted.order()[-1] == Expire(1000, [])
    assert hosted.flush(Drained) == [Drained("q#1", 1, 0)]


def test_commands_are_answered_in_the_order_of_the_stream(hosted):
    hosted.commit(messages(3))
    hosted.queue.commands.ask(QueueCommand("q#1", 1, "report", 0))
    hosted.queue.commands.ask(QueueCommand("q#1", 2, "purge", 0))
    assert hosted.outbox.take(QueueReply) == []
    hosted.order()
    report, purge = hosted.outbox.take(QueueReply)
    assert (report.value["messages"], purge.value) == (3, {"purged": 3})


def test_no_command_waits_for_a_queue_that_is_deleted(hosted):
    hosted.queue.commands.ask(QueueCommand("q#1", 1, "purge", 0))
    hosted.queue.own.submit(Purge(0), None)
    hosted.queue.commands.unhosted()
    assert hosted.outbox.take() == [QueueReply("q#1", 1, {"purged": 0})]


def test_the_distinguished_learner_is_told_before_anything_is_applied(hosted):
    hosted.queue.append("sequencer", Append(ONE, "q#1", 0, ZERO, 0, 0, [hosted.entry(messages(1), False)], "b2.r0", 1))
    hosted.queue.append("sequencer", Append(ONE, "q#1", 1, ONE, 1, 0, []))
    assert hosted.queue.applied == 0
    assert hosted.queue.serve() and hosted.queue.applied == 0, "its own work comes at the next flush"
    assert hosted.outbox.sent[0][0] == "b2.r0"
    hosted.queue.serve()
    assert hosted.queue.applied == 1
    hosted.outbox.take()
    hosted.outbox.now_ms += DEFAULT_TIMING.acknowledge_ms
    assert [ack.applied for ack in hosted.flush(Ack)] == [1]


def test_the_learner_applies_what_another_voter_makes_committed(hosted):
    hosted.queue.append("sequencer", Append(ONE, "q#1", 0, ZERO, 0, 0, [hosted.entry(messages(1), False)], "b1.r0", 1))
    assert hosted.queue.applied == 0
    hosted.queue.learn("b2.r0", Ack(ONE, "q#1", "b2", 1, 0))
    assert hosted.queue.applied == 1 and [ack.match for ack in hosted.flush(Ack)] == [1]


def test_what_an_evicted_broker_held_comes_back_and_its_grant_ends(hosted):
    hosted.commit(messages(2), Own("b2", 1), Acquire("b2", 1, 1, [1, 1, 2]))
    hosted.consume()
    hosted.flush()
    hosted.commit(Evict("b2", 1))
    assert hosted.outbox.take(OwnerIs) == [OwnerIs("q#1", "", 2)]
    hosted.commit(Own("b1", 3))
    (delivery,) = hosted.flush(Deliver)
    assert delivery.ranges == [1, 2] and delivery.redelivered == [0, 1, 1, 1]


def test_a_grant_before_the_rejoin_is_an_older_incarnations():
    hosted = Hosted(blank=True)
    hosted.consume()
    hosted.commit(Start(ONE), Own("b1", 1))
    assert not hosted.queue.lock.held and hosted.flush(Interest) == []
    hosted.commit(Rejoin("b1", 2))
    assert hosted.queue.serving and not hosted.queue.lock.held and hosted.queue.state.owner == ""
    assert hosted.flush(Interest) == [Interest("q#1", "b1", True)]


def test_a_void_grant_to_a_broker_that_is_here_is_told_and_it_says_that_it_is_here(hosted):
    hosted.commit(Evict("b1", 1))
    assert not hosted.outbox.retired, "an older incarnation is out, not this one"
    hosted.outbox.take()
    grant = hosted.queue.state.grant + 1
    hosted.commit(Own("b1", grant))
    assert hosted.outbox.take(Void) == [Void("q#1", "b1", grant)]
    assert hosted.outbox.events() == [Rejoin("b1", 2)]


def test_an_incarnation_that_is_evicted_ends(hosted):
    hosted.commit(Evict("b1", 2))
    assert hosted.outbox.retired and hosted.outbox.take(Evicted) == []


def test_an_event_that_expels_is_acknowledged_though_nobody_is_eager(hosted):
    hosted.commit(messages(1))
    hosted.flush()
    hosted.commit(Member("b4", 1, True))
    assert [ack.applied for ack in hosted.flush(Ack)] == [2]


def test_an_update_answers_what_it_has_overtaken():
    hosted = Hosted(blank=True)
    hosted.commit(messages(1))
    hosted.queue.commands.ask(QueueCommand("q#1", 1, "purge", 0))
    snapshot = Hosted().queue.state.snapshot()
    hosted.queue.update_started(
        "b2.r0", UpdateStart("q#1", "b2.r0", "b1.r0", 9, ONE, 9, {"b1.r0": (4, 1, 1)}, {}, snapshot)
    )
    assert hosted.queue.updating and hosted.queue.applied == 9 and not hosted.queue.own
    (reply,) = hosted.outbox.take(QueueReply)
    assert "ask again" in reply.value["error"]
    hosted.queue.peer_down("b2.r0")
    assert not hosted.queue.updating and hosted.queue.applied == 0


def test_an_update_that_left_out_what_went_meanwhile_has_a_question_asked_again():
    hosted, updater = Hosted(blank=True), Hosted()
    updater.commit(messages(2))
    snapshot = updater.queue.state.snapshot()
    hosted.queue.update_started("b2.r0", UpdateStart("q#1", "b2.r0", "b1.r0", 1, ONE, 1, {}, {}, snapshot))
    hosted.queue.commands.ask(QueueCommand("q#1", 1, "stat", 0))
    hosted.order()
    hosted.commit(Purge(1))
    hosted.queue.update_front("b2.r0", UpdateFront("q#1", 1, [2, 2], [b"2"], True, 3))
    assert hosted.queue.applied == 3 and hosted.outbox.take(QueueReply) == [], "2 messages of 1 byte there never were"
    hosted.order()
    (reply,) = hosted.outbox.take(QueueReply)
    assert [reply.value[name] for name in ("messages", "bytes", "bytes_in", "bytes_out")] == [1, 1, 2, 1]


def test_only_one_that_is_whole_gives_updates(hosted):
    hosted.commit(messages(1))
    for updatee, given in (("b9.r0", 0), ("b2.r0", 1)):
        hosted.queue.give_update("sequencer", Update("q#1", updatee))
        assert len(hosted.outbox.take(UpdateStart)) == given, updatee
    blank = Hosted(blank=True)
    blank.queue.give_update("sequencer", Update("q#1", "b2.r0"))
    assert blank.outbox.take() == []


def test_a_broker_that_leaves_holds_what_must_be_given_back(hosted):
    assert not holds(hosted.queue, "b1")
    owner(hosted)
    assert holds(hosted.queue, "b1")
    assert not holds(Hosted(blank=True).queue, "b1")


# ---- many entries at once


def test_many_entries_are_applied_in_pieces_and_nobody_is_served_before_the_last():
    one = Hosted(limits=Limits(apply_entries=10))
    queue = one.queue
    queue.consumers.consume(Consume("q#1", 5, "browse", False))
    queue.consumers.credit(Credit("q#1", 5, 100))
    entries = [one.entry(Enqueue("", [], [b"%d" % number]), False) for number in range(25)]
    entries = [Entry(ONE, number, "", 0, 1, entry.event) for number, entry in enumerate(entries, 1)]
    queue.append("sequencer", Append(ONE, "q#1", 0, ZERO, 25, 0, entries))
    assert queue.applied == 10
    assert queue.serve() and queue.applied == 20
    assert not one.outbox.take(Deliver)
    assert not queue.serve() and queue.applied == 25
    assert sum(len(frame.blobs) for frame in one.outbox.take(Deliver)) == 25


def test_an_updater_that_has_entries_to_apply_gives_no_update_yet():
    one = Hosted(limits=Limits(apply_entries=1))
    one.outbox.fellows.add("b2.r0")
    entries = [Entry(ONE, number, "", 0, 1, encode_event(Enqueue("", [], [b"x"]))) for number in range(1, 5)]
    one.queue.append("sequencer", Append(ONE, "q#1", 0, ZERO, 4, 0, entries))
    one.queue.give_update("sequencer", Update("q#1", "b2.r0"))
    assert not one.outbox.take(UpdateStart)
    while one.queue.serve():
        pass
    one.queue.give_update("sequencer", Update("q#1", "b2.r0"))
    assert one.outbox.take(UpdateStart)


@pytest.mark.parametrize("at_once", [1, 1000])
@pytest.mark.parametrize("done", [False, True])
def test_no_rejected_message_is_seen_to_before_all_that_is_committed_is_applied(at_once, done):
    """An updatee may have a batch without its messages, which a later entry says are done."""
    one = Hosted(limits=Limits(apply_entries=at_once))
    events = [messages(1), Own("b2", 1), Acquire("b2", 1, 1, [1, 1, 1]), Reject("b2", 1, [1, 1, 1]), Evict("b2", 1)]
    events += [DeadLetterDone(4)] if done else []
    entries = [Entry(ONE, number, "", 0, 1, encode_event(event)) for number, event in enumerate(events, 1)]
    one.queue.append("sequencer", Append(ONE, "q#1", 0, ZERO, len(entries), 0, entries))
    letters = one.flush(DeadLetter)
    assert [frame.id for frame in letters] == ([] if done else [4])
