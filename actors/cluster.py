"""Start a cluster, or find one that runs: what `mantamq up`, tests and notebooks call.

with start_cluster(brokers=3) as cluster:          # a fresh local Ray, gone at the end
    print(cluster.addresses)
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import Any

import ray
from msgspec.structs import replace

from ..protocol.errors import LocalError
from ..protocol.limits import DEFAULT
from ..protocol.status.cluster import ClusterStatus
from ..protocol.status.machines import BrokerStatus
from .config import ClusterBook, ClusterConfig, EventsConfig, LogConfig, ManagementConfig, StoreConfig, chosen_limits
from .ray_control import bound, door, listening, local_ray
from .ray_control.local_ray import start_ray_head, stop_ray_head
from .ray_control.placement import SUPERVISOR, Placement, alive_nodes, broker_nodes, queue_actors
from .ray_control.ray_handles import ActorGone, Handle
from .supervisor import lookout, tap_life
from .supervisor.address_book import is_broker
from .supervisor.cluster_start import BACK_S, START_S
from .supervisor.launcher import RECOVER_S
from .supervisor.plan import BROKERS, Plan
from .supervisor.shutdown import Shutdown
from .supervisor.store_start import NEEDED_S
from .supervisor.store_survey import look_into
from .supervisor.supervisor import Supervisor

__all__ = ["Cluster", "NotThere", "find_cluster", "start_cluster", "start_ray_head", "stop_ray_head"]

log = logging.getLogger(__name__)

NAMESPACE = "mantamq"
PAGE_PORT = 15672
"""Where those who run brokers look for a page: RabbitMQ's is there."""
CHANGE_S = 600.0
"""How long a broker may take to join or leave: it may have much to copy."""
_LOOK_S = 0.1
_GONE_S = 10.0
_REPLACED_S = 20.0
_ALIVE_S = 2.0


Follow = Callable[[dict[str, Any]], None]
"""Told how far a change of the members is: "broker", "stage" (in words), "done" and "total" (streams; 0: not known)."""


class Cluster:
    """A running cluster, seen from a process that is joined to its Ray.

    Attributes:
        addresses: broker id -> "host:port" for clients.
        token: what clients must present; "" for none.
        namespace: the Ray namespace.
        data: the directory, on each node, where durable queues are kept; "" for none.
        paged: it has a page; `status` says where.
        notes: what its start had to say: a new store, directories that were refused.
    """

    def __init__(self, supervisor: Handle, book: ClusterBook, owns_ray: bool = False) -> None:
        self._supervisor = supervisor
        self._owns_ray = owns_ray
        self._nodes = book.nodes
        self._stopped = False
        self.addresses = book.addresses
        self.token = book.token
        self.namespace = book.namespace
        self.id = book.cluster
        self.data = book.data
        self.paged = book.paged
        self.notes = list(book.notes)

    def __repr__(self) -> str:
        return f"Cluster({self.id}, {', '.join(f'{broker}={address}' for broker, address in self.addresses.items())})"

    def nearest(self) -> str:
        """Client address of a broker on this process's Ray node, else of the first broker.

        Raises:
            LocalError: no broker took clients when this was asked of the cluster.
        """
        if not self.addresses:
            raise LocalError("no broker of the cluster takes clients now: `mantamq status` says why")
        here = ray.get_runtime_context().get_node_id()
        for broker, node in self._nodes.items():
            if node == here and broker in self.addresses:
                return self.addresses[broker]
        return next(iter(self.addresses.values()))

    @property
    def ray_address(self) -> str:
        """Address of the Ray cluster it runs in, "host:port"."""
        return ray.get_runtime_context().gcs_address

    def status(self) -> dict[str, Any]:
        """The whole cluster as plain values: members, and per actor role, pid, node, links, the machine's report."""
        return self._ask("status")

    def report(self) -> ClusterStatus:
        """The same as a struct, whose fields are explained there."""
        return ClusterStatus.read(self.status())

    def health(self) -> dict[str, Any]:
        """``{"healthy": bool, "unhealthy": [reasons], "warnings": [...], "alerts": [...]}``: every way in which the
        cluster is not whole; what is wrong though it is, such as a host that may not fail; and both with their names
        (`AlertStatus`)."""
        return self.report().health()

    def quorum_critical(self, broker: str = "", whole_node: bool = False) -> dict[str, dict[str, Any]]:
        """Whether brokers may be stopped now.

        Args:
            broker: one of them; "" for each.
            whole_node: each goes together with the brokers that share its host.

        Returns:
            broker -> ``{"together": brokers that go with it, "reasons": what would stop, none when it may go}``;
            without a name, and on several hosts, "host ADDRESS" of each host as well.

        Raises:
            LocalError: there is no such broker.
        """
        return self._ask("quorum_critical", broker, whole_node)

    def add_broker(
        self, node: str = "", whole: bool = True, timeout_s: float = CHANGE_S, progress: Follow | None = None
    ) -> str:
        """Let a broker join; returns its id.

        Args:
            node: id or address of the Ray node that carries it; "" for the one with the fewest brokers.
            whole: wait until all its queues are up to date and it has a vote in each; else only until clients can
                connect to it, and the rest goes on by itself.
            progress: called whenever it gets on.

        Raises:
            LocalError: why it cannot join, or what was still missing at the limit; it goes on joining then.
        """

        def enough(broker: str) -> bool:
            return not whole and broker in self.refresh()

        return self._change("add_broker", node, timeout_s, progress, enough)

    def remove_broker(self, name: str, timeout_s: float = CHANGE_S, progress: Follow | None = None) -> None:
        """Let a broker leave for good: its clients go to other members, the others take its votes, its processes end.

        Raises:
            LocalError: why it may not leave (the last one; without it there would be no majority of something; another
                change is under way; there is none of that name), or what was still to be done at the limit; it goes on
                leaving then.
        """
        self._change("remove_broker", name, timeout_s, progress, lambda broker: False)

    def rebalance(self, timeout_s: float = CHANGE_S, progress: Callable[[str], None] | None = None) -> None:
        """Spread the brokers over the hosts, one after the other: each joins elsewhere before it leaves.

        Args:
            progress: called with a line of text whenever it gets on.

        Raises:
            LocalError: what was still to be done at the limit; it goes on.
        """
        until = time.monotonic() + timeout_s
        told = ""
        while not (now := self._ask("rebalance"))["even"]:
            if progress is not None and now["stage"] != told:
                progress(told := now["stage"])
            if time.monotonic() > until:
                raise LocalError(f"not done within {timeout_s:g} s ({now['stage']}); it goes on, see `mantamq status`")
            time.sleep(_LOOK_S)
        self.refresh()

    def _change(
        self, method: str, which: str, timeout_s: float, progress: Follow | None, enough: Callable[[str], bool]
    ) -> str:
        request = secrets.token_hex(8)
        told: dict[str, Any] = {}
        until = time.monotonic() + timeout_s
        while True:
            now: dict[str, Any] = self._ask("progress", request)
            if not now:  # the first time, or the Supervisor died before it had told anybody
                self._ask(method, request, which)
                continue
            if now["ended"]:
                self.refresh()
                if now["error"]:
                    raise LocalError(now["error"])
                return now["broker"]
            if progress is not None and now != told:
                progress(now)
                told = now
            if enough(now["broker"]):
                return now["broker"]
            if time.monotonic() > until:
                raise LocalError(
                    f"broker {now['broker']}: not done within {timeout_s:g} s ({now['stage']}); it goes on, see "
                    "`mantamq status`"
                )
            time.sleep(_LOOK_S)

    def refresh(self) -> dict[str, str]:
        """Ask the cluster anew for `addresses`, and return them."""
        book: ClusterBook = self._ask("book_now")
        self._nodes, self.addresses = book.nodes, book.addresses
        return self.addresses

    def actor_pids(self) -> dict[str, int]:
        """Process id of every actor, by name."""
        book: ClusterBook = self._ask("book_now")
        return book.pids

    def _ask(self, method: str, *args: Any) -> Any:
        """Ask the Supervisor; when it has died, the one that takes its place."""
        until = time.monotonic() + _REPLACED_S
        while True:
            try:
                return self._supervisor.call_now(method, *args, timeout_s=10)
            except ActorGone:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)
            self._supervisor = Placement(self.namespace).supervisor() or self._supervisor

    def broker_nodes(self) -> dict[str, str]:
        """Ray node id of every broker."""
        return dict(self._nodes)

    def stop(self, now: bool = False) -> list[str]:
        """End every actor; and Ray itself, if `start_cluster` started it. Can be called again.

        Args:
            now: do not wait until brokers with a store have given back what consumers hold, and written down what they
                have: the next start is as after a power cut, which loses nothing either.

        Returns:
            The brokers whose stores were not closed clean: nothing is lost with them, the next start takes longer.

        Raises:
            LocalError: the cluster may go on running, and why.
        """
        if self._stopped or not ray.is_initialized():
            return []
        try:
            unclean = _stop(self._supervisor, self.namespace, list(self._nodes) if self.data else [], now)
        except LocalError:
            if not self._owns_ray:
                raise
            unclean = list(self._nodes) if self.data else []  # with its Ray it ends for certain
        self._stopped = True
        atexit.unregister(self.stop)
        if self._owns_ray:
            ray.shutdown()
        return unclean

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_cluster(
    brokers: int | None = None,
    address: str | None = "local",
    namespace: str = NAMESPACE,
    detached: bool | None = None,
    token: str = "",
    slice_ms: int = 20,
    spares: int = 2,
    queue_actors_max: int | None = None,
    client_port: int | None = None,
    num_cpus: int | None = None,
    bind: str | None = None,
    events: str | None = None,
    events_keep_days: float = 7.0,
    events_keep_gb: float = 10.0,
    max_message_bytes: int = DEFAULT.message_bytes,
    rebalance: bool = True,
    progress: Callable[[str], None] | None = None,
    data: str | None = None,
    restart: bool = False,
    wait_s: float = 15.0,
    wait_for: int = 0,
    container_bytes: int = 16 * 1024**2,
    containers: int = 2,
    reserve_bytes: int = 256 * 1024**2,
    connect: str = "sqlite",
    catalog: str = "",
    queue_limit: int = 0,
    memory_watermark: float = DEFAULT.memory_share,
    management: int | str | None = None,
    alerts_to: str = "",
    log_format: str = "text",
    log_level: str = "info",
) -> Cluster:
    """Start a cluster and wait until it is ready. With `data` it goes on with what was kept there.

    Args:
        brokers: how many brokers; None: three, or as many as have a store in `data`.
        address: "local" for a fresh Ray in this process, which ends with the cluster; "auto", "host:port" or None (the
            remembered one) to use a running Ray. A Ray this process has joined already is used as it is.
        namespace: Ray namespace; one cluster each.
        detached: whether the cluster outlives this program; by default unless Ray itself is local to it. One that does
            not ends when the program leaves Ray; until then any of its processes may die.
        token: what clients must present; "" admits everybody.
        slice_ms: an owner's time on a contended queue, in milliseconds.
        spares: warm queue replicas per broker.
        queue_actors_max: so many queue replicas per broker (processes of 40 MB) keep queues; further queues share them.
            None: twice the cores that a broker has to itself.
        client_port: brokers' client ports count up from here; None for any free ports.
        num_cpus: of a fresh local Ray; None for all.
        bind: host that all listeners bind; None for loopback with a fresh local Ray, else each node's own address.
        events: directory or URL below which the event table is kept, for Spark (see jobs/); None or "off": no events.
            Off unless asked for: a library neither writes files nor starts a process more by itself. `mantamq up` asks.
        events_keep_days, events_keep_gb: what is older, or beyond this size, goes; 0: never.
        max_message_bytes: of the largest message, encoded: 1 KiB to 24 MiB. What is larger is refused with `TooLarge`.
        rebalance: when a host comes or comes back, brokers move there by themselves, one after the other, so that one
            host may fail. A broker that moves has another name, address and port.
        progress: called with a line of text whenever the start gets on.
        data: directory of a local disk, the same path on every node, where the wiring and durable queues are kept.
            None: all is in memory, and durable queues are refused.
        restart: only go on with what is in `data`; without anything there nothing is started.
        wait_s: how long stores are waited for that are not needed; those that are needed, for five minutes.
        wait_for: so many stores must be there; 0: a majority will do.
        container_bytes, containers: size of the files of a new store's logs (512 KiB to 1 GiB), and how many each
            begins with.
        reserve_bytes: kept free on the disk, for what makes room.
        connect: where the wiring is kept in SQL as well: "sqlite" for a file beside the logs, "postgresql://USER@HOST/DB"
            for a schema of each store; "log": in the logs alone.
        catalog: the first part of those schemas' names; "": manta.
        queue_limit: in bytes, of queues that name no limit: they refuse what comes then, as with `max_size=`. It is
            part of their declaration; 0: they have none.
        memory_watermark: flow control holds all producers back while a broker's processes have more memory than that:
            bytes, or a share (up to 1) of the machine's memory, or of its container's if that is less, of which the
            brokers there have equal parts; 0: whatever they have.
        management: port of the page on loopback, beside the first broker; 0: any; "auto": 15672, or any if that is
            taken; None or "off": there is none. `mantamq up` asks for "auto".
        alerts_to: address that the page posts each change of an alert to, as JSON; "": none.
        log_format: of what the cluster's processes write to their logs: "text", or "json", an object in each line.
        log_level: "debug", "info", "warning" or "error": what is below it is not written.

    Raises:
        LocalError: wrong arguments, no Ray, a cluster there already, or stores that cannot be used: nothing was changed
            in any store then. Or something did not start, and what: stores that were opened by then are as after a
            power cut, and lack nothing.
    """
    config = ClusterConfig(
        token=token or "", slice_ms=slice_ms, spares=spares, queue_actors_max=queue_actors_max or 1,
        client_port=client_port or 0, bind=bind or "", events=_events(events, events_keep_days, events_keep_gb),
        management=page_config(management, alerts_to),
        rebalance=rebalance, limits=chosen_limits(max_message_bytes, queue_limit, memory_watermark),
        store=_stored(
            data, container_bytes=container_bytes, containers=containers, reserve_bytes=reserve_bytes, wait_s=wait_s,
            wait_for=wait_for, restart=restart, catalog=connect, catalog_name=catalog,
        ),
    )  # fmt: skip
    config.check(max(BROKERS, wait_for) if brokers is None else brokers)
    placement = _placement(namespace, log_format, log_level)
    owns_ray = _in_ray(address, namespace, num_cpus, bind, say := progress or (lambda text: None))
    config = _fitting(config, bind is None and owns_ray, queue_actors_max is None, brokers or BROKERS)
    try:
        if not (not owns_ray and address != "local" if detached is None else detached):
            config = replace(config, program=bound.this_program())
        cluster = _started(placement, Plan.of(brokers or 0, config, _hosts()), say, owns_ray)
    except BaseException:
        if owns_ray:
            ray.shutdown()
        raise
    say(f"running: {', '.join(cluster.addresses)}")
    return cluster


def page_config(management: int | str | None, alerts_to: str) -> ManagementConfig:
    """The page as `start_cluster` is asked for it. Raises LocalError: its port is none."""
    if management in (None, "off"):
        return ManagementConfig(webhook=alerts_to)
    if management == "auto":
        return ManagementConfig(port=PAGE_PORT, elsewhere=True, webhook=alerts_to)
    try:
        return ManagementConfig(port=int(management or 0), webhook=alerts_to)
    except ValueError:
        raise LocalError(f"the page's port is a number, auto or off, not {management!r}") from None


def _placement(namespace: str, log_format: str, log_level: str) -> Placement:
    logs = LogConfig(format=log_format, level=log_level, cluster=namespace)
    logs.check()
    return Placement(namespace, logs)


def _hosts() -> int:
    """On how many hosts brokers may be."""
    return len({node.host for node in broker_nodes(alive_nodes())})


def _fitting(config: ClusterConfig, local: bool, chosen_here: bool, brokers: int) -> ClusterConfig:
    """The choice, with what is best in this Ray where the operator has said nothing."""
    if local:
        config = replace(config, bind="127.0.0.1")
    return replace(config, queue_actors_max=queue_actors(brokers, alive_nodes())) if chosen_here else config


def _in_ray(
    address: str | None, namespace: str, num_cpus: int | None, bind: str | None, say: Callable[[str], None]
) -> bool:
    """Have this program in a Ray; whether it was started for it."""
    if ray.is_initialized():
        return False
    if address != "local":
        local_ray.join(_address(address), namespace)
        return False
    if bind:
        listening.check_bind(bind)
    say("starting Ray")
    local_ray.start_local(namespace, num_cpus)
    return True


def _started(placement: Placement, plan: Plan, say: Callable[[str], None], owns_ray: bool) -> Cluster:
    supervisor = _start_supervisor(placement)
    try:
        _follow(supervisor, plan, say)
        cluster = Cluster(supervisor, supervisor.call_now("book_now"), owns_ray)
    except BaseException:
        say("ending what was started")  # it takes some seconds, for whoever has interrupted it
        with suppress(LocalError):
            _stop(supervisor, placement.namespace)
        raise
    if owns_ray:
        atexit.register(cluster.stop)
    for line in cluster.notes:
        say(line)
    return cluster


def _stored(data: str | None, **chosen: Any) -> StoreConfig:
    """What is chosen for stores; without a directory none of it means anything, but that one was to be there."""
    if data:
        return StoreConfig(data=store_directory(data), **chosen)
    return StoreConfig(restart=chosen["restart"], wait_for=chosen["wait_for"])


def find_cluster(address: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster that runs in a Ray: the one this process has joined, else at `address`, else the remembered one.

    Args:
        namespace: None for the one that `mantamq up` has used, if this is the Ray it has used; else "mantamq".

    Raises:
        NotThere: Ray is there, and no cluster in the namespace; which others there are.
        LocalError: there is no Ray, or it does not take this program, or the cluster does not answer; what to do.
    """
    if not ray.is_initialized():
        local_ray.join(_address(address), namespace or NAMESPACE)
    placement = Placement(namespace or _remembered_namespace())
    until = time.monotonic() + _REPLACED_S
    stage = ""
    while True:
        supervisor = placement.supervisor()
        if supervisor is not None:
            try:
                book: ClusterBook = supervisor.call_now("book_now", timeout_s=10)
                stage = book.stage
                if stage == "running":
                    return Cluster(supervisor, book)
            except ActorGone as error:
                stage = str(error)
        # Its brokers start another Supervisor when it has died; without brokers there is none to come.
        elif not any(is_broker(name) for name in placement.names()):
            break
        if time.monotonic() > until:
            why = f"its supervisor: {stage}" if stage else "it has no supervisor"
            raise LocalError(f"the cluster in the Ray namespace {placement.namespace!r} does not answer ({why})")
        time.sleep(0.2)
    raise NotThere(placement)


class NotThere(LocalError):
    """There is a Ray, and no cluster in the namespace that was asked for.

    Attributes:
        namespace: that.
        others: namespaces of this Ray in which a cluster runs.
    """

    def __init__(self, placement: Placement) -> None:
        self.namespace, self.others = placement.namespace, placement.others()
        what = "start one with `mantamq up` or start_cluster()"
        if self.others:
            what = f"one runs in {', '.join(map(repr, self.others))}: name that (--namespace, namespace=), or {what}"
        super().__init__(f"there is no cluster in the Ray namespace {self.namespace!r}: {what}")


def _remembered_namespace() -> str:
    known = local_ray.recall()
    same = local_ray.same_ray(known.get("address"), ray.get_runtime_context().gcs_address)
    return known.get("namespace") or NAMESPACE if same else NAMESPACE


def look(
    address: str | None = None, namespace: str = NAMESPACE, ask: Callable[[str], BrokerStatus | str] | None = None
) -> ClusterStatus:
    """The status of a cluster, by whoever of it can be reached, within some 5 seconds: its supervisor, else its other
    members, else, when Ray is away, the brokers at the addresses written down here. What is out of reach is named among
    the reasons.

    Args:
        address: of Ray; None: the remembered one.
        ask: asks a broker at its client address for its report (`lookout.by_ports`); None: they are not asked.

    Raises:
        LocalError: there is none, or nobody of it answers, and what to do.
    """
    known = local_ray.recall()
    members: dict[str, str] = known.get("members") or {}
    try:
        if not ray.is_initialized():
            local_ray.join(_address(address), namespace)
        report = lookout.by_names(Placement(namespace))
        if report is None:
            raise NotThere(Placement(namespace))
        return report
    except (NotThere, door.TokenAsked):
        raise  # Ray has answered: it is not out of reach
    except LocalError as error:
        problem = error
    if ask is not None and (not address or address == known.get("address")):
        report = lookout.by_ports(members, ask, str(problem))
        if report is not None:
            return report
    raise problem


def _events(directory: str | None, keep_days: float, keep_gb: float) -> EventsConfig:
    """The event table, where every process understands it alike."""
    if directory in (None, "off"):
        directory = ""
    tap_life.check(directory)
    if directory and "://" not in directory:
        directory = os.path.abspath(os.path.expanduser(directory))
    return EventsConfig(directory=directory, keep_s=keep_days * 86400, keep_bytes=int(keep_gb * 1024**3))


def store_directory(data: str | None) -> str:
    """A directory for stores, where every process understands it alike; "" for none."""
    if not data or "://" in data:
        return data or ""
    return os.path.abspath(os.path.expanduser(data))


def stored_brokers(directory: str) -> int:
    """The number of brokers that have a store in a directory of this machine; of one that cannot be read 0."""
    return len(look_into(directory)["stores"])


def _address(address: str | None) -> str:
    if address == "local":
        raise LocalError(
            'address="local" starts a new Ray, there is no cluster to find in it: give "auto" or host:port'
        )
    return address or local_ray.recall().get("address") or "auto"


def _start_supervisor(placement: Placement) -> Handle:
    if _there(placement):
        raise LocalError(
            f"a cluster runs in the Ray namespace {placement.namespace!r} already: use find_cluster(), stop it with "
            "`mantamq down`, or choose another namespace"
        )
    _refuse_to_sweep(placement)
    here = ray.get_runtime_context().get_node_id()
    carriers = broker_nodes(alive_nodes())
    home = here if any(node.id == here for node in carriers) else carriers[0].id
    return placement.actor(Supervisor, SUPERVISOR, home, placement, True)


def _refuse_to_sweep(placement: Placement) -> None:
    """A start sweeps away what an earlier cluster has left behind. One whose brokers live has lost its
    supervisor only, and they start another: it is no remnant."""
    brokers = [name for name in placement.names() if is_broker(name)]
    alive: list[str] = []
    for name in sorted(brokers):
        handle = placement.find(name)
        try:
            if handle is not None and handle.call_now("recall", timeout_s=_ALIVE_S) is not None:
                alive.append(name)
        except LocalError:
            continue
    if alive:
        raise LocalError(
            f"a cluster runs in the Ray namespace {placement.namespace!r} without a supervisor, which its brokers "
            f"({', '.join(alive)}) start again: see `mantamq status`, and stop it with `mantamq down` if it is to go"
        )


def _there(placement: Placement) -> bool:
    """Whether a cluster is there. One whose program has just ended is about to end, too: that is waited for."""
    until = time.monotonic() + _GONE_S
    while (supervisor := placement.supervisor()) is not None:
        try:
            program = supervisor.call_now("book_now", timeout_s=_GONE_S).program
        except (ActorGone, LocalError):
            return placement.supervisor() is not None
        if not program or not bound.over(program) or time.monotonic() > until:
            return True
        time.sleep(_LOOK_S)
    return False


def _follow(supervisor: Handle, plan: Plan, say: Callable[[str], None]) -> None:
    """Start the cluster and tell how it goes."""
    started = supervisor.begin("start_cluster", plan)
    told = ""
    limit_s = 2 * START_S + (NEEDED_S + BACK_S + plan.config.store.wait_s + RECOVER_S if plan.config.store.data else 0)
    until = time.monotonic() + limit_s
    while not ray.wait([started], timeout=0.1)[0]:
        if time.monotonic() > until:
            raise LocalError(f"the cluster did not start within {limit_s:g} s (last: {told or 'nothing heard'})")
        if (stage := supervisor.call_now("stage", timeout_s=START_S)) != told:
            told = stage
            say(stage)
    supervisor.wait(started)


def _stop(supervisor: Handle, namespace: str, stored: Collection[str] = (), now: bool = False) -> list[str]:
    """As `Shutdown.run`; on one host, until its processes are gone."""
    end = Shutdown(Placement(namespace), supervisor, stored)
    unclean = end.run(now)
    if len({node.host for node in alive_nodes()}) == 1:
        alive = local_ray.wait_gone(list(end.pids.values()), _GONE_S)
        if names := [name for name, pid in end.pids.items() if pid in alive]:
            log.warning(
                "Ray has ended %(members)s, and their processes (%(pids)s) are there after %(waited_s)g s yet: a store "
                "is free for the next start when its process is gone",
                {"members": ", ".join(names), "pids": ", ".join(map(str, alive)), "waited_s": _GONE_S},
            )
    return unclean
