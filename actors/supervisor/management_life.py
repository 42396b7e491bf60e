"""The page's warnings: only who looks at it misses it. Nothing about it keeps a cluster from starting or working."""

from __future__ import annotations

from ...protocol.status.members import AnyMember, ManagementMember
from ..config import ManagementConfig

ROLE = "ManagementNode"


def warnings(chosen: ManagementConfig, actors: list[AnyMember]) -> list[str]:
    """The troubles of the page. None of them is the cluster's."""
    if chosen.port < 0:
        return []
    page = next((actor for actor in actors if isinstance(actor, ManagementMember)), None)
    if page is None or not page.alive:
        return ["there is no page now: its process does not answer and is being replaced"]
    if not page.machine:
        return [f"the page does not say how it is: {page.error}" if page.error else "the page is starting"]
    found = [page.machine.trouble] if page.machine.trouble else []
    return found + [f"the page cannot ask for {what}: {why}" for what, why in page.machine.missed.items()]
