"""Which replica keeps which queue (`protocol/broker/queue_placement.py`), with an outbox and the wiring only."""

from __future__ import annotations

from mantamq.protocol.broker.queue_placement import INCARNATIONS_PER_BROKER, QueuePlacement
from mantamq.protocol.machine import KeepAlive, WantSpare
from mantamq.protocol.wire.events import DeleteQueue, Member
from mantamq.protocol.wire.queue_frames import Host, Unhost

from tests.unit.broker_bench import ONE, THREE, Bench

NAMES = ("q", "r", "s", "t")


def bench(*replicas: str, most: int = 0) -> tuple[Bench, QueuePlacement]:
    made = Bench(*NAMES)
    placement = QueuePlacement(made.outbox, made.cluster, most)
    for replica in replicas:
        placement.up(replica)
    made.take()
    return made, placement


def host(name: str, inc: int = 5, blank: bool = False, voters: list[str] = THREE) -> Host:
    return Host(f"{name}#{NAMES.index(name) + 1}", "", {}, ONE, blank, inc, voters)


def test_a_new_queue_takes_a_spare_and_asks_for_another():
    made, placement = bench("b1.r0", "b1.r1")
    for index, name in enumerate(NAMES[:2], 1):
        placement.declared(made.queue(name), index, False)
    assert made.take() == [WantSpare(), ("b1.r0", host("q")), WantSpare(), ("b1.r1", host("r"))]
    placement.declared(made.queue("s"), 3, False)
    ((replica, frame),) = made.take()
    assert replica in ("b1.r0", "b1.r1") and frame == host("s"), "without a spare queues share a replica"


def test_no_more_replicas_keep_queues_than_the_broker_makes_use_of():
    made, placement = bench("b1.r0", "b1.r1", most=1)
    for name in NAMES:
        placement.assign(made.queue(name), False)
    assert {replica: len(queues) for replica, queues in placement.replicas.items()} == {"b1.r0": 4, "b1.r1": 0}


def test_the_stream_is_shown_as_far_as_its_queues_are_kept():
    made, placement = bench("b1.r0")
    for index, name in enumerate(NAMES[:2], 1):
        placement.declared(made.queue(name), index, False)
    assert placement.applied(9) == 0
    assert placement.started("q#1") and placement.applied(9) == 1
    assert placement.started("r#2") and placement.applied(9) == 9
    assert not placement.started("r#2"), "nobody waits for it any more"


def test_queues_without_a_replica_wait_for_the_first():
    made, placement = bench()
    placement.assign(made.queue("q"), True)
    placement.assign(made.queue("r"), False)
    made.apply(DeleteQueue("r"))
    made.apply(Member("b4", 9, True))
    placement.up("b1.r0")
    assert made.take() == [KeepAlive("b1.r0", 1000, 3000)]
    placement.settle()
    assert made.take() == [WantSpare(), ("b1.r0", host("q", blank=True))]
    assert (placement.replicas, placement.homeless) == ({"b1.r0": {"q#1"}}, {})


def test_what_a_dead_replica_kept_is_kept_under_a_new_incarnation():
    made, placement = bench("b1.r0", "b1.r1")
    placement.assign(made.queue("q"), False)
    made.take()
    assert placement.lost("b1.r0") == [("q#1", 5)] and "q#1" not in placement.of
    placement.assign(made.queue("q"), True)
    assert made.take() == [WantSpare(), ("b1.r1", host("q", inc=6, blank=True))]
    assert placement.lost("b1.r1") == [("q#1", 6)]


def test_a_broker_has_so_many_incarnations_for_its_queues():
    _, placement = bench()
    for number in range(INCARNATIONS_PER_BROKER):
        assert not placement.exhausted
        placement.up(f"b1.r{number}")
        placement.lost(f"b1.r{number}")
    assert placement.exhausted


def test_a_deleted_queue_is_forgotten_where_it_was_kept():
    made, placement = bench("b1.r0")
    placement.declared(made.queue("q"), 1, False)
    made.take()
    placement.forget("q#1")
    assert made.take() == [("b1.r0", Unhost("q#1"))]
    assert not (placement.of or placement.starting or placement.incs or placement.voters)
    placement.forget("q#1")
    assert made.take() == []


def test_another_brokers_wiring_says_what_is_kept():
    made, placement = bench("b1.r0")
    placement.assign(made.queue("q"), False)
    placement.assign(made.queue("r"), False)
    made.apply(DeleteQueue("q"))
    made.take()
    placement.restored()
    said = made.take()
    assert said[0] == ("b1.r0", Unhost("q#1"))
    assert [(frame.queue, frame.blank) for _, frame in said[1:]] == [("s#3", True), ("t#4", True)]
