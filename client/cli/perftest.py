"""`perftest`: how fast is this cluster, from here? qpid-perftest's flags that apply, PerfTest's line each second."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import queue
import struct
import threading
import time
import uuid
from typing import Annotated, Any

import typer
from hdrh.histogram import HdrHistogram

from ..aio.aio import connect_async
from ..errors import Empty, MantaError
from ..message import Message
from . import held_back
from .console import Broker, Json, Token, connection, out, show
from .workers import no_ctrl_c

STAMP = struct.Struct("!d")
MAX_US = 600_000_000
READY_S = 60.0
STALL_S = 30.0
_NOTHING: tuple[str, int, Any] = "", 0, b""
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
    rate: Annotated[int, typer.Option("--rate", "--pub-rate", min=0, help="messages/s per publisher; 0: flat out")] = 0,
    capacity: Annotated[
        int, typer.Option("--capacity", "--confirm", min=1, help="most unconfirmed, and most unaccepted")
    ] = 1000,
    queue_name: Annotated[str, typer.Option(help="what the queues' names begin with")] = "perftest",
    iterations: Annotated[int, typer.Option(min=1, help="runs")] = 1,
    summary: Annotated[bool, typer.Option("--summary", "-s", help="only the figures at the end")] = False,
    broker: Broker = "", token: Token = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Publishers and subscribers, each a process, on the brokers by turns; every message confirmed and accepted.

    It says for how many seconds publishers were held back, added up over all of them, and by which queues, or by flow
    control of the whole cluster.
    """
    if mode not in ("shared", "fanout", "topic"):
        raise typer.BadParameter(f"--mode is shared, fanout or topic, not {mode!r}")
    rows = [
        _once(i, count, size, npubs, nsubs, qt, mode, rate, capacity, summary or as_json, broker, token, queue_name)
        for i in range(iterations)
    ]
    if as_json:
        print(json.dumps(rows))
        return
    show(
        rows,
        ["run", "sent", "received", "send_rate", "receive_rate", "seconds", "held_back_s"],
        False,
        "messages/s",
    )
    show(rows, ["run", *(f"p{p}_us" for p in PERCENTILES), "max_us"], False, "latency, publish to fetch, microseconds")
    for row in rows:
        for why, seconds in row["held_back_by"].items():
            out.print(f"run {row['run']}: held back for {seconds:.3f}s: {why}", highlight=False, soft_wrap=True)


def _once(
    number: int, count: int, size: int, npubs: int, nsubs: int, qt: int, mode: str, rate: int, capacity: int,
    quiet: bool, broker: str, token: str, name: str,
) -> dict[str, Any]:  # fmt: skip
    id = uuid.uuid4().hex[:8]
    queues: list[str] = []
    with connection(broker, token) as c:
        members = list(c.members.values()) or [c.address]
        token = c.token  # found along with the cluster, if it was not given
        subscribers: list[str] = []
        publishers: list[str] = []
        for topic in range(qt):
            exchange = {"fanout": f"{name}-{id}-{topic}", "topic": "amq.topic", "shared": ""}[mode]
            if mode == "fanout":
                c.declare_exchange(exchange, "fanout")
            own = [f"{name}-{id}-{topic}-{i}" for i in range(1 if mode == "shared" else nsubs)]
            for each in own:
                c.declare_queue(each)
                if exchange:
                    c.bind(exchange, each, f"{id}.{topic}")
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
    for i, source in enumerate(subscribers):
        where = members[(i + 1) % len(members)]
        workers.append(
            spawn.Process(target=_subscribe, args=(where, token, source, capacity, barrier, done, results), daemon=True)
        )
    try:
        # Ctrl-C goes to every process of a terminal: only this one hears it, and ends the others.
        with no_ctrl_c():
            for worker in workers:
                worker.start()
        try:
            barrier.wait(READY_S)
        except threading.BrokenBarrierError:
            raise MantaError(_why(results, workers)) from None
        run = {"run": number + 1} | _watch(
            id,
            results,
            workers,
            len(publishers),
            len(subscribers),
            count * npubs * qt * (nsubs if mode != "shared" else 1),
            done,
            quiet,
        )
        for worker in workers:
            worker.join(5)
        return run
    finally:
        done.set()
        for worker in workers:
            if worker.pid is not None:
                worker.kill()
                worker.join()
        with connection(broker, token) as c:
            for each in queues:
                c.delete_queue(each)
            if mode == "fanout":
                for topic in range(qt):
                    c.delete_exchange(f"{name}-{id}-{topic}")


def _watch(
    id: str, results: Any, workers: list[Any], publishers: int, subscribers: int, expected: int, done: Any, quiet: bool
) -> dict[str, Any]:
    """Gather reports, print a line each second, until everything expected has been received."""
    started = moved = time.monotonic()
    next_line = started + 1
    total = HdrHistogram(1, MAX_US, 3)
    second = HdrHistogram(1, MAX_US, 3)
    sent = received = sent_before = received_before = 0
    sent_at = received_at = started
    finished = 0
    held = held_back.HeldSenders()
    while finished < subscribers:
        try:
            kind, amount, encoded = results.get(timeout=max(0.01, next_line - time.monotonic()))
        except queue.Empty:
            kind, amount, encoded = _NOTHING
        now = time.monotonic()
        if amount or kind == "finished":
            moved = now
        elif any(worker.exitcode for worker in workers):
            raise MantaError(_why(results, workers))
        elif now - moved > STALL_S:
            text = f"nothing moved for {STALL_S:g} s: {received:,} of {expected:,} messages were received"
            raise MantaError(text + held.lately())
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
        elif kind == "held":
            held.add(encoded)
        elif kind == "finished":
            finished += 1
        if received >= expected:
            done.set()
        if now >= next_line:
            if not quiet:
                values = "/".join(f"{second.get_value_at_percentile(p):,}" for p in (0, *PERCENTILES))
                out.print(
                    f"id: {id}, time: {now - started:.3f}s, sent: {sent - sent_before:,} msg/s, received: "
                    f"{received - received_before:,} msg/s, min/median/75th/95th/99th latency: {values} us"
                    f"{held.lately()}",
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
        **held.figures(),
        **{f"p{p}_us": total.get_value_at_percentile(p) for p in PERCENTILES},
        "max_us": total.get_max_value(),
    }


def _why(results: Any, workers: list[Any]) -> str:
    """The last words of the publisher or subscriber that could not go on."""
    try:
        while True:
            kind, _, text = results.get(timeout=1)
            if kind == "error":
                return text.decode()
    except queue.Empty:
        ended = sum(1 for worker in workers if worker.exitcode)
        return f"{ended} of {len(workers)} publishers and subscribers ended early or did not start: look at the memory"


def _publish(
    where: str, token: str, address: str, count: int, size: int, rate: int, capacity: int, barrier: Any, results: Any
) -> None:
    async def run() -> None:
        async with connect_async(where, token) as c:
            sender = await c.session().sender(address, capacity=capacity)
            pad = bytes(size - STAMP.size)
            await asyncio.to_thread(barrier.wait, 60)
            looking = asyncio.create_task(held_back.look(sender, lambda seen: results.put(("held", 0, seen))))
            started, told, told_at = time.time(), 0, time.time()
            for number in range(1, count + 1):
                await sender.send(Message(STAMP.pack(time.time()) + pad))
                if rate:
                    await asyncio.sleep(max(0.0, started + number / rate - time.time()))
                if not number & 255 and time.time() - told_at > 0.2:
                    results.put(("sent", number - told, b""))
                    told, told_at = number, time.time()
            await sender.sync()
            looking.cancel()
            results.put(("sent", count - told, b""))

    _guarded(run, barrier, results)


def _subscribe(where: str, token: str, source: str, capacity: int, barrier: Any, done: Any, results: Any) -> None:
    async def run() -> None:
        async with connect_async(where, token) as c:
            session = c.session()
            receiver = await session.receiver(source, capacity=capacity)
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
                    await session.acknowledge(message)
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
