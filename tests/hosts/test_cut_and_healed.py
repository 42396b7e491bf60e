"""The simplest story: one of three hosts is cut off and comes back."""

from __future__ import annotations

import time

from tests.hosts.hosts import Hosts

CUT_S = 12.0


def test_a_host_is_cut_off_and_healed_and_nothing_is_lost(hosts: Hosts) -> None:
    hosts.start(3)
    where = hosts.where(hosts.status())
    assert {where["b1"], where["b2"], where["b3"]} == {"h1", "h2", "h3"}
    hosts.load()
    hosts.cut("h3")
    assert hosts.until_served() < 15
    time.sleep(CUT_S)  # the length of the cut is the story
    hosts.heal("h3")
    hosts.until_healthy()
    hosts.until_served()
    counts = hosts.account(least=500)
    assert counts["loss checks"] >= 500
