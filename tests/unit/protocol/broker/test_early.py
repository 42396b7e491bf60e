"""What must wait until a broker has applied more of the cluster's stream."""

from __future__ import annotations

from mantamq.protocol.broker.cluster_state import ClusterState


def test_what_is_too_early_waits_until_the_stream_is_applied_so_far():
    cluster = ClusterState("b1", 1, False, ["b1"])
    done: list[str] = []
    cluster.once_applied(0, lambda: done.append("now"))
    cluster.once_applied(2, lambda: done.append("second"))
    cluster.once_applied(1, lambda: done.append("first"))
    assert done == ["now"]
    for commit in (1, 2, 3):
        cluster.keeper.commit = commit
        cluster.applied()
        assert done == ["now", "first", "second"][: 1 + commit]
