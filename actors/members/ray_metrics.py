"""The metrics of a cluster among Ray's own, so that they are where an operator of Ray looks already.

Ray's agent on this node shows them as `ray_manta_...`, with labels of its own beside ours. What holds for them there:

- A gauge is shown for as long as it is set: Ray forgets what was not set for two of its report intervals (20 s by
  default). So the series of a queue that is gone, or has no label any more, ends by itself, as all do with this
  process. Looks that are further apart than that leave gaps.
- A counter is told by what it has grown, and Ray forgets none: the series of a queue that is gone stays at its last
  value, and its rate is 0, until the agent of the node ends. So all that ever had a label is there, not only who has
  one now; a counter is first told when it has grown above 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ray.util.metrics import Counter, Gauge


class RayMetrics:
    """Sets the metrics of a view in the process of a Ray actor.

    Args:
        most: so many queues have a label of their own; the default where None.
        gauge, counter: classes, as Ray's.
    """

    def __init__(
        self, most: int | None = None, gauge: Callable[..., Any] = Gauge, counter: Callable[..., Any] = Counter
    ) -> None:
        from ...management.metrics.bounded import MOST
        from ...management.metrics.registry import COUNTER, METRICS, MetricReader

        self._reader = MetricReader(MOST if most is None else most)
        self._looks = 0
        self._metrics = {
            metric.name: (counter if metric.kind == COUNTER else gauge)(metric.name, metric.help, metric.labels)
            for metric in METRICS
        }
        self._counters = {metric.name for metric in METRICS if metric.kind == COUNTER}
        self._told: dict[tuple[str, tuple[str, ...]], float] = {}

    def set(self, view: Any) -> None:
        """Set all metrics; to be called after each look.

        Args:
            view: a `ManagementView`, just fed.
        """
        self._looks += 1
        for metric, points in self._reader.read(view, time.time(), self._looks):
            one = self._metrics[metric.name]
            for labels, value in points:
                tags = dict(zip(metric.labels, labels, strict=True))
                if metric.name not in self._counters:
                    one.set(float(value), tags)
                elif (grown := self._grown(metric.name, labels, value)) > 0:
                    one.inc(grown, tags)

    def _grown(self, name: str, labels: tuple[str, ...], value: float) -> float:
        """By how much since it was told; all of it, where it began anew."""
        before = self._told.get((name, labels), 0)
        self._told[name, labels] = value
        return value - before if value >= before else value
