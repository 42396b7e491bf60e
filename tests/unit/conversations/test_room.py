"""A disk without room stops what fills it, in the whole cluster, and nothing that frees space (`durable.md` 6)."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.sequencer.backlog import Backlog
from mantamq.protocol.store.host import DiskSpace
from mantamq.protocol.store.machine import RESERVE_BYTES
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Disposed,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.queue_frames import ACCEPT
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]
NO_ROOM = "the disk of b2 has no room"


def room(cluster: StoredCluster, free_bytes: int, *brokers: str) -> None:
    cluster._inbox += [(f"{broker}.store", DiskSpace(free_bytes)) for broker in brokers]
    cluster.settle()
    cluster.pass_time(1000)


def started() -> tuple[StoredCluster, Any, Any]:
    """A sender at b1, and a consumer at b3 that holds three messages."""
    cluster = StoredCluster()
    sender, reader = cluster.client("b1"), cluster.client("b3")
    assert not sender.command("declare_queue", name="q").code
    sender.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"1", b"2", b"3"]))
    reader.send(AttachReceiver(1, "q"), Flow(1, 3))
    cluster.pass_time(500)
    assert sender.take(Completed)
    return cluster, sender, reader


def flow(cluster: StoredCluster) -> list[dict[str, str]]:
    return [cluster.machines[name].report().flow for name in ALL]


def what_fills_it_waits_and_what_frees_it_goes_on():
    cluster, sender, reader = started()
    room(cluster, RESERVE_BYTES - 1, "b2")
    assert flow(cluster) == [{"b2": NO_ROOM}] * 3, "every broker says why"
    sender.send(Transfer(1, 4, [b"4"]))
    runs = [run for one in reader.take(Delivery) for run in (one.acquisition, *one.ranges)]
    reader.send(Dispose(1, 1, ACCEPT, runs))
    cluster.pass_time(1000)
    assert not sender.take(Completed), "completed while a disk has no room"
    assert reader.take(Disposed), "an accept frees space"
    assert not cluster.client("b2").command("purge", name="q").code
    room(cluster, RESERVE_BYTES + 1, "b2")
    assert flow(cluster) == [{"b2": NO_ROOM}] * 3, "so little room is no end of it"
    room(cluster, 2 * RESERVE_BYTES, "b2")
    assert flow(cluster) == [{}] * 3
    assert sender.take(Completed)


def every_sequencer_hears_of_it():
    cluster, _, _ = started()
    room(cluster, 0, "b2")
    cluster.kill("sequencer")
    cluster.add_sequencer()
    cluster.pass_time(3000)
    assert cluster.leader() and flow(cluster) == [{"b2": NO_ROOM}] * 3, "the next one was not told"


def one_is_not_waited_for_for_ever():
    cluster, sender, _ = started()
    room(cluster, 0, "b2")
    for _ in range(30):
        cluster.pass_time(DEFAULT_TIMING.backlog_patience_ms // 20)
    assert flow(cluster) == [{}] * 3, "the others have room, and are a majority"
    sender.send(Transfer(1, 4, [b"4"]))
    cluster.pass_time(500)
    assert sender.take(Completed)
    room(cluster, 0, "b3")
    assert set(flow(cluster)[0]) == {"b2", "b3"}, "one alone with room is no majority"
    for _ in range(60):
        cluster.pass_time(DEFAULT_TIMING.backlog_patience_ms // 20)
    assert set(flow(cluster)[0]) == {"b2", "b3"}, "too few have room: all wait for consumers or the operator"
    room(cluster, 2 * RESERVE_BYTES, "b2", "b3")
    assert flow(cluster) == [{}] * 3


def what_comes_back_with_room_is_not_waited_for():
    cluster, _, _ = started()
    room(cluster, 0, "b2")
    cluster.cut_power("b2")
    cluster.come_back("b2")
    cluster.pass_time(1000)
    assert flow(cluster) == [{}] * 3


STORIES = [
    what_fills_it_waits_and_what_frees_it_goes_on,
    every_sequencer_hears_of_it,
    one_is_not_waited_for_for_ever,
    what_comes_back_with_room_is_not_waited_for,
]


@pytest.mark.parametrize("story", STORIES)
def test_room(story):
    story()


def _told_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredBrokerMachine, "attached", lambda self: super(StoredBrokerMachine, self).attached())


def _for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backlog, "_waits_for_room", lambda self, member: member in self.pressed)


def _spares_all(patch: pytest.MonkeyPatch) -> None:
    waits = Backlog._waits_for_room

    def rash(self: Backlog, member: str) -> bool:
        window = self._outbox.now_ms - self.pressed.get(member, 0) < self._patience_ms
        return window and waits(self, member)

    patch.setattr(Backlog, "_waits_for_room", rash)


def _deaf(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backlog, "disk", lambda self, member, full: None)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_deaf, what_fills_it_waits_and_what_frees_it_goes_on),
        (_told_once, every_sequencer_hears_of_it),
        (_told_once, what_comes_back_with_room_is_not_waited_for),
        (_for_ever, one_is_not_waited_for_for_ever),
        (_spares_all, one_is_not_waited_for_for_ever),
    ],
)
def test_planted_bugs_are_found(plant, story, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story()
