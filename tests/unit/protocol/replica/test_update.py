"""One update of a blank replica."""

from __future__ import annotations

from made_up_logs import ONE
from mantamq.protocol.machine import Received
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.events import Enqueue
from mantamq.protocol.wire.log_frames import UpdateFront, UpdateStart
from mantamq.protocol.wire.queue_frames import Host


def test_a_second_update_does_not_undo_the_first():
    state = QueueState("q#1")
    state.apply(Enqueue("c", [1, 1], [b"m"]))
    start = UpdateStart("q#1", "b2.r0", "b1.r0", 1, ONE, 1, {}, {}, state.snapshot())
    front = UpdateFront("q#1", 1, [1, 1], [b"m"], True, 1)
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, True, 2)))
    replica.step(Received("b2.r0", start))
    hosted = replica.queues["q#1"]
    assert hosted.updating
    replica.step(Received("b2.r0", front))
    assert not hosted.updating and hosted.state.blobs == {1: b"m"}
    replica.step(Received("b3.r0", start))
    assert not hosted.updating and hosted.state.blobs == {1: b"m"}
