"""Between no two members can a link be dead for long without either knowing: packets that vanish break nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from live_cluster import LIMIT_S, Far, Silence, cluster, connection, until
from mantamq.actors.links.dialler import Dialler
from mantamq.actors.members.shell import Shell
from mantamq.protocol.machine import OWNERSHIP, SEQUENCER, Input
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Flow,
    Open,
    Opened,
    Reply,
    Transfer,
)

STANDBY = SEQUENCER + "2"
PATIENCE_MS = 160
PAIRS = [
    ("b2.r0", SEQUENCER),
    ("b2.r0", STANDBY),
    ("b2.r0", OWNERSHIP),
    ("b2.r0", "b1.r0"),
    (OWNERSHIP, SEQUENCER),
    ("b2", SEQUENCER),
    ("b2", STANDBY),
]
"""Everybody whom nothing else tells in time; a broker and its replicas have had heartbeats of their own."""


def quick() -> Timing:
    """Links that are watched closely, and no process that is missed for it: one end may notice long before the other.
    No operator can choose that."""
    timing = Timing()
    for name, value in {"keepalive_ms": 40, "keepalive_patience_ms": PATIENCE_MS, "broken_ms": 60_000}.items():
        msgspec.structs.force_setattr(timing, name, value)
    return timing


async def pass_one(client: Far, number: int) -> None:
    """One message through the queue, to a consumer at another broker."""
    client.say(Transfer(1, number, [b"x"]))
    assert (await client.hear(Completed)).ranges == [number, number]


@pytest.mark.parametrize(("caller", "callee"), PAIRS, ids=lambda name: name)
def test_both_ends_of_a_silent_link_leave_it_and_find_each_other_again(caller: str, callee: str) -> None:
    async def story() -> None:
        silence = Silence((caller, callee))
        try:
            async with cluster(via=silence.via, timing=quick()) as actors:
                await _story(actors, silence)
        finally:
            await silence.stop()

    async def _story(actors: dict[str, Any], silence: Silence) -> None:
        def linked() -> tuple[bool, bool]:
            return callee in actors[caller].shell.links, caller in actors[callee].shell.links

        address = actors["b1"].addresses["clients"]
        async with connection(address) as sending, connection(actors["b2"].addresses["clients"]) as taking:
            for client, name in ((sending, "s"), (taking, "t")):
                client.say(Open(name))
                await client.hear(Opened)
            sending.say(Command(1, "declare_queue", {"name": "q"}))
            assert (await sending.hear(Reply)).code == ""
            sending.say(AttachSender(1, "", "q"))
            await sending.hear(Attached)
            taking.say(AttachReceiver(1, "q", accept=False), Flow(1, 100))
            await pass_one(sending, 1)
            await taking.hear(Delivery)
            silence.carries.clear()
            await until(lambda: linked() == (False, False))
            silence.carries.set()
            await until(lambda: linked() == (True, True))
            await pass_one(sending, 2)
            await taking.hear(Delivery)
            for name, actor in actors.items():
                assert actor.shell.failure is None, name

    asyncio.run(story())


def test_a_quiet_link_stays() -> None:
    async def story() -> None:
        async with cluster(timing=quick()) as actors:
            before = {name: dict(actor.shell.links) for name, actor in actors.items()}
            await asyncio.sleep(3 * PATIENCE_MS / 1000)
            assert {name: dict(actor.shell.links) for name, actor in actors.items()} == before

    asyncio.run(story())


class Nothing:
    def step(self, input: Input) -> list[Any]:
        return []


def test_a_dial_that_nobody_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets to the listener vanish: the kernel alone would try for two minutes."""

    async def story() -> None:
        from live_cluster import own

        dials = 0

        async def nobody(*_: Any) -> None:
            nonlocal dials
            dials += 1
            await asyncio.get_running_loop().create_future()

        host = Shell(Nothing(), own("b1"))
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", nobody)
        dialling = Dialler(host, host.own, "b2", "127.0.0.1:1", timing=Timing(connect_ms=20))
        try:
            async with asyncio.timeout(LIMIT_S):
                while dials < 3:
                    await asyncio.sleep(0.005)
        finally:
            dialling.close()
            await host.stop()

    asyncio.run(story())
