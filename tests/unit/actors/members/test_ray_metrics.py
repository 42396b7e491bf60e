"""The metrics as Ray is told them, with toys in the place of Ray's own."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.actors.members.ray_metrics import RayMetrics
from mantamq.management.metrics.registry import METRICS
from mantamq.management.view import ManagementView

from ... import made_up_view as made


class ToyRay:
    """Remembers what it was told, by name and label values."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.gauges: dict[tuple[str, ...], float] = {}
        self.counters: dict[tuple[str, ...], list[float]] = {}

    def gauge(self, name: str, help: str, labels: tuple[str, ...]) -> Any:
        return ToyMetric(self, name, help, labels)

    counter = gauge


class ToyMetric:
    def __init__(self, ray: ToyRay, name: str, help: str, labels: tuple[str, ...]) -> None:
        self.ray, self.name, self.labels = ray, name, labels
        ray.made[name] = help, labels

    def key(self, value: float, tags: dict[str, str]) -> tuple[str, ...]:
        assert isinstance(value, int | float) and set(tags) == set(self.labels)
        assert all(isinstance(one, str) for one in tags.values())
        return self.name, *(tags[label] for label in self.labels)

    def set(self, value: float, tags: dict[str, str]) -> None:
        self.ray.gauges[self.key(value, tags)] = value

    def inc(self, value: float, tags: dict[str, str]) -> None:
        assert value > 0, "as Ray wants it"
        self.ray.counters.setdefault(self.key(value, tags), []).append(value)


@pytest.fixture
def ray() -> ToyRay:
    return ToyRay()


def metrics_of(ray: ToyRay, most: int | None = None, ever: int = 1000) -> RayMetrics:
    return RayMetrics(most, ray.gauge, ray.counter, ever)


def test_ray_has_the_same_metrics(ray: ToyRay):
    metrics = metrics_of(ray)
    assert ray.made == {metric.name: (metric.help, metric.labels) for metric in METRICS}
    metrics.set(made.whole_view())
    assert ray.gauges["manta_queue_messages", "q1"] == 1
    assert ray.gauges["manta_cluster_healthy",] == 0
    assert ray.counters["manta_queue_enqueued_total", "q1"] == [3]
    assert ray.counters["manta_view_looks_total",] == [1]
    assert not {key[0] for key in ray.gauges} & {key[0] for key in ray.counters}


def test_counters_are_told_by_what_they_have_grown(ray: ToyRay):
    metrics, view = metrics_of(ray), ManagementView()
    for second, count in enumerate((10, 10, 25)):
        metrics.set(made.look(view, second + 1, queues=[made.queue_row("q", enqueued=count)]))
    assert ray.counters["manta_queue_enqueued_total", "q"] == [10, 15]
    metrics.set(made.look(view, 5, queues=[made.queue_row("q", id="declared anew", enqueued=4)]))
    assert ray.counters["manta_queue_enqueued_total", "q"] == [10, 15, 4]


def test_a_queue_that_is_gone_is_set_no_more(ray: ToyRay):
    metrics, view = metrics_of(ray), ManagementView()
    metrics.set(made.look(view, 1, queues=[made.queue_row("q"), made.queue_row("gone")]))
    ray.gauges.clear()
    metrics.set(made.look(view, 2, queues=[made.queue_row("q")]))
    assert [key for key in ray.gauges if "gone" in key] == []
    assert ray.gauges["manta_queue_messages", "q"] == 0


def test_only_a_bounded_number_of_queues_is_told(ray: ToyRay):
    metrics_of(ray, most=3).set(made.whole_view(20))
    assert len([key for key in ray.gauges if key[0] == "manta_queue_messages"]) == 4


def test_counters_of_queues_that_come_later_are_told_as_one(ray: ToyRay):
    metrics, view = metrics_of(ray, ever=2), ManagementView()

    def told(second: int, **counts: int) -> dict[str, float]:
        rows = [made.queue_row(name, enqueued=count) for name, count in counts.items()]
        metrics.set(made.look(view, second, queues=rows))
        found = {key[1]: values for key, values in ray.counters.items() if key[0] == "manta_queue_enqueued_total"}
        return {name: sum(values) for name, values in found.items()}

    assert told(1, a=10, b=20) == {"a": 10, "b": 20}
    assert told(2, a=11, b=20, late=500) == {"a": 11, "b": 20}, "what it had before is not told"
    assert told(3, a=12, late=503, later=1) == {"a": 12, "b": 20, "other": 3}
    assert told(4, a=12, b=21, later=5) == {"a": 12, "b": 21, "other": 7}
    assert ("manta_queue_messages", "later") in ray.gauges, "a gauge goes by itself"
