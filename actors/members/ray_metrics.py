"""The metrics of a cluster among Ray's own, so that they are where an operator of Ray looks already.

Ray's agent on this node shows them as `ray_manta_...`, with labels of its own beside ours. What holds for them there:

- A gauge is shown for as long as it is set: Ray forgets what was not set for two of its report intervals (20 s by
  default). So the series of a queue that is gone, or has no label any more, ends by itself, as all do with this
  process. Looks that are further apart than that leave gaps.
- A counter is told by what it has grown, and Ray forgets none: the series of a queue that is gone stays at its last
  value, and its rate is 0, until the agent of the node ends. So only the first `EVER` queues have counters of their
  own; what later ones grow by is told as "other", and what they had before is not. A counter is first told when it has
  grown above 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ray.util.metrics import Counter, Gauge

EVER = 1000
"""So many labels of a kind have counters of their own in the life of a process: however many queues come and go."""


class RayMetrics:
    """Sets the metrics of a view in the process of a Ray actor.

    Args:
        most: so many queues have a label of their own; the default where None.
        gauge, counter: classes, as Ray's.
        ever: as `EVER`.
    """

    def __init__(
        self, most: int | None = None, gauge: Callable[..., Any] = Gauge, counter: Callable[..., Any] = Counter,
        ever: int = EVER,
    ) -> None:  # fmt: skip
        from ...management.metrics.bounded import MOST, OTHER
        from ...management.metrics.registry import COUNTER, METRICS, MetricReader

        self._reader = MetricReader(MOST if most is None else most)
        self._looks = 0
        self._metrics = {
            metric.name: (counter if metric.kind == COUNTER else gauge)(metric.name, metric.help, metric.labels)
            for metric in METRICS
        }
        self._counters = {metric.name for metric in METRICS if metric.kind == COUNTER}
        self._told: dict[tuple[str, tuple[str, ...]], float] = {}
        self._late: dict[tuple[str, tuple[str, ...]], float] = {}
        self._labels: dict[str, set[str]] = {}
        self._other, self._ever = OTHER, ever

    def set(self, view: Any) -> None:
        """Set all metrics; to be called after each look.

        Args:
            view: a `ManagementView`, just fed.
        """
        self._looks += 1
        late, self._late = self._late, {}
        for metric, points in self._reader.read(view, time.time(), self._looks):
            one = self._metrics[metric.name]
            for labels, value in points:
                if metric.name not in self._counters:
                    one.set(float(value), dict(zip(metric.labels, labels, strict=True)))
                    continue
                key, told_as = (metric.name, labels), self._told_as(metric.labels, labels)
                if told_as == labels:
                    before, self._told[key] = self._told.get(key, 0), value
                else:
                    before, self._late[key] = late.get(key, value), value
                grown = value - before if value >= before else value  # all of it, where it began anew
                if grown > 0:
                    one.inc(grown, dict(zip(metric.labels, told_as, strict=True)))

    def _told_as(self, names: tuple[str, ...], labels: tuple[str, ...]) -> tuple[str, ...]:
        """The labels of a counter: its own, or those of all the others."""
        if not names:
            return labels
        known = self._labels.setdefault(names[0], {self._other})
        if labels[0] not in known and len(known) > self._ever:
            return self._other, *labels[1:]
        known.add(labels[0])
        return labels
