"""A lost majority is named: of what, who still has it, for how long, and what to do."""

from __future__ import annotations

import io

from made_up_status import ORDERS, actors, alter, broker, machine, plan, report
from mantamq.actors.supervisor.health import complaints, lost
from mantamq.actors.supervisor.losses import losses
from mantamq.client.cli import doctor
from mantamq.client.cli.status import view
from mantamq.protocol.status.machines import WaitingStatus
from mantamq.protocol.status.members import AnyMember
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.majority_frames import LOST, RESET, WAITS
from mortal_cluster import MortalCluster
from rich.console import Console

MEMBERS = ["b1", "b2", "b3"]


def waits(stream: str, here: list[str], blank: list[str], missing: dict[str, int], fate: str) -> WaitingStatus:
    return WaitingStatus(stream, MEMBERS, 2, here, blank, missing, 34_567, fate)


GONE = [waits(CLUSTER, ["b1"], ["b2", "b3"], {}, RESET), waits(ORDERS, ["b1"], ["b2", "b3"], {}, RESET)]


def without_log(found: list[AnyMember], *brokers: str) -> None:
    """These brokers died with their replicas, and have come back without what they knew."""
    for name in brokers:
        machine(found, name).blank = True
    leading = machine(found, "sequencer2")
    for one in leading.streams.values():
        one.blank = list(brokers)
    leading.waiting = GONE


def test_two_of_three_lost_their_logs_and_it_is_said_who_has_what_and_what_to_do() -> None:
    found = actors()
    without_log(found, "b2", "b3")
    assert complaints(plan(), found) == [
        "the wiring, queue orders: the majority is lost for good, only b1 still has it, b2 and b3 came back without it "
        "34 s ago; nothing completes and waiting does not help: rescue what is left with `mantamq receive QUEUE "
        "--browse --rescue`, then `mantamq down` and `mantamq up`",
        "broker b2 cannot join: the majority that knew the wiring is lost",
        "broker b3 cannot join: the majority that knew the wiring is lost",
    ]


def test_it_is_said_as_well_when_nobody_leads_any_more() -> None:
    found = actors()
    alter(machine(found, "sequencer2"), role="preparing", streams={}, waiting=GONE)
    (loss,) = lost(found)
    assert loss.for_good and loss.here == ("b1",) and set(loss.streams) == {CLUSTER, ORDERS}


def test_a_broker_was_told_and_that_is_enough() -> None:
    found = [actor for actor in actors() if actor.role != "Sequencer"]
    alter(machine(found, "b1"), waiting=GONE, waiting_heard_ms=20)
    alter(machine(found, "b2"), waiting=GONE[:1], waiting_heard_ms=2000)
    (loss,) = lost(found)
    assert set(loss.streams) == {CLUSTER, ORDERS}


def test_one_queue_without_a_majority_can_be_reset() -> None:
    (loss,) = losses([waits(ORDERS, ["b1"], ["b2", "b3"], {}, RESET)])
    assert "`mantamq queue reset QUEUE`" in str(loss)


def test_who_is_out_of_reach_may_still_have_it() -> None:
    (loss,) = losses([waits(ORDERS, ["b1"], ["b2"], {"b3": 12_000}, WAITS)])
    assert not loss.for_good
    assert str(loss) == (
        "queue orders: no majority for 34 s, nothing completes until b3 is back in reach (away for 12 s) or b2 is "
        "brought up to date"
    )


def test_nobody_has_it() -> None:
    (loss,) = losses([waits(ORDERS, [], MEMBERS, {}, LOST)])
    assert str(loss).endswith("nobody has anything of it, so it is dropped")


def test_the_machines_own_evidence_is_understood() -> None:
    """Not made up: what the machines of a cluster say whose majority died."""
    cluster = MortalCluster()
    cluster.add_sequencer()
    assert not cluster.client("b1").command("declare_queue", name="orders").code
    cluster.kill("b2", "b3")
    cluster.pass_time(3000)
    (loss,) = losses(cluster.machines["b1"].report().waiting)
    assert loss.here == ("b1",) and set(loss.missing) == {"b2", "b3"} and not loss.for_good
    for name in ("b2", "b3"):
        cluster.add_broker(name)
    cluster.pass_time(3000)
    for told in (cluster.leader().report(), cluster.machines["b1"].report()):
        (loss,) = losses(told.waiting)
        assert loss.here == ("b1",) and loss.blank == ("b2", "b3") and loss.for_good
        assert str(loss).startswith("the wiring, queue orders: the majority is lost for good")


def test_status_and_doctor_say_it_and_do_not_call_it_joining() -> None:
    found = actors()
    without_log(found, "b2", "b3")
    status = report(found)
    assert not status.healthy and status.lost[0].for_good
    shown = io.StringIO()
    console = Console(file=shown, width=120)
    for part in view(status):
        console.print(part)
    assert shown.getvalue().count("cannot join") >= 2 and "joining" not in shown.getvalue()

    level, _, text = doctor.majority(broker(MEMBERS, waiting=GONE), ["b1"])
    assert level == "fail" and "only b1 still has it" in text
    level, _, text = doctor.majority(broker(MEMBERS), ["b1"])
    assert level == "fail" and text.startswith("only b1 of b1, b2, b3 takes clients")
    assert doctor.majority(broker(MEMBERS), ["b1", "b2"])[0] == "ok"
    assert doctor.majority(broker(MEMBERS, cut_off=True), MEMBERS)[0] == "fail"
