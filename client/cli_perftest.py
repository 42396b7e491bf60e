"""`perftest`: how fast is this cluster, from here? qpid-perftest's flags that apply, PerfTest's line each second."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import struct
import time
import uuid
from typing import Annotated, Any

import typer
from hdrh.histogram import HdrHistogram

from .aio import connect_async
from .console import Broker, Json, Token, addresses, connection, out, show
from .errors import Empty, MantaError
from .message import Message

STAMP = struct.Struct("!d")
MAX_US = 600_000_000
PERCENTILES = (50, 75, 95, 99)


def register(app: typer.Typer) -> None:
    app.command()(perftest)


def perftest(
    count: Annotated[int, typer.Option(min=1, help="messages per publisher")] = 50_000,
    size: Annotated[int, typer.Option(min=8, help="bytes of a body")] = 1024,
    npubs: Annotated[int, typer.Option(min=1, help="publishers per queue")] = 1,
    nsubs: Annotated[int, typer.Option(min=1, help="subscribers per queue")] = 1,
    qt: Annotated[int, typer.Option(min=1, help="queues (topics)")] = 1,
    mode: Annotated[str, typer.Option(help="shared: one queue for all; fanout, topic: one each")] = "shared",
    rate: Annotated[int, typer.Option(min=0, help="messages a second of each publisher; 0: flat out")] = 0,
    capacity: Annotated[int, typer.Option(min=1, help="most unconfirmed, and most unaccepted")] = 1000,
    iterations: Annotated[int, typer.Option(min=1, help="runs")] = 1,
    summary: Annotated[bool, typer.Option("--summary", "-s", help="only the figures at the end")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Publishers and subscribers, each a process, on the brokers by turns; every message confirmed and accepted."""
    if mode not in ("shared", "fanout", "topic"):
        raise typer.BadParameter(f"--mode is shared, fanout or topic, not {mode!r}")
    rows = [
        _once(i, count, size, npubs, nsubs, qt, mode, rate, capacity, summary or as_json, broker, token)
        for i in range(iterations)
    ]
    if as_json:
        print(json.dumps(rows))
        return
    show(
        rows,
        ["run", "sent", "received", "send_rate", "receive_rate", "seconds"],
        False,
        "messages/s",
    )
    show(rows, ["run", *(f"p{p}_us" for p in PERCENTILES), "max_us"], False, "latency, publish to fetch, microseconds")


def _once(
    number: int, count: int, size: int, npubs: int, nsubs: int, qt: int, mode: str, rate: int, capacity: int,
    quiet: bool, broker: str, token: str,
) -> dict[str, Any]:  # fmt: skip
    id = uuid.uuid4().hex[:8]
    queues: list[str] = []
    with connection(broker, token) as c:
        members = list(c.members.values()) or list(addresses(broker) or [])
        subscribers: list[str] = []
        publishers: list[str] = []
        for topic in range(qt):
            exchange = {"fanout": f"perftest-{id}-{topic}", "topic": "amq.topic", "shared": ""}[mode]
            if mode == "fanout":
                c.declare_exchange(exchange, "fanout")
            own = [f"perftest-{id}-{topic}-{i}" for i in range(1 if mode == "shared" else nsubs)]
            for queue in own:
                c.declare_queue(queue)
                if exchange:
                    c.bind(exchange, queue, f"{id}.{topic}")
            queues += own
            subscribers += own * nsubs if mode == "shared" else own
            publishers += [f"{exchange}/{id}.{topic}" if exchange else f"/{own[0]}"] * npubs
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(publishers) + len(subscribers) + 1)
    done, results = spawn.Event(), spawn.Queue()
    workers: list[Any] = []
    for i, address in enumerate(publishers):
        where = members[i % len(members)]
        arguments = (where, token, address, count, size, rate, capacity, barrier, results)
        workers.append(spawn.Process(target=_publish, args=arguments, daemon=True))
    for i, queue in enumerate(subscribers):
        where = members[(i + 1) % len(members)]
        workers.append(
            spawn.Process(target=_subscribe, args=(where, token, queue, capacity, barrier, done, results), daemon=True)
        )
    for worker in workers:
        worker.start()
    try:
        barrier.wait(60)
        return {"run": number + 1} | _watch(
            id,
            results,
            len(publishers),
            len(subscribers),
            count * npubs * qt * (nsubs if mode != "shared" else 1),
            done,
            quiet,
        )
    finally:
        done.set()
        for worker in workers:
            worker.join(5)
            worker.kill()
        with connection(broker, token) as c:
            for queue in queues:
                c.delete_queue(queue)
            if mode == "fanout":
                for topic in range(qt):
                    c.delete_exchange(f"perftest-{id}-{topic}")


def _watch(
    id: str, results: Any, publishers: int, subscribers: int, expected: int, done: Any, quiet: bool
) -> dict[str, Any]:
    """Gather reports, print a line each second, until everything expected has been received."""
    started = time.monotonic()
    next_line = started + 1
    total = HdrHistogram(1, MAX_US, 3)
    second = HdrHistogram(1, MAX_US, 3)
    sent = received = sent_before = received_before = 0
    sent_at = received_at = started
    finished = 0
    while finished < subscribers:
        try:
            kind, amount, encoded = results.get(timeout=max(0.01, next_line - time.monotonic()))
        except Exception:
            kind, amount, encoded = "", 0, b""
        now = time.monotonic()
        if kind == "error":
            raise MantaError(encoded.decode())
        if kind == "sent":
            sent += amount
            sent_at = now
        elif kind == "received":
            received += amount
            received_at = now if amount else received_at
            second.decode_and_add(encoded)
            total.decode_and_add(encoded)
        elif kind == "finished":
            finished += 1
        if received >= expected:
            done.set()
        if now >= next_line:
            if not quiet:
                values = "/".join(f"{second.get_value_at_percentile(p):,}" for p in (0, *PERCENTILES))
                out.print(
                    f"id: {id}, time: {now - started:.3f}s, sent: {sent - sent_before:,} msg/s, received: "
                    f"{received - received_before:,} msg/s, min/median/75th/95th/99th latency: {values} us",
                    highlight=False,
                    soft_wrap=True,
                )
            sent_before, received_before = sent, received
            second.reset()
            next_line += 1
    return {
        "sent": sent,
        "received": received,
        "send_rate": round(sent / max(1e-9, sent_at - started)),
        "receive_rate": round(received / max(1e-9, received_at - started)),
        "seconds": round(received_at - started, 3),
        **{f"p{p}_us": total.get_value_at_percentile(p) for p in PERCENTILES},
        "max_us": total.get_max_value(),
    }


def _publish(
    where: str, token: str, address: str, count: int, size: int, rate: int, capacity: int, barrier: Any, results: Any
) -> None:
    async def run() -> None:
        async with connect_async(where, token) as c:
            sender = await c.session().sender(address, capacity=capacity)
            pad = bytes(size - STAMP.size)
            await asyncio.to_thread(barrier.wait, 60)
            started, told, told_at = time.time(), 0, time.time()
            for number in range(1, count + 1):
                await sender.send(Message(STAMP.pack(time.time()) + pad))
                if rate:
                    await asyncio.sleep(max(0.0, started + number / rate - time.time()))
                if not number & 255 and time.time() - told_at > 0.2:
                    results.put(("sent", number - told, b""))
                    told, told_at = number, time.time()
            await sender.sync()
            results.put(("sent", count - told, b""))

    _guarded(run, barrier, results)


def _subscribe(where: str, token: str, queue: str, capacity: int, barrier: Any, done: Any, results: Any) -> None:
    async def run() -> None:
        async with connect_async(where, token) as c:
            session = c.session()
            receiver = await session.receiver(queue, capacity=capacity)
            histogram = HdrHistogram(1, MAX_US, 3)
            amount, told_at = 0, time.time()
            await asyncio.to_thread(barrier.wait, 60)
            while True:
                try:
                    message = await receiver.fetch(timeout=0.1)
                except Empty:
                    message = None
                now = time.time()
                if message is not None:
                    histogram.record_value(max(1, int((now - STAMP.unpack_from(message.body)[0]) * 1e6)))
                    session.acknowledge(message)
                    amount += 1
                if now - told_at > 0.2 or (message is None and amount):
                    results.put(("received", amount, histogram.encode()))
                    histogram.reset()
                    amount, told_at = 0, now
                if message is None and done.is_set():
                    break
            await session.sync(30)
        results.put(("finished", 0, b""))

    _guarded(run, barrier, results)


def _guarded(run: Any, barrier: Any, results: Any) -> None:
    try:
        asyncio.run(run())
    except Exception as error:
        results.put(("error", 0, f"{type(error).__name__}: {error}".encode()))
        barrier.abort()
