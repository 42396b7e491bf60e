"""A cluster inside a program, as a user's program meets it: each is a program of its own here, and is watched to its
end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from mantamq.actors.ray_control.local_ray import wait_gone

END_S = 50.0
LEAVE_S = 10.0
AGENTS = ("/dashboard/agent.py", "/runtime_env/agent/main.py")
ALARMS = ("died", "killed", "oom", "memory", "unexpected", "traceback", "error", "warning", "sigterm")


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[str]]:
    """A program; nothing of it is left at the end, however it ended."""
    started = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def said(started: subprocess.Popen[str], word: str) -> list[psutil.Process]:
    """Wait until the program has said this; returns the processes that it has by then."""
    assert started.stdout is not None
    for line in started.stdout:
        if line.strip() == word:
            return psutil.Process(started.pid).children(recursive=True)
    raise AssertionError(f"it ended before it said {word!r}: {started.stderr and started.stderr.read()}")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], timeout=END_S, capture_output=True, text=True, check=False)


def test_a_program_has_its_cluster_in_any_thread_and_loop_to_its_end() -> None:
    done = run(
        """
import asyncio, threading, psutil
from mantamq.client import connect, connect_async

async def once(number):
    async with connect_async("local", brokers=1) as c:
        await c.declare_queue("q")
        s = c.session()
        sender = await s.sender("q")
        await sender.send(str(number))
        await sender.sync()

asyncio.run(once(0))     # the executor's threads, one of which has started Ray, end with the loop
asyncio.run(once(1))

def in_a_thread():
    with connect("local") as c:
        c.session().sender("q").send("2")

thread = threading.Thread(target=in_a_thread)
thread.start()
thread.join()
with connect("local") as c:
    r = c.session().receiver("q")
    print([r.fetch(timeout=10).body for _ in range(3)])
print(*(p.pid for p in psutil.Process().children(recursive=True)))
connect("local")         # and never closed
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    bodies, pids = done.stdout.splitlines()
    assert bodies == "[b'0', b'1', b'2']"
    assert wait_gone([int(pid) for pid in pids.split()], LEAVE_S) == []


def test_what_goes_wrong_in_the_program_is_seen() -> None:
    done = run(
        """
import asyncio
from mantamq.client import connect_async

async def main():
    async with connect_async("local", brokers=1) as c:
        raise ValueError("what the user did")

asyncio.run(main())
"""
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback") and done.stderr.rstrip().endswith("ValueError: what the user did")


@pytest.mark.parametrize("where", ["loop", "main"])
def test_ctrl_c_ends_it_as_any_program(where: str) -> None:
    code = {
        "loop": """
import asyncio
from mantamq.client import connect_async

async def main():
    async with connect_async("local", brokers=1) as c:
        await c.declare_queue("q")
        r = await c.session().receiver("q")
        print("waiting")
        await r.fetch()

asyncio.run(main())
""",
        "main": """
from mantamq.client import connect

with connect("local", brokers=1) as c:
    c.declare_queue("q")
    print("waiting")
    c.session().receiver("q").fetch()
""",
    }[where]
    with program(code) as started:
        children = said(started, "waiting")
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=END_S)
    assert started.returncode in (1, 130, -signal.SIGINT)  # Python's own way, by what runs at its exit
    assert "Traceback" in err
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert wait_gone([child.pid for child in children], LEAVE_S) == []


@pytest.mark.parametrize("moment", ["starting", "working"])
def test_a_program_that_is_killed_leaves_nothing(moment: str) -> None:
    code = """
from mantamq.client import connect

print("starting")
connect("local", brokers=1)
print("working")
input()
"""
    with program(code) as started:
        children = said(started, moment)
        until = time.monotonic() + END_S
        while not any("raylet" in child.name() for child in children) and time.monotonic() < until:
            time.sleep(0.05)
            children = psutil.Process(started.pid).children(recursive=True)
    assert children
    until = time.monotonic() + LEAVE_S
    while (left := ours(children)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def ours(children: list[psutil.Process]) -> list[str]:
    """The children that are there, but for two of Ray's own: those go when they give up telling its control store of the end,
    a minute later (62 s when it was looked at). Until they have started, only the program they run tells who they are."""
    with_names: list[str] = []
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            agent = child.name().endswith("Agent") or any(word.endswith(AGENTS) for word in child.cmdline()[:4])
            if child.is_running() and child.status() != psutil.STATUS_ZOMBIE and not agent:
                with_names.append(f"{child.pid} {child.name()}")
    return with_names


def test_the_end_shows_nothing_that_alarms() -> None:
    done = run(
        """
from mantamq.actors.cluster import start_cluster
from mantamq.client import connect

with start_cluster(brokers=3, spares=1) as cluster:
    with connect(cluster.nearest()) as c:
        c.declare_queue("q")
        c.session().sender("q").send("x")
    cluster.add_broker()
    cluster.remove_broker("b4")
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_end_of_a_cluster_in_a_ray_of_the_programs_own_shows_nothing_that_alarms() -> None:
    """Such a Ray shows the program whatever its actors write."""
    done = run(
        """
import os
os.environ["RAY_worker_niceness"] = "0"
import ray
from mantamq.actors.cluster import start_cluster

ray.init(address="local", include_dashboard=False, num_cpus=2)
with start_cluster(brokers=1, spares=1):
    pass
print("ended", flush=True)
"""
    )
    assert done.returncode == 0
    shown = (done.stdout + done.stderr[done.stderr.index("Started a local Ray") :]).lower()
    assert "ended" in shown
    assert [word for word in ALARMS if word in shown] == []


def test_any_actor_of_an_embedded_cluster_may_die() -> None:
    """One of each kind after the other, the supervisor too, twice: what was complete is there."""
    done = run(
        """
import os, signal, time
from mantamq.client import connect
from mantamq.client.addresses import embedded

with connect("local", brokers=3) as c:
    cluster = embedded(3)
    c.declare_queue("q")
    s = c.session()
    sender = s.sender("q")
    number = 0
    for name in ("supervisor", "b2", "sequencer", "ownership", "supervisor", "b3.r0"):
        sender.send(str(number)); sender.sync(); number += 1
        pids = cluster.actor_pids()
        os.kill(pids[name], signal.SIGKILL)
        until = time.monotonic() + 30
        while cluster.actor_pids().get(name) == pids[name] or cluster.health()["unhealthy"]:
            assert time.monotonic() < until, (name, cluster.health())
            time.sleep(0.1)
    r = s.receiver("q")
    print([int(r.fetch(timeout=10).body) for _ in range(number)])
    s.acknowledge()
print(*cluster.actor_pids().values())
"""
    )
    assert done.returncode == 0, done.stderr
    bodies, pids = done.stdout.splitlines()[-2:]
    assert bodies == str(list(range(6)))
    assert len(pids.split()) >= 14
    assert wait_gone([int(pid) for pid in pids.split()], LEAVE_S) == []


def test_a_bound_cluster_ends_with_its_program_and_not_with_ray() -> None:
    done = run(
        """
import os
os.environ["RAY_worker_niceness"] = "0"
import ray, psutil, subprocess, sys
from mantamq.actors.ray_control.local_ray import wait_gone

ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False)
address = ray.get_runtime_context().gcs_address
program = '''
import ray, sys
from mantamq.actors.cluster import start_cluster
ray.init(address=sys.argv[1], log_to_driver=False)
cluster = start_cluster(brokers=1, spares=1, detached=False)
print(*cluster.actor_pids().values())
'''
for _ in range(2):  # the second need not be told that the first is still about to end
    done = subprocess.run([sys.executable, "-c", program, address], stdout=subprocess.PIPE, text=True, check=True)
    pids = [int(pid) for pid in done.stdout.split()]
assert len(pids) >= 5, done
assert wait_gone(pids, 15) == []
print("gone")
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "gone"
