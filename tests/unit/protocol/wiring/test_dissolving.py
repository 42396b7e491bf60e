"""Deleted queues whose messages are on their way: out of the wiring, and known until nothing is left of them."""

from __future__ import annotations

from made_up_wiring import bind, exchange, queue, wired
from mantamq.protocol.errors import IN_USE
from mantamq.protocol.wire.deletion_events import Dissolved
from mantamq.protocol.wire.events import DeclareQueue, DeleteExchange, DeleteQueue, InUse, Lost
from mantamq.protocol.wiring.snapshot import WiringSnapshot
from mantamq.protocol.wiring.wiring import Wiring

ALL = {"manta.dead_letters": "all"}


def deleted(aside: bool = True, **more: bool) -> Wiring:
    """A queue with an alternate is deleted, and another of that name declared."""
    mine = DeclareQueue("q", ALL, alternate="lost", **more)
    return wired(
        exchange("lost", "fanout"), mine, bind("amq.fanout", "q"), DeleteQueue("q", aside=aside), queue("q")
    )  # fmt: skip


def test_it_is_found_by_nobody_and_kept():
    wiring = deleted()
    assert [one.id for one in wiring.queues()] == ["q#5"] and [one.id for one in wiring.all_kept()] == ["q#5", "q#2"]
    assert wiring.by_id("q#2") is None and wiring.kept("q#2") is not None
    assert wiring.route("amq.fanout", "") == () and wiring.route("", "q") == ("q#5",)
    assert wiring.apply(InUse("q#2", "b1", 1, True), 9).code == "not-found"


def test_its_alternate_stays_until_nothing_is_left():
    wiring = deleted()
    refused = wiring.apply(DeleteExchange("lost"), 9)
    assert refused.code == IN_USE and "q (deleted, and not empty yet)" in refused.text
    done = wiring.apply(Dissolved("q#2", 3), 10)
    assert done.changed and done.queue is not None and done.queue.id == "q#2"
    assert not wiring.apply(Dissolved("q#2", 3), 11).changed, "another broker says it, too"
    assert [one.id for one in wiring.all_kept()] == ["q#5"] and not wiring.apply(DeleteExchange("lost"), 12).code


def test_a_snapshot_tells_of_it():
    wiring = deleted()
    again = Wiring.restore(wiring.snapshot())
    assert again.digest() == wiring.digest() and again.kept("q#2") == wiring.kept("q#2")
    assert again.apply(DeleteExchange("lost"), 9).code == IN_USE
    at = WiringSnapshot.__struct_fields__.index("dissolving")
    older = Wiring.restore(wiring.snapshot()[:at])
    assert older.kept("q#2") is None


def test_one_that_is_lost_meanwhile_is_gone_unless_its_disks_may_be_put_back():
    wiring = deleted()
    assert wiring.apply(Lost("q#2"), 9).changed and not wiring.dissolving
    wiring = deleted(durable=True)
    assert not wiring.apply(Lost("q#2"), 9).changed and wiring.kept("q#2") is not None
    assert wiring.apply(Lost("q#2", True, True), 10).changed and not wiring.dissolving
    assert wiring.queue("q") is not None, "the one that has its name now is another"


def test_without_a_word_for_it_or_an_alternate_it_goes_at_once():
    assert not deleted(aside=False).dissolving
    wiring = wired(queue("q", **ALL), DeleteQueue("q", aside=True))
    assert not wiring.dissolving
    wiring = wired(exchange("lost"), queue("q", "lost"), DeleteQueue("q", aside=True))
    assert not wiring.dissolving, "only what is rejected goes to its alternate"
