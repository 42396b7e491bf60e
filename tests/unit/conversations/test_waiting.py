"""A stream without its majority is told, with who is missing, since when, and what becomes of it."""

from __future__ import annotations

from typing import Any, cast

from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.broker.waits_heard import WaitsHeard
from mantamq.protocol.sequencer.majorities import TOLD, Roll
from mantamq.protocol.status.machines import BrokerStatus, SequencerStatus, WaitingStatus
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import AttachSender, Transfer
from mantamq.protocol.wire.events import DeclareQueue
from mantamq.protocol.wire.log_frames import LogDropped
from mantamq.protocol.wire.majority_frames import LOST, RESET, WAITS, Waiting, Waits
from mortal_cluster import MortalCluster

from tests.unit.replica_outbox import KeptOutbox


def waiting(report: SequencerStatus | BrokerStatus) -> dict[str, WaitingStatus]:
    """What waits by a report, by queue name or "cluster"."""
    return {w.stream.rpartition("#")[0] or w.stream: w for w in report.waiting}


def listener() -> tuple[WaitsHeard, ClusterState, KeptOutbox]:
    outbox, cluster = KeptOutbox(), ClusterState("b1", 1, False, ["b1", "b2"])
    return WaitsHeard(cast(Any, outbox), cluster), cluster, outbox


def cluster_with_a_queue(**options: Any) -> MortalCluster:
    cluster = MortalCluster(**options)
    cluster.add_sequencer()
    client = cluster.client("b3", name="teller")
    assert not client.command("declare_queue", name="q").code
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"one", b"two"]))
    cluster.pass_time(2000)
    assert cluster.leader().report().waiting == [] == cluster.machines["b3"].report().waiting
    return cluster


def test_two_of_three_brokers_die_and_the_leader_lives():
    cluster = cluster_with_a_queue()
    cluster.kill("b1", "b2")
    cluster.pass_time(5000)
    for report in (cluster.leader().report(), cluster.machines["b3"].report()):
        found = waiting(report)
        assert list(found) == ["cluster", "q"], "the cluster's own first"
        for one in found.values():
            assert one.voters == ["b1", "b2", "b3"] and one.needed == 2
            assert one.here == ["b3"] and one.blank == [] and one.fate == WAITS
            assert all(4000 <= ms <= 5000 for ms in one.missing.values()) and list(one.missing) == ["b1", "b2"]
            assert one.for_ms >= 3000
    report = cluster.machines["b3"].report()
    assert report.waiting_by == "sequencer" and report.waiting_role == "leading"
    assert report.waiting_heard_ms <= 1000 and report.waiting_more == 0
    assert report.unconfirmed_ms > 0, "and no majority answers its beats"


def test_they_come_back_blank_so_it_never_goes_on():
    cluster = cluster_with_a_queue()
    cluster.kill("b1", "b2")
    cluster.pass_time(1000)
    for broker in ("b1", "b2"):
        cluster.add_broker(broker)
    cluster.pass_time(3000)
    found = waiting(cluster.machines["b3"].report())["cluster"]
    assert (found.here, found.blank, found.missing, found.fate) == (["b3"], ["b1", "b2"], {}, RESET)


def test_the_leader_dies_with_them():
    """A standby that too few ask knows whom it has no link to, and tells those who ask."""
    cluster = cluster_with_a_queue()
    cluster.kill("b1", "b2", "sequencer")
    cluster.pass_time(5000)
    report = cluster.machines["b3"].report()
    found = waiting(report)
    assert list(found) == ["cluster"]
    assert found["cluster"].here == ["b3"] and list(found["cluster"].missing) == ["b1", "b2"]
    assert report.waiting_by == "sequencer2" and report.waiting_role == "standby"
    assert report.leader_silent_ms >= 4500 and report.sequencers == ["sequencer2"]


def test_they_come_back_blank_to_a_standby():
    """It is asked by enough to prepare, and what those promise who are blank counts for nothing."""
    cluster = cluster_with_a_queue()
    cluster.kill("b1", "b2", "sequencer")
    cluster.pass_time(1000)
    for broker in ("b1", "b2"):
        cluster.add_broker(broker)
    cluster.pass_time(8000)
    report = cluster.machines["b1"].report()
    found = waiting(report)["cluster"]
    assert (found.here, found.blank, found.missing, found.fate) == (["b3"], ["b1", "b2"], {}, RESET)
    assert report.waiting_role == "preparing"


def test_no_sequencer_is_left():
    cluster = cluster_with_a_queue()
    cluster.kill("b1", "b2", "sequencer", "sequencer2")
    cluster.pass_time(DEFAULT_TIMING.waits_kept_ms + 5000)
    report = cluster.machines["b3"].report()
    assert report.sequencers == [] and report.leader_silent_ms >= DEFAULT_TIMING.waits_kept_ms + 4500
    assert report.unconfirmed_ms >= 5000 and report.cut_off
    assert report.waiting == [], "nobody is there who could know"


def test_a_queue_alone_has_lost_its_majority():
    cluster = cluster_with_a_queue()
    for broker in ("b1", "b2"):
        cluster.kill(cluster.replica(broker, "q"))
    cluster.pass_time(3000)
    found = waiting(cluster.machines["b2"].report())
    assert list(found) == ["q"], "the cluster's own goes on"
    assert found["q"].here == ["b3"] and list(found["q"].missing) == ["b1", "b2"] and found["q"].fate == WAITS
    for broker in ("b1", "b2"):
        cluster.add_replica(broker)
    cluster.pass_time(3000)
    found = waiting(cluster.machines["b2"].report())["q"]
    assert found.blank == ["b1", "b2"] and found.missing == {} and found.fate == RESET


def test_who_comes_back_in_time_is_told_no_more():
    cluster = cluster_with_a_queue()
    cluster.kill("sequencer2")
    for broker in ("b1", "b2"):
        cluster.down(broker, "sequencer")
        cluster.down("sequencer", broker)
        for replica in cluster.machines[broker].placement.replicas:
            cluster.down(replica, "sequencer")
            cluster.down("sequencer", replica)
    cluster.settle()
    cluster.pass_time(3000)
    assert waiting(cluster.leader().report())["cluster"].here == ["b3"]
    for broker in ("b1", "b2"):
        cluster._up("sequencer", broker)
        for replica in cluster.machines[broker].placement.replicas:
            cluster._up("sequencer", replica)
    cluster.settle()
    cluster.pass_time(3000)
    assert cluster.leader().report().waiting == []
    assert [cluster.machines[b].report().waiting for b in ("b1", "b2", "b3")] == [[], [], []]


def test_the_longest_list_is_bounded():
    cluster = cluster_with_a_queue()
    client = cluster.client("b3")
    for i in range(TOLD + 20):
        assert not client.command("declare_queue", name=f"more{i}").code
    cluster.kill("b1", "b2")
    cluster.pass_time(3000)
    report = cluster.machines["b3"].report()
    assert len(report.waiting) == TOLD and report.waiting_more == 22
    assert report.waiting[0].stream == "cluster"


# ---- who is here, and what that means


def who(voters: str, votes: str, blank: dict[str, int], adopted: bool = True, others: str = "") -> Roll:
    return Roll(list(voters), set(votes), set(votes), blank, set(blank), adopted, list(others))


def test_hopeless_is_a_majority_of_blanks_and_no_less():
    assert who("abc", "c", {"a": 0, "b": 0}).hopeless()
    assert not who("abc", "", {"a": 0}).hopeless(), "b and c may come back with their logs"
    assert not who("abcd", "c", {"a": 0, "b": 0}).hopeless(), "two logs of four are enough to go on from"
    assert who("abcd", "c", {"a": 0, "b": 0, "d": 0}).hopeless()
    assert who("ab", "", {"a": 0, "b": 0}).hopeless()
    assert not who("ab", "", {"a": 0}).hopeless()


def test_of_a_log_that_is_not_adopted_everybody_must_have_spoken():
    assert who("abc", "c", {"a": 0, "b": 0}, False).hopeless()
    assert not who("abc", "", {"a": 0, "b": 0}, False).hopeless(), "c may know of other voters"
    assert not who("abc", "c", {"a": 0, "b": 0}, False, "abcd").hopeless(), "or d, who has joined"


def test_nothing_is_no_log_and_no_part_of_one():
    assert who("abc", "", {"a": 0, "b": 0}).nothing()
    assert not who("abc", "", {"a": 0, "b": 3}).nothing(), "it has been brought up to date by somebody"
    assert not who("abc", "c", {"a": 0, "b": 0}).nothing()


# ---- what a broker believes


def told(role: str, *streams: str) -> Waits:
    return Waits((1, 1), role, [Waiting(s, ["b1"], 1, [], [], {"b1": 10_000}, 10_000, LOST) for s in streams])


def test_a_standby_says_nothing_against_the_leader():
    ear, _, _ = listener()
    ear.hear("sequencer", told("leading", "cluster", "q#1"), 1000)
    ear.hear("sequencer2", told("standby", "cluster"), 1100)
    assert len(ear.report(1200).streams) == 2
    ear.hear("sequencer2", told("standby", "cluster"), 2100)
    assert ear.report(2200).by == "sequencer2", "the leader speaks no more"
    assert ear.report(2100 + DEFAULT_TIMING.waits_kept_ms + 1).streams == ()


def test_a_leader_that_waits_for_a_deleted_queue_hears_that_it_is():
    """One voter died with it; the other had not heard of the deletion when the leader began, and was updated since."""
    ear, cluster, outbox = listener()
    cluster.wiring.apply(DeclareQueue("kept", {}), 4)
    cluster.keeper.commit = 5
    wait = [Waiting(id, ["b1", "b2"], 2, [], [], {"b2": 9}, 9) for id in ("cluster", "kept#4", "gone#3", "later#6")]
    elsewhere = Waiting("other#2", ["b2", "b3"], 2, [], [], {"b2": 9}, 9)
    ear.hear("sequencer2", Waits((1, 2), "standby", [*wait, elsewhere], 0), 1000)
    assert outbox.take() == []
    ear.hear("sequencer", Waits((1, 2), "leading", [*wait, elsewhere], 0), 1000)
    assert outbox.sent == [("sequencer", LogDropped("gone#3", "b1"))]
    cluster.keeper.blank = True
    outbox.take()
    ear.hear("sequencer", Waits((1, 2), "leading", wait, 0), 1000)
    assert outbox.take() == [], "who has lost its own log knows nothing of deletions"
