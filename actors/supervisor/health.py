"""The health of a cluster, in words: every degraded state has its named reason; and the effect of one more loss.

Pure functions of what `Supervisor.status` has gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec import UNSET

from ...protocol.machine import OWNERSHIP
from ...protocol.sequencer.election import LEADING, STANDBY
from ...protocol.status.cluster import SupervisorStatus
from ...protocol.status.machines import BrokerStatus, CondemnedStatus, OfficeStatus, SequencerStatus
from ...protocol.status.members import (
    AnyMember,
    BrokerMember,
    ManagementMember,
    OwnershipMember,
    ReplicaMember,
    SequencerMember,
    StoreMember,
    TapMember,
)
from ...protocol.status.stores import StoreStatus
from ...protocol.wire.events import CLUSTER
from .address_book import broker_of
from .losses import Loss, called, losses, waiting
from .plan import Plan
from .reasons import WHOLE, Reason

NAMED = 3
"""Queues that a line names; the rest are counted."""
DECIDING_MS = 1000
"""Whether a queue may be deleted is mostly decided within some milliseconds."""


def brokers(actors: Iterable[AnyMember]) -> dict[str, BrokerStatus]:
    """The brokers that answer and say how they are."""
    return {a.name: a.machine for a in actors if isinstance(a, BrokerMember) and a.alive and a.machine}


def sequencers(actors: Iterable[AnyMember]) -> list[SequencerStatus]:
    """The sequencers that answer and say how they are."""
    return [a.machine for a in actors if isinstance(a, SequencerMember) and a.alive and a.machine]


def complaints(plan: Plan, actors: list[AnyMember]) -> list[Reason]:
    """Reasons why the cluster is not whole; none when it is."""
    known = {actor.name for actor in actors}
    # The absence of these two is a warning: `tap_life.warnings`, `management_life.warnings`.
    actors = [a for a in actors if not isinstance(a, TapMember | ManagementMember)]
    leading, gone, there = leader(actors), lost(actors), brokers(actors)
    wrong = [loss.reason() for loss in gone] + _silent(actors)
    for actor in actors:
        wrong += speechless(actor)
    for name, peer, why in _unlinked(actors):
        if peer in known:
            wrong.append(Reason.of("members-unlinked", f"{name} {peer}", f"{name} and {peer} do not link: {why}"))
    for broker in plan.members:
        if broker not in known:
            wrong.append(Reason.of("broker-missing", broker, f"broker {broker} is not there"))
    voters = plan.members if leading is None else leading.machine.members
    barred = {name for loss in gone if loss.for_good and CLUSTER in loss.streams for name in loss.blank}
    named = any(CLUSTER in loss.streams for loss in gone)
    if not named and sum(voter in there for voter in voters) <= len(voters) // 2:
        wrong.append(Reason.of("no-majority", WHOLE, "no majority: nothing completes until more brokers are back"))
    for name, broker in there.items():
        wrong += _broker(name, broker, name in barred)
    wrong += _stopping(there)
    for store in stores(actors):
        wrong += _store(store)
    wrong += _condemned(there.values())
    if leading is None:
        wrong.append(Reason.of("no-leader", WHOLE, "no sequencer leads: nothing completes until one does"))
    if not any(sequencer.role == STANDBY for sequencer in sequencers(actors)):
        text = "no standby sequencer: the death of the one that leads would take longer to heal"
        wrong.append(Reason.of("no-standby", WHOLE, text))
    wrong += _ownership(actors, leading, plan)
    return wrong + (_streams(leading.machine, gone) if leading is not None else [])


def speechless(actor: AnyMember, called: str = "") -> list[Reason]:
    """Why a member that answers does not say how it is; none if it does, or does not answer.

    Args:
        called: how it is called in the sentence, its name for "".
    """
    if not actor.alive or actor.machine is not UNSET:
        return []
    called = called or actor.name
    if actor.error:
        return [Reason.of("member-mute", actor.name, f"{called} does not say how it is: {actor.error}")]
    return [Reason.of("member-starting", actor.name, f"{called} is starting")]


def _broker(name: str, broker: BrokerStatus, barred: bool) -> Iterator[Reason]:
    """The troubles of a broker. `barred`: the majority that knew the wiring is lost, and so is what it knew."""
    if barred:
        text = f"broker {name} cannot join: the majority that knew the wiring is lost"
        yield Reason.of("broker-barred", name, text)
    elif broker.blank:
        yield Reason.of("broker-joining", name, f"broker {name} is joining: it has no wiring yet")
    if broker.cut_off:
        text = f"broker {name} is cut off from the majority and serves nobody"
        yield Reason.of("broker-cut-off", name, text, broker.unconfirmed_ms)
    if not broker.attached:
        yield Reason.of("broker-without-sequencer", name, f"broker {name} has no sequencer to ask")
    if not broker.replicas:
        text = f"broker {name} has no queue replica that is connected"
        yield Reason.of("broker-without-replicas", name, text)
    if broker.homeless:
        text = f"broker {name} has no replica for {_count(len(broker.homeless), 'queue')}"
        yield Reason.of("queues-without-replica", name, text)


def _stopping(there: dict[str, BrokerStatus]) -> list[Reason]:
    """Who lets nobody in since the cluster is being stopped; and what becomes of that."""
    left = {name: one.stop_left_ms for name, one in there.items() if one.stop_left_ms is not UNSET}
    if not left:
        return []
    names = f"{', '.join(sorted(left))} {'lets' if len(left) == 1 else 'let'}"
    text = (
        f"{names} no client in: the cluster is being stopped; if that comes to nothing, it goes on in "
        f"{max(left.values()) / 1000:.0f} s (`mantamq down` stops it)"
    )
    return [Reason.of("cluster-stopping", WHOLE, text)]


def stores(actors: Iterable[AnyMember]) -> list[StoreStatus]:
    """The stores that answer and say how they are."""
    return [a.machine for a in actors if isinstance(a, StoreMember) and a.alive and a.machine]


def _store(store: StoreStatus) -> Iterator[Reason]:
    """The troubles of a broker's store, each with what to do."""
    if store.pressed:
        how = "half of its reserve is gone" if store.full else "its reserve is begun"
        text = f"{store.name} has no room ({how}): transfers wait until there is some; make it in {store.folder}"
        yield Reason.of("store-full", store.name, text)
    hurt = [stream for log in store.logs.values() for stream in log.hurt]
    if hurt:
        names = ", ".join(hurt[:NAMED]) + (f" and {len(hurt) - NAMED} more" if len(hurt) > NAMED else "")
        text = f"{store.name} cannot read all of {names}: others that have it bring it up to date"
        yield Reason.of("store-unreadable", store.name, text)


def store_warnings(actors: Iterable[AnyMember]) -> list[Reason]:
    """What is worth a look at disks while nothing stands still for it."""
    found, worth = list(stores(actors)), list[Reason]()
    for store in found:
        for log, one in store.logs.items():
            if one.damage:
                places = _count(len(one.damage), "place")
                text = f"the log {log} of {store.name} was damaged on its disk ({places}): see to the disk"
                worth.append(Reason.of("store-damaged", f"{store.name} {log}", text))
    for store in found:
        if store.catalog:
            text = f"{store.name} cannot save the wiring in its catalogue, and its transaction log grows: "
            worth.append(Reason.of("catalogue-unsaved", store.name, text + store.catalog))
    return worth


def stranger_warnings(actors: list[AnyMember]) -> list[Reason]:
    """Processes that were turned away and are none of this cluster: left of an earlier start of it, or of another
    cluster that dials ports which its own members had once. Nothing here stands still for them; a member that is turned
    away says so itself."""
    known = {actor.name for actor in actors}
    return [
        Reason.of(
            "stranger-refused", f"{name} {peer}", f"{name} has turned away {peer}, which is not of this cluster: {why}"
        )
        for name, peer, why in _unlinked(actors)
        if peer not in known
    ]


def _unlinked(actors: Iterable[AnyMember]) -> Iterator[tuple[str, str, str]]:
    """Member, peer with which it did not link a moment ago, and why: the peer has a member's name where it was dialled,
    and that in quotes, with its address, where it called and did not prove it."""
    for actor in actors:
        for peer, why in (actor.refused or {}).items():
            yield actor.name, peer, why


def closed(plan: Plan, actors: list[AnyMember], serving: Collection[str]) -> list[Reason]:
    """Brokers that have all they need and take no clients yet: those were not told of them.

    Args:
        serving: brokers that clients are told of.
    """
    ready = {name for name, broker in brokers(actors).items() if not broker.blank and not broker.leaving}
    return [
        Reason.of("broker-closed", name, f"broker {name} takes no clients yet")
        for name in plan.members
        if name in ready and name not in serving
    ]


def office(actors: Iterable[AnyMember]) -> SupervisorStatus:
    """The supervisor by what brokers know of it, for when it cannot be asked itself."""
    known = [broker.supervisor for broker in brokers(actors).values()]
    best = max(known, key=lambda one: one.number, default=OfficeStatus(name="", number=0))
    return SupervisorStatus(name=best.name, number=best.number, confirmed=False)


def lost(actors: list[AnyMember]) -> list[Loss]:
    """The streams that have no majority (`losses.py`)."""
    leading = leader(actors)
    machine = leading.machine if leading is not None else None
    return losses(waiting(machine, sequencers(actors), brokers(actors).values()))


class Leader(NamedTuple):
    """The sequencer that leads."""

    name: str
    host: str
    machine: SequencerStatus


def leader(actors: Iterable[AnyMember]) -> Leader | None:
    """The sequencer that leads. One that was paused may still believe it does: the highest ballot tells."""
    leading = [
        Leader(actor.name, actor.host, actor.machine)
        for actor in actors
        if isinstance(actor, SequencerMember) and actor.alive and actor.machine and actor.machine.role == LEADING
    ]
    return max(leading, key=lambda one: one.machine.ballot, default=None)


def on_duty(leading: Leader | None) -> str:
    """The Ownership that passes consume locks on, by the sequencer that leads."""
    return leading.machine.duty.name if leading is not None else OWNERSHIP


def quorum_critical(plan: Plan, actors: list[AnyMember], *stopped: str) -> list[str]:
    """Why stopping these brokers now, with their queue replicas, would stop something; none when they may be stopped.

    Args:
        plan: a broker that is no member by it is not counted, even if it votes now.
        stopped: broker ids: one, or several that go together.
    """
    leading = leader(actors)
    if leading is None:
        return ["no sequencer leads now: wait until one does"]
    down = {*stopped, *_not_serving(plan, actors)}
    members = [member for member in leading.machine.members if member in plan.members]
    up = [member for member in members if member not in down]
    if len(up) <= len(members) // 2:
        majority = len(members) // 2 + 1
        return [f"{_only(up)}, and a majority of the brokers is {majority}: nothing would complete"]
    silent = _silent_replicas(actors)
    unready: list[str] = []
    short: dict[tuple[tuple[str, ...], int], list[str]] = {}  # who would be left, who must be -> streams
    for name, stream in leading.machine.streams.items():
        gone = {*down, *stream.blank, *stream.missing, *silent.get(name, ())}
        voters = [voter for voter in stream.voters if voter in plan.members]
        left = tuple(voter for voter in voters if voter not in gone)
        if not stream.ready:
            unready.append(name)
        elif len(left) <= len(voters) // 2:
            short.setdefault((left, len(voters) // 2 + 1), []).append(name)
    wrong = [f"{called(unready)}: not recovered yet, wait until that is done"] if unready else []
    for (left, majority), names in short.items():
        wrong.append(f"{called(names)}: {_only(left)}, and a majority of the replicas is {majority}")
    return wrong


def sharing_host(actors: list[AnyMember], broker: str) -> list[str]:
    """The brokers on the host of `broker`, itself among them."""
    hosts = {actor.name: actor.host for actor in actors if isinstance(actor, BrokerMember)}
    return [name for name in hosts if hosts[name] == hosts.get(broker)] or [broker]


def _ownership(actors: list[AnyMember], leading: Leader | None, plan: Plan) -> list[Reason]:
    """The troubles of the two Ownerships."""
    there = [a.name for a in actors if isinstance(a, OwnershipMember) and a.alive and a.machine is not UNSET]
    if not there:
        return [Reason.of("no-ownership", WHOLE, "no Ownership: consume locks do not move")]
    found: list[Reason] = []
    duty = leading.machine.duty if leading is not None else None
    if duty is not None and duty.silent_ms > plan.config.timing.ownership_alone_ms:
        text = (
            f"consume locks do not move: {duty.name} is on duty and has not answered the sequencer for "
            f"{duty.silent_ms / 1000:.0f} s, and no other Ownership answers it"
        )
        found.append(Reason.of("ownership-silent", duty.name, text, duty.silent_ms))
    if len(there) == 1:
        text = f"no second Ownership: the end of {there[0]} would hold consume locks up until another is started"
        found.append(Reason.of("no-second-ownership", WHOLE, text))
    return found


def _silent(actors: list[AnyMember]) -> list[Reason]:
    """The actors that do not answer: a broker and its replicas in one line, since they mostly go together."""
    groups: dict[str, list[str]] = {}
    for actor in actors:
        if not actor.alive:
            groups.setdefault(broker_of(actor.name), []).append(actor.name)
    return [
        Reason.of("member-silent", one, f"{', '.join(sorted(names))} {'does' if len(names) == 1 else 'do'} not answer")
        for one, names in groups.items()
    ]


def _streams(machine: SequencerStatus, gone: list[Loss]) -> list[Reason]:
    stopped = {name for loss in gone for name in loss.streams}  # no voter is brought up to date there
    wrong = [Reason.of("broker-evicted", broker, f"broker {broker} is evicted") for broker in machine.absent]
    for member, behind in machine.flow.items():
        text = f"flow control is on, no transfer completes: {behind.reason} (for {behind.for_ms / 1000:.1f} s)"
        wrong.append(Reason.of("flow-control", member, text, behind.for_ms))
    found: dict[tuple[str, str, str], list[str]] = {}  # name, subject, what is wrong -> streams
    for name, stream in machine.streams.items():
        if name in stopped:
            continue
        if not stream.ready:
            what = "not recovered yet since a sequencer took over"
            found.setdefault(("log-recovering", WHOLE, what), []).append(name)
            continue
        if stream.blank:
            where = ", ".join(sorted(stream.blank))
            found.setdefault(("replica-behind", where, f"being brought up to date at {where}"), []).append(name)
        if stream.missing:
            where = ", ".join(sorted(stream.missing))
            found.setdefault(("replica-missing", where, f"no replica at {where}"), []).append(name)
    return wrong + [
        Reason.of(name, subject, f"{called(names)}: {what}") for (name, subject, what), names in found.items()
    ]


def _condemned(brokers: Iterable[BrokerStatus]) -> list[Reason]:
    """Queues of which it is being decided for long whether they may be deleted, by what brokers say of themselves."""
    longest: dict[tuple[str, str], CondemnedStatus] = {}
    for one in (one for broker in brokers for one in broker.condemned):
        known = longest.setdefault((one.queue, one.by), one)
        if one.for_ms > known.for_ms:
            longest[one.queue, one.by] = one
    wrong: list[Reason] = []
    for one in longest.values():
        if one.for_ms >= DECIDING_MS:
            conditions = ["if_unused"] * one.if_unused + ["if_empty"] * one.if_empty
            waits = " and ".join(_WAITING[condition] for condition in conditions)
            text = (
                f"queue {one.queue!r} is to be deleted {' and '.join(conditions)}, which broker {one.by} has not "
                f"decided yet (for {one.for_ms / 1000:.1f} s): {waits} meanwhile; it stays when that takes too long, "
                f"and `mantamq queue delete {one.queue} --force` decides at once"
            )
            wrong.append(Reason.of("deletion-undecided", one.queue, text, one.for_ms))
    return wrong


_WAITING = {"if_unused": "new consumers wait", "if_empty": "what is sent to it completes nowhere"}


def _not_serving(plan: Plan, actors: list[AnyMember]) -> set[str]:
    """Brokers that take no part now: a link to them may not have been given up yet."""
    there = {name for name, broker in brokers(actors).items() if broker.attached and not broker.blank}
    return {name for name in plan.members if name not in there}


def _silent_replicas(actors: list[AnyMember]) -> dict[str, set[str]]:
    """Queue id -> brokers whose replica of it does not answer."""
    silent = {actor.name for actor in actors if isinstance(actor, ReplicaMember) and not actor.alive}
    found: dict[str, set[str]] = {}
    for broker in brokers(actors).values():
        for replica, queues in broker.replicas.items():
            if replica in silent:
                for queue in queues:
                    found.setdefault(queue, set()).add(broker_of(replica))
    return found


def _only(left: tuple[str, ...] | list[str]) -> str:
    return f"only {', '.join(left)} would be left" if left else "nobody would be left"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
