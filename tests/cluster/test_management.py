"""The page of a real cluster: it answers who has the token, and is replaced where it was."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.actors.ray_control.local_ray import wait_gone
from mantamq.protocol.status.members import ManagementMember

from tests.cluster.shared import ray_children

TOKEN = "open sesame"
BACK_S = 40.0


def page_of(cluster: Cluster) -> tuple[int, str]:
    """The page's process and its address, once it serves."""
    until = time.monotonic() + BACK_S
    while True:
        found = [one for one in cluster.report().actors if isinstance(one, ManagementMember)]
        if found and found[0].alive and found[0].machine and found[0].machine.address:
            return found[0].pid, found[0].machine.address
        assert time.monotonic() < until, f"there is no page: {cluster.report().warnings}"
        time.sleep(0.05)


def asked(address: str, path: str, token: str = "", method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
    """Status and JSON of an answer; its text, where it is a page."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{address}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
            return answer.status, json.loads(text or "null") if path.startswith(("/api", "/health")) else text
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def overview(address: str) -> dict[str, Any]:
    """What it says of the cluster, once it has looked at it."""
    until = time.monotonic() + BACK_S
    while True:
        status, told = asked(address, "/api/overview", TOKEN)
        assert status == 200
        if told["manta"].get("healthy"):
            return told
        assert time.monotonic() < until, told
        time.sleep(0.1)


@pytest.mark.timeout(150)
def test_the_page_is_replaced_where_it_was_and_status_names_it_while_it_is_away() -> None:
    with start_cluster(brokers=1, spares=1, token=TOKEN, management=0) as cluster:
        pids = set(cluster.actor_pids().values())
        first, address = page_of(cluster)
        told = overview(address)
        assert told["cluster_name"] == cluster.report().cluster and told["object_totals"]["queues"] == 0
        assert asked(address, "/api/overview")[0] == asked(address, "/api/overview", "wrong")[0] == 401
        assert asked(address, "/health") == (200, {"healthy": True})

        os.kill(first, signal.SIGKILL)
        report = cluster.report()
        assert [alert.name for alert in report.alerts] == ["page-away"] and report.healthy, report.alerts
        assert "there is no page now" in report.warnings[0]
        second, again = page_of(cluster)
        assert second != first and again == address
        assert overview(again)["cluster_name"] == told["cluster_name"]
        assert cluster.report().warnings == []
        pids |= {first, second, *cluster.actor_pids().values()}
    assert wait_gone(list(pids), 10) == []
    assert ray_children() == []


def operated(address: str) -> list[str]:
    """The rows of kind `operated` that the page Events shows, as they are read."""
    text = asked(address, "/events?kind=operated", TOKEN)[1]
    rows = re.findall("<tr.*?</tr>", text, re.DOTALL)[1:]
    return [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in rows if 'class="none"' not in row]


@pytest.mark.timeout(150)
def test_a_deed_by_the_api_is_one_row_of_the_page_of_events(tmp_path: Path) -> None:
    with start_cluster(brokers=1, token=TOKEN, management=0, events=str(tmp_path)) as cluster:
        address = page_of(cluster)[1]
        overview(address)
        assert operated(address) == []
        declared = asked(address, "/api/queues/%2F/orders", TOKEN, "PUT", b'{"durable": false}')
        assert declared == (201, None)
        refused = asked(address, "/api/queues/%2F/missing", TOKEN, "DELETE")
        assert refused[0] == 404
        until = time.monotonic() + BACK_S
        while len(rows := operated(address)) < 2:
            assert time.monotonic() < until, f"the page of events shows {rows}"
            time.sleep(0.1)
        # Told twice, they would be there after a further look, if not at once.
        assert asked(address, "/api/queues/%2F/other", TOKEN, "PUT", b"{}")[0] == 201
        while len(rows := operated(address)) < 3:
            assert time.monotonic() < until, f"the page of events shows {rows}"
            time.sleep(0.1)
        own = asked(address, "/api/connections", TOKEN)[1]  # the page's
        assert [one["peer_host"] for one in own] == ["127.0.0.1"] and own[0]["connected_at"] > 1.7e12
        deeds = [row.partition("operated ")[2] for row in rows]
        assert sum("declare_queue from 127.0.0.1: done" in deed and "orders" in deed for deed in deeds) == 1, rows
        assert sum("delete_queue from 127.0.0.1: NotFound" in deed and "missing" in deed for deed in deeds) == 1, rows
