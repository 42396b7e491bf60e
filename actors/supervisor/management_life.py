"""The page's warnings: only who looks at it misses it. Nothing about it keeps a cluster from starting or working."""

from __future__ import annotations

from ...protocol.errors import LocalError
from ...protocol.status.members import AnyMember, ManagementMember
from ...protocol.supervisor.start_pauses import StartPauses
from ..config import ManagementConfig
from .health import speechless
from .reasons import WHOLE, Reason

ROLE = "ManagementNode"


class PageDown(LocalError):
    """The page could not start; it is tried again after a pause, for which nobody else waits."""


def warnings(chosen: ManagementConfig, actors: list[AnyMember], starts: StartPauses, now_ms: int) -> list[Reason]:
    """The troubles of the page. None of them is the cluster's.

    Args:
        starts: of its process, by the clock of `now_ms`.
    """
    if chosen.port < 0:
        return []
    page = next((actor for actor in actors if isinstance(actor, ManagementMember)), None)
    if page is None or not page.alive:
        return [Reason.of("page-away", WHOLE, f"there is no page now: {_away(starts, now_ms)}")]
    machine = page.machine
    if not machine:
        return speechless(page, "the page")
    found = [Reason.of("page-elsewhere", WHOLE, machine.trouble)] if machine.trouble else []
    return found + [
        Reason.of("page-blind", what, f"the page cannot ask for {what}: {why}") for what, why in machine.missed.items()
    ]


def _away(starts: StartPauses, now_ms: int) -> str:
    if not starts.why:
        return "its process does not answer and is being replaced"
    wait_ms = starts.wait_ms(now_ms)
    return f"{starts.why}; it is tried again {f'in {wait_ms / 1000:.0f} s' if wait_ms else 'now'}"
