"""What members tell each other may be large: none of it is more than a link takes, or it goes in pieces."""

from __future__ import annotations

import pytest
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import encode_frame
from mantamq.protocol.wire.log_frames import Fetched, UpdatePiece, UpdateStart
from mantamq.protocol.wire.queue_frames import REJECT, DeadLetter
from mortal_cluster import MortalCluster
from msgspec.structs import replace

KIB = 2**10
SMALL = Limits(
    frame_bytes=256 * KIB, message_bytes=64 * KIB, member_frame_bytes=256 * KIB, request_bytes=64 * KIB,
    append_bytes=32 * KIB, fetch_bytes=64 * KIB, deliver_bytes=64 * KIB, dead_letter_bytes=64 * KIB,
    update_piece_bytes=64 * KIB,
)  # fmt: skip
"""All sizes of the wire by 128 smaller, so that a test takes no time. Members may say no more than clients."""


def takeover(limits: Limits = SMALL) -> list[Fetched]:
    """A sequencer takes over while a keeper lacks more than a frame carries; what was fetched for it."""
    cluster = MortalCluster(limits=limits)
    cluster.add_sequencer()
    client = cluster.client("b2")
    client.command("declare_queue", name="q")
    client.send(AttachSender(1, "", "q"))
    behind = cluster.replica("b1", "q")
    deaf, cluster.machines[behind] = cluster.machines[behind], _Deaf()
    count = SMALL.frame_bytes // (32 * KIB) + 2
    for number in range(1, count + 1):
        client.send(Transfer(1, number, [bytes(32 * KIB)]))
        cluster.pass_time(10)
    assert client.take(Completed), "two of three are enough"
    cluster.machines[behind] = deaf
    cluster.traffic.clear()
    cluster.kill("sequencer")
    cluster.pass_time(3000)
    assert {state.available.count for state in cluster.queue_states("q")} == {count}
    assert len({state.digest() for state in cluster.queue_states("q")}) == 1
    return [frame for _, _, frame in cluster.traffic if isinstance(frame, Fetched) and frame.stream.startswith("q#")]


def test_a_takeover_with_a_keeper_far_behind():
    """What it lacks is more than a frame takes: it is fetched in pieces."""
    pieces = takeover()
    assert len(pieces) > 1
    assert all(sum(len(entry.event) for entry in piece.entries) <= 64 * KIB for piece in pieces)


class _Deaf:
    """A process that stands still."""

    def step(self, input: object) -> list[object]:
        return []


def test_a_large_message_for_many_queues():
    """One frame for all of them would be more than a link takes."""
    cluster = MortalCluster(limits=SMALL)
    client = cluster.client("b1")
    names = [f"q{i}" for i in range(6)]
    for name in names:
        client.command("declare_queue", name=name)
        client.command("bind", exchange="amq.fanout", queue=name)
    client.send(AttachSender(1, "amq.fanout", ""), Transfer(1, 1, [bytes(SMALL.message_bytes)]))
    assert [done.ranges for done in client.take(Completed)] == [[1, 1]]
    cluster.pass_time(100)
    assert all(state.available.count == 1 for name in names for state in cluster.queue_states(name))


def rejected(batches: int) -> tuple[MortalCluster, list[DeadLetter]]:
    """Seven messages, of which no two fit into a piece, are rejected in `batches` batches at once; the first requests."""
    cluster = MortalCluster(limits=SMALL)
    client = cluster.client("b1")
    client.command("declare_queue", name="dead")
    client.command("bind", exchange="amq.fanout", queue="dead")
    client.command("declare_queue", name="q", alternate="amq.fanout")
    client.send(AttachSender(1, "", "q"))
    for number in range(1, 8):
        client.send(Transfer(1, number, [bytes([number]) * (48 * KIB)]))
        cluster.pass_time(10)
    client.send(AttachReceiver(2, "q"), Flow(2, 100))
    cluster.pass_time(100)
    runs = [(d.acquisition, d.ranges[0], d.ranges[-1]) for d in client.take(Delivery)]
    cluster.traffic.clear()
    held = cluster.hold(DeadLetter)
    for batch in range(batches):
        part = runs[batch * 4 : batch * 4 + 4] if batches > 1 else runs
        client.send(Dispose(2, batch + 1, REJECT, [n for run in part for n in run]))
        cluster.pass_time(100)
    cluster.let_go(held)
    cluster.pass_time(200)
    return cluster, [frame for _, _, frame in cluster.traffic if isinstance(frame, DeadLetter)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_large_batch_is_rejected(batches):
    """Its copies go to the alternate exchange in pieces, each once, in order; what is rejected behind it comes behind."""
    cluster, dead_lettered = rejected(batches)
    assert len(dead_lettered) == 7 and all(sum(map(len, one.blobs)) <= 64 * KIB for one in dead_lettered)
    for state in cluster.queue_states("dead"):
        assert [state.blobs[p][0] for p in sorted(state.blobs)] == [1, 2, 3, 4, 5, 6, 7]
    assert all(not state.blobs and not state.batches for state in cluster.queue_states("q"))


def comes_back(limits: Limits) -> list[Frame]:
    """b2 comes back to a large wiring and a queue with many expiries; what it was told of them."""
    cluster = MortalCluster(limits=limits)
    client = cluster.client("b1")
    client.command("declare_queue", name="q")
    client.send(AttachSender(1, "", "q"))
    lots = {"text": "x" * (16 * KIB)}
    for i in range(20):
        assert not client.command("bind", exchange="amq.headers", queue="q", key=str(i), arguments=lots).code
    each = 3_000
    for first in range(1, 10 * each, each):
        client.send(Transfer(1, first, [b""] * each, ttl=[n for i in range(each) for n in (i, 1_000_000_000 + i)]))
        cluster.pass_time(10)
    cluster.pass_time(100)
    cluster.kill("b2")
    cluster.pass_time(5000)
    cluster.traffic.clear()
    cluster.add_broker("b2")
    cluster.pass_time(20_000)
    assert not cluster.machines["b2"].keeper.blank
    assert len({m.wiring.digest() for name, m in cluster.machines.items() if name in cluster.members}) == 1
    assert len(cluster.queue_states("q")) == 3 and len({state.digest() for state in cluster.queue_states("q")}) == 1
    return [frame for _, _, frame in cluster.traffic if isinstance(frame, UpdateStart | UpdatePiece)]


def test_the_wiring_and_a_queue_as_they_are_told_to_who_comes_back():
    """Each is larger than a frame may be, and goes in pieces."""
    told = comes_back(SMALL)
    sizes = {frame.stream: frame.size for frame in told if isinstance(frame, UpdatePiece)}
    assert len(sizes) == 2 and min(sizes.values()) > SMALL.frame_bytes
    assert not any(isinstance(frame, UpdateStart) for frame in told)
    assert max(len(encode_frame(frame)) for frame in told) < SMALL.update_piece_bytes + KIB


def test_an_updatee_of_an_older_minor_is_told_in_one_frame(monkeypatch):
    """It reads no pieces, and no frame of members is too large for it."""
    report = Keeper.log_report
    monkeypatch.setattr(Keeper, "log_report", lambda self: replace(report(self), minor=0))
    told = comes_back(replace(SMALL, member_frame_bytes=DEFAULT.member_frame_bytes))
    starts = {frame.stream: len(encode_frame(frame)) for frame in told}
    assert len(starts) == 2 and min(starts.values()) > SMALL.frame_bytes
    assert all(isinstance(frame, UpdateStart) for frame in told)


def test_thousands_of_queues_in_one_answer():
    cluster = MortalCluster(brokers=1)
    client = cluster.client("b1")
    for i in range(200):
        client.command("declare_queue", name=f"{i}" + "q" * 200)
    queues = client.command("queues").value
    assert len(queues) == 200
    assert len(encode_frame(Reply(1, queues))) < DEFAULT.frame_bytes / 150
    report = cluster.machines["b1"].report()
    assert len(encode_frame(Reply(1, report.plain()))) < DEFAULT.frame_bytes / 150


def test_a_keeper_of_an_older_minor_sends_all_at_once(monkeypatch):
    """It does not know that a question may name a size."""
    fetch = Keeper.fetch
    monkeypatch.setattr(Keeper, "fetch", lambda self, frame: fetch(self, replace(frame, most_bytes=0)))
    assert len(takeover(replace(SMALL, member_frame_bytes=DEFAULT.member_frame_bytes))) == 1
