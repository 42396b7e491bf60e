"""`status`: who serves, who leads, who owns which queue, how far each replica is; and what is wrong, in words."""

from __future__ import annotations

import time
from typing import Any

import typer
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...protocol.wire.events import CLUSTER
from .console import Json, Namespace, Ray, Token, out, say, seen, table_of
from .sheets import Sheet

REASONS = 16
"""Lines in the panel; `--json` has them all."""
GOOD, SOON, BAD = "green", "yellow", "red"
Report = dict[str, Any]


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(address: Ray = "", namespace: Namespace = "", token: Token = "", as_json: Json = False) -> None:
    """Members, who leads, who owns which queue, and all that is wrong. `check health` has an exit code for it."""
    report = seen(address, namespace, token)
    if as_json:
        say("", report, True)
        return
    for part in view(report):
        out.print(part)


def view(report: Report) -> list[RenderableType]:
    """A `Cluster.status()` as it is printed."""
    by_name = {actor["name"]: actor for actor in report["actors"]}
    gap = Text("")
    return [
        _head(report),
        Text(f"brokers: {_figures(report)}"),
        health(report["unhealthy"]),
        *(Text(f"warning: {line}", SOON) for line in report.get("warnings", ())),
        *(Text(_moved(move)) for move in report.get("moved", ())),
        _brokers(report, by_name),
        gap,
        _others(report),
        gap,
        _queues(report),
    ]


def health(reasons: list[str]) -> Panel:
    """The panel of all that is wrong, green when nothing is."""
    if not reasons:
        return Panel(Text("healthy: everything is there and up to date"), border_style=GOOD, expand=False)
    lines = reasons[:REASONS]
    if len(reasons) > REASONS:
        lines = [*lines, f"and {len(reasons) - REASONS} more: --json names them all"]
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("-", Text(line))
    count = "one reason" if len(reasons) == 1 else f"{len(reasons)} reasons"
    return Panel(table, title=f"not healthy: {count}", title_align="left", border_style=BAD, expand=False)


def _head(report: Report) -> Text:
    leading = _leader(report)
    order = f"{leading['seq']:,} events ordered under ballot {leading['ballot'][0]}" if leading else "nobody orders"
    versions = sorted({actor["version"] for actor in report["actors"] if "version" in actor})
    protocol = f", protocol {' and '.join(versions)}" if versions else ""
    return Text(f"cluster {report['cluster']}: {report['stage']} for {_span(report['uptime_s'])}, {order}{protocol}")


def _figures(report: Report) -> str:
    """Two different things are counted: who is one of the cluster, and who takes clients now."""
    there, taking = len(report["brokers"]), len(report["members"])
    return f"{there} in the cluster, {taking if taking != there else 'all'} of them take clients"


def _moved(move: Report) -> str:
    ago = _span(max(0.0, time.time() - move["at"]))
    return (
        f"broker {move['broker']} has moved: clients connect to {move['address']}, it was {move['before']} ({ago} ago)"
    )


def _span(seconds: float) -> str:
    s = int(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60} s"
    return f"{s // 3600:,} h {s % 3600 // 60} min"


def _brokers(report: Report, by_name: dict[str, Report]) -> Sheet:
    columns = ["broker", "state", "clients connect to", "connections", "replicas", "pid"]
    table = table_of("brokers", columns, ("connections", "replicas", "pid"))
    barred = any(loss["for_good"] and CLUSTER in loss["streams"] for loss in report.get("lost", ()))
    for name in report["brokers"]:
        actor = by_name.get(name, {})
        word, color = broker_state(name, report["members"], actor, barred)
        replicas = actor.get("machine", {}).get("replicas")
        table.add_row(
            name,
            Text(word, color),
            Text(actor.get("address") or "-"),
            f"{actor['clients']:,}" if "clients" in actor else "-",
            "-" if replicas is None else str(len(replicas)),
            str(actor.get("pid") or "-"),
        )
    return table


def broker_state(name: str, members: dict[str, str], actor: Report, barred: bool = False) -> tuple[str, str]:
    """In a word or two, and its colour.

    Args:
        members: those that take clients.
        barred: the majority that knew the wiring is lost, so nobody joins.
    """
    if not actor:
        return "not there", BAD
    if not actor.get("alive"):
        return "no answer", BAD
    machine = actor.get("machine")
    if machine is None:
        return "starting", SOON
    if machine["blank"]:
        return ("cannot join", BAD) if barred else ("joining", SOON)
    if machine["leaving"]:
        return "leaving", SOON
    if machine["cut_off"]:
        return "cut off", BAD
    if not machine["attached"]:
        return "no sequencer", BAD
    if machine["flowStopped"]:
        return "flow stopped", SOON
    return ("serving", GOOD) if name in members else ("joining", SOON)


def _others(report: Report) -> Sheet:
    table = table_of("order and care", ["actor", "state", "pid", "host"], ("pid",))
    leading = _leader(report)
    for actor in report["actors"]:
        if actor["role"] in ("Sequencer", "Ownership", "EventTap"):
            word, color = _word(actor, leading)
            table.add_row(actor["name"], Text(word, color), str(actor["pid"]), Text(actor["host"]))
    one = report["supervisor"]
    table.add_row(one.get("name") or "supervisor", Text(*_office(one)), str(one["pid"] or "-"), one.get("host") or "")
    return table


def _office(supervisor: Report) -> tuple[str, str]:
    number = f"number {supervisor['number']}, " if supervisor.get("number") else ""
    if not supervisor["pid"]:
        return f"{number}out of reach", BAD
    if not supervisor.get("confirmed", True):
        return f"{number}confirmed by no majority of the brokers: replaces nothing", BAD
    return f"{number}confirmed by a majority of the brokers: replaces what dies", GOOD


def _word(actor: Report, leading: Report | None) -> tuple[str, str]:
    if not actor.get("alive"):
        return "no answer", BAD
    machine = actor.get("machine")
    if machine is None:
        return "starting", SOON
    if actor["role"] == "Ownership":
        return ("moves the consume locks", GOOD) if actor["name"] == _on_duty(leading) else ("stands by", GOOD)
    if actor["role"] == "EventTap":
        return f"{machine['events']:,} events in {machine['rows']:,} rows", SOON if machine["dropped"] else GOOD
    standing = machine["standing"]
    if standing == "standby":
        return "standby", GOOD
    if standing == "preparing":
        return f"{'prepares' if leading else 'is taking over'} under ballot {machine['ballot'][0]}", SOON
    if machine is leading:
        return f"leads under ballot {machine['ballot'][0]}", GOOD
    return f"was deposed (ballot {machine['ballot'][0]})", BAD


def _leader(report: Report) -> Report | None:
    """The machine of the sequencer that leads; the highest ballot tells when one that was paused believes it does."""
    leading = [
        actor["machine"]
        for actor in report["actors"]
        if actor["role"] == "Sequencer" and actor.get("machine", {}).get("standing") == "leading"
    ]
    return max(leading, key=lambda machine: machine["ballot"], default=None)


def _on_duty(leading: Report | None) -> str:
    """The Ownership that the leading sequencer has named; of one that knows of no other it is the first."""
    return (leading or {}).get("duty", {}).get("name", "ownership")


def _queues(report: Report) -> Sheet:
    leading = _leader(report)
    streams = leading["streams"] if leading else {}
    held = held_queues(report["actors"])
    duty = _on_duty(leading)
    ownerships = {a["name"]: a["machine"] for a in report["actors"] if a["role"] == "Ownership" and "machine" in a}
    interest = ownerships.get(duty) or next(iter(ownerships.values()), {})
    columns = ["queue", "messages", "owner", "interested", "uncommitted", "replicas"]
    table = table_of("queues (and the wiring)", columns, ("messages", "uncommitted"))
    for id in sorted({*streams, *held}, key=lambda id: ("#" in id, id)):
        name, sharp, _ = id.rpartition("#")
        queue, stream = held.get(id, {}), streams.get(id)
        word, color = replicas_state(stream)
        table.add_row(
            Text(name) if sharp else Text("(wiring)", "dim"),
            f"{queue['messages']:,}" if queue else "-",
            queue.get("owner") or "-",
            ", ".join(interest.get(id, {}).get("interested", ())) or "-",
            f"{stream['end'] - stream['commit']:,}" if stream else "-",
            Text(word, color),
        )
    return table


def held_queues(actors: list[Report]) -> dict[str, Report]:
    """Queue id -> what the replica says that has applied the most."""
    best: dict[str, Report] = {}
    for actor in actors:
        if actor["role"] != "QueueReplica" or "machine" not in actor:
            continue
        queues: dict[str, Report] = actor["machine"]
        for id, queue in queues.items():
            if not queue["blank"] and (id not in best or queue["applied"] > best[id]["applied"]):
                best[id] = queue
    return best


def replicas_state(stream: Report | None) -> tuple[str, str]:
    """How far the replicas of a stream are, by the leading sequencer, and its colour. `stream`: its report."""
    if stream is None:
        return "not known", BAD
    if not stream["ready"]:
        return "log is being recovered", BAD
    words: list[str] = []
    lag = stream["lag"]
    for broker in sorted({*lag, *stream["missing"]}, key=lambda b: (len(b), b)):
        entries = lag.get(broker, 0)
        behind = f"{entries:,} behind" if entries else ""
        if broker in stream["missing"]:
            words.append(f"{broker} missing")
        elif broker in stream["blank"]:
            words.append(f"{broker} blank{', ' + behind if behind else ''}")
        elif behind:
            words.append(f"{broker} {behind}")
    if not words:
        return f"{len(lag)} level", GOOD
    return "; ".join(words), BAD if stream["missing"] else SOON if stream["blank"] else ""
