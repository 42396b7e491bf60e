"""`mantamq up --queue-limit`: a queue that names no limit has the cluster's."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, passing_time
from mantamq.client import ResourceLimitExceeded, connect
from mantamq.protocol.limits import Limits

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def cluster():
    """Time passes in it: a replica without consumers is told of what is committed a little later."""
    with FakeBroker(2, limits=Limits(queue_bytes=3000)) as cluster, passing_time(cluster):
        yield cluster


def test_it_refuses_at_every_broker_and_shows_in_the_declaration_and_in_the_status(cluster):
    with connect(cluster.addresses["b1"]) as one, connect(cluster.addresses["b2"]) as other:
        one.declare_queue("orders", arguments={"qpid.flow_stop_size": 0})
        assert other.declare_queue("orders", arguments={"qpid.flow_stop_size": "0"}) is False
        one.declare_queue("large", max_size=1 << 20)
        for connection in (one, other):
            sender = connection.session().sender("orders")
            sender.send(bytes(1200))
            sender.sync(5)
        sender.send(bytes(1200))
        with pytest.raises(ResourceLimitExceeded, match="'orders' has refused it: the queue takes at most 3000 b"):
            sender.sync(5)
        assert other.queue("orders")["arguments"]["qpid.max_size"] == 3000
        assert other.status()["queue_limit_bytes"] == one.status()["queue_limit_bytes"] == 3000
        sender = other.session().sender("large")
        for _ in range(4):
            sender.send(bytes(1200))
        sender.sync(5)


def test_without_one_there_is_none():
    with FakeBroker(1) as cluster, connect(cluster.address) as connection:
        connection.declare_queue("orders")
        assert connection.queue("orders")["arguments"] == {} and "queue_limit_bytes" not in connection.status()
