"""The event table of a real cluster: what the clients have counted, each row once, whoever is killed."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import ray
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.client import Message, connect
from mantamq.jobs.events import live_tail
from mantamq.jobs.export import export
from mantamq.store.events.event_folders import newest_folder
from mantamq.store.events.event_parts import check_parts, from_ipc, list_parts, read_parts

pytestmark = pytest.mark.timeout(120)


def until(true: Callable[[], bool], what: str, limit_s: float = 30) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.05)


def table(cluster: Cluster) -> pa.Table:
    """All rows there are now: parts and tail."""
    tail = live_tail()
    assert tail is not None
    listing = list_parts(tail.directory)
    checked = check_parts(tail.directory, listing.parts)
    assert not listing.skipped and not checked.skipped
    before = read_parts(tail.directory, [part for part in checked.parts if part.row_last < tail.row_first])
    return pa.concat_tables([before, *(from_ipc(block) for block in ray.get(tail.blocks))]).sort_by("row")


def counts(rows: pa.Table, queue: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows.to_pylist():
        if row["queue"].startswith(queue + "#") and row["effective"]:
            found[row["kind"]] += row["count"]
    return found


def load(cluster: Cluster, first: int, count: int, release: int = 0, reject: int = 0) -> None:
    """Through two brokers: send, take, give some back, refuse some, accept the rest."""
    addresses = list(cluster.addresses.values())
    with connect(addresses[0]) as here, connect(addresses[1]) as there:
        sender = here.session().sender("orders", capacity=500)
        for number in range(first, first + count):
            sender.send(Message(b"%d" % number))
        sender.sync()
        session = there.session()
        receiver = session.receiver("orders", capacity=100)
        seen = 0
        while seen < count:
            message = receiver.fetch(timeout=20)
            if release and not message.redelivered:
                release -= 1
                session.release(message)
                continue
            seen += 1
            if reject:
                reject -= 1
                session.reject(message)
            else:
                session.acknowledge(message)
        session.sync()


def kill(cluster: Cluster, name: str) -> None:
    os.kill(cluster.actor_pids()[name], signal.SIGKILL)


def the_tap(cluster: Cluster) -> dict:
    return next(actor for actor in cluster.status()["actors"] if actor["role"] == "EventTap")


def absence_is_a_warning(cluster: Cluster) -> None:
    """The tap is in the status; when it stands still the cluster is healthy all the same, and somebody says so."""
    assert the_tap(cluster)["machine"]["dropped"] == 0
    status = cluster.status()
    assert status["healthy"] and not status["warnings"]
    pid = cluster.actor_pids()["events"]
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: bool(cluster.status()["warnings"]), "somebody says that it does not answer")
        assert cluster.status()["healthy"]
    finally:
        with suppress(ProcessLookupError):  # it was given up, as one that stands still for too long is
            os.kill(pid, signal.SIGCONT)
    until(lambda: cluster.status()["warnings"] == [], "it is there again, or another one")
    assert cluster.status()["healthy"]


def test_the_events_are_what_the_clients_counted_whoever_is_killed(tmp_path: Path) -> None:
    with start_cluster(brokers=3, events=str(tmp_path / "events"), spares=1) as cluster:
        absence_is_a_warning(cluster)
        counted(cluster, tmp_path)


def counted(cluster: Cluster, tmp_path: Path) -> None:
    with connect(cluster.nearest()) as connection:
        connection.declare_queue("dead")
        connection.bind("amq.fanout", "dead")
        connection.declare_queue("orders", alternate="amq.fanout")
    load(cluster, 0, 1000, release=20, reject=10)
    wanted = {"enqueue": 1000, "accept": 990, "release": 20, "reject": 10, "dead_letter": 10}
    until(lambda: wanted.items() <= counts(table(cluster), "orders").items(), "the first load is in the table")
    rows = table(cluster)
    assert counts(rows, "dead")["enqueue"] == 10
    assert {"connect", "disconnect", "declare_queue", "bind", "own", "redelivery"} <= set(rows["kind"].to_pylist())
    # A part is written, and then the tap dies with what came after it.
    tap = ray.get_actor("manta/events", "mantamq")
    written = ray.get(tap.roll.remote())
    load(cluster, 1000, 500)
    pid = cluster.actor_pids()["events"]
    until(lambda: live_tail() is not None and live_tail().row_last > written, "there are rows in no part")
    kill(cluster, "events")
    load(cluster, 1500, 500)  # nobody waits for the tap
    until(lambda: cluster.actor_pids().get("events", pid) != pid, "another tap comes")
    until(lambda: "machine" in the_tap(cluster), "it answers")
    # The sequencer dies, and a new one's term goes on.
    kill(cluster, "sequencer")
    load(cluster, 2000, 500)
    wanted = {"enqueue": 2500, "accept": 2490, "release": 20, "reject": 10, "dead_letter": 10}
    until(lambda: wanted.items() <= counts(table(cluster), "orders").items(), "all loads are in the table")
    rows = table(cluster)
    assert counts(rows, "orders") | wanted == counts(rows, "orders")
    assert rows["row"].to_pylist() == list(range(1, rows.num_rows + 1))
    assert "dropped" not in rows["kind"].to_pylist()
    assert set(rows.filter(pa.compute.field("part") >= 0)["term"].to_pylist()) == {1, 2}
    places = Counter(
        (row["queue"], row["kind"], row["seq"], row["part"]) for row in rows.to_pylist() if row["part"] >= 0
    )
    assert [place for place, times in places.items() if times > 1] == []
    # The same into a file; and, when the cluster has stopped, all of it in parts.
    tail = live_tail()
    assert tail is not None
    tail = tail._replace(blocks=ray.get(tail.blocks))
    assert export(tmp_path / "all.csv", "csv", tail=tail)[0] >= rows.num_rows
    cluster.stop()
    folder = newest_folder(str(tmp_path / "events"))
    listing = list_parts(folder)
    assert not listing.skipped
    at_last = read_parts(folder, listing.parts).sort_by("row")
    assert at_last.slice(0, rows.num_rows).drop(["time_us"]).equals(rows.drop(["time_us"]))
