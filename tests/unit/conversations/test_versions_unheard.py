"""What depends on the members' versions waits where no leader has said them yet, and is decided once one has."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.machine import Received
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Delivery,
    Detach,
    Detached,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Heartbeat
from msgspec.structs import replace

ASKED = [
    ("declare_queue", {"name": "q", "arguments": {"qpid.max_count": 5}}),
    ("declare_exchange", {"name": "e", "arguments": {"manta.internal": True}}),
    ("bind", {"exchange": "amq.fanout", "to_exchange": "amq.topic"}),
]
OLDER = "upgrade all members first"


class Unheard(MemoryCluster):
    """A cluster that starts; its leader's heartbeats are held back, and a client asks meanwhile."""

    def _up(self, a: str, b: str) -> None:
        if not self._holding[0]:
            self.held = self.hold(Heartbeat)
        super()._up(a, b)

    def asked(self, what: str, arguments: dict[str, Any]) -> Client:
        client = self.client("b1")
        client.send(Command(1, what, arguments))
        assert not self.machines["b1"].cluster.versions.known and not client.take(Reply), "nothing is said yet"
        return client

    def hear(self, least: int = 0) -> None:
        """The leader's heartbeats come; with a number, they say that it is the least version that a member speaks."""
        for at, (name, received) in enumerate(self.held if least else ()):
            self.held[at] = name, Received(received.peer, replace(received.frame, least=least))
        self.let_go(self.held)


@pytest.mark.parametrize(("what", "arguments"), ASKED)
def test_it_is_done_when_all_members_know_it(what: str, arguments: dict[str, Any]):
    cluster = Unheard()
    client = cluster.asked(what, arguments)
    cluster.hear()
    assert [reply.code for reply in client.take(Reply)] == [""]


@pytest.mark.parametrize(("what", "arguments"), ASKED)
def test_it_is_refused_when_one_does_not(what: str, arguments: dict[str, Any]):
    cluster = Unheard()
    client = cluster.asked(what, arguments)
    cluster.hear(5)
    (reply,) = client.take(Reply)
    assert reply.code == "unavailable" and OLDER in reply.text


@pytest.fixture
def with_queue() -> Unheard:
    """A queue is there, and the versions are not known any more at b1."""
    cluster = Unheard()
    cluster.hear()
    assert cluster.client("b2").command("declare_queue", name="q").code == ""
    cluster.machines["b1"].cluster.versions.known = False
    cluster.held = cluster.hold(Heartbeat)
    return cluster


def test_an_exclusive_receiver_waits_with_its_credit(with_queue: Unheard):
    client = with_queue.client("b1")
    client.send(AttachReceiver(1, "q", exclusive=1), Flow(1, 10))
    assert not client.take(Attached)
    with_queue.let_go(with_queue.held)
    with_queue.pass_time(1000)
    assert len(client.take(Attached)) == 1 and not client.take(Detached)
    other = with_queue.client("b2")
    other.send(AttachReceiver(1, "q"))
    assert [frame.code for frame in other.take(Detached)] == ["in-use"]


def test_an_exclusive_receiver_is_refused_when_a_member_is_older(with_queue: Unheard):
    client = with_queue.client("b1")
    client.send(AttachReceiver(1, "q", exclusive=1), Flow(1, 10))
    with_queue.pass_time(500)
    with_queue.hear(7)
    (refused,) = client.take(Detached)
    assert refused.code == "unavailable" and OLDER in refused.text and "'q'" in refused.text


def test_an_exclusive_receiver_that_goes_again_claims_nothing(with_queue: Unheard):
    client = with_queue.client("b1")
    client.send(AttachReceiver(1, "q", exclusive=1), Detach(1))
    with_queue.let_go(with_queue.held)
    with_queue.pass_time(1000)
    other = with_queue.client("b2")
    other.send(AttachReceiver(1, "q"))
    assert len(other.take(Attached)) == 1 and not client.take(Delivery)


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_a_receiver_that_wants_none_of_its_own_waits_too(with_queue: Unheard, mode: str):
    client, other = with_queue.client("b1"), with_queue.client("b2")
    for sender in (client, other):
        sender.send(AttachSender(7, "", "q"), Transfer(7, 1, [b"x"]))
        sender.take(Attached)
    client.send(AttachReceiver(1, "q", mode, no_local=True), Flow(1, 10))
    assert not client.take(Attached)
    with_queue.let_go(with_queue.held)
    with_queue.pass_time(1000)
    assert len(client.take(Attached)) == 1 and client.positions() == [2]


def test_it_is_refused_when_a_member_would_forget_whose_messages_are(with_queue: Unheard):
    client = with_queue.client("b1")
    client.send(AttachReceiver(1, "q", no_local=True), Flow(1, 10))
    with_queue.pass_time(500)
    with_queue.hear(8)
    (refused,) = client.take(Detached)
    assert refused.code == "unavailable" and OLDER in refused.text and "no_local" in refused.text


def test_what_follows_it_on_the_connection_comes_after_it():
    """A client that declares and binds does not wait for answers between."""
    cluster = Unheard()
    client = cluster.asked(*ASKED[0])
    client.send(Command(2, "bind", {"exchange": "amq.fanout", "queue": "q"}), Command(3, "delete_queue", {"name": "q"}))
    cluster.hear()
    assert [(reply.number, reply.code) for reply in client.take(Reply)] == [(1, ""), (2, ""), (3, "")]
