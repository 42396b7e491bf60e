"""`ray.init(); Queue("x")`: a cluster is found or started by the rule that `Queue` tells."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.timeout(120)
def test_a_queue_starts_a_cluster_in_the_ray_of_its_program_and_tasks_find_it() -> None:
    code = """
import os
os.environ["RAY_worker_niceness"] = "0"
import ray
from ray.util.queue import Empty, Full
from mantamq.actors.cluster import find_cluster
from mantamq.client import Queue

ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False)

@ray.remote(num_cpus=0)
def by_name(item):
    Queue("x").put(item)

@ray.remote(num_cpus=0)
def by_handle(queue, item):
    queue.put(item)
    try:
        Queue().get_nowait()
    except Empty:
        return "empty"

@ray.remote(num_cpus=0)
def tries(queue, item):
    try:
        queue.put_nowait(item)
    except Full:
        return 0
    return 1

ray.get([by_name.remote(1), by_name.remote(2)])   # both find none, one starts it
queue = Queue("x")
assert len(find_cluster().addresses) == 1
assert ray.get(by_handle.remote(queue, 3)) == "empty"
small = Queue("small", maxsize=3)
assert sum(ray.get([tries.remote(small, n) for n in range(8)])) == 3 and small.full()  # processes, at once
print(sorted(queue.get_nowait_batch(3)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[1, 2, 3]"
