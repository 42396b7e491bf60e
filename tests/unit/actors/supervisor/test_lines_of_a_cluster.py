"""Each change of a cluster has one line in all its logs, by one process."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from typing import Any

import pytest
from mantamq.actors.config import ClusterConfig
from mantamq.actors.links import dialler
from mantamq.actors.links.dialler import Dialler
from mantamq.actors.links.handshake import Credentials
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.supervisor import Supervisor
from mantamq.protocol.timing import Timing

from tests.unit.ray_in_memory import RayInMemory, nodes_in_memory

LIMIT_S = 60.0
CALL_S = 120.0
LIFE = [
    ("INFO", "the cluster runs, with b1, b2, b3"),
    ("INFO", "sequencer leads, in term 1"),
    ("WARNING", "broker b2 is out: it was silent for too long, or its link is gone"),
    ("WARNING", "b2 has died: replacing it"),
    ("INFO", "b2 is replaced"),
    ("INFO", "broker b2 is up to date, and votes again"),
    ("INFO", "broker b2 takes clients at HOST:PORT"),
    ("INFO", "broker b4 joins: it has begun"),
    ("INFO", "broker b4 takes clients at HOST:PORT"),
    ("INFO", "broker b4 joins: it is done"),
    ("INFO", "broker b4 leaves: it has begun"),
    ("INFO", "b4 retires: this broker has left the cluster"),
    ("INFO", "b4 has died, as its broker leaves"),
    ("INFO", "broker b4 leaves: it is done"),
    ("INFO", "the cluster is being stopped"),
    ("INFO", "the cluster is stopped"),
]


async def until(ray: RayInMemory, wanted: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            status = await ray.named["supervisor"].call("status", timeout_s=CALL_S)
            if status["healthy"] and wanted in {actor["name"] for actor in status["actors"]}:
                return
            await asyncio.sleep(0.1)


async def changed(ray: RayInMemory, method: str, which: str) -> None:
    supervisor = ray.named["supervisor"]
    await supervisor.call(method, method, which, timeout_s=CALL_S)
    async with asyncio.timeout(LIMIT_S):
        while not (await supervisor.call("progress", method, timeout_s=CALL_S))["ended"]:
            await asyncio.sleep(0.1)


async def test_each_change_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="mantamq")
    with nodes_in_memory():
        ray = RayInMemory()
        supervisor = ray.actor(Supervisor, "supervisor", "n1", ray, True)
        config = ClusterConfig(bind="127.0.0.1", spares=1, rebalance=False)
        await supervisor.call("start_cluster", Plan.of(3, config), timeout_s=CALL_S)
        ray.named["b2"].kill()
        await until(ray, "b2")
        await changed(ray, "add_broker", "")
        await changed(ray, "remove_broker", "b4")
        await supervisor.call("stop", timeout_s=CALL_S)
        await ray.gone()
    lines = [(one.levelname, re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", one.getMessage())) for one in caplog.records]
    counted = Counter(lines)
    assert {line: counted[line] for line in LIFE} == dict.fromkeys(LIFE, 1)
    (died,) = [one.args for one in caplog.records if one.getMessage() == "b2 has died: replacing it"]
    assert isinstance(died, dict) and died["member_host"] and "b2" in died["ray_says"]
    stopping = lines.index(("INFO", "the cluster is being stopped"))
    assert [line for line in lines[stopping:] if line[0] != "INFO"] == [], "a stop is no trouble"


async def test_who_is_gone_is_no_news_once_the_cluster_stops(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Semaphore(0)

    async def refused(*args: Any) -> None:
        tried.release()
        raise ConnectionRefusedError(f"no {tried}")  # each time another text: it is said anew

    monkeypatch.setattr(dialler, "dial_near", lambda address: None)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refused)
    owner: Any = None
    timing, own = Timing(redial_ms=1), Credentials("c", b"secret", "b1.r0")
    patient = Dialler(owner, own, "b1", "127.0.0.1:1", timing=timing)
    await tried.acquire()
    await tried.acquire()
    assert not caplog.records, "it may be about to be replaced"
    patient.close()
    one = Dialler(owner, own, "b1", "127.0.0.1:1", timing=timing, patience_s=0.0)
    await tried.acquire()
    await tried.acquire()
    said = len(caplog.records)
    assert said
    one.hushed = True
    await tried.acquire()
    await tried.acquire()
    assert len(caplog.records) <= said + 1  # one try was under way
    one.close()
