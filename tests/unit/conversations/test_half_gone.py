"""Who comes back from the middle of leaving, with its disk, votes in all queues again (`sequencer.md` K4)."""

from __future__ import annotations

import pytest
from mantamq.protocol.machine import Drain
from mantamq.protocol.replica.status import Status
from mantamq.protocol.sequencer.left_logs import LeftLogs
from mantamq.protocol.sequencer.membership import Membership
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Evicted, LogReport
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]


def voters(cluster, name):
    """Of a queue, as the leading sequencer knows them."""
    return sorted(cluster.leader().order.streams[cluster.machines["b1"].wiring.queue(name).id].voters)


def half_left(monkeypatch):
    """b3 leaves, is out of one of two durable queues, and loses power."""
    cluster = StoredCluster()
    client = cluster.client("b1")
    for name in ("q1", "q2"):
        assert not client.command("declare_queue", name=name, durable=True).code
    begin, stays = Membership._begin, cluster.machines["b1"].wiring.queue("q2").id
    with monkeypatch.context() as patch:
        patch.setattr(
            Membership, "_begin", lambda self, s, event: s.name not in (stays, CLUSTER) and begin(self, s, event)
        )
        cluster._inbox.append(("b3", Drain()))
        cluster.settle()
        cluster.pass_time(500)
        assert [voters(cluster, name) for name in ("q1", "q2")] == [["b1", "b2"], ALL], "it is half gone"
        cluster.cut_power("b3")
    cluster.traffic.clear()
    return cluster


def live(cluster):
    """Time passes; a process that asks for its end is followed by another."""
    for _ in range(25):
        cluster.pass_time(200)
        for name in [name for name in cluster.machines if name in cluster.retired]:
            cluster.kill(name)
            cluster.add_replica(name.partition(".")[0])


def whole(cluster):
    """All vote everywhere, and all replicas serve."""
    assert [voters(cluster, name) for name in ("q1", "q2")] == [ALL, ALL]
    hosted = [queue for name, machine in cluster.machines.items() if ".r" in name for queue in machine.queues.values()]
    assert [queue.catch_up.status for queue in hosted] == [Status.SERVING] * 6
    declared = cluster.client("b3").command("declare_queue", name="q3", durable=True)
    assert not declared.code and voters(cluster, "q3") == ALL


def told(cluster):
    return [frame.reason for _, _, frame in cluster.traffic if isinstance(frame, Evicted) and frame.forget]


def test_who_comes_back_half_gone_votes_everywhere_again(monkeypatch):
    cluster = half_left(monkeypatch)
    cluster.come_back("b3")
    live(cluster)
    whole(cluster)
    assert len(told(cluster)) == 1 and "had left q1#" in told(cluster)[0], "without the log of the queue it had left"


def test_it_goes_on_where_a_leader_has_not_heard_of_its_wish(monkeypatch):
    cluster = half_left(monkeypatch)
    cluster.kill(*cluster.sequencers())
    cluster.come_back("b3")
    cluster.add_sequencer("sequencer9")
    live(cluster)
    whole(cluster)


def test_its_queues_may_be_heard_of_before_itself(monkeypatch):
    """Found in a story: a newer life is here as soon as one of its queues is, and the older one's wish is over."""
    cluster = half_left(monkeypatch)
    post, late = cluster.post, []

    def later(source, target, frame):
        if isinstance(frame, LogReport) and source == "b3":
            late.append((source, target, frame))
        else:
            post(source, target, frame)

    cluster.post = later
    cluster.come_back("b3")
    live(cluster)
    assert late and voters(cluster, "q2") == ALL, "it is seen off in its new life"
    cluster.post = post
    for said in late:
        post(*said)
    cluster.settle()
    live(cluster)
    whole(cluster)


@pytest.mark.parametrize(
    "test",
    [
        test_who_comes_back_half_gone_votes_everywhere_again,
        test_it_goes_on_where_a_leader_has_not_heard_of_its_wish,
        test_its_queues_may_be_heard_of_before_itself,
    ],
)
def test_a_planted_bug_is_found(test, monkeypatch):
    back = Membership.back
    if test is test_its_queues_may_be_heard_of_before_itself:
        alone = lambda self, stream, *life: stream.name == CLUSTER and back(self, stream, *life)  # noqa: E731
        monkeypatch.setattr(Membership, "back", alone)
    else:
        monkeypatch.setattr(LeftLogs, "found", lambda self, peer, frame: None)
    with pytest.raises(AssertionError):
        test(monkeypatch)
