"""Which hosts may not fail now, and why: said in `status`. Where actors go is `../../protocol/supervisor/layout.py`.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...protocol.status.members import AnyMember, BrokerMember, SequencerMember
from .health import leader, quorum_critical
from .plan import Plan
from .reasons import Reason


def on_host(actors: list[AnyMember], host: str) -> list[str]:
    """The brokers on a host."""
    return [actor.name for actor in actors if isinstance(actor, BrokerMember) and actor.host == host]


def frail(plan: Plan, actors: list[AnyMember], hosts: int = 0) -> list[Reason]:
    """Why one host may not fail now: for each such host, what it carries. None when any one may, and none for a cluster
    that was begun on a single host and has no other.

    Args:
        actors: all members.
        hosts: how many Ray has now that may carry brokers; 0 when that is not known.
    """
    used = sorted({actor.host for actor in actors if isinstance(actor, BrokerMember)})
    if len(plan.members) < 2 or max(len(used), plan.hosts, hosts) < 2:
        return []
    found: list[Reason] = []
    for host in used:
        brokers = on_host(actors, host)
        why: list[str] = []
        if len(brokers) > 1 and len(plan.members) > 2 and 2 * (len(plan.members) - len(brokers)) <= len(plan.members):
            majority = len(plan.members) // 2 + 1
            why.append(f"it carries {_and(brokers)}, and a majority of the brokers is {majority}")
        sequencers = [a for a in actors if isinstance(a, SequencerMember) and a.alive]
        if len(sequencers) > 1 and {a.host for a in sequencers} == {host}:
            why.append(f"it carries every sequencer ({_and([a.name for a in sequencers])})")
        if why:
            found.append(Reason.of("host-frail", host, f"host {host} may not fail now, since {'; '.join(why)}"))
    return found


def critical_hosts(plan: Plan, actors: list[AnyMember]) -> dict[str, dict[str, Any]]:
    """Host -> the brokers it carries, and what would stop if all of them did, as `Supervisor.quorum_critical`."""
    answers: dict[str, dict[str, Any]] = {}
    hosts = sorted({actor.host for actor in actors if isinstance(actor, BrokerMember)})
    for host in hosts if len(hosts) > 1 else ():
        brokers = on_host(actors, host)
        reasons = quorum_critical(plan, actors, *brokers)
        leading = leader(actors)
        others = [a for a in actors if isinstance(a, SequencerMember) and a.alive and a.host != host]
        if not reasons and leading is not None and leading.host == host and not others:
            reasons = ["every sequencer would be gone: nothing completes until others have been started"]
        answers[f"host {host}"] = {"together": brokers, "reasons": reasons}
    return answers


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
