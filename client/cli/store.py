"""`store`: what is on the disk, with or without a cluster: list, dump, verify, and recover what one broker has left."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import DownloadColumn
from rich.text import Text

from ...protocol.errors import STORE_FORMAT, LocalError, StoreError
from .bar import Bar
from .console import Json, agree, err, out, say, table_of
from .sheets import byte_count, span
from .status import BAD, GOOD, SOON

NAMED = 3
"""Queues that one line names; the rest are counted."""
SHOWN_BYTES = 200
"""Of a body, on a terminal."""
Data = Annotated[
    str, typer.Argument(help="the directory that `mantamq up --data` names, or one store in it (DIR/b2)", metavar="DIR")
]


def register(app: typer.Typer) -> None:
    store = typer.Typer(help="What the brokers of this machine have on disk.", no_args_is_help=True)
    store.command("list")(store_list)
    store.command("dump")(store_dump)
    store.command("verify")(store_verify)
    store.command("recover")(store_recover)
    app.add_typer(store, name="store")


def data_folder(given: str) -> str:
    """The directory of the stores, as an absolute path; by default that of `mantamq up`."""
    home = Path(os.environ.get("MANTAMQ_HOME") or Path.home() / ".mantamq")
    return os.path.abspath(os.path.expanduser(given)) if given else str(home / "data")


def _files() -> Any:
    """The file system (`store.files.Files`)."""
    from ...store.shadow_files import system_files

    return system_files()


def _warn(text: str) -> None:
    err.print(text, style=SOON, highlight=False, markup=False, soft_wrap=True)


# ---- list


def store_list(data: Data = "", as_json: Json = False) -> None:
    """The stores in a directory: whose they are, how they were left, how large, and how old what they hold is."""
    from ...store.offline.inventory import folders_in, summary

    files, where = _files(), data_folder(data)
    found = [summary(files, folder) for folder in folders_in(files, where)]
    if as_json:
        print(json.dumps([_plain(one) for one in found]))
        return
    columns = ["store", "state", "cluster", "life", "on disk", "log's age"]
    table = table_of("", columns, ("life", "on disk", "log's age"))
    for one in found:
        word, color = _state(one)
        ages = [log.oldest_us for log in one.logs if log.oldest_us]
        age = span(time.time() - min(ages) / 1e6) if ages else "-"
        disk = byte_count(one.disk_bytes) if one.disk_bytes else "-"
        table.add_row(one.broker, Text(word, color), one.cluster or "-", f"{one.life}" if one.life else "-", disk, age)
    out.print(Text(f"stores in {where}", "bold"), soft_wrap=True)
    out.print(table)
    for one in found:
        for line in _remarks(one):
            out.print(Text(line), soft_wrap=True)


def _plain(one: Any) -> dict[str, Any]:
    return {**one._asdict(), "logs": [log._asdict() for log in one.logs]}


def _state(one: Any) -> tuple[str, str]:
    if one.code:
        return "refused", BAD
    if one.holder:
        return "in use", GOOD
    return one.state, SOON if one.state == "dirty" else GOOD


def _remarks(one: Any) -> Iterable[str]:
    if one.text:
        yield f"{one.broker}: {one.text}"
    if one.holder:
        yield f"{one.broker}: in use by {one.holder}"
    elif one.state == "dirty":
        yield f"{one.broker}: not closed, so its process has died; that is as safe, and the next start recovers it"
    for log in one.logs:
        if log.text:
            yield f"{one.broker}: log {log.log}: {log.text}"


# ---- dump


def store_dump(
    data: Data = "",
    log: Annotated[str, typer.Option(help="tx or messages; by default both")] = "",
    stream: Annotated[str, typer.Option(help='records of this stream only: a queue\'s id, or "cluster"')] = "",
    from_lsn: Annotated[int, typer.Option(min=0, help="no record below this LSN")] = 0,
    bodies: Annotated[bool, typer.Option("--bodies", help="the messages, too")] = False,
    as_json: Json = False,
) -> None:
    """Every record of a store's logs, in their order. Writes nothing, and needs no broker to be stopped."""
    from ...store.identity import LOCK, read_identity
    from ...store.log.dump import dump_records, messages_in
    from ...store.log.survey import Survey
    from ...store.offline.inventory import LOGS, folders_in

    if log and log not in LOGS:
        raise typer.BadParameter(f"a store has the logs {' and '.join(LOGS)}, not {log!r}")
    files, where = _files(), data_folder(data)
    folder, *others = folders_in(files, where)
    if others:
        raise LocalError(f"there are several stores in {where}: name one of them, as {folder}")
    try:
        read_identity(files, folder)
    except StoreError as error:
        if error.code == STORE_FORMAT:
            raise
        _warn(error.text)  # the logs say of themselves what they are
    if holder := files.holder(f"{folder}/{LOCK}"):
        _warn(f"in use by {holder}: what it writes, or frees, while this reads may be missing")
    for name in (log,) if log else LOGS:
        if not files.exists(f"{folder}/{name}"):
            continue
        survey = Survey(files, f"{folder}/{name}")
        survey.close()
        for row, record in dump_records(files, f"{folder}/{name}", stream, from_lsn):
            messages = list(messages_in(record, survey.size_bytes)) if bodies and record is not None else []
            _print_row(name, row, messages, as_json)


def _print_row(log: str, row: Any, messages: list[Any], as_json: bool) -> None:
    if as_json:
        plain = {"log": log, **row._asdict()}
        if messages:
            plain["messages"] = [{**one._asdict(), "body": one.body.decode("latin-1")} for one in messages]
        print(json.dumps(plain, default=str))
        return
    at = datetime.fromtimestamp(row.time_us / 1e6).strftime("%m-%d %H:%M:%S.%f")[:-3] if row.time_us else "-"
    detail = f" ({row.detail})" if row.detail else ""
    print(f"{log[:2]} {row.lsn:>14} {at:>18} {row.size_bytes:>9} {row.stream or '(store)'}  {row.kind}{detail}")
    for one in messages:
        head = f"{one.position} " if one.position else ""
        body = repr(one.body[:SHOWN_BYTES])[1:] + (f" and {len(one.body) - SHOWN_BYTES:,} bytes more" if
                                                   len(one.body) > SHOWN_BYTES else "")  # fmt: skip
        print(f"     {head}id {one.id or '-'}: {body}{' ' + json.dumps(one.header, default=str) if one.header else ''}")


# ---- verify


def store_verify(
    data: Data = "",
    connect: Annotated[str, typer.Option(help="where the catalogue is, as in `mantamq up`; by default SQLite")] = "",
    catalog: Annotated[str, typer.Option(help="the catalogue's name there, as in `mantamq up`")] = "",
    as_json: Json = False,
) -> None:
    """Read every record of every store, and its catalogue: is all as it was written? Exit code 1 if not."""
    from ...store.identity import LOCK
    from ...store.offline.inventory import folders_in
    from ...store.offline.verify import Verified, verify

    whole, answers, files = True, list[dict[str, Any]](), _files()
    for folder in folders_in(files, data_folder(data)):
        store = os.path.basename(folder)
        if holder := files.holder(f"{folder}/{LOCK}"):
            _warn(f"{store} is in use by {holder}: it is read as it is now")
        with Bar(store, DownloadColumn(True)) as bar:
            for one in verify(files, folder, connect, catalog):
                if not isinstance(one, Verified):
                    bar.show(one.log, one.done_bytes, one.total_bytes)
                    continue
                whole = whole and not one.wrong
                answers.append({"store": store, **one._asdict()})
                if not as_json:
                    bar.hide()
                    _print_verified(store, one)
    if as_json:
        say("", {"whole": whole, "parts": answers}, True)
    if not whole:
        raise typer.Exit(1)


def _print_verified(store: str, one: Any) -> None:
    if one.wrong:
        out.print(Text(f"{store} {one.part}: not as it was written", BAD))
        for line in one.wrong:
            out.print(Text(f"  {line}"), soft_wrap=True)
        text = "the broker comes back without what is hurt, and is brought up to date by the others; see to the disk"
        out.print(Text(f"  {text}, and do not put back a copy"), soft_wrap=True)
        return
    what = one.note or f"{one.records:,} records of {one.streams:,} streams"
    torn = ", and a torn end that nobody was told of (any crash leaves one)" if one.torn else ""
    out.print(Text(f"{store} {one.part}: {what}{torn}", GOOD), soft_wrap=True)


# ---- recover


def store_recover(
    source: Annotated[str, typer.Option("--from", help="the broker whose store is kept, as b2")],
    data: Data = "",
    yes: Annotated[bool, typer.Option("--yes", help="ask nothing")] = False,
    as_json: Json = False,
) -> None:
    """When the disks of a majority are lost: make a new cluster of one of what one broker has left.

    The other stores of this directory are moved aside. Messages and declarations that were complete may be missing:
    those that this broker had not heard of. Run again after a crash, it finishes.
    """
    from ...store.offline.recover import StoreRecovery

    where = data_folder(data)
    with closing(StoreRecovery(_files(), where, source, secrets.token_hex(6))) as recovery:
        found = recovery.survivor
        if not (as_json and yes):
            for line in _what_is_kept(recovery, where):
                err.print(line, highlight=False, markup=False, soft_wrap=True)
        agree(f"{source} becomes a cluster of its own, and what it lacks is gone for good", yes)
        if not yes:
            err.print(f"Type {source} to do it: ", end="", highlight=False, markup=False)
            if sys.stdin.readline().strip() != source:
                raise LocalError("nothing was changed")
        recovery.run()
        aside = [recovery.aside(broker) for broker in recovery.others]
    value = {**found._asdict(), "was": found.cluster, "cluster": recovery.cluster, "aside": aside}
    del value["records"]
    text = f"{source} is the cluster {recovery.cluster} now: `mantamq up --data {where}`, then `mantamq broker add`"
    say(text, value, as_json)


def _what_is_kept(recovery: Any, where: str) -> Iterator[str]:
    """What the operator is told before anything is done."""
    one = recovery.survivor
    yield (
        f"{'To be finished: what' if recovery.begun else 'What'} {one.broker} has in {where}: of the cluster "
        f"{'that was' if recovery.begun else one.cluster} with {', '.join(one.voters)}, the wiring up to entry "
        f"{one.known_to:,} and {len(one.durable):,} durable queues"
    )
    yield "Completed messages, accepts and declarations may be missing: those that it had not heard of."
    for names, text in (
        (one.transient, "transient queues go, as at any stop of all"),
        (one.partial, "queues that it was being brought up to date in: they have what had come"),
        (one.hurt, "queues that are damaged: they stop, until `mantamq queue reset --even-durable`"),
        (one.unknown, "queues that it has records of and no declaration: they are dropped"),
    ):
        if names:
            yield f"{len(names):,} {text}: {', '.join(names[:NAMED])}{', ...' if len(names) > NAMED else ''}"
    if recovery.others:
        yield f"Moved aside, into {os.path.dirname(recovery.aside(one.broker))}: {', '.join(recovery.others)}"
    absent = [broker for broker in one.voters if broker not in (*recovery.others, one.broker)]
    if absent:
        yield f"Not here: {', '.join(absent)}. Move their directories away where they are, or they are refused"
