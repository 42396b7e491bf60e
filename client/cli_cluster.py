"""`up`, `down`, `status`: the cluster's life."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .console import Json, err, out, say, show

Ray = Annotated[str, typer.Option("--address", help='a running Ray cluster: "auto" or host:port; else one is started')]
Namespace = Annotated[str, typer.Option(help="Ray namespace of the cluster")]


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(
    brokers: Annotated[int, typer.Option(min=1, help="how many brokers")] = 3,
    address: Ray = "",
    namespace: Namespace = "mantamq",
    token: Annotated[str, typer.Option(envvar="MANTAMQ_TOKEN", help="clients must present it; none: no check")] = "",
    slice_ms: Annotated[int, typer.Option(min=1, help="an owner's time on a contended queue")] = 20,
    spares: Annotated[int, typer.Option(min=0, help="warm spare queue actors per broker")] = 2,
    client_port: Annotated[int, typer.Option(help="brokers' client ports count up from here; 0: any free ones")] = 0,
    as_json: Json = False,
) -> None:
    """Start a cluster: on a running Ray cluster, or on a Ray of its own that `down` stops again."""
    from ..actors import local_ray
    from ..actors.cluster import start_cluster, start_ray_head

    own = not address
    with err.status("starting") as progress:
        if own:
            progress.update("starting Ray")
            address = start_ray_head()
        try:
            cluster = start_cluster(
                brokers=brokers, address=address, namespace=namespace, detached=True, token=token, slice_ms=slice_ms,
                spares=spares, client_port=client_port or None, progress=progress.update,
            )  # fmt: skip
        except BaseException:
            if own:
                _leave_ray()
                local_ray.stop_ray_head()
            raise
    local_ray.remember(address=address, namespace=namespace, ray_is_ours=own, members=cluster.addresses)
    if as_json:
        say("", {"address": address, "namespace": namespace, "members": cluster.addresses}, True)
        return
    show([{"broker": b, "clients connect to": a} for b, a in cluster.addresses.items()],
         ["broker", "clients connect to"], False, f"running on Ray at {address}")  # fmt: skip
    out.print("Try `mantamq queue add orders`, `mantamq status`; stop it with `mantamq down`.", markup=False)


def down(address: Ray = "", namespace: Namespace = "", as_json: Json = False) -> None:
    """Stop the cluster, and Ray too if `up` started it."""
    from ..actors import local_ray
    from ..actors.cluster import find_cluster, stop_ray_head

    known = local_ray.recall()
    # What was written down is of one cluster only: stopping another must not make us forget a Ray that still runs.
    remembered = not address or address == known.get("address")
    problem = ""
    try:
        cluster = find_cluster(address or known.get("address"), namespace or known.get("namespace") or "mantamq")
        cluster.stop()
    except Exception as error:
        problem = str(error)
    ours = bool(known.get("ray_is_ours")) and remembered
    if ours:
        _leave_ray()
        stop_ray_head()
    if remembered and (ours or not problem):
        local_ray.forget()
    if problem and not ours:
        raise RuntimeError(problem)
    say("stopped", {"stopped": True, "ray_stopped": ours}, as_json)


def _leave_ray() -> None:
    """This process's own tie to Ray must go first, or it complains about the end of the rest."""
    import ray

    if ray.is_initialized():
        ray.shutdown()


def status(address: Ray = "", namespace: Namespace = "", as_json: Json = False) -> None:
    """Members, ballot, actors, and who owns which queue."""
    from ..actors import local_ray
    from ..actors.cluster import find_cluster

    known = local_ray.recall()
    cluster = find_cluster(address or known.get("address"), namespace or known.get("namespace") or "mantamq")
    report = cluster.status()
    if as_json:
        say("", report, True)
        return
    actors: list[dict[str, Any]] = report["actors"]
    by_name = {actor["name"]: actor for actor in actors}
    sequencer = by_name.get("sequencer", {}).get("machine", {})
    out.print(
        f"cluster {report['cluster']}: {report['stage']}, up {report['uptime_s']:.0f} s, ballot "
        f"{sequencer.get('ballot', ['?'])[0]}, {sequencer.get('seq', 0):,} events ordered",
        highlight=False,
    )
    show(
        [
            {
                "broker": broker,
                "clients connect to": where,
                "connections": by_name.get(broker, {}).get("clients", 0),
                "alive": by_name.get(broker, {}).get("alive", False),
                "pid": str(by_name.get(broker, {}).get("pid", "")),
            }
            for broker, where in report["members"].items()
        ],
        ["broker", "clients connect to", "connections", "alive", "pid"], False, "brokers",
    )  # fmt: skip
    streams = sequencer.get("streams", {})
    owners = by_name.get("ownership", {}).get("machine", {})
    queues = [
        {
            "queue": name.rpartition("#")[0],
            "owner": owners.get(name, {}).get("owner", ""),
            "interested": ", ".join(owners.get(name, {}).get("interested", [])),
            "events": stream["end"],
            "uncommitted": stream["end"] - stream["commit"],
            "lag": ", ".join(f"{voter} {lag}" for voter, lag in sorted(stream["lag"].items()) if lag) or "none",
        }
        for name, stream in streams.items()
        if "#" in name
    ]
    show(queues, ["queue", "owner", "interested", "events", "uncommitted", "lag"], False, "queues")
    dead = [actor["name"] for actor in actors if not actor.get("alive")]
    if dead:
        raise RuntimeError(f"not alive: {', '.join(dead)}; restart the cluster with `mantamq down` and `mantamq up`")
