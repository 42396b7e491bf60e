"""`policy add|list|delete`: what queues get by the pattern of their names."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..management import PolicyKeywords
from .console import Broker, Json, Token, connection, meant_by, say, show
from .wiring import pairs

KEYWORDS = (*PolicyKeywords.__annotations__, "alternate")
COLUMNS = ["name", "pattern", "priority", "operator", "settings"]
Operators = Annotated[bool, typer.Option("--operator", help="an operator's: the most that a queue gets")]


def register(app: typer.Typer) -> None:
    policy = typer.Typer(help="What queues get by the pattern of their names.", no_args_is_help=True)
    policy.command("add")(policy_add)
    policy.command("list")(policy_list)
    policy.command("delete")(policy_delete)
    app.add_typer(policy, name="policy")


def policy_add(
    name: str,
    pattern: Annotated[str, typer.Argument(help="a regular expression, searched for in the names of queues")],
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help=f"one of {', '.join(KEYWORDS)}; may be repeated")
    ],
    priority: Annotated[int, typer.Option(help="of those that fit, the highest one is the queue's")] = 0,
    operator: Operators = False, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have queues, those that are there too, get settings that they do not name themselves."""
    given: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for key, value in pairs(settings).items():
        keyword = key.replace("-", "_")
        (given if keyword in KEYWORDS else arguments)[keyword if keyword in KEYWORDS else key] = value
    with connection(broker, token) as c:
        new = c.add_policy(name, pattern, priority=priority, operator=operator, arguments=arguments, **given)
    say(f"policy {name} {'added' if new else 'is there already'}", {"policy": name, "new": new}, as_json)


def policy_list(broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All policies, those of operators behind the others."""
    with connection(broker, token) as c:
        show(c.policies(), COLUMNS, as_json, "policies")


def policy_delete(
    name: str, operator: Operators = False, broker: Broker = "", token: Token = "", as_json: Json = False
) -> None:
    """Delete a policy: what queues have got by it they have no more."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would delete the policy {name!r} of a cluster")
        c.delete_policy(name, operator)
    say(f"policy {name} deleted", {"policy": name, "deleted": True}, as_json)
