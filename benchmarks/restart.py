"""`make bench-restart`: a cluster whose stores are full is killed and started again; and how large stores become.

*live*: so much in one durable queue that nobody takes from; then SIGKILL to everything, and the clock runs from the
start of the new cluster (Ray's own start apart) until the first message is delivered.
*kept*: one message that is never accepted beside many that are. What lives is then one message, and the disk may hold
no more than twice that and six containers for each log (`durable.md` 2).
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..client import Message, connect
from . import disk, durable, manta
from .processes import BODY_BYTES, Job, run, summary
from .results import LATEST, Collection, write

RESULTS = LATEST.with_name("restart.json")
QUEUE = "restart"
CONTAINER_BYTES = 16 * 1024**2
SERVING_S, SIZE_CONTAINERS = 20.0, 6
FIRST_S = 300.0
HELD = 2
"""One is fetched, and one more is on its way to whoever holds it."""
_CHUNK = 500_000
"""Messages of one run of clients: they take seconds to start, and a consumer remembers something of each message."""
CHUNK_S = 600.0
LOOK_S = 1.0


def start(data: str) -> Any:
    from ..actors.cluster import start_cluster

    stored: dict[str, Any] = {"data": data}
    return start_cluster(brokers=3, address="local", detached=True, **stored)


def used_bytes(data: str) -> int:
    """The disk that the largest store takes."""
    stores = [path for path in Path(data).iterdir() if path.is_dir()]
    return max(sum(map(_taken_bytes, store.rglob("*"))) for store in stores)


def _taken_bytes(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:  # freed, or renamed, in between
        return 0


class Watch(threading.Thread):
    """While others work: how far they are, and how much disk the stores take.

    Attributes:
        most: the most that the largest store has taken, in bytes.
    """

    def __init__(self, data: str, address: str, told: Callable[[int], object]) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._data, self._address, self._told = data, address, told
        self._done = threading.Event()

    def run(self) -> None:
        with connect(self._address, reconnect_s=FIRST_S) as connection:
            while not self._done.wait(LOOK_S):
                self.most = max(self.most, used_bytes(self._data))
                self._told(connection.queue(QUEUE)["accepted"])

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self.join()


def live(data: str, mib: int, into: Collection, console: Console) -> None:
    """Fill a queue, kill everything, start again."""
    from ..actors.ray_control.local_ray import kill_ray, start_local

    count = mib * 1024**2 // BODY_BYTES
    cluster = start(data)
    addresses = list(cluster.addresses.values())
    with connect(addresses[0]) as connection:
        connection.declare_queue(QUEUE, durable=True)
    (produced,) = run([Job(manta.__name__, "produce", (addresses[0], [QUEUE], count, 0))], CHUNK_S)
    into.add("manta", "live", "filled_messages_per_s", "messages/s", count / (produced.end - produced.start))
    size = used_bytes(data)
    into.add("manta", "live", "disk_bytes_over_live", "of 1", size / (mib * 1024**2))
    console.print(f"{count:,} messages in {produced.end - produced.start:.1f} s; a store takes {size / 1e6:,.0f} MB")
    kill_ray()
    start_local("mantamq", None)
    began = time.monotonic()
    cluster = start(data)
    up_s = time.monotonic() - began
    with connect(list(cluster.addresses.values()), reconnect_s=FIRST_S) as connection:
        receiver = connection.session().receiver(QUEUE, capacity=100)
        receiver.fetch(timeout=FIRST_S)
        serving_s = time.monotonic() - began
        left = connection.queue(QUEUE)["messages"]
    into.add("manta", "live", "started_s", "s", up_s)
    into.add("manta", "live", "serving_s", "s", serving_s)
    verdict = "ok" if serving_s < SERVING_S and left >= count else "missed"
    console.print(f"started after {up_s:.1f} s, first delivery after {serving_s:.1f} s, {left:,} there: {verdict}")
    cluster.stop()
    kill_ray()


def kept(data: str, count: int, into: Collection, console: Console) -> None:
    """Keep one message, and let many more through."""
    cluster = start(data)
    addresses = list(cluster.addresses.values())
    most, began = 0, time.monotonic()
    with connect(addresses[2], reconnect_s=FIRST_S) as connection:
        connection.declare_queue(QUEUE, durable=True)
        session = connection.session()
        with session.sender(QUEUE) as sender:
            for _ in range(HELD):
                sender.send(Message(struct.pack("!d", 0.0) + bytes(BODY_BYTES - 8)))
            sender.sync()
        session.receiver(QUEUE, capacity=1).fetch(timeout=FIRST_S)  # and never accepted, nor the one behind it
        done = 0
        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
        ) as progress:
            bar = progress.add_task("consumed", total=count)
            while done < count:
                chunk = min(_CHUNK, count - done)
                with Watch(data, addresses[2], lambda accepted: progress.update(bar, completed=accepted)) as watch:
                    produced, consumed = run(
                        [
                            Job(manta.__name__, "produce", (addresses[0], [QUEUE], chunk, 0)),
                            Job(manta.__name__, "consume", (addresses[1], QUEUE, chunk)),
                        ],
                        CHUNK_S,
                    )
                done += chunk
                most = max(most, watch.most, used_bytes(data))
                progress.update(bar, completed=done)
                rate = summary([produced], [consumed])["messages_per_s"]
                progress.print(f"{done:,} consumed, {rate:,.0f}/s; the largest store has taken {most / 1e6:,.0f} MB")
    into.add("manta", "kept", "consumed", "count", float(done))
    into.add("manta", "kept", "most_disk_bytes", "B", float(most))
    into.add("manta", "kept", "seconds", "s", time.monotonic() - began)
    allowed = 2 * HELD * BODY_BYTES + 2 * SIZE_CONTAINERS * CONTAINER_BYTES  # two logs
    console.print(f"at most {most / 1e6:,.0f} MB, of {allowed / 1e6:,.0f}: {'ok' if most <= allowed else 'missed'}")
    cluster.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-restart", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--live", type=int, default=1024, metavar="MIB", help="of live messages; 0: leave it out")
    parser.add_argument("--kept", type=int, default=10_000_000, metavar="N", help="messages consumed; 0: leave it out")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="a folder on the disk")
    parser.add_argument("--out", default=str(RESULTS), help="where the figures go")
    arguments = parser.parse_args()
    console, into = Console(), Collection()
    if why := durable.missing():
        console.print(f"not measured, {why}")
        return 1
    console.print(disk.look(os.path.realpath(arguments.data)).text(), highlight=False)
    for measure, size in ((live, arguments.live), (kept, arguments.kept)):
        if size:
            with tempfile.TemporaryDirectory(prefix="mantamq-restart-", dir=arguments.data) as data:
                measure(data, size, into, console)
    write(into.figures(), Path(arguments.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
