"""Who comes back from the middle of leaving, with its disk, votes in all queues again (`sequencer.md` K4)."""

from __future__ import annotations

import pytest
from mantamq.protocol.machine import Drain
from mantamq.protocol.replica.status import Status
from mantamq.protocol.sequencer import left_logs
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


def whole(cluster, *more):
    """All vote everywhere, and all replicas serve."""
    names = ("q1", "q2", *more)
    assert [voters(cluster, name) for name in names] == [ALL for _ in names]
    hosted = [queue for name, machine in cluster.machines.items() if ".r" in name for queue in machine.queues.values()]
    assert [queue.catch_up.status for queue in hosted] == [Status.SERVING] * (3 * len(names))
    declared = cluster.client("b3").command("declare_queue", name="q9", durable=True)
    assert not declared.code and voters(cluster, "q9") == ALL


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


@pytest.mark.parametrize("durable", [True, False])
def test_it_is_let_into_a_queue_that_was_declared_while_it_left(monkeypatch, durable):
    """Found in a story: its next life is the first that hears of the queue, and begins a log of it as a voter would."""
    cluster = half_left(monkeypatch)
    assert not cluster.client("b1").command("declare_queue", name="q3", durable=durable).code
    cluster.pass_time(500)
    assert voters(cluster, "q3") == ["b1", "b2"]
    cluster.add_broker(
        "b3", replicas=3
    )  # one for each: who comes back without another queue's log would take this with it
    live(cluster)
    whole(cluster, "q3")


def test_it_may_be_taken_out_of_a_queue_when_it_is_back_already(monkeypatch):
    """Found in a story: what its earlier life had asked for was ordered, and is committed in its next life."""
    cluster = half_left(monkeypatch)
    stream = cluster.leader().order.streams[cluster.machines["b1"].wiring.queue("q2").id]
    cluster.stalled.update({"b1", "b2"})
    cluster.pass_time(500)
    assert stream.change, "it is to go"
    cluster.add_broker("b3", replicas=2)
    cluster.pass_time(500)
    assert stream.change and "b3" in stream.keepers, "it votes still"
    cluster.resume("b1", "b2")
    live(cluster)
    whole(cluster)


PLANTED = {
    test_who_comes_back_half_gone_votes_everywhere_again: (LeftLogs, "found", lambda self, peer, frame: None),
    test_it_goes_on_where_a_leader_has_not_heard_of_its_wish: (LeftLogs, "found", lambda self, peer, frame: None),
    test_its_queues_may_be_heard_of_before_itself: (
        Membership, "back", lambda self, stream, *life: stream.name == CLUSTER and BACK(self, stream, *life),
    ),
    test_it_is_let_into_a_queue_that_was_declared_while_it_left: (
        left_logs, "outlived", lambda frame: frame.opened > 0 and OUTLIVED(frame),
    ),
    test_it_may_be_taken_out_of_a_queue_when_it_is_back_already: (
        LeftLogs, "left", lambda self, stream, voter, peer: None,
    ),
}  # fmt: skip
BACK, OUTLIVED = Membership.back, left_logs.outlived


@pytest.mark.parametrize("test", PLANTED)
def test_a_planted_bug_is_found(test, monkeypatch):
    monkeypatch.setattr(*PLANTED[test])
    more = {"durable": True} if test is test_it_is_let_into_a_queue_that_was_declared_while_it_left else {}
    with pytest.raises(AssertionError):
        test(monkeypatch, **more)
