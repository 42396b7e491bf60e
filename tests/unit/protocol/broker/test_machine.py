"""A broker and its sequencers: whose answers count, and whom it suspects."""

from __future__ import annotations

import pytest
from made_up_logs import ONE
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.machine import PeerDown, PeerGone, PeerUp, Received, Send, Tick
from mantamq.protocol.wire.log_frames import Heartbeat, Results, Suspect
from mantamq.protocol.wiring.definitions import QueueDefinition


@pytest.mark.parametrize("inc", [4, 6])
def test_an_answer_to_another_incarnation_completes_nothing(inc):
    done: list[int] = []
    broker = BrokerMachine("b1", 5, ["b1"])
    broker.requests.request([("q#1", b"")], lambda: done.append(1))
    broker.step(Received("sequencer", Results(inc, [1])))
    assert not done
    broker.step(Received("sequencer", Results(5, [1])))
    assert done == [1]


def test_a_leader_that_nobody_listens_for_is_suspected_at_once():
    broker = BrokerMachine("b1", 1, ["b1", "b2", "b3"])
    broker.step(Tick(1000))
    for sequencer in ("sequencer", "sequencer2"):
        broker.step(PeerUp(sequencer))
    broker.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    broker.step(PeerGone("sequencer2"))
    broker.step(PeerGone("sequencer"))  # there is a link: another one has come meanwhile
    told = broker.step(PeerDown("sequencer"))
    assert not any(isinstance(effect, Send) and isinstance(effect.frame, Suspect) for effect in told)
    told = broker.step(PeerGone("sequencer"))
    assert [e.peer for e in told if isinstance(e, Send) and isinstance(e.frame, Suspect)] == ["sequencer2"]


@pytest.mark.parametrize(("most", "keeping"), [(0, 3), (1, 1), (2, 2)])
def test_so_many_replicas_keep_queues_and_the_others_stay_warm(most, keeping):
    broker = BrokerMachine("b1", 1, ["b1"], replicas_max=most)
    for number in range(3):
        broker.step(PeerUp(f"b1.r{number}"))
    for number in range(6):
        broker.placement.assign(QueueDefinition(f"q{number}#{number}", f"q{number}", {}), False)
    assert sum(map(bool, broker.placement.replicas.values())) == keeping
    (first, *_) = broker.placement.replicas
    lost = broker.placement.lost(first)
    for id, _ in lost:
        broker.placement.assign(QueueDefinition(id, id.partition("#")[0], {}), True)
    assert sum(map(len, broker.placement.replicas.values())) == 6
