"""What is absurd for a queue of a kind, or for who takes from it, harms the one that asked for it: a bystander works on
beside it, and the cluster tells the same afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mantamq.client import Connection, Invalid, Message, TooLarge, connect
from mantamq.client.errors import MantaError
from mantamq.protocol.wiring.arguments import DEPTH

pytestmark = pytest.mark.timeout(60)
CHANGES = 250
LIKE_S = 5.0
"""Far more than it takes, and far less than a pattern that is tried in every way."""


@pytest.fixture
def bystander(cluster: Any) -> Iterator[Callable[[], None]]:
    """Call it to have a message sent and taken at another broker."""
    with connect(cluster.addresses["b2"]) as other:
        other.declare_queue("beside")
        session = other.session()
        sender, receiver = session.sender("beside"), session.receiver("beside")

        def works() -> None:
            sender.send(b"still here")
            sender.sync(5)
            session.acknowledge(receiver.fetch(5))
            session.sync(5)

        works()
        yield works
        works()


@pytest.mark.parametrize(
    "arguments",
    [
        {"qpid.max_count": -1}, {"qpid.max_count": 1.5}, {"qpid.max_count": "many"}, {"qpid.max_count": 2**70},
        {"qpid.priorities": 10**9}, {"qpid.priorities": "high"}, {"x-max-priority": -3},
        {"qpid.last_value_queue_key": "k", "qpid.priorities": 5},
        {"qpid.group_header_key": "g", "qpid.priorities": 5}, {"qpid.fairshare": 5},
        {"qpid.priorities": 3, "qpid.fairshare-7": 5}, {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 6},
        {"qpid.group_header_key": ["a", "list"]}, {"qpid.group_header_key": "g" * 1_000_000},
        {"x-unheard-of": 1}, {"qpid.policy_type": {"a": "map"}},
    ],
)  # fmt: skip
def test_absurd_arguments_create_nothing(connection: Connection, bystander: Any, arguments: dict[str, Any]):
    with pytest.raises(Invalid):
        connection.declare_queue("q", arguments=arguments)
    assert [queue["name"] for queue in connection.queues()] == ["beside"]


def nested(depth: int) -> Any:
    """Maps in each other, the outermost counted."""
    return {"in": nested(depth - 1)} if depth > 1 else {"in": 1}


@pytest.mark.parametrize("depth", [DEPTH + 1, DEPTH + 2, DEPTH + 3, 100])
def test_arguments_too_deep_to_be_told_are_refused(connection: Connection, bystander: Any, depth: int):
    with pytest.raises(Invalid):
        connection.declare_queue("q", arguments=nested(depth))
    with pytest.raises(Invalid):
        connection.declare_exchange("e", arguments=nested(depth))
    with pytest.raises(Invalid):
        connection.bind("amq.topic", "beside", "k", nested(depth))


def test_arguments_as_deep_as_they_may_be_are_told_by_every_list(connection: Connection):
    arguments = nested(DEPTH)
    connection.declare_queue("q", arguments=arguments)
    connection.declare_exchange("e", arguments=arguments)
    connection.bind("e", "q", "k", arguments)
    found = connection.statistics("queues")["queues"] + connection.queues() + connection.bindings()
    found += [exchange for exchange in connection.exchanges() if exchange["name"] == "e"]
    assert [one["arguments"] for one in found] == [arguments] * 4


def test_bytes_among_the_arguments_of_a_binding_are_told_as_bytes(connection: Connection):
    connection.declare_queue("q")
    connection.bind("amq.topic", "q", "k", {"mine": b"\xff"})
    assert connection.bindings()[0]["arguments"] == {"mine": b"\xff"}


GROUPS = [["a", "list"], {"a": "map"}, None, b"bytes", "x" * 1_000_000, 10**18, -1.5, ""]


def test_a_group_that_is_no_text_is_no_group(connection: Connection, bystander: Any):
    connection.declare_queue("q", group_key="g")
    session = connection.session()
    sender, receiver = session.sender("q"), session.receiver("q")
    for group in GROUPS:
        sender.send(Message(b"", properties={"g": group}))
    sender.sync(5)
    for group in GROUPS:
        message = receiver.fetch(5)
        assert message.properties == {"g": group}
        session.acknowledge(message)
    with pytest.raises(TooLarge):
        sender.send(Message(b"", properties={"g": "x" * 10_000_000}))
    sender.send(b"and on")
    sender.sync(5)
    assert receiver.fetch(5).body == b"and on"


def test_a_priority_that_is_none(connection: Connection, bystander: Any):
    """Too high is the highest; text is the usual one, or refused where it is written."""
    connection.declare_queue("q", priorities=10)
    session = connection.session()
    sender = session.sender("q")
    for priority in (0, 10**9, -(10**9), 10**18):
        sender.send(Message(str(priority), priority=priority))
    refused = 0
    try:
        sender.send(Message(b"text", priority="highest"))  # pyright: ignore[reportArgumentType]
    except (MantaError, TypeError):
        refused = 1
    sender.sync(5)
    receiver = session.receiver("q")
    bodies = [receiver.fetch(5).body.decode() for _ in range(5 - refused)]
    assert bodies[:2] == [str(10**9), str(10**18)] and sorted(bodies[2:])[:2] == [str(-(10**9)), "0"]


@pytest.mark.parametrize(
    "selector",
    ["n = 1 OR " * 125_000 + "n = 2", "(" * 10_000 + "n = 1" + ")" * 10_000, "n = ", "'" * 9_999, "\0", "n LIKE 'a' ESCAPE 'bb'"],
)  # fmt: skip
def test_an_absurd_selector_is_refused_and_the_session_lives(connection: Connection, bystander: Any, selector: str):
    connection.declare_queue("q")
    session = connection.session()
    with pytest.raises(Invalid):
        session.receiver("q", selector=selector)
    session.sender("q").send(b"x")
    assert session.receiver("q").fetch(5).body == b"x"


def test_a_pattern_that_others_try_in_every_way_holds_nothing_up(connection: Connection, bystander: Any):
    connection.declare_queue("q")
    session = connection.session()
    sender = session.sender("q")
    for _ in range(20):
        sender.send(Message(b"", properties={"t": "a" * 10_000}))
    sender.send(Message(b"found", properties={"t": "b"}))
    sender.sync(5)
    receiver = session.receiver("q", selector=f"t = 'b' OR t LIKE '{'%a' * 100}%b'")
    assert receiver.fetch(LIKE_S).body == b"found"


def test_a_consumer_that_changes_its_selector_again_and_again(connection: Connection, bystander: Any):
    connection.declare_queue("q")
    session = connection.session()
    sender = session.sender("q")
    for number in range(100):
        sender.send(Message(str(number), properties={"n": number}))
    sender.sync(5)
    for change in range(CHANGES):
        session.receiver("q", 10, selector=f"n = {change % 100}").close()
        if not change % 50:
            bystander()
    receiver = session.receiver("q", selector="n = 77")
    assert receiver.fetch(5).body == b"77"
    assert connection.queue("q")["messages"] == 100
