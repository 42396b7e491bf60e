"""`status` and `check`, on clusters that never ran."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from made_up_status import ORDERS, actors, add_stores, alter, machine, named, plan, report, silence, stream
from mantamq.actors.members.moves import moved
from mantamq.actors.supervisor.health import quorum_critical, sharing_host
from mantamq.client.cli import app, check, status, wiring
from mantamq.client.cli.status import REASONS, health, replicas_state, view
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.alerts import KINDS
from mantamq.protocol.status.cluster import ClusterStatus, SupervisorStatus
from mantamq.protocol.status.machines import DutyStatus
from mantamq.protocol.status.members import AnyMember, MoveStatus
from msgspec.structs import replace
from rich.console import Console

Run = Callable[..., tuple[int, str]]


def printed(parts: list[Any], width: int = 100, color: bool = False) -> str:
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=color, color_system="standard" if color else None)
    for part in parts:
        console.print(part)
    return shown.getvalue()


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


# ---- status


@pytest.mark.parametrize("width", [80, 120])
def test_a_healthy_cluster_on_one_screen(width: int) -> None:
    text = printed(view(report(actors())), width)
    assert "running for 1 h 6 min, 2,000 events ordered under ballot 2" in " ".join(text.split())
    assert "healthy: everything is there" in text and "not healthy" not in text
    assert line_of(text, "b2").split()[:4] == ["b2", "serving", "10.0.0.0:5001", "1"]
    assert "leads under ballot 2" in line_of(text, "sequencer2") and "standby" in line_of(text, "sequencer3")
    assert "moves the consume locks" in line_of(text, "ownership ") and "stands by" in line_of(text, "ownership2 ")
    assert line_of(text, "orders").split() == ["orders", "12", "b1", "b1,", "b2", "0", "3", "level"]
    assert line_of(text, "(wiring)").split()[-2:] == ["3", "level"]
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) < 40


def test_the_limit_of_queues_that_name_none_is_said() -> None:
    found = actors()
    assert "names no limit" not in printed(view(report(found)))
    for broker in ("b1", "b2", "b3"):
        machine(found, broker).queue_limit_bytes = 100 << 20
    text = " ".join(printed(view(report(found))).split())
    assert "all of them take clients; a queue that names no limit has 100.0 MiB" in text


def test_who_moves_the_consume_locks_is_said() -> None:
    found = actors()
    machine(found, "sequencer2").duty = DutyStatus(name="ownership2", turn=1, silent_ms=100)
    machine(found, "ownership2")[ORDERS].interested = ["b3"]
    silence(found, "ownership")
    text = printed(view(report(found)))
    assert "moves the consume locks" in line_of(text, "ownership2 ") and "no answer" in line_of(text, "ownership ")
    assert "b3" in line_of(text, "orders"), "what it knows is shown"
    assert "no second Ownership" in text


def test_the_panel_is_green_or_red_and_never_too_long() -> None:
    assert "\x1b[32m" in printed([health([])], color=True)
    red = printed([health(["b1 does not answer"])], color=True)
    assert "\x1b[31m" in red and "\x1b[32m" not in red and "one reason" in red and "b1 does not answer" in red
    many = printed([health([f"reason [{n}]" for n in range(50)])])
    assert "50 reasons" in many and "reason [0]" in many and f"and {50 - REASONS} more" in many
    assert len(many.splitlines()) == REASONS + 3


def state_of(found: list[AnyMember], broker: str = "b2") -> str:
    said = report(found)
    actor = next((actor for actor in found if actor.name == broker), None)
    return status.broker_state(broker, said.members, actor)[0]


def test_each_state_of_a_broker_has_its_word() -> None:
    assert state_of(actors()) == "serving"
    for change, word in (
        ({"blank": True}, "joining"), ({"cut_off": True}, "cut off"), ({"attached": False}, "no sequencer"),
    ):  # fmt: skip
        found = actors()
        alter(machine(found, "b2"), **change)
        assert state_of(found) == word
    found = actors()
    assert status.broker_state("b2", {}, named(found, "b2"))[0] == "joining"  # clients are not told of it yet
    silence(found, "b2")
    assert state_of(found) == "no answer" and "no answer" in line_of(printed(view(report(found))), "b2")
    found.remove(named(found, "b2"))
    assert state_of(found) == "not there" and "not there" in line_of(printed(view(report(found))), "b2")


def test_each_state_of_a_replica_has_its_words() -> None:
    members = ["b1", "b2", "b10"]
    lag = {"b10": 0, "b2": 1200, "b1": 7}
    assert replicas_state(stream(members, lag=lag))[0] == "b1 7 behind; b2 1,200 behind"
    blank = replicas_state(stream(members, lag=lag, blank=["b2", "b10"]))
    assert blank == ("b1 7 behind; b2 blank, 1,200 behind; b10 blank", "yellow")
    missing = replicas_state(stream(members, lag={"b1": 0, "b10": 0}, missing=["b2"]))
    assert missing == ("b2 missing", "red")
    assert replicas_state(stream(members, ready=False, lag={}, missing=members))[0] == "log is being recovered"
    assert replicas_state(None)[0] == "not known"


def test_without_a_sequencer_the_replicas_speak() -> None:
    found = actors()
    silence(found, "sequencer2")
    alter(machine(found, "b1.r0")[ORDERS], blank=True, applied=5000, messages=0)
    alter(machine(found, "b3.r0")[ORDERS], applied=2000, messages=77)
    alter(machine(found, "sequencer3"), role="preparing", ballot=[3, 9])
    text = printed(view(report(found)))
    assert "nobody orders" in text and "is taking over under ballot 3" in line_of(text, "sequencer3")
    assert line_of(text, "orders").split()[:2] == ["orders", "77"] and "not known" in line_of(text, "orders")


def test_a_deposed_sequencer_is_not_taken_for_the_one_that_leads() -> None:
    found = actors()
    zombie = replace(machine(found, "sequencer2"), ballot=[1, 9], seq=5, streams={})
    found.insert(0, replace(named(found, "sequencer2"), name="sequencer", machine=zombie))
    text = printed(view(report(found)))
    assert "2,000 events" in text and "was deposed (ballot 1)" in text and "orders" in text


def test_names_are_never_markup() -> None:
    found = actors()
    machine(found, "sequencer2").streams["[/odd]#9"] = stream(["b1"], missing=["b2", "b3"])
    assert "[/odd]" in line_of(printed(view(report(found))), "[/odd]")
    assert "queue [/odd]: no replica at b2, b3" in printed(view(report(found)))


def test_who_is_in_the_cluster_and_who_takes_clients_are_two_figures() -> None:
    found = actors()
    machine(found, "b3").blank = True
    known = report(found)
    assert "brokers: 3 in the cluster, 2 of them take clients" in printed(view(known))
    assert (known.brokers_in_cluster, known.brokers_taking_clients) == (3, 2)
    assert "brokers: 3 in the cluster, all of them take clients" in printed(view(report(actors())))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("supervisor", "words"),
    [
        ({}, ["supervisor2", "number 2, confirmed by a majority of the brokers", "99", "10.0.0.2"]),
        ({"confirmed": False}, ["supervisor2", "number 2, confirmed by no majority of the brokers: replaces nothing"]),
        ({"pid": 0, "host": ""}, ["supervisor2", "number 2, out of reach"]),
    ],
)
def test_the_supervisor_is_named_by_its_number_and_by_who_confirms_it(
    supervisor: dict[str, Any], words: list[str], width: int
) -> None:
    one = replace(SupervisorStatus(pid=99, host="10.0.0.2", name="supervisor2", number=2), **supervisor)
    text = printed(view(replace(report(actors()), supervisor=one)), width)
    shown = " ".join(text[text.index("supervisor2") :].split())
    for word in words if width > 80 else words[:1]:
        assert word in shown
    assert "number 2" in shown and max(map(len, text.splitlines())) <= width


def test_a_broker_that_has_moved_is_named_with_both_addresses() -> None:
    found = actors()
    move = MoveStatus(before="10.0.0.9:5001", address="10.0.0.0:5001", at=time.time() - 61)
    for name in ("b1", "b3"):
        alter(named(found, name), moves={"b2": move})
    text = " ".join(printed(view(replace(report(found), moved=moved(found)))).split())
    assert text.count("has moved") == 1
    assert "broker b2 has moved: clients connect to 10.0.0.0:5001, it was 10.0.0.9:5001 (1 min 1 s ago)" in text


# ---- the commands


class MadeUp:
    """A cluster as `find_cluster` would return it."""

    def __init__(self, found: list[AnyMember]) -> None:
        self.found = found

    def report(self) -> ClusterStatus:
        return report(self.found)

    def quorum_critical(self, broker: str = "", whole_node: bool = False) -> dict[str, dict[str, Any]]:
        if broker not in ("", "b1", "b2", "b3"):
            raise LocalError(f"there is no broker {broker!r} in this cluster: it has b1, b2, b3")
        answers = {}
        for one in [broker] if broker else plan().members:
            together = sharing_host(self.found, one) if whole_node else [one]
            answers[one] = {"together": together, "reasons": quorum_critical(plan(), self.found, *together)}
        return answers


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mantamq` with these words on that cluster; its exit code and what it printed."""

    def run(found: list[AnyMember] | None, *words: str) -> tuple[int, str]:
        def running(address: str, namespace: str) -> MadeUp:
            if found is None:
                raise LocalError("there is no cluster")
            return MadeUp(found)

        monkeypatch.setattr(check, "running", running)
        for module in (status, check, wiring):
            monkeypatch.setattr(module, "seen", lambda address, namespace, token: running(address, namespace).report())
            monkeypatch.setattr(module, "out", SimpleNamespace(print=lambda part: sys.stdout.write(printed([part]))))
        monkeypatch.setattr(sys, "argv", ["mantamq", *words])
        capsys.readouterr()
        code: Any = 0
        try:
            app.main()
        except SystemExit as ended:
            code = ended.code or 0
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


def hurt() -> list[AnyMember]:
    """b1's replica of the queue is being brought up to date."""
    found = actors(nodes=2)
    machine(found, "sequencer2").streams[ORDERS].blank = ["b1"]
    return found


def test_status_succeeds_unless_there_is_no_cluster(run: Run) -> None:
    code, text = run(hurt(), "status")
    assert code == 0 and "not healthy: one reason" in text and "b1 blank" in text
    code, text = run(hurt(), "status", "--json")
    assert code == 0 and json.loads(text) == report(hurt()).plain()
    assert run(None, "status")[0] == 1


def test_check_health_has_an_exit_code(run: Run) -> None:
    code, text = run(actors(), "check", "health")
    assert code == 0 and "healthy: everything" in text
    code, text = run(hurt(), "check", "health")
    assert code == 1 and "queue orders: being brought up to date at b1" in text
    code, text = run(hurt(), "check", "health", "--json")
    assert code == 1 and json.loads(text)["healthy"] is False and len(json.loads(text)["unhealthy"]) == 1
    assert run(None, "check", "health")[0] == 1


def test_check_quorum_critical_says_who_may_stop(run: Run) -> None:
    code, text = run(actors(), "check", "quorum-critical")
    assert code == 0 and [line_of(text, broker).split()[1] for broker in ("b1", "b2", "b3")] == ["yes"] * 3
    code, text = run(hurt(), "check", "quorum-critical")
    assert code == 1 and [line_of(text, broker).split()[1] for broker in ("b1", "b2", "b3")] == ["yes", "no", "no"]
    assert "queue orders: only b3 would be left" in line_of(text, "b2")
    code, text = run(hurt(), "check", "quorum-critical", "b1")
    assert code == 0 and "b2" not in text
    code, text = run(hurt(), "check", "quorum-critical", "b2", "--json")
    answer = json.loads(text)["b2"]
    assert code == 1 and answer["may_stop"] is False and answer["together"] == ["b2"] and len(answer["reasons"]) == 1


def test_a_node_goes_with_all_its_brokers(run: Run) -> None:
    code, text = run(actors(nodes=2), "check", "quorum-critical", "--node")
    assert code == 1
    assert line_of(text, "b1 with b3").split()[3] == "no" and line_of(text, "b2").split()[1] == "yes"


def test_check_wants_a_broker_that_is_there(run: Run) -> None:
    code, text = run(actors(), "check", "quorum-critical", "b9")
    assert code == 1 and "there is no broker 'b9'" in text and text.count("\n") == 1


def test_the_stores_have_a_row_each_and_fit_eighty_columns() -> None:
    found = actors()
    assert "stores" not in printed(view(report(found)))
    add_stores(found)
    text = printed(view(report(found)), 80)
    row = line_of(text, "b2.store")
    assert max(map(len, text.splitlines())) <= 80
    assert "128.0 MiB" in row, "spares are on the disk as well: `du` counts them"
    assert "10.0 MiB" in row and "40.0 GiB" in row and " d " in row
    assert "812.3" in row and "1.45" in row and "in use" in row


def test_each_state_of_a_store_has_its_word() -> None:
    for values, word in (({"pressed": True}, "no room"), ({"state": "joining"}, "joining"), ({}, "in use")):
        found = actors()
        add_stores(found)
        alter(machine(found, "b2.store"), **values)
        assert word in line_of(printed(view(report(found))), "b2.store")
    silence(found, "b2.store")
    assert "no answer" in line_of(printed(view(report(found))), "b2.store")


def test_stat_shows_the_stores(run: Run) -> None:
    found = actors()
    code, said = run(found, "stat", "--stores")
    assert code == 1 and "no store" in said
    add_stores(found)
    code, said = run(found, "stat", "--stores")
    assert code == 0 and "b3.store" in said
    code, said = run(found, "stat", "--stores", "--json")
    assert code == 0 and [one["name"] for one in json.loads(said)] == ["b1.store", "b2.store", "b3.store"]


# ---- alerts


def since(known: ClusterStatus, seconds: float) -> ClusterStatus:
    """The same, where each alert has been on for so long."""
    return replace(known, alerts=[replace(alert, since=time.time() - seconds) for alert in known.alerts])


def test_for_how_long_it_has_been_so_is_said_where_that_is_known() -> None:
    known = report(hurt())
    known.alerts.append(replace(known.alerts[0], name="host-frail", text="host h may not fail now"))
    known.warnings = ["host h may not fail now"]
    text = printed(view(since(known, 200)), 80)
    assert "for 3.3 min queue orders: being brought up to date at b1" in text
    assert "warning, for 3.3 min: host h may not fail now" in text
    assert max(map(len, text.splitlines())) <= 80
    text = printed(view(since(known, 0)))  # it is asked now for the first time: who knows since when
    assert " - queue orders: being brought up to date at b1" in text
    assert "warning: host h may not fail now" in text


def test_check_alert_is_1_while_it_is_on_and_says_what_to_do(run: Run) -> None:
    code, text = run(hurt(), "check", "alert", "no-majority", "replica-behind")
    assert code == 1 and "replica-behind warning, about b1" in text
    assert "queue orders: being brought up to date at b1" in text and "to do: Wait, and stop no other" in text
    code, text = run(hurt(), "check", "alert", "no-majority")
    assert code == 0 and "none of these is on: no-majority" in text
    assert run(hurt(), "check", "alert")[0] == 1
    assert run(actors(), "check", "alert")[0] == 0
    code, text = run(hurt(), "check", "alert", "replica-behind", "--json")
    assert code == 1 and [alert["subject"] for alert in json.loads(text)["on"]] == ["b1"]


def test_an_alert_of_no_such_name_is_refused_with_the_nearest(run: Run) -> None:
    code, text = run(hurt(), "check", "alert", "replica-behnd")
    assert code == 2 and "'replica-behnd': do you mean 'replica-behind'?" in text
    assert run(hurt(), "check", "alert", "???")[0] == 2


def test_check_alert_lists_all_names(run: Run) -> None:
    code, text = run(None, "check", "alert", "--list")
    assert code == 0, "no cluster is asked"
    assert all(name in text for name in KINDS)
    assert set(json.loads(run(None, "check", "alert", "--list", "--json")[1])) == set(KINDS)


def test_a_supervisor_that_names_no_alerts_is_no_good_news(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    old = report
    monkeypatch.setattr(sys.modules[__name__], "report", lambda found: replace(old(found), alerts=[]))
    code, text = run(hurt(), "check", "alert", "no-majority")
    assert code == 1 and "names no alerts" in text
    assert run(actors(), "check", "alert", "no-majority")[0] == 0


def test_check_health_has_the_alerts_for_scripts(run: Run) -> None:
    (alert,) = json.loads(run(hurt(), "check", "health", "--json")[1])["alerts"]
    assert (alert["name"], alert["subject"], alert["severity"]) == ("replica-behind", "b1", "warning")
