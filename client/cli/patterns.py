"""`pattern add|list|delete`: queues and exchanges that are made when somebody attaches to them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..patterns import OF_EXCHANGES, OF_QUEUES
from .console import Broker, Json, Token, connection, meant_by, say, show
from .wiring import pairs

COLUMNS = ["name", "pattern", "makes", "priority", "settings"]


def register(app: typer.Typer) -> None:
    pattern = typer.Typer(help="Queues and exchanges made for whoever attaches.", no_args_is_help=True)
    pattern.command("add")(pattern_add)
    pattern.command("list")(pattern_list)
    pattern.command("delete")(pattern_delete)
    app.add_typer(pattern, name="pattern")


def pattern_add(
    name: str,
    pattern: Annotated[str, typer.Argument(help="a regular expression, searched for in the names")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="as of queue add, such as max-count=5; may be repeated"),
    ] = None,
    exchange: Annotated[bool, typer.Option("--exchange", help="it makes exchanges, and not queues")] = False,
    priority: Annotated[int, typer.Option(help="of those that fit, the highest one is the name's")] = 0,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have queues, or exchanges, made when somebody attaches to a name that fits and is not there."""
    keywords = OF_EXCHANGES if exchange else OF_QUEUES
    given: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for key, value in pairs(settings).items():
        keyword = key.replace("-", "_")
        (given if keyword in keywords else arguments)[keyword if keyword in keywords else key] = value
    made = {"exchange" if exchange else "queue": given | {"arguments": arguments}}
    with connection(broker, token) as c:
        new = c.add_pattern(name, pattern, priority=priority, **made)
    say(f"pattern {name} {'added' if new else 'is there already'}", {"pattern": name, "new": new}, as_json)


def pattern_list(broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All patterns."""
    with connection(broker, token) as c:
        show(c.patterns(), COLUMNS, as_json, "patterns")


def pattern_delete(name: str, broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """Delete a pattern; queues and exchanges that were made by it stay."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would delete the pattern {name!r} of a cluster")
        c.delete_pattern(name)
    say(f"pattern {name} deleted", {"pattern": name, "deleted": True}, as_json)
