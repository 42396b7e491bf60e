"""`send` and `receive`: lines in, messages out."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ...protocol.errors import LocalError
from ...protocol.limits import MESSAGE_BYTES
from ...protocol.ranges import size
from ..errors import Empty, MantaError, NotAllowed, NotFound, ResourceLimitExceeded, Unroutable
from ..message import Message
from ..sync.sync import Sender
from .console import INTERRUPTED, Broker, Json, Token, connection, err, nobody_reads, say
from .wiring import pairs

BATCH = 256


class Print(StrEnum):
    """The part of a message that `receive` prints, one line each; headers is json without the body."""

    body = "body"
    json = "json"
    headers = "headers"
    none = "none"


def register(app: typer.Typer) -> None:
    app.command()(send)
    app.command()(receive)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Raises:
    LocalError: a line is longer than any message may be; no more than that is read of it.
    """
    number, most = 0, MESSAGE_BYTES[1]
    while line := stream.readline(most + 2):
        number += 1
        if len(line) > most and not line.endswith(b"\n"):
            raise LocalError(f"line {number:,} is longer than {most:,} bytes, and no message may be: send it in pieces")
        yield line.rstrip(b"\r\n")


def send(
    address: Annotated[str, typer.Argument(help="queue, exchange, or exchange/key")],
    file: Annotated[Path | None, typer.Option("--file", "-f", help="read lines from it instead of stdin")] = None,
    content: Annotated[str | None, typer.Option("--content", "-m", help="send this one message")] = None,
    prop: Annotated[list[str] | None, typer.Option("--property", "-P", help="NAME=VALUE, on every message")] = None,
    subject: Annotated[str | None, typer.Option(help="subject: the routing key at an exchange")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="by these routing keys, each queue once, not by the subject")
    ] = None,
    ttl: Annotated[float | None, typer.Option(min=0, help="seconds until a message expires")] = None,
    delay: Annotated[float | None, typer.Option(min=0, help="seconds before which no consumer gets a message")] = None,
    priority: Annotated[int | None, typer.Option(min=0, help="where a queue has priorities: the highest first")] = None,
    capacity: Annotated[int, typer.Option(min=1, help="most messages sent and not complete")] = 1000,
    mandatory: Annotated[bool, typer.Option("--mandatory", help="exit code 1 when any goes to no queue")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Send each line of standard input (or of a file) as a message; done when all are complete. It says how many
    went to no queue, since none is bound where they were sent; with --mandatory the others are sent all the same.
    When a queue refuses any it reads no more lines, and says how many are complete and how many were refused."""
    if content is not None and file is not None:
        raise typer.BadParameter("--content and --file exclude each other")
    properties: dict[str, Any] | None = pairs(prop) or None
    if content is not None:
        bodies: Iterable[bytes] = [content.encode()]
    elif file is not None:
        bodies = _lines(file.open("rb"))
    else:
        if sys.stdin.isatty():
            err.print("reading lines from the terminal; end with Ctrl-D")
        bodies = _lines(sys.stdin.buffer)
    count = 0
    started = time.monotonic()
    columns = (
        TextColumn("sent"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with (
        connection(broker, token) as c,
        Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as progress,
    ):
        session = c.session()
        if mandatory:  # refused where it is not known by then what goes to no queue
            session.sender(address, mandatory=True).close()
        sender = session.sender(address, capacity=capacity)
        task = progress.add_task("", total=None, rate="")
        try:
            for body in bodies:
                message = Message(body, subject, properties, ttl, priority)
                if delay is not None:
                    sender.send_later(message, delay, keys=key)
                elif key:
                    sender.send_to(message, key)
                else:
                    sender.send(message)
                count += 1
                if not count % 1000:
                    progress.update(task, completed=count, rate=f"{count / (time.monotonic() - started):,.0f}/s")
            sender.sync()
        except (ResourceLimitExceeded, Unroutable, NotFound, NotAllowed) as refusal:
            raise _refused(sender, count, refusal) from None
    seconds = time.monotonic() - started
    text = f"{count:,} messages sent and complete in {seconds:.2f} s"
    nowhere = sender.unroutable
    if nowhere:
        text += f"; {nowhere:,} of them went to no queue: bind one to {address!r} (`mantamq bindings` shows what is)"
    say(text, {"sent": count, "unroutable": nowhere, "seconds": seconds}, as_json)
    if mandatory and nowhere:
        raise typer.Exit(1)


def _refused(sender: Sender, count: int, first: MantaError) -> MantaError:
    """The refusal that ended a `send`, with how many of `count` lines were refused, when all are complete."""
    refusal: MantaError | None = first
    refused = 0
    while refusal is not None:
        numbers: list[int] = getattr(refusal, "numbers", [])
        refused += size(numbers)
        refusal = None
        try:
            sender.sync()
        except (ResourceLimitExceeded, Unroutable, NotFound, NotAllowed) as another:
            refusal = another if hasattr(another, "numbers") else None  # without, the sender has ended
        except MantaError as end:
            return type(end)(f"{count:,} lines sent, {refused:,} of them refused at least: {first}; {end}")
    said = f"{count:,} line{'s' * (count != 1)} sent: {count - refused:,} complete, {refused:,} refused"
    return type(first)(f"{said}: {first}. Nothing was read behind them")


def receive(
    queue: str,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="stop after this many; 0: no bound")] = 0,
    timeout: Annotated[float, typer.Option("--timeout", "-t", min=0, help="stop after this many idle seconds")] = 1.0,
    forever: Annotated[bool, typer.Option("--forever", help="wait until Ctrl-C")] = False,
    browse: Annotated[bool, typer.Option("--browse", help="look, do not take")] = False,
    rescue: Annotated[
        bool, typer.Option("--rescue", help="with --browse: also from a broker without a majority; may be old")
    ] = False,
    reject: Annotated[bool, typer.Option("--reject", help="reject instead of accept")] = False,
    release: Annotated[bool, typer.Option("--release", help="give back instead of accept")] = False,
    annotate: Annotated[
        list[str] | None, typer.Option("--annotate", help="with --release: NAME=VALUE, a note for who gets it next")
    ] = None,
    selector: Annotated[str, typer.Option(help="only messages for which this is true: \"n > 3 AND c = 'red'\"")] = "",
    exclusive: Annotated[bool, typer.Option("--exclusive", help="let no other consumer have the queue")] = False,
    priority: Annotated[int, typer.Option(help="be served before consumers of lower priority at the broker")] = 0,
    show: Annotated[Print, typer.Option("--print", help="of each message; --json is --print json")] = Print.body,
    capacity: Annotated[int, typer.Option(min=0, help="prefetch window")] = 500,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Print each message's body on a line (with --json: everything about it), and accept it once it is printed."""
    if browse + reject + release > 1:
        raise typer.BadParameter("--browse, --reject and --release exclude each other")
    if rescue and not browse:
        raise typer.BadParameter("--rescue only looks: name --browse as well")
    if annotate and not release:
        raise typer.BadParameter("--annotate notes something on what goes back: name --release as well")
    if forever and release:
        raise typer.BadParameter("--release gives back at the end: leave --forever away")
    got = 0
    form = Print.json if as_json else show
    with connection(broker, token, rescue) as c:
        session = c.session()
        # A bounded receive asks for each message: a window would take more, and give them back flagged.
        window = 0 if count else capacity
        mode = "browse" if browse else "consume"
        receiver = session.receiver(
            queue, capacity=window, mode=mode, selector=selector, exclusive=exclusive, priority=priority
        )
        settle = session.release if release else session.reject if reject else session.acknowledge
        if annotate:
            settle = partial(session.modify, failed=True, annotations=pairs(annotate))
        printed: list[Message] = []
        interrupted = False
        try:
            try:
                while not count or got < count:
                    message = receiver.fetch(None if forever else timeout)
                    got += 1
                    print_message(message, form)
                    if not browse:
                        printed.append(message)
                    # Released now, a message would come again: that waits for the end.
                    if not release and (len(printed) >= BATCH or not receiver.available):
                        _settle(printed, settle)
            except Empty:
                pass
            except KeyboardInterrupt:
                interrupted = True
            _settle(printed, settle)
            session.sync(10)
        except BrokenPipeError:  # `| head`: what could not be printed goes back when the connection ends
            nobody_reads()
            raise typer.Exit(1) from None
        if interrupted:
            raise typer.Exit(INTERRUPTED)
    if count and got < count:
        raise RuntimeError(f"{got} of {count} messages came; none for {timeout:g} s")


def _settle(printed: list[Message], settle: Callable[[Message], None]) -> None:
    """Settle what was printed. Flushing comes first: a message that nobody saw must stay in the queue."""
    sys.stdout.buffer.flush()
    for message in printed:
        settle(message)
    printed.clear()


def print_message(message: Message, form: Print) -> None:
    if form is Print.none:
        return
    if form is Print.body:
        line = message.body
    else:
        fields = {
            name: value for name, value in _described(message).items() if form is Print.json or "body" not in name
        }
        line = json.dumps(fields, default=str).encode()
    sys.stdout.buffer.write(line + b"\n")


def _described(message: Message) -> dict[str, Any]:
    """All about a message. A body that is no text is in base64, under another name."""
    fields: dict[str, Any] = {"position": message.position, "delivery_count": message.delivery_count}
    if message.enqueued_at is not None:
        fields["enqueued_at"] = message.enqueued_at
    if not message.first_acquirer:
        fields["first_acquirer"] = False
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    for name in (
        "subject",
        "properties",
        "ttl",
        "priority",
        "correlation_id",
        "reply_to",
        "content_type",
        "message_id",
    ):
        value = getattr(message, name)
        if value is not None:
            fields[name] = value
    if message.annotations:
        fields["annotations"] = message.annotations
    return fields
