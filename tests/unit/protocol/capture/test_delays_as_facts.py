"""What is delayed, as the tap hears it: a teller's facts make the same rows as the events and what they did."""

from __future__ import annotations

import pytest
from mantamq.protocol.capture.capture import QueueCapture, ReplicaCapture
from mantamq.protocol.capture.event_rows import rows
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.capture.tap import rows_of
from mantamq.protocol.machine import Tick
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.capture_frames import Facts, decode_fact
from mantamq.protocol.wire.events import (
    Acquire,
    AnyEvent,
    Due,
    Enqueue,
    Entry,
    Modify,
    Own,
    Purge,
    Release,
    encode_event,
)

Q = "orders#1"
STORIES: dict[str, tuple[QueueSettings, list[AnyEvent]]] = {
    "sent for later, in part again, and due": (
        QueueSettings(),
        [
            Enqueue("c/1", [1, 1], [b"x"]),
            Enqueue("c/1", [1, 3], [b"x"] * 3, delays=[0, 60, 2, 50]),
            Due(50, [1, 3]),
            Purge(0),
        ],
    ),
    "given back for a while": (
        QueueSettings(),
        [
            Enqueue("c/1", [1, 2], [b"x"] * 2),
            Own("b1", 1),
            Acquire("b1", 1, 1, [1, 1, 2]),
            Modify("b1", 1, [1, 1, 2], True, {}, 70),
        ],
    ),
    "waits by the queue's own word": (
        QueueSettings(retry_delay_s=[0.5]),
        [
            Enqueue("c/1", [1, 2], [b"x"] * 2),
            Own("b1", 1),
            Acquire("b1", 1, 1, [1, 1, 2]),
            Release("b1", 1, [1, 1, 2], True, 20),
        ],
    ),
    "pushed out of a ring as it comes": (
        QueueSettings(max_count=2, overflow="ring"),
        [Enqueue("c/1", [1, 3], [b"x"] * 3, delays=[0, 60, 2, 50])],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_facts_make_the_rows_of_their_events(story: str):
    settings, events = STORIES[story]
    capture, state = ReplicaCapture("b1.r0", "b1", 4), QueueState(Q)
    policies = policies_of(state, settings)
    for policy in policies.of_state:
        state.include(policy)
    observer = capture.hosted(state, Dispatcher(state, policies.order, policies.allocator))
    assert isinstance(observer, QueueCapture)
    capture.companion.step(Tick(1, 1000))
    expected: list[Row] = []
    for index, event in enumerate(events, 1):
        entry = Entry((3, 7), index, "b2", 1, 1, encode_event(event))
        done = state.apply(event)
        observer.applied(index, entry, event, done)
        expected += rows(Q, entry, event, done, 1000)
    facts = capture.reporter.buffers[Q].facts
    told = [row for fact in facts for row in rows_of(Facts(Q, 0, len(facts), []), decode_fact(fact))]
    assert told == expected
    assert "delay" in {row.kind for row in told}
