"""Versions and clusters: any minor works with any other, another major or another cluster is refused with what to do."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from live_cluster import LIMIT_S, cluster, connection, own, until
from mantamq.actors.links.handshake import Credentials, DialOpening, ListenOpening
from mantamq.actors.members.shell import Shell
from mantamq.actors.supervisor.health import complaints, stranger_warnings
from mantamq.protocol.errors import PeerError
from mantamq.protocol.machine import SEQUENCER, Members
from mantamq.protocol.status.members import LinkStatus
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachSender,
    Command,
    Completed,
    Open,
    Opened,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.events import CLUSTER, decode_event
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import HEADER, VERSION, FrameBuffer
from mantamq.protocol.wire.kinds import KIND_OF
from mantamq.protocol.wire.link_frames import Hello, Refused
from mantamq.protocol.wire.version import MINOR, spoken

NEWER = 99
UNKNOWN = HEADER.pack(VERSION, 3, 250) + b"\x01\x02\x03"
"""A frame of a kind that is yet to come."""
UNKNOWN_EVENT = b"\x93\x64\x01\xa3new"


def opened(caller: Credentials, callee: Credentials) -> tuple[DialOpening, ListenOpening]:
    """Both sides, after all that they have to say to each other."""
    dialling, listening = DialOpening(caller, callee.name), ListenOpening(callee, lambda name: True)
    said = dialling.start()
    while said:
        said = [again for frame in said for answer in listening.receive(frame) for again in dialling.receive(answer)]
    return dialling, listening


def lengthened(frame: Frame, *more: Any) -> bytes:
    """As a newer program would say it, with fields behind those that are known."""
    payload = msgspec.msgpack.encode([*msgspec.structs.astuple(frame), *more])
    return HEADER.pack(VERSION, len(payload), KIND_OF[type(frame)]) + payload


# ---- the handshake alone


@pytest.mark.parametrize(("theirs", "ours"), [(NEWER, MINOR), (0, MINOR), (MINOR, NEWER), (MINOR, 0)])
def test_any_two_minors_open_a_link_and_know_of_each_other(theirs: int, ours: int) -> None:
    dialling, listening = opened(own("b1.r0", minor=theirs, inc=7), own("b1", minor=ours, inc=8))
    assert dialling.done and listening.done
    assert (listening.peer, listening.minor, listening.inc) == ("b1.r0", theirs, 7)
    assert (dialling.peer, dialling.minor, dialling.inc) == ("b1", ours, 8)


@pytest.mark.parametrize("changed", [{"minor": MINOR + 1}, {"inc": 5}])
def test_what_is_told_cannot_be_changed_on_the_way(changed: dict[str, int]) -> None:
    dialling = DialOpening(own("b1.r0"), "b1")
    listening = ListenOpening(own("b1"), lambda name: True)
    [hello] = dialling.start()
    [challenge] = listening.receive(msgspec.structs.replace(hello, **changed))
    with pytest.raises(PeerError, match="its proof of the secret is wrong"):
        dialling.receive(challenge)
    dialling, listening = DialOpening(own("b1.r0"), "b1"), ListenOpening(own("b1"), lambda name: True)
    [challenge] = listening.receive(*dialling.start())
    with pytest.raises(PeerError, match="its proof of the secret is wrong"):
        dialling.receive(msgspec.structs.replace(challenge, **changed))


def test_another_cluster_is_refused_with_its_name_and_what_to_do() -> None:
    listening = ListenOpening(own("b1"), lambda name: True)
    with pytest.raises(PeerError, match=r"another cluster than 'else'.*check the address") as caught:
        listening.receive(Hello("else", "b1.r0", b"n" * 32))
    assert caught.value.code == "unauthorized" and "toy" not in str(caught.value), "strangers are not told our id"


def test_another_major_is_named_with_what_to_do() -> None:
    with pytest.raises(
        PeerError, match=f"protocol {VERSION}.x is spoken here.*this one with 2: run the same major"
    ) as e:
        FrameBuffer().feed(HEADER.pack(2, 0, 6))
    assert e.value.code == "wrong-version"


def test_events_that_are_newer_are_skipped() -> None:
    assert decode_event(UNKNOWN_EVENT) is None


# ---- real links


class Idle:
    """A machine that does nothing."""

    inc = 3

    def step(self, input: Any) -> list[Any]:
        return []


def test_who_does_not_fit_is_refused_and_both_sides_say_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        callee, caller = Shell(Idle(), own("b1")), Shell(Idle(), own("b1.r0", "else"))
        address = await callee.listen_peers("127.0.0.1")
        try:
            caller.dial("b1", address)
            await until(lambda: caller.report().refused and callee.report().refused)
            (why,) = caller.report().refused.values()
            assert "b1 refused this link" in why and "another cluster than 'else'" in why
            (name,) = callee.report().refused
            assert name == "'b1.r0' at this machine"
            async with connection(address) as far:
                far.say(HEADER.pack(2, 0, 1))
                assert (await far.hear(Refused)).code == "wrong-version"
            assert any("wrong-version" in why for why in callee.report().refused.values())
        finally:
            await caller.stop()
            await callee.stop()

    asyncio.run(story())
    assert "another cluster than 'else'" in caplog.text


def test_a_refusal_is_forgotten_when_it_is_over() -> None:
    async def story() -> None:
        callee, wrong, right = (
            Shell(Idle(), own("b1")),
            Shell(Idle(), own("b1.r0", "else")),
            Shell(Idle(), own("b1.r0")),
        )
        address = await callee.listen_peers("127.0.0.1")
        try:
            wrong.dial("b1", address)
            await until(lambda: wrong.report().refused)
            later_s = asyncio.get_running_loop().time() + DEFAULT_TIMING.refusal_ms / 1000
            assert not any(shell.refusals.named(later_s) for shell in (wrong, callee))
            right.dial("b1", address)
            await until(lambda: "b1.r0" in callee.links)
            assert callee.report().links["b1.r0"] == LinkStatus(version=spoken(), inc=0)
        finally:
            for shell in (wrong, right, callee):
                await shell.stop()

    asyncio.run(story())


def test_status_names_who_is_refused() -> None:
    from made_up_status import actors, named, plan

    found = actors()
    named(found, "b2.r0").refused = {"sequencer2": "unauthorized: another cluster"}
    assert complaints(plan(), found) == ["b2.r0 and sequencer2 do not link: unauthorized: another cluster"]
    assert stranger_warnings(found) == []


def test_a_stranger_that_knocks_makes_no_cluster_unhealthy() -> None:
    """As of two clusters of one machine, one of which dials a port that the other one has got meanwhile."""
    from made_up_status import actors, named, plan

    async def story() -> dict[str, str]:
        called, stranger = Shell(Idle(), own("b2.r0")), Shell(Idle(), own("b1", "else"))
        try:
            stranger.dial("b1.r0", await called.listen_peers("127.0.0.1"))
            await until(lambda: called.report().refused)
            return called.report().refused
        finally:
            for shell in (stranger, called):
                await shell.stop()

    found = actors()
    named(found, "b2.r0").refused = asyncio.run(story())
    assert complaints(plan(), found) == []
    (said,) = stranger_warnings(found)
    assert "b2.r0 has turned away 'b1' at " in said and "which is not of this cluster: unauthorized: " in said


# ---- a live cluster without Ray


@pytest.mark.parametrize("minor", [NEWER, 0])
def test_members_of_another_minor_work_with_the_others(minor: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        odd = dict.fromkeys(("b3", "b3.r0", SEQUENCER), minor)
        async with cluster(lambda name: own(name, minor=odd.get(name, MINOR))) as actors:
            stop = asyncio.Event()

            async def chatter() -> None:
                """What only the odd ones know."""
                while not stop.is_set():
                    for name in odd:
                        for link in actors[name].shell.links.values():
                            if not link.is_client:
                                link.send(UNKNOWN)
                    await asyncio.sleep(0.002)

            talk = asyncio.create_task(chatter())
            ordered = asyncio.Event()
            actors["b3"].shell.machine.requests.request([(CLUSTER, UNKNOWN_EVENT)], ordered.set)
            async with connection(actors["b1"].addresses["clients"]) as far:
                far.say(lengthened(Open("c", minor=minor), "later"), UNKNOWN)
                assert (await far.hear(Opened)).minor == MINOR
                far.say(Command(1, "declare_queue", {"name": "q"}), UNKNOWN)
                assert (await far.hear(Reply)).code == ""
                far.say(AttachSender(1, "", "q"))
                await far.hear(Attached)
                for number in range(1, 30):
                    far.say(UNKNOWN, Transfer(1, number, [b"x"]), UNKNOWN)
                    assert (await far.hear(Completed)).ranges == [number, number]
                assert actors["b1"].shell.report().client_versions == {spoken(minor): 1}
            actors["b3"].shell.give(Members({}))  # so that what it has asked for leaves
            await asyncio.wait_for(ordered.wait(), LIMIT_S)
            stop.set()
            await talk
            for name, actor in actors.items():
                assert actor.shell.failure is None, name
                for peer, link in actor.shell.report().links.items():
                    assert link.version == spoken(odd.get(peer, MINOR))
            assert actors["b1"].shell.report().links[SEQUENCER].inc == 7
            assert actors[SEQUENCER].shell.report().links["b1.r0"].inc == 6

    asyncio.run(story())
    assert f"it speaks protocol {spoken(minor)}, this is {spoken()}" in caplog.text
