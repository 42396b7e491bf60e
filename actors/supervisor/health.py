"""The health of a cluster, in words: every degraded state has its reason named; and the effect of one more loss.

Pure functions of what `Supervisor.status` has gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ...protocol.machine import OWNERSHIP
from ...protocol.wire.events import CLUSTER
from .address_book import broker_of
from .losses import Loss, called, losses, waiting
from .plan import Plan
from .tap_life import is_tap

Actor = dict[str, Any]
DECIDING_MS = 1000
"""Whether a queue may be deleted is mostly decided within some milliseconds."""


def complaints(plan: Plan, actors: list[Actor]) -> list[str]:
    """Reasons why the cluster is not whole; none when it is.

    Args:
        actors: as in `Supervisor.status`.
    """
    actors = [actor for actor in actors if not is_tap(actor)]  # its absence is a warning: `tap_life.warnings`
    wrong = _silent(actors)
    for actor in actors:
        if actor.get("alive") and "machine" not in actor:
            error = actor.get("error")
            wrong.append(
                f"{actor['name']} does not say how it is: {error}" if error else f"{actor['name']} is starting"
            )
    wrong += [
        f"{a['name']} and {peer} do not link: {why}" for a in actors for peer, why in a.get("refused", {}).items()
    ]
    brokers = {actor["name"]: actor["machine"] for actor in _of(actors, "BrokerNode")}
    missing = [broker for broker in plan.members if broker not in brokers]
    known = {actor["name"] for actor in actors}
    wrong += [f"broker {broker} is not there" for broker in missing if broker not in known]
    leading = leader(actors)
    voters = plan.members if leading is None else leading["machine"]["members"]
    gone = lost(actors)
    wrong = [str(loss) for loss in gone] + wrong
    barred = {name for loss in gone if loss.for_good and CLUSTER in loss.streams for name in loss.blank}
    named = any(CLUSTER in loss.streams for loss in gone)
    if not named and sum(voter in brokers for voter in voters) <= len(voters) // 2:
        wrong.append("no majority: nothing completes until more brokers are back")
    for name, machine in brokers.items():
        if name in barred:
            wrong.append(f"broker {name} cannot join: the majority that knew the wiring is lost")
        elif machine["blank"]:
            wrong.append(f"broker {name} is joining: it has no wiring yet")
        if machine["cut_off"]:
            wrong.append(f"broker {name} is cut off from the majority and serves nobody")
        if not machine["attached"]:
            wrong.append(f"broker {name} has no sequencer to ask")
        if not machine["replicas"]:
            wrong.append(f"broker {name} has no queue replica that is connected")
        if machine["homeless"]:
            wrong.append(f"broker {name} has no replica for {_count(len(machine['homeless']), 'queue')}")
    wrong += _condemned(brokers.values())
    if leading is None:
        wrong.append("no sequencer leads: nothing completes until one does")
    if not any(actor["machine"]["standing"] == "standby" for actor in _of(actors, "Sequencer")):
        wrong.append("no standby sequencer: the death of the one that leads would take longer to heal")
    wrong += _ownership([actor["name"] for actor in _of(actors, "Ownership")], leading, plan)
    return wrong + (_streams(leading["machine"], gone) if leading is not None else [])


def closed(plan: Plan, actors: list[Actor], serving: Collection[str]) -> list[str]:
    """Brokers that have all they need and take no clients yet: those were not told of them.

    Args:
        actors: as in `Supervisor.status`.
        serving: brokers that clients are told of.
    """
    ready = {a["name"] for a in _of(actors, "BrokerNode") if not a["machine"]["blank"] and not a["machine"]["leaving"]}
    return [f"broker {name} takes no clients yet" for name in plan.members if name in ready and name not in serving]


def figures(brokers: Collection[str], serving: Collection[str]) -> dict[str, int]:
    """How many brokers there are.

    Args:
        brokers: all that are to be there.
        serving: those that clients are told of.
    """
    return {"brokers_in_cluster": len(brokers), "brokers_taking_clients": len(serving)}


def office(actors: list[Actor]) -> dict[str, Any]:
    """The supervisor by what brokers know of it, for when it cannot be asked itself: as "supervisor" in
    `Supervisor.status`. `actors`: as there."""
    known = [actor["machine"].get("supervisor", {}) for actor in _of(actors, "BrokerNode")]
    best = max(known, key=lambda one: one.get("number", 0), default={})
    return {
        "pid": 0, "host": "", "name": best.get("name", ""), "number": best.get("number", 0), "confirmed": False,
    }  # fmt: skip


def lost(actors: list[Actor]) -> list[Loss]:
    """The streams that have no majority (`losses.py`). `actors`: as in `Supervisor.status`."""
    leading = leader(actors)
    return losses(waiting(actors, leading["machine"] if leading is not None else None))


def leader(actors: list[Actor]) -> Actor | None:
    """The sequencer that leads. One that was paused may still believe it does: the highest ballot tells."""
    leading = [actor for actor in _of(actors, "Sequencer") if actor["machine"]["standing"] == "leading"]
    return max(leading, key=lambda actor: actor["machine"]["ballot"], default=None)


def on_duty(leading: Actor | None) -> str:
    """The Ownership that passes consume locks on, by the sequencer that leads."""
    machine = leading["machine"] if leading is not None else {}
    return machine.get("duty", {}).get("name", OWNERSHIP)


def quorum_critical(plan: Plan, actors: list[Actor], *stopped: str) -> list[str]:
    """Why stopping these brokers now, with their queue replicas, would stop something; none when they may be stopped.

    Args:
        plan: a broker that is no member by it is not counted, even if it votes now.
        actors: as in `Supervisor.status`.
        stopped: broker ids: one, or several that go together.
    """
    leading = leader(actors)
    if leading is None:
        return ["no sequencer leads now: wait until one does"]
    down = {*stopped, *_not_serving(plan, actors)}
    members = [member for member in leading["machine"]["members"] if member in plan.members]
    up = [member for member in members if member not in down]
    if len(up) <= len(members) // 2:
        majority = len(members) // 2 + 1
        return [f"{_only(up)}, and a majority of the brokers is {majority}: nothing would complete"]
    silent = _silent_replicas(actors)
    unready: list[str] = []
    short: dict[tuple[tuple[str, ...], int], list[str]] = {}  # who would be left, who must be -> streams
    for name, stream in leading["machine"]["streams"].items():
        gone = {*down, *stream["blank"], *stream["missing"], *silent.get(name, ())}
        voters = [voter for voter in stream["voters"] if voter in plan.members]
        left = tuple(voter for voter in voters if voter not in gone)
        if not stream["ready"]:
            unready.append(name)
        elif len(left) <= len(voters) // 2:
            short.setdefault((left, len(voters) // 2 + 1), []).append(name)
    wrong = [f"{called(unready)}: not recovered yet, wait until that is done"] if unready else []
    for (left, majority), names in short.items():
        wrong.append(f"{called(names)}: {_only(left)}, and a majority of the replicas is {majority}")
    return wrong


def sharing_host(actors: list[Actor], broker: str) -> list[str]:
    """The brokers on the host of `broker`, itself among them."""
    hosts = {actor["name"]: actor["host"] for actor in actors if actor["role"] == "BrokerNode"}
    return [name for name in hosts if hosts[name] == hosts.get(broker)] or [broker]


def _of(actors: list[Actor], role: str) -> list[Actor]:
    """Those of a role that answer and say how they are."""
    return [actor for actor in actors if actor["role"] == role and actor.get("alive") and "machine" in actor]


def _ownership(there: list[str], leading: Actor | None, plan: Plan) -> list[str]:
    """The troubles of the two Ownerships. `there`: those that answer."""
    if not there:
        return ["no Ownership: consume locks do not move"]
    found: list[str] = []
    duty = leading["machine"].get("duty") if leading is not None else None
    if duty is not None and duty["silent_ms"] > plan.config.timing.ownership_alone_ms:
        found.append(
            f"consume locks do not move: {duty['name']} is on duty and has not answered the sequencer for "
            f"{duty['silent_ms'] / 1000:.0f} s, and no other Ownership answers it"
        )
    if len(there) == 1:
        found.append(f"no second Ownership: the end of {there[0]} would hold consume locks up until another is started")
    return found


def _silent(actors: list[Actor]) -> list[str]:
    """The actors that do not answer: a broker and its replicas in one line, since they mostly go together."""
    groups: dict[str, list[str]] = {}
    for actor in actors:
        if not actor.get("alive"):
            groups.setdefault(broker_of(actor["name"]), []).append(actor["name"])
    return [f"{', '.join(sorted(names))} {'does' if len(names) == 1 else 'do'} not answer" for names in groups.values()]


def _streams(machine: dict[str, Any], gone: list[Loss]) -> list[str]:
    stopped = {name for loss in gone for name in loss.streams}  # no voter is brought up to date there
    wrong = [f"broker {broker} is evicted" for broker in machine["absent"]]
    wrong += [
        f"flow control is on, no transfer completes: {behind['reason']} (for {behind['for_ms'] / 1000:.1f} s)"
        for behind in machine["flow"].values()
    ]
    found: dict[str, list[str]] = {}  # what is wrong -> streams
    for name, stream in machine["streams"].items():
        if name in stopped:
            continue
        if not stream["ready"]:
            found.setdefault("not recovered yet since a sequencer took over", []).append(name)
            continue
        if stream["blank"]:
            what = f"being brought up to date at {', '.join(sorted(stream['blank']))}"
            found.setdefault(what, []).append(name)
        if stream["missing"]:
            found.setdefault(f"no replica at {', '.join(sorted(stream['missing']))}", []).append(name)
    return wrong + [f"{called(names)}: {what}" for what, names in found.items()]


def _condemned(brokers: Iterable[dict[str, Any]]) -> list[str]:
    """Queues of which it is being decided for long whether they may be deleted, by what brokers say of themselves."""
    longest: dict[tuple[str, str], dict[str, Any]] = {}
    for machine in brokers:
        for one in machine.get("condemned", ()):
            known = longest.setdefault((one["queue"], one["by"]), one)
            if one["for_ms"] > known["for_ms"]:
                longest[one["queue"], one["by"]] = one
    wrong: list[str] = []
    for one in longest.values():
        if one["for_ms"] >= DECIDING_MS:
            name, conditions = one["queue"], [condition for condition in _WAITING if one[condition]]
            waits = " and ".join(_WAITING[condition] for condition in conditions)
            wrong.append(
                f"queue {name!r} is to be deleted {' and '.join(conditions)}, which broker {one['by']} has not decided "
                f"yet (for {one['for_ms'] / 1000:.1f} s): {waits} meanwhile; it stays when that takes too long, and "
                f"`mantamq queue delete {name} --force` decides at once"
            )
    return wrong


_WAITING = {"if_unused": "new consumers wait", "if_empty": "what is sent to it completes nowhere"}


def _not_serving(plan: Plan, actors: list[Actor]) -> set[str]:
    """Brokers that take no part now: a link to them may not have been given up yet."""
    brokers = {actor["name"]: actor["machine"] for actor in _of(actors, "BrokerNode")}
    return {b for b in plan.members if b not in brokers or brokers[b]["blank"] or not brokers[b]["attached"]}


def _silent_replicas(actors: list[Actor]) -> dict[str, set[str]]:
    """Queue id -> brokers whose replica of it does not answer."""
    silent = {actor["name"] for actor in actors if actor["role"] == "QueueReplica" and not actor.get("alive")}
    found: dict[str, set[str]] = {}
    for actor in _of(actors, "BrokerNode"):
        for replica, queues in actor["machine"]["replicas"].items():
            if replica in silent:
                for queue in queues:
                    found.setdefault(queue, set()).add(broker_of(replica))
    return found


def _only(left: tuple[str, ...] | list[str]) -> str:
    return f"only {', '.join(left)} would be left" if left else "nobody would be left"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
