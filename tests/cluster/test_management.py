"""The page of a real cluster: it answers who has the token, and is replaced where it was."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
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


def asked(address: str, path: str, token: str = "") -> tuple[int, Any]:
    """Status and JSON of an answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
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
