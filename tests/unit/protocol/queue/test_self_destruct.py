"""A queue that destroys itself at its limit, alone."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.errors import PeerError
from mantamq.protocol.queue.declared import declared
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import MESSAGE_BYTES, QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.verdicts import VerdictTeller
from mantamq.protocol.wire.client_frames import AttachSender, Transfer
from mantamq.protocol.wire.events import (
    Accept,
    Acquire,
    DeclareQueue,
    DeleteQueue,
    Enqueue,
    Entry,
    Own,
    encode_event,
)
from mantamq.protocol.wire.verdict_frames import Judged
from mantamq.protocol.wiring.wiring import Outcome, Wiring
from replica_outbox import KeptOutbox


def destroying(**settings: Any) -> QueueState:
    """A queue of which b1 has the lock."""
    state = QueueState("q#1")
    for policy in policies_of(state, QueueSettings(overflow="self-destruct", **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def send(state: QueueState, first: int, *blobs: bytes) -> Any:
    return state.apply(Enqueue("c/1", [first, first + len(blobs) - 1], list(blobs)))


def test_at_its_limit_it_is_whole_and_above_it_all_is_gone_also_what_is_held() -> None:
    state = destroying(max_count=3)
    send(state, 1, b"1", b"2", b"3")
    state.apply(Acquire("b1", 1, 1, [7, 2, 2]))
    assert len(state.blobs) == 3 and state.refused == 0
    done = send(state, 4, b"4")
    assert not state.blobs and (state.discarded, state.refused) == (4, 1)
    assert sorted(done.dropped) == [(1, 1, False), (2, 2, True), (3, 3, False), (4, 4, False)]
    lost = state.apply(Accept("b1", 1, [7, 2, 2]))
    assert not lost.effective or state.accepted == 0, "what was held is lost"


def test_nothing_comes_in_any_more_and_who_repeats_hears_the_same() -> None:
    state = destroying(max_count=2)
    send(state, 1, b"1", b"2", b"3", b"4")
    send(state, 5, b"5")
    send(state, 1, b"1", b"2", b"3")
    assert not state.blobs and state.refused == 3 and state.enqueued == 5
    assert state.refusals.within("c/1", 1, 5) == [(3, 5)], "1 and 2 came in, and were lost with it"


def test_it_goes_by_bytes_too_and_by_one_message_that_is_too_large() -> None:
    state = destroying(max_size=2 * MESSAGE_BYTES + 4)
    send(state, 1, b"12", b"34")
    assert len(state.blobs) == 2
    send(state, 3, b"")
    assert not state.blobs
    state = destroying(max_size=MESSAGE_BYTES)
    send(state, 1, b"1")
    assert state.refused == 1


def test_a_copy_of_it_destroys_nothing_twice() -> None:
    state = destroying(max_count=1)
    send(state, 1, b"1", b"2")
    copy = destroying(max_count=1)
    copy.restore(state.snapshot())
    send(copy, 3, b"3")
    send(state, 3, b"3")
    assert not copy.blobs and copy.refused == 2 and copy.digest() == state.digest()


@pytest.mark.parametrize("kind", [{"qpid.priorities": 3}, {"manta.fair_key": "t"}, {"qpid.group_header_key": "g"}])
def test_it_is_of_no_other_kind(kind: dict[str, Any]) -> None:
    with pytest.raises(PeerError, match="cannot be self-destruct: give overflow ring or reject"):
        declared({"qpid.max_count": 5, "qpid.policy_type": "self-destruct"} | kind)


def test_it_holds_nobody_back_unless_it_says_so() -> None:
    settings = declared({"qpid.max_count": 100, "qpid.policy_type": "self-destruct"})
    assert settings.thresholds == ((0, 0), (0, 0)) and settings.judges
    assert declared({"qpid.max_count": 9, "qpid.policy_type": "self-destruct", "qpid.flow_stop_count": 5}).thresholds


# ---- what its brokers are told, and do


def test_each_broker_is_told_whoever_has_sent_and_told_again_by_another_copy() -> None:
    state, outbox = destroying(max_count=1), KeptOutbox()
    teller = VerdictTeller(state, outbox, destroys=True)

    def apply(event: Enqueue) -> list[Any]:
        entry = Entry((1, 1), 1, "b2", 9, 1, encode_event(event))
        teller.applied(state.index, entry, event, state.apply(event))
        return outbox.take()

    assert apply(Enqueue("c/1", [1, 1], [b"1"])) == []
    assert apply(Enqueue("c/1", [2, 2], [b"2"])) == [Judged("q#1", 4, over=True)]
    assert apply(Enqueue("c/1", [3, 3], [b"3"])) == [], "once is enough"
    teller.restored()
    assert [frame.over for frame in outbox.take()] == [True]


def test_it_is_deleted_by_its_id_and_never_a_newer_one_of_its_name() -> None:
    wiring = Wiring()
    wiring.apply(DeclareQueue("q", {}), 1)
    assert wiring.apply(DeleteQueue("q", id="q#7"), 2) == Outcome() and wiring.queue("q")
    assert wiring.apply(DeleteQueue("q", id="q#1"), 3).changed and not wiring.queue("q")
    assert wiring.apply(DeleteQueue("q", id="q#1"), 4) == Outcome(), "another broker orders it, too"
    wiring.apply(DeclareQueue("q", {}), 5)
    assert not wiring.apply(DeleteQueue("q", id="q#1"), 6).changed and wiring.queue("q")


def test_whoever_of_the_brokers_dies_the_rest_delete_it() -> None:
    cluster = MemoryCluster()
    client = cluster.client("b1")
    arguments = {"qpid.max_count": 1, "qpid.policy_type": "self-destruct"}
    assert not client.command("declare_queue", name="q", arguments=arguments).code
    held = cluster.hold(Judged)
    client.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"1", b"2"]))
    cluster.pass_time(500)
    assert all(cluster.machines[broker].wiring.queue("q") for broker in cluster.members)
    cluster._holding = (), []
    cluster._inbox += [(name, input) for name, input in held if name == "b3"]  # the others are never told
    cluster.settle()
    cluster.pass_time(500)
    assert not any(cluster.machines[broker].wiring.queue("q") for broker in cluster.members)


def test_it_is_refused_while_a_member_would_not_destroy_it() -> None:
    cluster = MemoryCluster()
    client = cluster.client("b1")
    cluster.machines["b1"].cluster.versions.least = 7
    arguments = {"qpid.max_count": 1, "qpid.policy_type": "self-destruct"}
    assert client.command("declare_queue", name="q", arguments=arguments).code == "unavailable"
    assert not client.command("declare_queue", name="q", arguments={"qpid.max_count": 1}).code
