"""A client that asks about queues hears of those that cannot answer, and of the others with them."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.cli import wiring
from mantamq.client.cli.console import out
from mantamq.protocol.wire.client_frames import AttachSender, Command, Reply, Transfer
from mantamq.protocol.wire.queue_frames import QueueCommand
from mortal_cluster import MortalCluster


class Case:
    """Queue `q` has lost two of its three replicas, and has no majority until they are back; `r` has all."""

    def __init__(self) -> None:
        self.cluster = MortalCluster(replicas=2)
        self.cluster.add_sequencer()
        self.client = self.cluster.client("b3")
        for number, name in enumerate("qr", 1):
            self.client.command("declare_queue", name=name)
            self.client.send(AttachSender(number, "", name), Transfer(number, 1, [b"one"]))
        assert self.cluster.replica("b1", "q") != self.cluster.replica("b1", "r")
        self.cluster.pass_time(1000)

    def lose(self) -> None:
        self.cluster.kill(self.cluster.replica("b1", "q"), self.cluster.replica("b2", "q"))

    def ask(self, what: str, ms: int, **arguments: Any) -> Reply | None:
        """The answer that comes within that time."""
        self.client.commands += 1
        self.client.send(Command(self.client.commands, what, arguments))
        self.cluster.pass_time(ms)
        return next((one for one in self.client.take(Reply) if one.number == self.client.commands), None)


def test_a_list_names_the_queue_that_has_no_majority_and_counts_the_others():
    case = Case()
    case.lose()
    reply = case.ask("queues", 3000)
    assert reply is not None and not reply.code
    q, r = reply.value
    assert (q["name"], "messages" in q, q["durable"]) == ("q", False, False)
    assert q["error"] == "queue 'q' has no majority of its replicas and answers nothing: see `mantamq status`"
    assert (r["name"], r["messages"], "error" in r) == ("r", 1, False)


def test_one_that_is_asked_alone_says_so():
    case = Case()
    case.lose()
    reply = case.ask("queue", 3000, name="q")
    assert reply is not None and reply.code == "unavailable" and "'q' has no majority" in reply.text
    reply = case.ask("delete_queue", 3000, name="q", if_empty=True)
    assert reply is not None and reply.code == "unavailable"
    assert {one["name"] for one in case.ask("queues", 3000).value} == {"q", "r"}, "it was not deleted"


def test_what_changes_the_queue_waits_and_is_answered_when_it_has_happened():
    case = Case()
    case.lose()
    assert case.ask("purge", 8000, name="q") is None


def test_a_list_does_not_wait_for_a_queue_that_is_silent_for_another_reason():
    case = Case()
    case.cluster.hold(QueueCommand)
    reply = case.ask("queues", 6000)
    assert reply is not None and not reply.code
    assert all(f"queue '{one['name']}' has not answered for 5 s" in one["error"] for one in reply.value)
    assert case.ask("queue", 8000, name="q") is None, "it may be slow, and is waited for"


def test_tables_have_their_rows_and_say_why_numbers_are_missing(capsys: pytest.CaptureFixture[str]):
    silent = {"name": "q", "error": "queue 'q' has no majority"}
    whole = {"name": "r", "messages": 3, "enqueued": 5, "dequeued": 2, "handovers": 1, "owner": "b1"}
    wiring._tell_silent([silent, whole], False)
    assert capsys.readouterr().out == "queue 'q' has no majority\n"
    for before in ({}, {"q": whole, "r": silent}, {"q": silent, "r": whole}):
        out.print(wiring._rates([silent, whole], before, 1.0))
        assert "it does not answer" in capsys.readouterr().out
