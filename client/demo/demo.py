"""The demo: a cluster of three brokers moves a year of flights, and every one is accounted for.

Two producers, on two brokers, publish each flight to a topic exchange as ORIGIN.DEST.CARRIER (and `.late` behind it
when it left more than an hour late). Three consumers, one per broker, each empty one airport's queue, and all three
share the queue of the late ones. At the end every (queue, flight) is compared with what the CSV itself says, and the
cluster's event table is analysed on Spark: it must tell the same. Then all of it goes once more, and in mid-stream
every process of the cluster is killed at once: it starts again with what its stores have, and each is accounted for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import queue as queues
import struct
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...protocol.errors import LocalError
from ..aio.aio import AsyncReceiver, AsyncSession, connect_async
from ..cli.workers import no_ctrl_c
from ..errors import Empty, MantaError, NotFound
from ..message import Message
from ..sync.sync import connect
from . import analysis, flights
from .accounts import LATE, ORIGINS, Account, Balance, expected, judge
from .home import RECONNECT_S, Home

EXCHANGE = "flights"
REPORT = Path("flights-report.html")
HEAD = struct.Struct("!dI")
"""Before each row: when it was published (seconds), and its number."""
CAPACITY = 500
STALL_S = 15.0
RESULTS_S = 60.0
MAX_LATENCY_US = 600_000_000


# ---- the processes


def _connect(addresses: list[str], token: str) -> connect_async:
    """A connection that waits until a cluster that has lost its power is there again."""
    return connect_async(addresses, token, reconnect_s=RECONNECT_S, send_timeout_s=RECONNECT_S)


def _produce(addresses: list[str], token: str, part: int, parts: int, limit: int, counter: Any, go: Any) -> None:
    rows = flights.load(limit)[part::parts]

    async def run() -> None:
        async with _connect(addresses, token) as connection:
            sender = await connection.session().sender(EXCHANGE, capacity=CAPACITY)
            counter.value = 0
            await asyncio.to_thread(go.wait)
            pack = HEAD.pack
            now = time.time
            for number, flight in enumerate(rows, 1):
                await sender.send(Message(pack(now(), flight.row) + flight.line, subject=flight.key))
                if not number % 256:
                    counter.value = number
            await sender.sync()
            counter.value = len(rows)

    asyncio.run(run())


def _consume(
    addresses: list[str], token: str, queues: list[str], counters: list[Any], stop: Any, results: Any
) -> None:  # fmt: skip
    accounts = {queue: Account() for queue in queues}

    async def run() -> None:
        async with _connect(addresses, token) as connection:
            session = connection.session()
            receivers = [await session.receiver(queue, capacity=CAPACITY) for queue in queues]
            for counter in counters:
                counter.value = 0
            await asyncio.gather(
                *(
                    _empty(session, receiver, accounts[queue], counter, stop)
                    for queue, receiver, counter in zip(queues, receivers, counters, strict=True)
                )
            )
            await session.sync(30)

    asyncio.run(run())
    results.put({queue: asdict(account) for queue, account in accounts.items()})


async def _empty(session: AsyncSession, receiver: AsyncReceiver, account: Account, counter: Any, stop: Any) -> None:
    """Fetch and accept until told to stop."""
    histogram = HdrHistogram(1, MAX_LATENCY_US, 3)
    unpack = HEAD.unpack_from
    now = time.time
    size = HEAD.size
    while True:
        try:
            message = await receiver.fetch(timeout=0.2)
        except Empty:
            counter.value = len(account.rows)
            if stop.is_set():
                break
            continue
        published, row = unpack(message.body)
        histogram.record_value(max(1, int((now() - published) * 1e6)))
        account.rows.append(row)
        account.checksums.append(zlib.crc32(message.body[size:]))
        if message.redelivered:
            account.again.append(row)
        await session.acknowledge(message)
        if not len(account.rows) % 256:
            counter.value = len(account.rows)
            await asyncio.sleep(0)  # the other queue's turn
    account.latencies = histogram.encode()


# ---- the run


@contextlib.contextmanager
def _bars(console: Console) -> Generator[Progress]:
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        yield progress


def _watch(
    console: Console, total: int, deliveries: int, published: list[Any], delivered: list[Any], workers: list[Any],
    power: Callable[[], None] | None = None, drained: Callable[[], bool] = lambda: True,
) -> float:  # fmt: skip
    """Show progress until everything is delivered, a worker dies or nothing moves any more. Returns the seconds.

    Args:
        power: called once, when half of them are delivered.
        drained: whether the queues are empty: after a loss of power some come twice, and counting is not enough.
    """
    started = moved = time.monotonic()
    last = -1
    with _bars(console) as progress:
        out = progress.add_task("published", total=total, rate="")
        back = progress.add_task("delivered", total=deliveries, rate="")
        while True:
            sent = sum(max(0, counter.value) for counter in published)
            got = sum(max(0, counter.value) for counter in delivered)
            seconds = max(time.monotonic() - started, 1e-3)
            progress.update(out, completed=sent, rate=f"{sent / seconds:,.0f}/s")
            progress.update(back, completed=got, rate=f"{got / seconds:,.0f}/s")
            if sent + got != last:
                last, moved = sent + got, time.monotonic()
            if power is not None and got >= deliveries // 2:
                power()
                power, moved = None, time.monotonic()
            if sent >= total and got >= deliveries and drained():
                return seconds
            if time.monotonic() - moved > STALL_S or any(worker.exitcode for worker in workers):
                console.print("[red]the flights have stopped moving[/red]")
                return seconds
            time.sleep(0.1)


@contextlib.contextmanager
def _no_longer_than_this(workers: list[Any]) -> Generator[None]:
    """Whoever interrupts the demo ends its processes, before the cluster ends: they would complain of that."""
    try:
        yield
    except BaseException:
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()
        raise


def _results(results: Any, consumers: list[Any]) -> Iterator[dict[str, dict[str, Any]]]:
    """The accounts of the consumers. One that failed gives none, and its messages count as lost."""
    waiting = len(consumers)
    until = time.monotonic() + RESULTS_S
    while waiting and time.monotonic() < until:
        ended = sum(1 for consumer in consumers if consumer.exitcode)
        try:
            yield results.get(timeout=0.5)
        except queues.Empty:
            if waiting <= ended:
                return
        else:
            waiting -= 1


def _table(
    belongs: dict[str, dict[int, int]], accounts: dict[str, list[Account]], reports: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for queue in belongs:
        histogram = HdrHistogram(1, MAX_LATENCY_US, 3)
        for account in accounts.get(queue, []):
            if account.latencies:
                histogram.decode_and_add(account.latencies)
        rows.append(
            {
                "queue": queue,
                "published": reports[queue]["enqueued"],
                "delivered": sum(len(account.rows) for account in accounts.get(queue, [])),
                "accepted": reports[queue]["accepted"],
                "handovers": reports[queue]["handovers"],
                "p50_ms": round(histogram.get_value_at_percentile(50) / 1000, 1),
                "p99_ms": round(histogram.get_value_at_percentile(99) / 1000, 1),
            }
        )
    return rows


def _print(console: Console, rows: list[dict[str, Any]], count: int, seconds: float) -> None:
    table = Table(title=f"{count:,} flights in {seconds:.1f} s ({count / seconds:,.0f}/s)")
    table.add_column("queue")
    for name in ("published", "delivered", "accepted", "hand-overs", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["queue"], f"{row['published']:,}", f"{row['delivered']:,}", f"{row['accepted']:,}",
            f"{row['handovers']:,}", f"{row['p50_ms']:,.1f}", f"{row['p99_ms']:,.1f}",
        )  # fmt: skip
    table.caption = f"Flat out: latency is time in the queue, within {CAPACITY} messages sent and not complete."
    console.print(table)


def run(limit: int = 0, as_json: bool = False, report: Path | None = REPORT, keep: bool = False) -> int:
    """Run the demo; returns the exit code: 0 only if every flight arrived exactly once where it belongs.

    Args:
        limit: at most this many flights; 0 for all.
        report: where the page about the events goes; None: no events, no Spark.
        keep: the cluster stays, with its page, until it is interrupted.
    """
    console = Console(stderr=as_json)
    with console.status("reading the flights"):
        rows = flights.load(limit)
        belongs = expected(rows)
    without = analysis.missing() if report else ""
    events = report is not None and not without
    told: analysis.Findings | None = None
    with console.status("starting a cluster of three brokers") as status, Home(events, status.update) as home:
        home.start()
        status.stop()
        _say_page(console, home)
        table, seconds, verdict = _run(console, home, rows, belongs, limit)
        if not as_json:
            _print(console, table, len(rows), seconds)
        if report and events:
            told = _analyse(console, table, report)
        if without:
            console.print(f"No analysis of the events: {without}", markup=False, highlight=False)
        found = {"queues": table, "seconds": round(seconds, 3), "events": told and asdict(told)}
        if verdict.good:
            console.print(verdict.line(), highlight=False)
            table, seconds, verdict = _run(console, home, rows, belongs, limit, power=True)
            if not as_json:
                _print(console, table, len(rows), seconds)
            found["power"] = {"queues": table, "seconds": round(seconds, 3), "again": verdict.again}
            console.print(f"{verdict.again:,} came again, and said so.", highlight=False)
        if keep:
            _keep(console, home)
    if as_json:
        print(json.dumps({**found, **{name: value for name, value in asdict(verdict).items() if name != "again"}}))
    else:
        print(verdict.line())
    return 0 if verdict.good else 1


def _say_page(console: Console, home: Home) -> None:
    if page := home.page():
        console.print(f"The cluster's page: {page} (`make demo KEEP=1` keeps it up)", highlight=False)


def _keep(console: Console, home: Home) -> None:
    """Until somebody has seen enough."""
    page = home.page()
    at = f", with its page at {page}" if page else ""  # at the end of the line: an address is copied with what follows
    console.print(f"The cluster stays up until Ctrl-C{at}", highlight=False, soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)
    console.print("\nstopping the cluster")  # a terminal has written ^C


def _declare(home: Home, belongs: dict[str, dict[int, int]]) -> None:
    """The exchange and its queues, empty. What is complete in them survives a loss of power."""
    with connect(home.addresses, home.token) as connection:
        for queue in belongs:
            with contextlib.suppress(NotFound):
                connection.delete_queue(queue)
        connection.declare_exchange(EXCHANGE, "topic", durable=True)
        for queue in belongs:
            connection.declare_queue(queue, durable=True)
            connection.bind(EXCHANGE, queue, "#.late" if queue == LATE else f"{queue}.#")


def _reports(home: Home) -> dict[str, dict[str, Any]]:
    with connect(home.addresses, home.token) as connection:
        return {report["name"]: report for report in connection.queues()}


def _lose_power(console: Console, home: Home) -> None:
    began = time.monotonic()
    console.print("[yellow]SIGKILL to every process of the cluster[/yellow]")
    home.lose_power()
    console.print(f"started again after {time.monotonic() - began:.1f} s, with what its stores have")


def _run(
    console: Console, home: Home, rows: list[flights.Flight], belongs: dict[str, dict[int, int]], limit: int,
    power: bool = False,
) -> tuple[list[dict[str, Any]], float, Balance]:  # fmt: skip
    """Move the flights; returns the table of the queues, the seconds it took, and the verdict. `power`: the cluster
    loses it on the way."""
    _declare(home, belongs)
    spawn = multiprocessing.get_context("spawn")
    go, stop, results = spawn.Event(), spawn.Event(), spawn.Queue()
    published = [spawn.Value("q", -1) for _ in range(2)]
    delivered = [[spawn.Value("q", -1) for _ in range(2)] for _ in ORIGINS]
    turned = [
        home.addresses[i:] + home.addresses[:i] for i in range(len(ORIGINS))
    ]  # each client has a broker it prefers
    producers = [
        spawn.Process(target=_produce, args=(turned[i], home.token, i, 2, limit, published[i], go), daemon=True)
        for i in range(2)
    ]
    consumers = [
        spawn.Process(
            target=_consume, args=(turned[i], home.token, [origin, LATE], delivered[i], stop, results), daemon=True
        )
        for i, origin in enumerate(ORIGINS)
    ]
    workers = producers + consumers
    with _no_longer_than_this(workers):
        with console.status("starting two producers and three consumers"):
            with no_ctrl_c():  # it goes to every process of a terminal: this one hears it, and ends the others
                for worker in workers:
                    worker.start()
            counters = [*published, *(counter for pair in delivered for counter in pair)]
            while any(counter.value < 0 for counter in counters):
                if any(worker.exitcode for worker in workers):
                    raise RuntimeError("a producer or consumer could not start: see its error above")
                time.sleep(0.02)
        go.set()
        deliveries = sum(map(len, belongs.values()))
        flat = [counter for pair in delivered for counter in pair]
        cut = (lambda: _lose_power(console, home)) if power else None
        seconds = _watch(
            console, len(rows), deliveries, published, flat, workers, cut,
            lambda: not power or not any(report["messages"] for report in _reports(home).values()),
        )  # fmt: skip
        stop.set()
        accounts: dict[str, list[Account]] = {}
        for result in _results(results, consumers):
            for queue, account in result.items():
                accounts.setdefault(queue, []).append(Account(**account))
        for worker in workers:
            worker.join(10)
    reports = _reports(home)
    verdict = judge(len(rows), belongs, accounts)
    # A message still in a queue would be delivered to the next consumer: a duplicate or a loss in waiting.
    left = sum(report["messages"] for report in reports.values())
    if left and verdict.good:
        verdict.duplicated += left
    return _table(belongs, accounts, reports), seconds, verdict


def _analyse(console: Console, table: list[dict[str, Any]], report: Path) -> analysis.Findings | None:
    """Ask the events what has happened, and compare."""
    try:
        with console.status("starting Spark on Ray") as status:
            told = analysis.ask(report, status.update)
    except Exception as error:  # whatever is wrong with Spark here, the flights have been counted
        line = str(error).strip().partition("\n")[0] or type(error).__name__
        console.print(f"No analysis of the events: {line}", markup=False, highlight=False)
        return None
    for line in analysis.headline(told, table):
        console.print(line, highlight=False)
    return told


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main() -> None:
    parser = argparse.ArgumentParser(prog="mantamq-demo", description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--limit", type=_positive, default=0, help="at most this many flights")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    parser.add_argument("--report", type=Path, default=REPORT, help="the page about the events, %(default)s")
    parser.add_argument("--no-events", action="store_true", help="keep no events, and do without Spark")
    parser.add_argument("--keep", action="store_true", help="keep the cluster and its page up at the end")
    arguments = parser.parse_args()
    keep = arguments.keep or os.environ.get("KEEP", "") not in ("", "0")
    try:
        code = run(arguments.limit, arguments.json, None if arguments.no_events else arguments.report, keep)
    except (RuntimeError, MantaError, LocalError, OSError) as error:
        print(f"mantamq demo: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("mantamq demo: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
