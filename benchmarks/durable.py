"""Durable queues: each completion after a flush at a majority; and what a store costs queues that do not use it.

First the cluster with a store is there alone, as each peer is, for what takes how long. Then two clusters are there, in
one Ray, one with a store and one without, and one of them works: runs whose ratio is told lie seconds apart, and who
goes first changes (as in `capture.py`). Both have the same history: what the one with a store has carried, the other
has carried too, since a process that has once held much has scattered memory and is slower for it (by a tenth, once
eight busy queues have gone through it, with a store or without). So eight queues
come last. The peers beside them are those that flush each message before they confirm it. All have their directories
below one folder, on one disk.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

from . import manta
from .results import Collection

WITH, WITHOUT = "manta", "manta-without-store"
DURABLE, EIGHT, TRANSIENT = "durable", "durable-eight-queues", "transient-with-store"
PAIRS = 3
MESSAGES = 200_000
"""Of one run: a few seconds of it."""
RATE = 200


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    from ..actors.cluster import start_cluster

    if "data" not in inspect.signature(start_cluster).parameters:
        return "clusters have no store yet: start_cluster takes no data="
    return ""


def measure(
    count: Callable[[int], int], data: str, into: Collection, say: Callable[[str], None], pairs: int = PAIRS
) -> None:
    """Add the figures of one round.

    Args:
        count: how many messages, of so many in a full run.
        data: the folder in which the stores' folder is made, for as long as they run.
    """
    from ..actors.cluster import start_cluster

    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="mantamq-bench-", dir=data))
        say("durable: starting the cluster with a store")
        cluster = stack.enter_context(
            start_cluster(brokers=3, address="local", namespace="mantamq-store", data=directory)  # pyright: ignore[reportCallIssue]
        )
        alone = manta.Workloads(cluster, durable=True)
        alone.throughput(count(20_000))  # what is loaded once is loaded now
        say("durable: latency")
        found = alone.throughput(count(2000), RATE)
        for metric in ("p50_ms", "p99_ms"):
            into.add(WITH, DURABLE, metric, "ms", found[metric])
        say("durable: starting the cluster without one")
        without = stack.enter_context(start_cluster(brokers=3, address="local"))
        ours = {WITHOUT: manta.Workloads(without), WITH: manta.Workloads(cluster)}
        # One queue of the cluster with a store is durable; the other cluster carries as much of a transient one.
        beside = {WITHOUT: manta.Workloads(without), WITH: manta.Workloads(cluster, durable=True)}
        for workloads in (*ours.values(), *beside.values()):
            workloads.throughput(count(20_000))
        for pair in range(pairs):
            turn = (WITH, WITHOUT) if pair % 2 else (WITHOUT, WITH)
            for system in turn:
                say(f"durable: transient queues, {system}, {pair + 1} of {pairs}")
                found = ours[system].throughput(count(MESSAGES))
                into.add(system, TRANSIENT, "messages_per_s", "messages/s", found["messages_per_s"])
            say(f"durable: one queue, {pair + 1} of {pairs}")
            for system in turn:
                if system == WITHOUT:
                    beside[system].throughput(count(MESSAGES))
                    continue
                pids = cluster.actor_pids().values()
                before = sum(map(manta.cpu_s, pids))
                found = beside[system].throughput(count(MESSAGES))
                used_us = 1e6 * (sum(map(manta.cpu_s, pids)) - before)
                into.add(WITH, DURABLE, "messages_per_s", "messages/s", found["messages_per_s"])
                into.add(WITH, DURABLE, "cluster_cpu_us_per_message", "us", used_us / count(MESSAGES))
        for pair in range(pairs):
            say(f"durable: eight queues, {pair + 1} of {pairs}")
            found = beside[WITH].eight_queues(count(MESSAGES))
            into.add(WITH, EIGHT, "messages_per_s", "messages/s", found["messages_per_s"])
