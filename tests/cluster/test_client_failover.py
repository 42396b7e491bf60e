"""What a client keeps for another broker, on a real cluster whose broker stands still and is killed."""

from __future__ import annotations

import os
import signal
import time

import pytest
from mantamq.client import Empty, Message, connect

TTL_S = 0.05


@pytest.mark.hurts
def test_a_message_keeps_its_own_ttl_when_its_broker_is_killed(cluster):
    # First the broker we are at.
    broker = next(iter(cluster.addresses))
    with connect(list(cluster.addresses.values())) as connection:
        assert connection.broker == broker
        connection.declare_queue("q")
        sender = connection.session().sender("q")
        victim = cluster.actor_pids()[broker]
        os.kill(victim, signal.SIGSTOP)
        try:
            sender.send("keep")  # leaves at once, and what follows gathers
            sender.send(Message("fleeting", ttl=TTL_S))
        finally:
            os.kill(victim, signal.SIGKILL)
        sender.sync(30)
        assert connection.broker != broker and sender.unsettled == 0
        time.sleep(4 * TTL_S)
        session = connection.session()
        receiver = session.receiver("q")
        assert receiver.fetch(timeout=10).body == b"keep"
        session.acknowledge()
        session.sync(10)
        try:
            again = receiver.get()
        except Empty:
            again = None
        assert again is None
