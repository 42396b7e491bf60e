"""The page of the docs that lists all metrics: `python -m mantamq.management.metrics.page > docs/metrics.md`."""

from __future__ import annotations

from .bounded import MOST
from .registry import SECTIONS

HEAD = f"""# Metrics

Where a cluster's management is served, `/metrics` has these for Prometheus, as text in Prometheus' own form or in
OpenMetrics'. The same are in Ray's own metrics, where each name has the prefix `ray_` and Ray adds labels of its own.
`mantamq grafana export DIR` writes dashboards that show them; `--ray` for Ray's names.

- **Labels stay few.** The {MOST} largest queues have a label each: half of them those with most messages, the rest
  those through which most messages go. A queue gives its label up only for one that is twice as large. All other queues
  are `queue="other"`: their values are summed, but for the age of the oldest message and whether senders are held back,
  which are the largest of them. So a queue whose name is "other" is always one of these. Exchanges and brokers are
  bounded in the same way.
- **Counters of queues, exchanges and brokers never go down** while the process lives that shows them, so `rate()` is
  true also when a broker dies, a queue is deleted, or its figures come from another replica. What `queue="other"`
  counts began at 0 with that process, and is what queues grew by while they were among the others. For the absolute
  figures of a queue, ask `mantamq stat`. What comes to exchanges is added up over brokers: when others have answered
  than the time before, it is gone on from, and not compared.
- **In Ray's metrics** a gauge of a queue that is gone ends after some 20 s, and a counter stays at its last value,
  until Ray's agent on that node ends: so only the first queues that had a label, a thousand, have counters of their own
  there.
- **Several may show one cluster.** Each shows all of it, so add nothing up over them: `max by (queue)` first, then
  `sum`.
- "yes or no" is 1 or 0. What is not known has no value.

This page is made of `management/metrics/registry.py`.
"""


def metrics_page() -> str:
    """All metrics, with kind, unit, labels and help; in Markdown."""
    parts = [HEAD]
    for section, metrics in SECTIONS.items():
        rows = [f"| `{one.name}` | {one.kind} | {one.unit} | {', '.join(one.labels)} | {one.help} |" for one in metrics]
        parts.append(
            "\n".join([f"## {section}", "", "| name | kind | unit | labels | help |", "|---|---|---|---|---|", *rows])
            + "\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    print(metrics_page(), end="")
