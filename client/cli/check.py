"""`check`: questions with one answer, for scripts and rolling restarts; exit code 1 when the answer is no."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from .console import Json, Namespace, Ray, Token, out, running, say, seen, table_of
from .status import BAD, GOOD, SOON, health


def register(app: typer.Typer) -> None:
    check = typer.Typer(help="Questions with one answer; exit code 1 when it is no.", no_args_is_help=True)
    check.command("health")(check_health)
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
        out.print(health(status.unhealthy))
        for line in status.warnings:
            out.print(Text(f"warning: {line}", SOON))
    if not status.healthy or (strict and status.warnings):
        raise typer.Exit(1)


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
