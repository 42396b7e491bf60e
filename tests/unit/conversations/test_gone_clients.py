"""Nothing is said to a connection that has gone."""

from __future__ import annotations

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.wire.client_frames import Command, Reply
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.statistics_frames import FellowTold


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize(
    ("answers", "name", "arguments"), [(FellowTold, "statistics", {}), (Request, "declare_queue", {"name": "q"})]
)
def test_a_command_whose_connection_has_gone_has_no_reply(
    answers: type[Frame], name: str, arguments: dict[str, str], comes_back: bool
):
    """An answer may be seconds late; an idle cluster sent it to nobody, long after the connection had gone."""
    cluster = MemoryCluster()
    client = cluster.client("b1", name="me")
    held = cluster.hold(answers)
    client.send(Command(1, name, arguments))
    assert held and not client.take(Reply)
    client.vanish()
    newer = cluster.client("b1", name="me") if comes_back else None
    cluster.let_go(held)
    assert not [frame for _, _, frame in cluster.traffic if isinstance(frame, Reply)]
    assert newer is None or newer.command("queues").code == ""
