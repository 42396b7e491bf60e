"""The tap's needs, and its warnings: only readers of events miss a tap.

A start is refused if the directory cannot be written, since a user is there to hear it. Later nothing about the tap
keeps a cluster from working, healing or stopping: its troubles are warnings.
"""

from __future__ import annotations

import importlib.util

from ...protocol.errors import LocalError
from ...protocol.status.members import AnyMember, TapMember
from .health import speechless
from .reasons import WHOLE, Reason

ROLE = "EventTap"
INSTALL = "pip install 'mantamq[events]'"


def missing() -> str:
    """The packages that the tap needs and this Python lacks, "" for none."""
    return " and ".join(name for name in ("pyarrow", "fsspec") if importlib.util.find_spec(name) is None)


def check(directory: str) -> None:
    """Raises:
    LocalError: events are wanted, and cannot be kept with what is installed here.
    """
    if directory and missing():
        raise LocalError(
            f"keeping events needs {missing()}, not installed here: {INSTALL}, or start without (`mantamq up --events "
            "off`, start_cluster(events=None))"
        )


def warnings(directory: str, actors: list[AnyMember]) -> list[Reason]:
    """The troubles of the events. None of them is the cluster's."""
    if not directory:
        return []
    tap = next((actor for actor in actors if isinstance(actor, TapMember)), None)
    if tap is None or not tap.alive:
        text = "events are not captured now: the tap does not answer and is being replaced"
        return [Reason.of("events-not-captured", WHOLE, text)]
    machine = tap.machine
    if not machine:
        return speechless(tap, "the tap")
    found: list[Reason] = []
    if machine.error:
        found.append(Reason.of("events-unwritten", WHOLE, f"events cannot be written: {machine.error}"))
    if machine.dropped:
        text = f"{machine.dropped:,} events are missing from the table: the tap was away or too slow"
        found.append(Reason.of("events-dropped", WHOLE, text))
    if machine.untold:
        text = f"nobody has the beginning of {len(machine.untold)} streams of events"
        found.append(Reason.of("events-untold", WHOLE, text))
    return found
