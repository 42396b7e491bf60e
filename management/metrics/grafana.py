"""Dashboards for Grafana 10 and later, made of the table of metrics: what to import, as JSON.

A query names a metric of the table and which of its labels are kept; a name that is not in the table is an error when
the dashboards are made. Several processes may show one cluster, and Ray adds labels of its own: so each query takes the
largest of what is said of one thing before it adds anything up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .registry import COUNTER, METRICS, PREFIX, ClusterMetric

OWN, RAY = "", "ray_"
"""What metrics' names begin with: at our `/metrics`, and at Ray's."""
UNITS = {
    "seconds": "s", "bytes": "bytes", "yes or no": "bool_yes_no", "flushes per second": "ops",
}  # fmt: skip
"""Our unit -> Grafana's; "short" for numbers of anything else."""
A_SECOND = {"bytes": "Bps"}
"""The same of what there is in a second; "cps" for numbers of anything else."""
WIDTH, HEIGHTS = 24, {"timeseries": 8, "stat": 4}
"""Of Grafana's grid; how high panels are."""
SCHEMA = 39
"""Version of a dashboard's form: that of Grafana 10.4."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

_BY_NAME = {metric.name: metric for metric in METRICS}


@dataclass(frozen=True)
class Query:
    """A line, or several, of a panel.

    Attributes:
        metric: its name, without `PREFIX`.
        by: the labels that are kept; what differs in others is added up.
        legend: what the line is called; by default its labels.
        top: so many of the largest lines are shown; 0 for all.
        of: the name of another metric of the same labels: what is shown is the part of that.
    """

    metric: str
    by: tuple[str, ...] = ()
    legend: str = ""
    top: int = 0
    of: str = ""

    @property
    def shown(self) -> ClusterMetric:
        """The metric of the table. Raises KeyError: it has none of that name."""
        return _BY_NAME[PREFIX + self.metric]

    @property
    def unit(self) -> str:
        """Grafana's."""
        if self.of:
            return "percentunit"
        unit = self.shown.unit
        return A_SECOND.get(unit, "cps") if self.shown.kind == COUNTER else UNITS.get(unit, "short")

    def promql(self, prefix: str) -> str:
        """What Prometheus is asked, with names that begin with `prefix`."""
        text = self._summed(self.shown, prefix)
        if self.of:
            text = f"{text} / {self._summed(_BY_NAME[PREFIX + self.of], prefix)}"
        return f"topk({self.top}, {text})" if self.top else text

    def _summed(self, metric: ClusterMetric, prefix: str) -> str:
        chosen = ['job=~"$job"', *(f'{label}=~"${label}"' for label in metric.labels if label == "queue")]
        text = f"{prefix}{metric.name}{{{','.join(chosen)}}}"
        if metric.kind == COUNTER:
            text = f"rate({text}[$__rate_interval])"
        text = f"max{_by(metric.labels)}({text})"
        return text if set(metric.labels) <= set(self.by) else f"{self._adds()}{_by(self.by)}({text})"

    def _adds(self) -> str:
        return "max" if self.shown.unit in ("seconds", "yes or no") and self.shown.kind != COUNTER else "sum"


def _by(labels: Iterable[str]) -> str:
    return f" by ({', '.join(labels)}) " if labels else " "


@dataclass(frozen=True)
class Panel:
    """Attributes: title; queries, of one unit; width, of `WIDTH`; kind, as Grafana calls it."""

    title: str
    queries: tuple[Query, ...]
    width: int = 8
    kind: str = "timeseries"


def _stat(title: str, metric: str, **more: Any) -> Panel:
    return Panel(title, (Query(metric, **more),), 4, "stat")


def _queues(title: str, metric: str, **more: Any) -> Panel:
    return Panel(title, (Query(metric, ("queue",), top=10, **more),))


def _of_brokers(title: str, *metrics: str, width: int = 8) -> Panel:
    short = len(metrics) == 1
    return Panel(
        title,
        tuple(
            Query(name, ("broker",), "" if short else "{{broker}} " + name.partition("_")[2].replace("_", " "))
            for name in metrics
        ),
        width,
    )


BOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "manta-overview": ("Manta: overview", (
        _stat("Healthy", "cluster_healthy"),
        _stat("What is wrong", "cluster_unhealthy_reasons"),
        _stat("Brokers that take clients", "cluster_brokers_serving"),
        _stat("Messages", "queue_messages"),
        _stat("Queues", "cluster_queues"),
        _stat("Figures are this old", "view_age_seconds"),
        Panel("Messages in a second", (
            Query("queue_enqueued_total", legend="in"), Query("queue_dequeued_total", legend="out"),
            Query("queue_redelivered_total", legend="redelivered"),
        )),
        Panel("Messages", (
            Query("queue_messages_ready", legend="ready"), Query("queue_messages_unacked", legend="unacked"),
            Query("queue_messages_delayed", legend="delayed"),
        )),
        Panel("Messages that were not accepted", (
            Query("queue_discarded_total", legend="discarded"),
            Query("queue_dead_lettered_total", legend="dead-lettered"),
            Query("queue_expired_total", legend="expired"), Query("exchange_unroutable_total", legend="unroutable"),
        )),
        Panel("Connections", (
            Query("broker_connections", legend="connections"), Query("broker_senders", legend="senders"),
            Query("broker_receivers", legend="receivers"), Query("queue_consumers", legend="consumers"),
        )),
        Panel("Events ordered in a second", (Query("sequencer_seq_total", legend="events"),)),
        Panel("Consume locks that went on", (Query("queue_lock_handovers_total", legend="handovers"),)),
        Panel("Flow control", (
            Query("sequencer_flow_stopped", legend="of the cluster"), Query("queue_flow_stopped", legend="of a queue"),
        )),
        Panel("Members that do not answer", (Query("members_silent", ("role",)),)),
        Panel("Streams without a majority", (Query("sequencer_waiting_streams", legend="streams"),)),
    )),
    "manta-queues": ("Manta: queues", (
        _queues("Messages ready", "queue_messages_ready"),
        _queues("Messages unacked", "queue_messages_unacked"),
        _queues("Oldest message", "queue_oldest_message_age_seconds"),
        _queues("Messages in", "queue_enqueued_total"),
        _queues("Messages out", "queue_dequeued_total"),
        _queues("Messages accepted", "queue_accepted_total"),
        _queues("Redelivered", "queue_redelivered_total"),
        Panel("Discarded, by reason", (Query("queue_discarded_total", ("reason",)),)),
        _queues("Dead-lettered", "queue_dead_lettered_total"),
        _queues("Expired", "queue_expired_total"),
        _queues("Consumers", "queue_consumers"),
        _queues("Size", "queue_size_bytes"),
        _queues("Bytes in", "queue_enqueued_bytes_total"),
        _queues("Consume locks that went on", "queue_lock_handovers_total"),
        _queues("Senders are held back", "queue_flow_stopped"),
        Panel("Exchanges: received", (Query("exchange_received_total", ("exchange",), top=10),), 12),
        Panel("Exchanges: unroutable", (Query("exchange_unroutable_total", ("exchange",), top=10),), 12),
    )),
    "manta-brokers": ("Manta: brokers and stores", (
        _of_brokers("Connections", "broker_connections"),
        _of_brokers("Messages received", "broker_received_total"),
        _of_brokers("Consume locks", "broker_locks"),
        _of_brokers("Memory", "broker_memory_bytes", "broker_memory_limit_bytes"),
        Panel("Memory, of its limit",
              (Query("broker_memory_bytes", ("broker",), of="broker_memory_limit_bytes"),)),
        _of_brokers("Transfers not complete", "broker_uncommitted_bytes", "broker_withheld_bytes"),
        _of_brokers("Furthest replica behind its leader", "replica_lag_entries"),
        _of_brokers("Replicas", "replica_missing", "replica_updating"),
        _of_brokers("Cut off", "broker_cut_off"),
        _of_brokers("Store: on the disk", "store_used_bytes", "store_live_bytes"),
        _of_brokers("Store: left", "store_left_bytes"),
        _of_brokers("Store: flushes", "store_flushes_per_second"),
        _of_brokers("Store: slow flushes", "store_flush_p99_seconds", width=12),
        Panel("Ownership on duty: silent for", (Query("ownership_silent_seconds", legend="silent"),), 12),
        Panel("Event table: rows in a second", (
            Query("event_table_rows_total", legend="rows"), Query("event_table_dropped_total", legend="dropped"),
        ), 12),
        Panel("Event table: rows in no part yet", (Query("event_table_unwritten_rows", legend="rows"),), 12),
    )),
}  # fmt: skip
"""Name of a dashboard -> its title, and its panels."""


def dashboards(ray: bool = False) -> dict[str, str]:
    """The dashboards, as JSON to import: name of a file -> what is in it.

    Args:
        ray: for the metrics as Ray shows them, and not as our own `/metrics` does.
    """
    prefix = RAY if ray else OWN
    return {
        f"{name}.json": json.dumps(_dashboard(name, title, panels, prefix), indent=2) + "\n"
        for name, (title, panels) in BOARDS.items()
    }


def _dashboard(name: str, title: str, panels: tuple[Panel, ...], prefix: str) -> dict[str, Any]:
    by_queue = any("queue" in query.shown.labels for panel in panels for query in panel.queries)
    variables = [_source(), _variable("job", f"{prefix}{PREFIX}view_looks_total")]
    variables += [_variable("queue", f'{prefix}{PREFIX}queue_messages{{job=~"$job"}}')] if by_queue else []
    return {
        "id": None, "uid": f"{name}{'-ray' if prefix == RAY else ''}", "title": title + (" (Ray)" if prefix else ""),
        "tags": ["manta"], "timezone": "browser", "schemaVersion": SCHEMA, "version": 1, "editable": True,
        "graphTooltip": 1, "refresh": "15s", "time": {"from": "now-1h", "to": "now"}, "links": [],
        "annotations": {"list": []}, "templating": {"list": variables}, "panels": _placed(panels, prefix),
    }  # fmt: skip


def _source() -> dict[str, Any]:
    return {
        "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0,
        "includeAll": False, "multi": False, "refresh": 1, "regex": "", "options": [], "current": {},
    }  # fmt: skip


def _variable(label: str, metric: str) -> dict[str, Any]:
    query = f"label_values({metric}, {label})"
    return {
        "name": label, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"}, "hide": 0, "includeAll": True, "multi": True,
        "allValue": ".*", "refresh": 2, "regex": "", "sort": 1, "options": [],
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _placed(panels: tuple[Panel, ...], prefix: str) -> list[dict[str, Any]]:
    """From left to right, and on."""
    found: list[dict[str, Any]] = []
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y = 0, y + found[-1]["gridPos"]["h"]
        height = HEIGHTS[panel.kind]
        found.append(_panel(number, panel, prefix) | {"gridPos": {"x": x, "y": y, "w": panel.width, "h": height}})
        x += panel.width
    return found


def _panel(number: int, panel: Panel, prefix: str) -> dict[str, Any]:
    (unit,) = {query.unit for query in panel.queries}  # lines of one panel have one axis
    said = list(dict.fromkeys(query.shown.help for query in panel.queries))
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": "\n\n".join(said), "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {}}, "overrides": []}, "options": {},
        "targets": [_target(index, query, panel, prefix) for index, query in enumerate(panel.queries)],
    }  # fmt: skip


def _target(index: int, query: Query, panel: Panel, prefix: str) -> dict[str, Any]:
    now = panel.kind == "stat"
    legend = query.legend or " ".join(f"{{{{{label}}}}}" for label in query.by) or panel.title
    return {
        "refId": chr(ord("A") + index), "expr": query.promql(prefix), "legendFormat": legend, "datasource": SOURCE,
        "editorMode": "code", "range": not now, "instant": now,
    }  # fmt: skip
