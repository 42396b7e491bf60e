"""`status`: who serves, who leads, who owns which queue, how far each replica is; and what is wrong, in words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

import typer
from msgspec import UNSET
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...protocol.machine import OWNERSHIP
from ...protocol.sequencer.election import PREPARING, STANDBY
from ...protocol.status.cluster import ClusterStatus, MovedStatus, SupervisorStatus
from ...protocol.status.machines import (
    BrokerStatus,
    ManagementStatus,
    QueueStatus,
    SequencerStatus,
    StreamStatus,
    TapStatus,
)
from ...protocol.status.members import (
    AnyMember,
    ManagementMember,
    OwnershipMember,
    ReplicaMember,
    SequencerMember,
    StoreMember,
    TapMember,
)
from ...protocol.wire.events import CLUSTER
from .console import Json, Namespace, Ray, Token, out, say, seen, table_of
from .sheets import Sheet, byte_count, span

REASONS = 16
"""Lines in the panel; `--json` has them all."""
NEW_S = 1.0
"""What is younger was seen for the first time just now."""
GOOD, SOON, BAD = "green", "yellow", "red"


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(address: Ray = "", namespace: Namespace = "", token: Token = "", as_json: Json = False) -> None:
    """Members, who leads, who owns which queue, and all that is wrong. `check health` has an exit code for it."""
    cluster = seen(address, namespace, token)
    if as_json:
        say("", cluster.plain(), True)
        return
    for part in view(cluster):
        out.print(part)


def view(cluster: ClusterStatus) -> list[RenderableType]:
    """A cluster's status as it is printed."""
    gap = Text("")
    return [
        _head(cluster),
        Text(f"brokers: {_figures(cluster)}"),
        health(cluster.unhealthy, ages(cluster)),
        *warnings(cluster),
        *(Text(_moved(move)) for move in cluster.moved),
        _brokers(cluster),
        gap,
        _others(cluster),
        gap,
        *((stores_table(found), gap) if (found := stores(cluster)) else ()),
        _queues(cluster),
    ]


def ages(cluster: ClusterStatus) -> dict[str, str]:
    """Reason -> for how long it has been so: "for 12 s". Only of those that the supervisor had seen before it was asked
    now: what it sees for the first time may have been so for any time."""
    now_s = time.time()
    known = ((alert.text, now_s - alert.since) for alert in cluster.alerts if alert.since)
    return {text: f"for {span(age_s)}" for text, age_s in known if age_s >= NEW_S}


def warnings(cluster: ClusterStatus) -> list[Text]:
    """A line for each warning."""
    known = ages(cluster)
    return [Text(f"warning{', ' * (line in known)}{known.get(line, '')}: {line}", SOON) for line in cluster.warnings]


def health(reasons: list[str], ages: Mapping[str, str] = MappingProxyType({})) -> Panel:
    """The panel of all that is wrong, green when nothing is.

    Args:
        ages: reason -> for how long, where that is known.
    """
    if not reasons:
        return Panel(Text("healthy: everything is there and up to date"), border_style=GOOD, expand=False)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    for line in reasons[:REASONS]:
        table.add_row(Text(ages.get(line, "-"), "dim"), Text(line))
    if len(reasons) > REASONS:
        table.add_row("-", Text(f"and {len(reasons) - REASONS} more: --json names them all"))
    count = "one reason" if len(reasons) == 1 else f"{len(reasons)} reasons"
    return Panel(table, title=f"not healthy: {count}", title_align="left", border_style=BAD, expand=False)


def _head(cluster: ClusterStatus) -> Text:
    leading = leader(cluster)
    order = f"{leading.seq:,} events ordered under ballot {leading.ballot[0]}" if leading else "nobody orders"
    versions = sorted({actor.version for actor in cluster.actors if actor.version})
    protocol = f", protocol {' and '.join(versions)}" if versions else ""
    return Text(f"cluster {cluster.cluster}: {cluster.stage} for {_span(cluster.uptime_s)}, {order}{protocol}")


def _figures(cluster: ClusterStatus) -> str:
    """Two different things are counted: who is one of the cluster, and who takes clients now."""
    there, taking = len(cluster.brokers), len(cluster.members)
    limits = {a.machine.queue_limit_bytes or 0 for a in cluster.actors if isinstance(a.machine, BrokerStatus)}
    limit = f"; a queue that names no limit has {byte_count(max(limits))}" if any(limits) else ""
    return f"{there} in the cluster, {taking if taking != there else 'all'} of them take clients{limit}"


def _moved(move: MovedStatus) -> str:
    ago = _span(max(0.0, time.time() - move.at))
    return f"broker {move.broker} has moved: clients connect to {move.address}, it was {move.before} ({ago} ago)"


def _span(seconds: float) -> str:
    s = int(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60} s"
    return f"{s // 3600:,} h {s % 3600 // 60} min"


def _brokers(cluster: ClusterStatus) -> Sheet:
    columns = ["broker", "state", "clients connect to", "connections", "replicas", "pid"]
    table = table_of("brokers", columns, ("connections", "replicas", "pid"))
    barred = any(loss.for_good and CLUSTER in loss.streams for loss in cluster.lost)
    by_name = {actor.name: actor for actor in cluster.actors}
    for name in cluster.brokers:
        known = by_name.get(name)
        word, color = broker_state(name, cluster.members, known, barred)
        actor = known or AnyMember(name=name, role="BrokerNode")
        table.add_row(
            name,
            Text(word, color),
            Text(actor.address or "-"),
            "-" if actor.clients is UNSET else f"{actor.clients:,}",
            str(len(actor.machine.replicas)) if isinstance(actor.machine, BrokerStatus) else "-",
            str(actor.pid or "-"),
        )
    return table


def broker_state(name: str, members: dict[str, str], actor: AnyMember | None, barred: bool = False) -> tuple[str, str]:
    """In a word or two, and its colour.

    Args:
        members: those that take clients.
        barred: the majority that knew the wiring is lost, so nobody joins.
    """
    if actor is None:
        return "not there", BAD
    if not actor.alive:
        return "no answer", BAD
    machine = actor.machine
    if not isinstance(machine, BrokerStatus):
        return "starting", SOON
    if machine.blank:
        return ("cannot join", BAD) if barred else ("joining", SOON)
    if machine.leaving:
        return "leaving", SOON
    if machine.stop_left_ms is not UNSET:
        return "stopping", SOON
    if machine.cut_off:
        return "cut off", BAD
    if not machine.attached:
        return "no sequencer", BAD
    if machine.flow_stopped:
        return "flow stopped", SOON
    return ("serving", GOOD) if name in members else ("joining", SOON)


def _others(cluster: ClusterStatus) -> Sheet:
    table = table_of("order and care", ["actor", "state", "pid", "host"], ("pid",))
    leading = leader(cluster)
    for actor in cluster.actors:
        if isinstance(actor, SequencerMember | OwnershipMember | TapMember | ManagementMember):
            word, color = _word(actor, leading)
            table.add_row(actor.name, Text(word, color), str(actor.pid), Text(actor.host))
    one = cluster.supervisor
    table.add_row(one.name or "supervisor", Text(*_office(one)), str(one.pid or "-"), one.host)
    return table


def _office(supervisor: SupervisorStatus) -> tuple[str, str]:
    number = f"number {supervisor.number}, " if supervisor.number else ""
    if not supervisor.pid:
        return f"{number}out of reach", BAD
    if not supervisor.confirmed:
        return f"{number}confirmed by no majority of the brokers: replaces nothing", BAD
    return f"{number}confirmed by a majority of the brokers: replaces what dies", GOOD


def _word(
    actor: SequencerMember | OwnershipMember | TapMember | ManagementMember, leading: SequencerStatus | None
) -> tuple[str, str]:
    if not actor.alive:
        return "no answer", BAD
    if actor.machine is UNSET:
        return "starting", SOON
    if isinstance(actor, OwnershipMember):
        return ("moves the consume locks", GOOD) if actor.name == _on_duty(leading) else ("stands by", GOOD)
    machine = actor.machine
    if isinstance(machine, ManagementStatus):
        return f"the page at http://{machine.address}", SOON if machine.trouble or machine.missed else GOOD
    if isinstance(machine, TapStatus):
        return f"{machine.events:,} events in {machine.rows:,} rows", SOON if machine.dropped else GOOD
    if machine.role == STANDBY:
        return "standby", GOOD
    if machine.role == PREPARING:
        return f"{'prepares' if leading else 'is taking over'} under ballot {machine.ballot[0]}", SOON
    if machine is leading:
        return f"leads under ballot {machine.ballot[0]}", GOOD
    return f"was deposed (ballot {machine.ballot[0]})", BAD


def leader(cluster: ClusterStatus) -> SequencerStatus | None:
    """The sequencer that leads."""
    from ...actors.supervisor import health

    found = health.leader(cluster.actors)
    return found.machine if found is not None else None


def _on_duty(leading: SequencerStatus | None) -> str:
    """The Ownership that the leading sequencer has named; without one it is the first."""
    return leading.duty.name if leading is not None else OWNERSHIP


# ---- stores


def stores(cluster: ClusterStatus) -> list[StoreMember]:
    """Those that the cluster has, also where they do not answer."""
    return [actor for actor in cluster.actors if isinstance(actor, StoreMember)]


def stores_table(found: list[StoreMember]) -> Sheet:
    """How the brokers' disks are."""
    numbers = ("on disk", "live", "room", "log's age", "flushes/s", "p99 ms")
    table = table_of("stores", ["store", "state", *numbers], numbers)
    for actor in found:
        word, color = store_state(actor)
        one = actor.machine or None
        if one is None:
            table.add_row(actor.name, Text(word, color), *("-" for _ in numbers))
            continue
        age = span(time.time() - one.oldest_us / 1e6) if one.oldest_us else "-"
        sizes = (byte_count(one.disk_bytes), byte_count(one.live_bytes), byte_count(max(0, one.left_bytes)))
        table.add_row(
            actor.name, Text(word, color), *sizes, age, f"{one.flushes_per_s:,.1f}", f"{one.flush_p99_ms:,.2f}"
        )
    return table


def store_state(actor: StoreMember) -> tuple[str, str]:
    """In a word or two, and its colour."""
    one = actor.machine or None
    if not actor.alive:
        return "no answer", BAD
    if one is None:
        return "starting", SOON
    if one.full or one.pressed:
        return "no room", BAD
    if any(log.hurt for log in one.logs.values()):
        return "damaged", BAD
    return ("joining", SOON) if one.state == "joining" else ("in use", GOOD)


def _queues(cluster: ClusterStatus) -> Sheet:
    leading = leader(cluster)
    streams = leading.streams if leading else {}
    held = held_queues(cluster.actors)
    ownerships = {a.name: a.machine for a in cluster.actors if isinstance(a, OwnershipMember) and a.machine}
    interest = ownerships.get(_on_duty(leading)) or next(iter(ownerships.values()), {})
    columns = ["queue", "messages", "owner", "interested", "uncommitted", "replicas"]
    table = table_of("queues (and the wiring)", columns, ("messages", "uncommitted"))
    for id in sorted({*streams, *held}, key=lambda id: ("#" in id, id)):
        name, sharp, _ = id.rpartition("#")
        queue, stream, lock = held.get(id), streams.get(id), interest.get(id)
        word, color = replicas_state(stream)
        table.add_row(
            Text(name) if sharp else Text("(wiring)", "dim"),
            f"{queue.messages:,}" if queue else "-",
            (queue.owner if queue else "") or "-",
            ", ".join(lock.interested if lock else ()) or "-",
            f"{stream.end - stream.commit:,}" if stream else "-",
            Text(word, color),
        )
    return table


def held_queues(actors: list[AnyMember]) -> dict[str, QueueStatus]:
    """Queue id -> what the replica says that has applied the most."""
    best: dict[str, QueueStatus] = {}
    for actor in actors:
        for id, queue in (actor.machine or {}).items() if isinstance(actor, ReplicaMember) else ():
            if not queue.blank and (id not in best or queue.applied > best[id].applied):
                best[id] = queue
    return best


def replicas_state(stream: StreamStatus | None) -> tuple[str, str]:
    """How far the replicas of a stream are, by the leading sequencer, and its colour."""
    if stream is None:
        return "not known", BAD
    if not stream.ready:
        return "log is being recovered", BAD
    words: list[str] = []
    lag = stream.lag
    for broker in sorted({*lag, *stream.missing}, key=lambda b: (len(b), b)):
        entries = lag.get(broker, 0)
        behind = f"{entries:,} behind" if entries else ""
        if broker in stream.missing:
            words.append(f"{broker} missing")
        elif broker in stream.blank:
            words.append(f"{broker} blank{', ' + behind if behind else ''}")
        elif behind:
            words.append(f"{broker} {behind}")
    if not words:
        return f"{len(lag)} level", GOOD
    return "; ".join(words), BAD if stream.missing else SOON if stream.blank else ""
