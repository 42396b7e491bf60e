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


def metrics_of(ray: ToyRay, most: int | None = None) -> RayMetrics:
    return RayMetrics(most, ray.gauge, ray.counter)


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
