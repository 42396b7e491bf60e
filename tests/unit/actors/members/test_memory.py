"""What a member's process is set to: it keeps freed memory, so that frames that come and go fault no pages in again; and
its loop is given the interpreter soon, whatever a thread does beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from mantamq.actors.members.memory import LEAST_S, PAUSE_S, Gauge, machine_bytes, next_pause_s

PROGRAM = """
import ctypes, resource, sys, threading
from mantamq.actors.members.memory import keep_freed_memory

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def frames(count):
    small = bytes(50_000)
    for _ in range(count):
        buffer = bytearray()
        for _ in range(8):
            buffer += small
        bytes(buffer)

def run():
    if "keep" in sys.argv:
        assert keep_freed_memory()
    else:  # the state that glibc comes to by chance, and that lasts
        mallopt = ctypes.CDLL(None).mallopt
        assert mallopt(M_MMAP_THRESHOLD, 128 * 1024) and mallopt(M_TRIM_THRESHOLD, 128 * 1024)
    frames(20)
    before = faults()
    frames(200)
    print(faults() - before)

thread = threading.Thread(target=run)  # as an actor's loop
thread.start()
thread.join()
"""


GROWING = """
import os, sys, threading
from mantamq.actors.members.memory import GROWN_BYTES, keep_freed_memory

statm = os.open("/proc/self/statm", os.O_RDONLY)

def usable():
    return os.pread(statm, 200, 0).split()[5]  # pages that are private and may be written to

def run():
    grown, before, kept = 0, usable(), []
    for _ in range(3 * GROWN_BYTES // 1024):
        kept.append(bytes(1024))
        if len(kept) % 64 == 0:
            now = usable()
            grown, before = grown + (now != before), now
    print(grown)

if "keep" in sys.argv:
    assert keep_freed_memory()
thread = threading.Thread(target=run)  # its heap is one of glibc's heaps of 64 MiB, not the program's own
thread.start()
thread.join()
"""


BESIDE = """
import asyncio, sys
from mantamq.actors.members.member import SWITCH_S
from mantamq.actors.members.sequencer import Sequencer
from mantamq.actors.config import MemberConfig, SequencerConfig
from mantamq.actors.links.handshake import Credentials

async def run():
    actor = Sequencer("sequencer")
    member = MemberConfig(credentials=Credentials("c", b"s" * 32, "sequencer"), bind="127.0.0.1", peers={})
    await actor.start(SequencerConfig(member=member, voters=("b1",), leading=True))
    assert sys.getswitchinterval() <= SWITCH_S < 0.001
    await actor.stop()

asyncio.run(run())
"""


def test_the_loop_is_given_the_interpreter_soon() -> None:
    subprocess.run([sys.executable, "-c", BESIDE], check=True, timeout=60)


def counted(program: str, *arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


on_glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library is another one")


@on_glibc
def test_freed_memory_is_kept_for_the_next_frame() -> None:
    assert counted(PROGRAM, "keep") < 2_000 < 10_000 < counted(PROGRAM)


@on_glibc
def test_a_heap_grows_in_few_large_steps() -> None:
    assert counted(GROWING, "keep") < 100 < 1_000 < counted(GROWING)


# ---- how much it has


def test_a_process_measures_itself_and_its_machine() -> None:
    held = bytearray(b"x") * (64 << 20)
    found = Gauge(0, 0.4).measure()
    assert len(held) < found.resident_bytes < 4 << 30
    assert found.machine_bytes == machine_bytes() <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("risen_mib", "pause_s", "next_s"),
    [
        (0, 0.25, PAUSE_S),
        (-100, 0.05, PAUSE_S),
        (5, 0.25, PAUSE_S),
        (25, 0.25, 0.1),
        (10, 0.1, 0.1),
        (100, 0.25, LEAST_S),
        (1, 0.05, PAUSE_S),
    ],
)
def test_a_process_that_rises_is_measured_again_when_it_may_have_risen_by_so_much(
    risen_mib: int, pause_s: float, next_s: float
) -> None:
    assert next_pause_s(risen_mib << 20, pause_s, 10 << 20) == pytest.approx(next_s)


def test_a_gauge_is_asked_more_often_while_its_process_rises() -> None:
    gauge = Gauge(400 << 20, 0.0)
    assert gauge.pause_s == PAUSE_S
    held = [bytes(60_000) + bytes([number % 256]) for number in range(2_000)]
    gauge.measure()
    assert gauge.pause_s == LEAST_S and held
    gauge.measure()
    assert gauge.pause_s == PAUSE_S


@pytest.mark.parametrize(
    ("lines", "files", "least"),
    [
        (["0::/"], {"memory.max": "5000"}, 5000),
        (["0::/a/b"], {"memory.max": "max", "a/memory.max": "4000", "a/b/memory.max": "max"}, 4000),
        (["0::/a/b"], {"a/memory.max": "4000", "a/b/memory.max": "3000"}, 3000),
        (["7:cpu:/a", "5:memory,hugetlb:/a"], {"memory/a/memory.limit_in_bytes": "2000", "a/memory.max": "1"}, 2000),
        (["0::/gone"], {}, 0),
        ([], {"memory.max": "1"}, 0),
    ],
)
def test_the_memory_of_a_container_counts_if_it_is_less(
    tmp_path: Path, lines: list[str], files: dict[str, str], least: int
) -> None:
    own = tmp_path / "own"
    own.write_text("\n".join(lines))
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text + "\n")
    total = psutil.virtual_memory().total
    assert machine_bytes(tmp_path / "cgroup", own) == (least or total)
    assert machine_bytes(tmp_path / "cgroup", tmp_path / "nowhere") == total


def test_memory_that_was_freed_in_the_middle_of_the_heap_does_not_count() -> None:
    """Else flow control would stay on though consumers have taken all."""
    program = """
from mantamq.actors.members.memory import PAUSE_S, TRIM_S, Gauge, keep_freed_memory

assert keep_freed_memory()
gauge = Gauge(400 << 20, 0.0)
def measured():
    return [gauge.measure().resident_bytes for _ in range(int(TRIM_S / PAUSE_S))][-1]

before = measured()
held = [bytes(60_000) + bytes([n % 256]) for n in range(6_000)]
full = measured()
last = held[-1]
del held
after = measured()
print(before >> 20, full >> 20, after >> 20, last[-1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    before, full, after, _ = map(int, done.stdout.split())
    assert full > before + 300 and after < before + 80, done.stdout
