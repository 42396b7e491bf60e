"""A broker's transfers (`protocol/broker/transfers.py`), with an outbox, the wiring and a book of requests only."""

from __future__ import annotations

from mantamq.protocol.broker.dead_letters import DeadLetterRoutes
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.machine import PauseClient
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.client_frames import Blocked, Completed, Detached, Failed, Transfer
from mantamq.protocol.wire.events import Condemn, DeclareQueue, DeleteQueue, Enqueue, FlowControl, Lift
from mantamq.protocol.wire.queue_frames import DeadLetter, DeadLettered
from mantamq.protocol.wire.verdict_frames import Judged
from mantamq.protocol.wire.version import KNOWS_BLOCKED

from tests.unit.broker_bench import LEADER, Bench

LIMIT_BYTES = 1000
BLOCKED_BYTES = 500
BLOCKED_TOTAL_BYTES = 800


class Alone:
    """Transfers alone, with a client that sends to the queue "q" as handle 1."""

    def __init__(self) -> None:
        self.bench = Bench("q", "r")
        made = self.bench
        self.transfers = Transfers(
            made.outbox, made.cluster, made.requests, made.sessions, LIMIT_BYTES,
            blocked_bytes=(BLOCKED_BYTES, BLOCKED_TOTAL_BYTES),
        )  # fmt: skip
        self.session = self.attached("c1")

    def attached(self, peer: str, key: str | None = "q", exchange: str = "", mandatory: bool = False) -> Session:
        session = self.bench.session(peer, peer)
        session.add_sender(1, exchange, key, mandatory=mandatory)
        return session

    def send(self, first: int, *blobs: bytes, session: Session | None = None, keys: list[str] | None = None) -> int:
        """Returns the number of its request, or of the last one before."""
        self.transfers.transfer(session or self.session, Transfer(1, first, list(blobs), keys))
        return max(self.bench.requests.submitter.unanswered, default=0)

    def told(self) -> list[object]:
        self.transfers.flush()
        return [one for one in self.bench.take() if not (isinstance(one, tuple) and one[0] == LEADER)]


def test_a_transfer_is_complete_when_it_is_answered_and_not_before():
    alone = Alone()
    alone.transfers.transfer(alone.session, Transfer(1, 1, [b"a", b"b"]))
    assert alone.bench.ordered() == [Enqueue("c1/1", [1, 2], [b"a", b"b"])]
    assert alone.told() == [] and alone.transfers.uncommitted_bytes > 0
    alone.bench.answer(1)
    assert alone.told() == [("c1", Completed(1, [1, 2]))] and alone.transfers.uncommitted_bytes == 0
    assert alone.told() == []


def test_who_is_refused_hears_of_the_limit_that_a_queue_had_also_when_it_is_deleted_meanwhile():
    alone = Alone()
    alone.bench.apply(DeclareQueue("few", {"qpid.max_count": 3}))
    queue, session = alone.bench.queue("few").id, alone.attached("c2", key="few")
    number = alone.send(1, b"m", session=session)
    alone.transfers.verdicts.heard(Judged(queue, 5, [number], [[1, 1]]))
    alone.bench.apply(DeleteQueue("few"))
    alone.transfers.deleted(queue)
    alone.bench.answer(number)
    ((peer, failed),) = alone.told()
    assert peer == "c2" and failed.ranges == [1, 1] and "the queue takes at most 3 messages" in failed.text


def test_completions_gather_until_they_are_told():
    alone = Alone()
    for first in (1, 2, 3, 5):
        alone.send(first, b"m")
    alone.bench.answer(1, 2, 3, 4)
    assert alone.told() == [("c1", Completed(1, [1, 3, 5, 5]))]


def test_while_flow_control_is_on_completions_and_detaches_wait_behind_each_other():
    alone = Alone()
    alone.send(1, b"m")
    alone.bench.apply(FlowControl("b2", True))
    alone.bench.answer(1)
    alone.session.remove_sender(1)
    alone.transfers.detached(alone.session, 1)
    assert alone.told() == [] and alone.transfers.withheld_bytes > 0
    alone.bench.apply(FlowControl("b2", False))
    assert alone.told() == [("c1", Completed(1, [1, 1])), ("c1", Detached(1))]
    assert alone.transfers.withheld_bytes == 0


def test_completions_that_flow_control_withholds_are_not_told_of_a_sender_that_the_broker_has_ended():
    alone = Alone()
    other = alone.session.add_sender(2, "", "r")
    alone.bench.apply(FlowControl("b2", True))
    alone.bench.answer(alone.send(1, b"m"))
    alone.transfers.transfer(alone.session, Transfer(2, other.next, [b"r"]))
    alone.bench.answer(2)
    alone.session.remove_sender(1)
    alone.transfers.told(alone.session, 1)
    alone.bench.apply(FlowControl("b2", False))
    assert alone.told() == [("c1", Completed(2, [1, 1]))]


def test_a_client_whose_completions_take_too_much_is_not_read_while_others_are():
    alone = Alone()
    other = alone.attached("c2")
    alone.bench.apply(FlowControl("b2", True))
    alone.bench.answer(alone.send(1, bytes(LIMIT_BYTES + 1)))
    assert alone.told() == [PauseClient("c1", True)]
    alone.bench.answer(alone.send(1, b"m", session=other))
    assert alone.told() == [PauseClient("c2", True)], "it has sent, and all is too much"
    alone.bench.apply(FlowControl("b2", False))
    assert alone.told()[-2:] == [PauseClient("c1", False), PauseClient("c2", False)]


def test_with_too_much_on_its_way_nobody_may_send_until_half_of_it_is_answered():
    alone = Alone()
    knows = alone.attached("c2")
    knows.minor = KNOWS_BLOCKED
    numbers = [alone.send(first, bytes(LIMIT_BYTES // 3)) for first in (1, 2, 3)]
    assert alone.told() == [PauseClient("c1", True), ("c2", Blocked(True))]
    late = alone.attached("c3")
    late.minor = KNOWS_BLOCKED
    alone.transfers.attached(late)
    assert alone.told() == [("c3", Blocked(True))]
    alone.bench.answer(numbers[0])
    assert alone.told() == [("c1", Completed(1, [1, 1]))]
    alone.transfers.ended(alone.bench.sessions.pop("c3"))
    alone.bench.answer(numbers[1])
    told = alone.told()
    assert PauseClient("c1", False) in told and ("c2", Blocked(False)) in told and ("c3", Blocked(False)) not in told


def test_who_is_told_and_sends_on_is_read_for_a_while_and_then_no_more():
    alone = Alone()
    alone.session.minor = KNOWS_BLOCKED
    alone.send(1, bytes(LIMIT_BYTES + 1))
    assert alone.told() == [("c1", Blocked(True))]
    alone.send(2, bytes(BLOCKED_BYTES))
    assert alone.told() == [], "it was on its way"
    number = alone.send(3, b"m")
    assert alone.told() == [PauseClient("c1", True)]
    for one in range(1, number + 1):
        alone.bench.answer(one)
    told = alone.told()
    assert PauseClient("c1", False) in told and ("c1", Blocked(False)) in told


def test_when_all_together_send_on_for_too_long_each_that_has_sent_on_is_not_read():
    alone = Alone()
    others = [alone.attached(name) for name in ("c2", "c3", "c4")]
    for session in alone.bench.sessions.values():
        session.minor = KNOWS_BLOCKED
    alone.send(1, bytes(LIMIT_BYTES + 1))
    assert len(alone.told()) == 4
    share = bytes(BLOCKED_TOTAL_BYTES // 2)
    alone.send(2, share)
    alone.send(1, share, session=others[0])
    assert alone.told() == [], "each is within its own, and all within theirs"
    alone.send(1, b"m", session=others[1])
    assert alone.told() == [PauseClient(name, True) for name in ("c1", "c2", "c3")], "c4 has brought nothing"
    alone.transfers.ended(alone.bench.sessions.pop("c1"))
    number = alone.send(1, b"m", session=others[2])
    assert alone.told() == [PauseClient("c4", True)], "what has come is here, though who brought it has gone"
    alone.bench.answer(*range(1, number + 1))
    alone.told()
    alone.bench.answer(alone.send(2, bytes(LIMIT_BYTES + 1), session=others[0]))
    number = alone.send(3, bytes(LIMIT_BYTES + 1), session=others[0])
    alone.told()
    alone.send(4, share, session=others[0])
    assert alone.told() == [], "it counts anew"


def test_who_comes_while_there_is_no_room_is_told_with_the_greeting():
    alone = Alone()
    alone.bench.apply(FlowControl("b2", True))
    alone.bench.answer(alone.send(1, bytes(LIMIT_BYTES + 1)))
    alone.told()
    old, late = (alone.attached(name) for name in ("c2", "c3"))
    late.minor = KNOWS_BLOCKED
    assert not alone.transfers.greeted(old) and alone.transfers.greeted(late)
    alone.transfers.attached(late)
    assert alone.told() == []
    alone.bench.apply(FlowControl("b2", False))
    assert alone.told()[-2:] == [PauseClient("c1", False), ("c3", Blocked(False))]
    assert not alone.transfers.greeted(alone.attached("c4"))


def test_who_comes_when_flow_control_has_just_gone_off_may_send():
    alone = Alone()
    alone.bench.apply(FlowControl("b2", True))
    alone.bench.answer(alone.send(1, bytes(LIMIT_BYTES + 1)))
    alone.told()
    alone.transfers.ended(alone.bench.sessions.pop("c1"))
    alone.bench.apply(FlowControl("b2", False))
    late = alone.attached("c2")
    late.minor = KNOWS_BLOCKED
    assert not alone.transfers.greeted(late), "nobody would tell it when it may send"
    assert alone.told() == []


def test_what_goes_to_no_queue_fails_or_is_complete_by_that():
    alone = Alone()
    topic = alone.attached("c2", key="x", exchange="amq.topic")
    must = alone.attached("c3", key="x", exchange="amq.topic", mandatory=True)
    some = alone.attached("c4", key=None)
    alone.send(1, b"m", session=topic)
    assert alone.told() == [("c2", Completed(1, [1, 1], [1, 1]))]
    alone.send(1, b"m", session=must)
    ((peer, failed),) = alone.told()
    assert (peer, failed.handle, failed.ranges, failed.code) == ("c3", 1, [1, 1], "unroutable")
    alone.bench.answer(alone.send(1, b"m", b"n", session=some, keys=["q", "nowhere"]))
    failed, complete = alone.told()
    assert failed[1].ranges == [2, 2] and complete == ("c4", Completed(1, [1, 1]))


def test_what_is_too_large_fails_and_the_sender_goes_on():
    alone = Alone()
    alone.session.limits = alone.session.limits.__class__(message_bytes=3)
    alone.send(1, b"long")
    ((_, failed),) = alone.told()
    assert isinstance(failed, Failed) and failed.code == "too-large"
    alone.bench.answer(alone.send(2, b"sh"))
    assert alone.told() == [("c1", Completed(1, [2, 2]))]


def test_what_goes_to_a_condemned_queue_waits_and_completes_if_the_queue_stays():
    alone = Alone()
    number = alone.send(1, b"m")
    alone.bench.apply(Condemn("q#1", "b2", 1, 1, False, True))
    alone.transfers.hold()
    alone.bench.answer(number)
    assert alone.told() == [] and list(alone.transfers.held) == ["q#1"]
    alone.bench.apply(Lift("q#1", "b2", 1, 1))
    alone.transfers.resolved()
    assert alone.told() == [("c1", Completed(1, [1, 1]))] and not alone.transfers.held


def test_what_went_with_a_condemned_queue_fails_as_long_as_requests_are_under_way():
    alone = Alone()
    one, two = alone.send(1, b"m"), alone.send(2, b"n")
    alone.bench.apply(Condemn("q#1", "b2", 1, 1, False, True))
    alone.transfers.hold()
    alone.bench.answer(one)
    alone.bench.apply(DeleteQueue("q", "b2", 1, 1))
    alone.transfers.deleted("q#1")
    alone.transfers.resolved()
    alone.bench.answer(two)
    assert [(peer, frame.ranges, frame.code) for peer, frame in alone.told()] == [
        ("c1", [1, 1], "not-found"), ("c1", [2, 2], "not-found")
    ]  # fmt: skip
    assert alone.transfers.gone
    alone.transfers.settled()
    assert not alone.transfers.gone, "nothing is undecided any more"


def test_a_lost_queue_fails_what_was_on_its_way():
    alone = Alone()
    number = alone.send(1, b"m")
    alone.transfers.lost.add("q#1")
    alone.bench.answer(number)
    assert [(frame.ranges, frame.code) for _, frame in alone.told()] == [([1, 1], "lost")]


def test_nothing_is_told_to_a_connection_that_is_over():
    alone = Alone()
    one, two = alone.send(1, b"m"), alone.send(2, b"n")
    alone.bench.answer(one)
    del alone.bench.sessions["c1"]
    alone.transfers.ended(alone.session)
    alone.bench.answer(two)
    assert alone.told() == [] and alone.transfers.uncommitted_bytes == 0


def test_dead_letters_wait_while_flow_control_is_on():
    alone = Alone()
    made = alone.bench
    routes = DeadLetterRoutes(made.outbox, made.cluster, made.requests, alone.transfers)
    made.apply(FlowControl("b3", True))
    for _ in range(2):
        routes.dead_letter("b1.r0", DeadLetter("gone#1", 7, "", [b"m"], cause="expired", positions=[1], key="r"))
        routes.go_on()
    assert made.take() == []
    made.apply(FlowControl("b3", False))
    routes.go_on()
    assert made.ordered() == [Enqueue("gone#1@7", [1, 1], [b"m"])], "it was asked for twice"
    routes.go_on()
    assert made.take() == []


def test_and_go_on_where_it_is_on_for_longer_than_one_that_is_behind_is_waited_for():
    alone = Alone()
    made = alone.bench
    routes = DeadLetterRoutes(made.outbox, made.cluster, made.requests, alone.transfers, Timing(letters_wait_ms=20_000))
    made.apply(FlowControl("b3", True, "its memory is full"))
    for number, passed_ms in ((7, 0), (8, 19_999)):
        made.outbox.now_ms += passed_ms
        routes.dead_letter("b1.r0", DeadLetter("gone#1", number, "", [b"m"], cause="rejected", positions=[1], key="r"))
        routes.go_on()
        assert made.take() == []
    made.outbox.now_ms += 1
    routes.go_on()
    assert made.ordered() == [Enqueue(f"gone#1@{number}", [1, 1], [b"m"], at_ms=20_000) for number in (7, 8)]


def test_what_comes_when_flow_control_has_just_gone_off_goes_behind_what_waits():
    alone = Alone()
    made = alone.bench
    routes = DeadLetterRoutes(made.outbox, made.cluster, made.requests, alone.transfers)
    made.apply(FlowControl("b3", True))
    routes.dead_letter("b1.r0", DeadLetter("gone#1", 7, "", [b"m"], cause="rejected", positions=[1], key="r"))
    made.apply(FlowControl("b3", False))
    routes.dead_letter("b1.r0", DeadLetter("gone#1", 8, "", [b"n"], cause="rejected", positions=[2], key="r"))
    routes.go_on()
    assert made.ordered() == [Enqueue("gone#1@7", [1, 1], [b"m"]), Enqueue("gone#1@8", [1, 1], [b"n"])]


def test_rejected_messages_are_answered_when_they_are_in_the_alternates_queues():
    alone = Alone()
    dead = DeadLetter("gone#1", 7, "", [b"m"], cause="rejected", positions=[1], key="r")
    made = alone.bench
    routes = DeadLetterRoutes(made.outbox, made.cluster, made.requests, alone.transfers)
    routes.dead_letter("b1.r0", dead)
    assert alone.bench.ordered() == [Enqueue("gone#1@7", [1, 1], [b"m"])]
    alone.bench.answer(1)
    assert alone.told() == [("b1.r0", DeadLettered("gone#1", 7))]
    routes.dead_letter("b1.r0", DeadLetter("r#2", 8, "amq.topic", [b"m"], positions=[2]))
    assert alone.told() == [("b1.r0", DeadLettered("r#2", 8))], "to no queue: dropped"
