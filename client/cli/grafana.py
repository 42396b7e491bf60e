"""`grafana export`: dashboards for Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...protocol.errors import LocalError
from .console import Json, say


def register(app: typer.Typer) -> None:
    grafana = typer.Typer(help="Dashboards for Grafana.", no_args_is_help=True)
    grafana.callback()(_group)
    grafana.command("export")(grafana_export)
    app.add_typer(grafana, name="grafana")


def _group() -> None:
    """Keeps the verb in the command line: a group of one command would be that command."""


def grafana_export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="where they go; it is made where it is missing")],
    ray: Annotated[bool, typer.Option("--ray", help="for the metrics as Ray shows them, and not our own")] = False,
    as_json: Json = False,
) -> None:
    """Write dashboards, a file each, to import into Grafana 10 or later."""
    from ...management.metrics.grafana import dashboards

    try:
        directory.mkdir(parents=True, exist_ok=True)
        files = []
        for name, text in dashboards(ray).items():
            (directory / name).write_text(text, "utf-8")
            files.append(str(directory / name))
    except OSError as error:
        raise LocalError(f"dashboards cannot be written to {directory}: {error.strerror or error}") from None
    of = "Ray's Prometheus target" if ray else "/metrics"
    say(f"{len(files)} dashboards for {of} are in {directory}", {"files": files}, as_json)
