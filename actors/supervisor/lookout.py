"""What can be said of a cluster that cannot be asked in the usual way: its supervisor is out of reach, or Ray's control
store is. Its members know enough: a program that asks must not hear that there is no cluster while clients are served.

    supervisor answers           its status
    it does not                  every actor that Ray knows by name, and the copy of the address book that brokers keep
    Ray's control store is away  brokers, at the client addresses that were written down when the cluster was started
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ray

from ...protocol.errors import LocalError
from ...protocol.machine import EVENTS
from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.machines import BrokerStatus
from ...protocol.status.members import AnyMember, BrokerMember
from ..members.moves import moved
from ..ray_control.placement import Placement, is_supervisor, number_of_supervisor
from ..ray_control.ray_handles import Handle
from .address_book import is_broker
from .health import brokers, complaints, lost, office
from .losses import losses
from .plan import Plan
from .reasons import WHOLE, Reason, texts
from .reports import in_book
from .supervisor_state import SupervisorState

SUPERVISOR_S = 1.5
ACTORS_S = 1.5
ASKED_S = 1.0
TAP_S = 2.0


class Lookout:
    """A picklable callable: the status of the cluster, for one of its processes that sees it from outside."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def __call__(self) -> ClusterStatus:
        """Blocks for some seconds where the supervisor does not answer.

        Raises:
            LocalError: actors are there and none says anything, or none is there.
        """
        found = by_names(self._placement)
        if found is None:
            raise LocalError("no process of the cluster is known to Ray any more")
        return found

    def newest(self, kinds: list[str], queue: str, count: int) -> list[dict[str, Any]]:
        """As of `EventKeeper`."""
        return self._asked_tap("newest", list(kinds), queue, count)

    def note(self, stream: str, first: int, rows: list[list[Any]]) -> int:
        """As of `EventKeeper`."""
        return self._asked_tap("note", stream, first, rows)

    def _asked_tap(self, method: str, *values: Any) -> Any:
        try:
            tap = self._placement.find(EVENTS)
        except Exception as error:  # whatever Ray raises while its control store is away
            raise LocalError(f"Ray cannot be asked who keeps the events: {error}") from None
        if tap is None:
            raise LocalError("nobody is known to Ray who keeps events")
        try:
            return tap.call_now(method, *values, timeout_s=TAP_S)
        except AttributeError:
            raise LocalError("who keeps the events is of a version that cannot be asked for them") from None


def by_names(placement: Placement) -> ClusterStatus | None:
    """The status of the cluster that Ray knows by its actors' names; None when there is none.

    Raises:
        LocalError: actors are there, and none says anything.
    """
    names = placement.names()
    there = _found(placement, sorted(filter(is_supervisor, names), key=number_of_supervisor))
    supervisors = list(there)
    asked = {name: handle.begin("status", ASKED_S) for name, handle in there.items()}
    answers = _statuses(asked, SUPERVISOR_S)
    if not answers:
        members = _found(placement, [name for name in names if not is_supervisor(name)])
        if not members:
            return None
        status = _by_members(members, placement, supervisors)
        answers = _statuses(asked, 0.0)  # it may have been slow, and no more
        if not answers:
            return status
    return _in_office(answers)


def _found(placement: Placement, names: list[str]) -> dict[str, Handle]:
    """Those of that name which are there yet. A handle costs as much as a call: a page asks every second."""
    return {name: handle for name in names if (handle := placement.find(name)) is not None}


def _statuses(asked: Mapping[str, Any], timeout_s: float) -> dict[str, ClusterStatus]:
    found: dict[str, ClusterStatus] = {}
    for name, said in _answers(asked, timeout_s).items():
        with suppress(LocalError):  # of another version: its members tell
            found[name] = ClusterStatus.read(said)
    return found


def _in_office(answers: dict[str, ClusterStatus]) -> ClusterStatus:
    """The status of the supervisor that a majority of the brokers confirms; else of the latest that knows the
    cluster. A supervisor that was cut off may have its name yet, and answer.

    Args:
        answers: name -> status; one at least.
    """

    def rank(name: str) -> tuple[bool, bool, int]:
        status = answers[name]
        return status.supervisor.confirmed, bool(status.actors), number_of_supervisor(name)

    return answers[max(answers, key=rank)]


def _by_members(members: dict[str, Handle], placement: Placement, supervisors: list[str]) -> ClusterStatus:
    names = [name for name in members if is_broker(name)]
    copies = {name: members[name].begin("recall") for name in names}
    states = {name: handle.begin("status") for name, handle in members.items()}
    found = _answers({f"copy {n}": r for n, r in copies.items()} | states, ACTORS_S)
    packed = [found[f"copy {name}"] for name in names if isinstance(found.get(f"copy {name}"), bytes)]
    if not packed:
        raise LocalError(
            f"actors of a cluster are there ({', '.join(sorted(members)[:5])}, ...) and none of its brokers answers: "
            "they may be out of reach from here; ask on another host"
        )
    kept = max(map(SupervisorState.unpacked, packed), key=lambda one: one.version)
    mute = {"alive": False, "error": "it does not answer"}
    actors = [in_book(name, entry, found.get(name, mute)) for name, entry in kept.book.items()]
    silent = f"{', '.join(supervisors)} does not answer" if supervisors else "there is no supervisor now"
    first = f"{silent}: what dies meanwhile is not replaced; brokers start another when a majority misses it too"
    return _status(kept.plan, actors, Reason.of("no-supervisor", WHOLE, first), kept.cluster, placement.namespace)


def _status(plan: Plan, actors: list[AnyMember], first: Reason, cluster: str, namespace: str) -> ClusterStatus:
    whole = {name for name, broker in brokers(actors).items() if not broker.blank}
    serving = {actor.name: actor.address for actor in actors if actor.name in whole}
    wrong = [first, *complaints(plan, actors)]
    return ClusterStatus(
        cluster=cluster, namespace=namespace, stage="without its supervisor", uptime_s=0.0,
        brokers=list(plan.members), members=serving, brokers_in_cluster=len(plan.members),
        brokers_taking_clients=len(serving), authenticated=bool(plan.config.token), supervisor=office(actors),
        healthy=False, unhealthy=texts(wrong), lost=[loss.report() for loss in lost(actors)],
        moved=moved(actors), alerts=[reason.alert() for reason in wrong], actors=actors,
    )  # fmt: skip


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


def by_ports(members: Mapping[str, str], ask: Callable[[str], BrokerStatus | str], why: str) -> ClusterStatus | None:
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
    told = {name: state for name, state in states.items() if isinstance(state, BrokerStatus)}
    if not told:
        return None
    gone = losses(min(told.values(), key=lambda state: state.waiting_heard_ms or 1 << 30).waiting)
    voters = max((state.voters for state in told.values()), key=len) or list(members)
    text = f"Ray cannot be asked ({why}): what dies meanwhile is not replaced"
    wrong = [Reason.of("ray-silent", WHOLE, text), *(loss.reason() for loss in gone)]
    wrong += [
        Reason.of("member-silent", name, f"broker {name} at {members[name]}: {state}")
        for name, state in states.items()
        if name not in told
    ]
    wrong += [
        Reason.of("broker-unknown", name, f"broker {name} is not known here: where it is was not written down")
        for name in voters
        if name not in states
    ]
    actors: list[AnyMember] = []
    for name, at in members.items():
        actor = BrokerMember(name=name, role="BrokerNode", alive=name in told, address=at, host=at.rpartition(":")[0])
        if name in told:
            actor.machine, actor.clients = told[name], told[name].connections
        actors.append(actor)
    serving = {name: members[name] for name, state in told.items() if not state.cut_off and not state.blank}
    return ClusterStatus(
        cluster="", namespace="", stage="seen from its clients' side only", uptime_s=0.0, brokers=voters,
        members=serving, brokers_in_cluster=len(voters), brokers_taking_clients=len(serving), authenticated=False,
        supervisor=office(actors), healthy=False, unhealthy=texts(wrong), lost=[loss.report() for loss in gone],
        alerts=[reason.alert() for reason in wrong], actors=actors,
    )  # fmt: skip
