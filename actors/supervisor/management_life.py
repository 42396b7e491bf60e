"""The page's warnings: only who looks at it misses it. Nothing about it keeps a cluster from starting or working."""

from __future__ import annotations

from ...protocol.status.members import AnyMember, ManagementMember
from ..config import ManagementConfig
from .reasons import WHOLE, Reason

ROLE = "ManagementNode"


def warnings(chosen: ManagementConfig, actors: list[AnyMember]) -> list[Reason]:
    """The troubles of the page. None of them is the cluster's."""
    if chosen.port < 0:
        return []
    page = next((actor for actor in actors if isinstance(actor, ManagementMember)), None)
    if page is None or not page.alive:
        text = "there is no page now: its process does not answer and is being replaced"
        return [Reason.of("page-away", WHOLE, text)]
    machine = page.machine
    if not machine:
        if page.error:
            return [Reason.of("member-mute", page.name, f"the page does not say how it is: {page.error}")]
        return [Reason.of("member-starting", page.name, "the page is starting")]
    found = [Reason.of("page-elsewhere", WHOLE, machine.trouble)] if machine.trouble else []
    return found + [
        Reason.of("page-blind", what, f"the page cannot ask for {what}: {why}") for what, why in machine.missed.items()
    ]
