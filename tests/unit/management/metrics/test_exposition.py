"""What is at /metrics, read back as those read it who scrape."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.management.metrics.exposition import metrics_routes
from mantamq.management.metrics.registry import METRICS
from mantamq.management.view import ManagementView
from mantamq.management.watcher import Watcher
from prometheus_client import REGISTRY, parser
from prometheus_client.openmetrics import parser as open_metrics_parser
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ... import made_up_view as made

OPEN_METRICS = "application/openmetrics-text;version=1.0.0"


def watcher_of(view: ManagementView) -> Watcher:
    async def unasked() -> Any:
        raise AssertionError("a scrape is no look")

    return Watcher(view, unasked, unasked)


def client_of(view: ManagementView, most: int = 100) -> TestClient:
    return TestClient(Starlette(routes=list(metrics_routes(view, watcher_of(view), most))))


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def test_a_scrape_has_every_metric_with_kind_and_help():
    answer = client_of(made.whole_view()).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = families(answer.text)
    assert set(found) == {metric.name.removesuffix("_total") for metric in METRICS}
    for metric in METRICS:
        family = found[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        for sample in family.samples:
            assert sample.name == metric.name
            assert set(sample.labels) == set(metric.labels)
    assert "# TYPE manta_queue_enqueued_total counter" in answer.text


def test_who_asks_for_openmetrics_gets_it():
    answer = client_of(made.whole_view()).get("/metrics", headers={"Accept": f"{OPEN_METRICS},text/plain;q=0.5"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    found = {one.name: one for one in open_metrics_parser.text_string_to_metric_families(answer.text)}
    assert found["manta_queue_enqueued"].type == "counter"


@pytest.mark.parametrize("accept", ["", "*/*", "text/html;;;=,,", "application/openmetrics-text;version=x"])
def test_any_accept_header_gets_an_answer(accept: str):
    answer = client_of(made.whole_view()).get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200 and "manta_queue_messages" in answer.text


def test_names_of_queues_come_back_as_they_are():
    names = ['say "no"', "back\\slash", "two\nlines", "ümläut", "{a=1}", "", "other"]
    view = made.look(ManagementView(), 1, queues=[made.queue_row(name, messages=1) for name in names])
    text = client_of(view).get("/metrics").text
    labels = [sample.labels["queue"] for sample in families(text)["manta_queue_messages"].samples]
    assert sorted(labels) == sorted(names)


def test_a_scrape_of_nothing_is_a_scrape():
    found = families(client_of(ManagementView()).get("/metrics").text)
    assert found["manta_view_looks"].samples[0].value == 0
    assert found["manta_queue_messages"].samples == []


def test_only_a_bounded_number_of_queues_is_named():
    text = client_of(made.whole_view(50), most=10).get("/metrics").text
    assert len(families(text)["manta_queue_messages"].samples) == 11


def test_nothing_is_in_the_registry_that_all_of_a_process_share():
    client_of(made.whole_view()).get("/metrics")
    assert not [family for family in REGISTRY.collect() if family.name.startswith("manta")]
