"""A process that is to end is gone within its time, also where its end hangs."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import sys, threading, time
from mantamq.actors.members import ending
ending.HUNG_S = 0.2
class Hung:
    def __del__(self, sleep=time.sleep):
        print("hangs", flush=True)
        while True:
            sleep(0.01)
sys.modules["hung"] = Hung()
{how}
ending.at_the_latest(7, 0.3)
"""


def ended(how: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(how=how)], capture_output=True, text=True, timeout=20, check=False
    )
    return done.returncode, done.stdout.strip()


def test_a_call_that_does_not_return_is_cut_short() -> None:
    assert ended("threading.Thread(target=threading.Event().wait).start()") == (7, "")


def test_an_end_that_hangs_when_the_threads_are_gone_is_cut_short_too() -> None:
    """Without the alarm clock this one stays for good."""
    assert ended("") == (-signal.SIGALRM, "hangs")
