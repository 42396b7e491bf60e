"""`queue redirect`: what is sent to one queue comes into another."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import Broker, Json, Token, connection, meant_by, say


def register(queue: typer.Typer) -> None:
    queue.command("redirect")(queue_redirect)


def queue_redirect(
    source: Annotated[str, typer.Argument(help="queue that gets nothing any more")],
    target: Annotated[str, typer.Argument(help="queue that gets it instead")] = "",
    end: Annotated[bool, typer.Option("--end", help="what is sent to SOURCE comes into it again")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have what is sent to a queue come into another from now on; what is in it stays, with its consumers."""
    if bool(target) == end:
        raise typer.BadParameter("give the TARGET that gets what is sent to SOURCE, or --end without one")
    with connection(broker, token) as c:
        if end:
            meant_by(c, broker, f"This would end the redirection of {source!r} in a cluster")
            c.end_redirect(source)
            say(f"queue {source} is not redirected any more", {"queue": source, "target": None}, as_json)
            return
        meant_by(c, broker, f"This would redirect what is sent to {source!r} in a cluster")
        new = c.redirect_queue(source, target)
    done = "is redirected to" if new else "is redirected already to"
    say(f"queue {source} {done} {target}", {"queue": source, "target": target, "new": new}, as_json)
