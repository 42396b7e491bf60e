"""A broker whose processes have too much memory stops what adds to it, in the whole cluster, and nothing that frees it."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.broker.memory import MIB
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import Measured, Members
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Disposed,
    Flow,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.flow_frames import FlowStopped, Pressed, Resident
from mantamq.protocol.wire.queue_frames import ACCEPT
from mantamq.protocol.wire.version import MINOR
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]
WHY = "the processes of b2 have 1,200 MiB of memory, above the watermark of 1,000 MiB, until consumers make room"


def measured(cluster: MemoryCluster, broker: str, mib: int, machine_mib: int = 0) -> None:
    """All processes of the broker have so much together, a third of it each replica."""
    for name in [name for name in cluster.machines if name.startswith(f"{broker}.r")]:
        cluster._inbox.append((name, Measured(mib // 3 * MIB, machine_mib * MIB)))
    cluster.settle()
    replicas = sum(name.startswith(f"{broker}.r") for name in cluster.machines)
    cluster._inbox.append((broker, Measured((mib - replicas * (mib // 3)) * MIB, machine_mib * MIB)))
    cluster.settle()
    cluster.pass_time(500)


def flow(cluster: MemoryCluster) -> list[dict[str, str]]:
    return [cluster.machines[name].report().flow for name in ALL]


def started(limits: Limits | None = None) -> tuple[MemoryCluster, Client, Client]:
    """A sender at b1, and a consumer at b3 that holds three messages."""
    cluster = MemoryCluster(limits=limits or Limits(memory_bytes=1000 * MIB))
    sender, reader = cluster.client("b1", opened=False), cluster.client("b3", opened=False)
    for client in (sender, reader):
        client.send(Open(client.name, "", minor=MINOR))
    assert sender.take(Opened) and reader.take(Opened)
    assert not sender.command("declare_queue", name="q").code
    sender.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"1", b"2", b"3"]))
    reader.send(AttachReceiver(1, "q"), Flow(1, 3))
    cluster.pass_time(500)
    assert sender.take(Completed)
    return cluster, sender, reader


def test_what_adds_to_it_waits_and_what_frees_it_goes_on_and_senders_hear_why() -> None:
    cluster, sender, reader = started()
    why = WHY.replace("1,200", "1,066")  # by the word of its first replica: 400 and twice 333
    measured(cluster, "b2", 999)
    assert flow(cluster) == [{}] * 3
    measured(cluster, "b2", 1200)
    assert flow(cluster) == [{"b2": why}] * 3, "every broker says why"
    status = cluster.machines["b2"].report()
    assert (status.memory_bytes, status.memory_limit_bytes) == (1200 * MIB, 1000 * MIB)
    assert sender.take(FlowStopped) == [FlowStopped(why)] and not reader.take(FlowStopped), (
        "who sends nothing is told nothing"
    )
    sender.send(Transfer(1, 4, [b"4"]))
    runs = [run for one in reader.take(Delivery) for run in (one.acquisition, *one.ranges)]
    reader.send(Dispose(1, 1, ACCEPT, runs), Flow(1, 1))
    cluster.pass_time(1000)
    assert not sender.take(Completed), "completed while there is too much"
    assert reader.take(Disposed) and reader.take(Delivery), "consumers go on"
    reader.send(AttachSender(2, "", "q"))
    cluster.settle()
    assert reader.take(FlowStopped) == [FlowStopped(why)], "a sender that comes now hears of it"
    measured(cluster, "b2", 900)
    assert flow(cluster) == [{"b2": why}] * 3, "so little less is no end of it"
    measured(cluster, "b2", 890)
    assert flow(cluster) == [{}] * 3
    assert sender.take(Completed) and sender.take(FlowStopped) == [FlowStopped("")]


def test_a_broker_judges_by_each_word_of_a_replica_and_not_only_when_it_measures_itself() -> None:
    cluster, _, _ = started()
    measured(cluster, "b2", 600)
    for mib, on in ((700, True), (520, True), (450, False)):
        cluster._inbox.append(("b2.r0", Measured(mib * MIB, 0)))
        cluster.settle()
        cluster.pass_time(500)
        assert flow(cluster) == [{"b2": WHY.replace("1,200", "1,100")} if on else {}] * 3, mib


def test_it_is_waited_for_as_long_as_it_takes() -> None:
    cluster, _, _ = started()
    measured(cluster, "b2", 1200)
    for _ in range(40):
        cluster.pass_time(DEFAULT_TIMING.backlog_patience_ms // 20)
    assert flow(cluster) == [{"b2": WHY}] * 3
    measured(cluster, "b2", 400)
    assert flow(cluster) == [{}] * 3


def test_a_client_of_an_older_version_is_held_back_and_not_told() -> None:
    cluster, _, _ = started()
    old = cluster.client("b1", opened=False)
    old.send(Open("old", "", minor=7))
    assert old.take(Opened)
    old.send(AttachSender(1, "", "q"))
    measured(cluster, "b2", 1200)
    old.send(Transfer(1, 1, [b"1"]))
    cluster.pass_time(1000)
    assert not old.take(FlowStopped) and not old.take(Completed)


def test_the_brokers_of_one_host_have_equal_parts_of_their_share() -> None:
    cluster, _, _ = started(Limits())  # 40 %
    measured(cluster, "b2", 1200, machine_mib=9000)
    assert flow(cluster) == [{}] * 3 and cluster.machines["b2"].report().memory_limit_bytes == 1200 * MIB
    measured(cluster, "b2", 1201, machine_mib=9000)
    assert set(flow(cluster)[0]) == {"b2"}
    alone = {"b1": "10.0.0.1:5000", "b2": "10.0.0.2:5000", "b3": "10.0.0.1:5000"}
    cluster._inbox += [(broker, Members(alone)) for broker in ALL]
    measured(cluster, "b2", 1201, machine_mib=9000)
    assert flow(cluster) == [{}] * 3


def test_on_a_small_machine_a_broker_has_what_its_processes_need_when_they_hold_nothing() -> None:
    cluster, _, _ = started(Limits())
    measured(cluster, "b2", 450, machine_mib=2000)  # a third of 40 % is 266
    assert flow(cluster) == [{}] * 3 and cluster.machines["b2"].report().memory_limit_bytes == 512 * MIB
    measured(cluster, "b2", 520, machine_mib=2000)
    assert set(flow(cluster)[0]) == {"b2"}


@pytest.mark.parametrize("limits", [Limits(memory_share=0.0), Limits(memory_bytes=10**12)])
def test_without_a_watermark_or_below_it_nothing_is_held_back(limits: Limits) -> None:
    cluster, sender, _ = started(limits)
    measured(cluster, "b2", 100_000, machine_mib=100)
    assert flow(cluster) == [{}] * 3 and not sender.take(FlowStopped)


def test_a_process_tells_its_broker_when_it_has_more_or_less_and_one_that_is_gone_does_not_count() -> None:
    cluster, _, _ = started()

    def said() -> list[Any]:
        told = [frame for _, target, frame in cluster.traffic if target == "b2" and type(frame) is Resident]
        cluster.traffic.clear()
        return told

    said()
    for mib, news in ((300, 300), (303, None), (304, 304), (301, None), (300, 300)):
        cluster._inbox.append(("b2.r0", Measured(mib * MIB, 0)))
        cluster.settle()
        assert said() == ([] if news is None else [Resident(news * MIB)])
    cluster._inbox.append(("b2", Measured(800 * MIB, 0)))
    cluster.pass_time(500)
    assert set(flow(cluster)[0]) == {"b2"}
    cluster.down("b2", "b2.r0")
    cluster.settle()
    cluster._inbox.append(("b2", Measured(800 * MIB, 0)))
    cluster.pass_time(500)
    assert flow(cluster) == [{}] * 3


def told(cluster: MemoryCluster) -> list[str]:
    return [frame.memory for _, _, frame in cluster.traffic if type(frame) is Pressed]


def test_it_is_told_once_when_it_changes_and_again_when_a_link_is_new() -> None:
    cluster, _, _ = started()
    cluster.traffic.clear()
    for _ in range(3):
        measured(cluster, "b2", 400)
    assert told(cluster) == [""], "an earlier life may have said otherwise"
    for _ in range(3):
        measured(cluster, "b2", 1200)
    assert told(cluster) == ["", WHY]
    for one, other in (("sequencer", "b2"), ("b2", "sequencer")):
        cluster.down(one, other)
    cluster.settle()
    cluster._up("sequencer", "b2")
    cluster.settle()
    cluster.pass_time(500)
    assert told(cluster) == ["", WHY, WHY]


def test_every_sequencer_hears_of_it_and_of_a_disk_besides() -> None:
    cluster = StoredCluster(limits=Limits(memory_bytes=1000 * MIB))
    cluster.pass_time(500)
    measured(cluster, "b2", 1200)
    cluster.kill("sequencer")
    cluster.add_sequencer()
    cluster.pass_time(3000)
    assert cluster.leader() and flow(cluster) == [{"b2": WHY}] * 3, "the next one was not told"
    measured(cluster, "b2", 400)
    assert flow(cluster) == [{}] * 3
    cluster.cut_power("b2")
    cluster.come_back("b2")
    cluster.pass_time(1000)
    assert flow(cluster) == [{}] * 3


def test_what_its_store_has_counts() -> None:
    cluster = StoredCluster(limits=Limits(memory_bytes=1000 * MIB))
    cluster.pass_time(500)
    cluster._inbox.append(("b2.store", Measured(800 * MIB, 0)))
    cluster.settle()
    measured(cluster, "b2", 400)
    assert flow(cluster) == [{"b2": WHY}] * 3
    cluster._inbox.append(("b2.store", Measured(300 * MIB, 0)))
    cluster.settle()
    measured(cluster, "b2", 400)
    assert flow(cluster) == [{}] * 3
