"""A program that is asked to end runs its exit handlers, whatever Ray has put in the place of Python's handler."""

from __future__ import annotations

import subprocess
import sys

# A library's handler, as Ray's core has one: it takes Python's place without Python's knowledge, and aborts.
PROGRAM = """
import ctypes, os, signal, threading
from mantamq.actors.ray_control import sigterm

libc = ctypes.CDLL(None)
libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
def joins():
    libc.signal(signal.SIGTERM, ctypes.cast(libc.abort, ctypes.c_void_p))
def ends():
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


def ran(rest: str) -> tuple[int, str]:
    """How a program ended, and what it printed."""
    done = subprocess.run([sys.executable, "-c", PROGRAM + rest], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip()


def test_what_a_library_has_put_in_its_place_is_put_back() -> None:
    assert ran("try:\n with sigterm.kept(): joins()\n ends()\nfinally: print('finally')") == (143, "finally")


def test_a_program_keeps_the_way_in_which_it_is_asked_to_end() -> None:
    own = "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True) or os._exit(7))\n"
    assert ran(own + "with sigterm.kept(): joins()\nends()") == (7, "asked")
    assert ran("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwith sigterm.kept(): joins()\n"
               "os.kill(os.getpid(), signal.SIGTERM); print('goes on')") == (0, "goes on")  # fmt: skip


def test_another_thread_changes_nothing_and_fails_at_nothing() -> None:
    rest = "def other():\n with sigterm.kept(): print('joined', flush=True)\n"
    rest += "thread = threading.Thread(target=other); thread.start(); thread.join()\nends()"
    assert ran(rest) == (-15, "joined")
