"""Queues that can never have a majority again: when they are dropped, when an operator is asked, and who hears it."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.sequencer import lost_queues, majorities
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detached,
    Failed,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.events import CLUSTER, Lost, decode_event
from mantamq.protocol.wire.log_frames import Append, HeartbeatReply
from mortal_cluster import MortalCluster
from msgspec.structs import replace

EVERYWHERE = ("b1", "b2", "b3")


class Case:
    """A cluster with a queue `q` of two messages, and a sender and a receiver of it at each broker."""

    def __init__(self, replicas: int = 1, durable: bool = False, **options: Any) -> None:
        self.cluster = MortalCluster(replicas=replicas, **options)
        self.cluster.add_sequencer()
        self.clients = {broker: self.cluster.client(broker) for broker in EVERYWHERE}
        assert not self["b3"].command("declare_queue", name="q", durable=durable).code
        self["b3"].command("bind", exchange="amq.fanout", queue="q")
        for client in self.clients.values():
            client.send(AttachSender(1, "", "q"), AttachReceiver(2, "q"), AttachSender(3, "amq.fanout", ""))
        self["b3"].send(Transfer(1, 1, [b"one", b"two"]))
        self.cluster.pass_time(1000)
        for client in self.clients.values():
            client.got.clear()

    def __getitem__(self, broker: str) -> Any:
        return self.clients[broker]

    def lose(self, *brokers: str, back: bool = True) -> None:
        """The replicas of `q` at these brokers die, and others come."""
        replicas = [self.cluster.replica(broker, "q") for broker in brokers]
        self.cluster.kill(*replicas)
        for broker in brokers if back else ():
            self.cluster.add_replica(broker)

    def reset(self, broker: str, ms: int = 4000, **more: Any) -> Any:
        """The answer to `reset_queue`; it takes a beat, or as long as somebody may have yet to speak."""
        client = self.clients[broker]
        client.commands += 1
        client.send(Command(client.commands, "reset_queue", {"name": "q"} | more))
        self.cluster.pass_time(ms)
        (reply,) = [one for one in client.take(Reply) if one.number == client.commands]
        return reply

    def there(self) -> list[bool]:
        """Whether each broker's wiring has it."""
        machines = self.cluster.machines
        return [machines[b].wiring.queue("q") is not None for b in EVERYWHERE if b in machines]

    def fate(self) -> list[str]:
        report = self.cluster.machines["b3"].report()
        return [w.fate for w in report.waiting if w.stream.startswith("q#")]


def test_all_replicas_die_so_the_queue_goes_and_everybody_hears_it():
    case = Case()
    case.lose(*EVERYWHERE)
    case.cluster.pass_time(3000)
    assert case.there() == [False] * 3
    for client in case.clients.values():
        ended = {one.handle: one for one in client.take(Detached)}
        assert ended[1].code == "lost" and "declare it again" in ended[1].text
        assert ended[2].code in ("lost", "unavailable"), "its replica's death may have ended it before"
        assert 3 not in ended, "an exchange stays"
    assert not case["b1"].command("declare_queue", name="q").code, "its name is free"
    case["b2"].send(AttachSender(9, "", "q"), Transfer(9, 1, [b"new"]))
    case.cluster.pass_time(1000)
    assert case["b2"].take(Completed)
    assert {state.available.count for state in case.cluster.queue_states("q")} == {1}
    assert case.cluster.leader().report().waiting == []


def test_whoever_still_has_it_keeps_it_until_an_operator_says_so():
    case = Case()
    case.lose("b1", "b2")
    case.cluster.pass_time(30_000)
    assert case.there() == [True] * 3 and case.fate() == ["reset"]
    reply = case.reset("b1")
    assert (reply.code, reply.value) == ("", {"changed": True})
    assert case.there() == [False] * 3, "when it is answered, every broker shows it"
    assert [one.code for one in case["b3"].take(Detached)] == ["lost", "lost"]
    assert not case["b3"].command("declare_queue", name="q").code


def _on_disk(patch: pytest.MonkeyPatch) -> None:
    """Queues may be durable, and their voters say that their logs are on disk."""
    report = Keeper.log_report
    patch.setattr(BrokerMachine, "stored", True)
    patch.setattr(Keeper, "log_report", lambda self: replace(report(self), stored=self.stream != CLUSTER))


def a_durable_queue_is_only_given_up_by_an_operator_who_says_so(monkeypatch):
    """Its disks may be put back, even if nobody who is here has anything of it."""
    _on_disk(monkeypatch)
    case = Case(durable=True)
    case.lose(*EVERYWHERE)
    case.cluster.pass_time(60_000)
    assert not any(isinstance(one, Lost) for one in ordered(case)), "nobody has asked for it"
    assert case.there() == [True] * 3 and case.fate() == ["reset"]
    reply = case.reset("b1")
    assert reply.code == "not-allowed" and "is durable" in reply.text and "--even-durable" in reply.text
    assert case.there() == [True] * 3
    assert case.reset("b1", even_durable=True).value == {"changed": True}
    assert case.there() == [False] * 3
    assert {one.code for one in case["b3"].take(Detached)} >= {"lost"}


def ordered(case: Case) -> list[Any]:
    """The events of the cluster stream, as they were sent."""
    sent = [frame for _, _, frame in case.cluster.traffic if isinstance(frame, Append) and frame.stream == CLUSTER]
    return [decode_event(entry.event) for frame in sent for entry in frame.entries]


def test_a_durable_queue_is_only_given_up_by_an_operator_who_says_so(monkeypatch):
    a_durable_queue_is_only_given_up_by_an_operator_who_says_so(monkeypatch)


def test_planted_a_durable_queue_is_lost_like_any(monkeypatch):
    made = majorities.roll
    forgetful = lambda *asked: made(*asked)._replace(durable=False)  # noqa: E731
    monkeypatch.setattr(majorities, "roll", forgetful)
    monkeypatch.setattr(lost_queues, "roll", forgetful)
    with pytest.raises(AssertionError, match="nobody has asked"):
        a_durable_queue_is_only_given_up_by_an_operator_who_says_so(monkeypatch)


def test_what_is_left_of_a_durable_queue_is_named(monkeypatch):
    _on_disk(monkeypatch)
    case = Case(durable=True)
    case.lose("b1", "b2")
    case.cluster.pass_time(30_000)
    text = case.reset("b1").text
    assert "left of it, at b1, b2, b3: stop b1, b2 and put their disks back" in text, (
        "two were updated, and do not vote"
    )


def test_what_is_left_can_be_browsed():
    case = Case()
    case.lose("b1", "b2")
    case["b3"].send(AttachReceiver(5, "q", "browse"), Flow(5, 10))
    case.cluster.pass_time(1000)
    assert [d.blobs for d in case["b3"].take(Delivery) if d.handle == 5] == [[b"one", b"two"]]


def test_so_it_can_where_the_cluster_has_no_majority():
    case = Case()
    case.cluster.kill("b1", "b2", "sequencer", "sequencer2")
    case["b3"].send(AttachReceiver(5, "q", "browse"), Flow(5, 10))
    case.cluster.pass_time(100)
    assert [d.blobs for d in case["b3"].take(Delivery) if d.handle == 5] == [[b"one", b"two"]]


@pytest.mark.parametrize("lost", [("b1",), ()])
def test_a_queue_with_its_majority_is_not_reset(lost):
    case = Case()
    case.lose(*lost, back=False)
    reply = case.reset("b2")
    assert reply.code == "not-allowed" and "has its majority" in reply.text
    assert case.there() == [True] * 3


def test_a_queue_that_waits_for_somebody_is_not_reset():
    case = Case()
    case.lose("b1", "b2", back=False)
    case.cluster.pass_time(60_000)
    reply = case.reset("b2")
    assert reply.code == "not-allowed" and "waits for b1, b2" in reply.text and "queue delete" in reply.text
    case.cluster.add_replica("b1")  # a minority of blanks
    case.cluster.pass_time(60_000)
    assert case.reset("b2").code == "not-allowed"
    assert case.there() == [True] * 3


def test_who_is_missing_may_have_it_for_ten_seconds():
    """Two are blank, and the third is not there: it may come back, with what it holds."""
    case = Case()
    case.lose(*EVERYWHERE, back=False)
    case.cluster.pass_time(2000)
    case.cluster.add_replica("b1")
    case.cluster.add_replica("b2")
    case.cluster.pass_time(6000)
    assert case.there() == [True] * 3
    case.cluster.pass_time(6000)
    assert case.there() == [False] * 3


def a_minority_of_blanks_is_no_loss():
    """Nobody who is here has anything of it, and two are away: those may come back with all of it."""
    case = Case()
    case.lose(*EVERYWHERE, back=False)
    case.cluster.add_replica("b1")
    case.cluster.pass_time(60_000)
    assert case.there() == [True] * 3 and case.fate() == ["waits"]


def test_a_minority_of_blanks_is_no_loss():
    a_minority_of_blanks_is_no_loss()


def test_planted_a_minority_of_blanks_is_enough(monkeypatch):
    monkeypatch.setattr(majorities.Roll, "hopeless", lambda self: bool(self.certain))
    with pytest.raises(AssertionError):
        a_minority_of_blanks_is_no_loss()


def test_a_sequencer_that_takes_over_finds_it_again():
    case = Case()
    case.lose(*EVERYWHERE)
    case.cluster.kill("sequencer")
    case.cluster.pass_time(8000)
    assert case.cluster.leader().uid == 102
    assert case.there() == [False] * 3


def test_it_asks_everybody_first():
    """Of a log it has not adopted it does not know who votes: one who is missing may."""
    case = Case()
    case.lose(*EVERYWHERE, back=False)
    case.cluster.kill("sequencer")
    case.cluster.add_replica("b1")
    case.cluster.add_replica("b2")
    case.cluster.pass_time(30_000)
    assert case.there() == [True] * 3 and case.fate() == ["waits"]
    assert case.reset("b2").code == "not-allowed"
    case.cluster.add_replica("b3")
    case.cluster.pass_time(3000)
    assert case.there() == [False] * 3


def test_a_reset_outlives_the_leader():
    case = Case()
    case.lose("b1", "b2")
    case.cluster.pass_time(2000)
    case.cluster.kill("sequencer")
    assert not case.reset("b1", 8000).code
    assert case.there() == [False] * 3


def test_what_was_on_its_way_is_told_to_have_failed():
    """To the queue itself, and by an exchange; and whoever has asked for something hears that, too."""
    case = Case()
    case.lose("b1", "b2")
    case.cluster.pass_time(2000)
    client = case["b3"]
    client.send(Transfer(3, 1, [b"three"]), Command(77, "purge", {"name": "q"}))
    assert not client.take(Completed)
    assert not case.reset("b1").code
    assert [(one.handle, one.code) for one in client.take(Failed)] == [(3, "lost")]
    assert [(one.number, one.code) for one in client.take(Reply)] == [(77, "lost")]
    assert not client.take(Completed)
    client.send(Transfer(3, 2, [b"four"]))
    assert client.take(Completed), "the exchange goes on"


def test_an_older_member_would_keep_it():
    """So nothing is dropped until it has been upgraded."""
    case = Case()
    post = case.cluster.post

    def older(source: str, target: str, frame: Any) -> None:
        if isinstance(frame, HeartbeatReply) and source == "b2":
            frame = HeartbeatReply(frame.ballot, frame.number, frame.broker, frame.inc)
        post(source, target, frame)

    case.cluster.post = older
    case.lose(*EVERYWHERE)
    case.cluster.pass_time(5000)
    assert case.there() == [True] * 3
    reply = case.reset("b1")
    assert reply.code == "unavailable" and "b2 must be upgraded" in reply.text
    case.cluster.post = post
    case.cluster.pass_time(3000)
    assert case.there() == [False] * 3


def test_nothing_is_dropped_where_the_cluster_has_no_majority():
    case = Case()
    case.lose(*EVERYWHERE)
    case.cluster.kill("b1", "b2")
    case.cluster.pass_time(30_000)
    assert case.there() == [True]
    case.cluster.add_broker("b1")
    case.cluster.add_broker("b2")
    case.cluster.pass_time(30_000)
    assert case.cluster.machines["b3"].wiring.queue("q") is not None


def test_there_is_no_such_queue():
    case = Case()
    assert case["b1"].command("reset_queue", name="other").code == "not-found"


def test_what_waits_for_a_queue_that_cannot_be_adopted_holds_nothing_else_up():
    """Not even of the same broker: each stream's trouble is its own."""
    case = Case(replicas=2)
    client = case["b3"]
    client.command("declare_queue", name="other")
    client.command("bind", exchange="amq.fanout", queue="other")
    client.send(AttachSender(4, "", "other"))
    case.lose("b1", "b2")
    case.cluster.kill("sequencer")
    case.cluster.pass_time(5000)
    client.send(Transfer(1, 3, [b"waits"]))
    client.send(Transfer(3, 1, [b"waits in part"]))
    client.send(Transfer(4, 1, [b"goes on"]))
    case.cluster.pass_time(1000)
    assert [done.handle for done in client.take(Completed)] == [4]
    assert {state.available.count for state in case.cluster.queue_states("other")} == {2}
    assert not case.reset("b1").code
    case.cluster.pass_time(1000)
    assert {one.handle for one in client.take(Failed)} >= {3}
