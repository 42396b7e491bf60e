"""What only computes runs beside the tests with real processes: it gives way, is told whole, counts, and leaves nothing."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_gaps

WAIT_S = 100.0
"""A busy machine has no gaps."""
LINUX = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no idle priority")


def program(code: str, *arguments: object) -> str:
    return shlex.join([sys.executable, "-S", "-c", code, *map(str, arguments)])


def writes(text: str, status: int = 0) -> str:
    return program(f"import sys; print({text!r}, flush=True); sys.exit({status})")


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"not in {WAIT_S:.0f} s: {what}"
        time.sleep(0.01)


WAITS_FOR = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
STAYS = """import os, sys, time
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.replace(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""
"""A process that leaves its number in a file and stays."""


def number(file: Path) -> int:
    until(lambda: file.exists() and file.read_text(), f"{file.name} is written")
    return int(file.read_text())


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def start(commands: list[str], meanwhile: list[str], idle: bool = False) -> subprocess.Popen[str]:
    beside = [] if idle else [in_gaps.USUAL]
    beside += [word for one in meanwhile for word in ("--meanwhile", one)]
    return subprocess.Popen(
        [sys.executable, in_gaps.__file__, *beside, *commands],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def together(commands: list[str], meanwhile: list[str], idle: bool = False) -> tuple[int, str]:
    with start(commands, meanwhile, idle) as process:
        out, _ = process.communicate(timeout=WAIT_S)
    return process.returncode, out


def test_what_ran_meanwhile_is_told_whole_behind_the_others(tmp_path):
    long = "x" * 200_000
    other = tmp_path / "other"
    early = program("import sys; print('x' * 200_000); open(sys.argv[1], 'w')", other)
    status, out = together([program(WAITS_FOR + "print('front')", other), writes("last")], [early, writes("behind")])
    assert status == 0
    lines = out.splitlines()
    assert lines.index("front") < lines.index("last") < lines.index(long) < lines.index("behind")


def test_how_far_they_are_is_said_after_each(tmp_path):
    other = tmp_path / "other"
    beside = program("import sys, time; print('[ 45%]', flush=True); open(sys.argv[1], 'w'); time.sleep(1)", other)
    _, out = together([program(WAITS_FOR, other)], [beside])
    assert "in the gaps: [ 45%]" in out


def test_a_failure_meanwhile_fails_all_and_ends_nothing_else():
    status, out = together([writes("front"), writes("last")], [writes("wrong", 3), writes("never")])
    assert status == 3
    assert "front\n" in out and "last\n" in out and "\nwrong\n" in out and "exit status 3" in out
    assert "\nnever\n" not in out


def test_a_failure_ends_those_that_run_meanwhile(tmp_path):
    stays = tmp_path / "stays"
    status, out = together([program(WAITS_FOR + "sys.exit(4)", stays), writes("never")], [program(STAYS, stays)])
    assert status == 4
    assert "\nnever\n" not in out
    until(lambda: not runs(number(stays)), "it is ended")


def test_if_both_fail_both_are_told(tmp_path):
    failed = tmp_path / "failed"
    beside = program("import sys; print('beside'); open(sys.argv[1], 'w'); sys.exit(3)", failed)
    look = "import time; time.sleep(0.3); print('front'); sys.exit(4)"
    status, out = together([program(WAITS_FOR + look, failed)], [beside])
    assert status == 4
    assert "front\n" in out and "beside\n" in out


def test_those_that_have_ended_need_not_hurry():
    gaps = in_gaps.Gaps([in_gaps.USUAL])
    until(lambda: gaps.ended, "they have ended")
    gaps.hurry()
    assert gaps.tell() == 0
    gaps.close()


def test_who_dies_of_a_signal_has_failed():
    kills_itself = program("import os; os.kill(os.getpid(), 9)")
    assert together([writes("front")], [kills_itself])[0] == 128 + signal.SIGKILL
    assert together([kills_itself], [])[0] == 128 + signal.SIGKILL


@LINUX
def test_they_have_idle_priority_until_nobody_is_left_to_disturb(tmp_path):
    front, beside, go = tmp_path / "front", tmp_path / "beside", tmp_path / "go"
    started_by_one = shlex.join(["sh", "-c", f"sh -c 'echo $$ > {beside}; exec sleep 60'; true"])
    waits = "import os, sys\nopen(sys.argv[2], 'w').write(str(os.getpid()))\n" + WAITS_FOR
    with start([program(waits, go, front)], [started_by_one], idle=True) as process:
        usual, pid = os.sched_getscheduler(0), number(beside)
        assert (os.sched_getscheduler(pid), os.sched_getscheduler(number(front))) == (os.SCHED_IDLE, usual)
        if (group := Path(f"/proc/{pid}/autogroup")).exists():
            assert group.read_text().split()[-1] == str(in_gaps.NICE)
        go.touch()
        if os.geteuid() == 0:  # who is not root may not take it back
            until(lambda: os.sched_getscheduler(pid) == usual, "the usual priority")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=WAIT_S)
    until(lambda: not runs(pid), "it is ended")


@LINUX
@pytest.mark.parametrize("how", ["Ctrl-C", "terminated", "killed"])
def test_whoever_is_ended_leaves_nothing(how, tmp_path):
    front, beside = tmp_path / "front", tmp_path / "beside"
    with start([program(STAYS, front)], [program(STAYS, beside)]) as process:
        pids = number(front), number(beside)
        if how == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)  # a terminal tells all in front
        elif how == "terminated":
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
    assert process.returncode == {"Ctrl-C": 130, "terminated": 143, "killed": -9}[how]
    until(lambda: not any(map(runs, pids)), "both are ended")


@LINUX
def test_one_that_dies_leaves_nothing(tmp_path):
    left = tmp_path / "left"
    dies = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {STAYS!r}, sys.argv[1]])\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)"
    )
    status, _ = together([program(WAITS_FOR, left)], [program(dies, left)])
    assert status == 128 + signal.SIGKILL
    until(lambda: not runs(number(left)), "it is ended")
