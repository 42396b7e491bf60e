"""How an actor's process ends: by itself, in a way that Ray takes for an end; or at once, when it must not go on.

Ray tells the user's terminal of every actor that is killed, as of one that ran out of memory. A user is not to read
that because a cluster was stopped.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

from ..config import LogConfig
from ..process_logs import set_up
from .shell import DiskFailed, Retired

FIRST_LOGS = LogConfig()
"""Until an actor is told how the cluster's logs are."""
FENCE_PERIOD_S = 1.0
DISK_FAILED = 71
"""The exit code of a store whose disk has failed (`durable.md` 6)."""
DISK_FAILED_S = 0.3
"""The supervisor is told why within this time; links are closed by then, and nothing is written."""
QUIT_S = 5.0
"""Ray lets calls under way return before it ends an actor; they are waited for at most this long. Where many end at
once on a busy machine an end in good order has been seen to take 2 s."""

HUNG_S = 2.0
"""An end that hangs where no thread of Python's runs any more is cut short this much later."""


def quit() -> None:
    """End this actor from within one of its calls, which does not return."""
    from ray.actor import exit_actor

    at_the_latest(0)
    exit_actor()


def leave(error: BaseException) -> None:
    """The machine has stopped for good. Fail-stop: one that broke its own rule must not go on. One whose part is over,
    with nothing left that it could do, ends like any other: the actor calls its own `quit`, and Ray waits for a second
    for the answer to that before the process ends."""
    if isinstance(error, Retired):
        import ray

        at_the_latest(70)
        ray.get_runtime_context().current_actor.quit.remote()
        return
    if isinstance(error, DiskFailed):
        at_the_latest(DISK_FAILED, DISK_FAILED_S)
        return
    logging.shutdown()
    os._exit(70)


def fence(parent: int, name: str = "", logs: LogConfig = FIRST_LOGS) -> None:
    """End this process when `parent` is no longer its parent. A thread, so that a stuck event loop does not matter.

    What an actor's process logs has a time, and its name, from here on: else Python prints the bare text.
    """
    set_up(logs, name)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(FENCE_PERIOD_S)
        os._exit(75)

    threading.Thread(target=watch, name="fence", daemon=True).start()


def at_the_latest(code: int, within_s: float = QUIT_S) -> None:
    """Python stops its threads before a process is gone, this one among them, and Ray's own end, which comes after
    that, has been seen to hang: the system's alarm clock then ends the process, whatever it does."""

    def wait() -> None:
        time.sleep(within_s)
        os._exit(code)

    signal.setitimer(signal.ITIMER_REAL, within_s + HUNG_S)
    threading.Thread(target=wait, name="quit", daemon=True).start()
