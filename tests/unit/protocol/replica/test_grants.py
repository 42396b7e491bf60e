"""What a replica makes of changes of the consume lock."""

from __future__ import annotations

from made_up_logs import ONE, append
from mantamq.protocol.machine import PeerUp, Received, Send
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.events import AnyEvent, Entry, Evict, Own, Rejoin, encode_event
from mantamq.protocol.wire.queue_frames import Host, OwnerIs


def test_a_replica_takes_no_lock_of_its_dead_incarnation():
    def log(index: int, event: AnyEvent) -> Entry:
        return Entry(ONE, index, "" if isinstance(event, Rejoin) else "ownership", 1, index, encode_event(event))

    replica = ReplicaMachine("b1.r1", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, True, 2)))
    lock = replica.queues["q#1"].lock
    replica.step(Received("sequencer", append(0, [log(1, Own("b1", 1))], 1)))
    assert not lock.held
    replica.step(Received("sequencer", append(1, [log(2, Rejoin("b1", 2))], 2)))
    assert (lock.held, lock.grant) == (False, 2)
    replica.step(Received("sequencer", append(2, [log(3, Own("b1", 3))], 3)))
    assert lock.held


def test_who_gave_a_lock_up_and_died_is_spoken_for():
    def log(index: int, event: AnyEvent) -> Entry:
        return Entry(ONE, index, "" if isinstance(event, Evict) else "b2.r0", 1, index, encode_event(event))

    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(PeerUp("ownership"))
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1)))
    given_up = [log(1, Own("b2", 1)), log(2, Own("", 2, "b2"))]
    told = replica.step(Received("sequencer", append(0, given_up, 2)))
    free = Send("ownership", OwnerIs("q#1", "", 2))
    assert free not in told
    assert free in replica.step(Received("sequencer", append(2, [log(3, Evict("b2", 1))], 3)))
