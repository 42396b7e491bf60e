"""The cluster stream as a broker keeps it (`protocol/broker/cluster_state.py`), with nothing around it."""

from __future__ import annotations

from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.wire.events import (
    CLUSTER,
    ZERO,
    AnyEvent,
    DeclareQueue,
    Entry,
    Member,
    decode_event,
    encode_event,
)
from mantamq.protocol.wire.log_frames import Append, Gap, UpdateStart

from tests.unit.broker_bench import ONE, THREE


def append(previous: int, commit: int, *new: AnyEvent, voters: list[str] | None = None) -> Append:
    entries = [
        Entry(ONE, index, "" if isinstance(event, Member) else "b2", 1, index, encode_event(event))
        for index, event in enumerate(new, previous + 1)
    ]
    known = ONE if previous else ZERO
    return Append(ONE, CLUSTER, previous, known, commit, 0, entries, voters=voters or [])


def applied(cluster: ClusterState, frame: Append) -> list[list[str]]:
    """The voters at each entry, as it was applied."""
    index = cluster.keeper.commit
    committed, refusal = cluster.append(frame)
    assert refusal is None
    voted = []
    for entry in committed:
        index += 1
        event = decode_event(entry.event)
        assert event is not None
        cluster.apply(event, index)
        voted.append(sorted(cluster.voters))
    cluster.applied()
    return voted


def test_an_entry_is_applied_under_the_voters_of_its_own_place():
    cluster = ClusterState("b1", 5, False, THREE)
    some = [DeclareQueue("q", {}), Member("b4", 7, True), DeclareQueue("r", {}), Member("b2", 9, False)]
    assert applied(cluster, append(0, 4, *some)) == [
        ["b1", "b2", "b3"], ["b1", "b2", "b3", "b4"], ["b1", "b2", "b3", "b4"], ["b1", "b3", "b4"]
    ]  # fmt: skip
    assert sorted(cluster.voters) == sorted(cluster.keeper.voters) == ["b1", "b3", "b4"]


def test_what_is_not_committed_changes_nobody_and_a_refused_append_nothing():
    cluster = ClusterState("b1", 5, False, THREE)
    assert applied(cluster, append(0, 0, Member("b4", 7, True))) == [] and cluster.voters == THREE
    committed, refusal = cluster.append(append(7, 7))
    assert not committed and isinstance(refusal, Gap) and cluster.voters is cluster.keeper.voters


def test_a_blank_broker_takes_the_first_voters_from_the_beginning_of_the_stream():
    cluster = ClusterState("b4", 5, True, [*THREE, "b4"])
    frame = append(0, 2, DeclareQueue("q", {}), Member("b4", 5, True), voters=THREE)
    assert applied(cluster, frame) == [THREE, [*THREE, "b4"]]
    assert not cluster.keeper.blank


def test_the_version_rises_with_each_change_of_the_wiring():
    cluster = ClusterState("b1", 5, False, THREE)
    applied(cluster, append(0, 2, DeclareQueue("q", {}), DeclareQueue("q", {})))
    assert cluster.version == 1
    again = ClusterState("b1", 6, True, THREE)
    update = UpdateStart(CLUSTER, "b2", "b1", 2, ONE, 2, {}, {}, cluster.wiring.snapshot(), ["b1", "b2"])
    again.restore(update)
    assert again.version == 1 and again.wiring.queue("q") == cluster.wiring.queue("q")
    assert again.voters == ["b1", "b2"] and again.keeper.commit == 2
