"""Ray's helpers of a node, which run only when nobody else wants the processor: brokers do not wait for them.

The agent of Ray's dashboard measures the node every few seconds, with 3 to 9 ms of processor at a time, and the log
monitor reads the logs: on two cores a third of the slowest messages were slow for that. Nobody waits for what they do:

- A raylet ends with its agent. It looks whether the agent's process is there, and not how soon that answers; and the
  agent gives up nothing because it is late: what fails it logs, and tries again. It looks itself whether the raylet
  lives (every 0.4 s), so it may end later than that.
- A raylet waits for the ports of its agent once, before it is a node: so they are there when Ray has started, and give
  way from then on only.
- Workers tell the agent their metrics, with a time-out, and go on without.
- ``ray job submit`` goes through the agent: beside six programs that never paused, on two cores, that took 63 s instead
  of 8 (26 s with the agent at nice 19). The dashboard's server waits for five minutes.
- Logs reach the programs that print them later.

Linux keeps a share for what gives way (0.3 % of a processor beside one program that wants all of it), so the helpers do
not stand still. Ray's other programs do not give way: actors wait for the agent of runtime environments, everything for
the raylet and the control store.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

PROGRAMS = ("/ray/dashboard/agent.py", "/ray/_private/log_monitor.py")
RENAMED = "ray::DashboardAgent"
"""What the agent calls itself, in the place of its command line, once it runs."""


def is_helper(words: list[str]) -> bool:
    """Whether this is the command line of a helper."""
    return words[:1] == [RENAMED] or any(word.endswith(PROGRAMS) for word in words[:4])


def give_way(processes: Iterable[psutil.Process]) -> list[int]:
    """Have the helpers among these processes run only when nobody else wants the processor.

    Returns their process ids; none where the system has no such thing, or does not allow it.
    """
    if not hasattr(os, "SCHED_IDLE"):
        return []
    found = []
    for process in processes:
        with suppress(psutil.Error):
            if is_helper(process.cmdline()):
                try:
                    _idle(process.pid)
                    found.append(process.pid)
                except OSError as error:
                    log.debug(
                        "%(pid)d, a helper of Ray's, does not give way: %(reason)s",
                        {"pid": process.pid, "reason": error},
                    )
    return found


def _idle(pid: int) -> None:
    """All threads of a process. A thread begins as the one that starts it is by then: so look until none is left."""
    idle: set[int] = set()
    while left := {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()} - idle:
        for thread in left:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        idle |= left
