"""The largest message is what the cluster was started with, at every broker, for both clients."""

from __future__ import annotations

import pytest
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.client import TooLarge, connect
from mantamq.protocol.errors import LocalError

from tests.cluster.shared import MESSAGE_BYTES


def test_a_cluster_takes_as_large_messages_as_it_was_told_to(cluster: Cluster) -> None:
    with pytest.raises(LocalError, match="the largest message may have"):
        start_cluster(max_message_bytes=1 << 30)
    size = MESSAGE_BYTES
    for address in cluster.addresses.values():
        with connect(address) as connection:
            connection.declare_queue("q")
            session = connection.session()
            sender = session.sender("q")
            with pytest.raises(TooLarge, match=r"--max-message-size.*max_message_bytes"):
                sender.send(bytes(size))
            sender.send(bytes(size - 16))
            sender.sync(30)
            message = session.receiver("q", capacity=1).fetch(30)
            assert len(message.body) == size - 16
            session.acknowledge(message)
            session.sync(30)
