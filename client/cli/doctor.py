"""`doctor`: what is well here and what is not, a line each."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.markup import escape

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.machines import BrokerStatus
from ..addresses import split_host
from ..errors import MantaError, Unauthorized
from ..sync.sync import Connection, connect
from . import console
from .analyze import last_events
from .collect import EVENTS, Sources, lines_of
from .collect import collect as write_archive
from .console import Broker, Json, Token, addresses, out, seen

OK, WARN, FAIL = "ok", "warn", "fail"
Finding = tuple[str, str, str]
RAY_MINIMUM = (2, 54)
MEMORY_MB = 2048
ACTORS = ("BrokerNode", "QueueReplica", "Sequencer", "Ownership", "Supervisor")


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    broker: Broker = "", token: Token = "",
    collect: Annotated[Path | None, typer.Option(help="write all that helps others to help into this .tar.gz")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Check this machine and the cluster; exit code 1 when something fails."""
    worst = OK
    found: list[dict[str, str]] = []
    for level, what, text in chain(
        _machine(), _cluster(broker, token), () if broker else _warned(token)
    ):  # each as soon as it is known
        worst = FAIL if FAIL in (worst, level) else WARN if WARN in (worst, level) else OK
        found.append({"level": level, "what": what, "text": text})
        if not as_json:
            color = {OK: "green", WARN: "yellow", FAIL: "red"}[level]
            out.print(f"[{color}]{level:4}[/{color}] {what:<12} {escape(text)}", highlight=False, soft_wrap=True)
    if collect is not None:
        _collect(collect, found, broker, token)
    if as_json:
        print(json.dumps(found))
    if worst == FAIL:
        raise typer.Exit(1)


def _collect(path: Path, found: list[dict[str, str]], broker: str, token: str) -> None:
    from ...actors.ray_control import local_ray

    sources = Sources(
        lambda: seen("", "", token), lambda: console.connection(broker, token), lambda: lines_of(last_events(EVENTS)),
        local_ray.recall(),
    )  # fmt: skip
    with console.err.status("collecting"):
        missing = write_archive(path, sources, json.dumps(found, indent=1), token, os.environ)
    for line in missing:
        console.err.print(f"not in it: {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.err.print(
        f"{path} has versions, settings, status, statistics, definitions, events and logs of this host; secrets that "
        "are known here are hidden, names and contents of logs are not: look into it before you send it",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def _machine() -> Iterator[Finding]:
    yield OK, "python", platform.python_version()
    try:
        version = importlib.metadata.version("ray")
        parts = tuple(int(part) for part in version.split(".")[:2])
        if parts < RAY_MINIMUM:
            yield FAIL, "ray", f"{version} has known holes: use at least {'.'.join(map(str, RAY_MINIMUM))}"
        else:
            yield OK, "ray", version
    except importlib.metadata.PackageNotFoundError:
        yield WARN, "ray", "not installed: this machine can be a client only"
    try:
        importlib.metadata.version("uvloop")
        yield OK, "uvloop", "actors run on it"
    except importlib.metadata.PackageNotFoundError:
        yield WARN, "uvloop", "not installed: links are slower; pip install uvloop"
    free_mb = _free_mb()
    if free_mb:
        level = OK if free_mb > MEMORY_MB else WARN
        yield level, "memory", f"{free_mb:,} MB free; three brokers with five queues take about {MEMORY_MB:,} MB"
    mode = os.environ.get("RAY_AUTH_MODE", "")
    if mode == "disabled":
        yield WARN, "ray token", "RAY_AUTH_MODE=disabled: whoever reaches Ray's ports runs code; keep them closed"
    processes = list(psutil.process_iter(["cmdline", "nice"]))
    yield dashboard(processes)
    yield niceness(processes)


def _free_mb() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    except OSError:
        pass
    return 0


def _cluster(broker: str, token: str) -> Iterator[Finding]:
    try:
        connection = console.connection(broker, token)
    except (MantaError, LocalError) as error:
        yield FAIL, "cluster", str(error)
        try:  # one that has lost the majority still says so to those who only look
            with connect(addresses(broker), token, rescue=True) as looking:
                yield from _majority(looking, looking.members)
        except MantaError:
            pass
        return
    with connection:
        members = connection.members
        yield (
            OK,
            "cluster",
            f"{len(members)} brokers take clients, connected to {connection.broker} at {connection.address}",
        )
        if len(members) == 2:
            yield WARN, "brokers", "two brokers serve only together: three survive the loss of one"
        yield from _majority(connection, members)
        ballots: dict[str, Any] = {}
        for member, address in members.items():
            yield from _member(member, address, token, ballots)
        if len({tuple(ballot) for ballot in ballots.values()}) > 1:
            yield WARN, "ballot", f"the brokers follow different sequencers: {ballots}"
        yield _token(list(members.values()))
        yield clocks(list(members.values()))


def _warned(token: str) -> Iterator[Finding]:
    """Warnings of the cluster for which Ray must be asked: a host that may not fail, one where Ray has ended."""
    from ...actors.ray_control import local_ray

    if not local_ray.recall().get("address"):
        return
    try:
        status = seen("", "", token)
    except LocalError as error:
        yield WARN, "hosts", f"what the cluster warns of cannot be asked for: {error}"
        return
    yield from hosts(status)


def _majority(connection: Connection, members: dict[str, str]) -> Iterator[Finding]:
    try:
        yield majority(BrokerStatus.read(connection.status()), members)
    except (MantaError, LocalError) as error:
        yield FAIL, "majority", f"{connection.broker} does not say whether there is one: {error}"


def _member(member: str, address: str, token: str, ballots: dict[str, Any]) -> Iterator[Finding]:
    host, port = split_host(address)
    try:
        socket.create_connection((host, port), 2).close()
        with Connection(address, token, timeout=3) as direct:
            status = BrokerStatus.read(direct.status())
            took: list[float] = []
            for _ in range(20):
                start = time.perf_counter()
                direct.status()
                took.append((time.perf_counter() - start) * 1e3)
    except (OSError, MantaError, LocalError) as error:
        yield FAIL, member, f"{address} does not serve: {error}"
        return
    ballots[member] = status.ballot
    answer = sorted(took)[len(took) // 2]
    level = OK if answer < 20 else WARN
    yield (
        level,
        member,
        f"{address} answers in {answer:.2f} ms, {status.connections} connections, {status.queues} queues",
    )


# ---- judgements, apart from where their facts come from


def majority(status: BrokerStatus, serving: Iterable[str]) -> Finding:
    """Whether anything completes, by what a broker says of itself (`status`) and which brokers take clients."""
    from ...actors.supervisor.losses import losses

    lost = losses(status.waiting)
    if lost:
        return FAIL, "majority", "; ".join(map(str, lost))
    voters = status.voters or list(serving)
    there = [voter for voter in voters if voter in serving]
    if status.cut_off or len(there) <= len(voters) // 2:
        text = f"only {', '.join(there) or 'nobody'} of {', '.join(voters)} takes clients: nothing completes"
        return FAIL, "majority", f"{text}; `mantamq status` says why"
    return OK, "majority", f"{len(there)} of {len(voters)} brokers take clients"


def hosts(status: ClusterStatus) -> Iterator[Finding]:
    """The warnings of a cluster, and whether the supervisor, which replaces what dies, is there."""
    for line in status.warnings:
        yield WARN, "hosts", line
    if not status.supervisor.pid:
        yield WARN, "supervisor", "out of reach: what dies is not replaced until the brokers have started another"
    elif not status.supervisor.confirmed:
        yield WARN, "supervisor", "no majority of the brokers confirms it: what dies is not replaced until one does"
    elif not status.warnings:
        yield OK, "hosts", "the cluster warns of nothing"


def dashboard(processes: Iterable[Any]) -> Finding:
    """Ray's dashboards on this machine run code for whoever asks: they belong on loopback."""
    hosts: list[str] = []
    for process in processes:
        words = process.info["cmdline"] or []
        if any(word.endswith("/dashboard.py") and "/ray/" in word for word in words[:4]):
            hosts += [word.partition("=")[2] for word in words if word.startswith("--host=")]
    exposed = sorted(host for host in hosts if not loopback(host))
    if exposed:
        return WARN, "dashboard", f"Ray's listens on {', '.join(exposed)}: start Ray with --dashboard-host=127.0.0.1"
    return OK, "dashboard", "on loopback only" if hosts else "none runs here"


def niceness(processes: Iterable[Any]) -> Finding:
    """Ray puts its workers last in line unless it is told not to; brokers must not be there."""
    nices: list[int] = []
    for process in processes:
        words = process.info["cmdline"] or []
        if words and words[0].startswith("ray::") and words[0][5:].partition(".")[0] in ACTORS:
            nices.append(process.info["nice"] or 0)
    behind = sum(1 for nice in nices if nice > 0)
    if behind:
        return (
            WARN,
            "niceness",
            f"{behind} of {len(nices)} actors run at low priority: set RAY_worker_niceness=0 for Ray",
        )
    return OK, "niceness", f"{len(nices)} actors on this machine, none at low priority"


def clocks(addresses: list[str]) -> Finding:
    """Expiry and latencies compare clocks of different machines; brokers do not report theirs."""
    hosts = {split_host(address)[0] for address in addresses}
    if len(hosts) <= 1:
        return OK, "clocks", "all brokers are on one machine"
    return WARN, "clocks", f"not compared: brokers on {len(hosts)} machines; keep NTP running on each"


def loopback(host: str) -> bool:
    return host.strip("[").startswith(("127.", "::1", "localhost"))


def _token(addresses: list[str]) -> Finding:
    """Whether a client that has no token is let in."""
    try:
        connect(addresses, "").close()
    except Unauthorized:
        return OK, "token", "clients must present one"
    except MantaError as error:
        return WARN, "token", f"could not tell: {error}"
    if all(loopback(address) for address in addresses):
        return OK, "token", "none is asked for, and the brokers listen on loopback only"
    return WARN, "token", "clients are not asked for one: set it with `mantamq up --token`, or keep the ports closed"
