"""What strangers and broken clients send ends their own connection, and nobody else's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import msgspec
import pytest
from mantamq.actors.cluster import Cluster
from mantamq.actors.links.handshake import Credentials, DialOpening
from mantamq.actors.links.links import Link
from mantamq.actors.members.shell import Shell
from mantamq.protocol.wire.client_frames import Command, Open, Opened, Reply, Transfer
from mantamq.protocol.wire.events import CLUSTER, DeclareQueue, encode_event
from mantamq.protocol.wire.framing import HEADER, VERSION, encode_frame
from mantamq.protocol.wire.kinds import KIND_OF
from mantamq.protocol.wire.link_frames import Refused
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.version import MINOR, spoken

from tests.cluster.wire import RawClient

UNKNOWN = HEADER.pack(VERSION, 3, 250) + b"\x01\x02\x03"
"""A frame of a kind that is yet to come."""
DEEP = b"\x93\x01\xa6queues\x81\xa1x"
BAD = {
    "garbage": (os.urandom(64).replace(b"\x01", b"\x02"), "wrong-version"),
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "wrong-version"),
    "wrong version": (HEADER.pack(2, 4, 111) + b"\x93\x01\xa0\x80", "wrong-version"),
    "oversized": (HEADER.pack(1, 0xFFFFFFFF, 103), "too-large"),
    "not msgpack": (HEADER.pack(1, 4, 103) + b"\xc1\xff\xc1\xff", "bad-frame"),
    "too few fields": (HEADER.pack(1, 2, 103) + b"\x91\x01", "bad-frame"),
    "deeply nested": (HEADER.pack(1, len(DEEP) + 1001, 111) + DEEP + b"\x91" * 1000 + b"\x01", "bad-frame"),
    "nested beyond the stack": (
        HEADER.pack(1, len(DEEP) + 1_000_001, 111) + DEEP + b"\x91" * 1_000_000 + b"\x01",
        "bad-frame",
    ),
    "a cluster frame": (
        encode_frame(Request("b1", 1 << 60, 1, [(CLUSTER, encode_event(DeclareQueue("forged", {})))])),
        "bad-frame",
    ),
    "a transfer on a handle that never was": (encode_frame(Transfer(77, 5, [b"x"])), ""),
}


@pytest.fixture
def bystander(cluster: Cluster) -> Iterator[RawClient]:
    with RawClient(cluster.addresses["b1"], name="bystander") as client:
        client.command("declare_queue", name="calm")
        yield client


@pytest.mark.parametrize("data,code", BAD.values(), ids=BAD.keys())
def test_bad_bytes_end_one_connection(cluster: Cluster, bystander: RawClient, data: bytes, code: str) -> None:
    with RawClient(cluster.addresses["b1"], name="bad") as bad:
        bad.say(data)
        if code:
            refused = bad.hear(Refused)
            assert refused.code == code and refused.text
            assert bad.next() is None
    queues = bystander.command("queues")
    assert [queue["name"] for queue in queues] == ["calm"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", [b"\x00" * 10, encode_frame(Command(1, "queues", {})), HEADER.pack(1, 5000, 96)])
def test_a_connection_must_open_first(cluster: Cluster, bystander: RawClient, data: bytes) -> None:
    with RawClient(cluster.addresses["b1"], open=False) as bad:
        bad.say(data)
        assert isinstance(bad.next(), Refused)
        assert bad.next() is None
    bystander.command("queues")


def test_a_truncated_frame_harms_nobody(cluster: Cluster, bystander: RawClient) -> None:
    with RawClient(cluster.addresses["b1"]) as bad:
        bad.say(encode_frame(Command(1, "queues", {}))[:-2])
    bystander.command("queues")


def test_a_peer_with_the_wrong_secret_is_refused(cluster: Cluster, bystander: RawClient) -> None:
    addresses = {actor["name"]: actor["address"] for actor in cluster.status()["actors"]}

    async def knock(own: Credentials) -> Link:
        lost = asyncio.get_running_loop().create_future()
        link = Link(Shell(Nothing(), own), DialOpening(own, "sequencer"))
        link.on_lost = lambda: lost.set_result(None)
        host, port = addresses["sequencer"].rsplit(":", 1)
        await asyncio.get_running_loop().create_connection(lambda: link, host, int(port))
        await asyncio.wait_for(lost, 10)
        return link

    for own in (Credentials(cluster.id, b"guess" * 7, "b1"), Credentials("another", b"guess" * 7, "b1")):
        link = asyncio.run(knock(own))
        assert link.reason is not None and link.reason.code == "unauthorized"
    bystander.command("declare_queue", name="calm")


class Nothing:
    def step(self, input: object) -> list[object]:  # type: ignore[override]
        return []


def test_a_client_that_vanishes_in_the_middle_of_a_frame_loses_nothing(cluster: Cluster) -> None:
    bodies = [b"%d" % number for number in range(5)]
    gone = RawClient(cluster.addresses["b2"], name="gone")
    gone.command("declare_queue", name="kept")
    gone.send("kept", bodies)
    assert gone.receive("kept", 5) == [(body, 0) for body in bodies]
    gone.say(encode_frame(Transfer(1, 6, [b"x" * 1000]))[:500])
    gone.vanish()
    with RawClient(cluster.addresses["b3"], name="heir") as heir:
        assert heir.receive("kept", 5) == [(body, 1) for body in bodies]
        heir.command("delete_queue", name="kept")


def test_the_token_is_asked_for(cluster: Cluster) -> None:
    with RawClient(cluster.addresses["b1"], open=False) as client:
        client.say(Open("me", "no such token"), Command(1, "queues", {}))
        refused = client.next()
        assert isinstance(refused, Refused) and refused.code == "unauthorized"
        rest = client.next()
        assert rest is None or not isinstance(rest, Reply)


@pytest.mark.parametrize("minor", [0, MINOR, 99])
def test_clients_of_any_minor_are_served(cluster: Cluster, bystander: RawClient, minor: int) -> None:
    """A newer one says fields and kinds that are not known here, an older one less than is."""
    said: list[object] = [f"minor {minor}", "", minor, 0, 0, False, 0, "later"] if minor else ["minor 0"]
    payload = msgspec.msgpack.encode(said)
    with RawClient(cluster.addresses["b2"], open=False) as client:
        client.say(HEADER.pack(VERSION, len(payload), KIND_OF[Open]) + payload, UNKNOWN)
        assert client.hear(Opened).minor == MINOR
        client.say(UNKNOWN)
        assert client.command("queue", name="calm")
        actors = {actor["name"]: actor for actor in cluster.status()["actors"]}
        assert actors["b2"]["client_versions"] == {spoken(minor): 1}
        assert actors["b2"]["links"]["sequencer"]["version"] == actors["sequencer"]["version"] == spoken()


def test_another_major_is_told_what_to_do_and_counted(cluster: Cluster) -> None:
    def refused() -> int:
        return next(a["refused_clients"]["count"] for a in cluster.status()["actors"] if a["name"] == "b3")

    before = refused()
    with RawClient(cluster.addresses["b3"], open=False) as client:
        client.say(HEADER.pack(VERSION + 1, 3, KIND_OF[Open]) + b"\x91\xa1c")
        why = client.hear(Refused)
    assert why.code == "wrong-version" and "run the same major version of mantamq" in why.text
    assert refused() == before + 1
