"""Every degraded state has its reason named, once; and who may be stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up_status import ORDERS, actors, add_stores, alter, machine, member, named, plan, silence, stream, tap
from mantamq.actors.supervisor.health import (
    closed,
    complaints,
    leader,
    quorum_critical,
    sharing_host,
    speechless,
    store_warnings,
)
from mantamq.protocol.status.machines import BehindStatus, CondemnedStatus, DutyStatus
from mantamq.protocol.status.members import AnyMember
from msgspec import UNSET
from msgspec.structs import replace

Harm = Callable[[list[AnyMember]], object]


def remove(name: str) -> Harm:
    return lambda found: found.remove(named(found, name))


def change(name: str, **values: object) -> Harm:
    return lambda found: alter(machine(found, name), **values)


def change_stream(id: str, **values: object) -> Harm:
    return lambda found: alter(machine(found, "sequencer2").streams[id], **values)


def add_queues(found: list[AnyMember]) -> None:
    streams = machine(found, "sequencer2").streams
    streams |= {f"q{n}#{n}": stream(["b1", "b2", "b3"]) for n in range(7)}
    for one in streams.values():
        one.missing = ["b3"]


def starting(found: list[AnyMember]) -> None:
    named(found, "b2.r0").machine = UNSET


def mute(found: list[AnyMember]) -> None:
    named(found, "b2.r0").machine = UNSET
    named(found, "b2.r0").error = "it has no shell"


def test_why_a_member_does_not_say_how_it_is_is_told_of_all_in_the_same_words() -> None:
    one = member("events", "EventTap", machine=tap())
    assert speechless(one) == [], "it does"
    one.machine = UNSET
    assert speechless(one) == ["events is starting"] and speechless(one, "the tap") == ["the tap is starting"]
    one.error = "no shell"
    said = speechless(one, "the tap")
    assert said == ["the tap does not say how it is: no shell"] and said[0].subject == "events"
    one.alive = False
    assert speechless(one) == [], "that it does not answer is another reason"


DECIDED = CondemnedStatus(queue="r", by="b1", if_unused=False, if_empty=True, for_ms=3)
HARMS: list[tuple[Harm, list[str]]] = [
    (lambda found: silence(found, "b2.r1"), ["b2.r1 does not answer"]),
    (lambda found: silence(found, "b2"), ["b2 does not answer"]),
    (starting, ["b2.r0 is starting"]),
    (
        lambda found: [silence(found, name) for name in ("b2", "b2.r1", "b2.r0", "sequencer3")],
        [
            "sequencer3 does not answer",
            "b2, b2.r0, b2.r1 do not answer",
            "no standby sequencer: the death of the one that leads would take longer to heal",
        ],
    ),
    (mute, ["b2.r0 does not say how it is: it has no shell"]),
    (remove("b2"), ["broker b2 is not there"]),
    (change("b2", blank=True), ["broker b2 is joining: it has no wiring yet"]),
    (change("b2", cut_off=True), ["broker b2 is cut off from the majority and serves nobody"]),
    (
        lambda found: [
            change(b, condemned=[DECIDED, replace(DECIDED, queue="q", for_ms=ms)])(found)
            for b, ms in (("b1", 2000), ("b2", 2100))
        ],
        [
            "queue 'q' is to be deleted if_empty, which broker b1 has not decided yet (for 2.1 s): what is sent to it "
            "completes nowhere meanwhile; it stays when that takes too long, and `mantamq queue delete q --force` decides "
            "at once"
        ],
    ),
    (change("b2", attached=False), ["broker b2 has no sequencer to ask"]),
    (change("b2", replicas={}), ["broker b2 has no queue replica that is connected"]),
    (
        change("sequencer2", flow={"b3": BehindStatus(reason="b3 is 81,000 events, 3.0 MiB behind", for_ms=2500)}),
        ["flow control is on, no transfer completes: b3 is 81,000 events, 3.0 MiB behind (for 2.5 s)"],
    ),
    (change("b2", homeless=["q#1"]), ["broker b2 has no replica for 1 queue"]),
    (change("b2", homeless=["q#1", "r#2"]), ["broker b2 has no replica for 2 queues"]),
    (
        change("sequencer3", role="preparing"),
        ["no standby sequencer: the death of the one that leads would take longer to heal"],
    ),
    (change("sequencer2", role="preparing"), ["no sequencer leads: nothing completes until one does"]),
    (
        lambda found: [remove(name)(found) for name in ("ownership", "ownership2")],
        ["no Ownership: consume locks do not move"],
    ),
    (
        remove("ownership"),
        ["no second Ownership: the end of ownership2 would hold consume locks up until another is started"],
    ),
    (
        change("sequencer2", duty=DutyStatus(name="ownership", turn=3, silent_ms=12_300)),
        [
            "consume locks do not move: ownership is on duty and has not answered the sequencer for 12 s, and no other "
            "Ownership answers it"
        ],
    ),
    (change("sequencer2", absent=["b3"]), ["broker b3 is evicted"]),
    (
        change_stream(ORDERS, ready=False, missing=["b1"]),
        ["queue orders: not recovered yet since a sequencer took over"],
    ),
    (change_stream(ORDERS, blank=["b3"]), ["queue orders: being brought up to date at b3"]),
    (change_stream("cluster", missing=["b1"]), ["the wiring: no replica at b1"]),
    (add_queues, ["the wiring, queues orders, q0, q1, q2, q3 and 3 more: no replica at b3"]),
]


def test_a_whole_cluster_has_nothing_to_complain_of() -> None:
    for brokers in (1, 2, 3, 5):
        assert complaints(plan(brokers), actors(brokers)) == []


def with_stores() -> list[AnyMember]:
    found = actors()
    add_stores(found)
    return found


def damage(found: list[AnyMember], **values: object) -> None:
    alter(machine(found, "b2.store").logs["messages"], **values)


def test_stores_that_are_well_are_no_complaint() -> None:
    assert complaints(plan(), with_stores()) == [] and store_warnings(with_stores()) == []


def test_the_troubles_of_a_store_are_named_with_what_to_do() -> None:
    for harm, reason in (
        (change("b2.store", pressed=True), "its reserve is begun): transfers wait"),
        (change("b2.store", pressed=True, full=True), "half of its reserve is gone): transfers wait"),
        (lambda found: damage(found, hurt=["q#1"]), "b2.store cannot read all of q#1: others"),
        (lambda found: damage(found, hurt=[f"q#{n}" for n in range(5)]), "q#0, q#1, q#2 and 2 more: others"),
        (lambda found: silence(found, "b2.store"), "b2.store does not answer"),
    ):
        found = with_stores()
        harm(found)
        (said,) = complaints(plan(), found)
        assert reason in said
    found = with_stores()
    damage(found, damage=[[5, 9]])
    assert complaints(plan(), found) == [], "nothing stands still for it"
    (said,) = store_warnings(found)
    assert "log messages of b2.store was damaged on its disk (1 place): see to the disk" in said


@pytest.mark.parametrize("harm, reasons", HARMS)
def test_every_reason_is_named_once(harm: Harm, reasons: list[str]) -> None:
    found = actors()
    harm(found)
    assert complaints(plan(), found) == reasons


def test_a_lost_majority_is_said() -> None:
    no_majority = "no majority: nothing completes until more brokers are back"
    for brokers, lost, said in ((1, 1, True), (2, 1, True), (3, 1, False), (3, 2, True), (5, 2, False), (5, 3, True)):
        found = actors(brokers)
        for broker in plan(brokers).members[:lost]:
            found.remove(named(found, broker))
        assert (no_majority in complaints(plan(brokers), found)) == said, (brokers, lost)


def test_a_zombie_does_not_speak_for_the_cluster() -> None:
    found = actors()
    streams = {"x#1": stream([])}
    zombie = replace(machine(found, "sequencer2"), ballot=[1, 9], absent=["b3"], streams=streams)
    found.insert(0, replace(named(found, "sequencer2"), name="sequencer", machine=zombie))
    leading = leader(found)
    assert leading is not None and leading.name == "sequencer2"
    assert complaints(plan(), found) == []
    assert quorum_critical(plan(), found, "b3") == []


# ---- may it be stopped


def test_a_majority_must_be_left() -> None:
    for brokers, stopped, allowed in (
        (1, ["b1"], False), (2, ["b1"], False), (3, ["b1"], True), (3, ["b1", "b2"], False), (5, ["b1", "b2"], True),
        (5, ["b1", "b2", "b5"], False),
    ):  # fmt: skip
        assert (quorum_critical(plan(brokers), actors(brokers), *stopped) == []) == allowed, (brokers, stopped)
    assert quorum_critical(plan(1), actors(1), "b1") == [
        "nobody would be left, and a majority of the brokers is 1: nothing would complete"
    ]
    assert quorum_critical(plan(), actors(), "b1", "b2") == [
        "only b3 would be left, and a majority of the brokers is 2: nothing would complete"
    ]


ONE_QUEUE = ["queue orders: only b2 would be left, and a majority of the replicas is 2"]
ONE_BROKER = ["only b2 would be left, and a majority of the brokers is 2: nothing would complete"]


@pytest.mark.parametrize(
    "harm, reasons",
    [
        (change_stream(ORDERS, blank=["b1"]), ONE_QUEUE),
        (change_stream(ORDERS, missing=["b1"]), ONE_QUEUE),
        (lambda found: silence(found, "b1.r0"), ONE_QUEUE),
        (remove("b1"), ONE_BROKER),
        (lambda found: silence(found, "b1"), ONE_BROKER),
        (change("b1", blank=True), ONE_BROKER),
        (change("b1", attached=False), ONE_BROKER),
    ],
)
def test_what_is_not_whole_at_another_broker_counts(harm: Harm, reasons: list[str]) -> None:
    """b1 is not whole: b3 must stay, and b1 itself may go."""
    found = actors()
    harm(found)
    assert quorum_critical(plan(), found, "b3") == reasons
    assert quorum_critical(plan(), found, "b1") == []


def test_a_silent_spare_stops_nobody() -> None:
    found = actors()
    silence(found, "b1.r1")
    assert quorum_critical(plan(), found, "b3") == []


def test_queues_with_one_trouble_share_a_line() -> None:
    found = actors()
    add_queues(found)
    assert quorum_critical(plan(), found, "b1") == [
        "the wiring, queues orders, q0, q1, q2, q3 and 3 more: only b2 would be left, and a majority of the replicas is 2"
    ]


def test_nothing_is_allowed_while_nobody_knows() -> None:
    found = actors()
    change_stream(ORDERS, ready=False, missing=["b1", "b2", "b3"])(found)
    assert quorum_critical(plan(), found, "b1") == [
        "queue orders: not recovered yet, wait until that is done"
    ]  # fmt: skip
    change("sequencer2", role="preparing")(found)
    assert quorum_critical(plan(), found, "b1") == ["no sequencer leads now: wait until one does"]


def test_brokers_of_one_node() -> None:
    assert sharing_host(actors(3, nodes=2), "b1") == ["b1", "b3"]
    assert sharing_host(actors(3, nodes=3), "b1") == ["b1"]
    gone = actors(3, nodes=2)
    gone.remove(named(gone, "b1"))
    assert sharing_host(gone, "b1") == ["b1"]


def test_a_broker_that_could_take_clients_and_does_not_is_named() -> None:
    found = actors()
    assert closed(plan(), found, {"b1": "", "b2": "", "b3": ""}) == []
    assert closed(plan(), found, {"b1": "", "b3": ""}) == ["broker b2 takes no clients yet"]
    machine(found, "b2").blank = True  # it has a reason of its own
    assert closed(plan(), found, {"b1": "", "b3": ""}) == []
