"""A replica, its broker and the sequencer: what it says, and when it retires."""

from __future__ import annotations

import pytest
from made_up_logs import ONE, TWO, append, entries
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.log.durability import Promises, RecordWriter
from mantamq.protocol.machine import Flush, PeerDown, PeerUp, Received, Retire, Send, SetTimer, Tick
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.events import ZERO, Entry, Evict, encode_event
from mantamq.protocol.wire.log_frames import Ack, Append, Heartbeat, LogReport, Nack, Orphaned
from mantamq.protocol.wire.queue_frames import Host
from mantamq.protocol.wire.records import PROMISE
from mantamq.protocol.wire.store_frames import Written


def test_a_learner_that_hears_of_no_vote_tells_the_sequencer_in_the_end():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Tick(1000))
    replica.step(PeerUp("sequencer"))
    replica.step(Received("sequencer", Heartbeat(ONE, 1, 1)))
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1, ["b1", "b2", "b3"])))
    frame = Append(ONE, "q#1", 0, ZERO, 0, 0, entries(1, 1), "b1.r0", 1)
    told = replica.step(Received("sequencer", frame)) + replica.step(Flush())
    assert not [e for e in told if isinstance(e, Send) and isinstance(e.frame, Ack)], "a vote makes it superfluous"
    (timer,) = [e for e in told if isinstance(e, SetTimer)]
    replica.step(Tick(timer.at_ms))
    told = replica.step(Flush())
    (ack,) = [e.frame for e in told if isinstance(e, Send) and isinstance(e.frame, Ack)]
    assert (ack.match, ack.applied) == (1, 0)


def test_a_replica_begins_with_its_brokers_promise():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, TWO, False, 1)))
    told = replica.step(Received("sequencer", append(0, entries(1, 1))))
    assert told == [Send("sequencer", Nack(TWO))]
    assert replica.queues["q#1"].keeper.end == 0


def test_a_replica_with_a_store_says_nothing_of_a_log_before_its_promise_is_on_disk():
    replica, writer = ReplicaMachine("b1.r0", "b1", 1), RecordWriter()
    replica.promises = Promises(writer)
    replica.step(PeerUp("sequencer"))
    told = replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1)))
    write = writer.gathered()
    assert [record[0] for record in write.records] == [PROMISE], "the broker's promise is this process's too"
    told += replica.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    told += replica.step(Received("b1", Host("q#2", "", {}, ONE, False, 2)))
    assert {effect.peer for effect in told if isinstance(effect, Send)} == {"b1"}
    assert writer.gathered() is None, "it is written once"
    writer.written(Written(write.number, [64]))
    reported = [e.frame.stream for e in replica.step(Flush()) if isinstance(e, Send) and isinstance(e.frame, LogReport)]
    assert reported == ["q#1", "q#2"]
    replica.step(Received("b1", Host("q#3", "", {}, ONE, False, 3)))
    assert replica.view.attached and writer.gathered() is None


def test_a_replica_that_loses_its_broker_says_so_and_retires():
    replica = ReplicaMachine("b1.r0", "b1", 1)
    for sequencer in ("sequencer", "sequencer2"):
        replica.step(PeerUp(sequencer))
    replica.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    told = replica.step(PeerDown("b1"))
    assert told[0] == Send("sequencer", Orphaned("b1")) and isinstance(told[1], Retire)


@pytest.mark.parametrize(("inc", "whole"), [(2, False), (2 + INCARNATIONS_PER_BROKER, True)])
def test_a_replica_that_finds_its_broker_out_tells_it(inc, whole):
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 2)))
    evict = Entry(ONE, 1, "", 0, 0, encode_event(Evict("b1", inc)))
    told = replica.step(Received("sequencer", append(0, [evict], 1)))
    assert any(isinstance(effect, Retire) for effect in told)
    words = [effect.frame for effect in told if isinstance(effect, Send) and effect.peer == "b1"]
    assert bool(words) == whole
    if words:
        broker = BrokerMachine("b1", 1, ["b1"])
        broker.step(PeerUp("b1.r0"))
        assert any(isinstance(effect, Retire) for effect in broker.step(Received("b1.r0", words[0])))
