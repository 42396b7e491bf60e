"""The `mantamq` command: Qpid's nouns and verbs, tables for people, `--json` for scripts.

Every command exits with 0 on success, 1 on trouble (after one line that says what to do) and 2 on wrong arguments.
"""

from __future__ import annotations

from typing import Annotated

import typer

from . import (
    analyze,
    broker,
    check,
    cluster,
    definitions,
    doctor,
    grafana,
    messages,
    moves,
    patterns,
    perftest,
    policies,
    redirects,
    status,
    store,
    top,
    watch,
    wiring,
)
from .console import run, say


def version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

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


cluster.register(app)
status.register(app)
check.register(app)
top.register(app)
watch.register(app)
broker.register(app)
queue = wiring.register(app)
moves.register(queue)
redirects.register(queue)
policies.register(app)
patterns.register(app)
definitions.register(app)
messages.register(app)
perftest.register(app)
doctor.register(app)
store.register(app)
analyze.register(app)
grafana.register(app)


def main() -> None:
    run(app)


if __name__ == "__main__":
    main()
