"""Queues of another kind in a whole cluster, by toy policies alone: no rule of a replica or broker knows of them."""

from __future__ import annotations

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.queue import arrangement
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Delivery,
    Dispose,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.queue_frames import ACCEPT, RELEASE

from tests.unit import toy_policies


class Case:
    """A queue of that kind with a sender at b1 and receivers at b2."""

    def __init__(self, patch, kind):
        toys = getattr(toy_policies, kind)
        patch.setattr(arrangement, "policies_of", lambda state, settings, of: toys(state, settings))
        self.cluster = MemoryCluster(timing=DEFAULT_TIMING)
        self.sender = self.cluster.client("b1")
        self.sender.command("declare_queue", name="q")
        self.sender.send(AttachSender(1, "", "q"))
        self.sent = 0

    def send(self, *blobs):
        self.sender.send(Transfer(1, self.sent + 1, list(blobs)))
        self.sent += len(blobs)

    def receiver(self, credit=100):
        client = self.cluster.client("b2")
        client.send(AttachReceiver(1, "q"))
        assert client.take(Attached)
        client.send(Flow(1, credit))
        return client

    def alike(self):
        self.cluster.pass_time(DEFAULT_TIMING.lazy_ms)
        states = self.cluster.queue_states("q")
        assert len(states) == 3 and len({state.digest() for state in states}) == 1
        return states[0]


def take(client, kind=ACCEPT):
    """The messages that have come, settled."""
    found = []
    for delivery in client.take(Delivery):
        found += delivery.blobs
        settled = [n for a, b in zip(delivery.ranges[::2], delivery.ranges[1::2], strict=True)
                   for n in (delivery.acquisition, a, b)]  # fmt: skip
        client.commands += 1  # it asks nothing else
        client.send(Dispose(1, client.commands, kind, settled))
    return found


@pytest.fixture
def case(request, monkeypatch):
    return Case(monkeypatch, request.param)


@pytest.mark.parametrize("case", ["priority"], indirect=True)
def test_the_highest_priority_comes_first_and_again_when_it_is_released(case):
    case.send(b"1a", b"9b", b"5c")
    receiver = case.receiver(credit=2)
    assert take(receiver, RELEASE) == [b"9b", b"5c"]
    receiver.send(Flow(1, 100))
    assert take(receiver) == [b"9b", b"5c", b"1a"]
    assert not case.alike().blobs


@pytest.mark.parametrize("case", ["ring"], indirect=True)
def test_a_ring_keeps_the_newest_on_every_broker(case):
    case.send(b"1", b"2", b"3")
    case.send(b"4")
    assert case.alike().discarded == 2
    assert take(case.receiver()) == [b"3", b"4"]
    assert not case.alike().blobs


@pytest.mark.parametrize("case", ["groups"], indirect=True)
def test_a_group_stays_with_one_receiver_until_all_is_settled(case):
    one, two = case.receiver(credit=1), case.receiver()
    case.send(b"a1", b"a2", b"b1")
    (held,) = one.take(Delivery)
    assert held.blobs == [b"a1"] and take(two) == [b"b1"]
    one.send(Dispose(1, 1, ACCEPT, [held.acquisition, 1, 1]))
    assert take(two) == [b"a2"]
    assert not case.alike().blobs
