"""`check`: questions with one answer, for scripts and rolling restarts; exit code 1 when the answer is no."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ...protocol.errors import LocalError
from ...protocol.status.alerts import CRITICAL, KINDS, AlertStatus
from ...protocol.status.cluster import ClusterStatus
from .console import Json, Namespace, Ray, Token, out, running, say, seen, table_of
from .status import BAD, GOOD, SOON, ages, health, warnings


def register(app: typer.Typer) -> None:
    check = typer.Typer(help="Questions with one answer; exit code 1 when it is no.", no_args_is_help=True)
    check.command("health")(check_health)
    check.command("alert")(check_alert)
    check.command("quorum-critical")(check_quorum_critical)
    app.add_typer(check, name="check")


def check_health(
    strict: Annotated[bool, typer.Option("--strict", help="warnings count, too: that a host may not fail")] = False,
    address: Ray = "", namespace: Namespace = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Is the cluster whole? Else: every reason why not."""
    status = seen(address, namespace, token)
    if as_json:
        say("", status.health(), True)
    else:
        out.print(health(status.unhealthy, ages(status)))
        for line in warnings(status):
            out.print(line)
    if not status.healthy or (strict and status.warnings):
        raise typer.Exit(1)


def check_alert(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="as --list has them")] = None,
    named: Annotated[bool, typer.Option("--list", help="all names, what they mean and what to do")] = False,
    address: Ray = "", namespace: Namespace = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Is none of these alerts on? Without a name: none at all? Else: what is wrong, for how long, and what to do."""
    wanted = _known(names or [])
    if named:
        _list(wanted or list(KINDS), as_json)
        return
    status = seen(address, namespace, token)
    found = _on(status, wanted)
    if as_json:
        say("", {"on": [alert.plain() for alert in found]}, True)
    elif not found:
        out.print(Text(f"none of these is on: {', '.join(wanted)}" if wanted else "no alert is on", GOOD))
    else:
        known = ages(status)
        for alert in found:
            out.print(_told(alert, known.get(alert.text, "")))
    if found:
        raise typer.Exit(1)


def _known(names: list[str]) -> list[str]:
    """Raises:
    typer.BadParameter: an alert has no such name.
    """
    for name in names:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, 1, 0.0)[0]
            raise typer.BadParameter(f"no alert has the name {name!r}: do you mean {near!r}? --list has them all")
    return names


def _on(status: ClusterStatus, wanted: list[str]) -> list[AlertStatus]:
    """Raises:
    LocalError: who has answered names no alerts, though something is wrong.
    """
    if not status.alerts and (status.unhealthy or status.warnings):
        raise LocalError(
            "the cluster's supervisor is of a version that names no alerts, though something is wrong: "
            "`mantamq check health` says what"
        )
    return [alert for alert in status.alerts if not wanted or alert.name in wanted]


def _told(alert: AlertStatus, age: str) -> Table:
    """An alert: its name and what it is about, its text, and what to do."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    head = Text(alert.name, BAD if alert.severity == CRITICAL else SOON)
    head.append(f" {alert.severity}{', ' * bool(age)}{age}, about {alert.subject}", "default")
    table.add_row("*", head)
    table.add_row("", Text(alert.text))
    table.add_row("", Text(f"to do: {alert.todo}"))
    return table


def _list(names: list[str], as_json: bool) -> None:
    if as_json:
        say("", {name: KINDS[name]._asdict() for name in names}, True)
        return
    table = table_of("", ["alert", "severity", "meaning; what to do"], whole=["alert"])
    for name in names:
        severity, meaning, todo = KINDS[name]
        table.add_row(name, severity, f"{meaning} {todo}")
    out.print(table)


def check_quorum_critical(
    broker: Annotated[str, typer.Argument(help="one broker; by default each, and each host")] = "",
    node: Annotated[bool, typer.Option("--node", help="with all brokers that share its host")] = False,
    address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """May I stop this broker now, with its queue replicas? Not if less than a majority would be left of anything."""
    answers: dict[str, dict[str, Any]] = running(address, namespace).quorum_critical(broker, node)
    if as_json:
        say("", {name: {"may_stop": not found["reasons"], **found} for name, found in answers.items()}, True)
    else:
        table = table_of("may it be stopped now?", ["broker", "may stop", "because"])
        for name, found in answers.items():
            others = ", ".join(other for other in found["together"] if other != name)
            reasons = found["reasons"] or ["a majority of everything would be left"]
            answer = Text("no", BAD) if found["reasons"] else Text("yes", GOOD)
            table.add_row(name + (f" with {others}" if others else ""), answer, Text("\n".join(reasons)))
        out.print(table)
    if any(found["reasons"] for found in answers.values()):
        raise typer.Exit(1)
