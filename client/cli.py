"""The `mantamq` command: Qpid's nouns and verbs, tables for people, `--json` for scripts.

Every command exits with 0 on success, 1 on trouble (after one line that says what to do) and 2 on wrong arguments.
"""

from __future__ import annotations

from typing import Annotated

import typer

from . import (
    cli_analyze,
    cli_broker,
    cli_check,
    cli_cluster,
    cli_doctor,
    cli_messages,
    cli_perftest,
    cli_status,
    cli_wiring,
)
from .console import run, say


def version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        say(f"mantamq {__version__}", {}, False)
        raise typer.Exit()


app = typer.Typer(
    name="mantamq",
    help="A clustered, replicated message broker whose members are Ray actors.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="the version installed here")
    ] = False,
) -> None:
    pass


cli_cluster.register(app)
cli_status.register(app)
cli_check.register(app)
cli_broker.register(app)
cli_wiring.register(app)
cli_messages.register(app)
cli_perftest.register(app)
cli_doctor.register(app)
cli_analyze.register(app)


def main() -> None:
    run(app)


if __name__ == "__main__":
    main()
