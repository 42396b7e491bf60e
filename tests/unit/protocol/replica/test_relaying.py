"""An exchange's own queue at one replica: the frames of its batches, and which batches are this replica's to see to."""

from __future__ import annotations

import pytest
from mantamq.protocol.limits import Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.batches import EXPIRED, REJECTED
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.relay import AGAIN, Relay, addressed
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.dead_letters import DeadLetters, piece_name
from mantamq.protocol.replica.relaying import Relaying, sent_on
from mantamq.protocol.wire.events import (
    AnyEvent,
    DeadLetterDone,
    Enqueue,
    Entry,
    Evict,
    Member,
    Return,
    encode_event,
)
from mantamq.protocol.wire.message import Header, encode, header
from mantamq.protocol.wire.queue_frames import DeadLetter

NUMBER = "qpid.msg_sequence"


def message(body: bytes) -> bytes:
    return encode(Header(body))  # type: ignore[arg-type]


class Queue:
    """At a broker; b1, b2 and b3 keep it."""

    def __init__(
        self, most_bytes: int = 1 << 20, numbers: bool = True, keeps: bool = False, broker: str = "b1"
    ) -> None:
        settings = QueueSettings(exchange="x", exchange_sequence=numbers, exchange_initial=keeps)
        self.state = QueueState("manta.exchange.x#1")
        (relay,) = policies_of(self.state, settings).of_state
        assert isinstance(relay, Relay)
        self.state.include(relay)
        self.letters = DeadLetters(self.state, Limits(dead_letter_bytes=most_bytes), sent_on(settings))
        self.keeper = Keeper(self.state.id, broker, voters=["b1", "b2", "b3"])
        self.relaying = Relaying(self.state, relay, self.letters, broker, self.keeper)

    def apply(self, *events: AnyEvent) -> list[DeadLetter]:
        """What is asked of the broker when they are all applied, as those that come together are."""
        for event in events:
            done = self.state.apply(event)
            entry = Entry((1, 1), 1, "b1", 4, 1, encode_event(event))
            self.relaying.applied(self.state.index, entry, event, done)
        return self.letters.due()


def came(
    broker: str, *bodies: bytes, keys: list[str] | None = None, client: str = "", first: int = 1,
    expiry: list[int] | None = None,
) -> Enqueue:  # fmt: skip
    numbers = [first, first + len(bodies) - 1] if client else []
    blobs = [addressed(message(body), keys or ["k"], broker) for body in bodies]
    return Enqueue(client, numbers, blobs, expiry or [])


def told(frame: DeadLetter) -> list[tuple[bytes, int | None]]:
    """The messages in it, each with the number that it has in a header."""
    return [(bytes(header(blob).body)[2:], (header(blob).properties or {}).get(NUMBER)) for blob in frame.blobs]


# ---- frames


def test_a_batch_is_told_with_its_first_position_and_each_message_has_its_number_and_its_keys():
    queue = Queue()
    (frame,) = queue.apply(came("b1", b"1", b"2", client="c/1"), came("b1", b"3", keys=["l", "m"]))
    assert (frame.queue, frame.id, frame.exchange, frame.first) == ("manta.exchange.x#1", 1, "x", 1)
    assert told(frame) == [(b"1", 1), (b"2", 2)] and frame.keys == [["k"], ["k"]]
    assert (frame.origins, frame.origin_of, frame.expiry) == (["c"], [0, 0], [])
    assert queue.letters.dead_lettered(1) == ([], 1)
    (frame,) = queue.apply(DeadLetterDone(1))
    assert (frame.id, frame.first, told(frame), frame.keys) == (3, 3, [(b"3", 3)], [["l", "m"]])


def test_what_only_keeps_the_last_sends_each_as_it_came():
    queue = Queue(numbers=False, keeps=True)
    (frame,) = queue.apply(came("b1", b"1", b"2"))
    assert [header(blob) for blob in frame.blobs] == [header(message(b"1")), header(message(b"2"))]
    assert frame.first == 1
    (frame,) = queue.apply(came("b1", b"3"), DeadLetterDone(1))
    assert frame.first == 2 and told(frame) == [(b"2", None), (b"3", None)]


def test_a_large_batch_goes_in_pieces_each_with_its_own_first_and_its_own_expiries():
    size = len(addressed(message(b"1"), ["k"], "b1"))
    queue = Queue(most_bytes=2 * size)
    queue.apply(came("b1", b"0"))
    queue.letters.dead_lettered(1)
    bodies = (b"1", b"2", b"3", b"4", b"5")
    (first,) = queue.apply(came("b1", *bodies, client="c/1", expiry=[1, 9000, 2, 8000, 4, 7000]), DeadLetterDone(1))
    assert (first.id, first.first, told(first), first.expiry) == (3, 2, [(b"1", 2), (b"2", 3)], [1, 9000])
    ((second,), whole) = queue.letters.dead_lettered(first.id)
    assert (second.id, second.first, second.expiry, whole) == (piece_name(3, 1), 4, [0, 8000], 0)
    assert told(second) == [(b"3", 4), (b"4", 5)] and second.keys == [["k"], ["k"]] and second.origin_of == [0, 0]
    ((third,), whole) = queue.letters.dead_lettered(second.id)
    assert (third.id, third.first, third.expiry, whole) == (piece_name(3, 2), 6, [0, 7000], 0)
    assert queue.letters.dead_lettered(third.id) == ([], 3)


def test_an_expiry_is_of_its_place_in_the_piece():
    (frame,) = Queue().apply(came("b1", b"1", b"2", b"3", expiry=[0, 7000, 2, 8000]))
    assert frame.expiry == [0, 7000, 2, 8000]


def test_of_each_message_it_is_told_who_sent_it_first():
    queue = Queue()
    queue.apply(came("b1", b"0"))
    events = [came("b1", b"1", client="c/1"), came("b1", b"2"), came("b1", b"3", client="d/1")]
    (frame,) = queue.apply(*events, DeadLetterDone(1))
    assert [frame.origins[which] for which in frame.origin_of] == ["c", "", "d"]


def test_what_is_no_message_goes_on_as_it_is():
    (frame,) = Queue().apply(Enqueue("", [], [b"raw"]))
    assert (frame.blobs, frame.keys, frame.first) == ([b"raw"], [[""]], 1)


def test_other_queues_tell_of_what_was_rejected():
    state = QueueState("q#1", "lost")
    state.batches.begin(8, "", [(6, 6)], EXPIRED)
    for key in ("", "late"):
        tell = sent_on(QueueSettings(alternate="lost", dead_letter_key=key))
        letter = DeadLetter("q#1", 7, "lost", [b"a", b"b"], cause=REJECTED, positions=[3, 5], key=key)
        assert tell(state, 7, {3: b"a", 5: b"b"}) == letter
        assert tell(state, piece_name(8, 2), {6: b"c"}).cause == EXPIRED, "whichever piece it is"


# ---- who sees to a batch


@pytest.mark.parametrize(("broker", "asked"), [("b1", [1]), ("", [1]), ("b2", [])])
def test_a_batch_is_seen_to_by_its_broker_or_by_every_one(broker: str, asked: list[int]):
    queue = Queue()
    assert [frame.id for frame in queue.apply(came(broker, b"1"))] == asked
    assert queue.apply(came("b1", b"2")) == [], "the batch of another event is under way"


def test_the_next_batch_goes_by_its_own_broker():
    queue = Queue()
    assert queue.apply(came("b2", b"1"), came("b1", b"2")) == []
    assert [frame.id for frame in queue.apply(DeadLetterDone(1))] == [3]
    queue.letters.dead_lettered(3)
    assert queue.apply(came("b2", b"3"), DeadLetterDone(3)) == []


def test_what_is_to_go_again_is_seen_to_by_every_one():
    queue = Queue(keeps=True)
    queue.apply(came("b2", b"1"))
    assert queue.apply(DeadLetterDone(1)) == []
    (frame,) = queue.apply(DeadLetterDone(AGAIN))
    assert (frame.id, frame.first, told(frame)) == (3, 1, [(b"1", 1)])


def test_one_that_is_done_before_all_is_applied_is_not_asked_for():
    assert Queue().apply(came("b1", b"1"), DeadLetterDone(1)) == []


@pytest.mark.parametrize("event", [Evict("b3", 1), Return("b3", 2)])
def test_when_a_broker_is_out_every_members_batch_is_seen_to_again(event: AnyEvent):
    """By a replica that was not there when it began: those that were may be the ones that have died."""
    queue, late = Queue(), Queue()
    (first,) = queue.apply(came("", b"1"))
    late.state.restore(queue.state.snapshot())
    late.state.fill(dict(queue.state.blobs))
    assert late.letters.due() == []
    assert late.apply(event) == [first], "the same piece under the same name"
    assert queue.apply(event) == [], "on its way already"


def test_one_of_another_broker_is_left_to_who_is_told_that_it_is_out():
    queue = Queue()
    queue.apply(came("b2", b"1"))
    assert queue.apply(Evict("b3", 1)) == []
    assert queue.state.apply(Evict("b2", 1)).orphans == [1]


def updated(queue: Queue, broker: str) -> Queue:
    """A copy of another broker, made of this one."""
    copy = Queue(broker=broker)
    copy.state.restore(queue.state.snapshot())
    copy.state.fill(dict(queue.state.blobs))
    assert copy.letters.due() == []
    return copy


def test_what_a_broker_takes_in_before_it_keeps_the_queue_is_seen_to_by_those_that_do():
    """It may leave the cluster before it ever does, and then no event says so here."""
    queue = Queue()
    assert queue.apply(came("b2", b"1"), came("b4", b"2")) == []
    assert [frame.id for frame in queue.apply(DeadLetterDone(1))] == [3]
    assert queue.apply(Evict("b3", 1)) == [], "on its way already"


def test_what_is_of_one_that_does_not_keep_the_queue_is_seen_to_again_when_a_broker_is_out():
    queue = Queue()
    (first,) = queue.apply(came("b4", b"1"))
    assert updated(queue, "b2").apply(Evict("b1", 1)) == [first], "the same piece under the same name"


def test_a_copy_that_is_made_in_the_midst_of_its_own_brokers_batch_sees_to_it_once_it_keeps_the_queue():
    """Those that were there may have heard already that it comes, and leave it to that."""
    queue = Queue()
    queue.keeper.voters.append("b4")
    assert queue.apply(came("b4", b"1")) == []
    come = updated(queue, "b4")
    assert [frame.id for frame in come.apply(Member("b4", 1, True))] == [1]
    assert queue.apply(Member("b4", 1, True)) == []


def test_what_is_still_to_go_again_is_no_batch():
    queue = Queue(keeps=True)
    queue.apply(came("b2", b"1"), DeadLetterDone(AGAIN))
    assert AGAIN in queue.state.batches
    assert queue.apply(Evict("b3", 1)) == []
    (frame,) = queue.apply(DeadLetterDone(1))
    assert (frame.id, frame.first) == (4, 1)


def test_it_is_to_be_told_of_each_commit_at_once():
    assert Queue().relaying.expected()
