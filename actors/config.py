"""The configuration of a cluster and of each of its processes: one frozen, typed value per kind of actor.

    the operator's options -> ClusterConfig, checked once -> Plan -> SequencerConfig, OwnershipConfig, BrokerConfig, ...

A value travels as a map by field names, in an order of the supervisor and in the copies of its state, so processes of
different minors understand each other: a field that the reader does not know is skipped, and one that the writer did
not know has its default. Therefore a field that is added has a default, and none is renamed or given another meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from ..protocol.errors import LocalError, StoreError
from ..protocol.limits import DEFAULT, MESSAGE_BYTES, Limits
from ..protocol.timing import DEFAULT_TIMING, Timing
from .links.handshake import Credentials

PORTS = 65536
CONTAINER_BYTES = (512 * 1024, 1024**3)
"""Bounds of the size of a log's container."""
CONTAINER_UNIT = 4096
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
HIDDEN = frozenset({"token", "state", "successor"})
"""Fields that no repr shows, for they are secret or have a secret in them; `Credentials` hides its own."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all of them: how they are packed, for Ray and for the copies that brokers keep."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _unpacked, (type(self), msgspec.msgpack.encode(self))

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        told = (f"{name}={'...' if name in HIDDEN and value else repr(value)}" for name, value in shown.items())
        return f"{type(self).__name__}({', '.join(told)})"


def _unpacked(cls: type[Config], packed: bytes) -> Config:
    return msgspec.msgpack.decode(packed, type=cls)


# ---- the cluster


class LogConfig(Config, frozen=True, kw_only=True):
    """How the cluster's processes write their logs (`process_logs.py`).

    Attributes:
        format: "text", or "json": an object in each line.
        level: "debug", "info", "warning" or "error": what is below it is not written.
        cluster: the cluster's Ray namespace.
        host: of the process; "" where that is not known yet.
    """

    format: str = "text"
    level: str = "info"
    cluster: str = ""
    host: str = ""

    @property
    def json(self) -> bool:
        return self.format == "json"

    def check(self) -> None:
        """Asked when the choice is made.

        Raises:
            LocalError: there is no such format, or no such level.
        """
        if self.format not in LOG_FORMATS:
            raise LocalError(
                f"a log is written as {' or '.join(LOG_FORMATS)}, not as {self.format!r} (`mantamq up --log-format`, "
                "start_cluster(log_format=...))"
            )
        if self.level not in LOG_LEVELS:
            raise LocalError(
                f"a log's level is one of {', '.join(LOG_LEVELS)}, not {self.level!r} (`mantamq up --log-level`, "
                "start_cluster(log_level=...))"
            )


class EventsConfig(Config, frozen=True, kw_only=True):
    """The event table.

    Attributes:
        directory: directory or URL below which it is kept; "": no events.
        keep_s, keep_bytes: parts of it that are older, or beyond this size, go; 0: never.
    """

    directory: str = ""
    keep_s: float = 7 * 86400.0
    keep_bytes: int = 10 * 1024**3


class ManagementConfig(Config, frozen=True, kw_only=True):
    """The page of a cluster, and what is asked for by HTTP.

    Attributes:
        port: where it listens; 0: any; -1: there is none.
        host: what it binds: loopback, so that only programs on its host can ask.
        elsewhere: nobody has named the port: another one will do as well, and is no trouble.
        webhook: address that each change of an alert is posted to; "": none.
    """

    port: int = -1
    host: str = "127.0.0.1"
    elsewhere: bool = False
    webhook: str = ""

    def check(self) -> None:
        """Asked when the choice is made.

        Raises:
            LocalError: there is no such port.
        """
        if not -1 <= self.port < PORTS:
            raise LocalError(
                f"the page's port is 1 to {PORTS - 1:,}, or 0 for any, not {self.port} (`mantamq up --management`, "
                "start_cluster(management=...))"
            )
        if self.webhook and (self.port < 0 or not self.webhook.startswith(("http://", "https://"))):
            raise LocalError(
                f"alerts are posted by the page, to an address http://... or https://..., not to {self.webhook!r} "
                "(`mantamq up --alerts-to`, with --management; start_cluster(alerts_to=...))"
            )


class StoreConfig(Config, frozen=True, kw_only=True):
    """The stores of a cluster: all brokers have one, or none.

    Attributes:
        data: directory on each node, with a folder for each broker; "": no stores, all is kept in memory.
        catalog: where the catalogue of the wiring is kept: "sqlite" (or ""), "postgresql://..."; "log": in the log.
        catalog_name: the first part of its schema's name in PostgreSQL; "": the usual one.
        container_bytes: size of a container of a log.
        containers: how many are made at once, and kept ready.
        gather_bytes: a group commit takes no further write once it has so much.
        reserve_bytes: kept on the disk for what frees space.
        wait_s: how long a start waits for stores that it could do without.
        wait_for: so many stores must be here at a start; 0: a majority will do.
        restart: go on with the cluster that was there, and never begin one.
        node_wait_s: a broker whose node is gone is waited for so long; then it begins elsewhere, blank.
    """

    data: str = ""
    catalog: str = "log"
    catalog_name: str = ""
    container_bytes: int = 16 * 1024**2
    containers: int = 2
    gather_bytes: int = 8 * 1024**2
    reserve_bytes: int = 256 * 1024**2
    wait_s: float = 15.0
    wait_for: int = 0
    restart: bool = False
    node_wait_s: float = 60.0

    @property
    def catalogued(self) -> bool:
        """Whether the wiring is kept in a catalogue besides the log."""
        return self.catalog != "log"

    def check(self, brokers: int) -> None:
        """Asked when the choice is made.

        Raises:
            LocalError: the rule that it breaks, and what to choose.
        """
        least, most = CONTAINER_BYTES
        if not self.data:
            if self.restart or self.wait_for:
                raise LocalError("nothing is stored in memory, so there is nothing to go on with: name a directory")
            return
        if "://" in self.data or not self.data.startswith("/"):
            raise LocalError(
                f"a store is in a directory of a local disk, the same on every node, not in {self.data}: name one"
            )
        if not least <= self.container_bytes <= most or self.container_bytes % CONTAINER_UNIT:
            raise LocalError(
                f"a container of a log has {least:,} to {most:,} bytes, in whole pages of {CONTAINER_UNIT:,}, not "
                f"{self.container_bytes:,}: choose another size (`mantamq up --container-size`)"
            )
        if self.containers < 2:
            raise LocalError(
                f"a log begins with at least two containers, not {self.containers}: one is written while the other "
                "is made ready (`mantamq up --initial-containers`)"
            )
        if self.reserve_bytes < 0 or self.wait_s < 0 or self.node_wait_s < 0 or not 0 <= self.wait_for <= brokers:
            raise LocalError(
                f"the reserve and the times to wait are at least 0, and no more stores can be waited for than there "
                f"are brokers ({brokers}): {self.reserve_bytes:,} bytes, {self.wait_s:g} s, {self.wait_for} stores "
                "were asked for"
            )
        if self.catalogued:
            self._check_catalog()

    def _check_catalog(self) -> None:
        from ..store.catalog.catalog import database_of  # SQL, for those who want it

        try:
            database_of(self.catalog, self.data, UUID(int=0), self.catalog_name)
        except StoreError as error:
            raise LocalError(f"{error.text} (`mantamq up --connect`, `--catalog`)") from None

    def folder(self, broker: str) -> str:
        """The directory of a broker's store; "" where there are none."""
        return f"{self.data}/{broker}" if self.data else ""


class ClusterConfig(Config, frozen=True, kw_only=True):
    """The operator's choice. It stays as it is for the cluster's life, while members come and go (`Plan`).

    Attributes:
        token: what clients must present; "" admits everybody.
        slice_ms: an owner's time on a contended queue.
        spares: warm queue replicas per broker at the start.
        queue_actors_max: at most this many queue replicas of a broker keep queues; further ones are warm.
        client_port: brokers' client ports count up from here; 0 for any port.
        bind: host every listener binds; "" for the address Ray knows the node by.
        events: the event table.
        store: where durable queues and the wiring are kept.
        rebalance: brokers are spread over hosts by themselves, when one comes or comes back.
        program: Ray's id of the job whose end is the cluster's; "": it outlives the program that started it.
        limits: the bounds that its processes keep (`chosen_limits`).
        timing: the times that they keep.
        management: the page.
    """

    token: str = ""
    slice_ms: int = 20
    spares: int = 2
    queue_actors_max: int = 2
    client_port: int = 0
    bind: str = ""
    events: EventsConfig = EventsConfig()
    rebalance: bool = True
    program: str = ""
    limits: Limits = DEFAULT
    timing: Timing = DEFAULT_TIMING
    store: StoreConfig = StoreConfig()
    management: ManagementConfig = ManagementConfig()

    def check(self, brokers: int) -> None:
        """Asked when the choice is made, for a cluster that begins with this number of brokers; never again.

        Raises:
            LocalError: the rule that it breaks, and what to choose.
        """
        try:
            _unpacked(type(self), msgspec.msgpack.encode(self))
        except (msgspec.ValidationError, TypeError, UnicodeEncodeError, OverflowError) as error:
            raise LocalError(f"an option is not of its type, and no process could read it: {error}") from None
        if brokers < 1:
            raise LocalError(
                f"a cluster has at least one broker, not {brokers}: choose 1 or more (`mantamq up --brokers`, "
                "start_cluster(brokers=...))"
            )
        if self.spares < 1 or self.queue_actors_max < 1:
            raise LocalError(
                f"a broker has at least one warm queue replica (spares) and one that keeps queues (queue_actors_max), "
                f"not {self.spares} and {self.queue_actors_max}: choose 1 or more (`mantamq up --spares`, "
                "start_cluster(spares=..., queue_actors_max=...))"
            )
        self.check_ports(brokers)
        self.store.check(brokers)
        self.management.check()

    def check_ports(self, brokers: int) -> None:
        """Asked when a broker joins, too.

        Raises:
            LocalError: this number of brokers has no ports from `client_port` on, and which port to choose.
        """
        if not 0 <= self.client_port <= PORTS - brokers:
            raise LocalError(
                f"{brokers} brokers' client ports cannot count up from {self.client_port}: name one of 1 to "
                f"{PORTS - brokers:,}, or 0 for any free ones"
            )


WATERMARK_BYTES = 256 * 1024**2
"""An operator chooses no less: a broker's processes have about that when they hold nothing."""


def chosen_limits(message_bytes: int, queue_bytes: int = 0, watermark: float = DEFAULT.memory_share) -> Limits:
    """The bounds of a cluster whose operator has chosen how large a message may be, encoded, and a queue that names no
    limit (0: as large as it gets); and how much memory the processes of a broker may have before flow control goes on:
    bytes, or a share of the machine's (up to 1), of which its brokers have equal parts; 0: any.

    Raises:
        LocalError: no frame carries that, and what may be chosen; or no message is in such a queue; or so much memory
            is always used.
    """
    least, most = MESSAGE_BYTES
    if not least <= message_bytes <= most:
        raise LocalError(
            f"the largest message may have {least:,} to {most:,} bytes (a frame carries no more), not "
            f"{message_bytes:,}: send what is larger in pieces, or where it is kept"
        )
    if queue_bytes < 0 or 0 < queue_bytes < least:
        raise LocalError(
            f"queues that name no limit may have {least:,} bytes or more, or 0 for none, not {queue_bytes:,} (`mantamq "
            "up --queue-limit`, start_cluster(queue_limit=...))"
        )
    if not 0 <= watermark <= 1 and watermark < WATERMARK_BYTES:
        raise LocalError(
            f"a memory watermark is a share of the machine's memory, up to 1, or at least {WATERMARK_BYTES:,} bytes "
            f"for each broker's processes, or 0 for none, not {watermark:,} (`mantamq up --memory-watermark`, "
            "start_cluster(memory_watermark=...))"
        )
    share, memory_bytes = (watermark, 0) if watermark <= 1 else (0.0, int(watermark))
    return Limits(
        message_bytes=message_bytes, queue_bytes=queue_bytes, memory_bytes=memory_bytes, memory_share=float(share)
    )


# ---- its processes


class MemberConfig(Config, frozen=True, kw_only=True):
    """Of every member: its credentials, where it listens, whom it dials, and the bounds and times it keeps.

    Attributes:
        credentials: the cluster's id and secret, the member's name and its incarnation.
        bind: host to listen on.
        peers: peers that it dials when it begins: name -> "host:port".
        limits, timing: of the whole cluster.
        logs: how it writes its log.
    """

    credentials: Credentials
    bind: str
    peers: dict[str, str] = {}
    limits: Limits = DEFAULT
    timing: Timing = DEFAULT_TIMING
    logs: LogConfig = LogConfig()

    @property
    def inc(self) -> int:
        """The member's incarnation."""
        return self.credentials.inc


class SequencerConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    voters: the brokers of the cluster, as its supervisor knows them.
    leading: the cluster begins with this sequencer.
    """

    member: MemberConfig
    voters: tuple[str, ...]
    leading: bool


class OwnershipConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    slice_ms: an owner's time on a contended queue.
    """

    member: MemberConfig
    slice_ms: int


class BrokerConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    client_port: for clients; 0 for any.
    voters: the brokers of the cluster, as its supervisor knows them.
    token: what clients must present; "" admits everybody.
    blank: an earlier incarnation of this broker was there before, or it joins a cluster that runs. With a store this
        counts where that has no log.
    events: whether the cluster keeps events.
    replicas_max: most replicas that keep queues; 0: all that there are.
    store: the directory of its store; "": it has none.
    """

    member: MemberConfig
    client_port: int
    voters: tuple[str, ...]
    blank: bool
    token: str = ""
    events: bool = False
    replicas_max: int = 0
    store: str = ""


class ReplicaConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    broker: the broker that it belongs to.
    events: whether the cluster keeps events.
    store: the directory of that broker's store; "": it has none.
    """

    member: MemberConfig
    broker: str
    events: bool = False
    store: str = ""


class TapConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    events: the event table of all clusters that share its directory.
    folder: this cluster's, below that directory, if it has none there yet.
    """

    member: MemberConfig
    events: EventsConfig
    folder: str


class ManagementNodeConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    management: the operator's choice.
    brokers: client addresses to ask first.
    token: what clients must present; "" admits everybody.
    """

    member: MemberConfig
    management: ManagementConfig
    brokers: tuple[str, ...] = ()
    token: str = ""


class StoreNodeConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    broker: whose store it is.
    store: the operator's choice.
    node: where this is, for an operator who looks for it.
    birth: the cluster begins with it. Anywhere else a store without a log has lost it, or is a newcomer's: it is blank.
    """

    member: MemberConfig
    broker: str
    store: StoreConfig
    node: str = ""
    birth: bool = False


# ---- its users


class ClusterBook(Config, frozen=True, kw_only=True):
    """The cluster as a program finds it that has joined its Ray.

    Attributes:
        cluster: the cluster's id.
        namespace: the Ray namespace.
        stage: "running" once the cluster is complete; else what its supervisor does.
        token: what clients must present; "" for none.
        addresses: broker -> "host:port" for clients, of those that take clients.
        nodes: broker -> its Ray node.
        program: Ray's id of the job whose end is the cluster's; "": it outlives the program that started it.
        pids: actor -> process id.
        notes: what the operator should know of the start: a new store, directories that were refused.
        data: the directory of its stores; "": none.
        events: the directory of its events; "": it keeps none.
        paged: it has a page, wherever that is.
    """

    cluster: str
    namespace: str
    stage: str
    token: str
    addresses: dict[str, str]
    nodes: dict[str, str]
    program: str
    pids: dict[str, int]
    notes: tuple[str, ...] = ()
    data: str = ""
    events: str = ""
    paged: bool = False
