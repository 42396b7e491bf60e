"""What the chaos suite is made of, without Ray: what a client logs, when a cluster is healthy, which faults there are."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from made_up_status import alter, member, report
from mantamq.benchmarks import recovery
from mantamq.benchmarks.health import unwell
from mantamq.benchmarks.results import Collection
from mantamq.client import Empty, Full, Message
from mantamq.client.errors import ConnectionLost, NotFound, ResourceLimitExceeded, Timeout, Unavailable
from mantamq.client.tracing import traced
from mantamq.protocol.status.cluster import ClusterStatus
from msgspec.structs import replace

from tests.chaos import body, faults, kinds
from tests.chaos.journal import History, Journal, read, read_lines
from tests.chaos.load import GivenUp, Sending, Task
from tests.chaos.receiving import Hand
from tests.chaos.traces import part_of_its_trace

# ---- bodies


def test_a_body_says_where_it_was_sent():
    assert body.read(body.write("q", "s1", 7, b" x y")) == body.Body("q", "s1", 7)


@pytest.mark.parametrize("at", [0, 4, 9, -1])
def test_a_damaged_body_is_told(at):
    text = bytearray(body.write("q", "s1", 7, b"padding"))
    text[at] ^= 1
    assert body.read(bytes(text)).damaged


def test_a_body_that_is_none():
    assert body.read(b"").damaged and body.read(b"abcdefgh").damaged


# ---- a sender's journal


class FakeSender:
    """Does what its script says: an exception for a call, or None."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.sent: list[bytes] = []

    def _next(self) -> None:
        if self.script and (error := self.script.pop(0)) is not None:
            raise error

    def send(self, message: Message, timeout: float) -> None:
        self._next()
        self.sent.append(message.body)

    def sync(self, timeout: float) -> None:
        self._next()


class FakeConnection:
    """A connection whose senders, receivers and settlements a test holds in its hand."""

    def __init__(self, sender: FakeSender | None = None) -> None:
        self.broker = "b1"
        self.interruptions = 0
        self._conversation = SimpleNamespace(on_sender=None, has_senders=False)
        self.lost: list[tuple[str, int]] = []
        self.inbox: list[Message] = []
        self.modified: list[tuple[int, bool, bool, dict[str, Any]]] = []
        self._sender = sender

    def session(self) -> FakeConnection:
        return self

    def sender(self, queue: str, capacity: int, *_, **options) -> Any:
        return self._sender

    def receiver(self, queue: str, capacity: int, **options) -> FakeConnection:
        return self

    def fetch(self, timeout: float) -> Message:
        if not self.inbox:
            raise Empty("")
        return self.inbox.pop(0)

    fetch_nowait = property(lambda self: lambda: self.fetch(0))

    def get_batch(self, count: int) -> list[Message]:
        return []

    def acknowledge(self, message: Message) -> None: ...

    release = reject = acknowledge

    def modify(self, message: Message, failed: bool, undeliverable_here: bool, annotations: dict[str, Any]) -> None:
        self.modified.append((message.position, failed, undeliverable_here, annotations))

    def stop(self) -> None: ...

    start = stop

    def sync(self, timeout: float) -> None: ...

    def close(self) -> None: ...


def refused(cls: type[Exception], *ranges: int) -> Exception:
    error = cls("no")
    error.numbers = list(ranges)  # type: ignore[attr-defined]
    return error


def sending(tmp_path: Any, *script: Exception | None, fleeting: float = 0.0) -> tuple[dict[int, str], History]:
    """One burst of five through a sender with this script; the outcomes logged."""
    path = tmp_path / "s1.jsonl"
    client = Sending(Task("s1", "sender", ["q"], str(path), "", 0, 1, 1e9))
    client.fleeting = fleeting
    choices = iter([1, 5])
    client.random = random.Random(1)
    client.random.choice = lambda options: next(choices)  # type: ignore[method-assign]
    client.stopping.wait = lambda timeout=None: client.stopping.set() or True  # type: ignore[method-assign]
    connection = FakeConnection(FakeSender(*script))
    try:
        client.work(connection)  # type: ignore[arg-type]
    except (ConnectionLost, GivenUp):
        pass
    client.journal.write("done")
    history = read([path])
    assert history.wrong == []
    return {number: transfer.outcome for number, transfer in history.transfers["q", "s1"].items()}, history


def test_a_burst_is_complete(tmp_path):
    outcomes, history = sending(tmp_path)
    assert outcomes == dict.fromkeys(range(1, 6), "completed")
    assert [link.broken for link in history.links.values()] == [False]


def test_refused_numbers_are_the_links_own(tmp_path):
    outcomes, _ = sending(tmp_path, *[None] * 5, refused(NotFound, 2, 3, 5, 5))
    assert outcomes == {1: "completed", 2: "failed", 3: "failed", 4: "completed", 5: "failed"}


def test_what_a_limit_refuses_is_told_apart(tmp_path):
    outcomes, _ = sending(tmp_path, *[None] * 5, refused(ResourceLimitExceeded, 2, 2), refused(NotFound, 4, 4))
    assert outcomes == {1: "completed", 2: "refused", 3: "completed", 4: "failed", 5: "completed"}


def test_refused_numbers_are_the_links_own_with_others_between(tmp_path):
    # Every second one is counted by nobody: the sender's 5 is the producer's 3.
    outcomes, _ = sending(tmp_path, *[None] * 10, refused(NotFound, 5, 6), fleeting=1.0)
    assert outcomes == {1: "completed", 2: "completed", 3: "failed", 4: "completed", 5: "completed"}


def test_a_refusal_told_by_the_next_send_does_not_lose_that_send(tmp_path):
    outcomes, _ = sending(tmp_path, None, None, refused(NotFound, 1, 1))
    assert outcomes == {1: "failed", 2: "completed", 3: "completed", 4: "completed", 5: "completed"}


def test_a_broker_that_cannot_says_nothing_of_the_outcome(tmp_path):
    outcomes, _ = sending(tmp_path, *[None] * 5, refused(Unavailable, 2, 2))
    assert outcomes[2] == "unknown" and outcomes[3] == "completed"


def test_a_slow_answer_is_waited_for(tmp_path):
    outcomes, _ = sending(tmp_path, Full("wait"), *[None] * 5, Timeout("wait"), Timeout("wait"))
    assert set(outcomes.values()) == {"completed"}


@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_lost_connection_leaves_all_unknown(tmp_path, at):
    outcomes, history = sending(tmp_path, *[None] * at, ConnectionLost("gone"))
    assert outcomes == dict.fromkeys(range(1, 6), "unknown")
    assert [link.broken for link in history.links.values()] == [True]


def test_no_answer_for_long_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.chaos.load.PATIENCE_S", 0.0)
    outcomes, _ = sending(tmp_path, *[None] * 5, *[Timeout("wait")] * 3)
    assert outcomes == dict.fromkeys(range(1, 6), "unknown")


# ---- a receiver's journal


class Holding:
    """A hand, its connection and its journal."""

    def __init__(self, tmp_path: Any, queue: str = "q", capacity: int = 10, **options: Any) -> None:
        tmp_path.mkdir(exist_ok=True)
        self.path = tmp_path / "r1.jsonl"
        self.connection = FakeConnection()
        journal = Journal(self.path, "r1")
        names = iter(["r1/1", "r1/2", "r1/3"])
        ids = iter(range(1, 100))
        self.hand = Hand(journal, lambda: next(names), ids, self.connection, queue, capacity, **options)  # type: ignore[arg-type]
        self.queue = queue

    def get(self, position: int) -> None:
        message = Message(body.write(self.queue, "s1", position, b""), **body.options(position, self.queue))
        message.position = position
        self.connection.inbox.append(message)
        assert self.hand.fetch(0.1)

    def sync(self) -> None:
        self.hand.sync(1.0, 1.0, GivenUp)

    def outcomes(self) -> list[tuple[int, str, str, str]]:
        history = read([self.path])
        assert history.wrong == []
        return [(d.position, d.link.id, d.kind, d.outcome) for d in history.deliveries]


@pytest.fixture
def holding(tmp_path) -> Holding:
    return Holding(tmp_path)


def test_a_dead_letter_says_where_it_was_rejected():
    death = {"manta.death_cause": "rejected", "manta.death_queue": "q", "x-death": [], "manta.first_death_ms": 1}
    for number in range(12):
        options = body.options(number)
        properties = (options.pop("properties", None) or {}) | death
        assert body.as_sent(Message(b"", properties=properties, **options), number, "q.dead")
        for wrong in ({"manta.death_cause": "expired"}, {"manta.death_queue": "r"}, {"more": 1}):
            assert not body.as_sent(Message(b"", properties=properties | wrong, **options), number, "q.dead")
        assert not body.as_sent(Message(b"", properties=properties, **options), number, "q")
        assert not body.as_sent(Message(b"", **options), number, "q.dead")


def test_what_a_message_carries_is_looked_at(holding):
    for number in range(12):
        message = Message(b"", **body.options(number))
        assert body.as_sent(message, number)
        message.ttl = 0.02  # its neighbour's
        assert not body.as_sent(message, number)
    holding.get(1)
    holding.connection.inbox.append(Message(body.write("q", "s1", 2, b"")))  # without its ttl
    assert holding.hand.fetch(0.1)
    assert [delivery.damaged for delivery in read([holding.path]).deliveries] == [False, True]


def test_what_nobody_counts_is_not_logged(holding):
    holding.connection.inbox.append(Message(body.write("q", body.FLEETING, 0, b"")))
    assert holding.hand.fetch(0.1)
    assert not read([holding.path]).deliveries


def test_settled_and_lost(holding):
    for position in (1, 2, 3):
        holding.get(position)
    holding.hand.settle("accept", [1, 2])
    holding.hand.settle("release", [3])
    holding.connection.lost += [("q", 2)]
    holding.sync()
    assert holding.outcomes() == [
        (1, "r1/1", "accept", "completed"), (2, "r1/1", "accept", "lost"), (3, "r1/1", "release", "completed"),
    ]  # fmt: skip


def test_lost_again_later_counts_once_more(holding):
    for id in (1, 2):
        holding.get(5)
        holding.hand.settle("accept", [id])
        holding.connection.lost += [("q", 5)] if id == 1 else []
        holding.sync()
    assert [outcome for *_, outcome in holding.outcomes()] == ["lost", "completed"]


def test_lost_once_counts_for_the_first_of_two(holding):
    for id in (1, 2):
        holding.get(5)
        holding.hand.settle("accept", [id])
    holding.connection.lost += [("q", 5)]
    holding.sync()
    assert [outcome for *_, outcome in holding.outcomes()] == ["lost", "completed"]


@pytest.mark.parametrize("first", ["release", "accept"])
def test_of_two_on_their_way_when_the_broker_was_lost_nobody_knows_which_is_told(holding, first):
    holding.get(5)
    holding.hand.settle(first, [1])  # a release is not told as lost, whether or not it counted
    holding.get(5)
    holding.hand.settle("accept", [2])
    holding.connection.interruptions += 1
    holding.connection.lost += [("q", 5)]
    holding.sync()
    assert [outcome for *_, outcome in holding.outcomes()] == ["unknown", "unknown"]


def test_what_was_on_its_way_when_the_broker_was_lost_is_unknown_before_another_has_taken_over(holding):
    holding.get(1)
    holding.hand.settle("accept", [1])
    holding.connection.interruptions += 1
    holding.connection.lost += [("q", 1)]
    holding.sync()
    assert holding.outcomes() == [(1, "r1/1", "accept", "unknown")]


def test_what_was_on_its_way_when_another_broker_took_over_is_unknown(holding):
    holding.get(1)
    holding.hand.settle("accept", [1])
    holding.connection.interruptions += 2
    holding.connection.lost += [("q", 1)]
    holding.sync()
    assert holding.outcomes() == [(1, "r1/1", "accept", "unknown")]


def test_what_was_held_when_another_broker_took_over_is_lost(holding):
    holding.get(1)
    holding.connection.interruptions += 1
    holding.get(1)
    holding.connection.lost += [("q", 1)]  # the client says so of the first when it is settled
    holding.hand.settle("accept", [1])
    holding.hand.settle("accept", [2])
    holding.sync()
    assert holding.outcomes() == [(1, "r1/1", "accept", "lost"), (1, "r1/2", "accept", "completed")]


def test_what_was_fetched_while_a_broker_was_lost_may_be_of_either(holding, monkeypatch):
    fetch = holding.connection.fetch

    def broken(timeout: float) -> Message:
        holding.connection.interruptions += 1
        return fetch(timeout)

    holding.get(1)
    with monkeypatch.context() as patch:
        patch.setattr(holding.connection, "fetch", broken)
        holding.get(2)
    holding.get(3)
    holding.connection.lost += [("q", 1)]
    holding.hand.settle("accept", [1, 2, 3])
    holding.sync()
    told = {position: outcome for position, _, _, outcome in holding.outcomes()}
    assert told == {1: "lost", 2: "unknown", 3: "completed"}
    assert [delivery.unsure for delivery in read([holding.path]).deliveries] == [False, True, False]


def test_what_the_next_broker_gives_before_it_has_all_links_is_its_own(holding):
    """`reconnects` counts it only then; a slow machine has fetched from it by then."""
    holding.get(3)
    holding.connection.interruptions += 1
    holding.get(1)
    holding.get(2)
    links = [(delivery.link.id, delivery.unsure) for delivery in read([holding.path]).deliveries]
    assert links == [("r1/1", False), ("r1/2", False), ("r1/2", False)]


def test_another_broker_is_another_link_opened_before_it_was_noticed(holding):
    holding.get(1)
    checked = next(d.t for d in read([holding.path]).deliveries)
    holding.connection.interruptions += 1
    holding.get(2)
    links = read([holding.path]).links
    assert links["r1/1"].broken and not links["r1/2"].broken
    assert links["r1/2"].opened <= checked


def test_the_only_consumer_says_that_it_goes_on_at_another_broker(holding):
    holding.hand.alone = True
    holding.connection.interruptions += 1
    holding.get(1)
    links = read([holding.path]).links
    assert not links["r1/1"].alone and links["r1/2"].alone and links["r1/2"].resumed


def test_the_only_consumer_that_had_to_wait_for_another_broker_goes_on_with_nothing(tmp_path, monkeypatch):
    def moves(self: FakeConnection, queue: str, capacity: int, **options: Any) -> FakeConnection:
        self.interruptions += 1
        return self

    monkeypatch.setattr(FakeConnection, "receiver", moves)
    holding = Holding(tmp_path, alone=True)
    holding.get(1)
    (link,) = read([holding.path]).links.values()
    assert link.alone and not link.resumed


def test_a_lost_connection_leaves_settlements_unknown(holding):
    holding.get(1)
    holding.hand.settle("reject", [1])
    holding.hand.lost()
    assert holding.outcomes() == [(1, "r1/1", "reject", "unknown")]


@pytest.mark.parametrize(("uncounted", "elsewhere"), [(True, False), (False, True)])
def test_what_is_modified_goes_back_with_a_note_of_its_own(holding, uncounted, elsewhere):
    holding.get(4)
    holding.hand.modify([1], uncounted, elsewhere)
    holding.sync()
    assert holding.connection.modified == [(4, not uncounted, elsewhere, {"r1.1": 1})]
    (delivery,) = read([holding.path]).deliveries
    assert (delivery.kind, delivery.outcome, delivery.note) == ("modify", "completed", "r1.1")
    assert (delivery.uncounted, delivery.elsewhere) == (uncounted, elsewhere)


def test_notes_and_that_somebody_had_it_are_logged(holding):
    message = Message(body.write("q", "s1", 1, b""), **body.options(1))
    message.annotations, message._acquired = {"r2.7": 7, "r1.3": 3}, True  # type: ignore[attr-defined]
    holding.connection.inbox.append(message)
    assert holding.hand.fetch(0.1)
    (delivery,) = read([holding.path]).deliveries
    assert delivery.notes == ("r1.3", "r2.7") and delivery.again and not delivery.new


def test_what_comes_to_a_stopped_receiver_is_logged_so(holding):
    holding.hand.stop()
    holding.get(1)
    holding.hand.start()
    holding.get(2)
    assert [delivery.stopped for delivery in read([holding.path]).deliveries] == [True, False]


def test_a_stopped_receiver_is_so_at_another_broker(holding):
    holding.hand.stop()
    holding.connection.interruptions += 1
    holding.get(1)
    assert [delivery.stopped for delivery in read([holding.path]).deliveries] == [True]


def test_without_a_window_it_is_logged_what_was_asked_for_in_vain(tmp_path):
    for capacity, idles in ((0, 1), (10, 0)):
        holding = Holding(tmp_path / str(capacity), capacity=capacity)
        assert not holding.hand.fetch(0.01)
        assert len(read([holding.path]).links["r1/1"].idles) == idles


def test_what_a_kind_carries_is_looked_at_and_a_selector_is_logged(tmp_path):
    holding = Holding(tmp_path, "x-selected", wants=["k1"])
    holding.get(4)
    holding.connection.inbox.append(Message(body.write("x-selected", "s1", 5, b"")))  # without its key
    assert holding.hand.fetch(0.1)
    history = read([holding.path])
    assert [delivery.damaged for delivery in history.deliveries] == [False, True]
    assert history.links["r1/1"].wants == ("k1",)


@pytest.mark.parametrize("queue", ["x-stamped", "x-stamped.dead"])
def test_a_number_in_the_queue_is_logged_and_a_dead_letter_has_none(tmp_path, queue):
    holding = Holding(tmp_path, queue)
    message = Message(body.write(queue, "s1", 4, b""), **body.options(4, queue))
    message.properties = {**(message.properties or {}), kinds.STAMP: 9}
    holding.connection.inbox.append(message)
    assert holding.hand.fetch(0.1)
    (delivery,) = read([holding.path]).deliveries
    assert (delivery.stamp, delivery.damaged) == ((9, False) if queue == "x-stamped" else (0, True))


def test_since_is_when_the_cluster_had_nothing_more_for_us(holding):
    holding.get(1)
    assert not holding.hand.fetch(0.01)
    holding.get(2)
    first, second = (line for line in read_lines(holding.path) if line["op"] == "deliver")
    assert first["since"] <= first["t"] < second["since"] <= second["t"]


# ---- health


def status(*roles: str, **more: Any) -> ClusterStatus:
    actors = [member(f"a{index}", role) for index, role in enumerate(roles)]
    members = {actor.name: "" for actor in actors if actor.role == "BrokerNode"}
    return replace(report(actors), **{"healthy": True, "members": members} | more)


WANTED = {"BrokerNode": 2, "Sequencer": 1}


def test_a_healthy_cluster():
    assert unwell(status("BrokerNode", "BrokerNode", "Sequencer", "QueueReplica"), WANTED) == []


def test_a_missing_actor():
    assert unwell(status("BrokerNode", "Sequencer"), WANTED) == ["1 of 2 BrokerNode are alive"]


@pytest.mark.parametrize("change", [{"alive": False}, {"error": "silent"}])
def test_an_actor_that_is_dead_or_silent(change):
    one = status("BrokerNode", "BrokerNode", "Sequencer", "QueueReplica")
    alter(one.actors[3], **change)
    assert len(unwell(one, WANTED)) == 1


@pytest.mark.parametrize("change", [{"stage": "linking"}, {"healthy": False}, {"members": {"a0": ""}}])
def test_a_cluster_that_says_that_it_is_not_healthy(change):
    assert len(unwell(status("BrokerNode", "BrokerNode", "Sequencer", **change), WANTED)) == 1


# ---- faults by name


def test_faults_by_name():
    assert faults.parse("none") == faults.parse("") == []
    assert faults.parse("kill-broker, pause-broker") == ["kill-broker", "pause-broker"]
    without = [name for name in faults.FAULTS if name not in faults.STORE_FAULTS]
    assert faults.parse("all") == without
    assert set(faults.parse("kill-*,kill-node")) == {name for name in without if name.startswith("kill-")}
    assert set(faults.FAULTS) >= faults.NODE_FAULTS | faults.STORE_FAULTS
    assert set(faults.parse("durable")) == set(faults.FAULTS) - faults.NODE_FAULTS
    assert faults.parse("power, kill-store") == ["power", "kill-store"]


def test_faults_that_do_not_go_together():
    with pytest.raises(ValueError, match="kill-store and pause-node do not go together"):
        faults.parse("kill-store,pause-node")


def test_an_unknown_fault():
    with pytest.raises(ValueError, match="there is no fault 'kill-brokers'"):
        faults.parse("kill-brokers")


# ---- the recovery table


def test_the_next_message_is_one_sent_after_the_kill():
    pair = recovery.Pair.__new__(recovery.Pair)
    pair._pipes = [FakePipe((1.0, 5.0), (4.0, 6.0)), FakePipe((3.9, 9.0), (4.5, 9.5))]  # type: ignore[list-item]
    assert pair.after(3.95) == (6.0, 9.5)


def test_no_message_after_the_kill_is_told(monkeypatch):
    monkeypatch.setattr(recovery, "LIMIT_S", 0.0)
    pair = recovery.Pair.__new__(recovery.Pair)
    pair._pipes = [FakePipe((1.0, 5.0)), FakePipe()]  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="no message was confirmed"):
        pair.after(3.0)


class FakePipe:
    def __init__(self, *values: tuple[float, float]) -> None:
        self.values = list(values)

    def poll(self, timeout: float) -> bool:
        return bool(self.values)

    def recv(self) -> tuple[float, float]:
        return self.values.pop(0)


def test_figures_have_median_and_most():
    into = Collection()
    for value in (3.0, 1.0, 20.0):
        into.add("nats-r3-memory", "leader", recovery.COMPLETION, "ms", value)
    (figure,) = into.figures()
    assert (figure.median, figure.max, figure.rounds) == (3.0, 20.0, 3)


@pytest.mark.parametrize(("trace", "fine"), [(3, True), (4, False), (None, True)])
def test_a_message_comes_with_its_own_trace_or_none(trace: int | None, fine: bool):
    """As a traced connection sends it, by the product's own part."""
    sent: list[Message] = []
    core = SimpleNamespace(put=sent.append, address="q")
    connection = SimpleNamespace(_conversation=SimpleNamespace(on_sender=None, has_senders=False))
    traced(connection)  # type: ignore[arg-type]
    connection._conversation.on_sender(core)
    message = Message(b"", **body.options(3))
    if trace is None:
        core.put(message)
    else:
        with part_of_its_trace(trace):
            core.put(message)
    assert ("traceparent" in (sent[0].properties or {})) == (trace is not None)
    assert body.as_sent(sent[0], 3) is fine
