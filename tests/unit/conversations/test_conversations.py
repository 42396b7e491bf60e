"""The whole cluster's rules, as conversations: what a client says and hears, on machines alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import OWNERSHIP, SEQUENCER
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Failed,
    Flow,
    FlowDrained,
    MembersChanged,
    Open,
    Opened,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Append, Heartbeat, HeartbeatReply, Request
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE


def queue_with(cluster, name="q", messages=0, **options):
    """A declared queue with `messages` one-byte messages in it; returns a client on b1."""
    client = cluster.client("b1")
    assert client.command("declare_queue", name=name, **options).code == ""
    client.send(AttachSender(1, "", name))
    if messages:
        client.send(Transfer(1, 1, [b"%d" % i for i in range(1, messages + 1)]))
    return client


def consumer(cluster, broker, queue="q", credit=100, **options):
    client = cluster.client(broker)
    client.send(AttachReceiver(1, queue, **options))
    assert client.take(Attached), client.got
    if credit:
        client.send(Flow(1, credit))
    return client


def same_everywhere(cluster, name="q"):
    cluster.pass_time(DEFAULT_TIMING.lazy_ms)  # brokers without consumers hear of commits a little later
    states = cluster.queue_states(name)
    assert len(states) == len(cluster.members)
    assert len({state.digest() for state in states}) == 1
    return states[0]


def test_a_message_goes_through_three_brokers_and_is_forgotten_when_accepted():
    cluster = MemoryCluster()
    producer = queue_with(cluster, messages=3)
    assert producer.take(Completed) == [Completed(1, [1, 3])]
    reader = consumer(cluster, "b2")
    (delivery,) = reader.take(Delivery)
    assert delivery.blobs == [b"1", b"2", b"3"] and delivery.ranges == [1, 3]
    reader.send(Dispose(1, 1, ACCEPT, [delivery.acquisition, 1, 3]))
    assert reader.take(Disposed) == [Disposed(1, 1, [])]
    state = same_everywhere(cluster)
    assert (len(state.blobs), state.accepted, state.bytes) == (0, 3, 0)


def test_opening_tells_the_members_and_the_token_is_checked():
    cluster = MemoryCluster(token="secret")
    assert cluster.client("b2", token="secret").take(Opened)[0].broker == "b2"
    stranger = cluster.client("b2", token="wrong")
    assert stranger.closed and stranger.closed[0] == "unauthorized"


def test_nothing_is_allowed_before_open():
    cluster = MemoryCluster()
    client = cluster.client("b1", opened=False)
    client.send(AttachSender(1, "", "q"))
    assert client.closed and client.closed[0] == "not-allowed"


def test_a_declared_queue_is_there_on_every_broker_at_once():
    cluster = MemoryCluster()
    queue_with(cluster)
    for broker in cluster.members:
        assert cluster.client(broker).command("queue", name="q").value["messages"] == 0


def test_declaring_again_is_idempotent_and_otherwise_refused():
    cluster = MemoryCluster()
    queue_with(cluster, arguments={"a": 1})
    other = cluster.client("b3")
    assert other.command("declare_queue", name="q", arguments={"a": 1}).code == ""
    refused = other.command("declare_queue", name="q", arguments={"a": 2})
    assert refused.code == "exists" and "arguments" in refused.text


def test_unknown_names_fail_only_the_attach():
    cluster = MemoryCluster()
    client = queue_with(cluster)
    client.send(AttachSender(2, "", "nowhere"), AttachReceiver(3, "nowhere"), AttachSender(4, "no-exchange", "k"))
    assert [(d.handle, d.code) for d in client.take(Detached)] == [(2, "not-found"), (3, "not-found"), (4, "not-found")]
    client.send(Transfer(1, 1, [b"still fine"]))
    assert client.take(Completed)


def test_credit_bounds_delivery_and_more_credit_brings_more():
    cluster = MemoryCluster()
    queue_with(cluster, messages=10)
    reader = consumer(cluster, "b2", credit=4)
    assert reader.positions() == [1, 2, 3, 4]
    reader.send(Flow(1, 3))
    assert reader.positions() == [5, 6, 7]


def test_byte_credit_stops_before_the_message_that_does_not_fit():
    cluster = MemoryCluster()
    producer = queue_with(cluster)
    producer.send(Transfer(1, 1, [b"x" * 10] * 5))
    reader = consumer(cluster, "b2", credit=0)
    reader.send(Flow(1, 5, 25))
    assert reader.positions() == [1, 2]
    reader.send(Flow(1, 0, 10))
    assert reader.positions() == [3]


def test_release_restores_the_place_and_flags_it():
    cluster = MemoryCluster()
    queue_with(cluster, messages=3)
    reader = consumer(cluster, "b2", credit=2)
    (delivery,) = reader.take(Delivery)
    reader.send(Dispose(1, 1, RELEASE, [delivery.acquisition, 1, 1]))
    reader.send(Flow(1, 5))
    again = reader.take(Delivery)
    assert [p for d in again for p in d.ranges] == [1, 1, 3, 3]
    assert again[0].redelivered == [0, 1]


def test_reject_goes_to_the_alternate_exchange_once_and_otherwise_is_discarded():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    client.command("declare_queue", name="dead")
    client.command("bind", exchange="amq.fanout", queue="dead")
    queue_with(cluster, "with", messages=2, alternate="amq.fanout")
    queue_with(cluster, "without", messages=2)
    for name in ("with", "without"):
        reader = consumer(cluster, "b3", name)
        (delivery,) = reader.take(Delivery)
        reader.send(Dispose(1, 1, REJECT, [delivery.acquisition, 1, 2]))
        assert reader.take(Disposed) == [Disposed(1, 1, [])]
    dead = same_everywhere(cluster, "dead")
    assert sorted(dead.blobs.values()) == [b"1", b"2"]
    assert same_everywhere(cluster, "with").dead_lettered == 2 and not same_everywhere(cluster, "with").blobs
    assert same_everywhere(cluster, "without").discarded == 2


def test_a_stale_or_duplicate_accept_is_lost_and_changes_nothing():
    cluster = MemoryCluster()
    queue_with(cluster, messages=2)
    reader = consumer(cluster, "b2", credit=1)
    (delivery,) = reader.take(Delivery)
    run = [delivery.acquisition, 1, 1]
    reader.send(Dispose(1, 1, RELEASE, run))
    reader.send(Flow(1, 1))
    (again,) = reader.take(Delivery)
    reader.send(Dispose(1, 2, ACCEPT, run))
    assert reader.take(Disposed)[-1].lost == run
    assert len(same_everywhere(cluster).blobs) == 2
    reader.send(Dispose(1, 3, ACCEPT, [again.acquisition, 1, 1]))
    reader.send(Dispose(1, 4, ACCEPT, [again.acquisition, 1, 1]))
    assert [d.lost for d in reader.take(Disposed)] == [[], [again.acquisition, 1, 1]]
    assert same_everywhere(cluster).accepted == 1


def test_a_client_that_vanishes_gives_back_what_it_held_flagged_at_its_place():
    cluster = MemoryCluster()
    queue_with(cluster, messages=3)
    reader = consumer(cluster, "b2", credit=2)
    assert reader.positions() == [1, 2]
    reader.vanish()
    other = consumer(cluster, "b3")
    cluster.pass_time(1000)
    deliveries = other.take(Delivery)
    assert [n for d in deliveries for n in d.ranges] == [1, 3] and deliveries[0].redelivered == [0, 1, 1, 1]


def test_browsing_takes_nothing_and_sees_everything():
    cluster = MemoryCluster()
    queue_with(cluster, messages=3)
    browser = consumer(cluster, "b3", mode="browse")
    assert browser.positions() == [1, 2, 3]
    assert same_everywhere(cluster).available.count == 3 and same_everywhere(cluster).grant == 0


def test_a_receiver_that_does_not_accept_dequeues_at_once():
    cluster = MemoryCluster()
    queue_with(cluster, messages=3)
    reader = consumer(cluster, "b3", accept=False)
    assert reader.positions() == [1, 2, 3]
    assert not same_everywhere(cluster).blobs


def test_detaching_a_receiver_returns_its_messages_before_it_hears_so():
    cluster = MemoryCluster()
    queue_with(cluster, messages=2)
    reader = consumer(cluster, "b2")
    assert reader.positions() == [1, 2]
    reader.send(Detach(1))
    assert reader.take(Detached) == [Detached(1)]
    assert same_everywhere(cluster).available.count == 2


def test_drain_tells_when_there_is_no_more():
    cluster = MemoryCluster()
    queue_with(cluster, messages=2)
    reader = consumer(cluster, "b2", credit=0)
    reader.send(Flow(1, 5, -1, True))
    assert reader.positions() == [1, 2]
    assert reader.take(FlowDrained) == [FlowDrained(1, 0)]


def test_the_lock_stays_while_nobody_else_wants_it():
    cluster = MemoryCluster()
    producer = queue_with(cluster, messages=1)
    reader = consumer(cluster, "b2")
    for number in range(2, 20):
        producer.send(Transfer(1, number, [b"x"]))
        cluster.pass_time(50)
    assert len(reader.positions()) == 19
    state = same_everywhere(cluster)
    assert (state.owner, state.grant, state.handovers) == ("b2", 1, 0)


def test_a_contended_queue_is_shared_in_circular_order():
    cluster = MemoryCluster(slice_ms=20)
    producer = queue_with(cluster)
    readers = {broker: consumer(cluster, broker) for broker in ("b1", "b2", "b3")}
    owners = []
    number = 1
    for _ in range(60):
        producer.send(Transfer(1, number, [b"x"]))
        number += 1
        cluster.pass_time(10)
        owner = same_everywhere(cluster).owner
        if not owners or owners[-1] != owner:
            owners.append(owner)
    assert all("b1 b2 b3 b1".find(f"{a} {b}") >= 0 for a, b in pairwise(owners))
    shares = [len(reader.positions()) for reader in readers.values()]
    assert sum(shares) == 60 and min(shares) > 10


def test_an_empty_contended_queue_has_no_traffic():
    cluster = MemoryCluster(slice_ms=20)
    queue_with(cluster)
    for broker in ("b1", "b2", "b3"):
        consumer(cluster, broker)
    cluster.pass_time(100)
    before = len(cluster.traffic)
    cluster.pass_time(10_000)
    assert [
        frame for _, _, frame in cluster.traffic[before:] if not isinstance(frame, Heartbeat | HeartbeatReply)
    ] == []


def test_an_owner_without_credit_hands_over_at_once():
    cluster = MemoryCluster()
    queue_with(cluster, messages=10)
    first = consumer(cluster, "b1", credit=3)
    second = consumer(cluster, "b2", credit=3)
    assert first.positions() == [1, 2, 3] and second.positions() == [4, 5, 6]


def test_the_lock_is_given_up_when_nobody_wants_it():
    cluster = MemoryCluster()
    queue_with(cluster, messages=1)
    reader = consumer(cluster, "b2", credit=1)
    cluster.pass_time(1000)
    assert same_everywhere(cluster).owner == ""
    reader.send(Flow(1, 1))
    assert same_everywhere(cluster).owner == "b2"


def test_topic_routing_and_unroutable_messages():
    cluster = MemoryCluster()
    client = queue_with(cluster, "jfk")
    client.command("declare_queue", name="all")
    client.command("declare_exchange", name="flights", type="topic")
    client.command("bind", exchange="flights", queue="jfk", key="JFK.#")
    client.command("bind", exchange="flights", queue="all", key="#")
    client.send(AttachSender(7, "flights", None))
    client.send(Transfer(7, 1, [b"1", b"2", b"3"], ["JFK.LAX", "EWR.LAX", "JFK"]))
    assert client.take(Completed) == [Completed(7, [1, 3])]
    assert list(same_everywhere(cluster, "jfk").blobs.values()) == [b"1", b"3"]
    assert list(same_everywhere(cluster, "all").blobs.values()) == [b"1", b"2", b"3"]
    client.command("unbind", exchange="flights", queue="all", key="#")
    client.send(Transfer(7, 4, [b"4"], ["EWR.LAX"]))
    assert client.take(Completed) == [Completed(7, [4, 4], [4, 4])]
    client.send(Transfer(7, 5, [b"5", b"6", b"7", b"8"], ["EWR", "JFK", "EWR", "EWR"]))
    assert client.take(Completed) == [Completed(7, [5, 8], [5, 5, 7, 8])]


def test_what_is_mandatory_and_goes_to_no_queue_fails_and_the_rest_completes():
    cluster = MemoryCluster()
    client = queue_with(cluster, "jfk")
    client.command("bind", exchange="amq.topic", queue="jfk", key="JFK.#")
    client.send(AttachSender(7, "amq.topic", None, 0, True), AttachSender(8, "amq.fanout", "k", 0, True))
    client.send(Transfer(7, 1, [b"1", b"2", b"3"], ["JFK.LAX", "EWR.LAX", "JFK"]))
    (failed,) = client.take(Failed)
    assert (failed.handle, failed.ranges, failed.code) == (7, [2, 2], "unroutable") and "'amq.topic'" in failed.text
    assert client.take(Completed) == [Completed(7, [1, 1, 3, 3])]
    assert list(same_everywhere(cluster, "jfk").blobs.values()) == [b"1", b"3"]
    client.send(Transfer(7, 4, [b"4", b"5"], ["x", "y"]), Transfer(8, 1, [b"6"]))
    assert [(f.handle, f.ranges) for f in client.take(Failed)] == [(7, [4, 5]), (8, [1, 1])]
    assert client.take(Completed) == []


def test_an_alternate_exchange_that_finds_a_queue_makes_it_routable():
    cluster = MemoryCluster()
    client = queue_with(cluster, "rest")
    client.command("bind", exchange="amq.fanout", queue="rest")
    client.command("declare_exchange", name="main", alternate="amq.fanout")
    client.send(AttachSender(7, "main", "k", 0, True), Transfer(7, 1, [b"1"]))
    assert client.take(Failed) == [] and client.take(Completed) == [Completed(7, [1, 1])]


def test_headers_routing_looks_at_properties():
    cluster = MemoryCluster()
    client = queue_with(cluster)
    client.command("bind", exchange="amq.match", queue="q", arguments={"x-match": "any", "a": 1, "b": 2})
    client.send(AttachSender(7, "amq.match", ""))
    assert client.take(Attached)[-1].headers
    client.send(Transfer(7, 1, [b"1", b"2"], None, [], [{"a": 1}, {"a": 2}]))
    assert list(same_everywhere(cluster).blobs.values()) == [b"1"]


def test_expired_messages_go_whether_or_not_somebody_owns_the_queue():
    cluster = MemoryCluster()
    producer = queue_with(cluster)
    producer.send(Transfer(1, 1, [b"stays", b"goes"], None, [1, 500]))
    cluster.pass_time(2000)
    assert list(same_everywhere(cluster).blobs.values()) == [b"stays"]
    reader = consumer(cluster, "b2", credit=1)
    assert reader.positions() == [1]
    producer.send(Transfer(1, 3, [b"goes too"], None, [0, 500]))
    cluster.pass_time(2000)
    assert same_everywhere(cluster).expired == 2


def test_purge_discards_what_is_available_only():
    cluster = MemoryCluster()
    client = queue_with(cluster, messages=5)
    consumer(cluster, "b2", credit=2)
    cluster.pass_time(DEFAULT_TIMING.acquire_ms)
    assert client.command("purge", name="q", count=1).value == {"purged": 1}
    assert client.command("purge", name="q").value == {"purged": 2}
    assert same_everywhere(cluster).acquired.messages() == 2


def test_deleting_a_queue_ends_its_links_and_completes_what_was_sent():
    cluster = MemoryCluster()
    client = queue_with(cluster, messages=2)
    reader = consumer(cluster, "b2")
    assert client.command("delete_queue", name="q", if_unused=True).code == "in-use"
    assert client.command("delete_queue", name="q").code == ""
    assert [d.code for d in reader.take(Detached)] == ["deleted"]
    assert [d.code for d in client.take(Detached)] == ["deleted"]
    assert cluster.queue_states("q") == []
    assert client.command("declare_queue", name="q").code == ""
    assert same_everywhere(cluster).next_position == 1


def test_bad_numbers_credit_and_handles_close_the_connection_and_return_its_messages():
    for bad in (
        Transfer(1, 0, [b"x"]),
        Transfer(1, 1 << 62, [b"x"]),
        Transfer(1, 1, []),
        Flow(2, -1),
        Flow(2, 10**9),
        Dispose(2, 1, 9, [1, 1, 1]),
        Dispose(2, 1, ACCEPT, [1, 2]),
        AttachSender(1, "", "q"),
        Detach(99),
    ):
        cluster = MemoryCluster()
        queue_with(cluster, messages=2)
        client = cluster.client("b1")
        client.send(AttachSender(1, "", "q"), AttachReceiver(2, "q"), Flow(2, 10))
        assert client.positions() == [1, 2]
        client.send(bad)
        assert client.closed, bad
        assert same_everywhere(cluster).available.count == 2


def test_a_sender_attached_again_goes_on_with_its_numbers():
    """Were it to begin at 1 again, its messages would be taken for repeats: completed and lost."""
    cluster = MemoryCluster()
    client = queue_with(cluster, messages=3)
    client.send(Detach(1), AttachSender(2, "", "q"), AttachSender(1, "", "q"))
    assert [(a.handle, a.next) for a in client.take(Attached)[-2:]] == [(2, 1), (1, 4)]
    client.send(Transfer(1, 4, [b"4"]), Transfer(2, 1, [b"5"]))
    assert same_everywhere(cluster).enqueued == 5
    client.send(Detach(1), AttachSender(1, "", "q", 50))
    assert client.take(Attached) == [Attached(1, False, 50, wired=2)]
    client.send(Transfer(1, 49, [b"a number that went back"]))
    assert client.closed and client.closed[0] == "invalid" and "50" in client.closed[1]


def test_numbers_of_handles_long_gone_do_not_go_back_either():

    cluster = MemoryCluster(limits=Limits(handles=2))
    client = queue_with(cluster, messages=5)
    for handle in (1, 2, 3):
        client.send(*[AttachSender(handle, "", "q")] if handle > 1 else [])
        client.send(*[Transfer(handle, 1, [b"x"])] if handle > 1 else [])
        client.send(Detach(handle))
    client.take(Attached)
    client.send(AttachSender(2, "", "q"), AttachSender(1, "", "q"))
    assert [a.next for a in client.take(Attached)] == [2, 6]


def test_transfers_sent_again_through_another_broker_are_applied_once():
    cluster = MemoryCluster()
    queue_with(cluster)
    first, second = cluster.client("b1", name="me"), cluster.client("b2", name="me")
    first.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"1", b"2"]), Transfer(1, 3, [b"3"]))
    second.send(AttachSender(1, "", "q", 3), Transfer(1, 3, [b"3"]), Transfer(1, 4, [b"4"]))
    assert [n for c in second.take(Completed) for n in c.ranges] == [3, 4]
    assert same_everywhere(cluster).enqueued == 4


def test_the_newer_of_two_connections_of_one_client_wins():
    cluster = MemoryCluster()
    queue_with(cluster, messages=2)
    older = cluster.client("b1", name="me")
    older.send(AttachReceiver(1, "q"), Flow(1, 10))
    assert older.positions() == [1, 2]
    newer = cluster.client("b1", name="me")
    assert older.closed and older.closed[0] == "in-use" and "'me'" in older.closed[1]
    newer.send(AttachReceiver(1, "q"), Flow(1, 10))
    assert newer.positions() == [1, 2] and newer.closed is None
    older.vanish()  # its link is seen to break only now: the newer is not disturbed
    cluster.settle()
    newest = cluster.client("b1", name="me")
    assert newer.closed and newest.closed is None


def test_a_second_detach_is_answered_by_the_firsts_release():
    cluster = MemoryCluster()
    queue_with(cluster, messages=2)
    reader = consumer(cluster, "b1")
    cluster.pass_time(DEFAULT_TIMING.acquire_ms)
    assert reader.positions() == [1, 2]
    held = cluster.hold(Append)  # nothing is seen to commit
    reader.send(Detach(1), Detach(1))
    assert reader.take(Detached) == []
    reader.send(Detach(1))
    assert reader.take(Detached) == []
    cluster.let_go(held)
    assert reader.take(Detached) == [Detached(1)] and reader.closed is None
    assert same_everywhere(cluster).available.count == 2


def test_handles_that_ended_by_themselves_are_remembered_for_a_while_only():

    cluster = MemoryCluster(limits=Limits(handles=3))
    client = cluster.client("b1")
    session = cluster.machines["b1"].sessions[client.name]
    for handle in range(1, 10):
        client.command("declare_queue", name="q")
        client.send(AttachSender(handle, "", "q"))
        client.command("delete_queue", name="q")
    assert list(session.ended) == [7, 8, 9]
    client.send(Detach(9))  # it crossed the broker's own
    assert client.closed is None and list(session.ended) == [7, 8]


@pytest.mark.parametrize(
    "attach", [AttachSender(1, "", "gone"), AttachSender(1, "gone", None), AttachReceiver(1, "gone")]
)
def test_a_detach_may_cross_the_refusal_of_its_attach(attach):
    client = MemoryCluster().client("b1")
    client.send(attach, Detach(1))
    assert [frame.code for frame in client.take(Detached)] == ["not-found"] and client.closed is None
    client.send(Detach(1))
    assert client.closed is not None and client.closed[0] == "not-found"


def test_clients_hear_of_other_members():
    cluster = MemoryCluster()
    client, silent = cluster.client("b1"), cluster.client("b1", opened=False)
    client.got.clear()
    cluster.know({"b1": "here:1", "b4": "there:1"})
    cluster.know({"b1": "here:1", "b4": "there:1"})
    assert client.take(MembersChanged) == [MembersChanged({"b1": "here:1", "b4": "there:1"})]
    assert not silent.got
    late = cluster.client("b1")
    assert late.take(Opened)[0].members == {"b1": "here:1", "b4": "there:1"}


def test_a_heartbeat_is_agreed_within_limits():
    cluster = MemoryCluster()
    for asked, patience, agreed in (
        (0, 9_000, None),
        (-5, 0, None),
        (500, 0, (500, 1_000)),
        (500, 10_000, (500, 10_000)),
        (500, 10**9, (500, 600_000)),
        (1, 0, (100, 200)),
        (10**9, 0, (60_000, 120_000)),
    ):
        cluster.kept.clear()
        client = cluster.client("b1", opened=False)
        client.send(Open("", "", 0, asked, patience))
        (opened,) = client.take(Opened)
        kept = [(k.interval_ms, k.patience_ms) for k in cluster.kept if k.peer == client.name]
        assert kept == ([agreed] if agreed else []) and opened.heartbeat_ms == (agreed[0] if agreed else 0), asked


def test_a_message_over_the_limit_fails_alone():

    cluster = MemoryCluster(limits=Limits(message_bytes=10))
    client = queue_with(cluster)
    client.send(Transfer(1, 1, [b"x" * 11]), Transfer(1, 2, [b"x" * 10]))
    assert [(f.ranges, f.code) for f in client.take(Failed)] == [([1, 1], "too-large")]
    assert client.take(Completed) == [Completed(1, [2, 2])]


def test_wrong_commands_fail_by_themselves():
    cluster = MemoryCluster()
    client = queue_with(cluster)
    for name, arguments, code in (
        ("nonsense", {}, "invalid"),
        ("declare_queue", {}, "invalid"),
        ("declare_queue", {"name": 3}, "invalid"),
        ("declare_queue", {"name": ""}, "invalid"),
        ("declare_queue", {"name": "x", "alternate": "nowhere"}, "not-found"),
        ("declare_queue", {"name": "nowhere", "passive": True}, "not-found"),
        ("declare_exchange", {"name": "x", "type": "odd"}, "invalid"),
        ("declare_exchange", {"name": "amq.mine"}, "not-allowed"),
        ("delete_exchange", {"name": "amq.topic"}, "not-allowed"),
        ("delete_queue", {"name": "nowhere"}, "not-found"),
        ("bind", {"exchange": "", "queue": "q"}, "not-allowed"),
        ("purge", {"name": "q", "count": -1}, "invalid"),
        ("queue", {"name": "nowhere"}, "not-found"),
    ):
        reply = client.command(name, **arguments)
        assert reply.code == code and reply.text, (name, arguments, reply)
    assert client.command("resolve", name="amq.topic").value == {"kind": "exchange"}
    assert [q["name"] for q in client.command("queues").value] == ["q"]
    assert client.closed is None


def test_an_argument_that_means_nothing_is_refused_with_the_nearest_that_does():
    cluster = MemoryCluster()
    client = queue_with(cluster)
    for name, arguments, text in (
        ("declare_queue", {"name": "x", "arguments": {"x-queue-type": "quorum"}}, "this version does not keep it"),
        ("declare_queue", {"name": "x", "arguments": {"qpid.max_cuont": 3}}, "'qpid.max_count'"),
        ("declare_queue", {"name": "x", "arguments": {"manta.nonsense": 3}}, "names of your own"),
        ("declare_exchange", {"name": "x", "arguments": {"x-nonsense": 3}}, "names of your own"),
        ("bind", {"exchange": "amq.match", "queue": "q", "arguments": {"x-mach": "any"}}, "did you mean 'x-match'?"),
    ):
        reply = client.command(name, **arguments)
        assert reply.code == "invalid" and text in reply.text, (name, arguments, reply)
    assert client.command("declare_queue", name="x", arguments={"team": "ours", "qpid": 1, "max-length": 2}).code == ""
    assert client.command("bind", exchange="amq.match", queue="x", arguments={"x-match": "any", "a": 1}).code == ""
    assert [q["arguments"] for q in client.command("queues").value] == [
        {},
        {"team": "ours", "qpid": 1, "max-length": 2},
    ]


def test_many_consumers_share_evenly():
    cluster = MemoryCluster()
    queue_with(cluster, messages=90)
    client = cluster.client("b2")
    client.send(*[AttachReceiver(i, "q") for i in (1, 2, 3)])
    cluster.pass_time(1)
    client.send(*[Flow(i, 100) for i in (1, 2, 3)])
    counts = {d.handle: 0 for d in client.got if isinstance(d, Delivery)}
    for delivery in client.take(Delivery):
        counts[delivery.handle] += delivery.ranges[1] - delivery.ranges[0] + 1
    assert sum(counts.values()) == 90


def test_one_request_per_flush_carries_ranges():
    """A thousand messages consumed cost a handful of events (`features.md` 1.1: batched acquires)."""
    cluster = MemoryCluster()
    queue_with(cluster, messages=1000)
    before = len(cluster.traffic)
    reader = consumer(cluster, "b2", credit=1000)
    (delivery,) = reader.take(Delivery)
    reader.send(Dispose(1, 1, ACCEPT, [delivery.acquisition, 1, 1000]))
    requests = [f for s, t, f in cluster.traffic[before:] if isinstance(f, Request)]
    assert sum(len(r.parts) for r in requests) <= 4
    assert same_everywhere(cluster).accepted == 1000
    assert SEQUENCER and OWNERSHIP


def test_a_busy_queue_does_not_hold_up_the_cluster_stream():
    """The window of a keeper counts the bytes of its own stream only."""
    cluster = MemoryCluster(limits=Limits(keeper_window_bytes=10_000))
    client = queue_with(cluster)
    for number in range(1, 50):
        client.send(Transfer(1, number, [b"x" * 1000]))
    assert len(client.take(Completed)) == 49
    assert client.command("declare_queue", name="other").code == ""
