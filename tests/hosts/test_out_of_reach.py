"""`status` tells of the cluster that serves clients, though the process that usually answers is out of reach."""

from __future__ import annotations

import json
import time

import pytest

from tests.hosts.hosts import Hosts

SOON_S = 12.0
"""`status` answers within 5 s; the rest is for Python and Ray to be imported on a busy machine."""


@pytest.mark.long
def test_with_the_supervisor_or_ray_out_of_reach_the_cluster_is_still_seen(hosts: Hosts) -> None:
    hosts.start(3)
    hosts.load()

    # The supervisor stands still, as one does whose host is cut off: Ray holds it for alive.
    supervisor = hosts.status()["supervisor"]["pid"]
    hosts.signal(supervisor, "STOP")
    status = _asked(hosts, "h2")
    assert not status["healthy"] and "supervisor does not answer" in status["unhealthy"][0], status["unhealthy"]
    assert set(status["members"]) == {"b1", "b2", "b3"} and len(status["actors"]) >= 9
    refused = hosts.mantamq("h2", "up", "--address", hosts.ray_address, "--events", "off")
    assert refused.returncode == 1 and "a cluster runs" in refused.stderr, refused.stderr
    hosts.signal(supervisor, "CONT")

    # Ray's control store is away: brokers are asked as their clients do.
    hosts.cut("h1", to=("h2",))
    status = _asked(hosts, "h2")
    assert "Ray cannot be asked" in status["unhealthy"][0], status["unhealthy"]
    assert {"b2", "b3"} & set(status["members"])
    text = hosts.mantamq("h2", "status").stdout
    assert "there is no cluster" not in text
    refused = hosts.mantamq("h2", "up", "--events", "off")
    assert refused.returncode == 1 and "serves clients" in refused.stderr, refused.stderr
    hosts.heal("h1")
    hosts.until_healthy(90)
    hosts.until_served()
    hosts.account()


def _asked(hosts: Hosts, host: str) -> dict:
    began = time.monotonic()
    said = hosts.mantamq(host, "status", "--json")
    assert time.monotonic() - began < SOON_S, said.stderr
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)
