"""`up`, `down`: the cluster's life."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.status import Status

from ...protocol.errors import LocalError
from ...protocol.limits import MESSAGE_BYTES
from ...protocol.status.cluster import ClusterStatus
from .console import Json, Namespace, Ray, agree, asker, err, leave_ray, meant, out, running, say, show, size
from .page import page_of
from .status import held_queues

Start = Annotated[
    str, typer.Option("--address", help='a running Ray cluster: "auto" or host:port; else one is started')
]

NAMED = 3
"""Queues that one line names; the rest are counted."""


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)


def _message(text: str) -> str:
    least, most = MESSAGE_BYTES
    if not least <= size(text) <= most:
        raise typer.BadParameter(
            f"a message has 1KiB to {most >> 20}MiB (a frame carries no more), not {text}: what is larger is sent in "
            "pieces, or kept elsewhere"
        )
    return text


def _container(text: str) -> str:
    least, most = 512 << 10, 1 << 30
    if not least <= size(text) <= most:
        raise typer.BadParameter(f"a file of a log has 512KiB to 1GiB, not {text}")
    return text


def _size(text: str) -> str:
    size(text)
    return text


def _share(text: str) -> float:
    """A part of the machine's memory, or bytes."""
    return float(text[:-1]) / 100 if text.endswith("%") and text[:-1].isdecimal() else size(text)


def _sizes(**texts: str) -> dict[str, Any]:
    return {name: _share(text) for name, text in texts.items()}


def _watermark(text: str) -> str:
    if text.endswith("%") and not 0 <= _share(text) <= 1:
        raise typer.BadParameter(f"a part of the machine's memory is 1% to 100%, or 0% for no watermark, not {text}")
    _share(text)
    return text


def _whole(text: str) -> int:
    """Bytes, in whole pages."""
    from ...actors.config import CONTAINER_UNIT

    return -(-size(text) // CONTAINER_UNIT) * CONTAINER_UNIT


def _check_memory(memory: bool, stored: bool) -> None:
    if memory and stored:
        raise typer.BadParameter("with --memory nothing is stored: leave out --data, --restart and --wait-for, or it")


def _least(wait_for: int) -> int:
    """Brokers of a cluster of which nobody has said how many there are."""
    from ...actors.supervisor.plan import BROKERS

    return max(BROKERS, wait_for)


def up(
    brokers: Annotated[int | None, typer.Option(min=1, help="how many; 3, or as many as have a store")] = None,
    address: Start = "",
    namespace: Namespace = "mantamq",
    token: Annotated[str, typer.Option(envvar="MANTAMQ_TOKEN", help="clients must present it; none: no check")] = "",
    slice_ms: Annotated[int, typer.Option(min=1, help="an owner's time on a contended queue")] = 20,
    spares: Annotated[int, typer.Option(min=1, help="warm spare queue actors per broker")] = 2,
    client_port: Annotated[
        int, typer.Option(min=0, max=65535, help="brokers' client ports count up from here; 0: any free ones")
    ] = 0,
    bind: Annotated[str, typer.Option(help="host that all listeners bind; else each Ray node's own address")] = "",
    events: Annotated[str, typer.Option(help="keep the event table in this directory or URL; off: not at all")] = "",
    events_keep_days: Annotated[float, typer.Option(min=0, help="events that are older go; 0: never")] = 7.0,
    events_keep_gb: Annotated[float, typer.Option(min=0, help="beyond this size the oldest go; 0: never")] = 10.0,
    max_message_size: Annotated[str, typer.Option(callback=_message, help="largest message, as 500KB, 8MiB")] = "8MiB",
    rebalance: Annotated[bool, typer.Option(help="when a host comes or comes back, brokers move there")] = True,
    data: Annotated[str, typer.Option(help="directory of durable queues, on each node; ~/.mantamq/data")] = "",
    memory: Annotated[bool, typer.Option("--memory", help="keep nothing: no queue can be durable")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="only go on with what is stored")] = False,
    wait: Annotated[float, typer.Option(min=0, help="seconds to wait for stores that it could do without")] = 15.0,
    wait_for: Annotated[int, typer.Option(min=0, help="wait for this many stores; 0: for a majority")] = 0,
    container_size: Annotated[str, typer.Option(callback=_container, help="of a log's file: 512KiB to 1GiB")] = "16MiB",
    initial_containers: Annotated[int, typer.Option(min=2, help="files that a new store's log begins with")] = 2,
    reserve: Annotated[str, typer.Option(callback=_size, help="kept free on the disk, for what makes room")] = "256MiB",
    connect: Annotated[str, typer.Option(help="the wiring in SQL: sqlite, postgresql://...; log: not")] = "sqlite",
    catalog: Annotated[str, typer.Option(help="first part of its schemas' names in PostgreSQL")] = "",
    queue_limit: Annotated[str, typer.Option(callback=_size, help="of queues that name none; 0: none")] = "0",
    memory_watermark: Annotated[str, typer.Option(callback=_watermark, help="flow control above it; 2GiB, 0")] = "40%",
    management: Annotated[str, typer.Option(help="port of the page; auto: 15672 if that is free; off: none")] = "auto",
    alerts_to: Annotated[str, typer.Option(help="address that changes of alerts are posted to, as JSON")] = "",
    log_format: Annotated[str, typer.Option(help="of the cluster's logs: text, or json")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error: nothing below it")] = "info",
    as_json: Json = False,
) -> None:
    """Start a cluster, or go on with the one that was stopped: on a running Ray cluster, or on a Ray of its own that
    `down` stops again."""
    from ...actors.cluster import page_config, start_cluster, store_directory
    from ...actors.config import ClusterConfig, StoreConfig, chosen_limits
    from ...actors.supervisor import tap_life

    sizes = _sizes(max_message_bytes=max_message_size, queue_limit=queue_limit, memory_watermark=memory_watermark)
    _check_memory(memory, bool(data or restart or wait_for))
    kept: dict[str, Any] = {
        "data": "" if memory else store_directory(data or _data(namespace)), "containers": initial_containers,
        "container_bytes": _whole(container_size), "reserve_bytes": size(reserve), "restart": restart, "wait_s": wait,
        "wait_for": wait_for,
    }  # fmt: skip
    # Options that cannot be met are refused before anything is started.
    limits, store = chosen_limits(*sizes.values()), StoreConfig(**kept, catalog=connect, catalog_name=catalog)
    page = page_config(management, alerts_to)
    chosen = ClusterConfig(spares=spares, client_port=client_port, limits=limits, store=store, management=page)
    chosen.check(brokers or _least(wait_for))
    tap_life.check("" if events == "off" else events)
    _log_as(log_format, log_level, namespace, token)
    _refuse_another(own := not address, namespace, token)
    table = events or _events()
    with err.status("starting") as progress:
        address = address or _begin_ray(progress, namespace, store.data, table, bind)
        try:
            cluster = start_cluster(
                brokers=brokers, address=address, namespace=namespace, detached=True, token=token, slice_ms=slice_ms,
                spares=spares, client_port=client_port or None, bind=bind or None, events=table,
                events_keep_days=events_keep_days, events_keep_gb=events_keep_gb,
                progress=progress.update, rebalance=rebalance, connect=connect, catalog=catalog,
                management=management, alerts_to=alerts_to, log_format=log_format, log_level=log_level, **sizes, **kept,
            )  # fmt: skip
        except BaseException:
            if own:
                _end_ray(progress)
            raise
    address = _note(cluster, address, namespace, own)
    _tell(cluster, address, namespace, "" if events else table, as_json)


def _log_as(format: str, level: str, namespace: str, token: str) -> None:
    """This program writes its log as the cluster's processes do."""
    from ...actors.config import LogConfig
    from ...actors.process_logs import set_up

    logs = LogConfig(format=format, level=level, cluster=namespace)
    logs.check()
    set_up(logs, "mantamq up", [token])


def _begin_ray(progress: Status, namespace: str, data: str, table: str, bind: str) -> str:
    """A Ray of our own; returns its address. It runs here, so what cannot be written or bound here is told before."""
    from ...actors.cluster import start_ray_head, store_directory
    from ...actors.ray_control import listening, local_ray
    from ...actors.supervisor.store_survey import check_here

    check_here(data, "" if table == "off" else store_directory(table))
    if bind:
        listening.check_bind(bind)
    progress.update("starting Ray")
    address = start_ray_head()
    local_ray.remember(namespace=namespace)
    return address


def _end_ray(progress: Status) -> None:
    from ...actors.ray_control import local_ray

    progress.update("ending Ray")
    leave_ray()
    local_ray.stop_ray_head()


def _note(cluster: Any, address: str, namespace: str, own: bool) -> str:
    """Write down where the cluster is, for the commands that follow; returns the address of its Ray."""
    from ...actors.ray_control import local_ray

    known = local_ray.recall()
    # One more cluster in a Ray of ours leaves it ours: the last `down` stops it.
    ours = own or bool(known.get("ray_is_ours") and local_ray.same_ray(known.get("address"), cluster.ray_address))
    if ours:
        address = known["address"]
    elif address == "auto":  # what that is may be another Ray tomorrow
        address = cluster.ray_address
    # The session is that of the Ray at this address, or of none: who stops a Ray of ours goes by it.
    session = known.get("session") if ours else None
    local_ray.remember(
        address=address, namespace=namespace, ray_is_ours=ours, members=cluster.addresses, session=session
    )
    return address


def _tell(cluster: Any, address: str, namespace: str, table: str, as_json: bool) -> None:
    """What runs now, and where. `table`: where events go if nobody has said so."""
    page = page_of(cluster)
    warnings = [*cluster.notes, *cluster.report().warnings, *(_per_host(cluster, table) if table else [])]
    if as_json:
        members = {
            "address": address, "namespace": namespace, "members": cluster.addresses, "warnings": warnings,
            "data": cluster.data, "page": page,
        }  # fmt: skip
        say("", members, True)
        return
    out.print(f"running on Ray at {address}", highlight=False, markup=False, soft_wrap=True)
    show([{"broker": b, "clients connect to": a} for b, a in cluster.addresses.items()],
         ["broker", "clients connect to"], False)  # fmt: skip
    for line in warnings:
        err.print(f"warning: {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    if page:
        out.print(f"the page is at {page}", highlight=False, markup=False, soft_wrap=True)
    kept = f"durable queues are kept in {cluster.data}" if cluster.data else "all is in memory: no queue can be durable"
    out.print(kept, highlight=False, markup=False, soft_wrap=True)
    out.print("Try `mantamq queue add orders`, `mantamq status`; stop it with `mantamq down`.", markup=False)


def down(
    address: Ray = "", namespace: Namespace = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="also when there are messages in it")] = False,
    now: Annotated[bool, typer.Option("--now", help="close no store: as a power cut, which loses nothing")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Stop the cluster, and Ray too if `up` started it. What is not in durable queues is gone."""
    from ...actors.cluster import NotThere, stop_ray_head
    from ...actors.ray_control import local_ray
    from ...actors.ray_control.door import NoRay

    known = local_ray.recall()
    # The state file is of one Ray only: stopping a cluster in another must not make us forget one that runs.
    remembered = not address or address == known.get("address")
    ours = bool(known.get("ray_is_ours")) and remembered
    # Without a cluster there may be our Ray to stop; but not by the wrong name, and not with somebody else's cluster.
    by_name = not namespace or namespace == known.get("namespace")
    cluster: Any = None
    loss = ""
    try:
        cluster = running(address, namespace)
    except NotThere as error:
        if error.others or not ours or not by_name:
            raise
    except LocalError as error:
        if not ours or not by_name:
            raise
        if local_ray.head_processes():
            why = "its Ray does not answer" if isinstance(error, NoRay) else error
            loss = f"the cluster cannot be asked what is in it ({why}), its Ray is stopped with all there is"
    if cluster is not None:
        meant(cluster, address, "This would stop")
        loss = contents(cluster)
    if loss:
        agree(loss, yes)
    kept, unclean, failed = "", [], None
    if cluster is not None:
        if cluster.data:
            kept = f"; `mantamq up` goes on with what is in {cluster.data}"
        with err.status("closing stores (`mantamq down --now` does not wait)" if kept and not now else "stopping"):
            try:
                unclean = cluster.stop(now)
            except LocalError as error:
                if not ours:
                    raise
                failed = error
        others = still_there()
        if failed is not None:
            if others := [one for one in others if one != cluster.namespace]:
                text = f"its Ray stays for the clusters in the namespaces {', '.join(others)}"
                raise LocalError(f"{failed} ({text}: it does not end with that)") from failed
            unclean = sorted(cluster.broker_nodes()) if cluster.data else []  # all of it ends with its Ray
        if unclean and not now:
            names = ", ".join(f"{broker}.store" for broker in unclean)
            text = f"warning: not closed clean: {names}; nothing is lost, the next start recovers it"
            err.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)
        if others and ours:
            local_ray.remember(namespace=others[0], members={})
            text = f"stopped; Ray stays for the clusters in the namespaces {', '.join(others)}"
            say(text, {"stopped": True, "ray_stopped": False, "others": others, "unclean": unclean}, as_json)
            return
    if ours:
        leave_ray()
        stop_ray_head()
    if remembered:
        local_ray.forget()
    say(f"stopped{kept}", {"stopped": True, "ray_stopped": ours, "unclean": unclean}, as_json)


def contents(cluster: Any) -> str:
    """The messages that would be lost with the cluster, in words; "" for none."""
    try:
        status: ClusterStatus = cluster.report()
    except LocalError as error:
        return f"the cluster does not say what is in it ({error})"
    found = held_queues(status.actors).items()
    held = {id: queue.messages for id, queue in found if queue.messages and queue.durable is not True}
    if not held:
        return ""
    names = sorted(id.rpartition("#")[0] for id in held)
    named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"{sum(held.values()):,} messages in the cluster are gone when it stops (in {named})"


def still_there() -> list[str]:
    """Namespaces of this Ray in which a cluster runs."""
    import ray

    from ...actors.ray_control.placement import Placement

    return Placement("").others() if ray.is_initialized() else []


def _data(namespace: str) -> str:
    """Where durable queues are kept unless the user says otherwise; each namespace has a cluster of its own."""
    from ...actors.ray_control import local_ray

    return str(local_ray.home() / ("data" if namespace == "mantamq" else f"data-{namespace}"))


def _events() -> str:
    """Where events go unless the user says otherwise: what happened cannot be asked for afterwards, so they are kept,
    if this Python has what that needs."""
    from ...actors.ray_control import local_ray
    from ...actors.supervisor import tap_life

    if tap_life.missing():
        err.print(
            f"no events are kept: that needs {tap_life.missing()} ({tap_life.INSTALL})", style="yellow", markup=False
        )
        return "off"
    return str(local_ray.home() / "events")


def _refuse_another(own: bool, namespace: str, token: str) -> None:
    """A cluster that was started from here and still serves its clients is not replaced, though Ray is away."""
    from ...actors.ray_control import local_ray
    from ...actors.supervisor import lookout

    known = local_ray.recall()
    if not own or namespace != known.get("namespace") or not known.get("members"):
        return
    if lookout.by_ports(known["members"], asker(token), "") is not None:
        raise RuntimeError(
            f"a cluster serves clients at {', '.join(known['members'].values())}: see `mantamq status`, and stop it "
            "with `mantamq down` before another is started"
        )


def _per_host(cluster: Any, table: str) -> list[str]:
    """A directory that nobody has named is of one host, and whoever keeps the events may move to another."""
    hosts = {address.rpartition(":")[0] for address in cluster.addresses.values()}
    if len(hosts) < 2 or table == "off":
        return []
    return [
        f"events go to {table} on whatever host their keeper runs, and it may move: name a directory or URL that "
        "all hosts see, with --events"
    ]
