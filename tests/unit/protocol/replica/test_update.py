"""One update of a blank replica."""

from __future__ import annotations

from made_up_logs import ONE, append
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import Flush, Received, Warn
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.events import Enqueue, Entry, Expire, Purge, Rejoin, encode_event
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


def test_no_alert_is_over_because_an_update_left_out_what_went_meanwhile():
    """The queue always has two messages of a hundred bytes, or three; the copy does not have the first one's body."""
    state = QueueState("q#1")
    state.apply(Enqueue("", [], [b"1" * 100, b"2" * 100]))
    state.tallies.raised = ["size"]
    arguments = {"qpid.alert_size_up": 300, "qpid.alert_size_down": 250, "qpid.alert_repeat_gap": 0}
    replica = ReplicaMachine("b1.r0", "b1", 1, limits=Limits(apply_entries=1))
    replica.step(Received("b1", Host("q#1", "", arguments, ONE, True, 2)))
    start = UpdateStart("q#1", "b2.r0", "b1.r0", 1, ONE, 1, {}, {}, state.snapshot(), ["b1", "b2", "b3"])
    replica.step(Received("b2.r0", start))
    events = [Rejoin("b1", 2), Expire(0, []), Enqueue("", [], [b"3" * 100]), Purge(1)]
    entries = [Entry(ONE, index, "", 0, 1, encode_event(event)) for index, event in enumerate(events, 2)]
    replica.step(Received("sequencer", append(1, entries, 5)))
    replica.step(Received("b2.r0", UpdateFront("q#1", 1, [2, 2], [b"2" * 100], True, 5)))
    hosted, told = replica.queues["q#1"], []
    assert hosted.serving and hosted.applied == 2
    while hosted.applied < 5 or hosted.id in replica.dirty:
        told += [effect for effect in replica.step(Flush()) if isinstance(effect, Warn)]
    assert [warned.text for warned in told] == ["queue 'q': 328 bytes, and alert_size_up is 300"], "it comes to speak"
