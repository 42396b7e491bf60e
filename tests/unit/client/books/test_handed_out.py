"""What was handed out does not change: a frame that may be sent again is the same then, whatever the books did since."""

from __future__ import annotations

import threading

import pytest
from fake_broker import FakeBroker, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st
from mantamq.client import Invalid, Message, connect
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.wire.client_frames import Command, Completed, Delivery, Disposed, Transfer
from mantamq.protocol.wire.framing import encode_frame
from mantamq.protocol.wire.message import decode
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE

pytestmark = pytest.mark.timeout(20)


class Witness:
    """Takes frames as a link does, and keeps what they were."""

    def __init__(self):
        self.said = []

    def __call__(self, frame):
        self.said.append((frame, encode_frame(frame)))

    def check(self):
        for frame, data in self.said:
            assert encode_frame(frame) == data, f"{frame} was changed after it was handed out"


FEATURES = st.builds(
    Message,
    st.binary(max_size=3),
    subject=st.none() | st.text(max_size=2),
    properties=st.none() | st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2),
    ttl=st.none() | st.floats(0, 9),
)


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.booleans(), st.lists(FEATURES | st.sampled_from(["flush", "complete", "piece"]), max_size=40))
def test_a_senders_frames_stay_as_they_were(keyed, headers, steps):
    witness = Witness()
    sender = SenderCore(1, "x", keyed, headers, 1000, 1 << 20, witness)
    done = 0
    for step in steps:
        if isinstance(step, Message):
            sender.put(step)
        elif step == "flush":
            sender.flush()
        elif sender.sent > done:
            upto = sender.sent if step == "complete" else done + 1
            sender.completed(Completed(1, [done + 1, upto]))
            done = upto
        witness.check()
    sender.flush()
    frames = [frame for frame, _ in witness.said]
    assert sum(len(frame.blobs) for frame in frames) == sender.sent
    assert [*sender.pending.values()] == [f for f in frames if f.first + len(f.blobs) - 1 > done]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([ACCEPT, RELEASE, REJECT, "flush", "answer", "lose"]), max_size=40))
def test_a_receivers_frames_stay_as_they_were(steps):
    witness = Witness()
    receiver = ReceiverCore(1, "q", 50, True, witness)
    receiver.open()
    receiver.delivered(Delivery(1, 7, [1, 20, 25, 50], [b"\x91\xc4\x01x"] * 46, [3, 1]))
    answered = 0
    for step in steps:
        if step == "flush":
            receiver.flush()
        elif step == "answer" and receiver._disposed > answered:
            answered += 1
            receiver.disposed(Disposed(1, answered, [7, 1, 1]))
        elif step == "lose":
            receiver.interrupted()
            answered = 0
        elif isinstance(step, int) and (message := receiver.fetch()) is not None:
            receiver.settle(step, message)
        witness.check()


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


def alive(cluster):
    """Bodies in queue "q" when a minute has passed."""
    cluster.pass_time(60_000)
    state = cluster.call(lambda: cluster.cluster.queue_states("q")[1])
    return [decode(state.blobs[p], Message).body for first, last in state.available for p in range(first, last + 1)]


@pytest.mark.parametrize("kind", ["queue", "keyed", "headers"])
def test_a_message_keeps_its_own_ttl_when_it_is_sent_again(cluster, kind):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        connection.bind("amq.topic", "q", "#")
        connection.bind("amq.match", "q", "", {"x-match": "any", "a": 1})
        address = {"queue": "q", "keyed": "amq.topic", "headers": "amq.match"}[kind]
        sender = connection.session().sender(address)
        cluster.freeze("b1")
        sender.send(Message(b"keep", subject="k", properties={"a": 1}))
        sender.send(Message(b"fleeting", subject="f", properties={"a": 1}, ttl=0.05))
        cluster.shut("b1")
        sender.sync(10)
        assert connection.broker == "b2" and len({t.first for t in cluster.said(Transfer)}) == 2
        assert alive(cluster) == [b"keep"]


def test_a_command_is_asked_again_as_it_was_asked(cluster):
    arguments = {"a": 1, "list": [1]}
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        cluster.freeze("b1")
        binding = threading.Thread(target=lambda: connection.bind("amq.match", "q", "k", arguments), daemon=True)
        binding.start()
        wait_until(lambda: connection._conversation._asked)
        arguments["a"] = 2
        arguments["list"].append(2)
        cluster.shut("b1")
        binding.join(10)
        (asked,) = [c for c in cluster.said(Command) if c.name == "bind"]
        assert asked.arguments["arguments"] == {"a": 1, "list": [1]}


def test_what_cannot_be_asked_is_refused_at_once_and_not_kept_for_the_next_broker(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        for bad in (object(), {1}, {"a": object()}, {"a": {1: 2}}):
            with pytest.raises(Invalid, match="arguments"):
                connection.declare_queue("q", arguments=bad)  # type: ignore[arg-type]
        cluster.shut("b1")
        wait_until(lambda: connection.reconnects == 1)
        assert connection.declare_queue("q")
