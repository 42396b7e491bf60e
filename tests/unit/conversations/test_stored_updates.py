"""A durable queue that begins again uses the messages that it has on its own disk: only what is new travels."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import Limits
from mantamq.protocol.replica.body_cache import BodyCache
from mantamq.protocol.store.host import MESSAGES
from mantamq.protocol.stored import old_bodies
from mantamq.protocol.stored.queue import StoredQueue
from mantamq.protocol.wire.client_frames import AttachSender, Transfer
from mantamq.protocol.wire.log_frames import Append, UpdateFront, UpdateHave
from stored_cluster import StoredCluster

from .test_stored_queues import Receiver, Sender, alike, numbers, queues

SIZE = 10_000
LIMITS = Limits(retained_entries=0, retained_bytes=0, update_chunk_bytes=SIZE)


def travelled(cluster: StoredCluster, broker: str) -> int:
    """Bytes of messages that updates have brought to a broker."""
    fronts = [f for _, to, f in cluster.traffic if isinstance(f, UpdateFront) and to.startswith(broker + ".")]
    return sum(len(blob) for front in fronts for blob in front.blobs)


def whole(cluster: StoredCluster, count: int) -> None:
    alike(cluster)
    blobs = [copy.state.blobs for copy in queues(cluster).values()]
    assert len(blobs) == 3 and blobs[0] == blobs[1] == blobs[2] and len(blobs[0]) == count, "the bodies differ"


def revived(cluster: StoredCluster, broker: str) -> None:
    """It comes back, and again when it has given its log up."""
    cluster.traffic.clear()
    cluster.come_back(broker)
    for _ in range(40):
        cluster.pass_time(300)
        gone = [name for name in cluster.retired if name in cluster.machines]
        if broker in gone:
            cluster.cut_power(broker)
            cluster.come_back(broker)
        for name in gone:
            if name != broker and name in cluster.machines:
                cluster.kill(name)
                cluster.add_replica(broker)


def started(kept: int = 12) -> tuple[StoredCluster, Sender]:
    cluster = StoredCluster(limits=LIMITS)
    sender = Sender(cluster, "b1")
    sender.send(kept, size=SIZE)
    cluster.pass_time(1000)
    sender.send(1)  # which writes down that those before are committed
    cluster.pass_time(1000)
    return cluster, sender


def far_behind(missed: int = 3) -> tuple[StoredCluster, Sender]:
    """b3 is away for longer than anybody keeps entries for it; its disk has twelve messages, and a small one."""
    cluster, sender = started()
    cluster.cut_power("b3")
    cluster.pass_time(5000)
    sender.send(missed, size=SIZE)
    cluster.pass_time(1000)
    return cluster, sender


def only_what_is_new_travels() -> int:
    cluster, _ = far_behind()
    revived(cluster, "b3")
    assert any(isinstance(frame, UpdateHave) for _, _, frame in cluster.traffic), "it came back without an update"
    # Two chunks are on their way before the updater hears what it may leave out.
    assert 0 < travelled(cluster, "b3") <= 2 * SIZE * (3 + 2), "what it has on its disk has travelled"
    whole(cluster, 16)
    cluster.blackout("b3", "b2")
    got = Receiver(cluster, "b3").got
    assert got[:12] == numbers(1, 12, SIZE) and len(got) == 16, "what was here already is not on disk under the new log"
    alike(cluster)
    return travelled(cluster, "b3")


def what_an_update_has_brought_is_of_use_to_the_next():
    """The power goes in the midst of an update to a disk that was lost."""
    cluster, _ = far_behind()
    del cluster.disks["b3"]
    cluster.blank.add("b3")
    cluster.come_back("b3")
    for _ in range(200):
        cluster.pass_time(2)
        if travelled(cluster, "b3") > 10 * SIZE:
            break
    first = travelled(cluster, "b3")
    assert 10 * SIZE < first < 17 * SIZE, "the update was to be in its midst"
    cluster.cut_power("b3")
    cluster.pass_time(5000)
    revived(cluster, "b3")
    whole(cluster, 16)
    most = sum(map(len, queues(cluster)["b1"].state.blobs.values())) - first + 2 * 2 * SIZE
    assert travelled(cluster, "b3") <= most, "what is on disk has travelled again"


def what_was_not_committed_is_not_used():
    """The disk of b3 has a message that nobody else has, at a position that gets another one."""
    cluster, sender = started()
    held = cluster.hold(Append)
    alone = cluster.client("b3")
    alone.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"never" * SIZE]))
    cluster._holding = (), []
    cluster._inbox += [item for item in held if item[0].startswith("b3.")]
    cluster.settle()
    records = cluster.disks["b3"].logs[MESSAGES].records
    assert any(b"never" in record.payload for record in records)
    cluster.cut_power("b3")
    cluster.kill("sequencer")
    cluster.add_sequencer()
    cluster.pass_time(3000)
    sender.send(3, size=SIZE)
    cluster.pass_time(1000)
    revived(cluster, "b3")
    whole(cluster, 16)
    assert not any(body.startswith(b"never") for body in queues(cluster)["b3"].state.blobs.values())


STORIES = [
    only_what_is_new_travels,
    what_an_update_has_brought_is_of_use_to_the_next,
    what_was_not_committed_is_not_used,
]


@pytest.mark.parametrize("story", STORIES)
def test_stored_updates(story):
    story()


def _without_cache(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BodyCache, "put", lambda self, committed: None)


def _uncommitted(patch: pytest.MonkeyPatch) -> None:
    """The cache takes all that the log has, whatever is known of it."""
    patch.setattr(old_bodies, "_committed", lambda history: history.end)


def _not_written(patch: pytest.MonkeyPatch) -> None:
    """What was here already counts as written under the new log."""
    patch.setattr(StoredQueue, "_bring_found", lambda self: self._found.clear())


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_without_cache, only_what_is_new_travels),
        (_without_cache, what_an_update_has_brought_is_of_use_to_the_next),
        (_uncommitted, what_was_not_committed_is_not_used),
        (_not_written, only_what_is_new_travels),
    ],
)
def test_planted_bugs_are_found(plant, story, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, LocalError)):
        story()
