"""What must wait until a broker has applied more of the cluster's stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker_bench import Bench
from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.broker.dead_letters import DeadLetterRoutes
from mantamq.protocol.broker.rebinding import bound
from mantamq.protocol.log.durability import Durability, RecordWriter
from mantamq.protocol.wire.events import DeadLetterDone, DeclareExchange, DeclareQueue, encode_event
from mantamq.protocol.wire.queue_frames import DeadLetter, DeadLettered


def test_what_is_too_early_waits_until_the_stream_is_applied_so_far():
    cluster = ClusterState("b1", 1, False, ["b1"])
    done: list[str] = []
    cluster.once_applied(0, lambda: done.append("now"))
    cluster.once_applied(2, lambda: done.append("second"))
    cluster.once_applied(1, lambda: done.append("first"))
    assert done == ["now"]
    for commit in (1, 2, 3):
        cluster.keeper.commit = commit
        cluster.applied()
        assert done == ["now", "first", "second"][: 1 + commit]


def test_an_answer_waits_for_the_wiring_before_it_that_is_not_on_disk_here_yet():
    """Found in a story: a queue had been deleted, as this broker had been told, and its answers spoke of it as if not."""
    bench, done = Bench("q"), []
    keeper = bench.cluster.keeper
    keeper.durability = durability = Durability("cluster", RecordWriter(), lambda: None)
    durability.known = 2
    number = bench.requests.request([("q#1", b"x")], lambda: done.append("answered"))
    bench.answer(number)
    assert done == [] and bench.completed == 0 and not bench.requests.idle
    keeper.commit = 2
    bench.cluster.applied()
    assert done == ["answered"] and bench.completed == 1 and bench.requests.idle


def test_what_goes_on_from_an_exchanges_own_queue_waits_for_the_wiring_that_it_is_to_go_by():
    cluster, sent = ClusterState("b1", 1, False, ["b1"]), []
    outbox: Any = SimpleNamespace(now_ms=0, send=lambda peer, frame: sent.append(frame))
    routes = DeadLetterRoutes(outbox, cluster, None, SimpleNamespace(stopped=False))  # type: ignore[arg-type]
    routes.dead_letter("b1.r0", DeadLetter("manta.exchange.x#2", 5, "x", [b"m"], first=1, keys=[["k"]], wired=3))
    assert sent == []
    cluster.keeper.commit = 3
    cluster.applied()
    assert sent == [DeadLettered("manta.exchange.x#2", 5)]


def test_a_binding_is_told_with_how_far_the_stream_had_come():
    cluster = ClusterState("b1", 1, False, ["b1"])
    for index, event in enumerate(
        (DeclareQueue("manta.exchange.x", {"manta.exchange": "x"}), DeclareExchange("x", "fanout", {"qpid.ive": True})),
        1,
    ):
        assert cluster.apply(event, index).code == ""
    cluster.keeper.commit = 7
    asked: list[Any] = []
    requests: Any = SimpleNamespace(request=lambda parts, done: asked.append(parts))
    bound(cluster, requests, "x", lambda: None)
    assert asked == [[("manta.exchange.x#1", encode_event(DeadLetterDone(0, 7)))]]
