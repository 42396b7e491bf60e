"""What can be said of a cluster that cannot be asked in the usual way: its supervisor is out of reach, or Ray's control
store is. Its members know enough: a program that asks must not hear that there is no cluster while clients are served.

    supervisor answers           its status
    it does not                  every actor that Ray knows by name, and the copy of the address book that brokers keep
    Ray's control store is away  brokers, at the client addresses that were written down when the cluster was started
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from ...protocol.errors import LocalError
from ..members.moves import moved
from ..ray_control.placement import Placement, is_supervisor, number_of_supervisor
from ..ray_control.ray_handles import Handle
from .address_book import is_broker
from .health import complaints, figures, lost, office
from .losses import losses
from .plan import Plan
from .supervisor_state import SupervisorState

SUPERVISOR_S = 1.5
ACTORS_S = 1.5
ASKED_S = 1.0
Report = dict[str, Any]


def by_names(placement: Placement) -> Report | None:
    """The status of the cluster that Ray knows by its actors' names; None when there is none.

    Raises:
        LocalError: actors are there, and none says anything.
    """
    names = placement.names()
    handles = {name: handle for name in names if (handle := placement.find(name)) is not None}
    supervisors = sorted(filter(is_supervisor, handles), key=number_of_supervisor)
    asked = {name: handles[name].begin("status", ASKED_S) for name in supervisors}
    answers = _answers(asked, SUPERVISOR_S)
    if not answers:
        members = {name: handle for name, handle in handles.items() if name not in supervisors}
        if not members:
            return None
        report = _by_members(members, placement, supervisors)
        answers = _answers(asked, 0.0)  # it may have been slow, and no more
        if not answers:
            return report
    return _in_office(answers)


def _in_office(answers: dict[str, Report]) -> Report:
    """The status of the supervisor that a majority of the brokers confirms; else of the latest that knows the
    cluster. A supervisor that was cut off may have its name yet, and answer.

    Args:
        answers: name -> status; one at least.
    """

    def rank(name: str) -> tuple[bool, bool, int]:
        report = answers[name]
        return report["supervisor"]["confirmed"], bool(report["actors"]), number_of_supervisor(name)

    return answers[max(answers, key=rank)]


def _by_members(members: dict[str, Handle], placement: Placement, supervisors: list[str]) -> Report:
    brokers = [name for name in members if is_broker(name)]
    copies = {name: members[name].begin("recall") for name in brokers}
    states = {name: handle.begin("status") for name, handle in members.items()}
    found = _answers({f"copy {n}": r for n, r in copies.items()} | states, ACTORS_S)
    packed = [found[f"copy {name}"] for name in brokers if isinstance(found.get(f"copy {name}"), bytes)]
    if not packed:
        raise LocalError(
            f"actors of a cluster are there ({', '.join(sorted(members)[:5])}, ...) and none of its brokers answers: "
            "they may be out of reach from here; ask on another host"
        )
    kept = max(map(SupervisorState.unpacked, packed), key=lambda one: one.version)
    actors: list[Report] = []
    for name, entry in kept.book.items():
        said = found.get(name)
        state = {"alive": True, **said} if isinstance(said, dict) else {"alive": False, "error": "it does not answer"}
        place = {"pid": entry.pid, "node": entry.node, "host": entry.host, "loop": entry.loop}
        address = entry.clients or entry.peers
        actors.append({"name": name, "role": entry.role, **place, "address": address, **state})
    silent = f"{', '.join(supervisors)} does not answer" if supervisors else "there is no supervisor now"
    first = f"{silent}: what dies meanwhile is not replaced; brokers start another when a majority misses it too"
    return _report(kept.plan, actors, [first], kept.cluster, placement.namespace)


def _report(plan: Plan, actors: list[Report], first: list[str], cluster: str, namespace: str) -> Report:
    serving = {
        a["name"]: a["address"]
        for a in actors
        if a["role"] == "BrokerNode" and a.get("alive") and not a.get("machine", {}).get("blank", True)
    }
    return {
        "cluster": cluster, "namespace": namespace, "stage": "without its supervisor", "uptime_s": 0.0,
        "brokers": list(plan.members), "members": serving, "change": "", "authenticated": bool(plan.config.token),
        **figures(plan.members, serving), "supervisor": office(actors), "moved": moved(actors), "healthy": False,
        "unhealthy": first + complaints(plan, actors),
        "lost": [loss.facts() for loss in lost(actors)], "warnings": [], "actors": actors,
    }  # fmt: skip


def _answers(asked: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The answers that came in time, by name."""
    if not asked:
        return {}
    ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout_s)
    found: dict[str, Any] = {}
    for name, reference in asked.items():
        if reference in ready:
            try:
                found[name] = ray.get(reference, timeout=1)
            except Exception:
                continue
    return found


def by_ports(members: Mapping[str, str], ask: Callable[[str], Report | str], why: str) -> Report | None:
    """The brokers' reports of themselves, asked for at their client addresses; None when none of them answers.

    Args:
        members: broker -> address, as written down.
        ask: asks a broker at an address for its own report; else returns why there is none.
        why: why Ray cannot be asked.
    """
    if not members:
        return None
    with ThreadPoolExecutor(len(members)) as pool:
        states = dict(zip(members, pool.map(ask, members.values()), strict=True))
    told = {name: state for name, state in states.items() if isinstance(state, dict)}
    if not told:
        return None
    best = min(told.values(), key=lambda state: state.get("waiting_heard_ms", 0) or 1 << 30)
    gone = losses(best.get("waiting", ()))
    voters = max((state.get("voters", []) for state in told.values()), key=len) or list(members)
    wrong = [f"Ray cannot be asked ({why}): what dies meanwhile is not replaced", *map(str, gone)]
    wrong += [f"broker {name} at {members[name]}: {state}" for name, state in states.items() if name not in told]
    wrong += [
        f"broker {name} is not known here: where it is was not written down" for name in voters if name not in states
    ]
    actors = [
        {
            "name": name, "role": "BrokerNode", "alive": name in told, "pid": 0, "node": "", "loop": "", "address": at,
            "host": at.rpartition(":")[0],
            **({"machine": told[name], "clients": told[name]["connections"]} if name in told else {}),
        }
        for name, at in members.items()
    ]  # fmt: skip
    serving = {name: members[name] for name, state in told.items() if not state["cut_off"] and not state["blank"]}
    return {
        "cluster": "", "namespace": "", "stage": "seen from its clients' side only", "uptime_s": 0.0,
        "brokers": voters, "members": serving, "change": "", "authenticated": False,
        **figures(voters, serving), "supervisor": office(actors), "moved": [],
        "healthy": False, "unhealthy": wrong, "lost": [loss.facts() for loss in gone], "warnings": [], "actors": actors,
    }  # fmt: skip
