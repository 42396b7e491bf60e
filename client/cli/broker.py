"""`broker add | remove | list`: members join and leave a running cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.members import AnyMember
from .console import Json, Namespace, Ray, agree, err, meant, out, running, say, table_of
from .status import broker_state, leader

PATIENCE_S = 2.0
"""A change that takes longer is shown as it goes."""
Limit = Annotated[float, typer.Option("--timeout", "-t", min=0, help="stop waiting after this many seconds")]
Told = Callable[[dict[str, Any]], None]


def register(app: typer.Typer) -> None:
    broker = typer.Typer(help="Members of a running cluster.", no_args_is_help=True)
    broker.command("add")(add)
    broker.command("remove")(remove)
    broker.command("list")(list_brokers)
    app.add_typer(broker, name="broker")
    app.command()(rebalance)


def add(
    node: Annotated[
        str, typer.Option("--node", help="id or address of the Ray node; by default the one with the fewest brokers")
    ] = "",
    timeout: Limit = 600.0, address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Let a broker join, and wait until it has everything."""
    cluster = running(address, namespace)
    meant(cluster, address, "This would add a broker to a cluster")
    began = time.monotonic()
    with _shown("joins") as told:
        broker = cluster.add_broker(node, timeout_s=timeout, progress=told)
    _remember(cluster)
    seconds = time.monotonic() - began
    where = cluster.addresses.get(broker, "")
    value = {"broker": broker, "address": where, "seconds": round(seconds, 3)}
    say(f"{broker} has joined at {where}, with everything, in {seconds:.1f} s", value, as_json)


def remove(
    name: Annotated[str, typer.Argument(help="the broker's id, as in `broker list`")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="also when fewer than three would be left")] = False,
    timeout: Limit = 600.0, address: Ray = "", namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Let a broker leave for good: its clients go to other members, nothing is lost."""
    cluster = running(address, namespace)
    meant(cluster, address, f"This would take {name} from a cluster")
    members = cluster.report().brokers
    left = [broker for broker in members if broker != name]
    if len(left) == 2 and name in members:
        agree("two brokers would be left, which serve only together", yes)
    elif len(left) == 1 and name in members:
        agree(f"{left[0]} would be left alone, and keeps nothing when it dies", yes)
    began = time.monotonic()
    with _shown("leaves") as told:
        cluster.remove_broker(name, timeout_s=timeout, progress=told)
    _remember(cluster)
    seconds = time.monotonic() - began
    value = {"broker": name, "removed": True, "seconds": round(seconds, 3)}
    say(f"{name} has left, in {seconds:.1f} s; taking clients now: {', '.join(cluster.addresses)}", value, as_json)


def rebalance(timeout: Limit = 600.0, address: Ray = "", namespace: Namespace = "", as_json: Json = False) -> None:
    """Spread the brokers over the hosts, so that one may fail: one by one they join elsewhere, and then leave."""
    cluster = running(address, namespace)
    meant(cluster, address, "This would move the brokers of a cluster")
    with _goes_on(), err.status("looking") as shown:
        cluster.rebalance(timeout, shown.update)
    _remember(cluster)
    text = f"brokers are spread over the hosts; taking clients now: {', '.join(cluster.addresses)}"
    say(text, {"members": cluster.addresses}, as_json)


def list_brokers(address: Ray = "", namespace: Namespace = "", as_json: Json = False) -> None:
    """The members: where they are, where clients connect, in how many queues they have a vote."""
    status: ClusterStatus = running(address, namespace).report()
    rows = members(status)
    if as_json:
        say("", {"brokers": rows}, True)
        return
    table = table_of("brokers", ["broker", "state", "clients connect to", "connections", "queues", "Ray node", "pid"])
    by_name = {actor.name: actor for actor in status.actors}
    for row in rows:
        queues = f"{row['queues']} of {row['queues_total']}"
        cells = [row["address"] or "-", f"{row['connections']:,}", queues, f"{row['node'][:12]} at {row['host']}"]
        state = broker_state(row["broker"], status.members, by_name.get(row["broker"]))
        table.add_row(row["broker"], Text(*state), *cells, str(row["pid"]))
    out.print(table)


def members(status: ClusterStatus) -> list[dict[str, Any]]:
    """A row for each broker of a cluster."""
    by_name = {actor.name: actor for actor in status.actors}
    leading = leader(status)
    queues = [stream for id, stream in leading.streams.items() if "#" in id] if leading is not None else []
    rows: list[dict[str, Any]] = []
    for name in status.brokers:
        known = by_name.get(name)
        actor = known or AnyMember(name=name, role="BrokerNode")
        rows.append({
            "broker": name,
            "state": broker_state(name, status.members, known)[0],
            "address": actor.address,
            "connections": actor.clients or 0,
            "queues": sum(name in q.voters and name not in q.blank and name not in q.missing for q in queues),
            "queues_total": len(queues),
            "node": actor.node,
            "host": actor.host,
            "pid": actor.pid,
        })  # fmt: skip
    return rows


def _remember(cluster: Any) -> None:
    """Later commands look for brokers at the addresses that were written down."""
    from ...actors.ray_control import local_ray

    if local_ray.recall().get("namespace") == cluster.namespace:
        local_ray.remember(members=cluster.addresses)


@contextmanager
def _shown(what: str) -> Generator[Told]:
    """A bar for what takes longer than a moment."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task("", total=None)
    began = time.monotonic()
    seen = False

    def told(now: dict[str, Any]) -> None:
        nonlocal seen
        text = f"{now['broker']} {what}: {now['stage']}"
        bar.update(task, description=text, completed=now["done"], total=now["total"] or None)
        if not seen and time.monotonic() - began > PATIENCE_S:
            bar.start()
            seen = True

    try:
        with _goes_on():
            yield told
    finally:
        bar.stop()


@contextmanager
def _goes_on() -> Generator[None]:
    """Ctrl-C ends the command, not what it has begun."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("what was begun goes on: see `mantamq broker list`", markup=False, highlight=False, soft_wrap=True)
        raise
