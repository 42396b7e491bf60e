"""What is said of a cluster on several hosts: at the start, in the logs, and when Ray's node on a host has ended."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from made_up_status import actors
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.rebalancer import Rebalancer
from mantamq.actors.supervisor.record import ClusterRecord
from mantamq.client.cli import cluster
from mantamq.protocol.supervisor.layout import Node


@pytest.mark.parametrize(
    ("addresses", "table", "warned"),
    [
        ({"b1": "10.0.0.1:1", "b2": "10.0.0.2:1"}, "/root/.mantamq/events", True),
        ({"b1": "10.0.0.1:1", "b2": "10.0.0.1:2"}, "/root/.mantamq/events", False),
        ({"b1": "10.0.0.1:1", "b2": "10.0.0.2:1"}, "off", False),
    ],
)
def test_up_on_several_hosts_says_what_directory_events_need(
    addresses: dict[str, str], table: str, warned: bool
) -> None:
    said = cluster._per_host(SimpleNamespace(addresses=addresses), table)
    assert len(said) == warned
    assert all(table in line and "all hosts see, with --events" in line for line in said)


def test_what_members_log_has_a_time() -> None:
    code = "import logging, os; from mantamq.actors.members import ending; ending.fence(os.getppid()); logging.warning('said')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING root: said", done.stderr), done.stderr


def test_where_rays_node_has_ended_it_is_to_be_started_again() -> None:
    unused: Any = None
    rebalancer = Rebalancer(ClusterRecord(plan=Plan.of(3, hosts=3)), unused, unused, unused, unused, unused)
    rebalancer.nodes = [Node("n1", "10.0.0.1", {}), Node("n2", "10.0.0.2", {})]
    rebalancer.ended = ["10.0.0.3"]
    (said,) = [line for line in rebalancer.warnings(actors(3, nodes=3)) if "has ended" in line]
    assert "10.0.0.3" in said and "`ray start --address=HEAD:PORT` on that host" in said
    rebalancer.nodes.append(Node("n3", "10.0.0.3", {}))
    rebalancer.ended = []
    assert not any("has ended" in line for line in rebalancer.warnings(actors(3, nodes=3)))
