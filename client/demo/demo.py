"""The demo: a cluster of three brokers moves a year of flights, and every one is accounted for.

Two producers, on two brokers, publish each flight to a topic exchange as ORIGIN.DEST.CARRIER (and `.late` behind it
when it left more than an hour late). Three consumers, one per broker, each empty one airport's queue, and all three
share the queue of the late ones. At the end every (queue, flight) is compared with what the CSV itself says, and the
cluster's event table is analysed on Spark: it must tell the same.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import queue as queues
import struct
import sys
import tempfile
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...protocol.errors import LocalError
from ..aio.aio import AsyncReceiver, AsyncSession, connect_async
from ..cli.workers import no_ctrl_c
from ..errors import Empty, MantaError
from ..message import Message
from ..sync.sync import connect
from . import analysis, flights

EXCHANGE = "flights"
REPORT = Path("flights-report.html")
LATE = "late"
ORIGINS = ("EWR", "JFK", "LGA")
HEAD = struct.Struct("!dI")
"""Before each row: when it was published (seconds), and its number."""
CAPACITY = 500
STALL_S = 15.0
RESULTS_S = 60.0
MAX_LATENCY_US = 600_000_000


@dataclass
class Account:
    """The messages that one queue got.

    Attributes:
        rows, checksums: of every message accepted, in order.
        latencies: microseconds -> count, encoded by HdrHistogram.
    """

    rows: array[int] = field(default_factory=lambda: array("I"))
    checksums: array[int] = field(default_factory=lambda: array("I"))
    latencies: bytes = b""


@dataclass
class Balance:
    """The accounts against the CSV."""

    flights: int
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    mismatched: int = 0

    @property
    def good(self) -> bool:
        return not (self.lost or self.duplicated or self.mismatched)

    def line(self) -> str:
        return (
            f"flights={self.flights} delivered={self.delivered} lost={self.lost} duplicated={self.duplicated} "
            f"mismatched={self.mismatched}"
        )


def expected(rows: list[flights.Flight]) -> dict[str, dict[int, int]]:
    """Queue -> row -> checksum, from the CSV alone."""
    belongs: dict[str, dict[int, int]] = {queue: {} for queue in (*ORIGINS, LATE)}
    for flight in rows:
        checksum = zlib.crc32(flight.line)
        belongs[flight.key[:3]][flight.row] = checksum
        if flight.key.endswith(".late"):
            belongs[LATE][flight.row] = checksum
    return belongs


def judge(count: int, belongs: dict[str, dict[int, int]], accounts: dict[str, list[Account]]) -> Balance:
    """Compare what each queue's consumers got with what belongs to it."""
    verdict = Balance(count)
    for queue, wanted in belongs.items():
        seen: Counter[int] = Counter()
        for account in accounts.get(queue, []):
            verdict.delivered += len(account.rows)
            seen.update(account.rows)
            verdict.mismatched += sum(
                wanted.get(row) != checksum for row, checksum in zip(account.rows, account.checksums, strict=True)
            )
        verdict.lost += sum(row not in seen for row in wanted)
        verdict.duplicated += sum(times - 1 for times in seen.values())
    return verdict


# ---- the processes


def _produce(address: str, token: str, part: int, parts: int, limit: int, counter: Any, go: Any) -> None:
    rows = flights.load(limit)[part::parts]

    async def run() -> None:
        async with connect_async(address, token) as connection:
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


def _consume(address: str, token: str, queues: list[str], counters: list[Any], stop: Any, results: Any) -> None:
    accounts = {queue: Account() for queue in queues}

    async def run() -> None:
        async with connect_async(address, token) as connection:
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
    console: Console, total: int, deliveries: int, published: list[Any], delivered: list[Any], workers: list[Any]
) -> float:
    """Show progress until everything is delivered, a worker dies or nothing moves any more. Returns the seconds."""
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
            if sent >= total and got >= deliveries:
                return seconds
            if time.monotonic() - moved > STALL_S or any(worker.exitcode for worker in workers):
                console.print("[red]the flights have stopped moving[/red]")
                return seconds
            time.sleep(0.1)


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


def run(limit: int = 0, as_json: bool = False, report: Path | None = REPORT) -> int:
    """Run the demo; returns the exit code: 0 only if every flight arrived exactly once where it belongs.

    Args:
        limit: at most this many flights; 0 for all.
        report: where the page about the events goes; None: no events, no Spark.
    """
    console = Console(stderr=as_json)
    with console.status("reading the flights"):
        rows = flights.load(limit)
        belongs = expected(rows)
    from ...actors.cluster import start_cluster

    without = analysis.missing() if report else ""
    with tempfile.TemporaryDirectory(prefix="mantamq-demo-") as directory:
        events = directory if report and not without else None
        with console.status("starting a cluster of three brokers") as status:
            cluster = start_cluster(
                brokers=3, address="local", events=events, progress=lambda text: status.update(text)
            )
        try:
            table, seconds, verdict = _run(console, cluster, rows, belongs, limit)
            if not as_json:
                _print(console, table, len(rows), seconds)
            told = _analyse(console, table, report) if report and events else None
            if without:
                console.print(f"No analysis of the events: {without}", markup=False, highlight=False)
        finally:
            cluster.stop()
    if as_json:
        found = {"queues": table, "seconds": round(seconds, 3), "events": told and asdict(told), **asdict(verdict)}
        print(json.dumps(found))
    else:
        print(verdict.line())
    return 0 if verdict.good else 1


def _run(
    console: Console, cluster: Any, rows: list[flights.Flight], belongs: dict[str, dict[int, int]], limit: int
) -> tuple[list[dict[str, Any]], float, Balance]:
    """Move the flights; returns the table of the queues, the seconds it took, and the verdict."""
    addresses = list(cluster.addresses.values())
    with connect(addresses[0], cluster.token) as connection:
        connection.declare_exchange(EXCHANGE, "topic")
        for queue in belongs:
            connection.declare_queue(queue)
            connection.bind(EXCHANGE, queue, "#.late" if queue == LATE else f"{queue}.#")
    spawn = multiprocessing.get_context("spawn")
    go, stop, results = spawn.Event(), spawn.Event(), spawn.Queue()
    published = [spawn.Value("q", -1) for _ in range(2)]
    delivered = [[spawn.Value("q", -1) for _ in range(2)] for _ in ORIGINS]
    producers = [
        spawn.Process(target=_produce, args=(addresses[i], cluster.token, i, 2, limit, published[i], go), daemon=True)
        for i in range(2)
    ]
    consumers = [
        spawn.Process(
            target=_consume,
            args=(addresses[i], cluster.token, [origin, LATE], delivered[i], stop, results),
            daemon=True,
        )
        for i, origin in enumerate(ORIGINS)
    ]
    workers = producers + consumers
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
    seconds = _watch(console, len(rows), deliveries, published, flat, workers)
    stop.set()
    accounts: dict[str, list[Account]] = {}
    for result in _results(results, consumers):
        for queue, account in result.items():
            accounts.setdefault(queue, []).append(Account(**account))
    for worker in workers:
        worker.join(10)
    with connect(addresses[2], cluster.token) as connection:
        reports = {report["name"]: report for report in connection.queues()}
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
    arguments = parser.parse_args()
    try:
        code = run(arguments.limit, arguments.json, None if arguments.no_events else arguments.report)
    except (RuntimeError, MantaError, LocalError, OSError) as error:
        print(f"mantamq demo: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("mantamq demo: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
