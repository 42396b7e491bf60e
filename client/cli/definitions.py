"""`definitions export|import`: all exchanges, queues and bindings as one file, and such a file declared."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from msgspec import UNSET
from rich.progress import MofNCompleteColumn

from ...protocol.errors import LocalError
from ...protocol.status.machines import BrokerStatus
from ...protocol.wire.events import DeclareExchange, DeclareQueue
from ...protocol.wire.pattern_events import PutPattern
from ...protocol.wire.policy_events import PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wiring.node_patterns import EXCHANGE
from ..definitions.comparison import DIFFERS, NEW, REFUSED, UNCHANGED, Comparison, Finding
from ..definitions.declarations import Declaration, Reading, name_of, what_of
from ..definitions.document import FIELDS, read_document, text_of
from ..definitions.reading import MOST_BYTES, read_file
from ..definitions.rehearsal import Rehearsal
from ..errors import ConnectionLost, Exists, Invalid, MantaError, NoStore, Timeout
from ..sync.sync import Connection
from .bar import Bar
from .console import Broker, Json, Token, connection, out, say, show

LEFT_OUT = "not taken over"
COLUMNS = ["what", "name", "outcome", "why"]
FIRST = (REFUSED, DIFFERS, LEFT_OUT, NEW, UNCHANGED)
"""The order in which outcomes are told: what needs somebody comes first."""
TOP = 50
"""Rows of the table; `--json` has all."""


class Line(NamedTuple):
    """One object of a file. Attributes: outcome: one of `FIRST`; remarks: what of it was not taken over."""

    what: str
    name: str
    outcome: str
    why: str = ""
    remarks: tuple[str, ...] = ()


def register(app: typer.Typer) -> None:
    definitions = typer.Typer(help="All exchanges, queues and bindings as a file.", no_args_is_help=True)
    definitions.command("export")(definitions_export)
    definitions.command("import")(definitions_import)
    app.add_typer(definitions, name="definitions")


def definitions_export(
    file: Annotated[str, typer.Option("--file", "-f", help="write to this file; by default to the terminal")] = "",
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Exchanges, queues and bindings as one JSON document, in an order that makes differences readable."""
    with connection(broker, token) as c:
        document = c.definitions()
    if not file:
        sys.stdout.buffer.write(text_of(document).encode())
        sys.stdout.buffer.flush()
        return
    _write(Path(file), text_of(document))
    counts = {name: len(document[name]) for name in FIELDS if name in document}
    what = ", ".join(f"{count:,} {name if count != 1 else _one_of(name)}" for name, count in counts.items())
    say(f"{what} written to {file}", {"file": file, **counts}, as_json)


def _one_of(names: str) -> str:
    """The word for one of several."""
    return names.removesuffix("s") if not names.endswith("ies") else names.removesuffix("ies") + "y"


def _write(path: Path, text: str) -> None:
    """What is there is replaced by the whole, or stays."""
    if path.exists() and not path.is_file():  # a device, or a pipe
        path.write_text(text, "utf-8")
        return
    path = path.resolve()  # a link stays one
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def definitions_import(
    file: Annotated[str, typer.Argument(help="of `definitions export`, or of RabbitMQ's; -: what comes in")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done")] = False,
    vhost: Annotated[str, typer.Option(help='of a RabbitMQ file: this virtual host, by default "/"')] = "",
    transient: Annotated[bool, typer.Option("--transient", help="no queue is durable: that needs no store")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Declare what a file has and the cluster has not. What is there stays, also where it differs: exit code 1.

    To run it again changes nothing that is done."""
    reading = _read(file, vhost)
    if transient:
        reading = reading.transient()
    with connection(broker, token) as c:
        there = read_document(c.definitions())
        known = Comparison(there.declarations)
        if dry_run:
            stored = BrokerStatus.read(c.status()).stored
            lines = list(_rehearsed(reading, known, Rehearsal(there.declarations, stored in (True, UNSET))))
        else:
            lines = list(_imported(c, reading, known))
    lines += [Line(one.what, one.name, LEFT_OUT, one.why) for one in reading.left_out]
    _report(lines, reading.passed_over, dry_run, as_json)
    if any(line.outcome in (DIFFERS, REFUSED) for line in lines):
        raise typer.Exit(1)


def _read(file: str, vhost: str) -> Reading:
    if file == "-":
        text = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with Path(file).open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    try:
        return read_file(text, vhost)
    except Invalid as problem:
        raise LocalError(f"{'what came in' if file == '-' else file}: {problem.text}; nothing was declared") from None


def _rehearsed(reading: Reading, known: Comparison, rehearsal: Rehearsal) -> Iterator[Line]:
    for one, remarks in reading.wanted:
        finding = known.finding(one)
        if finding.outcome == NEW and (refusal := rehearsal.refusal(one)):
            finding = Finding(REFUSED, refusal)
        yield _line(one, finding, remarks)
        if finding.outcome == NEW:
            known.note(one)


def _imported(connection: Connection, reading: Reading, known: Comparison) -> Iterator[Line]:
    """
    Raises:
        LocalError: the cluster was lost meanwhile.
    """
    total = len(reading.wanted)
    with Bar("declaring", MofNCompleteColumn()) as bar:
        for done, (one, remarks) in enumerate(reading.wanted):
            finding = known.finding(one)
            if finding.outcome == NEW:
                try:
                    finding = _declared(connection, one)
                except (ConnectionLost, Timeout) as lost:
                    text = f"{done:,} of {total:,} done: run it again, it goes on from there"
                    raise LocalError(f"{lost.text}; {text}") from None
            yield _line(one, finding, remarks)
            if finding.outcome in (NEW, UNCHANGED):
                known.note(one)
            bar.show(f"{what_of(one)}s", done + 1, total)


def _declared(connection: Connection, one: Declaration) -> Finding:
    """Raises ConnectionLost, Timeout."""
    try:
        match one:
            case DeclareExchange():
                new = connection.declare_exchange(one.name, one.type, one.durable, one.alternate, one.arguments)
            case PutPolicy():
                new = connection.add_policy(
                    one.name, one.pattern, priority=one.priority, operator=one.operator, alternate=one.alternate,
                    arguments=one.arguments,
                )  # fmt: skip
            case PutPattern():
                made: dict[str, Any] = {"durable": one.durable, "alternate": one.alternate, "arguments": one.arguments}
                kinds = {"exchange": made | {"type": one.type}} if one.makes == EXCHANGE else {"queue": made}
                new = connection.add_pattern(one.name, one.pattern, priority=one.priority, **kinds)
            case DeclareQueue():
                new = connection.declare_queue(one.name, one.durable, one.alternate, one.arguments)
            case Redirect():
                new = connection.redirect_queue(one.source, one.target)
            case _:
                bind = connection.bind_exchange if one.to_exchange else connection.bind
                new = bind(one.exchange, one.to_exchange or one.queue, one.key, one.arguments)
    except (ConnectionLost, Timeout):
        raise
    except Exists as refused:  # somebody else was faster
        return Finding(DIFFERS, refused.text)
    except NoStore as refused:
        return Finding(REFUSED, f"{refused.text}; or import with --transient")
    except MantaError as refused:
        return Finding(REFUSED, refused.text)
    return Finding(NEW if new else UNCHANGED)


def _line(one: Declaration, finding: Finding, remarks: tuple[str, ...]) -> Line:
    return Line(what_of(one), name_of(one), finding.outcome, finding.why, remarks)


def _report(lines: list[Line], passed_over: dict[str, int], dry_run: bool, as_json: bool) -> None:
    counts = Counter(line.outcome for line in lines)
    if as_json:
        told = {outcome: counts[outcome] for outcome in FIRST}
        objects = [line._asdict() for line in lines]
        print(json.dumps({"dry_run": dry_run, "counts": told, "objects": objects, "passed_over": passed_over}))
        return
    told = [line for line in lines if line.why or line.remarks or (dry_run and line.outcome == NEW)]
    told.sort(key=lambda line: FIRST.index(line.outcome))
    if told:
        rows = [line._asdict() | {"why": "\n".join(filter(None, (line.why, *line.remarks)))} for line in told]
        show(rows, COLUMNS, False, top=TOP)
    if passed_over:
        _say(f"also {LEFT_OUT}: {', '.join(f'{name} ({count:,})' for name, count in passed_over.items())}")
    if counts[DIFFERS]:
        _say("what differs stays as it is: delete it and import again, or change the file")
    _say(("nothing was declared, this is what would be: " if dry_run else "") + _summary(counts))


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in (NEW, UNCHANGED, DIFFERS, REFUSED, LEFT_OUT))


def _say(text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
