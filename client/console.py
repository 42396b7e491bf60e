"""What every command shares: where to connect, how to print, how to fail."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..protocol.errors import LocalError
from .errors import MantaError
from .sheets import Sheet
from .sync import Connection, connect

out = Console()
err = Console(stderr=True)

Broker = Annotated[
    str, typer.Option("--broker", "-b", help="host:port of a broker; by default the cluster that runs here")
]
Token = Annotated[str, typer.Option(envvar="MANTAMQ_TOKEN", help="what the cluster asks its clients for")]
Ray = Annotated[str, typer.Option("--address", help='a running Ray cluster: "auto" or host:port')]
Namespace = Annotated[str, typer.Option(help="Ray namespace of the cluster")]
Json = Annotated[bool, typer.Option("--json", help="machine-readable output")]


def remembered() -> list[str]:
    """Client addresses of the cluster that `mantamq up` started here: known without asking Ray."""
    home = Path(os.environ.get("MANTAMQ_HOME") or Path.home() / ".mantamq")
    try:
        return [str(address) for address in json.loads((home / "state.json").read_text())["members"].values()]
    except (OSError, ValueError, KeyError, AttributeError):
        return []


def addresses(broker: str) -> str | list[str] | None:
    """What to give to `connect`, by the options."""
    return broker or remembered() or None


def connection(broker: str, token: str) -> Connection:
    """Connect as the options say."""
    return connect(addresses(broker), token)


def running(address: str, namespace: str) -> Any:
    """The cluster the options speak of, by default the one that `mantamq up` started here, as an `actors` Cluster.

    Raises:
        LocalError: there is none, and what to do.
    """
    from ..actors import local_ray
    from ..actors.cluster import find_cluster

    known = local_ray.recall()
    return find_cluster(address or known.get("address"), namespace or known.get("namespace") or "mantamq")


def show(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool, title: str = "", top: int | None = None
) -> None:
    """Rows as a table of at most `top` of them, or as a JSON list of all with all their fields."""
    if as_json:
        print(json.dumps(list(rows), default=str))
        return
    numbers = [name for name in columns if rows and all(isinstance(row.get(name), int | float) for row in rows)]
    table = table_of(title, columns, numbers)
    for row in rows[:top]:
        table.add_row(*(_cell(row.get(name)) for name in columns))
    out.print(table)
    if top is not None and len(rows) > top:
        out.print(f"and {len(rows) - top:,} more", highlight=False, markup=False)


def table_of(title: str, columns: Sequence[str], right: Sequence[str] = (), whole: Sequence[str] = ()) -> Sheet:
    """An empty table, see `Sheet`: numbers go into the columns named in `right`, what must not fold into `whole`."""
    return Sheet(title, columns, right, whole)


def say(text: str, value: dict[str, Any], as_json: bool) -> None:
    """One line for people, or the value as JSON."""
    if as_json:
        print(json.dumps(value, default=str))
    else:
        out.print(text, highlight=False, markup=False, soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str) if value else "-"
    return str(value)


def run(app: Callable[[], None]) -> None:
    """Run the command line; a known error becomes one line and exit code 1."""
    try:
        app()
    except (MantaError, LocalError, OSError, RuntimeError) as error:
        err.print(f"mantamq: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
