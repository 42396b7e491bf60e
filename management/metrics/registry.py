"""The one table of metrics: names, kinds, units, labels, help, and how each is read.

Names begin with `PREFIX`; the unit is last, and counters end in `_total`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from ...protocol.status.machines import BrokerStatus, SequencerStatus
from ...protocol.status.stores import StoreStatus
from ..view import ManagementView
from .bounded import MOST, Combine, Values
from .observed import Observed

PREFIX = "manta_"
GAUGE, COUNTER = "gauge", "counter"
MS = 0.001
"""In seconds."""

Point = tuple[tuple[str, ...], float]
"""The values of the labels, in their order, and the value."""
Read = Callable[[Observed], Iterable[Point]]


@dataclass(frozen=True)
class ClusterMetric:
    """A metric.

    Attributes:
        name: for all who show it.
        kind: `GAUGE` or `COUNTER`.
        unit: of its value: "seconds", "bytes", "messages", ...; "yes or no" is 1 or 0.
        help: what it says, in a sentence or two.
        labels: their names.
        read: its points now; none for what is not known.
    """

    name: str
    kind: str
    unit: str
    help: str
    labels: tuple[str, ...]
    read: Read


class MetricReader:
    """Reads all metrics, again and again. Whoever shows them has one of its own: it knows what was counted before.

    Args:
        most: so many queues have a label of their own, and so many exchanges, and brokers; all others are one.
    """

    def __init__(self, most: int = MOST) -> None:
        self._observed = Observed(most)

    def read(self, view: ManagementView, now_s: float, looks: int) -> list[tuple[ClusterMetric, list[Point]]]:
        """All metrics, and what they are now.

        Args:
            now_s: Unix time.
            looks: how often the view was fed.
        """
        self._observed.take(view, now_s, looks)
        return [(metric, list(metric.read(self._observed))) for metric in METRICS]


# ---- how they are read


def _labelled(values: Values) -> Iterator[Point]:
    return (((label,), value) for label, value in values)


def _queue(name: str, unit: str, help: str, field: str, combine: Combine = sum, scale: float = 1) -> ClusterMetric:
    read: Read = lambda seen: _labelled(seen.queues.gauges(field, combine, scale))  # noqa: E731
    return ClusterMetric(name, GAUGE, unit, help, ("queue",), read)


def _queue_counter(name: str, unit: str, help: str, field: str) -> ClusterMetric:
    read: Read = lambda seen: _labelled(seen.queues.counts(field))  # noqa: E731
    return ClusterMetric(name, COUNTER, unit, help, ("queue",), read)


DISCARDED = {
    "rejected": "discarded_subscriber", "too_often": "discarded_too_often", "ring": "discarded_ring",
    "last_value": "discarded_last_value", "purge": "discarded_purge", "limit": "refused", "duplicate": "duplicates",
}  # fmt: skip
"""Why a message was discarded, as a label -> the field of a queue that counts those."""


def _discarded(seen: Observed) -> Iterator[Point]:
    for reason, field in DISCARDED.items():
        yield from (((label, reason), value) for label, value in seen.queues.counts(field))


def _exchange_counter(name: str, help: str, field: str) -> ClusterMetric:
    read: Read = lambda seen: _labelled(seen.exchanges.counts(field))  # noqa: E731
    return ClusterMetric(name, COUNTER, "messages", help, ("exchange",), read)


def _broker(name: str, unit: str, help: str, field: str) -> ClusterMetric:
    read: Read = lambda seen: _labelled(seen.brokers.gauges(field))  # noqa: E731
    return ClusterMetric(name, GAUGE, unit, help, ("broker",), read)


def _broker_counter(name: str, help: str, field: str) -> ClusterMetric:
    read: Read = lambda seen: _labelled(seen.brokers.counts(field))  # noqa: E731
    return ClusterMetric(name, COUNTER, "messages", help, ("broker",), read)


def _machine(name: str, unit: str, help: str, value: Callable[[BrokerStatus], Any]) -> ClusterMetric:
    def read(seen: Observed) -> Iterator[Point]:
        return (((broker,), said) for broker, one in seen.broker_machines() if (said := value(one)) is not UNSET)

    return ClusterMetric(name, GAUGE, unit, help, ("broker",), read)


def _store(name: str, unit: str, help: str, value: Callable[[StoreStatus], float]) -> ClusterMetric:
    read: Read = lambda seen: (((broker,), value(one)) for broker, one in seen.stores())  # noqa: E731
    return ClusterMetric(name, GAUGE, unit, help, ("broker",), read)


def _replica(name: str, unit: str, help: str, field: str) -> ClusterMetric:
    read: Read = lambda seen: (((broker,), one[field]) for broker, one in seen.replicas.items())  # noqa: E731
    return ClusterMetric(name, GAUGE, unit, help, ("broker",), read)


def _leader(name: str, kind: str, unit: str, help: str, value: Callable[[SequencerStatus], float]) -> ClusterMetric:
    def read(seen: Observed) -> Iterator[Point]:
        if (leader := seen.leader) is not None:
            yield (), value(leader)

    return ClusterMetric(name, kind, unit, help, (), read)


def _table(name: str, kind: str, unit: str, help: str, value: Callable[[dict[str, Any]], float]) -> ClusterMetric:
    def read(seen: Observed) -> Iterator[Point]:
        if (table := seen.view.event_table()) is not None:
            yield (), value(table)

    return ClusterMetric(name, kind, unit, help, (), read)


def _cluster(name: str, unit: str, help: str, value: Callable[[Any], float]) -> ClusterMetric:
    def read(seen: Observed) -> Iterator[Point]:
        if seen.view.status is not None:
            yield (), value(seen.view.status)

    return ClusterMetric(name, GAUGE, unit, help, (), read)


def _view(name: str, kind: str, unit: str, help: str, value: Callable[[Observed], float]) -> ClusterMetric:
    return ClusterMetric(name, kind, unit, help, (), lambda seen: [((), value(seen))])


def _members(name: str, help: str, index: int) -> ClusterMetric:
    read: Read = lambda seen: (((role,), counted[index]) for role, counted in seen.members().items())  # noqa: E731
    return ClusterMetric(name, GAUGE, "members", help, ("role",), read)


def _age(seen: Observed) -> Iterator[Point]:
    if seen.view.time_s:
        yield (), max(0.0, seen.now_s - seen.view.time_s)


def _counted(name: str, part: str) -> ClusterMetric:
    help = f"{part.capitalize()} there are in the cluster."
    read: Read = lambda seen: [((), seen.view.counts()[part])]  # noqa: E731
    return ClusterMetric(name, GAUGE, part, help, (), read)


# ---- the table


QUEUES = (
    _queue("manta_queue_messages", "messages", "Messages in the queue: ready, delayed and unacked.", "messages"),
    _queue("manta_queue_messages_ready", "messages", "Messages that a consumer can have.", "available"),
    _queue(
        "manta_queue_messages_unacked", "messages", "Messages that consumers hold and have not settled.", "acquired",
    ),
    _queue("manta_queue_messages_delayed", "messages", "Messages that wait for their time.", "delayed"),
    _queue(
        "manta_queue_messages_dead_lettering", "messages", "Messages on their way to another place.", "dead_lettering",
    ),
    _queue("manta_queue_size_bytes", "bytes", "Size of all messages in the queue, encoded.", "bytes"),
    _queue("manta_queue_consumers", "consumers", "Consumers at all brokers.", "consumers"),
    _queue(
        "manta_queue_oldest_message_age_seconds", "seconds", "How long the oldest message has been in the queue; of "
        "the other queues, the oldest of all.", "age_ms", max, MS,
    ),
    _queue(
        "manta_queue_flow_stopped", "yes or no", "Whether the queue holds its senders back, where it may; of the other "
        "queues, whether any does.", "flowStopped", max,
    ),
    _queue_counter("manta_queue_enqueued_total", "messages", "Messages that came.", "enqueued"),
    _queue_counter("manta_queue_enqueued_bytes_total", "bytes", "Size of the messages that came, encoded.", "bytes_in"),
    _queue_counter("manta_queue_dequeued_total", "messages", "Messages that went, however they did.", "dequeued"),
    _queue_counter(
        "manta_queue_dequeued_bytes_total", "bytes", "Size of the messages that went, encoded.", "bytes_out",
    ),
    _queue_counter(
        "manta_queue_accepted_total", "messages", "Messages that went since a consumer accepted them.", "accepted",
    ),
    ClusterMetric(
        "manta_queue_discarded_total", COUNTER, "messages", "Messages that were discarded, by reason: rejected or back "
        "too often with no alternate exchange, pushed out of a ring or by a newer value, purged; refused at the "
        "queue's limit or as a duplicate, so never in it.", ("queue", "reason"), _discarded,
    ),
    _queue_counter(
        "manta_queue_dead_lettered_total", "messages", "Messages that went to the alternate exchange.", "dead_lettered",
    ),
    _queue_counter("manta_queue_expired_total", "messages", "Messages that expired in the queue.", "expired"),
    _queue_counter("manta_queue_moved_total", "messages", "Messages that were moved to another queue.", "moved"),
    _queue_counter("manta_queue_acquired_total", "messages", "How often messages were given to consumers.", "acquires"),
    _queue_counter(
        "manta_queue_redelivered_total", "messages", "How often messages came back to be delivered again: released, or "
        "since their consumer or its broker was gone.", "releases",
    ),
    _queue_counter(
        "manta_queue_lock_handovers_total", "handovers", "How often the consume lock went from one broker to another.",
        "handovers",
    ),
    _queue_counter(
        "manta_queue_flow_stops_total", "stops", "How often the queue began to hold its senders back.",
        "flowStoppedCount",
    ),
)  # fmt: skip
EXCHANGES = (
    _exchange_counter("manta_exchange_received_total", "Messages that came to the exchange.", "received"),
    _exchange_counter("manta_exchange_routed_total", "Of these, those that went to a queue.", "routed"),
    _exchange_counter("manta_exchange_unroutable_total", "Of these, those for which there was no queue.", "unroutable"),
)  # fmt: skip
BROKERS = (
    _broker("manta_broker_connections", "connections", "Connections of clients.", "connections"),
    _broker("manta_broker_senders", "senders", "Senders of these connections.", "senders"),
    _broker("manta_broker_receivers", "receivers", "Receivers of these connections.", "receivers"),
    _broker("manta_broker_messages_unacked", "messages", "Messages that consumers at the broker hold.", "unacked"),
    _broker("manta_broker_locks", "locks", "Consume locks that the broker owns.", "locks"),
    _broker("manta_broker_uncommitted_bytes", "bytes", "Transfers that have no answer yet.", "uncommitted_bytes"),
    _broker(
        "manta_broker_withheld_bytes", "bytes", "Transfers that are committed, and not complete while flow control is "
        "on.", "withheld_bytes",
    ),
    _broker_counter("manta_broker_received_total", "Messages that clients sent to the broker.", "received"),
    _broker_counter("manta_broker_unroutable_total", "Of these, those for which there was no queue.", "unroutable"),
    _machine(
        "manta_broker_memory_bytes", "bytes", "What all processes of the broker have.", lambda one: one.memory_bytes,
    ),
    _machine(
        "manta_broker_memory_limit_bytes", "bytes", "Above it flow control goes on.",
        lambda one: one.memory_limit_bytes,
    ),
    _machine(
        "manta_broker_cut_off", "yes or no", "Whether the broker has lost its lease, and serves nobody.",
        lambda one: one.cut_off,
    ),
)  # fmt: skip
STORES = (
    _store(
        "manta_store_used_bytes", "bytes", "What the logs take on the disk, spares included.",
        lambda one: one.disk_bytes,
    ),
    _store("manta_store_live_bytes", "bytes", "What of that is needed.", lambda one: one.live_bytes),
    _store(
        "manta_store_left_bytes", "bytes", "What may be written before the reserve is begun.",
        lambda one: one.left_bytes,
    ),
    _store(
        "manta_store_flush_p99_seconds", "seconds", "How long a slow flush took, of the last ten to twenty seconds: 99 "
        "of 100 were faster.", lambda one: one.flush_p99_ms * MS,
    ),
    _store(
        "manta_store_flushes_per_second", "flushes per second", "Flushes, of the last ten to twenty seconds.",
        lambda one: one.flushes_per_s,
    ),
    _store("manta_store_waiting_writes", "writes", "Writes that wait for the next flush.", lambda one: one.waiting),
    _store("manta_store_full", "yes or no", "Whether half of the reserve is gone.", lambda one: one.full),
)  # fmt: skip
REPLICAS = (
    _replica(
        "manta_replica_lag_entries", "entries", "How far the furthest replica of the broker is behind its leader's "
        "log.", "lag",
    ),
    _replica("manta_replica_missing", "replicas", "Replicas of the broker that are not there.", "missing"),
    _replica(
        "manta_replica_updating", "replicas", "Replicas of the broker that are being brought up to date.", "updating",
    ),
)  # fmt: skip
SEQUENCER = (
    ClusterMetric(
        "manta_sequencer_leading", GAUGE, "yes or no", "Whether a sequencer says that it leads.", (),
        lambda seen: [((), seen.leader is not None)],
    ),
    _leader(
        "manta_sequencer_seq_total", COUNTER, "events", "Place of the last event in the order of the whole cluster.",
        lambda one: one.seq,
    ),
    _leader(
        "manta_sequencer_ballot_number", GAUGE, "number", "Number of the leader's ballot: higher with each new leader.",
        lambda one: one.ballot[0],
    ),
    _leader(
        "manta_sequencer_flow_stopped", GAUGE, "yes or no", "Whether flow control is on in the cluster.",
        lambda one: one.flow_stopped,
    ),
    _leader(
        "manta_sequencer_flow_stops_total", COUNTER, "stops", "How often flow control has gone on under this leader.",
        lambda one: one.flow_stopped_count,
    ),
    _leader(
        "manta_sequencer_waiting_streams", GAUGE, "streams", "Streams without a majority.",
        lambda one: len(one.waiting),
    ),
    _leader(
        "manta_ownership_silent_seconds", GAUGE, "seconds", "For how long the Ownership on duty has not answered.",
        lambda one: one.duty.silent_ms * MS,
    ),
    _leader(
        "manta_ownership_turn", GAUGE, "number", "How often another Ownership was named under this leader.",
        lambda one: one.duty.turn,
    ),
)  # fmt: skip
EVENT_TABLE = (
    _table(
        "manta_event_table_rows_total", COUNTER, "rows", "Rows written to the event table.", lambda one: one["rows"],
    ),
    _table(
        "manta_event_table_dropped_total", COUNTER, "events", "Events that are missing from it.",
        lambda one: one["dropped"],
    ),
    _table(
        "manta_event_table_unwritten_rows", GAUGE, "rows", "Rows that are in no part yet.",
        lambda one: one["unwritten"],
    ),
    _table(
        "manta_event_table_failing", GAUGE, "yes or no", "Whether rows cannot be written now.",
        lambda one: bool(one["error"]),
    ),
)  # fmt: skip
CLUSTER = (
    _cluster("manta_cluster_healthy", "yes or no", "Whether nothing is wrong.", lambda one: one.healthy),
    _cluster("manta_cluster_unhealthy_reasons", "reasons", "How much is wrong.", lambda one: len(one.unhealthy)),
    _cluster(
        "manta_cluster_warnings", "warnings", "What is wrong though the cluster is healthy.",
        lambda one: len(one.warnings),
    ),
    _cluster(
        "manta_cluster_brokers_expected", "brokers", "Brokers that are to be there.",
        lambda one: one.brokers_in_cluster,
    ),
    _cluster(
        "manta_cluster_brokers_serving", "brokers", "Brokers that take clients.",
        lambda one: one.brokers_taking_clients,
    ),
    _cluster(
        "manta_cluster_uptime_seconds", "seconds", "For how long the cluster has been there.", lambda one: one.uptime_s,
    ),
    _counted("manta_cluster_queues", "queues"),
    _counted("manta_cluster_exchanges", "exchanges"),
    _members("manta_members", "Actors of the cluster.", 0),
    _members("manta_members_silent", "Of these, those that do not answer.", 1),
)  # fmt: skip
VIEW = (
    ClusterMetric(
        "manta_view_age_seconds", GAUGE, "seconds", "How old these figures are: the time since the cluster was last "
        "looked at.", (), _age,
    ),
    _view("manta_view_looks_total", COUNTER, "looks", "How often the cluster was looked at.", lambda seen: seen.looks),
    _view(
        "manta_view_troubles", GAUGE, "troubles", "What the last look could not have: these figures are older.",
        lambda seen: len(seen.view.troubles),
    ),
    _view(
        "manta_view_silent_brokers", GAUGE, "brokers", "Brokers that did not say what they alone know.",
        lambda seen: len(seen.view.silent),
    ),
)  # fmt: skip
SECTIONS = {
    "Queues": QUEUES, "Exchanges": EXCHANGES, "Brokers": BROKERS, "Stores": STORES, "Replicas": REPLICAS,
    "Sequencer and Ownership": SEQUENCER, "Event table": EVENT_TABLE, "Cluster": CLUSTER, "View": VIEW,
}  # fmt: skip
"""All metrics, by what they are of."""
METRICS: tuple[ClusterMetric, ...] = tuple(metric for metrics in SECTIONS.values() for metric in metrics)
