"""The smaller parts of a broker, each without a machine: requests, connections, senders, questions, deletions, resets,
who supervises, and what follows when a queue comes or goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.protocol.broker.connections import Connections
from mantamq.protocol.broker.consumers import Consumers
from mantamq.protocol.broker.deletion import Condition, Deletions
from mantamq.protocol.broker.dissolutions import Dissolutions
from mantamq.protocol.broker.fellows import Fellows
from mantamq.protocol.broker.investiture import Investiture
from mantamq.protocol.broker.lease import Lease
from mantamq.protocol.broker.lifecycle import Lifecycle
from mantamq.protocol.broker.questions import PURGE, STAT, Questions
from mantamq.protocol.broker.queue_changes import QueueChanges
from mantamq.protocol.broker.queue_placement import QueuePlacement
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.broker.resets import Resets
from mantamq.protocol.broker.senders import Senders
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.errors import PeerError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import KeepAlive, Supervises, WantSpare
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Detached,
    MembersChanged,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.events import (
    AnyEvent,
    Condemn,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Entry,
    Evict,
    Lift,
    Lost,
    Supervise,
    encode_event,
)
from mantamq.protocol.wire.log_frames import Request, Results, Supervised
from mantamq.protocol.wire.majority_frames import Reset, ResetDone
from mantamq.protocol.wire.queue_frames import Consume, Host, QueueCommand, QueueReply, Unhost
from mantamq.protocol.wiring.wiring import Outcome

from tests.unit.broker_bench import LEADER, ONE, Bench

# ---- requests


def test_a_wiring_request_completes_with_the_outcome_its_event_had_here():
    bench = Bench()
    told: list[Outcome] = []
    event = DeclareQueue("q", {})
    for _ in range(2):
        bench.requests.order(event, told.append)
    entry = Entry(ONE, 1, "b1", 5, 1, encode_event(event))
    bench.requests.applied(entry, bench.apply(event))
    bench.requests.applied(Entry(ONE, 1, "b1", 4, 2, b""), Outcome())
    bench.answer(1, 2)
    assert [(one.changed, one.code) for one in told] == [(True, ""), (False, "unavailable")]
    assert bench.completed == 1 and bench.requests.idle, "told once, behind all that one frame answers"


def test_what_has_no_answer_is_asked_again_of_the_next_leader():
    bench = Bench()
    done: list[int] = []
    for number in (1, 2):
        bench.requests.request([("q#1", b"")], lambda number=number: done.append(number))
    bench.answer(1)
    bench.take()
    assert done == [1] and not bench.requests.idle
    bench.requests.attached()
    assert bench.take() == [(LEADER, Request("b1", 5, 2, [("q#1", b"")]))]
    bench.requests.answered(LEADER, Results(4, [2]))
    assert done == [1], "an answer to another incarnation"


# ---- connections and senders


class Clients:
    """The connections of a broker that refuses for the reason `why`."""

    def __init__(self, token: str = "", why: str = "") -> None:
        self.bench = Bench("q")
        self.why = why
        self.ended: list[tuple[str, str]] = []
        self.connections = Connections(
            self.bench.outbox, self.bench.cluster, DEFAULT, token, lambda rescue: "" if rescue else self.why, self.end
        )

    def end(self, session: Session, code: str, text: str) -> None:
        self.ended.append((session.peer, code))
        self.connections.forget(session)

    def open(self, peer: str, frame: Open) -> Session:
        self.connections.up(peer)
        session = self.connections.sessions[peer]
        self.connections.open(session, frame)
        return session


def test_a_client_that_knows_more_of_the_wiring_is_let_in_when_its_broker_knows_as_much():
    clients = Clients()
    connections, keeper = clients.connections, clients.bench.cluster.keeper
    connections.cluster, keeper.commit = "here", 4
    assert clients.open("c1", Open("c", cluster="here", wired=4)).client == "c"
    assert clients.open("c2", Open("d", cluster="elsewhere", wired=9)).client == "d", "that is another one's wiring"
    assert clients.open("c3", Open("e", rescue=True, cluster="here", wired=9)).client == "e", "what it sees may be old"
    clients.bench.take()
    waits, gone = (
        clients.open("c4", Open("f", cluster="here", wired=6)),
        clients.open("c5", Open("g", cluster="here", wired=6)),
    )
    connections.forget(gone)
    with pytest.raises(PeerError):
        connections.open(waits, Open("f"))
    keeper.commit = 5
    clients.bench.cluster.applied()
    assert (waits.client, clients.bench.take()) == ("", [])
    keeper.commit = 6
    clients.bench.cluster.applied()
    ((peer, opened),) = clients.bench.take()
    assert (waits.client, gone.client, peer) == ("f", "", "c4") and isinstance(opened, Opened) and opened.wired == 6


def test_unless_it_serves_nobody_by_then():
    clients = Clients(why="")
    clients.connections.cluster = "here"
    waits = clients.open("c1", Open("c", cluster="here", wired=6))
    clients.why = "no majority"
    clients.bench.cluster.keeper.commit = 6
    clients.bench.cluster.applied()
    assert (waits.client, clients.ended) == ("", [("c1", "unavailable")])


def test_a_client_that_opens_hears_of_the_members_and_of_its_bounds():
    clients = Clients()
    clients.connections.moved({"b1": "here:1"})
    assert clients.open("c1", Open("c", heartbeat_ms=1000)).client == "c"
    alive, opened = clients.bench.take()
    assert isinstance(alive, KeepAlive) and (alive.peer, alive.interval_ms) == ("c1", 1000)
    assert isinstance(opened[1], Opened) and opened[1].members == {"b1": "here:1"}
    assert clients.open("c2", Open("")).client == "b1.5.c2", "an id is made up"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (Open("c"), "unauthorized"),
        (Open("c", "secret"), "unavailable"),
        (Open("c" * (DEFAULT.name_chars + 1), "secret"), "invalid"),
    ],
)
def test_a_client_that_may_not_come_in_hears_why(frame, code):
    with pytest.raises(PeerError) as refused:
        Clients("secret", "not now").open("c1", frame)
    assert refused.value.code == code
    assert Clients("secret", "not now").open("c1", Open("c", "secret", rescue=True)).rescue


def test_of_two_connections_of_one_client_the_newer_counts():
    clients = Clients()
    clients.open("c1", Open("c"))
    newer = clients.open("c2", Open("c"))
    assert clients.ended == [("c1", "in-use")] and list(clients.connections.sessions.values()) == [newer]
    with pytest.raises(PeerError):
        clients.connections.open(newer, Open("c"))


def test_clients_hear_of_other_members_before_they_are_sent_away():
    clients = Clients()
    clients.open("c1", Open("c"))
    clients.connections.up("c2")
    clients.bench.take()
    clients.connections.moved({"b1": "here:1", "b2": "there:1"})
    clients.connections.moved({"b1": "here:1", "b2": "there:1"})
    assert clients.bench.take() == [("c1", MembersChanged({"b1": "here:1", "b2": "there:1"}))], "once, and who opened"
    clients.connections.send_away("it leaves")
    assert clients.bench.take() == [("c1", MembersChanged({"b2": "there:1"}))]
    assert clients.ended == [("c1", "unavailable"), ("c2", "unavailable")]


def test_without_a_majority_those_who_only_look_may_stay():
    clients = Clients()
    clients.open("c1", Open("c"))
    clients.open("c2", Open("d", rescue=True))
    clients.connections.close_all("cut off", rescue=False)
    assert clients.ended == [("c1", "unavailable")]


def test_senders_attach_to_what_is_there_and_end_with_it():
    bench = Bench("q")
    bench.apply(DeclareExchange("x", "fanout", {}))
    transfers = Transfers(bench.outbox, bench.cluster, bench.requests, bench.sessions, 1000)
    questions = Questions(bench.outbox, bench.cluster, {}, lambda queue, now_ms: False)
    senders = Senders(bench.outbox, bench.cluster, transfers, bench.sessions, questions)
    session = bench.session()
    for handle, exchange, key in ((1, "", "q"), (2, "", "none"), (3, "x", None), (4, "y", None)):
        senders.attach(session, AttachSender(handle, exchange, key))
    assert [(type(frame), frame.handle) for _, frame in bench.take()] == [
        (Attached, 1), (Detached, 2), (Attached, 3), (Detached, 4)
    ]  # fmt: skip
    senders.end_all("", "other", "", "")
    assert bench.take() == []
    senders.end_all("x", None, "not-found", "it was deleted")
    assert bench.take() == [("c1", Detached(3, "not-found", "it was deleted"))]
    assert senders.detach(session, 1) and not senders.detach(session, 3)
    session.rescue = True
    senders.attach(session, AttachSender(5, "", "q"))
    assert [frame.code for _, frame in bench.take()] == ["", "not-allowed"]


# ---- questions


class Asking:
    """Questions about the queue "q", which a replica keeps."""

    def __init__(self) -> None:
        self.bench = Bench("q", "r")
        self.still: set[str] = set()
        self.heard: list[dict[str, Any]] = []
        self.questions = Questions(
            self.bench.outbox, self.bench.cluster, {"q#1": "b1.r0"}, lambda queue, now_ms: queue in self.still
        )
        self.questions.fellows = Fellows(self.bench.outbox, "b1", 1, dict, lambda what: {})

    def ask(self, what: str = STAT, limit_ms: int = 0) -> None:
        self.questions.ask(self.bench.queue("q"), what, 0, self.heard.append, limit_ms)


def test_a_question_is_answered_once():
    one = Asking()
    one.ask()
    assert one.bench.take() == [("b1.r0", QueueCommand("q#1", 1, STAT, 0))]
    for _ in range(2):
        one.questions.replied(QueueReply("q#1", 1, {"messages": 3}))
    assert one.heard == [{"messages": 3}]
    with pytest.raises(PeerError):
        one.questions.look(one.bench.queue("r"), one.heard.append)


def test_a_question_ends_with_the_replica_and_with_the_queue():
    one = Asking()
    one.ask()
    one.questions.lost("b1.r1")
    assert one.heard == []
    one.questions.lost("b1.r0")
    one.ask(PURGE)
    one.questions.undeclared("q#1", "lost", "it was lost")
    assert one.heard[0]["code"] == "unavailable" and one.heard[1] == {"error": "it was lost", "code": "lost"}


def test_only_what_changes_nothing_is_given_up_and_only_for_a_reason():
    one = Asking()
    one.ask(PURGE)
    one.ask()
    one.questions.look(one.bench.queue("q"), one.heard.append)
    one.questions.overdue(DEFAULT_TIMING.question_ms - 1)
    assert one.heard == []
    one.questions.overdue(DEFAULT_TIMING.question_ms)
    assert len(one.heard) == 1, "the list does not wait for ever"
    one.still.add("q#1")
    one.questions.overdue(DEFAULT_TIMING.question_waits_ms - 1)
    assert len(one.heard) == 1
    one.questions.overdue(DEFAULT_TIMING.question_waits_ms)
    assert len(one.heard) == 2 and "majority" in one.heard[1]["error"], "the purge waits on"


# ---- deletions on a condition


class Counting:
    """In the place of what sees to deleted queues: nothing is in any."""

    def count(self, id: str, then: Callable[[int], object]) -> None:
        then(0)


class Deleting:
    """A deletion of the queue "q" that a client has asked for."""

    def __init__(self, if_unused: bool = False, if_empty: bool = True) -> None:
        self.bench = made = Bench("q")
        self.transfers = Transfers(made.outbox, made.cluster, made.requests, made.sessions, 1000)
        self.consumers = Consumers(made.outbox, made.cluster, made.requests)
        self.looks: list[Any] = []
        self.told: list[tuple[Any, ...]] = []
        self.deletions = Deletions(
            made.outbox, made.cluster, made.requests, self.transfers, self.consumers,
            lambda queue, asked: self.looks.append(asked), Counting(),
        )  # fmt: skip
        self.deletions.ask(made.queue("q"), Condition(if_unused, if_empty), lambda *answer: self.told.append(answer))

    def commit(self, event: AnyEvent) -> None:
        """The broker's latest request is committed, and is answered."""
        number = max(self.bench.requests.submitter.unanswered)
        outcome = self.bench.apply(event)
        self.bench.requests.applied(Entry(ONE, 1, "b1", 5, number, b""), outcome)
        if type(event) is Condemn and not outcome.code:
            self.deletions.condemned()
        else:
            self.deletions.resolved()
        self.bench.take()
        self.bench.answer(number)


CONDEMN = Condemn("q#1", "b1", 5, 1, False, True)


def test_an_empty_queue_is_condemned_looked_at_and_deleted():
    one = Deleting()
    assert one.bench.ordered() == [CONDEMN]
    one.commit(CONDEMN)
    assert list(one.transfers.held) == ["q#1"] and list(one.deletions.since_ms) == ["q#1"]
    one.looks.pop()({"messages": 0, "dead_lettering": 0})
    delete = DeleteQueue("q", "b1", 5, 1)
    assert one.bench.ordered() == [delete]
    one.commit(delete)
    assert one.told == [({"changed": True, "dead_letters": 0},)] and not one.deletions.report()


@pytest.mark.parametrize(
    ("report", "code"),
    [({"messages": 1, "dead_lettering": 0}, "not-empty"), ({"error": "slow", "code": "unavailable"}, "unavailable"), ({}, "unavailable")],
)  # fmt: skip
def test_a_queue_that_is_not_known_to_be_empty_stays(report, code):
    one = Deleting()
    one.commit(CONDEMN)
    one.looks.pop()(report)
    lift = Lift("q#1", "b1", 5, 1)
    assert one.bench.ordered() == [lift]
    one.commit(lift)
    assert [answer[1] for answer in one.told] == [code] and not one.transfers.held


def test_an_unused_queue_is_deleted_without_a_look():
    one = Deleting(if_unused=True, if_empty=False)
    one.commit(Condemn("q#1", "b1", 5, 1, True, False))
    assert one.bench.ordered() == [DeleteQueue("q", "b1", 5, 1)] and not one.looks


def test_of_two_deletions_the_second_waits_for_the_first():
    one = Deleting()
    first = Condemn("q#1", "b2", 1, 1, False, True)
    one.bench.apply(first)
    one.deletions.condemned()
    one.commit(CONDEMN)
    assert not one.told and not one.bench.take()
    one.bench.apply(Lift("q#1", "b2", 1, 1))
    one.deletions.resolved()
    assert one.bench.ordered() == [Condemn("q#1", "b1", 5, 2, False, True)], "asked again"


# ---- resets, and who supervises


def test_a_reset_is_asked_again_of_each_leader_until_the_queue_is_gone():
    bench = Bench("q")
    resets = Resets(bench.outbox, bench.cluster)
    told: list[tuple[Any, ...]] = []
    resets.ask(bench.queue("q"), lambda *answer: told.append(answer))
    resets.attached()
    assert bench.take() == [(LEADER, Reset("q#1", 1))] * 2 and not told
    bench.apply(Lost("q#1"))
    resets.attached()
    resets.done(ResetDone(1, "unavailable", "too late"))
    assert told == [({"changed": True}, "", "")] and bench.take() == []


def test_a_supervisor_that_a_majority_takes_is_ordered_once_and_told_to_all():
    bench = Bench()
    bench.outbox.view.linked[LEADER] = None
    investiture = Investiture(bench.outbox, bench.cluster, bench.requests, {"b1.r0": None})
    one = Supervises(3, "word", "supervisor3", elected=False)
    told = [(peer, Supervised(3, "word", "supervisor3")) for peer in (LEADER, "b1.r0")]
    investiture.tell(["b1.r9"])
    assert bench.take() == [], "there is none yet"
    investiture.asked(one)
    assert bench.take() == told
    for _ in range(2):
        investiture.asked(Supervises(3, "word", "supervisor3", elected=True))
    assert bench.ordered() == [Supervise(3, "word", "supervisor3")]
    bench.apply(Supervise(4, "other", "supervisor4"))
    investiture.ordered()
    assert [frame.number for _, frame in bench.take()] == [4, 4] and investiture.office.settled == 4


# ---- queues come and go


class Changing:
    """All that hangs on the queues of a broker with one replica."""

    def __init__(self) -> None:
        self.bench = made = Bench()
        self.placement = QueuePlacement(made.outbox, made.cluster)
        life = Lifecycle(made.outbox, made.cluster, Lease(), self.placement.replicas)
        self.transfers = Transfers(made.outbox, made.cluster, made.requests, made.sessions, 1000)
        consumers = Consumers(made.outbox, made.cluster, made.requests)
        self.questions = Questions(made.outbox, made.cluster, self.placement.of, lambda queue, now_ms: False)
        self.senders = Senders(made.outbox, made.cluster, self.transfers, made.sessions, self.questions)
        self.receivers = Receivers(made.outbox, made.cluster, consumers, made.sessions, self.placement.of)
        self.changes = QueueChanges(
            made.outbox, made.cluster, made.requests, life, self.placement, self.questions, self.transfers,
            self.senders, self.receivers, Dissolutions(made.outbox, made.cluster, made.requests, self.questions),
        )  # fmt: skip
        self.placement.up("b1.r0")
        self.change(DeclareQueue("q", {}))
        self.session = made.session()
        self.senders.attach(self.session, AttachSender(1, "", "q"))
        self.receivers.attach(self.session, AttachReceiver(2, "q", "browse"))
        made.take()

    def change(self, event: AnyEvent) -> None:
        outcome = self.bench.apply(event)
        self.changes.rewired(event, outcome, 1)


def test_a_deleted_queue_takes_its_receivers_its_senders_and_its_place_along():
    one = Changing()
    one.change(DeleteQueue("q"))
    ended = [("c1", Detached(handle, "deleted", "queue 'q' was deleted")) for handle in (2, 1)]
    assert one.bench.take() == [*ended, ("b1.r0", Unhost("q#1"))] and not one.placement.of


def test_a_lost_queue_fails_what_was_asked_of_it_and_ends_its_senders_for_good():
    one = Changing()
    heard: list[dict[str, Any]] = []
    one.questions.look(one.bench.queue("q"), heard.append)
    one.transfers.transfer(one.session, Transfer(1, 1, [b"m"]))
    one.bench.take()
    one.change(Lost("q#1"))
    assert heard[0]["code"] == "lost"
    assert [frame.code for _, frame in one.bench.take() if isinstance(frame, Detached)] == ["lost", "lost"]
    one.bench.answer(1)
    one.transfers.flush()
    assert one.bench.take() == [], "nothing is said of a sender that is over"


def test_a_deleted_exchange_ends_its_senders():
    one = Changing()
    one.change(DeclareExchange("x", "fanout", {}))
    one.senders.attach(one.session, AttachSender(3, "x", None))
    one.bench.take()
    one.change(DeleteExchange("x"))
    assert [(frame.handle, frame.code) for _, frame in one.bench.take()] == [(3, "not-found")]


def test_what_a_dead_replica_kept_is_evicted_and_kept_blank_by_another():
    one = Changing()
    one.placement.up("b1.r1")
    one.bench.take()
    one.changes.replica_lost("b1.r0")
    detached, asked, spare, hosted, again = one.bench.take()
    assert (detached[1].handle, detached[1].code) == (2, "unavailable"), "a sender needs no replica"
    assert asked[1].parts == [("q#1", encode_event(Evict("b1", 5)))]
    assert hosted == ("b1.r1", Host("q#1", "", {}, ONE, True, 6, ["b1", "b2", "b3"]))
    assert spare == again == WantSpare()
    one.receivers.attach(one.session, AttachReceiver(4, "q", "browse"))
    assert [(peer, type(frame)) for peer, frame in one.bench.take()] == [("b1.r1", Consume), ("c1", Attached)]
