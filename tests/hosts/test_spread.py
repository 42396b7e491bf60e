"""One host may fail: after it has, and after a start with too few hosts, it is said that the next may not, and brokers
spread again by themselves when there is a host for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.hosts.hosts import Hosts


def brokers_on(hosts: Hosts, status: dict[str, Any]) -> Counter[str]:
    where = hosts.where(status)
    return Counter(where[name] for name in status["brokers"] if name in where)


def test_brokers_spread_again_when_a_host_comes(hosts: Hosts) -> None:
    hosts.start(2, brokers=3)
    status = hosts.until_healthy()
    assert sorted(brokers_on(hosts, status).values()) == [1, 2]
    frail = next(h for h, count in brokers_on(hosts, status).items() if count == 2)
    warning = f"host {hosts.network.address(frail)} may not fail now, since it carries"
    assert any(line.startswith(warning) for line in status["warnings"]), status["warnings"]
    assert "may not fail now" in hosts.started_with
    assert hosts.mantamq("h1", "check", "health").returncode == 0
    assert hosts.mantamq("h1", "check", "health", "--strict").returncode == 1
    critical = hosts.mantamq("h1", "check", "quorum-critical", "--json")
    assert critical.returncode == 1 and f"host {hosts.network.address(frail)}" in critical.stdout

    where = hosts.where(status)
    sequencers = {where[actor["name"]] for actor in status["actors"] if actor["role"] == "Sequencer"}
    assert sequencers == {"h1", "h2"}

    hosts.load()
    hosts.start_ray(hosts.network.add())
    status = hosts.until(
        lambda s: s.get("healthy") and len(brokers_on(hosts, s)) == 3 and len(s["brokers"]) == 3, 120, "spread"
    )
    assert hosts.where(status)[status["brokers"][-1]] == "h3"
    assert status["warnings"] == []
    assert hosts.mantamq("h1", "check", "health", "--strict").returncode == 0
    hosts.until_served()
    hosts.account()


@pytest.mark.long
def test_a_host_dies_and_comes_back(hosts: Hosts) -> None:
    hosts.start(3)
    hosts.load()
    hosts.kill("h3")
    status = hosts.until(lambda s: s.get("healthy") and set(brokers_on(hosts, s)) == {"h1", "h2"}, 150, "healed")
    # Ray needs a minute to hold a host for dead that nobody answers for; what it carried does not wait for that.
    status = hosts.until(lambda s: s.get("healthy") and any("again" in w for w in s["warnings"]), 150, "told of")
    assert any("may not fail now" in line for line in status["warnings"]), status["warnings"]
    assert any("start it again" in line or "started again" in line for line in status["warnings"]), status["warnings"]
    hosts.until_served()
    hosts.revive("h3")
    status = hosts.until(
        lambda s: s.get("healthy") and len(brokers_on(hosts, s)) == 3 and len(s["brokers"]) == 3, 120, "spread"
    )
    assert status["warnings"] == []
    hosts.account()
