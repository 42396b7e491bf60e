"""`queue`, `exchange`, `bind`, `unbind`, `bindings`, `stat`: names and what hangs on them."""

from __future__ import annotations

import json
import re
import time
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from ...protocol.errors import LocalError
from ...protocol.wiring.exclusives import others
from ..errors import InUse, Invalid, NotEmpty
from ..features import features_of
from ..management import TYPED
from .console import Broker, Json, Token, connection, meant_by, out, say, seen, show, table_of
from .live import drawn_anew
from .queue_sheet import limit_of, sheet_of
from .sheets import Sheet
from .statistics import COLUMNS, Wanted, tell
from .status import stores, stores_table

LISTED = ["name", "kind", "features", "limit", "messages", "acquired", "bytes", "owner"]
QUEUE_COLUMNS = ["name", "messages", "acquired", "bytes", "owner", "handovers", "enqueued", "dequeued"]
Arguments = Annotated[list[str] | None, typer.Option("--argument", "-a", help="NAME=VALUE, VALUE as JSON or text")]


def register(app: typer.Typer) -> typer.Typer:
    """Returns `queue`, for what others have under it."""
    queue = typer.Typer(help="Queues.", no_args_is_help=True)
    queue.command("add")(queue_add)
    queue.command("delete")(queue_delete)
    queue.command("list")(queue_list)
    queue.command("reset")(queue_reset)
    queue.command("show")(queue_show)
    exchange = typer.Typer(help="Exchanges.", no_args_is_help=True)
    exchange.command("add")(exchange_add)
    exchange.command("delete")(exchange_delete)
    exchange.command("list")(exchange_list)
    app.add_typer(queue, name="queue")
    app.add_typer(exchange, name="exchange")
    app.command()(bind)
    app.command()(unbind)
    app.command()(bindings)
    app.command()(stat)
    return queue


def pairs(words: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE words as a dictionary; a value that is JSON is that."""
    found: dict[str, Any] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def queue_add(
    name: Annotated[str, typer.Argument(help="left out: the broker makes one")] = "",
    durable: Annotated[bool, typer.Option("--durable/--transient", help="survives stops and power cuts")] = False,
    alternate: Annotated[str, typer.Option(help="exchange for dead letters")] = "",
    max_count: Annotated[int | None, typer.Option(help="so many messages at most")] = None,
    max_size: Annotated[int | None, typer.Option(help="so many bytes at most, 64 more for each message")] = None,
    overflow: Annotated[
        str | None,
        typer.Option(help="then: reject (what comes), ring (the oldest goes), ring-strict, self-destruct, dead-letter"),
    ] = None,
    priorities: Annotated[int | None, typer.Option(help="levels of priority, 1 to 10; the highest goes first")] = None,
    last_value_key: Annotated[
        str | None, typer.Option(help="a header; of each of its values only the newest message waits")
    ] = None,
    group_key: Annotated[
        str | None, typer.Option(help="a header; messages with one value of it are of one consumer at a time")
    ] = None,
    fair_key: Annotated[str | None, typer.Option(help="a header whose values take turns")] = None,
    flow_stop_count: Annotated[
        int | None, typer.Option(help="with more messages producers are held back; 0: never; 80 % of a limit")
    ] = None,
    flow_resume_count: Annotated[int | None, typer.Option(help="with less they go on; 70 % of a limit")] = None,
    flow_stop_size: Annotated[int | None, typer.Option(help="the same by bytes")] = None,
    flow_resume_size: Annotated[int | None, typer.Option(help="the same by bytes")] = None,
    fairshare: Annotated[
        int | None, typer.Option(help="so many of a level of priority, then the next lower one has its turn")
    ] = None,
    sequence_key: Annotated[str | None, typer.Option(help="a header in which each message has its number")] = None,
    single_active: Annotated[
        bool, typer.Option("--single-active", help="one consumer at a time gets messages, the first that came")
    ] = False,
    dead_letters: Annotated[str | None, typer.Option(help="all (what expires, too), or rejected")] = None,
    delivery_limit: Annotated[
        int | None, typer.Option(help="what comes back more often goes to the alternate, or is discarded")
    ] = None,
    retry_delay_s: Annotated[list[float] | None, typer.Option(help="what came back waits; again: next time")] = None,
    retry_delay_min_s: Annotated[float | None, typer.Option(help="or so long for each time it came back")] = None,
    retry_delay_max_s: Annotated[float | None, typer.Option(help="and so long at most")] = None,
    dead_letter_key: Annotated[str | None, typer.Option(help="the key of dead letters; the queue's name")] = None,
    dedupe_window_s: Annotated[
        int | None, typer.Option("--dedupe-window-s", help="a message id that came within so many seconds is dropped")
    ] = None,
    dedupe_window_count: Annotated[
        int | None, typer.Option(help="or among so many ids before it; the last 100,000 unless given")
    ] = None,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="it goes with the last of its consumers")] = False,
    auto_delete_timeout_s: Annotated[
        int | None, typer.Option("--auto-delete-timeout-s", help="so many seconds after that; 40 unless given")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(help="manual, delete-on-close, delete-if-unused, or delete-if-unused-and-empty")
    ] = None,
    message_ttl_s: Annotated[float | None, typer.Option(help="each message expires so long after it came")] = None,
    expires_s: Annotated[float | None, typer.Option(help="it goes when nobody has used it for so long")] = None,
    consumer_timeout_s: Annotated[float | None, typer.Option(help="who holds a message longer is sent away")] = None,
    passive: Annotated[bool, typer.Option("--passive", help="only ask whether it is there; exit code 1: no")] = False,
    argument: Arguments = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Declare a queue; again with the same definition changes nothing."""
    typed = _given(locals())
    with connection(broker, token) as c:
        try:
            answer = c.declare_queue(name, durable, alternate, pairs(argument), passive, **typed)
        except Invalid as refused:
            raise Invalid(_as_typed(refused.text)) from None
    new, name = bool(answer), name or str(answer)
    say(f"queue {name} {'added' if new else 'is there already'}", {"queue": name, "new": new}, as_json)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given, of options that are keywords of `declare_queue` by their own names."""
    given = {keyword: value for keyword, value in options.items() if keyword in TYPED}
    return {keyword: value for keyword, value in given.items() if value not in (None, []) and value is not False}


def _as_typed(text: str) -> str:
    """A text with the options of the command line in place of the client's keywords."""
    return re.sub(rf"(?<![-.\w])({'|'.join(TYPED)})\b", lambda found: f"--{found[0].replace('_', '-')}", text)


def queue_delete(
    name: str,
    force: Annotated[bool, typer.Option("--force", help="with its messages, and under its consumers")] = False,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="with its messages, but under no consumers")] = False,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="under its consumers, but with no messages")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Delete a queue; one with messages or consumers only with --force, or by the one condition that is named."""
    if force and (if_unused or if_empty):
        raise typer.BadParameter("--force deletes it whatever is so: leave out --if-unused and --if-empty")
    with connection(broker, token) as c:
        if force or if_unused != if_empty:
            meant_by(c, broker, f"This would delete {name!r} of a cluster, with what is in it")
        try:
            both = not force and if_unused == if_empty
            letters = c.delete_queue(name, if_unused=both or if_unused, if_empty=both or if_empty)
        except (NotEmpty, InUse) as error:
            if others(name) in str(error):
                raise  # no force deletes it
            what = "messages" if isinstance(error, NotEmpty) else "consumers"
            raise LocalError(f"queue {name!r} has {what}: --force deletes it all the same") from None
    text = f"queue {name} deleted" + f"; {letters:,} messages go to its alternate exchange" * bool(letters)
    say(text, {"queue": name, "deleted": True, "dead_letters": letters}, as_json)


def queue_list(broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All queues: of which kind they are, what they take, how full they are, who owns them.

    Features: D durable, Excl exclusive, AD auto-delete, Exp expires, TTL of messages, DL delivery limit, SAC single
    active consumer, DLX an alternate exchange."""
    with connection(broker, token) as c:
        rows = c.queues()
    told = [row | {"limit": limit_of(row), "features": features_of(row)} for row in rows]
    show(rows if as_json else told, LISTED, as_json, "queues")
    _tell_silent(rows, as_json)


def queue_show(name: str, broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All about one queue: how it is declared, how full it is, where its replicas are."""
    with connection(broker, token) as c:
        found, members = c.queue(name), c.members
    if as_json:
        say("", found, True)
    else:
        out.print(sheet_of(found, members))


def queue_reset(
    name: str,
    even_durable: Annotated[
        bool, typer.Option("--even-durable", help="also a durable one, whose lost disks nobody can put back")
    ] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Give up a queue that can never go on, since most of its replicas died with what they held.

    Refused where it goes on, or would if somebody came back. Browse first what is left: it goes with the queue."""
    with connection(broker, token) as c:
        meant_by(c, broker, f"This would give up {name!r} of a cluster")
        c.reset_queue(name, even_durable)
    say(f"queue {name} given up: declare it again to begin anew", {"queue": name, "reset": True}, as_json)


def exchange_add(
    name: str, type: Annotated[str, typer.Option(help="direct, topic, fanout or headers")] = "direct",
    durable: bool = False, alternate: Annotated[str, typer.Option(help="exchange for the unroutable")] = "",
    internal: Annotated[bool, typer.Option("--internal", help="only other exchanges send to it")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="it goes with the last of its bindings")] = False,
    sequence: Annotated[bool, typer.Option("--sequence", help="number what goes through it")] = False,
    initial: Annotated[bool, typer.Option("--initial", help="give a new queue the last message")] = False,
    argument: Arguments = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Declare an exchange; again with the same definition changes nothing."""
    with connection(broker, token) as c:
        new = c.declare_exchange(
            name,
            type,
            durable,
            alternate,
            pairs(argument),
            internal=internal,
            auto_delete=auto_delete,
            sequence=sequence,
            initial=initial,
        )
    say(f"exchange {name} {'added' if new else 'is there already'}", {"exchange": name, "new": new}, as_json)


def exchange_delete(name: str, broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """Delete an exchange and its bindings."""
    with connection(broker, token) as c:
        c.delete_exchange(name)
    say(f"exchange {name} deleted", {"exchange": name, "deleted": True}, as_json)


def exchange_list(broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All exchanges."""
    with connection(broker, token) as c:
        show(c.exchanges(), ["name", "type", "alternate", "durable", "arguments"], as_json, "exchanges")


ToExchange = Annotated[bool, typer.Option("--to-exchange", help="QUEUE is the name of an exchange")]


def bind(
    exchange: str, queue: str, key: Annotated[str, typer.Argument()] = "", to_exchange: ToExchange = False,
    argument: Arguments = None, broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Bind a queue to an exchange; or, with --to-exchange, another exchange, which gets what the first one does."""
    with connection(broker, token) as c:
        new = (c.bind_exchange if to_exchange else c.bind)(exchange, queue, key, pairs(argument))
    say(f"{queue} {'bound' if new else 'is bound already'} to {exchange}", {"new": new}, as_json)


def unbind(
    exchange: str, queue: str, key: Annotated[str, typer.Argument()] = "", to_exchange: ToExchange = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Undo `bind`."""
    with connection(broker, token) as c:
        (c.unbind_exchange if to_exchange else c.unbind)(exchange, queue, key)
    say(f"{queue} unbound from {exchange}", {"unbound": True}, as_json)


def bindings(broker: Broker = "", token: Token = "", as_json: Json = False) -> None:
    """All bindings."""
    with connection(broker, token) as c:
        show(c.bindings(), ["exchange", "queue", "to_exchange", "key", "arguments"], as_json, "bindings")


def stat(
    queue: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="queues, exchanges, brokers, connections, links or groups; or one queue"
        ),
    ] = "",
    sort: Annotated[str, typer.Option(help="by this column: the largest numbers first; not for one queue")] = "",
    limit: Annotated[int, typer.Option(min=0, help="so many rows at most; 0: all; not for one queue")] = 0,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="again each second, with rates, until Ctrl-C")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="with --watch: seconds from look to look")] = 1.0,
    disks: Annotated[bool, typer.Option("--stores", help="the brokers' stores instead: sizes, ages, flushes")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Depths, rates and hand-overs; figures of the whole cluster; or the brokers' disks."""
    if disks:
        _stat_stores(watch, every, token, as_json)
        return
    if queue in COLUMNS or sort or limit:
        with connection(broker, token) as c:
            tell(c, queue or "queues", Wanted(sort, limit, every if watch else 0.0, as_json))
        return
    with connection(broker, token) as c:
        if not watch:
            rows = [c.queue(queue)] if queue else c.queues()
            show(rows, QUEUE_COLUMNS, as_json)
            _tell_silent(rows, as_json)
            return
        before: dict[str, dict[str, Any]] = {}
        looked_s = time.monotonic()
        with nullcontext() if as_json else drawn_anew() as draw:
            while True:
                rows = [c.queue(queue)] if queue else c.queues()
                if draw is None:
                    print(json.dumps(rows), flush=True)
                else:
                    draw(_rates(rows, before, time.monotonic() - looked_s))
                before, looked_s = {row["name"]: row for row in rows}, time.monotonic()
                time.sleep(every)


def _stat_stores(watch: bool, every: float, token: str, as_json: bool) -> None:
    """The stores of the cluster that runs here, once or each `every` seconds."""
    with drawn_anew() if watch and not as_json else nullcontext() as draw:
        while True:
            found = stores(seen("", "", token))
            if not found:
                raise LocalError("this cluster has no store: it was started with --memory")
            if as_json:
                print(json.dumps([one.plain() for one in found]), flush=True)
            elif draw is not None:
                draw(stores_table(found))
            else:
                out.print(stores_table(found))
            if not watch:
                return
            time.sleep(every)


def _tell_silent(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Which queues of the table have not said how they are, and why."""
    for row in rows:
        if not as_json and "error" in row:
            out.print(row["error"], highlight=False, markup=False, soft_wrap=True)


def _rates(rows: list[dict[str, Any]], before: dict[str, dict[str, Any]], seconds: float) -> Sheet:
    """What has passed since the look before, so many seconds ago, by the second."""
    numbers = ["messages", "in/s", "out/s", "hand-overs/s"]
    table = table_of("", ["queue", *numbers, "owner"], numbers)
    for row in rows:
        if "error" in row:
            table.add_row(row["name"], *("-" for _ in numbers), "it does not answer")
            continue
        old = before.get(row["name"], row)
        if "error" in old:
            old = row
        rates = (
            f"{(row[name] - old[name]) / max(seconds, 1e-3):,.0f}" for name in ("enqueued", "dequeued", "handovers")
        )
        table.add_row(row["name"], f"{row['messages']:,}", *rates, row["owner"] or "-")
    return table
