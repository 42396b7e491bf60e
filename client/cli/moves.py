"""`queue purge`, `move`, `reroute`, `redrive`: messages leave a queue as an operator orders; `queue peek` looks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from ..errors import Empty
from ..moves import Moved
from .console import Broker, Json, Token, connection, err, meant_by, say
from .messages import Print, print_message

Count = Annotated[int, typer.Option("--count", "--limit", min=0, help="at most this many, the first; 0: all")]


def _filter(text: str | None) -> str | None:
    """Raises:
    typer.BadParameter: it is empty, as a variable of a script that is not set: not what takes all.
    """
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty; leave it away for all messages")
    return text


Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "--filter",
        callback=_filter,
        help="only messages for which this is true: \"n > 3 AND c = 'red'\"",
    ),
]


def register(queue: typer.Typer) -> None:
    queue.command("peek")(queue_peek)
    queue.command("purge")(queue_purge)
    queue.command("move")(queue_move)
    queue.command("reroute")(queue_reroute)
    queue.command("redrive")(queue_redrive)


@contextmanager
def _begun(name: str) -> Generator[None]:
    """Ctrl-C ends the command, not what it has begun."""
    try:
        yield
    except KeyboardInterrupt:
        text = f"what was begun may go on: `mantamq queue show {name}` tells how far it is; run it again for the rest"
        err.print(text, markup=False, highlight=False, soft_wrap=True)
        raise


def queue_peek(
    name: str,
    at: Annotated[int, typer.Option("--at", min=1, help="from this position on")] = 1,
    count: Count = 0, selector: Selector = None, timeout: Annotated[
        float, typer.Option("--timeout", "-t", min=0, help="stop after this many idle seconds")
    ] = 1.0,
    show: Annotated[Print, typer.Option("--print", help="of each message; --json is --print json")] = Print.body,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Print messages that wait in a queue, and leave them there."""
    shown = 0
    with connection(broker, token) as c:
        receiver = c.session().receiver(name, mode="browse", selector=selector)
        try:
            while not count or shown < count:
                message = receiver.fetch(timeout)
                if message.position is not None and message.position >= at:
                    print_message(message, Print.json if as_json else show)
                    shown += 1
        except Empty:
            pass


def queue_purge(
    name: str, count: Count = 0, selector: Selector = None, broker: Broker = "", token: Token = "",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Discard a queue's available messages."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would discard the messages of {name!r} in a cluster")
        with _begun(name):
            purged = c.purge(name, count, selector or "")
    say(f"{purged:,} messages discarded from {name}", {"queue": name, "purged": purged}, as_json)


def queue_move(
    name: str,
    to: Annotated[str, typer.Option("--to", help="queue, exchange, or exchange/key")],
    count: Count = 0, selector: Selector = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have a queue's available messages go on to another queue, or to an exchange."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would move the messages of {name!r} in a cluster")
        with _begun(name):
            moved = c.move(name, to, count, selector or "")
    _tell(moved, f"moved from {name} to {to}", "which no queue has taken", name, as_json)


def queue_reroute(
    name: str,
    to: Annotated[str, typer.Option("--to", help="exchange; the queue's alternate, unless given")] = "",
    count: Count = 0, selector: Selector = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have a queue's available messages go on to its alternate exchange, by their subjects."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would reroute the messages of {name!r} in a cluster")
        with _begun(name):
            moved = c.reroute(name, to, count, selector or "")
    _tell(moved, f"rerouted from {name}", "which no queue has taken", name, as_json)


def queue_redrive(
    name: str,
    to: Annotated[str, typer.Option("--to", help="queue; each where it died, unless given")] = "",
    count: Count = 0, selector: Selector = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Have dead letters go back to the queues in which they died. Killed in the midst, run it again: it goes on."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would send back the messages of {name!r} in a cluster")
        with _begun(name):
            moved = c.redrive(name, to, count, selector or "")
    _tell(moved, f"sent back from {name}", "whose queue is gone or full, or which never died", name, as_json)


def _tell(moved: Moved, done: str, why: str, name: str, as_json: bool) -> None:
    text = f"{moved.moved:,} messages {done}"
    if moved.left:
        text += f"; {moved.left:,} stay, {why}"
    say(text, {"queue": name, "moved": moved.moved, "left": moved.left}, as_json)
