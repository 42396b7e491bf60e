"""Tests that only compute run in the gaps that tests with real processes leave of the machine.

    python -m tests.in_gaps --meanwhile COMMAND [--meanwhile COMMAND ...] COMMAND [COMMAND ...]

The plain commands run one after another, as make would run them: the first that fails ends it. Beside them, one after
another too, run those of ``--meanwhile``, at idle priority, so that real processes with their time-outs do not feel them.
What those write is kept, and told whole when the others are done; then they go on at normal priority. The exit status is
that of the first that failed. Nothing is left behind, whoever dies.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

PATIENCE_S = 30.0
"""How long a command may take to end after Ctrl-C: one that has a cluster puts it away first."""
LOOK_S = 0.2
NICE = 19
TAIL = 1 << 12
WARDEN, USUAL = "--warden", "--usual"


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [WARDEN]:
        return guard(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m tests.in_gaps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meanwhile", action="append", default=[], metavar="COMMAND", help="at idle priority")
    parser.add_argument("--usual", action="store_true", help="at the usual priority: there are processors to spare")
    parser.add_argument("commands", nargs="+", metavar="COMMAND", help="one after another")
    parsed = parser.parse_args(given)
    signal.signal(signal.SIGTERM, terminate)
    try:
        return run(parsed.commands, parsed.meanwhile, parsed.usual)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


def run(commands: list[str], meanwhile: list[str], usual: bool = False) -> int:
    """Run all; the exit status of the first that failed, 0 if none did."""
    gaps = Gaps([USUAL, *meanwhile] if usual else meanwhile)
    try:
        for command in commands:
            started = time.monotonic()
            say(f"$ {command}")
            status = end_of(subprocess.Popen(shlex.split(command)))
            say(f"after {time.monotonic() - started:.0f} s; {gaps.state()}")
            if status:
                if gaps.ended and gaps.status:
                    gaps.tell()
                return code(status)
        gaps.hurry()
        return code(gaps.tell())
    finally:
        gaps.close()


def end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for its end. Ctrl-C it got as well: it may put away what it has started. Who ends only us ends it."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        leave(process)
        raise
    except SystemExit:
        process.send_signal(signal.SIGINT)
        leave(process)
        raise


def leave(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            process.wait(PATIENCE_S)
            return
        except subprocess.TimeoutExpired:
            process.send_signal(number)
    process.wait()


def code(status: int) -> int:
    """As a shell says it: who died of a signal has 128 more."""
    return 128 - status if status < 0 else status


def say(text: str) -> None:
    print(text, flush=True)


class Gaps:
    """The commands that run meanwhile, under a warden in a session of their own."""

    def __init__(self, commands: list[str]) -> None:
        self._told = 0
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._warden = subprocess.Popen(
            [sys.executable, __file__, WARDEN, *commands],
            stdin=subprocess.PIPE,  # closed by our death, too
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,  # nothing is kept for who has ended
        )

    @property
    def ended(self) -> bool:
        return self._warden.poll() is not None

    @property
    def status(self) -> int:
        return self._warden.returncode

    def state(self) -> str:
        """How far they are: their last line."""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), TAIL, max(0, size - TAIL)).decode(errors="replace")
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing yet")
        how = "in the gaps" if not self.ended else "the gaps FAILED" if self.status else "the gaps are done"
        return f"{how}: {last}"

    def hurry(self) -> None:
        """Nobody else is left who could be disturbed."""
        assert self._warden.stdin is not None
        try:
            self._warden.stdin.write(b"hurry\n")
        except BrokenPipeError:  # ended
            pass

    def tell(self) -> int:
        """Write out all that they wrote, until they end; their status."""
        while True:
            ended = self.ended
            while text := os.pread(self._output.fileno(), 1 << 16, self._told):
                self._told += len(text)
                sys.stdout.buffer.write(text)
            sys.stdout.flush()
            if ended:
                return self.status
            time.sleep(LOOK_S)

    def close(self) -> None:
        """End what has not ended: what a dead command has left behind, too."""
        try:
            os.killpg(self._warden.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        assert self._warden.stdin is not None
        self._warden.stdin.close()
        self._warden.wait()
        self._output.close()


# ---- the warden: a process that leads the session of those that run meanwhile


def guard(commands: list[str]) -> int:
    """Run them; end them all when whoever started us is no more; the status of the first that failed."""
    policy = None if commands[:1] == [USUAL] else give_way()
    threading.Thread(target=listen, args=(policy,), daemon=True).start()
    for command in commands[policy is None :]:
        say(f"$ {command}")
        started = time.monotonic()
        if status := subprocess.call(shlex.split(command), stdin=subprocess.DEVNULL):
            say(f"{command}: exit status {code(status)}")
            return code(status)
        say(f"after {time.monotonic() - started:.0f} s")
    return 0


def listen(policy: int | None) -> None:
    for _line in sys.stdin:
        if policy is not None:
            hasten(policy)
    os.killpg(0, signal.SIGKILL)


def give_way() -> int:
    """Take only the processor time that nobody wants, with all that is started from here; what the policy was before."""
    group(NICE)
    if hasattr(os, "SCHED_IDLE"):
        policy = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return policy
    os.nice(NICE)  # for good: only root may take it back
    return 0


def hasten(policy: int) -> None:
    """Give everything in this session the policy that this process had."""
    group(0)
    if not hasattr(os, "SCHED_IDLE"):
        return
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == os.getpid():
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setscheduler(int(thread), policy, os.sched_param(0))
        except OSError:  # ended; or only root may: then nobody else wants the time either
            continue


def group(nice: int) -> None:
    """Linux shares its time among sessions first, where it has autogroups: an idle process counts within its own only."""
    try:
        Path("/proc/self/autogroup").write_text(str(nice))
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main())
