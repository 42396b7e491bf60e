"""Which broker may leave a running cluster, judged by what actors report. Pure. How it leaves is decided in
`../../protocol/supervisor/changes.py`."""

from __future__ import annotations

from ...protocol.status.members import AnyMember
from .health import quorum_critical
from .plan import Plan


def may_leave(plan: Plan, actors: list[AnyMember], broker: str) -> list[str]:
    """Why this broker may not leave now; none when it may."""
    if broker not in plan.members:
        return [f"there is no broker {broker!r} in this cluster: it has {', '.join(plan.members)}"]
    if len(plan.members) == 1:
        return [f"{broker} is the last broker: stop the cluster instead, with `mantamq down`"]
    reasons = quorum_critical(plan.left_by(broker), actors)
    return [f"without {broker}: {reason}; wait until the others are whole" for reason in reasons]
