"""A disk without room stops what fills it, in the whole cluster, and nothing that frees space (`durable.md` 6)."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.throttle import Throttle
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import PauseClient
from mantamq.protocol.sequencer.backlog import Backlog
from mantamq.protocol.store.host import DiskSpace
from mantamq.protocol.store.machine import RESERVE_BYTES
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Blocked,
    Completed,
    Delivery,
    Dispose,
    Disposed,
    Flow,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.queue_frames import ACCEPT
from mantamq.protocol.wire.version import KNOWS_BLOCKED, MINOR
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


class Deaf(StoredCluster):
    """Whom a broker does not read is not heard; brokers hold little."""

    def __init__(self) -> None:
        self.unread: dict[str, list[Any]] = {}
        super().__init__(limits=Limits(uncommitted_bytes=1000, blocked_bytes=5000))

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, PauseClient) and effect.paused:
                self.unread.setdefault(effect.peer, [])
            elif isinstance(effect, PauseClient):
                for target, frame in self.unread.pop(effect.peer, []):
                    self.post(effect.peer, target, frame)
        super()._carry_out(name, effects)

    def post(self, source: str, target: str, frame: Any) -> None:
        if source in self.unread:
            self.unread[source].append((target, frame))
        else:
            super().post(source, target, frame)


def mixed(minor: int) -> tuple[Deaf, Any]:
    """A client that has sent until it may send no more, while a disk is full, and holds three messages."""
    cluster = Deaf()
    client = cluster.client("b1", opened=False)
    client.send(Open("mixed", minor=minor))
    assert not client.command("declare_queue", name="q", durable=True).code
    client.send(AttachSender(1, "", "q"), AttachReceiver(2, "q"), Flow(2, 3))
    client.send(Transfer(1, 1, [b"1", b"2", b"3"]))
    cluster.pass_time(500)
    assert client.take(Completed)
    room(cluster, RESERVE_BYTES - 1, "b2")
    client.send(Transfer(1, 4, [bytes(2000)]))
    cluster.pass_time(500)
    return cluster, client


def who_sends_and_receives_frees_the_room():
    cluster, client = mixed(MINOR)
    assert [frame.on for frame in client.take(Blocked)] == [True] and not cluster.unread
    runs = [run for one in client.take(Delivery) for run in (one.acquisition, *one.ranges)]
    client.send(Dispose(2, 1, ACCEPT, runs), AttachReceiver(3, "q"), Flow(3, 1))
    cluster.pass_time(500)
    assert client.take(Disposed), "what it has received frees room, and it cannot say so"
    assert not client.command("queue", name="q").code
    late = cluster.client("b1", opened=False)
    late.send(Open("late", minor=MINOR), AttachSender(1, "", "q"))
    assert [frame.blocked for frame in late.take(Opened)] == [True]
    room(cluster, 2 * RESERVE_BYTES, "b2")
    assert [frame.on for frame in client.take(Blocked)] == [frame.on for frame in late.take(Blocked)] == [False]
    assert client.take(Completed)
    late.send(Transfer(1, 1, [b"late"]))
    cluster.pass_time(500)
    assert late.take(Completed) and not cluster.unread


def who_does_not_know_it_is_not_read_until_there_is_room():
    cluster, client = mixed(KNOWS_BLOCKED - 1)
    assert not client.take(Blocked) and list(cluster.unread) == [client.name]
    room(cluster, 2 * RESERVE_BYTES, "b2")
    assert client.take(Completed) and not client.take(Blocked) and not cluster.unread


STORIES = [
    who_sends_and_receives_frees_the_room,
    who_does_not_know_it_is_not_read_until_there_is_room,
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


def _not_read(patch: pytest.MonkeyPatch) -> None:
    """As it was: who may not send is not read."""
    patch.setattr(Throttle, "block", lambda self, session, told=False: self._hold(session.peer))


def _never_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Throttle, "unblock", lambda self, but=(): self.blocked.clear())


def _deaf(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Backlog, "disk", lambda self, member, full: None)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_not_read, who_sends_and_receives_frees_the_room),
        (_never_again, who_sends_and_receives_frees_the_room),
        (_never_again, who_does_not_know_it_is_not_read_until_there_is_room),
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
