"""What queues get by the pattern of their names, as every broker applies it."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.errors import EXISTS, INVALID, NOT_FOUND
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.wire.events import AnyEvent, DeclareExchange, DeclareQueue
from mantamq.protocol.wire.policy_events import DropPolicy, PutPolicy
from mantamq.protocol.wire.settings import read
from mantamq.protocol.wiring.definitions import by_default, given
from mantamq.protocol.wiring.wiring import Outcome, Wiring

COUNT, SIZE, OVERFLOW = "qpid.max_count", "qpid.max_size", "qpid.policy_type"


class Cluster:
    """A wiring, and the index of its stream."""

    def __init__(self, *events: AnyEvent) -> None:
        self.wiring = Wiring()
        self.index = 0
        for event in events:
            assert self.apply(event).code == ""

    def apply(self, event: AnyEvent) -> Outcome:
        self.index += 1
        return self.wiring.apply(event, self.index)

    def declare(self, name: str, arguments: dict[str, Any] | None = None, alternate: str = "") -> QueueSettings:
        outcome = self.apply(DeclareQueue(name, arguments or {}, False, alternate))
        assert outcome.code == "", outcome.text
        queue = self.wiring.queue(name)
        assert queue is not None and given(queue.arguments) == (arguments or {}), "its own are kept apart"
        again = self.apply(DeclareQueue(name, arguments or {}, False, alternate))
        assert (again.code, again.changed) == ("", False), "it may be declared again as it was"
        return read(QueueSettings, queue.arguments, alternate=queue.alternate)

    def notes(self, name: str) -> dict[str, Any]:
        queue = self.wiring.queue(name)
        assert queue is not None
        return queue.arguments["manta.by_policy"]


def test_a_queue_gets_what_the_policy_of_its_name_says():
    cluster = Cluster(PutPolicy("p", r"^orders\.", {COUNT: 10, OVERFLOW: "ring", "manta.delivery_limit": 3}))
    orders = cluster.declare("orders.eu")
    assert (orders.max_count, orders.overflow, orders.delivery_limit) == (10, "ring", 3)
    assert cluster.notes("orders.eu") == {"policy": "p"}
    assert not cluster.declare("other").limited


def test_what_is_there_follows_and_keeps_what_it_was_declared_with_apart():
    cluster = Cluster()
    cluster.declare("before", {COUNT: 50, OVERFLOW: "reject", "mine": 1})
    cluster.declare("plain")
    born = cluster.wiring.queue("plain").at_first
    put = cluster.apply(PutPolicy("p", ".*", {COUNT: 10, "manta.delivery_limit": 4}))
    assert [(queue.name, queue.changed) for queue in put.otherwise] == [("before", 5), ("plain", 5)]
    found = cluster.declare("before", {COUNT: 50, OVERFLOW: "reject", "mine": 1})
    assert (found.max_count, found.delivery_limit) == (50, 4), "what is declared goes before"
    assert cluster.declare("plain").max_count == 10
    assert cluster.wiring.queue("plain").at_first == born, "its stream begins as it was"
    less = cluster.apply(PutPolicy("o", "^b", {COUNT: 20}, operator=True))
    assert [queue.name for queue in less.otherwise] == ["before"]
    assert cluster.declare("before", {COUNT: 50, OVERFLOW: "reject", "mine": 1}).max_count == 20
    cluster.apply(PutPolicy("p", "^none$", {COUNT: 10}))
    assert cluster.declare("plain") == QueueSettings(), "the pattern does not fit any more"
    cluster.apply(DropPolicy("o", True))
    assert cluster.declare("before", {COUNT: 50, OVERFLOW: "reject", "mine": 1}).max_count == 50
    again = Wiring.restore(cluster.wiring.snapshot())
    assert again.digest() == cluster.wiring.digest()
    assert again.queue("plain").changed == cluster.wiring.queue("plain").changed > 0


def test_a_policy_that_says_the_same_changes_nothing_but_its_name():
    cluster = Cluster(PutPolicy("p", "^q$", {COUNT: 10}))
    cluster.declare("q")
    outcome = cluster.apply(PutPolicy("a", "^q$", {COUNT: 10}))
    assert [queue.changed for queue in outcome.otherwise] == [0], "nothing has to be said in its stream"
    assert cluster.notes("q") == {"policy": "a"}
    assert cluster.apply(PutPolicy("z", "^q$", {COUNT: 10})).otherwise == ()


def test_a_queue_expires_by_a_policy_from_the_event_on_by_which_it_comes():
    cluster = Cluster()
    cluster.declare("q")
    cluster.apply(PutPolicy("p", ".*", {"x-expires": 500}))
    assert cluster.wiring.left() == {("q#1", 3): 0.5}
    cluster.apply(PutPolicy("o", ".*", {"x-expires": 100}, operator=True))
    assert cluster.wiring.left() == {("q#1", 3): 0.1}
    for event in (DropPolicy("o", True), DropPolicy("p")):
        cluster.apply(event)
    assert cluster.wiring.left() == {}


def test_no_time_is_less_than_any_and_none_at_all_is_more():
    cluster = Cluster(
        PutPolicy("o", ".*", {"x-message-ttl": 100}, operator=True), PutPolicy("p", "^p", {"x-message-ttl": 0})
    )
    assert cluster.declare("q").message_ttl_ms == 100
    assert cluster.declare("p").message_ttl_ms == 0


def test_the_highest_priority_wins_and_then_the_first_name():
    cluster = Cluster(
        PutPolicy("c", ".*", {COUNT: 1}), PutPolicy("b", ".*", {COUNT: 2}, 5), PutPolicy("a", "^q$", {COUNT: 3}, 5),
        PutPolicy("z", "none", {COUNT: 4}, 9),
    )  # fmt: skip
    assert cluster.declare("q").max_count == 3
    assert cluster.declare("r").max_count == 2
    cluster.apply(PutPolicy("c", ".*", {COUNT: 1}, 10))
    assert cluster.declare("s").max_count == 1


def test_what_is_declared_goes_before_what_a_policy_says():
    cluster = Cluster(PutPolicy("p", ".*", {COUNT: 10, OVERFLOW: "ring", "manta.delivery_limit": 3}))
    queue = cluster.declare("q", {COUNT: 20, OVERFLOW: "reject"})
    assert (queue.max_count, queue.overflow, queue.delivery_limit) == (20, "reject", 3)


def test_the_clusters_own_limit_goes_behind_a_policys():
    cluster = Cluster(PutPolicy("p", "^p", {COUNT: 10}), PutPolicy("s", "^s", {SIZE: 100}))
    arguments = by_default({}, {SIZE: 5000, OVERFLOW: "reject"})
    for name, limits in (("p", (10, 0)), ("s", (0, 100)), ("q", (0, 5000))):
        assert cluster.apply(DeclareQueue(name, arguments)).code == ""
        settings = read(QueueSettings, cluster.wiring.queue(name).arguments)
        assert (settings.max_count, settings.max_size) == limits
        assert given(cluster.wiring.queue(name).arguments) == {}


def test_an_operators_policy_is_the_most_that_a_queue_gets():
    cluster = Cluster(
        PutPolicy("p", "^p", {COUNT: 1000}),
        PutPolicy("o", ".*", {COUNT: 100, "manta.delivery_limit": 5}, operator=True),
    )
    assert cluster.declare("q").max_count == 100
    assert cluster.declare("r", {COUNT: 1000, OVERFLOW: "ring"}).max_count == 100
    assert cluster.notes("r") == {"operator_policy": "o", "given": {COUNT: 1000}}
    assert cluster.declare("s", {COUNT: 50, OVERFLOW: "ring"}).max_count == 50
    assert cluster.declare("p").max_count == 100
    assert cluster.notes("p") == {"policy": "p", "operator_policy": "o"}
    stops = cluster.declare("t", {"qpid.flow_stop_count": 500, "qpid.flow_resume_count": 400})
    assert (stops.max_count, stops.thresholds[0]) == (100, (80, 70)), "thresholds go with what they are above"


def test_an_alternate_is_a_policys_where_it_is_there():
    cluster = Cluster(PutPolicy("p", ".*", {COUNT: 5, OVERFLOW: "dead-letter"}, alternate="dead"))
    assert cluster.declare("early") == QueueSettings(), "an exchange that is not there is no alternate"
    cluster.apply(DeclareExchange("dead", "fanout", {}))
    cluster.apply(DeclareExchange("mine", "fanout", {}))
    queue = cluster.declare("q")
    assert (queue.alternate, queue.overflow, queue.dead_letters) == ("dead", "dead-letter", "all")
    assert cluster.notes("q") == {"policy": "p", "alternate": True}
    assert cluster.declare("m", alternate="mine").alternate == "mine"
    assert cluster.apply(DeclareQueue("q", {}, False, "mine")).code == EXISTS
    assert cluster.apply(DeclareQueue("q", {}, False, "dead")).code == EXISTS, "it was declared without one"


def test_a_policy_that_contradicts_a_declaration_says_nothing():
    cluster = Cluster(
        PutPolicy("p", ".*", {COUNT: 10, OVERFLOW: "ring-strict"}), PutPolicy("o", "^o", {OVERFLOW: "ring"}, 1)
    )
    assert cluster.declare("levels", {"qpid.priorities": 3}).max_count == 0
    assert cluster.declare("o").overflow == "", "without a limit nothing happens at it"
    assert cluster.declare("o2", {COUNT: 3, OVERFLOW: "reject"}).overflow == "reject"


def test_exchanges_own_queues_have_none():
    cluster = Cluster(PutPolicy("p", ".*", {COUNT: 10}))
    assert cluster.declare("manta.exchange.e", {"manta.exchange": "e"}).max_count == 0


@pytest.mark.parametrize(
    ("event", "code", "text"),
    [
        (PutPolicy("p", "(a", {}), INVALID, "a group has no end"),
        (PutPolicy("", "a", {}), INVALID, "a policy's name has 1 to"),
        (DropPolicy("p"), NOT_FOUND, "there is no policy 'p'"),
        (DropPolicy("p", True), NOT_FOUND, "there is no operator's policy 'p'"),
    ],
)
def test_what_is_refused(event, code, text):
    outcome = Cluster().apply(event)
    assert outcome.code == code and text in outcome.text


def test_there_are_not_too_many():
    cluster = Cluster(*(PutPolicy(f"p{n}", "a", {}) for n in range(64)))
    assert "at most 64 policies of a kind" in cluster.apply(PutPolicy("one more", "a", {})).text
    assert cluster.apply(PutPolicy("p1", "b", {})).changed
    assert not cluster.apply(PutPolicy("p1", "b", {})).changed, "the same again"
    assert cluster.apply(PutPolicy("one more", "a", {}, operator=True)).changed


def test_a_restored_wiring_has_them():
    cluster = Cluster(PutPolicy("p", "^q", {COUNT: 10}, 3), PutPolicy("p", ".*", {COUNT: 5}, operator=True))
    cluster.declare("q")
    other = Cluster()
    other.wiring = Wiring.restore(cluster.wiring.snapshot())
    assert other.wiring.digest() == cluster.wiring.digest()
    other.index = cluster.index
    assert other.declare("q2") == cluster.declare("q2")
    assert [one.name for one in other.wiring.policies.snapshot()] == ["p", "p"]
    assert Wiring.restore(cluster.wiring.snapshot()[:10]).policies.snapshot() == [], "of an older program"
