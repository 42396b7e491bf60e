"""A cluster with stores is stopped by its operator: nothing is in anybody's hands, and all that is known is on disk."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.lifecycle import STOPPING, Lifecycle, State
from mantamq.protocol.broker.store_link import StoredWiring
from mantamq.protocol.log.durability import RecordWriter
from mantamq.protocol.store.host import MESSAGES, TX
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Flow, Open, Transfer
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import CHECKPOINT, CLOSED, OPENED
from msgspec import UNSET
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]


def in_use() -> tuple[StoredCluster, Any]:
    """Ten messages, of which a consumer at b2 has four and has settled none."""
    cluster = StoredCluster()
    sender, reader = cluster.client("b1"), cluster.client("b2")
    assert not sender.command("declare_queue", name="q").code
    sender.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"%d" % number for number in range(10)]))
    reader.send(AttachReceiver(1, "q"), Flow(1, 4))
    cluster.pass_time(200)
    assert reader.positions() == [1, 2, 3, 4]
    return cluster, reader


def nothing_stays_in_anybodys_hands():
    """Consumers are gone, messages back in their places, locks free, and only what was delivered is marked so."""
    cluster, reader = in_use()
    assert "b2" in [state.owner for state in cluster.queue_states("q")]
    cluster.give_back()
    assert sorted(cluster.yielded) == ALL
    cluster.pass_time(500)  # all replicas apply what was committed
    for state in cluster.queue_states("q"):
        assert (state.owner, state.acquired) == ("", {}), "still in somebody's hands"
        assert state.available.flat() == [1, 10] and state.deliveries.marks.flat() == [1, 4]
    assert reader.closed == ("unavailable", STOPPING)
    late = cluster.client("b3", opened=False)
    late.send(Open("late", ""))
    assert late.closed == ("unavailable", STOPPING), "a client is let in while the cluster stops"


def what_is_said_to_be_on_disk_is():
    """A broker whose disk stalls has not stopped."""
    cluster, _ = in_use()
    cluster.give_back()
    cluster.stalled = {"b2"}
    cluster.stop(*ALL)
    assert cluster.stopped == ["b1", "b3"], "said before it was on disk"
    cluster.resume("b2")
    assert cluster.stopped == ["b1", "b3", "b2"]
    cluster.stalled = {"b3"}
    cluster.stop("b3.store")
    assert "b3.store" not in cluster.stopped
    cluster.resume("b3")
    assert "b3.store" in cluster.stopped


def nothing_comes_behind_the_end():
    """Stopped brokers say nothing to anybody, whatever comes; the record of the end is the last one in both logs."""
    cluster, _ = in_use()
    cluster.give_back()
    keepers = [*ALL, *(name for name in cluster.machines if ".r" in name)]
    cluster.stop(*keepers)
    cluster.traffic.clear()
    for _ in range(10):
        cluster.pass_time(300)
    said = [(name, to, frame) for name, to, frame in cluster.traffic if name in keepers and not to.endswith(".store")]
    assert said == [], "it spoke after its end"
    stores = [f"{name}.store" for name in ALL]
    cluster.stop(*stores)
    cluster.pass_time(5000)
    for name in ALL:
        for log in (TX, MESSAGES):
            toy = cluster.disks[name].logs[log]
            assert (toy.records[-1].kind, toy.found().index.shutdown) == (CLOSED, "stop-1"), (name, log)
            assert toy.proofs, "rot in the last batch would pass for a torn end"
    for name in keepers:
        cluster.down(name, f"{name[:2]}.store")
    cluster.settle()
    assert not cluster.retired, "that its store ends is no failure any more"


def it_comes_back_from_its_last_checkpoint():
    cluster, _ = in_use()
    assert not cluster.client("b1").command("declare_queue", name="lasting", durable=True).code
    cluster.stop_clean()
    for name in ALL:
        place = cluster.disks[name].logs[TX].found().index.streams[CLUSTER]
        load = cluster.disks[name].chain(TX, place.last, place.checkpoint)
        assert [record.kind for record in load] == [CHECKPOINT], "it reads more than its last checkpoint"
    cluster.start_again(*ALL)
    for name in ALL:
        assert cluster.machines[name].lifecycle.state is State.VOTER
        assert cluster.machines[name].wiring.queue("lasting")
    assert not cluster.client("b2").command("declare_queue", name="another", durable=True).code


def a_stop_that_comes_to_nothing_ends():
    """Who stops the cluster ends in the middle of it."""
    cluster, _ = in_use()
    cluster.give_back()
    status = cluster.machines["b1"].report()
    assert 0 < status.stop_left_ms <= cluster.timing.stop_ms
    cluster.pass_time(cluster.timing.stop_ms - 1000)
    early = cluster.client("b1", opened=False)
    early.send(Open("early", ""))
    assert early.closed == ("unavailable", STOPPING)
    cluster.pass_time(2000)
    for broker in ALL:
        assert cluster.machines[broker].report().stop_left_ms is UNSET
    reader = cluster.client("b3")
    reader.send(AttachReceiver(1, "q"), Flow(1, 4))
    cluster.pass_time(200)
    assert reader.positions() == [1, 2, 3, 4], "nobody is let in any more"
    cluster.give_back()
    assert sorted(cluster.yielded) == ALL, "another stop is as the first"
    cluster.pass_time(500)
    assert all(state.acquired == {} for state in cluster.queue_states("q"))


def test_a_stop_that_comes_to_nothing_ends():
    a_stop_that_comes_to_nothing_ends()


def test_nothing_stays_in_anybodys_hands():
    nothing_stays_in_anybodys_hands()


def test_what_is_said_to_be_on_disk_is():
    what_is_said_to_be_on_disk_is()


def test_nothing_comes_behind_the_end():
    nothing_comes_behind_the_end()


def test_it_comes_back_from_its_last_checkpoint():
    it_comes_back_from_its_last_checkpoint()


def kept(cluster, broker):
    """Kinds of the records of the cluster stream."""
    return [record.kind for record in cluster.disks[broker].logs[TX].records if record.stream == CLUSTER]


def test_a_stop_before_the_log_is_open_writes_nothing():
    cluster, _ = in_use()
    cluster.cut_power("b3")
    cluster.stalled = {"b3"}
    cluster.come_back("b3")
    before = kept(cluster, "b3")
    cluster.stop("b3")
    cluster.resume("b3")
    assert cluster.stopped == ["b3"]
    assert kept(cluster, "b3") == [*before, OPENED], "its opening was on its way, and no more"


def _early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordWriter, "idle", property(lambda self: True))


def _unbound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredBrokerMachine, "_end_of_life", lambda self, input: super(StoredBrokerMachine, self).step(input))


def _hoards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lifecycle, "given_up", lambda self, replica: None)
    patch.setattr(Lifecycle, "yield_up", lambda self, send_away: (send_away(STOPPING), setattr(self, "stopping", True)))


def _for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lifecycle, "look", lambda self: None)


def _forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredWiring, "checkpoint", lambda self: None)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_early, what_is_said_to_be_on_disk_is),
        (_unbound, nothing_comes_behind_the_end),
        (_hoards, nothing_stays_in_anybodys_hands),
        (_for_ever, a_stop_that_comes_to_nothing_ends),
        (_forgets, it_comes_back_from_its_last_checkpoint),
    ],
)
def test_planted_bugs_are_found(plant, story, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story()
