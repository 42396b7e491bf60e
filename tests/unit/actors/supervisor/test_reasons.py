"""Every reason has a name of a closed set, docs/alerts.md has them all, and each can be produced."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_status import ORDERS, actors, add_stores, alter, broker, machine, member, named, plan, silence, store, tap
from mantamq.actors import cluster
from mantamq.actors.config import ManagementConfig
from mantamq.actors.ray_control import door, local_ray
from mantamq.actors.supervisor import management_life, tap_life
from mantamq.actors.supervisor.frail_hosts import frail
from mantamq.actors.supervisor.health import closed, complaints, store_warnings, stranger_warnings
from mantamq.actors.supervisor.lookout import _status
from mantamq.actors.supervisor.losses import Loss
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.reasons import WHOLE, FirstSeen, Reason, texts
from mantamq.protocol.status.alerts import CRITICAL, INFO, KINDS, WARNING
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.status.machines import ManagementStatus
from mantamq.protocol.status.members import AnyMember
from mantamq.protocol.supervisor.changes import JOIN, Begin, Change
from mantamq.protocol.supervisor.start_pauses import StartPauses
from mantamq.protocol.wire.majority_frames import LOST, WAITS
from msgspec.structs import replace

from .test_health import HARMS, change, change_stream, mute, remove
from .test_parts import Stored, World, healer
from .test_said_of_hosts import Rebalancer

ROOT = Path(__file__).parents[4]
Harm = Callable[[list[AnyMember]], object]


def complained(*harms: Harm) -> list[Reason]:
    found = actors()
    add_stores(found)
    for harm in harms:
        harm(found)
    return complaints(plan(), found)


def hurt(found: list[AnyMember]) -> None:
    machine(found, "b2.store").logs["tx"].hurt = ["q#1"]


def unlinked(peer: str) -> list[AnyMember]:
    found = actors()
    named(found, "b1").refused = {peer: "another cluster"}
    return found


def of_disks() -> list[Reason]:
    hurt = store("b2.store", catalog="no space left")
    hurt.logs["tx"].damage = [[5, 9]]
    return store_warnings([member("b2.store", "StoreNode", machine=hurt)])


def of_events() -> list[Reason]:
    found = [member("events", "EventTap", machine=tap(error="full", dropped=1, untold=["a#1"]))]
    return tap_life.warnings("/e", found) + tap_life.warnings("/e", [])


def of_the_page() -> list[Reason]:
    machine = ManagementStatus(address="a:1", looks=1, trouble="the port is taken", missed={"statistics": "no answer"})
    found = [member("management", "ManagementNode", machine=machine)]
    chosen = ManagementConfig(port=0)
    starts = StartPauses()
    return management_life.warnings(chosen, found, starts, 0) + management_life.warnings(chosen, [], starts, 0)


def of_hosts() -> list[Reason]:
    found = actors(nodes=3)
    named(found, "b1").host = named(found, "b2").host
    return frail(plan(), found)


def of_the_rebalancer(monkeypatch: pytest.MonkeyPatch) -> list[Reason]:
    from mantamq.actors.supervisor.record import ClusterRecord
    from mantamq.protocol.supervisor.layout import Node

    unused: object = None
    spread = replace(Plan.of(3, hosts=3), moving=("b2", 3))
    one = Rebalancer(ClusterRecord(plan=spread), *[unused] * 5)  # type: ignore[arg-type]
    one.nodes, one.ended = [Node("n1", "10.0.0.1", {}), Node("n2", "10.0.0.2", {})], ["10.0.0.3"]
    return one.warnings(actors(3, nodes=3))


def of_the_healer() -> list[Reason]:
    world = Stored("b1", "b2", "b3", "b3.store")
    for life in ("one", "two", "three"):
        world.record.store_failures.note("b3", life, 0, "errno 5")
    one = healer(world)
    for name in ("b1", "b2"):
        world.turns.add(name)
    one._homes.awaited["b2"] = "the host of b2 is away"
    world.record.stage = "running"
    world.supervision.in_office = lambda now_ms: False  # type: ignore[method-assign]
    return one.under_way()


def of_the_joiner() -> list[Reason]:
    from mantamq.actors.supervisor.joiner import Joiner

    world = World("b1")
    world.record.changes.step(Begin(Change("r", JOIN, "b4")))
    unused: object = None
    return Joiner(world.record, *[unused] * 5).under_way()  # type: ignore[arg-type]


def without_ray(monkeypatch: pytest.MonkeyPatch) -> ClusterStatus:
    def join(address: str, namespace: str) -> None:
        raise door.NoRay("nobody")

    known = {"address": "10.0.0.1:1", "namespace": "n", "members": {"b1": "10.0.0.1:2"}}
    monkeypatch.setattr(local_ray, "recall", lambda: known)
    monkeypatch.setattr(local_ray, "join", join)
    return cluster.look(ask=lambda address: broker(["b1", "b2"]))


def produced(monkeypatch: pytest.MonkeyPatch) -> list[Reason]:
    """Each kind of reason, from who says it."""
    found = [reason for harm, _ in HARMS for reason in complained(harm)]
    found += complained(change("b2.store", pressed=True), hurt, mute, change("b2", stop_left_ms=900))
    found += complained(remove("b2"), remove("b3")) + complaints(plan(), unlinked("b2"))
    found += stranger_warnings(unlinked("'b9' at 10.0.0.9:1"))
    found += closed(plan(), actors(), {"b1": ""})
    found += [Loss((ORDERS,), ("b1",), ("b2",), {}, 5000, fate).reason() for fate in (WAITS, LOST)]
    found += of_disks() + of_events() + of_the_page() + of_hosts() + of_the_rebalancer(monkeypatch) + of_the_joiner()
    return found + of_the_healer()


async def test_each_name_can_be_produced(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {reason.name for reason in produced(monkeypatch)}
    lost = actors()
    for name in ("b2", "b3"):
        machine(lost, name).blank = True
    leading = machine(lost, "sequencer2")
    from .test_lost import GONE

    leading.waiting = GONE
    said |= {reason.name for reason in complaints(plan(), lost)}
    said |= {alert.name for alert in (await asyncio.to_thread(without_ray, monkeypatch)).alerts}
    first = Reason.of("no-supervisor", WHOLE, "there is no supervisor now")
    said |= {alert.name for alert in _status(plan(), actors(), first, "abc", "n").alerts}
    assert said == set(KINDS)


def test_the_page_of_alerts_is_what_the_program_says() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (.+?) \| (.+?) \|$", page, re.M)
    assert rows == [(name, *kind) for name, kind in KINDS.items()]
    assert {kind.severity for kind in KINDS.values()} == {CRITICAL, WARNING, INFO}


def test_a_name_that_is_not_in_the_set_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        Reason.of("no-such-name", "b1", "something is wrong")


def test_a_reason_is_known_by_its_name_and_subject_while_its_figures_change() -> None:
    seen = FirstSeen()
    behind = [Reason.of("replica-behind", "b3", f"queue q: {left} left", 0) for left in (9, 5)]
    other = Reason.of("replica-behind", "b2", "queue q: 3 left")
    assert [alert.since for alert in seen.alerts([behind[0]], 100.0)] == [100.0]
    assert [(alert.since, alert.text) for alert in seen.alerts([other, behind[1]], 130.0)] == [
        (130.0, "queue q: 3 left"),
        (100.0, "queue q: 5 left"),
    ]


def test_what_has_gone_is_forgotten_and_begins_anew() -> None:
    seen = FirstSeen()
    gone = Reason.of("member-silent", "b3", "b3 does not answer")
    seen.alerts([gone], 100.0)
    assert seen.alerts([], 101.0) == []
    assert [alert.since for alert in seen.alerts([gone], 102.0)] == [102.0]


def test_a_member_that_says_for_how_long_is_believed_the_first_time() -> None:
    seen = FirstSeen()
    for for_ms, now_s in ((2500, 100.0), (3000, 101.0)):
        stopped = Reason.of("flow-control", "b3", f"for {for_ms}", for_ms)
        assert [alert.since for alert in seen.alerts([stopped], now_s)] == [97.5]


def test_names_and_subjects_of_a_status_are_those_of_its_reasons() -> None:
    found = actors()
    silence(found, "b2")
    change_stream(ORDERS, blank=["b3"])(found)
    alter(machine(found, "sequencer2"), absent=["b1"])
    said = complaints(plan(), found)
    assert [(reason.name, reason.subject) for reason in said] == [
        ("member-silent", "b2"),
        ("broker-evicted", "b1"),
        ("replica-behind", "b3"),
    ]
    plain = texts(said)
    assert plain == said and {type(text) for text in plain} == {str}
