"""What keeping events costs: the same load with events and without, turn by turn, in one Ray.

Two clusters are there all the time, and one of them works. They take turns, and who goes first changes, so that both
meet the same machine: a pair of runs lies seconds apart. The cluster's processor time is measured, too: it says how
much of a difference in throughput is the machine's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from . import manta
from .results import Collection

WITH, WITHOUT = "manta", "manta-without-events"
PAIRS = 6


def measure(count: int, into: Collection, say: Callable[[str], None], pairs: int = PAIRS) -> None:
    """Add the figures of `pairs` pairs of runs of `count` messages each."""
    from ..actors.cluster import start_cluster

    with tempfile.TemporaryDirectory(prefix="mantamq-capture-") as directory:
        with ExitStack() as stack:
            say("capture: starting two clusters")
            without = stack.enter_context(start_cluster(brokers=3, address="local"))
            keeping = stack.enter_context(
                start_cluster(brokers=3, address="local", namespace="mantamq-events", events=directory)
            )
            ours = {WITHOUT: manta.Workloads(without), WITH: manta.Workloads(keeping)}
            for workloads in ours.values():
                workloads.throughput(count)  # what is loaded once is loaded now
            for pair in range(pairs):
                for system in (WITH, WITHOUT) if pair % 2 else (WITHOUT, WITH):
                    say(f"capture: {system}, {pair + 1} of {pairs}")
                    pids = (keeping if system == WITH else without).actor_pids().values()
                    before = sum(map(manta.cpu_s, pids))
                    found = ours[system].throughput(count)
                    used_us = 1e6 * (sum(map(manta.cpu_s, pids)) - before)
                    into.add(system, "capture", "messages_per_s", "messages/s", found["messages_per_s"])
                    into.add(system, "capture", "cluster_cpu_us_per_message", "us", used_us / count)
        size = sum(path.stat().st_size for path in Path(directory).rglob("*.parquet"))
        into.add(WITH, "capture", "bytes_per_message", "B", size / ((1 + pairs) * count))
