"""The host of the supervisor and of the sequencer that leads is cut off and comes back: nobody is ended by what that
supervisor believed meanwhile."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.hosts.hosts import Hosts, Status

CUT_S = 28.0
READY_S = 12.0
AFTER_S = 25.0
"""Whatever waited for the network has arrived by then."""
SILENT_S = 15.0
"""The sequencer that leads is cut off, too: until another leads nothing completes."""


@pytest.mark.long
@pytest.mark.timeout(360)
def test_a_supervisor_that_was_cut_off_ends_nobody_and_another_takes_its_place(hosts: Hosts) -> None:
    # Ray's control store is on the first host and stays in reach; the supervisor begins on the second.
    hosts.start(4, brokers=3, options=("--no-rebalance",), bare_head=True)
    status = hosts.until_healthy()
    placed = {host: broker for broker, host in brokers(hosts, status).items()}
    assert set(placed) == {"h2", "h3", "h4"}
    lost = placed["h2"]
    while hosts.host_of(leader(status)["host"]) != "h2":
        status = led_by_another(hosts, leader(status))
    first = status["supervisor"]
    assert hosts.is_on(first["pid"], "h2") and first["confirmed"]

    hosts.load()
    # The first queues ask for warm replicas, and a supervisor that waits for one replaces nobody: it is to be free.
    hosts.serve_for(READY_S)
    hosts.cut("h2")
    began = time.monotonic()
    hosts.until_served(SILENT_S)
    during = hosts.until(
        lambda s: s["supervisor"]["confirmed"] and s["supervisor"]["number"] > first["number"] and leader(s)["name"],
        30,
        "another supervisor",
    )
    assert hosts.host_of(leader(during)["host"]) in ("h3", "h4")
    # What was there is replaced on hosts that answer, while Ray still holds this one for alive.
    replaced = hosts.until(whole, 40, "whole without the host that is cut off")
    assert not any("has ended" in line for line in replaced["warnings"]), replaced["warnings"]
    # A broker that has moved is named with where it was and where it is.
    moves = {move["broker"]: (hosts.host_of(move["before"]), move["address"]) for move in replaced["moved"]}
    assert moves == {lost: ("h2", replaced["members"][lost])}
    assert replaced["supervisor"]["host"] in map(hosts.network.address, ("h3", "h4"))
    before = members(hosts, replaced)
    assert "h2" not in before.values()
    hosts.serve_for(began + CUT_S - time.monotonic())

    hosts.heal("h2")
    hosts.serve_for(AFTER_S)
    after = hosts.until_healthy()
    # Nobody was ended, nobody was replaced, nobody took over; a warm replica may have come.
    assert before.items() <= members(hosts, after).items()
    assert all("." in name for name, _ in members(hosts, after).keys() - before.keys())
    assert leader(after)["machine"]["ballot"] == leader(during)["machine"]["ballot"]
    assert after["supervisor"]["pid"] == during["supervisor"]["pid"]
    assert after["supervisor"]["number"] == during["supervisor"]["number"] and after["supervisor"]["confirmed"]
    assert not hosts.is_on(first["pid"], "h2"), "the supervisor that was cut off goes on"
    assert hosts.longest_silence() < SILENT_S
    hosts.account(least=500)


def brokers(hosts: Hosts, status: Status) -> dict[str, str]:
    where = hosts.where(status)
    return {name: where[name] for name in status["brokers"] if name in where}


def members(hosts: Hosts, status: Status) -> dict[tuple[str, int], str]:
    """Name and process of each that answers -> its host."""
    return {(a["name"], a["pid"]): hosts.host_of(a["host"]) for a in status["actors"] if a["alive"]}


def led_by_another(hosts: Hosts, ended: dict[str, Any]) -> Status:
    hosts.signal(ended["pid"], "KILL")
    return hosts.until(lambda s: s.get("healthy") and leader(s)["name"] != ended["name"], 60, "led by another")


def whole(status: Status) -> bool:
    return bool(status.get("healthy"))


def leader(status: dict[str, Any]) -> dict[str, Any]:
    found = [a for a in status["actors"] if a.get("alive") and a.get("machine", {}).get("role") == "leading"]
    return max(found, key=lambda actor: actor["machine"]["ballot"], default={"name": "", "host": ""})
