"""What is sent to one queue comes into another, as every broker applies it."""

from __future__ import annotations

import pytest
from made_up_wiring import bind, exchange, link, names, queue, queues, to, wired
from mantamq.protocol.errors import EXISTS, IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND
from mantamq.protocol.wire.events import DeclareQueue, DeleteQueue, Lost, decode_event, encode_event
from mantamq.protocol.wire.redirect_events import Redirect
from mantamq.protocol.wiring.wiring import Wiring


def test_every_way_to_the_source_leads_to_the_target():
    wiring = wired(
        *queues("a", "b", "other"), exchange("e"), bind("e", "a", "k"), bind("e", "other", "k"), exchange("f", "fanout"),
        link("f", "e"), exchange("none", alternate="e"), exchange("h", "headers"), bind("h", "a", "", c=1),
        Redirect("a", "b"),
    )  # fmt: skip
    assert to(wiring, "", "a") == ["b"] and to(wiring, "", "b") == ["b"], "what is sent to the target stays there"
    assert to(wiring, "e", "k") == ["b", "other"]
    assert to(wiring, "f", "k") == ["b", "other"] and to(wiring, "none", "k") == ["b", "other"]
    assert to(wiring, "h", headers={"c": 1}) == ["b"]
    assert names(wiring.route_by_any("e", ["k", "x"])) == ["b", "other"]
    assert names(wiring.route_own("", "a")) == ["a"] and wiring.route_own("", "nobody") == ()
    leads = wiring.leads("a")
    assert leads is not None and leads.name == "b" and wiring.leads("nobody") is None


def test_a_message_for_both_comes_once():
    wiring = wired(*queues("a", "b"), exchange("e", "fanout"), bind("e", "a"), bind("e", "b"), Redirect("a", "b"))
    assert to(wiring, "e") == ["b"]


def test_several_queues_have_one_target():
    wiring = wired(*queues("a", "b", "c"), Redirect("a", "c"), Redirect("b", "c"))
    assert to(wiring, "", "a") == to(wiring, "", "b") == ["c"]
    assert wiring.redirects.to("c") == ["a", "b"]


def test_it_ends():
    wiring = wired(*queues("a", "b"), Redirect("a", "b"))
    assert to(wiring, "", "a") == ["b"], "the route is kept"
    assert wiring.apply(Redirect("a"), 9).changed
    assert to(wiring, "", "a") == ["a"]
    assert wiring.apply(Redirect("a"), 10).code == NOT_FOUND


def test_again_changes_nothing():
    wiring = wired(*queues("a", "b"), Redirect("a", "b"))
    again = wiring.apply(Redirect("a", "b"), 9)
    assert (again.code, again.changed) == ("", False)


@pytest.mark.parametrize("gone", [DeleteQueue("b"), Lost("b#2")])
def test_it_ends_with_its_target(gone):
    wiring = wired(*queues("a", "b"), Redirect("a", "b"), gone)
    assert to(wiring, "", "a") == ["a"] and not wiring.redirects.of
    assert wiring.apply(queue("b"), 9).changed
    assert to(wiring, "", "a") == ["a"], "another queue of that name is no target"


def test_it_ends_with_its_source():
    wiring = wired(*queues("a", "b"), Redirect("a", "b"), DeleteQueue("a"))
    assert to(wiring, "", "a") == [] and not wiring.redirects.of and wiring.redirects.to("b") == []
    assert wiring.apply(queue("a"), 9).changed
    assert to(wiring, "", "a") == ["a"]


@pytest.mark.parametrize(
    ("event", "code", "why"),
    [
        (Redirect("a", "a"), INVALID, "queue 'a' cannot be redirected to itself: name another queue"),
        (Redirect("a", "x"), NOT_FOUND, "there is no queue 'x': declare it first"),
        (Redirect("x", "a"), NOT_FOUND, "there is no queue 'x': declare it first"),
        (Redirect("s", "a"), EXISTS, "queue 's' is redirected to 't': end that first"),
        (Redirect("a", "s"), NOT_ALLOWED, "queue 's' is itself redirected, to 't': redirect to that one"),
        (Redirect("t", "a"), NOT_ALLOWED, "queue 's' is redirected to 't': end that first"),
        (Redirect("t", "s"), NOT_ALLOWED, "queue 's' is itself redirected"),
        (Redirect("a"), NOT_FOUND, "queue 'a' is not redirected"),
        (Redirect("mine", "a", "c1"), IN_USE, "queue 'mine' is exclusive to another connection"),
        (Redirect("a", "mine", "c1"), IN_USE, "queue 'mine' is exclusive to another connection"),
        (Redirect("manta.exchange.n", "a"), NOT_ALLOWED, "belongs to exchange 'n': redirect other queues"),
        (Redirect("a", "manta.exchange.n"), NOT_ALLOWED, "belongs to exchange 'n': redirect other queues"),
    ],
)
def test_what_is_refused(event, code, why):
    own = DeclareQueue("manta.exchange.n", {"manta.exchange": "n"})
    mine = DeclareQueue("mine", {"manta.exclusive": True}, client="c2", broker="b1", inc=1, life=1)
    wiring = wired(*queues("a", "s", "t"), Redirect("s", "t"), own, exchange("n", **{"qpid.msg_sequence": True}), mine)
    before = wiring.digest()
    outcome = wiring.apply(event, 20)
    assert outcome.code == code and why in outcome.text, outcome
    assert wiring.digest() == before


def test_a_client_may_redirect_its_own():
    mine = DeclareQueue("mine", {"manta.exclusive": True}, client="c2", broker="b1", inc=1, life=1)
    assert to(wired(*queues("a"), mine, Redirect("mine", "a", "c2")), "", "mine") == ["a"]


def test_a_broker_that_begins_anew_knows_of_it():
    wiring = wired(*queues("a", "b"), exchange("e", "fanout"), bind("e", "a"), Redirect("a", "b"))
    again = Wiring.restore(wiring.snapshot())
    assert again.digest() == wiring.digest() and to(again, "e") == to(again, "", "a") == ["b"]
    assert again.apply(Redirect("a"), 9).changed and to(again, "e") == ["a"]
    older = Wiring.restore(wiring.snapshot()[:14])
    assert to(older, "", "a") == ["a"], "an older program tells of none"


def test_it_shows_in_the_digest():
    one, two = wired(*queues("a", "b")), wired(*queues("a", "b"), Redirect("a", "b"))
    assert one.digest() != two.digest()


def test_an_event_is_what_it_was():
    assert decode_event(encode_event(Redirect("a", "b", "c"))) == Redirect("a", "b", "c")


def test_what_goes_on_from_an_exchanges_own_queue_is_redirected():
    own = DeclareQueue("manta.exchange.n", {"manta.exchange": "n"})
    wiring = wired(*queues("a", "b"), own, exchange("n", **{"qpid.msg_sequence": True}), bind("n", "a", "k"))
    wiring.apply(Redirect("a", "b"), 9)
    assert names(wiring.route_onward("n", "k")) == ["b"]
    assert names(wiring.as_of("n", 1).route_onward("n", "k")) == [], "the binding is newer"
    assert names(wiring.as_of("n", 5).route_onward("n", "k")) == ["b"]
