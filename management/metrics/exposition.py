"""What is at `/metrics`: the metrics as text for Prometheus and its like, in the form that is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..view import ManagementView
from ..watcher import Watcher
from .bounded import MOST
from .registry import COUNTER, MetricReader


class ViewCollector(Collector):
    """What a registry of `prometheus_client` collects of a view.

    Args:
        view, looks: the view, and how often it was fed.
        most: as in `MetricReader`.
        clock: Unix time; seconds.
    """

    def __init__(
        self, view: ManagementView, looks: Callable[[], int], most: int = MOST, clock: Callable[[], float] = time.time
    ) -> None:
        self._view, self._looks, self._clock = view, looks, clock
        self._reader = MetricReader(most)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for metric, points in self._reader.read(self._view, self._clock(), self._looks()):
            kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in points:
                family.add_metric(labels, value)
            yield family


def metrics_routes(view: ManagementView, watcher: Watcher, most: int = MOST) -> list[Route]:
    """The routes of an app that has metrics: GET `/metrics`.

    A scrape is no look at the cluster, and does not have it looked at more often: scrapes go on for ever, and figures
    of ten seconds ago are new enough for them. `manta_view_age_seconds` says how old they are.

    Args:
        watcher: who feeds the view.
        most: so many queues have a label of their own.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ViewCollector(view, lambda: watcher.looks, most))

    async def scraped(request: Request) -> Response:
        encode, content_type = _encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    return [Route("/metrics", scraped, methods=["GET"])]


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """By the header Accept; Prometheus' plain form where that makes no sense, over which the library stumbles."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
