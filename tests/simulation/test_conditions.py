"""What the checker of deletions on a condition says of a message that went with one queue and is complete by another."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Completed

from .conditions import Conditions
from .model import Violation

MESSAGE = b"\x91\xc4\x06u1/3:1"
CONDEMNED = events.Condemn("q#1", "b1", 1, 1, False, True)


def sent_by(client: str) -> bytes:
    return events.encode_event(events.Enqueue(client, [1, 1], [MESSAGE]))


SENT = sent_by("u1/3")


def checker(client: str = "u1/3", came: bool = True) -> Conditions:
    """A client has sent a message to q by b1; r has got it by b2, where `came`. In q it is from `client`."""
    state = SimpleNamespace(available=[1], acquired={}, blobs={1: MESSAGE})
    keeper = SimpleNamespace(blank=False)
    replica = SimpleNamespace(keeper=keeper, updating=False, applied=1, state=state)
    conditions: Any = Conditions.__new__(Conditions)
    conditions.unused = conditions.empty = 0
    conditions._direct, conditions._complete, conditions._dead = {("u1", 3)}, {}, {}
    conditions._as_empty = set()
    machines = {
        "b1": SimpleNamespace(inc=1),
        "b2": SimpleNamespace(inc=1),
        "b1.r0": SimpleNamespace(queues={"q#1": replica}),
    }
    user = SimpleNamespace(user=SimpleNamespace(name="u1"))
    conditions.world = SimpleNamespace(machines=machines, clients={"u1~2": user})
    conditions.watch = SimpleNamespace(
        asked={("b1", 1, 1): {"q#1": [SENT]}, ("b2", 1, 1): {"r#2": [SENT]}, ("b2", 1, 2): {"r#2": []}},
        logs={"q#1": {1: SimpleNamespace(event=sent_by(client))}},
        models={"r#2": SimpleNamespace(seen={"u1/3": {1}} if came else {})},
        gone=set(),
    )
    return conditions


CASES = [
    ("b2", "u1/3", True, True),
    ("b1", "u1/3", True, False),  # it is complete where it went with the queue
    ("b2", "u1/3", False, False),  # taken for a repeat, for instance, of what is nowhere
    ("b2", "r#2@5", True, False),  # it was complete, and then a letter for the queue that went
]


@pytest.mark.parametrize("broker, client, came, fine", CASES)
def test_what_went_with_a_queue_is_complete_only_where_it_came_besides(broker, client, came, fine):
    one = checker(client, came)
    one._deleted("q#1", CONDEMNED)
    with nullcontext() if fine else pytest.raises(Violation, match="they went with a queue"):
        one._completed(broker, "u1~2", Completed(3, [1, 1]))


@pytest.mark.parametrize("broker, client, came, fine", CASES)
def test_what_is_complete_goes_with_a_queue_only_where_it_came_besides(broker, client, came, fine):
    one = checker(client, came)
    one._completed(broker, "u1~2", Completed(3, [1, 1]))
    with nullcontext() if fine else pytest.raises(Violation, match="deleted as empty"):
        one._deleted("q#1", CONDEMNED)


@pytest.mark.parametrize("as_empty", [False, True])
def test_what_another_deletion_takes_was_complete_unless_that_was_for_empty_too(as_empty):
    one = checker(came=False)
    one._deleted("q#1", CONDEMNED)
    one.watch.gone = {"r#2"}
    if as_empty:
        one._as_empty.add("r#2")
    with pytest.raises(Violation) if as_empty else nullcontext():
        one._completed("b2", "u1~2", Completed(3, [1, 1]))
