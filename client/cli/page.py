"""Where the page of a cluster is."""

from __future__ import annotations

import time
from typing import Any

from ...protocol.status.members import ManagementMember

WAIT_S = 10.0
"""The page begins when everything else is there."""
_LOOK_S = 0.2


def page_of(cluster: Any, wait_s: float = WAIT_S) -> str:
    """Its URL, once it is there; "" where there is none, or none within that time.

    Args:
        cluster: from `find_cluster` or `start_cluster`.
    """
    if not cluster.paged:
        return ""
    until = time.monotonic() + wait_s
    while True:
        for actor in cluster.report().actors:
            if isinstance(actor, ManagementMember) and actor.machine:
                return f"http://{actor.machine.address}"
        if time.monotonic() > until:
            return ""
        time.sleep(_LOOK_S)
