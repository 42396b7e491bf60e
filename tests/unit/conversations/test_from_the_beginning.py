"""Who joins a cluster whose whole log is there is told it from the beginning, and the voters that there were then
(`sequencer.md` K4)."""

from __future__ import annotations

import pytest
from mantamq.protocol.machine import Drain
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Append
from stored_cluster import StoredCluster


def changed():
    """b4 has left; a policy came before that, another one later. All have lost power since, and b3 is not back: so nobody
    may forget what that may lack."""
    cluster = StoredCluster(4)
    client = cluster.client("b1")
    for name in ("before", "later"):
        assert not client.command("declare_queue", name=name, durable=True).code
        if name == "later":
            cluster._inbox.append(("b4", Drain()))
            for _ in range(10):
                cluster.pass_time(200)
            cluster.kill("b4")
            assert cluster.machines["b1"].cluster.voters == ["b1", "b2", "b3"]
        arguments = {"qpid.max_count": 5, "qpid.policy_type": "reject"}
        put = client.command("add_policy", name=name, pattern=f"^{name}$", arguments=arguments)
        assert not put.code, put.text
    cluster.members.remove("b4")
    cluster.blackout("b1", "b2")
    return cluster


def joined(cluster):
    cluster.traffic.clear()
    cluster.blank.add("b5")
    cluster.members.append("b5")
    cluster.add_broker("b5")
    for _ in range(20):
        cluster.pass_time(200)
    told = (frame for _, target, frame in cluster.traffic if target == "b5" and isinstance(frame, Append))
    first = next(frame for frame in told if frame.stream == CLUSTER and frame.entries)
    assert not first.previous, "it is told all, and no update brings it"
    assert not cluster.machines["b5"].keeper.blank
    return cluster


def alike(cluster):
    one, other = cluster.machines["b1"], cluster.machines["b5"]
    assert one.keeper.commit == other.keeper.commit
    for name in ("before", "later"):
        assert one.wiring.queue(name).brokers == other.wiring.queue(name).brokers
    assert one.wiring.queue("before").brokers == ["b1", "b2", "b3", "b4"]
    assert one.wiring.queue("later").brokers == ["b1", "b2", "b3"]
    assert one.wiring.digest() == other.wiring.digest()
    assert sorted(one.cluster.voters) == sorted(other.cluster.voters) == ["b1", "b2", "b3", "b5"]


def test_a_newcomer_applies_each_entry_under_the_voters_of_its_place():
    alike(joined(changed()))


def test_its_next_life_does_so_too():
    cluster = joined(changed())
    cluster.cut_power("b5")
    cluster.come_back("b5")
    for _ in range(10):
        cluster.pass_time(200)
    assert cluster.machines["b5"].cluster.recovered, "it goes on with its log"
    alike(cluster)


@pytest.mark.parametrize(
    "test", [test_a_newcomer_applies_each_entry_under_the_voters_of_its_place, test_its_next_life_does_so_too]
)
def test_a_planted_bug_is_found(test, monkeypatch):
    monkeypatch.setattr(Stream, "first_voters", lambda self: list(self.voters))
    with pytest.raises(AssertionError):
        test()
